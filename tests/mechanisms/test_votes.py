"""Private plurality: laws against brute force, exact privacy for both relations, and controls that fail."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.errors import ParameterError, TooLargeError
from privpac.law import BOTTOM, Law
from privpac.mechanisms.votes import GapSelection, PureSelection, StableHistogram, gap_law, histogram_law, plurality_law
from privpac.testing import SeededRng, insecure_randomness

DECAYS = [Fraction(4, 5), Fraction(1, 2)]


def _noise(q: Fraction, K: int) -> dict[int, Fraction]:
    total = sum(q ** abs(k) for k in range(-K, K + 1))
    return {k: q ** abs(k) / total for k in range(-K, K + 1)}


def _brute_histogram(counts: dict[str, int], q: Fraction, K: int) -> dict[object, Fraction]:
    law: dict[object, Fraction] = {}
    noise = _noise(q, K)
    for drawn in product(noise, repeat=len(counts)):
        seen = [(-(c + k), item) for (item, c), k in zip(counts.items(), drawn) if c + k >= K + 1 and c > 0]
        mass = Fraction(1)
        for k in drawn:
            mass *= noise[k]
        out: object = min(seen)[1] if seen else BOTTOM
        law[out] = law.get(out, Fraction(0)) + mass
    return law


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 6), max_size=3), st.sampled_from(DECAYS), st.integers(1, 3)
)
def test_histogram_law_is_noise_on_every_bin(counts: dict[str, int], q: Fraction, K: int) -> None:
    law = histogram_law(counts, q, K)
    for item, mass in _brute_histogram(counts, q, K).items():
        assert law.prob_exact(item) == mass


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 5), max_size=6), st.integers(10, 40))
def test_plurality_law_is_the_definition(counts: dict[int, int], universe: int) -> None:
    law = plurality_law(counts, Fraction(3, 2), universe)
    weights = [Fraction(3, 2) ** counts.get(u, 0) for u in range(universe)]
    assert [law.prob_exact(u) for u in range(universe)] == [w / sum(weights) for w in weights]


# Privacy, decided: everyone names one of three items or none


def _histograms(users: int) -> list[dict[int, int]]:
    return [
        {u: named.count(u) for u in range(3) if u in named}
        for named in combinations_with_replacement((0, 1, 2, None), users)
    ]


def _excess(p: Law, other: Law, factor: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), p.prob_exact(o) - factor * other.prob_exact(o)) for o in (0, 1, 2, BOTTOM)), Fraction(0)
    )


def _neighbours(relation: str, users: int) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Ordered pairs of counts that one person tells apart."""
    base = _histograms(users)
    plus = [[{**h, u: h.get(u, 0) + 1} for u in range(3)] + [h] for h in base]
    if relation == "add-remove":
        return [pair for h, more in zip(base, plus) for g in more for pair in ((h, g), (g, h))]
    return [(f, g) for more in plus for f in more for g in more]


def _worst(law: object, relation: str, factor: Fraction) -> Fraction:
    return max(_excess(law(f), law(g), factor) for users in range(4) for f, g in _neighbours(relation, users))  # type: ignore[operator]


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("q", DECAYS)
def test_histogram_is_private_and_add_remove_calibration_fails_under_replace(q: Fraction, K: int) -> None:
    edge = _noise(q, K)[K]

    def law(counts: dict[int, int]) -> Law:
        return histogram_law(counts, q, K)

    assert _worst(law, "add-remove", 1 / q) == edge  # attained
    assert _worst(law, "replace", 1 / q**2) <= 2 * edge - edge**2
    assert _worst(law, "replace", 1 / q) > edge


@pytest.mark.parametrize("q", DECAYS)
def test_gap_is_private_and_twice_the_edge_is_not_enough(q: Fraction) -> None:
    K = 2
    noise = _noise(q, K)
    assert _worst(lambda c: gap_law(c, q, K, "add-remove"), "add-remove", 1 / q) <= noise[K]
    found = max(
        _excess(gap_law({0: a}, q, K, "replace"), gap_law({0: a - 2}, q, K, "replace"), 1 / q**2) for a in range(2, 12)
    )
    assert 2 * noise[K] < found <= noise[K] + noise[K - 1]
    assert _worst(lambda c: gap_law(c, q, K, "replace"), "replace", 1 / q**2) <= noise[K] + noise[K - 1]


def test_pure_selection_is_private_and_the_full_base_fails_under_replace() -> None:
    base = Fraction(2)

    def law(counts: dict[int, int]) -> Law:
        return plurality_law(counts, base, 5)

    def ratio(relation: str) -> Fraction:
        pairs = [(law(f), law(g)) for users in range(4) for f, g in _neighbours(relation, users)]
        return max(p.prob_exact(u) / other.prob_exact(u) for p, other in pairs for u in range(5))

    assert ratio("add-remove") <= base
    assert base < ratio("replace") <= base**2


# Mechanisms


def test_what_is_planned_is_within_the_guarantee() -> None:
    for relation in ("add-remove", "replace"):
        for kind in (StableHistogram, GapSelection):
            select = kind("1/2", delta="1/100", neighbours=relation)
            factor = 1 / select.q if relation == "add-remove" else 1 / select.q**2
            tops = range(2 * select.K + 5)
            far = [({0: a}, {0: a - 1}) for a in tops if a] if relation == "add-remove" else []
            near = (
                [({0: a, 1: b}, {0: a - 1, 1: b + 1}) for a in tops for b in range(3) if a]
                if relation == "replace"
                else []
            )
            for f, g in [*far, *near]:
                assert _excess(select.law(f), select.law(g), factor) <= select.delta
                assert _excess(select.law(g), select.law(f), factor) <= select.delta


def test_draws_follow_the_law() -> None:
    counts, runs = {0: 30, 5: 24}, 4000
    for select in (StableHistogram(1, delta="1e-4"), GapSelection(1, delta="1e-4"), PureSelection(1, universe=2**64)):
        with insecure_randomness():
            rng = SeededRng(1)
            share = sum(select.sample(counts, rng) == 0 for _ in range(runs)) / runs
        # Six standard deviations: false alarm below 2e-9.
        assert abs(share - float(select.law(counts).prob(0))) <= 6 * 0.5 / runs**0.5


def test_nobody_named_anything() -> None:
    assert StableHistogram(1, delta="1e-6").sample({}) is BOTTOM
    assert GapSelection(1, delta="1e-6").law({}).prob_exact(BOTTOM) == 1
    assert PureSelection(1, universe=7).law({}).prob_exact(3) == Fraction(1, 7)


def test_a_majority_always_wins() -> None:
    select = StableHistogram(1, delta="1e-6")
    n = 61
    c = select.majority_needed(n)
    assert select.law({0: c, 1: n - c}).prob_exact(0) == 1
    assert select.law({0: c - 1, 1: n - c + 1}).prob_exact(0) < 1


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [("0", "1e-6"), ("-1", "1e-6"), ("1", "0"), ("1", "1"), ("1e-12", "1e-6"), ("1e-6", "1e-9"), ("nan", "1e-6")],
)
def test_bad_parameters(epsilon: str, delta: str) -> None:
    with pytest.raises(ParameterError):
        StableHistogram(epsilon, delta=delta)


def test_universe_and_work_are_checked() -> None:
    with pytest.raises(ParameterError):
        PureSelection(1, universe=0)
    with pytest.raises(ParameterError):
        plurality_law({9: 1}, 2, 9)
    with pytest.raises(TooLargeError):
        histogram_law(dict.fromkeys(range(3000), 1), "1/2", 3)
