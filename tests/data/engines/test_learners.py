"""Every learner on every engine: the same law and the same draw as in memory, or a refusal before anything is spent.

The table is held in memory, in sorted files and in shuffled ones (users split over files and row groups, chunks of 40
rows), the latter with kernels and partial results sent as Spark sends them.  Laws are compared exactly; draws with the
same coins.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from engine_tables import CODES, held, schema, table

import privpac as pp
from privpac import distributions
from privpac import methods as learners
from privpac.api.learn import learner_for
from privpac.data import Categories, Integers
from privpac.distributions import (
    AveragedHistogram,
    AveragedMean,
    ClippedHistogram,
    CoarseToFineCovariance,
    CoarseToFineGaussian,
    CoarseToFineMean,
    CoarseToFineVariance,
    ColumnByColumn,
    CoverLearner,
    GaussianHistogram,
    Histogram,
    HypothesisSelector,
    OwnShares,
    VocabularyHistogram,
)
from privpac.distributions.quantiles import QuantileLearner
from privpac.errors import ParameterError
from privpac.law import Law
from privpac.ledger import BudgetLedger
from privpac.methods import (
    AgnosticReduction,
    AgreementLearner,
    CapSelection,
    DeletionStability,
    EmpiricalLearner,
    FriendlyMean,
    GroupPrivacy,
    HybridSelection,
    ItemAlgorithm,
    MinimumError,
    OneRecordPerUser,
    PairwiseSelection,
    PrivateCompare,
    PrivateMedian,
    RealizableSelection,
    RegretSelection,
    Relabelling,
    ScorecardLearner,
    SmallTreeLearner,
    SurrogateSelection,
    ThresholdLearner,
    ThresholdSearch,
    TreeLearner,
    TrimmedMean,
    TrimmedSelection,
    UserAgnosticLearner,
    VotePredictor,
    WithFallback,
)
from privpac.methods.base import Learner, count_users
from privpac.methods.registry import METHODS
from privpac.papers.pure_agnostic.representations import HashedPoints
from privpac.rules.hierarchies import BranchThresholds, PathTree, PrefixTree, StarTree, Taxonomy, VC1Tree, glue
from privpac.testing import SeededRng, insecure_randomness

FRAME = table()
USERS = FRAME["who"].n_unique()
CUTS = pp.Thresholds(direction="both")
TAXONOMY = Taxonomy({"a": "top", "b": "top", "c": "b"})


@frozen(slots=False)
class Case:
    """A learner, the columns it reads, and whether it says its law."""

    learner: Callable[[], Any]
    columns: str = "x"
    label: bool = True
    user: bool = True
    law: bool = True
    method: str | None = None


CASES: dict[str, Case] = {
    "hybrid": Case(lambda: HybridSelection(CUTS, 1), method="hybrid"),
    "hybrid stumps capped": Case(lambda: HybridSelection(pp.Stumps(), 1, max_records=3), "x z"),
    "hybrid stumps of categories": Case(lambda: HybridSelection(pp.Stumps(), 1, max_records=3), "kind x"),
    "hybrid intervals": Case(lambda: HybridSelection(pp.Intervals(), 1, neighbours="replace")),
    "hybrid points of categories": Case(lambda: HybridSelection(pp.Points(), 1), "kind"),
    "hybrid rectangles": Case(
        lambda: HybridSelection(pp.Rectangles({"a": Integers(0, 1), "b": Integers(0, 1)}), 1), "a b"
    ),
    "hybrid by item": Case(lambda: HybridSelection(CUTS, 1, unit="item"), user=False),
    "regret": Case(lambda: RegretSelection(CUTS, 1), law=False, method="regret"),
    "regret stumps capped": Case(lambda: RegretSelection(pp.Stumps(), 1, max_records=3, public_n_users=30), "x z"),
    "regret stumps of categories": Case(lambda: RegretSelection(pp.Stumps(), 1, public_n_users=30), "x kind"),
    "regret intervals": Case(lambda: RegretSelection(pp.Intervals(), 1, public_n_users=30)),
    "regret points of categories": Case(lambda: RegretSelection(pp.Points(), 1, public_n_users=30), "kind"),
    "regret rectangles": Case(
        lambda: RegretSelection(pp.Rectangles({"a": Integers(0, 1), "b": Integers(0, 1)}), 1, public_n_users=30), "a b"
    ),
    "regret by item": Case(lambda: RegretSelection(CUTS, 1, unit="item", public_n_users=9), user=False),
    "mean": Case(lambda: RegretSelection(CUTS, 1, statistic="mean"), method="mean"),
    "realizable": Case(lambda: RealizableSelection(pp.Points(), 1, tolerance=2), method="realizable"),
    "agnostic": Case(lambda: UserAgnosticLearner(CUTS, 2, tolerance=1), method="agnostic"),
    "agnostic estimated": Case(
        lambda: UserAgnosticLearner(pp.Thresholds(), 2, records_per_user=8, max_records=8), law=False
    ),
    "direct": Case(lambda: ThresholdLearner(pp.Thresholds(), 2, method="direct", tolerance=1), method="direct"),
    "search": Case(
        lambda: ThresholdLearner(pp.Thresholds(), 4, method="search", tolerance=1), law=False, method="search"
    ),
    "threshold search": Case(lambda: ThresholdSearch(pp.Thresholds(), 4, tolerance=1), law=False),
    "surrogate": Case(
        lambda: SurrogateSelection(
            pp.Points(), 2, representation=HashedPoints(CODES, "0.3", "0.2"), public_seed=bytes(32)
        ),
        method="surrogate",
    ),
    "pairwise": Case(lambda: PairwiseSelection(CUTS, 1, tau=2), method="pairwise"),
    "pairwise weighted intervals": Case(lambda: PairwiseSelection(pp.Intervals(), 1, weighted=True)),
    "trimmed": Case(
        lambda: TrimmedSelection(CUTS, 6, delta="1e-3", levels=10, trim=6, ladder=4, width=8), method="trimmed"
    ),
    "agreement": Case(lambda: AgreementLearner(pp.Thresholds(), 3, delta="1e-2", seed=bytes(32)), method="agreement"),
    "median": Case(lambda: PrivateMedian(pp.Thresholds(), 4)),
    "compare": Case(lambda: PrivateCompare(pp.Thresholds(), 2, value="3/8", width="1/4")),
    "minimum error": Case(lambda: MinimumError(pp.Thresholds(), 2)),
    "cap": Case(lambda: CapSelection(1, grid=(1, 2, 4, 8))),
    "one record": Case(lambda: OneRecordPerUser(RegretSelection(CUTS, 1, public_n_users=30))),
    "group privacy": Case(lambda: GroupPrivacy(RegretSelection(CUTS, 1, unit="item", public_n_users=9), 3)),
    "fallback": Case(
        lambda: WithFallback(
            TrimmedSelection(CUTS, 6, delta="1e-3", levels=10, trim=6, ladder=4, width=1),
            RegretSelection(CUTS, 1, neighbours="replace"),
        ),
        law=False,
    ),
    "trimmed mean": Case(lambda: TrimmedMean(8, "1e-2", width=4, levels=100, share="1/2", trim=6, ladder=4), law=False),
    "friendly mean": Case(lambda: FriendlyMean(8, "1e-1", width=1, levels=60, share="1/2", ladder=2), "x a", law=False),
    "small tree": Case(lambda: SmallTreeLearner(pp.SmallTrees(cuts=3), 1), "x z kind a", method="small-tree"),
    "small tree of scale-free cuts": Case(lambda: SmallTreeLearner(pp.SmallTrees(cuts=3), 1), "wide kind"),
    "small tree of few records": Case(
        lambda: SmallTreeLearner(pp.SmallTrees(depth=1, missing="own"), 1, neighbours="replace", max_records=3),
        "x kind",
    ),
    "scorecard": Case(
        lambda: ScorecardLearner(pp.Scorecards(cuts=3), 1, delta="1e-6"), "x z kind a", law=False, method="scorecard"
    ),
    "scorecard in private ranges": Case(
        lambda: ScorecardLearner(pp.Scorecards(steps=5, zoom="private"), 20, delta="1e-3", public_n_users=400),
        "x wide kind a",
        law=False,
    ),
    "scorecard with chances, of few records": Case(
        lambda: ScorecardLearner(
            pp.Scorecards(steps=5), 1, delta="1e-6", calibrate="1/2", neighbours="replace", max_records=3
        ),
        "x kind",
        law=False,
    ),
    # Trees
    "tree": Case(lambda: TreeLearner(PathTree(CODES), 2), method="tree"),
    "tree of prefixes": Case(lambda: TreeLearner(PrefixTree(3), 3, "1e-2"), "place"),
    "tree of prefixes, best node, capped": Case(
        lambda: TreeLearner(PrefixTree(3), 3, "1e-2", mode="erm", max_records=4), "place"
    ),
    "tree of words": Case(lambda: TreeLearner(StarTree(), 3, "1e-2", mode="erm"), "place"),
    "tree of a taxonomy": Case(lambda: TreeLearner(TAXONOMY, 2, mode="erm"), "kind"),
    "tree of categories": Case(lambda: TreeLearner(StarTree(Categories(["a", "b", "c"])), 2, mode="erm"), "kind"),
    "tree of a table": Case(
        lambda: TreeLearner(VC1Tree.from_matrix([[0] * 10, [0] * 9 + [1], [1] + [0] * 9]), 2, mode="exact")
    ),
    "tree of branches": Case(lambda: TreeLearner(BranchThresholds(CODES), 3, "1e-2", mode="erm"), "place x"),
    "tree by an interior point": Case(
        lambda: TreeLearner(PathTree(CODES), 3, "1e-2", selector="interior", mode="erm"), law=False
    ),
    "tree under replace": Case(
        lambda: TreeLearner(PrefixTree(3), 3, "1e-2", neighbours="replace", mode="erm"), "place"
    ),
    "glued trees": Case(lambda: TreeLearner(glue(PrefixTree(2), PathTree(6)), 2, "1e-2", mode="erm"), "place"),
    # Distributions
    "selector": Case(
        lambda: HypothesisSelector([[1] * 10, [1] * 5 + [3] * 5], 1, records_per_user=4, candidates_are="public"),
        label=False,
    ),
    "cover": Case(lambda: CoverLearner("discrete", 4, alpha="1/2", records_per_user=2), "kind", label=False),
    "averaged histogram": Case(lambda: AveragedHistogram(1), "x kind", label=False, law=False),
    "histogram of own shares": Case(
        lambda: Histogram(1, contribution=OwnShares(levels=840)), "x kind", label=False, law=False
    ),
    "columns one by one": Case(lambda: ColumnByColumn(1), "x kind", label=False, law=False),
    "histogram with Gaussian noise": Case(lambda: GaussianHistogram(1, delta="1e-4"), "x kind", label=False, law=False),
    "stable histogram of words": Case(
        lambda: VocabularyHistogram(4, delta="1e-1", max_values=3), "place", label=False, law=False
    ),
    "stable histogram of codes": Case(
        lambda: VocabularyHistogram(4, delta="1e-1", max_records=4, neighbours="replace"), "x", label=False, law=False
    ),
    "quantile": Case(lambda: QuantileLearner(1, "1/3"), "x", label=False),
    "quantile of own medians": Case(lambda: QuantileLearner(1, weight="own"), "x", label=False),
    "quantile of own thirds, capped": Case(
        lambda: QuantileLearner(1, "1/3", weight="own", neighbours="replace", max_records=6), "z", label=False
    ),
    "averaged mean": Case(lambda: AveragedMean(1), "x", label=False, law=False),
    "histogram": Case(lambda: ClippedHistogram(1, max_records=4), "x kind", label=False, law=False),
    "histogram in one stage": Case(lambda: ClippedHistogram(1, max_records=4, stages=1), label=False, law=False),
    "coarse mean": Case(lambda: CoarseToFineMean(2, radius=10, records_per_user=4), "x", label=False, law=False),
}
PAIRED: dict[str, Case] = {
    "coarse variance": Case(
        lambda: CoarseToFineVariance(2, max_variance=64, records_per_user=8), "x", label=False, law=False
    ),
    "coarse covariance": Case(
        lambda: CoarseToFineCovariance(2, max_variance=64, records_per_user=8), "x a", label=False, law=False
    ),
    "coarse normal": Case(
        lambda: CoarseToFineGaussian(2, radius=10, max_variance=64, records_per_user=8), "x", label=False, law=False
    ),
}
"""Learners that pair a user's records in the order given: files keep it, other orders give other pairs."""

