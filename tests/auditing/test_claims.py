"""Every certificate of every plan is put to the test or has a printed reason; the laws used are those of the learners
themselves."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import privpac as pp
from privpac.auditing.claims import plan_claims
from privpac.auditing.family_laws import vocabulary_shares
from privpac.auditing.refutation import Failure, law_at, refute, shape_of
from privpac.auditing.rule_laws import VOTES, missed, users_of
from privpac.data import Integers, Texts, UserData
from privpac.device.tasks import Task
from privpac.distributions import family_plan as vocabulary_targets
from privpac.distributions.family_plan import family_target
from privpac.methods import HybridSelection, PairwiseSelection, RealizableSelection, RegretSelection
from privpac.methods.hierarchy.tree_learner import NamedParts, TreeLearner
from privpac.methods.hierarchy.tree_plan import tree_target
from privpac.methods.planned import read_goal
from privpac.methods.prediction.service_plan import service_target
from privpac.methods.registry import PlannedMethod, resolve
from privpac.papers.few_examples_per_user.pairwise_plan import pairwise_votes
from privpac.planning.query import PLANNED_FAMILIES
from privpac.planning.rules import RuleTarget, rule_target
from privpac.protocols.agreement_plan import agreement_target
from privpac.rules import PathTree, Points, PrefixTree, StarTree, Stumps, Thresholds
from privpac.testing import SeededRng, insecure_randomness


def rules(concept: Any, **more: Any) -> Any:
    return rule_target(concept, more.pop("epsilon", 4), "0.2", "0.1", more.pop("neighbours", "replace"), None, **more)


class Selections(RuleTarget):
    """Every method that selects by sums over users, or by an estimate and sums."""

    def methods(self, setting: str | None = None) -> Any:
        return [line for line in super().methods(setting) if line.key not in ("reduction", "search")]


def selections(concept: Any, neighbours: str = "replace") -> Any:
    return Selections(concept, **read_goal(4, "0.2", "0.1", neighbours), every_method=True)


def tree(made: Any, delta: Any = 0, neighbours: str = "add-remove") -> Any:
    return tree_target(made, epsilon=1, delta=delta, alpha="0.1", beta="0.05", neighbours=neighbours, simple=True)


TARGETS: dict[str, tuple[Any, int]] = {
    "points": (selections(Points(Integers(0, 99))), 4),
    "stumps": (selections(Stumps({"a": Integers(0, 49), "b": Integers(0, 99)}), "add-remove"), 4),
    "path": (tree(PathTree(Integers(0, 255), "x", "above")), 4),
    "star": (tree(StarTree(Integers(0, 63), "x"), neighbours="replace"), 4),
    "open vocabulary": (tree(PrefixTree(8), "1e-6"), 4),
    "histogram": (family_target("histogram", epsilon=1, k=3), 4),
    "vocabulary": (family_target("vocabulary", epsilon=1, delta="1e-6"), 4),
    "vocabulary, small epsilon": (family_target("vocabulary", epsilon="0.1", delta="1e-6", neighbours="replace"), 1),
    "median": (family_target("median", epsilon=1, bits=16), 1),
    "central": (agreement_target(Task("threshold", (255,)), epsilon=1), 1000),
    "central, delta": (agreement_target(Task("threshold", (255,)), epsilon=1, delta="1e-6"), 1000),
    "shuffle": (agreement_target(Task("threshold", (255,)), model="shuffle", epsilon=1, delta="1e-6"), 1000),
}
"""What is tried in a moment; the others are slow."""

SLOW: dict[str, tuple[Any, int]] = {
    "every method": (rules(Thresholds(Integers(0, 63)), every_method=True), 16),
    "service": (service_target(Thresholds(Integers(0, 63)), 5, 8, "0.3", "0.1", "1e-6"), 1),
    "discrete": (family_target("discrete", epsilon=1, k=3), 4),
    "product": (family_target("product", epsilon=1, k=2, d=2), 4),
    "selection": (family_target("selection", epsilon=1, k=3), 4),
    "normal": (family_target("gaussian", epsilon=1, radius=10), 4),
    "local": (agreement_target(Task("threshold", (255,)), model="local", epsilon=1), 1000),
}

REASONS = ("not within 10^9 records", "members of a cover of products")


def tried(target: Any, m: int, steps: int) -> None:
    claims, left = plan_claims(target, m)
    assert claims
    assert all(reason.startswith(REASONS) for reason in left.values()), left
    for claim in claims:
        outcome = refute(claim, steps=steps)
        assert not outcome.refuted, outcome


@pytest.mark.parametrize("name", TARGETS)
def test_no_row_is_refuted(name: str) -> None:
    tried(*TARGETS[name], steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_no_further_row_is_refuted(name: str) -> None:
    tried(*SLOW[name], steps=2)


@pytest.mark.parametrize("name", [*TARGETS, *SLOW])
def test_no_certified_row_of_a_plan_is_without_an_entry(name: str) -> None:
    target, _ = {**TARGETS, **SLOW}[name]
    assert all(method.hard_laws for method in target.methods() if method.kind == "certified")


@pytest.mark.parametrize(
    "name", ["points", "path", "star", "open vocabulary", "histogram", "median", "central", "shuffle"]
)
def test_far_too_few_users_are_refuted(name: str) -> None:
    """The laws are hard: some certificate of every plan is refuted with an eighth of its users."""
    claims, _ = plan_claims(*TARGETS[name])
    found = [refute(evolve(claim, n_users=max(2, claim.n_users // 8)), multiples=(1,), steps=0) for claim in claims]
    assert any(outcome.refuted for outcome in found)


@pytest.mark.parametrize(
    "concept",
    [Points(Integers(0, 9), "x"), Stumps({"a": Integers(0, 9), "b": Integers(0, 6)})],
    ids=["points", "stumps"],
)
@pytest.mark.parametrize("kind", [RealizableSelection, RegretSelection, HybridSelection, PairwiseSelection])
def test_groups_of_points_and_stumps_are_those_of_the_learner(kind: Any, concept: Any) -> None:
    """The chance of each group against the sum over its rules in the learner's own law."""
    options: dict[Any, dict[str, Any]] = {RegretSelection: {"public_n_users": 30}, PairwiseSelection: {"tau": 2}}
    learner = kind(concept, 1, **options.get(kind, {}))
    law = law_at((0.7, 0.4, 0.9, 0.8, 0.6, 0.0), 0.1, 0.3, *shape_of(concept))
    counts = np.random.default_rng(5).multinomial(6, law.cells, size=30)
    data, votes = (
        users_of(law, concept, counts),
        (VOTES | {PairwiseSelection: pairwise_votes})[kind](learner, concept.bits, 30),
    )
    found = votes.law(votes.cast(law.mistakes(counts), 6).sum(axis=0), law.copies(concept.size))
    exact = learner.rule_law(data) if kind is HybridSelection else learner.law(data)
    codes = {name: np.array(law.places(domain.size), dtype=np.uint64) for name, domain in concept.declared().items()}
    groups = {tuple(says): place for place, says in enumerate(law.says.tolist())}
    sums = np.zeros(len(groups))
    for rule in range(concept.size):
        sums[groups[tuple(concept.predictions(codes, rule).tolist())]] += exact.prob_float(rule)
    assert found == pytest.approx(sums, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "made", [(PathTree(Integers(0, 31), "x", "above"), 0), (StarTree(Integers(0, 7), "x"), 0), (PrefixTree(8), "1e-4")]
)
def test_chances_of_nodes_are_those_of_the_learner(made: tuple[Any, Any]) -> None:
    one, delta = made
    choice, depth = TreeLearner(one, Fraction(2), delta, mode="closure").choice(one), max(1, one.height * 3 // 4)
    for told, above, rest in ((3, 5, 30), (30, 10, 5), (0, 0, 9), (12, 0, 40)):
        nodes = [one.some_node(depth)] * told + [one.some_node(depth // 2)] * above + [one.root] * rest
        law = choice.law(NamedParts(one, nodes))
        for least in {depth // 2, depth}:
            exact = 1 - sum(law.prob_float(one.some_node(z)) for z in range(least, depth + 1))
            assert missed(choice, (least, depth), depth, depth // 2, (told, above, rest)) == pytest.approx(
                exact, abs=1e-9
            )


def test_a_certificate_that_nobody_attacks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "privpac.distributions.family_plan.PlannedMethod",
        lambda *words, **told: PlannedMethod(*words, **told | {"hard_laws": ""}),
    )
    with pytest.raises(LookupError, match="nobody attacks the certificate of 'stable histogram'"):
        plan_claims(*TARGETS["vocabulary"])


@pytest.mark.parametrize("family", PLANNED_FAMILIES)
def test_every_family_has_an_attack(family: str) -> None:
    shape = {"product": {"k": 2, "d": 2}, "gaussian": {"radius": 10}, "vocabulary": {}, "median": {"bits": 8}}
    target = family_target(
        family, epsilon=1, delta="1e-6" if family == "vocabulary" else 0, **shape.get(family, {"k": 3})
    )
    laws = {method.hard_laws for method in target.methods() if method.kind == "certified"}
    assert laws
    assert all(law and not str(law).endswith("untried_claim") for law in laws)


def test_planted_wrong_bounds_for_vocabularies_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that forgets the noise and the threshold, and one that forgets that people are drawn."""
    right, noisy = vocabulary_targets.certify_vocabulary, TARGETS["vocabulary, small epsilon"]

    def no_noise(threshold: int, **told: Any) -> Any:
        return right(1, **{**told, "epsilon": 1000})

    def no_luck(threshold: int, **told: Any) -> Any:
        found = right(threshold, **told)
        return evolve(found, n_users=math.ceil(threshold / told["levels"] / told["alpha"]))

    for wrong, (target, m) in ((no_noise, noisy), (no_luck, TARGETS["vocabulary"]), (no_luck, noisy)):
        monkeypatch.setattr(vocabulary_targets, "certify_vocabulary", wrong)
        (claim,), left = plan_claims(target, m)
        assert not left
        assert refute(claim, multiples=(1,), steps=0).refuted, wrong.__name__
    monkeypatch.setattr(vocabulary_targets, "certify_vocabulary", right)
    (claim,), _ = plan_claims(*noisy)
    assert not refute(claim, multiples=(1,), steps=0).refuted


def test_shares_of_vocabularies_are_those_of_the_learner() -> None:
    """Means and spreads over draws of the learner itself on the same people, each within six standard errors."""
    target = family_target("vocabulary", epsilon=2, delta="1e-3")
    found, learner, masses = target.stable(2), target.learner("stable", target.stable(2)), np.array([0.7, 0.2, 0.1])
    drawn = vocabulary_shares(target, found, masses, 30, 60, 2)
    rng, runs, said = np.random.default_rng(3), 300, []
    with insecure_randomness():
        coins = SeededRng(4)
        for _ in range(runs):
            words = [[w] for w in rng.choice(list("abc"), 30, p=masses)]
            words += rng.choice(list("abc"), (30, 2), p=masses).tolist()
            people = UserData.from_users(words, features={"x": Texts()}, labelled=False)
            shown = learner.learn(people, rng=coins).value
            known = dict(zip(shown.values, shown.shares))
            said.append([known.get(word, 0.0) for word in "abc"])
    learned = np.array(said)
    for power in (1, 2):
        spread = np.hypot(
            (learned**power).std(axis=0) / math.sqrt(runs), (drawn**power).std(axis=0) / len(drawn) ** 0.5
        )
        assert (np.abs((learned**power).mean(axis=0) - (drawn**power).mean(axis=0)) < 6 * spread + 1e-9).all()


def test_what_is_not_tried_says_why() -> None:
    _, left = plan_claims(*TARGETS["central"])
    assert "not within 10^9 records of each person" in left["central agreement"]
    target = TARGETS["central"][0]
    method = target.method("central agreement")
    assert "millions of records" in str(resolve(method.hard_laws)(target, method, target.users(1000), 1000))
    _, left = plan_claims(rules(Thresholds(Integers(0, 1440)), epsilon=1, every_method=True), 64)
    assert "too many to draw" in left["threshold search"]


def test_counted_runs_leave_room_for_luck() -> None:
    assert Failure.counted(0, 100).surely == 0
    assert 0.1 < Failure.counted(40, 100).surely < 0.4
    assert Failure.counted(40, 100).error == pytest.approx(0.049, abs=1e-3)


def test_the_room_offers_all_claims() -> None:
    assert pp.auditing.plan_claims is plan_claims
