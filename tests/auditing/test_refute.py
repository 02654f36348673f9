"""The refuter catches a false certificate, spares true ones, and speaks of the learners themselves."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import privpac as pp
from privpac.auditing.refutation import STARTS, Claim, Failure, FewValueLaw, law_at, refute, user_types
from privpac.auditing.rule_laws import VOTES, rule_claims
from privpac.data import Integers, UserData
from privpac.errors import ParameterError
from privpac.methods import (
    HybridSelection,
    PairwiseSelection,
    RealizableSelection,
    RegretSelection,
    UserAgnosticLearner,
)
from privpac.methods.registry import METHODS
from privpac.papers.few_examples_per_user.pairwise_plan import pairwise_votes
from privpac.papers.pure_agnostic.plan_rows import counting_votes
from privpac.planning.rules import rule_target
from privpac.rules import Thresholds

# Two questions whose old answers, 451 and 250 users, were false for some larger numbers.
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "add-remove": (Thresholds(Integers(0, (1 << 20) - 1)), "1/2", "0.05", "0.05", "add-remove", "0.1"),
    "replace": (Thresholds(Integers(0, 1440)), 1, "0.05", "0.05", "replace", "0.1"),
}
SUMS = ("realizable", "hybrid", "regret", "mean", "pairwise")
"""Methods whose law depends on sums over users."""
ALL_VOTES: dict[Any, Any] = VOTES | {PairwiseSelection: pairwise_votes, UserAgnosticLearner: counting_votes}
RECORDS, PLANTED = {"add-remove": 5, "replace": 4}, {"add-remove": 451, "replace": 250}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_row_of_a_plan_is_refuted(name: str) -> None:
    claims = rule_claims(rule_target(*QUESTIONS[name], every_method=True), RECORDS[name])
    assert {claim.name for claim in claims} >= {METHODS[key].title for key in SUMS}
    for claim in claims:
        outcome = refute(claim, steps=6)
        assert not outcome.refuted, outcome


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_planted_false_certificate_is_caught(name: str) -> None:
    (claim,) = rule_claims(rule_target(*QUESTIONS[name]), RECORDS[name], rows=("regret selection, bounded noise",))
    outcome = refute(evolve(claim, n_users=PLANTED[name]), steps=0)
    assert outcome.refuted
    assert outcome.worst.failure.error == 0
    assert outcome.attacks[0].failure.probability <= 0.05  # what was certified was true at that number, and lapsed
    if name == "add-remove":
        at = {attack.n_users: attack.failure.probability for attack in outcome.attacks}
        assert at[461] > 0.35
        assert at[497] > 0.2


@pytest.mark.parametrize(
    "row",
    ["realizable selection", "hybrid selection, bounded noise", "regret selection, bounded noise", "per-user mean"],
)
def test_a_fifth_of_the_certified_users_is_refuted(row: str) -> None:
    """The laws are hard: no certificate of these is wasteful beyond what the refuter sees."""
    target = rule_target(*QUESTIONS["replace"])
    (claim,) = rule_claims(target, RECORDS["replace"], rows=(row,))
    assert refute(evolve(claim, n_users=claim.n_users // 20), multiples=(1,), steps=0).refuted


CUTS = Thresholds(Integers(0, 9))


def people(rng: np.random.Generator, law: FewValueLaw, n: int, m: int) -> tuple[UserData, np.ndarray]:
    """Users of a law on the values 0, 1, ... and 9, and their counts."""
    counts = rng.multinomial(m, law.cells, size=n)
    places = [*range(law.values - 1), 9]
    cells = [(place, 0) for place in places] + [(place, 1) for place in places]
    rows = [[cell for cell, count in zip(cells, row) for _ in range(count)] for row in counts.tolist()]
    return UserData.from_users(rows, features={"x": Integers(0, 9)}), counts


@pytest.mark.parametrize(
    "learner",
    [
        RegretSelection(CUTS, 1, public_n_users=30),
        RegretSelection(CUTS, "1/2", "replace", statistic="mean"),
        RealizableSelection(CUTS, 1, tolerance=1),
        UserAgnosticLearner(CUTS, 1, noise=("1/2", "1/2"), sizes=(6,)),
        HybridSelection(CUTS, 2),
        HybridSelection(CUTS, 1, "replace"),
        PairwiseSelection(CUTS, 1, tau=2),
        PairwiseSelection(CUTS, 1, "replace", tau=3),
    ],
    ids=lambda learner: f"{type(learner).__name__}-{learner.neighbours}",
)
def test_votes_are_those_of_the_learner(learner: Any) -> None:
    rng, law = np.random.default_rng(5), law_at((0.7, 0.4, 0.9, 0.8, 0.6, 0.0), 0.1, 0.3)
    assert law.values == 4
    votes = ALL_VOTES[type(learner)](learner, CUTS.bits, 30)
    for n in (1, 30):
        data, counts = people(rng, law, n, 6)
        found = votes.law(votes.cast(law.mistakes(counts), 6).sum(axis=0), law.copies(CUTS.size))
        exact = learner.rule_law(data) if isinstance(learner, HybridSelection) else learner.law(data)
        groups = [range(1), range(1, 2), range(2, 3), range(3, 10), range(10, 11)]
        assert found == pytest.approx(
            [sum(exact.prob_float(cut) for cut in group) for group in groups], rel=1e-9, abs=1e-12
        )


def test_every_learner_of_a_row_has_votes_and_every_point_is_a_law_that_is_allowed() -> None:
    assert {METHODS[key].load() for key in (*SUMS, "agnostic")} <= set(ALL_VOTES)
    rng = np.random.default_rng(1)
    for point in [*STARTS, *(tuple(row) for row in rng.random((200, 6)).tolist())]:
        for alpha, noise in ((0.05, 0.0), (0.05, 0.1), (0.3, 0.45), (0.05, 0.5)):
            law = law_at(point, alpha, noise)
            assert sum(law.mass) == pytest.approx(1)
            assert min(law.mass) > 0
            wrong = np.minimum(law.ones, 1 - np.array(law.ones))
            assert (wrong <= noise + 1e-12).all()
            assert (law.errors > law.errors.min() + alpha).any()


def test_types_are_all_users_and_their_probabilities_add_up() -> None:
    law = law_at(STARTS[-1], 0.1, 0.2)
    found = user_types(law, 3)
    assert found is not None
    counts, chances = found
    assert (counts.sum(axis=1) == 3).all()
    assert len(np.unique(counts, axis=0)) == len(counts) == 56
    assert chances.sum() == pytest.approx(1)
    assert chances @ counts == pytest.approx(3 * law.cells)


def test_exact_and_drawn_failures_agree() -> None:
    from privpac.auditing import rule_laws as room

    target = rule_target(*QUESTIONS["replace"])
    (claim,) = rule_claims(target, 4, rows=("regret selection, bounded noise",))
    exact = claim.failure(STARTS[2], 258)
    assert exact.error == 0
    law = law_at(STARTS[2], 0.05, 0.1)
    learner = RegretSelection(target.concept, 1, "replace", public_n_users=258)
    listed = user_types(law, 4)
    assert listed is not None
    votes, copies = VOTES[RegretSelection](learner, target.concept.bits, 258), law.copies(1442)
    bad = law.errors > law.errors.min() + 0.05
    by_types = room._drawn_types(votes.cast(law.mistakes(listed[0]), 4), listed[1], votes, copies, bad, 258)
    by_users = room._drawn_users(law, 4, votes, copies, bad, 258)
    for drawn in (by_types, by_users):
        assert abs(drawn.probability - exact.probability) < 6 * drawn.error + 1e-6


def test_the_climb_finds_a_hidden_law_and_is_deterministic() -> None:
    def failure(point: tuple[float, ...], n: int) -> Failure:
        return Failure(max(0.0, 0.2 - (point[0] - 0.8) ** 2 - (point[1] - 0.3) ** 2) if n > 100 else 0.0)

    claim = Claim("hidden", 100, 0.15, ((0.5, 0.5),), failure)
    assert not refute(claim, multiples=(1,)).refuted
    found = refute(claim, steps=60)
    assert found.refuted
    assert found.worst.failure.probability > 0.19
    assert refute(claim, steps=60).to_dict() == found.to_dict()
    assert not refute(claim, steps=0).refuted
    assert "hidden: certified 100, beta 0.15: refuted" in str(found)


def test_a_drawn_value_must_be_far_above_beta() -> None:
    claim = Claim("drawn", 10, 0.05, ((0.5,),), lambda point, n: Failure(0.06, 0.005))
    assert not refute(claim).refuted
    assert refute(evolve(claim, beta=0.03)).refuted


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ParameterError, match="at least one law"):
        Claim("nothing", 10, 0.1, (), lambda point, n: Failure(0.0))
    with pytest.raises(ParameterError, match="multiples"):
        refute(Claim("none", 10, 0.1, ((0.0,),), lambda point, n: Failure(0.0)), multiples=())
    with pytest.raises(ParameterError, match="cut-offs"):
        rule_claims(rule_target(Thresholds(Integers(0, 9), direction="both"), 1, "0.1", "0.1", "replace", None), 4)


def test_the_room_offers_it() -> None:
    assert pp.auditing.refute is refute
    assert pp.auditing.Claim is Claim
    assert (
        Fraction(pp.auditing.refute(Claim("one", 1, 0.5, ((0.0,),), lambda point, n: Failure(0.0))).worst.n_users) == 1
    )
