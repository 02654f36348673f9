"""The noisy minimum: its law against literal permute-and-flip, its enclosures, its race."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import factorial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpac.errors import LawError, TooLargeError
from privpac.exact import exp_ball, precision
from privpac.law import Law
from privpac.law.blocks import BlockLaw
from privpac.law.numbers import Enclosed, Number, Quotient, sign_of_sum
from privpac.mechanisms import ExponentialMechanism
from privpac.papers import noisy_min
from privpac.papers.noisy_min import NoisyMin
from privpac.testing import SeededRng, WordRng, insecure_randomness

FALSE_ALARM = 1e-7  # of every chi-square test below; the seeds are fixed


def noisy(eta: Any = "1/2") -> NoisyMin:
    return NoisyMin(eta, 1, unit="user", neighbours="add-remove")


def chi_square_accepts(counts: Counter[Any], law: Law, values: list[Any], draws: int) -> bool:
    """Cells expected fewer than five times are pooled."""
    cells = [(draws * float(law.prob(v)), counts[v]) for v in values]
    rare = [cell for cell in cells if cell[0] < 5]
    pooled = [cell for cell in cells if cell[0] >= 5] + (
        [(sum(e for e, _ in rare), sum(o for _, o in rare))] if rare else []
    )
    assert sum(observed for _, observed in pooled) == draws
    statistic = sum((o - e) ** 2 / e for e, o in pooled if e > 0)
    return bool(chi2.sf(statistic, len(pooled) - 1) > FALSE_ALARM)


# The law


def permute_and_flip(gaps: list[int], base: Fraction) -> list[Fraction]:
    """Literal: visit candidates in random order, stop at each with probability ``base**-gap``."""
    out = [Fraction(0)] * len(gaps)
    for order in permutations(range(len(gaps))):
        left = Fraction(1, factorial(len(gaps)))
        for i in order:
            out[i] += left * base ** -gaps[i]
            left *= 1 - base ** -gaps[i]
    return out


@given(
    st.lists(st.integers(-3, 4), min_size=1, max_size=5),
    st.fractions(min_value=Fraction(9, 8), max_value=8, max_denominator=16),
)
@settings(max_examples=40, deadline=None)
def test_race_law_is_permute_and_flip(scores: list[int], base: Fraction) -> None:
    index = list(range(len(scores)))
    blocks = Law.from_blocks(index, index, scores, base=base)
    assert isinstance(blocks, BlockLaw)
    law = noisy_min.race_law(blocks)
    assert [law.prob_exact(i) for i in index] == permute_and_flip([s - min(scores) for s in scores], base)


@pytest.mark.parametrize("eta", ["1/2", 1])
def test_expected_score_is_never_worse_than_exponential(eta: Any) -> None:
    """All 4-candidate vectors over 0..3, decided exactly."""
    exponential = ExponentialMechanism(eta, 1, unit="user", neighbours="add-remove")
    strictly_better = 0
    for scores in product(range(4), repeat=4):
        if 0 not in scores:
            continue  # a common shift changes neither law
        ours, theirs = noisy(eta).law(scores), exponential.law(scores)
        difference: Number = Quotient(())
        for i, score in enumerate(scores):
            difference = difference + (ours.number(i) + theirs.number(i) * -1) * score
        sign = sign_of_sum(difference)
        assert sign <= 0
        strictly_better += sign < 0
    assert strictly_better == 4**4 - 3**4 - 1  # all but the constant vector


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), min_size=2, max_size=5),
    st.sampled_from(["1/7", "1/2", "3"]),
)
@settings(max_examples=25, deadline=None)
def test_enclosures_hold_the_exact_law(blocks: list[tuple[int, int]], eta: str) -> None:
    scores, counts = [s for s, _ in blocks], [c for _, c in blocks]
    exact = noisy(eta).law(scores, counts=counts)
    if len(set(scores)) == 1:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_min, "EXACT_CANDIDATES", 0)
        enclosed = noisy(eta).law(scores, counts=counts)
    for i in range(len(blocks)):
        assert isinstance(enclosed.number((i, 0)), Enclosed)
        ball, reference = enclosed.prob((i, 0)), exact.prob((i, 0))
        assert ball.lo <= reference.hi
        assert reference.lo <= ball.hi
        assert ball.width <= ball.hi / 10**50


@pytest.mark.parametrize(
    ("lo", "hi", "score"),
    [
        ([0, 1 << 64], [(1 << 64) - 1, (1 << 64) + 5], [3, 0]),
        ([0, 1 << 1000], [(1 << 1000) - 1, (1 << 1000) + (1 << 900)], [90, 0]),
        ([0, 1], [0, 100], [0, 4000]),
        (list(range(0, 300, 3)), [a + 2 for a in range(0, 300, 3)], [(7 * a) % 50 for a in range(100)]),
    ],
)
def test_huge_multiplicities_have_tight_enclosures_that_sum_to_one(
    lo: list[int], hi: list[int], score: list[int]
) -> None:
    law = noisy().law_blocks(lo, hi, score)
    balls = [law.block_prob(i) for i in range(len(law.cells))]
    assert sum(b.lo for b in balls) <= 1 <= sum(b.hi for b in balls)
    assert all(b.lo > 0 and b.width <= b.hi / 10**50 for b in balls)


def test_one_good_candidate_among_equals_matches_the_closed_form() -> None:
    """``q * integral of (1-qt)**(N-1) (1-t) dt`` for N equal bad candidates and one good one, by parts."""
    n, eta = 1000, Fraction(1)
    law = noisy(eta).law_blocks([0, 1], [0, n], [0, 5])
    with precision(400):
        q = exp_ball(-5 * eta)
        # P(bad) = (1/N) (1 - P(good)) and P(good) = integral of (1-qt)**N = (1 - (1-q)**(N+1)) / (q (N+1)).
        good = (1 - (1 - q) ** (n + 1)) / (q * (n + 1))
        ball = law.prob(0)
        assert float(good) == pytest.approx(float(ball), rel=1e-15)
        assert float(law.prob(1)) == pytest.approx(float((1 - good) / n), rel=1e-13)


def test_labelled_blocks_beyond_enumeration_are_refused_before_work() -> None:
    with pytest.raises(TooLargeError, match="sample"):
        noisy().law([0, 1], counts=[1 << 40, 1])
    assert noisy().sample([0, 1], counts=[1 << 40, 1], labels=["many", "one"])[0] in ("many", "one")


# The race


def test_race_matches_its_law_with_few_levels() -> None:
    scores, draws = [0, 1, 1, 3, 0, 7], 4000
    law = noisy().law(scores)
    with insecure_randomness():
        rng = SeededRng("few levels")
        counts = Counter(noisy().sample(scores, rng) for _ in range(draws))
    assert chi_square_accepts(counts, law, list(range(6)), draws)


@pytest.mark.slow
def test_race_matches_its_law_with_many_levels_and_multiplicities() -> None:
    n, draws = 40, 3000
    lo = [10 * i for i in range(n)]
    hi = [10 * i + (3 * i) % 10 for i in range(n)]
    score = [(17 * i) % 40 for i in range(n)]
    law = noisy("1/5").law_blocks(lo, hi, score)
    with insecure_randomness():
        rng = SeededRng("many levels")
        counts = Counter(noisy("1/5").sample_blocks(lo, hi, score, rng) for _ in range(draws))
    assert chi_square_accepts(counts, law, [v for a, b in zip(lo, hi) for v in range(a, b + 1)], draws)


def test_chi_square_would_notice_the_exponential_mechanism() -> None:
    """The control: draws from the other mechanism are told apart, so the tests above can fail."""
    scores, draws = [0, 1, 1, 3, 0, 7], 4000
    exponential = ExponentialMechanism("1/2", 1, unit="user", neighbours="add-remove").law(scores)
    with insecure_randomness():
        rng = SeededRng("few levels")
        counts = Counter(exponential.sample(rng) for _ in range(draws))
    assert not chi_square_accepts(counts, noisy().law(scores), list(range(6)), draws)


def test_levels_dropped_early_never_win(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [0, 2, 3] + list(range(5, 200, 5)) + [10**6, 10**15]
    counts = [1, 5, 1 << 70] + [1 + (i * 37) % 1000 for i in range(39)] + [1 << 200, 1]
    choice = noisy("1/10")
    with insecure_randomness():
        early = [choice.sample(scores, SeededRng(seed), counts=counts) for seed in range(60)]
        monkeypatch.setattr(noisy_min, "_still_running", lambda levels, words: list(range(len(levels.totals))))
        assert [choice.sample(scores, SeededRng(seed), counts=counts) for seed in range(60)] == early


@pytest.mark.parametrize(("first", "second", "wins"), [((1 << 64) - 1, 0, 0), (0, (1 << 64) - 1, 1)])
def test_close_races_are_decided_by_further_bits(first: int, second: int, wins: int) -> None:
    """Words on the boundary ``1 - U1 = e**-eta (1 - U0)``: 64 bits leave both levels running."""
    u0 = 0xC000000000000123
    with precision(300):
        boundary = ((1 << 64) - exp_ball(Fraction(-1, 2)) * ((1 << 64) - u0)).floor().unique_fmpz()
    assert boundary is not None
    with insecure_randomness():
        rng = WordRng([u0, int(boundary), first, second])
        assert noisy().sample([0, 1], rng) == wins
        assert rng.used == 4


def test_extreme_words_are_handled() -> None:
    top = (1 << 64) - 1
    with insecure_randomness():
        assert noisy().sample([0, 1], WordRng([0, top])) == 1
        assert noisy().sample([0, 1], WordRng([top, 0])) == 0
        assert noisy().sample([5, 5, 5], WordRng([1 << 63, 1 << 62])) in range(3)


@pytest.mark.parametrize("scores", [[], [[1, 2]], [0.5, 1], [float("nan")], ["a"], None, [True, False], [0, 1 << 62]])
def test_bad_scores_are_refused(scores: Any) -> None:
    for choice in (noisy(), ExponentialMechanism(1, 1, unit="user", neighbours="replace")):
        with pytest.raises(LawError):
            choice.law(scores)
        with pytest.raises(LawError):
            choice.sample(scores)
