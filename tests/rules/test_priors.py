"""Public weights of rules: the definition rule by rule, what ``auto`` chooses, and the bounds that certificates use."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.auditing.refutation import refute
from privpac.auditing.rule_laws import rule_claims
from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, UserData
from privpac.errors import ParameterError
from privpac.methods import HybridSelection
from privpac.methods.base import drawn_id
from privpac.methods.hybrid import hybrid_excess
from privpac.planning.rules import rule_target
from privpac.rules import Intervals, Points, Stumps, Thresholds
from privpac.rules.priors import WIDE
from privpac.rules.profile import HybridStatistic, Mean
from privpac.testing import SeededRng, insecure_randomness

WIDE_RANGE = Integers(0, 10**7)


def shells(anchor: int, count: int) -> list[int]:
    j = [(abs(u - anchor) + 1).bit_length() - 1 for u in range(count)]
    return [1 << (max(j) - at) for at in j]


def definition(domains: list[Domain], *, values: bool = False) -> list[list[int]]:
    """Weights of the cuts of every column, from the formulas, for numbers and categories."""
    lines = []
    for domain in domains:
        count = domain.size + (not values)
        anchored = isinstance(domain, Integers)
        lines.append(shells(min(max(-domain.lo, 0), count - 1), count) if anchored else [1] * count)  # type: ignore[attr-defined]
    sums = [sum(line) for line in lines]
    scales = [1] if len(lines) == 1 else [(max(sums) << 32) // own for own in sums]
    uniform = ceil(Fraction(sum(c * s for c, s in zip(scales, sums)), sum(map(len, lines))))
    weighed = [[uniform + c * s for s in line] for c, line in zip(scales, lines)]
    out = []
    for domain, line in zip(domains, weighed):
        typical = domain.typical_codes()
        if typical is not None:
            inside = range(typical[0], typical[1] + 1 + (not values))
            more = ceil(Fraction(sum(line), len(inside)))
            line = [w + more * (u in inside) for u, w in enumerate(line)]
        out.append(line)
    return out


@st.composite
def numbers(draw: Any, largest: int = 70) -> Integers:
    lo = draw(st.integers(-largest, largest))
    hi = draw(st.integers(lo, largest))
    if not draw(st.booleans()):
        return Integers(lo, hi)
    low = draw(st.integers(lo, hi))
    return Integers(lo, hi, typical=(low, draw(st.integers(low, hi))))


def all_weights(concept: Any) -> list[int]:
    weights = concept.rule_weights
    assert weights is not None
    assert (weights.size, weights.total) == (concept.size, sum(weights.weight(i) for i in range(concept.size)))
    return [weights.weight(i) for i in range(concept.size)]


@settings(max_examples=80, deadline=None)
@given(domain=numbers(), direction=st.sampled_from(["above", "both"]))
def test_cuts_have_the_weights_of_the_definition(domain: Integers, direction: str) -> None:
    concept = Thresholds(domain, direction=direction, prior="scale-free")
    weights = all_weights(concept)
    assert weights == definition([domain])[0] * len(concept.directions)
    assert sum(weights) <= (2 if domain.typical is None else 5) * concept.size * min(weights)
    assert concept.effective_size == ceil(Fraction(sum(weights), min(weights)))


@settings(max_examples=60, deadline=None)
@given(domains=st.lists(st.one_of(numbers(), st.just(Categories(["a", "b", "c"]))), min_size=2, max_size=4))
def test_stumps_weigh_their_columns_alike(domains: list[Domain]) -> None:
    concept = Stumps({f"x{i}": domain for i, domain in enumerate(domains)}, prior="scale-free")
    weights = all_weights(concept)
    assert weights == [w for line in definition(domains) for w in line * 2]
    hinted = any(domain.typical_codes() is not None for domain in domains)
    assert sum(weights) <= (5 if hinted else 2) * concept.size * min(weights)


@settings(max_examples=40, deadline=None)
@given(domain=numbers(12), zero=st.booleans())
def test_points_and_intervals_have_the_weights_of_the_definition(domain: Integers, zero: bool) -> None:
    points = Points(domain, zero=zero, prior="scale-free")
    plain = definition([Integers(domain.lo, domain.hi)], values=True)[0]
    assert all_weights(points) == definition([domain], values=True)[0] + [max(plain)] * zero
    ranges = Intervals(domain, prior="scale-free")
    (cuts,) = definition([domain])
    pairs = [cuts[a] * cuts[b] for a in range(len(cuts)) for b in range(a + 1, len(cuts))]
    assert all_weights(ranges) == [max(cuts) ** 2, *pairs]
    if domain.typical is None:
        assert points.effective_size <= 3 * points.size
        assert ranges.effective_size <= 4 * ranges.size


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 100, 1023, 1024, 4999, 5000])
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_the_bounds_of_certificates_on_larger_domains(n: int, share: float) -> None:
    domain = Integers(-round(share * (n - 1)), n - 1 - round(share * (n - 1)))
    assert Thresholds(domain, prior="scale-free").effective_size <= 2 * (n + 1)
    assert Points(domain, prior="scale-free").effective_size <= 3 * n
    if n <= 1024:
        ranges = Intervals(domain, prior="scale-free")
        assert ranges.effective_size <= 4 * ranges.size


@pytest.mark.parametrize(
    ("domain", "runs", "bits"),
    [
        (WIDE_RANGE, 24, 30),
        (Integers(0, (1 << 64) - 1), 65, 72),
        (Integers(-(1 << 63), (1 << 63) - 1), 127, 72),
        (Floats(), 41, 80),
    ],
)
def test_few_runs_whatever_the_domain(domain: Domain, runs: int, bits: int) -> None:
    concept = Thresholds(domain)
    weights = concept.rule_weights
    assert weights is not None
    assert len(weights.starts) == runs
    assert weights.total.bit_length() <= bits
    assert concept.effective_size <= 2 * concept.size


NONE: list[Any] = [
    Thresholds(Integers(0, WIDE - 1)),
    Thresholds(Integers(1, 10**7), prior="uniform"),
    Thresholds(Dates("1900-01-01", "2099-12-31"), prior="scale-free"),
    Thresholds(Categories(["a", "b"], ordered=True), prior="scale-free"),
    Stumps({"a": Integers(0, 9), "b": Integers(0, WIDE - 1)}),
    Intervals(Integers(0, WIDE - 1)),
    Points(Categories(["a", "b"])),
]
SCALED: list[Any] = [
    Thresholds(Integers(0, WIDE)),
    Thresholds(Grid(0, 1, "0.0001"), prior="auto"),
    Thresholds(Integers(0, 9), prior="scale-free"),
    Stumps({"a": Integers(0, 9), "b": Integers(0, WIDE)}),
    Intervals(Integers(0, WIDE)),
    Points(Integers(0, WIDE)),
]
TYPICAL: list[Any] = [
    Thresholds(Integers(0, 9, typical=(2, 3))),
    Thresholds(Integers(0, 9, typical=(2, 3)), prior="uniform"),
    Thresholds(Dates("1900-01-01", "2099-12-31", typical=("1990-01-01", "1999-12-31"))),
]


def test_auto_follows_the_number_of_values() -> None:
    for concept in NONE:
        assert (concept.rule_weights, concept.prior_name, concept.effective_size) == (None, "", concept.size)
    assert {concept.prior_name for concept in SCALED} == {"scale-free"}
    assert {concept.prior_name for concept in TYPICAL} == {"typical range"}
    assert Thresholds(Integers(0, WIDE, typical=(0, 9))).prior_name == "scale-free, typical range"
    assert all(concept.rule_weights is not None for concept in [*SCALED, *TYPICAL])
    # Without a zero every cut weighs 1, and as much again goes to the cuts of the typical range, both ends included.
    assert all_weights(TYPICAL[0]) == [1, 1, 5, 5, 5, *[1] * 6]


@pytest.mark.parametrize("concept", [Thresholds, Stumps, Intervals, Points])
def test_another_word_is_refused(concept: Any) -> None:
    with pytest.raises(ParameterError, match="prior must be 'auto', 'scale-free' or 'uniform'"):
        concept(prior="even")


def people(domain: Domain = WIDE_RANGE, seed: int = 1, n: int = 30) -> UserData:
    rng = np.random.default_rng(seed)
    users = []
    for _ in range(n):
        values = rng.integers(0, 1000, int(rng.integers(0, 6))).tolist()
        users.append([(x, int(x > 300) ^ int(rng.random() < 0.1)) for x in values])
    return UserData.from_users(users, features={"x": domain})


def test_releases_and_plans_say_it() -> None:
    released = HybridSelection(Thresholds(), epsilon=1).learn(people())
    assert released.parameters["prior"] == "scale-free"
    weights = Thresholds(WIDE_RANGE).rule_weights
    assert weights is not None
    assert released.parameters["effective_size"] == -(-weights.total // weights.least)
    assert "prior" not in HybridSelection(Thresholds(), epsilon=1).learn(people(Integers(0, 1000))).parameters


@pytest.mark.parametrize(
    ("concept", "records", "noise"),
    [
        (Thresholds(Integers(-9000, 9000)), 5, "0.1"),
        (Thresholds(Integers(0, 10**6, typical=(0, 100))), 1, "0.1"),
        (Stumps({"a": Integers(0, 9), "b": Integers(0, 5000)}), 4, None),
        (Points(Integers(0, 9999)), 3, None),
    ],
)
def test_certificates_say_the_prior_and_are_not_refuted(concept: Any, records: int, noise: str | None) -> None:
    """The laws give the good rules the least weight that any rule has."""
    target = rule_target(concept, 1, "0.1", "0.1", "add-remove", noise)
    plan = pp.plan(concept, epsilon=1, alpha="0.1", beta="0.1", records_per_user=records, noise=noise)
    even = evolve(concept, prior="uniform")
    rows = ("hybrid selection", "hybrid selection, bounded noise")[: 1 + (noise is not None)]
    claims = rule_claims(target, records, rows=rows)
    assert [claim.name for claim in claims] == list(rows)
    for claim in claims:
        row = plan.row(claim.name)
        assert f"prior of the rules: {concept.prior_name}" in row.assumption
        assert row.values == (claim.n_users,)
        if concept.prior_name == "scale-free":
            before = pp.plan(even, epsilon=1, alpha="0.1", beta="0.1", records_per_user=records, noise=noise)
            assert "prior" not in before.row(claim.name).assumption
            assert before.row(claim.name).values[0] <= claim.n_users <= 1.25 * before.row(claim.name).values[0]
        outcome = refute(claim, steps=2)
        assert not outcome.refuted, outcome


def test_nobody_and_no_budget_give_the_prior() -> None:
    nobody = UserData.from_users([], features={"x": WIDE_RANGE})
    for data, epsilon in ((nobody, 1), (people(), 0)):
        law = HybridSelection(Thresholds(), epsilon).rule_law(data)
        weights = Thresholds(WIDE_RANGE).rule_weights
        assert weights is not None
        for cut in (0, 1, 2, 500, 10**7 + 1):
            share = Fraction(weights.weight(cut), weights.total)
            assert law.prob(cut).lo <= share <= law.prob(cut).hi


def test_the_draw_is_that_of_the_law() -> None:
    """The same coins give the same rule by the short way and by the whole law."""
    for concept, data in [(Thresholds(), people()), (Thresholds(direction="both"), people(Integers(-(10**9), 10**12)))]:
        for epsilon in ("1/10", "3"):
            learner = HybridSelection(concept, epsilon)
            bound = learner.bind(data)
            eta = learner.rate(learner.epsilon, learner.levels)
            penalty, weights = learner.penalty(bound.concept.bits), bound.concept.rule_weights
            law = learner.law(data)
            for coin in range(40):
                with insecure_randomness():
                    short = drawn_id(bound, HybridStatistic(), eta, SeededRng(coin), penalty, weights)
                    assert short == law.sample(SeededRng(coin))


def test_any_split_of_the_users_gives_the_same_law() -> None:
    """Partial profiles add up, and the weights do not depend on the chunk."""
    data = people()
    learner = HybridSelection(Thresholds(), 1)
    bound = learner.bind(data)
    kernel = bound.concept.kernel(HybridStatistic())
    halves = kernel.merge(
        kernel.chunk(bound.users.take(np.arange(10))), kernel.chunk(bound.users.take(np.arange(10, 30)))
    )
    whole = bound.users.fold(kernel)
    eta, weights = learner.rate(learner.epsilon, learner.levels), bound.concept.rule_weights
    assert halves.optimism == whole.optimism
    for cut in (0, 7, 300, 301, 999, 10**6):
        assert halves.law(eta, weights=weights).prob(cut) == whole.law(eta, weights=weights).prob(cut)


def test_a_stream_and_memory_have_the_same_law(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = {
        "who": rng.integers(0, 40, 300),
        "x": rng.integers(0, 5000, 300),
        "z": rng.integers(-9, 9, 300),
        "y": rng.integers(0, 2, 300),
    }
    frame = pl.DataFrame(rows)
    frame.write_parquet(tmp_path / "table.parquet", row_group_size=40)
    spec: Any = {"user": "who", "label": "y", "features": {"x": WIDE_RANGE, "z": Integers(-50, 50)}}
    learner = HybridSelection(Stumps(), epsilon=1)
    memory = learner.law(UserData.from_frame(frame, **spec))
    streamed = learner.law(pp.scan(tmp_path / "table.parquet", chunk_rows=50, **spec))
    assert memory.satisfies(streamed, 0)
    for rule in (0, 1, 4999, 10**7 + 2, 10**7 + 20, 2 * 10**7 + 9):
        assert memory.prob(rule) == streamed.prob(rule)


def test_the_error_on_the_users_present_is_certified_for_every_data_set() -> None:
    """Theorem B with 1/pi for |H|, by the exact law."""
    for seed in range(3):
        data = people(seed=seed)
        learner = HybridSelection(Thresholds(prior="scale-free"), 2)
        bound = learner.bind(data)
        concept, held = bound.concept, [user for user in np.diff(data.offsets).tolist() if user]
        bound_on = hybrid_excess(
            n_users=len(held),
            size=concept.size,
            effective_size=concept.effective_size,
            theta=2,
            beta="1/10",
            levels=840,
        )
        errors = concept.profile(data, Mean(1 << 20))
        least = errors.least
        law = learner.rule_law(data).as_finite()
        bad = 0.0
        for cell, number in law.cells:
            assert isinstance(cell, range)
            excess = (errors.score(cell.start) - least) / (1 << 20) / len(held)
            if excess > bound_on:
                bad += float(number.arb()) * len(cell)
        assert bad <= 0.1
