"""Numbers: what is read is exact, what is rounded is rounded outward, what is decided is decided."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import polars as pl
import pytest
from flint import arb
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privpac.errors import ParameterError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, as_arb, ball_of, dyadic_base, exp_ball, precision, rational, up

F = Fraction
small = st.fractions(min_value=-20, max_value=20, max_denominator=60)
positive = st.fractions(min_value=F(1, 10**12), max_value=50, max_denominator=10**12)


def enclosure(compute: Any, digits: int = 60) -> tuple[Fraction, Fraction]:
    """An interval from another library, as rationals."""
    with mpmath.workdps(digits):
        mpmath.iv.dps = digits
        x = compute(mpmath.iv)
        return tuple(F(int(m) * (-1) ** s) * F(2) ** int(e) for s, m, e, _ in (x._mpi_[0], x._mpi_[1]))  # type: ignore[return-value]


def interval(x: Fraction, iv: Any) -> Any:
    return iv.mpf(x.numerator) / iv.mpf(x.denominator)


# Reading


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, F(1, 10)),
        (np.float64(0.1), F(1, 10)),
        (np.float32(0.5), F(1, 2)),
        (np.int32(3), F(3)),
        (np.array(0.3), F(3, 10)),
        (np.array([0.3]), F(3, 10)),
        ("0.3", F(3, 10)),
        (" 1/3 ", F(1, 3)),
        ("2.5E-1", F(1, 4)),
        (Decimal("0.3"), F(3, 10)),
        (F(2, 6), F(1, 3)),
        (7, F(7)),
        (1e308, F(10**308)),
        (5e-324, F(5, 10**324)),
        (-0.0, F(0)),
        ("1e-4096", F(1, 10**4096)),
    ],
)
def test_numbers_are_read_as_they_are_written(written: Any, meant: Fraction) -> None:
    assert rational(written) == meant
    assert isinstance(rational(written), Fraction)


def test_integers_of_any_length_are_read() -> None:
    assert rational(10**5000) == 10**5000


def test_a_tenth_and_two_tenths_are_three_tenths() -> None:
    assert rational(0.1) + rational(0.2) == rational(0.3)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_its_shortest_decimal(x: float) -> None:
    assert rational(x) == F(Decimal(repr(x)))
    assert float(rational(x)) == x


@pytest.mark.parametrize(
    "wrong",
    [
        True,
        False,
        np.True_,
        None,
        [1],
        (1,),
        {"a": 1},
        b"1",
        1j,
        object(),
        np.array([1, 2]),
        np.array([]),
        pl.Series([1]),
    ]
    + [np.datetime64("2020-01-01", "ns"), np.timedelta64(5, "ns"), lambda: 1],
)
def test_what_is_not_one_number_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="epsilon must be"):
        rational(wrong, "epsilon")


@pytest.mark.parametrize(
    "wrong",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        np.float64("nan"),
        np.array([np.nan]),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
    ]
    + ["", "nan", "inf", "abc", "1/0", "1//2", "0x10", "1e", "--1", "9" * 5000, Decimal("1e5000"), Decimal("1e-5000")],
)
def test_what_is_not_finite_is_a_parameter_error(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon must be a finite number"):
        rational(wrong, "epsilon")


@pytest.mark.parametrize("wrong", ["1e999999999", "1E-999999999", "1e+99999"])
def test_a_huge_exponent_is_refused_without_being_computed(wrong: str) -> None:
    with pytest.raises(ParameterError, match="finite number"):
        rational(wrong)


def test_limits_are_exact_and_named() -> None:
    tenth = F(1, 10)
    assert rational("0.1", minimum=0.1, maximum=0.1) == tenth
    for limit in ({"minimum": "0.1000001"}, {"maximum": "0.0999999"}, {"above": 0.1}, {"below": 0.1}):
        with pytest.raises(ParameterError, match=r"q must be [<>]=? 0\.1?.*got 0\.1"):
            rational(0.1, "q", **limit)


def test_an_error_about_an_enormous_number_is_still_a_parameter_error() -> None:
    with pytest.raises(ParameterError, match="more than 4300 digits"):
        rational(-(10**5000), "epsilon", minimum=0)


# Rounding up


@given(positive)
@settings(max_examples=60, deadline=None)
def test_up_is_never_below_and_at_most_one_unit_of_64_bits_above(x: Fraction) -> None:
    for name in ("exp", "log", "sqrt"):
        lo, hi = enclosure(lambda iv: getattr(iv, name)(interval(1 + x, iv)))  # noqa: B023
        got = up(lambda: getattr(as_arb(1 + x), name)())  # noqa: B023
        assert lo <= got
        assert got <= hi * (1 + F(1, 2**62))
        assert (got.numerator >> _trailing_zeros(got.numerator)).bit_length() <= 64


def _trailing_zeros(n: int) -> int:
    return (n & -n).bit_length() - 1


@given(st.integers(1, 2**64 - 1), st.integers(-300, 300))
def test_up_keeps_what_already_has_64_bits(mantissa: int, exponent: int) -> None:
    x = F(mantissa) * F(2) ** exponent
    assert up(lambda: as_arb(x)) == x


def test_up_rounds_a_rational_that_is_not_dyadic_strictly_up() -> None:
    got = up(lambda: as_arb(F(1, 3)))
    assert 0 < got - F(1, 3) < F(1, 2**64)


def test_up_of_zero_and_of_negatives_is_zero() -> None:
    assert up(lambda: arb(0)) == 0
    assert up(lambda: as_arb(F(-1, 3))) == 0


@pytest.mark.parametrize("digits", [25, 80])
def test_up_raises_precision_until_cancellation_is_gone(digits: int) -> None:
    """e**t - 1 is between t + t*t/2 and that plus t**3: at the first precision few or no bits of it are right."""
    tiny = F(1, 10**digits)
    least = tiny + tiny * tiny / 2
    assert least < up(lambda: exp_ball(tiny) - 1) < (least + tiny**3) * (1 + F(1, 2**62))


@pytest.mark.parametrize(
    "compute",
    [
        lambda: as_arb(-1).sqrt(),
        lambda: arb(0).log(),
        lambda: exp_ball(F(10**400)),
        lambda: exp_ball(F(1)) - exp_ball(F(1)),
    ],
)
def test_up_gives_up_rather_than_guess(compute: Any) -> None:
    with pytest.raises(Undecided):
        up(compute)


# Balls


def test_a_ball_encloses_and_can_be_clipped() -> None:
    with precision(64):
        ball = ball_of(exp_ball(F(1)))
        clipped = ball_of(arb(1, 2), floor=F(0), ceiling=F(1))
    lo, hi = enclosure(lambda iv: iv.e)
    assert ball.lo <= lo <= hi <= ball.hi
    assert ball.width < F(1, 2**58)
    assert clipped == Ball(F(0), F(1))
    assert "0.5" in clipped
    assert 2 not in clipped
    assert float(clipped) == 0.5


@given(small)
def test_rationals_enter_balls_without_loss(x: Fraction) -> None:
    with precision(53):
        assert x in ball_of(as_arb(x))
        assert ball_of(as_arb(x.numerator)) == Ball(F(x.numerator), F(x.numerator))


def test_precision_is_restored_and_not_mixed_between_threads() -> None:
    import flint

    before = flint.ctx.prec
    seen: list[int] = []

    def work(bits: int) -> None:
        for _ in range(50):
            with precision(bits):
                seen.append(flint.ctx.prec - bits)

    threads = [threading.Thread(target=work, args=(100 + i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with pytest.raises(ZeroDivisionError), precision(300):
        raise ZeroDivisionError
    assert set(seen) == {0}
    assert flint.ctx.prec == before


@pytest.mark.parametrize(("bits", "error"), [(-3, ValueError), (0, ValueError), ("64", TypeError), (None, TypeError)])
def test_precision_refuses_what_is_not_a_number_of_bits(bits: Any, error: type[Exception]) -> None:
    with pytest.raises(error), precision(bits):
        pass


# A rational just below e**a


@given(st.fractions(min_value=0, max_value=30, max_denominator=1000))
@settings(max_examples=60, deadline=None)
def test_dyadic_base_is_the_largest_multiple_of_two_to_the_minus_32_below_e_to_the_a(a: Fraction) -> None:
    lo, hi = enclosure(lambda iv: iv.exp(interval(a, iv)))
    base = dyadic_base(a)
    assert (base * 2**32).denominator == 1
    assert base <= hi
    assert lo < base + F(1, 2**32)


def test_dyadic_base_of_zero_is_one_and_grows() -> None:
    assert dyadic_base(0) == 1
    assert dyadic_base("1e-12") == 1
    assert dyadic_base(1) == F(11674931554, 2**32)
    assert 2**57_000 < dyadic_base(40_000) < 2**58_000


@pytest.mark.parametrize(
    ("a", "error"),
    [
        (-1, ParameterError),
        (float("nan"), ParameterError),
        (True, TypeError),
        (None, TypeError),
        (np.ones(2), TypeError),
    ]
    + [(10**400, ParameterError), (40_001, ParameterError), ("1e4096", ParameterError)],
)
def test_dyadic_base_refuses(a: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="a must be"):
        dyadic_base(a)


# Exponential sums

sums = st.lists(
    st.tuples(st.fractions(-4, 4, max_denominator=6), st.fractions(-9, 9, max_denominator=8)), max_size=5
).map(ExpSum)


def numeric(s: ExpSum) -> mpmath.mpf:
    return mpmath.fsum(
        mpmath.mpf(a.numerator) / a.denominator * mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) for x, a in s
    )


@given(sums, sums, sums)
@settings(deadline=None)
def test_exponential_sums_are_a_commutative_ring(a: ExpSum, b: ExpSum, c: ExpSum) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert a * (b + c) == a * b + a * c
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a - a == 0
    assert (a - a).sign() == 0
    assert a + 0 == a == a * 1
    assert 2 * a == a + a
    assert F(1, 2) + a == a + F(1, 2)


@given(sums, sums)
@settings(deadline=None)
def test_signs_agree_with_independent_arithmetic(a: ExpSum, b: ExpSum) -> None:
    with mpmath.workdps(80):
        difference = numeric(a) - numeric(b)
        assume(difference == 0 or abs(difference) > mpmath.mpf(10) ** -60)
        assert (a - b).sign() == mpmath.sign(difference)
        assert a.sign() * b.sign() == (a * b).sign()


def test_a_difference_in_the_200th_digit_is_decided() -> None:
    """The Taylor sum of e with 130 terms is below e by less than 1e-217."""
    taylor, term = F(0), F(1)
    for i in range(1, 131):
        taylor, term = taylor + term, term / i
    assert (ExpSum.exp(F(1)) - taylor).sign() == 1
    assert (ExpSum.of(taylor) - ExpSum.exp(F(1))).sign() == -1
    assert float((ExpSum.exp(F(1)) - taylor).arb()) < 1e-15


def test_collected_form_decides_zero_and_rational_values() -> None:
    x = F(1, 3)
    s = ExpSum([(x, F(1)), (x, F(-1)), (F(0), F(5))])
    assert s == 5
    assert s.exact == 5
    assert ExpSum().exact == 0
    assert ExpSum.exp(x).exact is None
    assert ExpSum.exp(F(1)) * ExpSum.exp(F(-1)) == 1
    assert (-ExpSum.exp(x)).sign() == -1
    assert ExpSum.exp(x) != "e^(1/3)"


def test_equal_sums_have_equal_hashes_also_when_they_are_plain_numbers() -> None:
    assert hash(ExpSum.of(3)) == hash(3)
    assert {ExpSum.of(F(1, 2)), F(1, 2)} == {F(1, 2)}
    assert hash(ExpSum.exp(F(1)) + 1) == hash(1 + ExpSum.exp(F(1)))


def test_a_sign_beyond_the_precision_limit_is_undecided_not_guessed() -> None:
    """e**x against its own enclosure, closer than the limit can see."""
    with precision(2 * MAX_PRECISION):
        close = ball_of(exp_ball(F(1))).hi
    with pytest.raises(Undecided, match=str(MAX_PRECISION)):
        (ExpSum.exp(F(1)) - close).sign()