INNER = RealizableSelection(pp.Thresholds(CODES), "1/2")
IN_MEMORY: dict[str, tuple[Callable[[], Any], str]] = {
    "reduction": (lambda: AgnosticReduction(INNER, 4, 1, eta="1/8", split_rate="1/2"), "UserData.read"),
    "reduction by name": (
        lambda: learner_for(pp.Thresholds(CODES), epsilon=4, method="reduction", public_n_users=400),
        "UserData.read",
    ),
    "item algorithm": (
        lambda: ItemAlgorithm(len, pp.Guarantee("1/2", unit="item", neighbours="add-remove"), 1),
        "UserData.read",
    ),
    "empirical": (
        lambda: EmpiricalLearner(RealizableSelection(CUTS, "0.1", neighbours="replace"), draws=90, size=USERS),
        "UserData.read",
    ),
    "deletion": (
        lambda: DeletionStability(RegretSelection(CUTS, 1, neighbours="replace"), 9, "0.2", ladder=1),
        "TrimmedSelection",
    ),
    "votes": (
        lambda: VotePredictor(Relabelling(pp.Thresholds(CODES), 4, 1, eta="1/8", split_rate="1/2"), 3, "1/2", 8),
        "UserData.read",
    ),
    "one random record": (lambda: OneRecordPerUser(RegretSelection(CUTS, 1), "random"), "record='public'"),
    "tree in parts": (lambda: TreeLearner(PathTree(CODES), 2, parts=4), "leave out parts"),
}


