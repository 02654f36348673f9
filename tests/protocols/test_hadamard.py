"""Local plurality: exact privacy of a report, unbiased estimates, long items, strangers' reports."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.device.randomizers import ChunkedHadamard, HadamardSelection
from privpac.errors import ParameterError, TooLargeError
from privpac.mechanisms.randomized_response import keep_probability
from privpac.testing import SeededRng, WordRng, insecure_randomness


def _report_law(select: ChunkedHadamard, item: int | None) -> dict[tuple[int, int, int], Fraction]:
    """The law of a report, by running through all coins."""
    law: dict[tuple[int, int, int], Fraction] = {}
    top = 64
    for chunk in range(select.chunks):
        width = select.width_of(chunk)
        for j in range(1 << width):
            for coin in range(2):
                for kept in range(select.keep.denominator):
                    fields = ((chunk, select.chunks), (j, 1 << width), (coin, 2), (kept, select.keep.denominator))
                    words = [value << (top - (n - 1).bit_length()) for value, n in fields if n > 1]
                    share = Fraction(1, math.prod(n for _, n in fields))
                    with insecure_randomness():
                        report = select.report(item, WordRng(words))
                    law[report] = law.get(report, Fraction(0)) + share
    return law


@pytest.mark.parametrize(
    "select", [HadamardSelection(3, Fraction(3, 4)), ChunkedHadamard(5, Fraction(2, 3), 2)], ids=["one", "chunks"]
)
def test_every_pair_of_items_is_protected_and_the_loss_is_attained(select: ChunkedHadamard) -> None:
    laws = [_report_law(select, item) for item in [None, *range(1 << select.bits)]]
    assert laws == [select.message_law(item) for item in [None, *range(1 << select.bits)]]
    assert all(sum(law.values()) == 1 for law in laws)
    ratios = {p[report] / q[report] for p in laws for q in laws for report in p}
    assert max(ratios) == select.keep / (1 - select.keep)
    assert all(set(law) == set(laws[0]) for law in laws)


def test_estimates_are_unbiased() -> None:
    select = HadamardSelection(2, Fraction(3, 4))
    for item in (None, 0, 3):
        mean = [Fraction(0)] * 4
        for report, share in _report_law(select, item).items():
            (estimate,) = select.estimates([report])
            mean = [m + share * e for m, e in zip(mean, estimate)]
        assert mean == [Fraction(item == u) for u in range(4)]


def test_majority_is_found_among_2_to_the_64_items() -> None:
    select = ChunkedHadamard(64, keep_probability(1))
    with insecure_randomness():
        rng = SeededRng(11)
        item = rng.bits(64)
        others = [None, 5, (1 << 64) - 1]
        reports = [select.report(item if i % 5 else others[i // 5 % 3], rng) for i in range(5000)]
    assert select.decode(reports) == item


@given(st.lists(st.tuples(st.integers(-5, 1 << 40), st.integers(-5, 1 << 40), st.integers(-2, 3)), max_size=20))
def test_strange_reports_are_left_out(reports: list[tuple[int, int, int]]) -> None:
    select = ChunkedHadamard(10, Fraction(3, 4), 4)
    good = [r for r in reports if select.accepts(r)]
    assert select.decode(reports) == select.decode(good)


def test_bad_shapes() -> None:
    for keep in (Fraction(1, 2), Fraction(1), 0.75):
        with pytest.raises(ParameterError):
            HadamardSelection(4, keep)  # type: ignore[arg-type]
    with pytest.raises(TooLargeError, match="ChunkedHadamard"):
        HadamardSelection(23, Fraction(3, 4))
    with pytest.raises(ParameterError):
        HadamardSelection(3, Fraction(3, 4)).report(8, WordRng([0] * 9))
    with pytest.raises(ParameterError):
        ChunkedHadamard(0, Fraction(3, 4))
    with pytest.raises(ParameterError):
        HadamardSelection(3, Fraction(3, 4)).message_law(8)
    with pytest.raises(TooLargeError, match="width"):
        HadamardSelection(20, Fraction(3, 4)).message_law(0)