def bits(learner: Any, data: Any) -> list[str]:
    """What is released with the same coins."""
    with insecure_randomness(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = learner.learn(data, rng=SeededRng(2))
    return [released.outcome, str(released.value), *sorted(map(str, released.parameters.items()))]


def law(learner: Any, data: Any) -> Law:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counted = isinstance(learner, TreeLearner) and learner.needs_count
        found: Law = learner.law(data, given=40) if counted else learner.law(data)
    return found


def same_law(a: Law, b: Law) -> bool:
    """Decided exactly."""
    return a.satisfies(b, 0) and b.satisfies(a, 0)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The frame held one of several ways, written and scanned once for every declaration."""

    @cache
    def users(way: str, columns: str, label: bool, user: bool) -> Any:
        return held(way, FRAME, tmp_path_factory.mktemp(way), schema(columns, label=label, user=user))

    return users


@pytest.mark.parametrize("name", sorted(CASES | PAIRED))
def test_the_same_law_and_the_same_draws_on_every_engine(name: str, once: Callable[..., Any]) -> None:
    case = (CASES | PAIRED)[name]
    declared, learner = (case.columns, case.label, case.user), case.learner()
    memory = once("memory", *declared)
    drawn = bits(learner, memory)
    said = law(learner, memory) if case.law else None
    users = once("sorted", *declared)
    assert bits(learner, users) == drawn if said is None else same_law(said, law(learner, users))
    assert bits(learner, once("wired", *declared)) == drawn


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_order_of_rows_does_not_matter(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    declared, learner = schema(case.columns, label=case.label, user=case.user), case.learner()
    other = FRAME.sample(fraction=1, shuffle=True, seed=5)
    assert bits(learner, held("memory", other, tmp_path, declared)) == bits(
        learner, held("memory", FRAME, tmp_path, declared)
    )


@pytest.mark.parametrize("name", sorted(IN_MEMORY))
@pytest.mark.parametrize("way", ["sorted", "shuffled"])
def test_learners_that_need_memory_refuse_before_any_spend_and_name_what_to_do(
    name: str, way: str, tmp_path: Path
) -> None:
    build, advice = IN_MEMORY[name]
    learner = build()
    ledger = BudgetLedger(tmp_path / "ledger.db", learner.guarantee, dataset="people")
    with pytest.raises((TypeError, ParameterError)) as told:
        learner.learn(held(way, FRAME, tmp_path, schema("x")), ledger=ledger)
    assert advice in str(told.value)
    assert not ledger.history()


def test_no_learner_is_forgotten() -> None:
    """Every method and every public learner has a line above."""
    assert {case.method for case in CASES.values()} - {None} == set(METHODS) - {"reduction"}  # it is in memory only
    built = {type(case.learner()) for case in (CASES | PAIRED).values()} | {
        type(build()) for build, _ in IN_MEMORY.values()
    }
    for room in (learners, distributions):
        for name in room.__all__:
            kind = getattr(room, name)
            if isinstance(kind, type) and issubclass(kind, Learner):
                assert kind in built, name


def test_a_wrong_count_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a user's rows landed in two parts, the user would count twice: laws and draws say so."""
    from privpac.data.engines import spill

    def torn(ids: Any) -> Any:
        import numpy as np

        return np.arange(len(ids), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    learner, declared = RegretSelection(CUTS, 1, public_n_users=30), schema("x")
    memory = held("memory", FRAME, tmp_path, declared)
    monkeypatch.setattr(spill, "hashed_ids", torn)
    users = held("shuffled", FRAME, tmp_path, declared)
    assert not same_law(law(learner, memory), law(learner, users))
    assert count_users(users) > count_users(memory) == USERS
