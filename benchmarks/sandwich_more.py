"""Lower bound, measured and certified numbers of users for the methods that do not select rules by score.

    python benchmarks/sandwich_more.py [--quick] [--markdown] [--family trees|votes|local|laws|points|search]

* **trees**: ``TreeLearner`` on a path of 256 nodes and a star of 64 values.  Clean labels; just above alpha of the mass
  lies on the point that tells the right node from the others, so a data set is the number of users who saw it: the mean
  over it is a sum, not a sample.
* **votes**, **local**: the plurality at the end of learning by agreement, central (with and without delta), shuffled,
  and by local reports. Users name one item of 256 with probability 0.9 each, all the others name one other item.
  Certificates give it a third of beta.  Sums over laws; for local reports, runs of the protocol.
* **laws**: ``HypothesisSelector`` among two laws and ``CoverLearner`` on two and four categories, total variation
  alpha; the law of the output on seeded data sets, from the laws of the lower bound.
* **points**: ``InteriorPoint``, half of the values on each of two neighbouring points; the law of the output, or runs
  where it is too long.
* **search**: ``ThresholdSearch`` on 33 cuts with noisy labels as in ``sandwich.py``; runs, each on a data set of its
  own.

Beta = 0.1, alpha = 0.1 unless said.  *Failure at certified* is exact but for the data sets that were drawn; where runs
are counted, it is an upper bound (Clopper and Pearson, 99.9 %).  Reading: see ``sandwich.py``.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from attrs import frozen
from common import Grid
from rich.console import Console
from sandwich import BETA, Cell, Rules, World, least
from scipy.stats import beta as beta_law
from scipy.stats import binom, nbinom

from privpac.bounds import (
    lower_agreement_packing,
    lower_discrete,
    lower_packing,
    lower_tree,
    lower_two_points,
    plan_threshold_search,
    users_histogram,
    users_local,
    users_plurality,
    users_shuffle,
)
from privpac.data import Integers, UserData
from privpac.device.randomizers import HadamardSelection
from privpac.distributions import CoverLearner, HypothesisSelector
from privpac.errors import AccuracyWarning
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.mechanisms.votes import PureSelection, StableHistogram
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.papers.pure_agnostic.search import ThresholdSearch
from privpac.protocols.calibrate import calibrate
from privpac.rules import PathTree, StarTree, Thresholds
from privpac.testing import SeededRng, insecure_randomness

__all__ = ["FAMILIES", "SHAPES", "Row", "rows", "tree_missed", "tree_row"]

ALPHA = Fraction(1, 10)
STRICT = Fraction(10001, 10000)
SHARE, ITEMS = Fraction(9, 10), 256
THIRD = BETA / 3
RUNS, SURE = 400, 0.999


@frozen(slots=False)
class Row:
    """One method in one setting."""

    family: str
    method: str
    setting: str
    lower: int
    measured: int | None
    certified: int
    failure: float
    """At the certified number of users."""
    limit: Fraction = BETA
    runs: int = 0
    searched: bool = True
    """False: nothing but the certified number was tried."""

    @property
    def at_most(self) -> float:
        """The failure, or what bounds it but for 0.1 % where runs were counted."""
        if not self.runs:
            return self.failure
        wrong = round(self.failure * self.runs)
        return float(beta_law.ppf(SURE, wrong + 1, self.runs - wrong)) if wrong < self.runs else 1.0

    @property
    def inside(self) -> bool:
        enough = not self.searched or (self.measured is not None and self.measured <= self.certified)
        return enough and self.at_most <= self.limit and self.lower <= self.certified

    @property
    def above_lower(self) -> bool:
        return self.measured is None or self.measured >= self.lower


def row(
    family: str, method: str, setting: str, lower: Any, certified: int, fails: Callable[[int], float], **more: Any
) -> Row:
    """The least sufficient number by doubling and bisection, unless the certified one is not enough."""
    limit, last = more.get("limit", BETA), fails(certified)
    found = least(lambda n: fails(n) <= limit, certified) if last <= limit else None
    return Row(family, method, setting, lower.n_users or 0, found, certified, last, **more)


# Trees


def tree_failure(missed: Callable[[int, int], float], m: int, n: int) -> float:
    """One minus the chance of the target, over the number of users whose records tell it."""
    share = 1 - (1 - float(ALPHA * STRICT)) ** m
    # What is left out on both sides weighs less than 1e-8.
    told = range(int(binom.ppf(1e-9, n, share)), int(binom.isf(1e-9, n, share)) + 1)
    return sum(float(binom.pmf(k, n, share)) * missed(k, n) for k in told)


def tree_missed(learner: TreeLearner, points: Any, m: int, target: Any) -> Callable[[int, int], float]:
    """One minus the chance of the target when k of n users hold a telling record."""

    @cache
    def law(k: int, n: int) -> float:
        rows = np.zeros((n, m), dtype=int)
        rows[:k, 0] = 1
        records = np.array(points)[rows.ravel()]
        domain = learner.tree.domain  # type: ignore[attr-defined]
        people = UserData.from_arrays(records[:, :1], records[:, 1], np.repeat(np.arange(n), m), features={"x": domain})
        return 1 - float(learner.law(people).prob(target))

    # Users without a telling record name the root, whose score is min(n - hi, K - k): beyond n = hi + K more of them
    # change nothing.
    enough = (learner.hi or 0) + (learner.K or 0)
    return lambda k, n: law(k, min(n, max(k, enough)))


SHAPES: dict[str, tuple[Any, Fraction, list[tuple[int, int]], Any]] = {
    "path of 256": (PathTree(Integers(0, 255), "x", "above"), Fraction(0), [(127, 0), (128, 1)], 128),
    "star of 64": (StarTree(Integers(0, 63), "x"), Fraction(0), [(20, 0), (7, 1)], (7,)),
    "star of 64, δ = 1e-6": (StarTree(Integers(0, 63), "x"), Fraction(1, 10**6), [(20, 0), (7, 1)], (7,)),
}
"""Tree, delta, the common and the telling record, and the right node."""


def tree_row(name: str, m: int, relation: str) -> Row:
    tree, delta, points, target = SHAPES[name]
    asked: dict[str, Any] = {"alpha": ALPHA, "beta": BETA, "records_per_user": m, "neighbours": relation}
    learner = TreeLearner.plan(tree, 1, delta, **asked)
    assert learner.users_needed is not None
    fails = cache(partial(tree_failure, tree_missed(learner, points, m, target), m))
    lower = lower_tree(epsilon=1, delta=delta, **asked)
    return row("trees", name, f"ε = 1, m = {m}, {relation}", lower, learner.users_needed, fails)


def trees(quick: bool) -> Iterator[Row]:
    for name in SHAPES:
        for relation in ("add-remove", "replace"):
            for m in (16,) if quick else (1, 4, 16):
                yield tree_row(name, m, relation)


# Votes


def over_votes(fail: Callable[[int, int], float], n: int) -> float:
    """The mean of ``fail(votes for the item, votes for the other)``."""
    some = [c for c in range(n + 1) if binom.pmf(c, n, float(SHARE)) > 1e-15]
    return sum(float(binom.pmf(c, n, float(SHARE))) * fail(c, n - c) for c in some)


def central(selector: Any, right: int, wrong: int) -> float:
    # The item has the larger number, so that ties go against it.
    votes = {item: count for item, count in ((1, right), (0, wrong)) if count}
    return 1 - float(selector.law(votes).prob(1))


def shuffled(r: float, p: float, right: int, wrong: int) -> float:
    """All buckets hold their count and NB(r, p) noise; the largest wins, ties go against the item."""
    noise = np.arange(int(nbinom.isf(1e-17, r, 1 - p)) + 2)
    below = nbinom.cdf(right - wrong + noise - 1, r, 1 - p) * nbinom.cdf(right + noise - 1, r, 1 - p) ** (ITEMS - 2)
    return max(0.0, 1 - float(nbinom.pmf(noise, r, 1 - p) @ below))


def local(keep: Fraction, n: int, runs: int = RUNS) -> float:
    """Runs of the local protocol: every report and the decoding are the library's own."""
    chooser, missed = HadamardSelection(8, keep), 0
    with insecure_randomness():
        for run in range(runs):
            rng, says = SeededRng(run), np.random.default_rng(run).random(n) < float(SHARE)
            missed += chooser.decode([chooser.report(200 if right else 100, rng) for right in says]) != 200
    return missed / runs


def votes(quick: bool) -> Iterator[Row]:
    for epsilon in (1,) if quick else (1, 4):
        for relation in ("add-remove", "replace"):
            for delta in (Fraction(0), Fraction(1, 10**6)):
                given: dict[str, Any] = {"neighbours": relation}
                selector: Any = (
                    StableHistogram(epsilon, delta=delta, **given)
                    if delta
                    else PureSelection(epsilon, universe=ITEMS, **given)
                )
                bound = (
                    users_histogram(selector.K, beta=BETA)
                    if delta
                    else users_plurality(1 / selector.q, ITEMS, beta=BETA)
                )
                fails = cache(partial(over_votes, partial(central, selector)))
                name = "stable histogram, δ = 1e-6" if delta else "pure selection"
                lower = lower_agreement_packing(ITEMS, epsilon=epsilon, delta=delta, beta=THIRD)
                assert bound.n_users is not None
                yield row("votes", name, f"ε = {epsilon}, {relation}", lower, bound.n_users, fails, limit=THIRD)
        noise = calibrate(epsilon, "1e-6")
        bound = users_shuffle(noise.r, noise.p, ITEMS, beta=BETA)
        fails = cache(partial(over_votes, partial(shuffled, float(noise.r), float(noise.p))))
        lower = lower_agreement_packing(ITEMS, epsilon=epsilon, delta="1e-6", beta=THIRD)
        assert bound.n_users is not None
        yield row(
            "votes", "shuffled counts, δ = 1e-6", f"ε = {epsilon}, replace", lower, bound.n_users, fails, limit=THIRD
        )


def reports(quick: bool) -> Iterator[Row]:
    for epsilon in (1,) if quick else (1, 4):
        keep = Fraction(round(1000 / (1 + math.exp(-epsilon))) - 1, 1000)  # rounded towards privacy
        bound, lower = users_local(keep, ITEMS, beta=BETA), lower_agreement_packing(ITEMS, epsilon=epsilon, beta=THIRD)
        runs = 250 if quick else RUNS
        assert bound.n_users is not None
        told = cache(partial(local, keep, runs=runs))
        yield row(
            "local", "local reports", f"ε = {epsilon}, replace", lower, bound.n_users, told, limit=THIRD, runs=runs
        )


# Distributions


def people(law: Any, n: int, m: int, seed: int) -> UserData:
    """Users with m records each of a law on categories; nested in n."""
    edges = np.cumsum(np.asarray(law, dtype=float))[:-1]
    values = np.searchsorted(edges, np.random.default_rng([seed, m]).random(n * m), side="right")
    return UserData.from_arrays(
        values[:, None], None, np.repeat(np.arange(n), m), features={"v": Integers(0, len(law) - 1)}
    )


def law_failure(learner: Any, far: Any, laws: Any, m: int, sets: int, n: int) -> float:
    """The largest mean, over the laws, of the probability of an output that is ``far`` from them."""
    worst = 0.0
    for law, wrong in zip(laws, far):
        total = 0.0
        for seed in range(sets):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)
                found: Any = learner.law(people(law, n, m, seed))
            scores = found.score.astype(float)  # one block for each member
            assert len(scores) == len(wrong)
            weight = np.exp(-float(found.eta) * (scores - scores.min()))
            total += float(weight[wrong].sum() / weight.sum())
        worst = max(worst, total / sets)
    return worst


def laws(quick: bool) -> Iterator[Row]:
    sets, bias = 10 if quick else 60, float(2 * ALPHA * STRICT)
    for relation in ("add-remove", "replace"):
        for m in (4,) if quick else (1, 4, 16):
            pair = [[0.5 + bias / 4, 0.5 - bias / 4], [0.5 - bias / 4, 0.5 + bias / 4]]
            given: dict[str, Any] = {"epsilon": 1, "records_per_user": m, "beta": BETA, "neighbours": relation}
            selector = HypothesisSelector(pair, candidates_are="public", alpha=ALPHA, **given)
            plan = selector.plan_for(selector.comparison({"v": Integers(0, 1)})).certificate
            assert plan is not None
            assert plan.n_users is not None
            fails = cache(partial(law_failure, selector, ~np.eye(2, dtype=bool), pair, m, 4 * sets))
            kl = bias * math.atanh(bias / 2)
            distance = (
                1 - 2 * sum(min(binom.pmf(k, m, pair[0][0]), binom.pmf(k, m, pair[1][0])) for k in range(m + 1)) / 2
            )
            both = [lower_packing(2, min(1.0, distance * (1 + 1e-9)), epsilon=1, success=1 - BETA, neighbours=relation)]
            both.append(lower_two_points(kl * (1 + 1e-9), records_per_user=m, success=1 - BETA))
            lower = max(both, key=lambda bound: bound.n_users or 0)
            yield row("laws", "selection among 2 laws", f"ε = 1, m = {m}, {relation}", lower, plan.n_users, fails)
    for k in (2,) if quick else (2, 4):
        target = ALPHA if k == 2 else Fraction(1, 5)
        for m in (4,) if quick else (1, 4, 16):
            domain = {"v": Integers(0, k - 1)}
            learner = CoverLearner(
                "discrete", 1, alpha=target, cover_radius=target / (10 if k == 2 else 6), records_per_user=m, beta=BETA
            )
            plan, cover = learner.certificate_for(domain), learner.cover(domain)
            assert plan is not None
            assert plan.n_users is not None
            tilt = float(min(2 * target * STRICT, Fraction(1)))
            hard = [[(1 + sign * tilt * (-1) ** i) / k for i in range(k)] for sign in (1, -1)]
            members = np.array([list(cover.member(i).probabilities) for i in range(cover.size)], dtype=float)
            far = [np.abs(members - np.array(law)).sum(axis=1) / 2 > float(target) for law in hard]
            fails = cache(partial(law_failure, learner, far, hard, m, sets))
            lower = lower_discrete(
                k, alpha=target, epsilon=1, records_per_user=m, success=1 - BETA, neighbours="add-remove"
            )
            yield row(
                "laws",
                f"cover of {k} categories, α = {float(target):g}",
                f"ε = 1, m = {m}, add-remove",
                lower,
                plan.n_users,
                fails,
            )


# Interior points


def point_failure(build: Callable[[int], InteriorPoint], top: int, runs: int, n: int) -> float:
    """Outside of two neighbouring values, half of the users on each."""
    low = top // 2  # the two differ in every bit
    values = [low] * (n // 2) + [low + 1] * (n - n // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        point = build(n)
    if not runs:
        law = point.law(values)
        return 1 - float(law.prob(low)) - float(law.prob(low + 1))
    with insecure_randomness():
        rng = SeededRng(n)
        return sum(point.sample(values, rng) not in (low, low + 1) for _ in range(runs)) / runs


def points(quick: bool) -> Iterator[Row]:
    for bits in (16,) if quick else (16, 64):
        top = (1 << bits) - 1
        sure = InteriorPoint(1, top=top, beta=BETA).plan.needed
        lower = lower_agreement_packing(top + 1, epsilon=1, beta=BETA)
        fails = cache(partial(point_failure, lambda n, top=top: InteriorPoint(1, top=top, beta=BETA, size=n), top, 0))  # type: ignore[misc]
        yield row("points", f"exponential, {bits} bits", "ε = 1", lower, sure, fails)
    for engine in () if quick else ("walk", "pairs"):
        top = (1 << 900) - 1
        made = InteriorPoint(1, "1e-6", top=top, beta=BETA, levels=1, engine=engine)
        # With reductions every number of values has its own plan: only the certified one is run.
        failure = point_failure(lambda n: made, top, RUNS, made.plan.needed)  # noqa: B023
        lower = lower_agreement_packing(top + 1, epsilon=1, delta="1e-6", beta=BETA)
        name = f"one reduction ({engine}), 900 bits, δ = 1e-6"
        yield Row(
            "points", name, "ε = 1", lower.n_users or 0, None, made.plan.needed, failure, runs=RUNS, searched=False
        )


# Threshold search


def search_failure(learner: ThresholdSearch, world: World, alpha: float, n: int) -> float:
    """Runs, each on a data set of its own."""
    bad = world.excess > alpha
    with insecure_randomness():
        missed = sum(
            bool(bad[learner.learn(data, rng=SeededRng(i)).value.cut]) for i, data in enumerate(world.first(n))
        )
    return missed / world.datasets


def search(quick: bool) -> Iterator[Row]:
    rules = Rules("threshold", (32,), lambda x: x[:, 0] >= 16)
    for m in (16,) if quick else (4, 16):
        cell = Cell(rules, 4, Fraction(1, 5), m)
        asked: dict[str, Any] = {"alpha": cell.alpha, "beta": BETA, "epsilon": cell.epsilon}
        plan = plan_threshold_search(log_domain=math.log(32), records_per_user=m, **asked)
        half, known = Fraction(1, 2), plan["estimate"] == "none"
        learner = ThresholdSearch(
            Thresholds(Integers(0, 31), "x0"),
            Fraction(cell.epsilon),
            max_records=m,
            alpha=cell.alpha,
            noise=(half, half) if known else None,
            radius=None if known else plan["estimate"],
        )
        runs = 70 if quick else 200
        fails = cache(partial(search_failure, learner, World(rules, Fraction(1, 10), m, runs), float(cell.alpha)))
        lower = cell.planned["any private agnostic learner"]
        assert plan.n_users is not None
        setting = f"ε = 4, α = 0.2, m = {m}, add-remove"
        yield row("search", "threshold search, 33 cuts, noise 0.1", setting, lower, plan.n_users, fails, runs=runs)


FAMILIES: dict[str, Callable[[bool], Iterator[Row]]] = {
    "trees": trees,
    "votes": votes,
    "local": reports,
    "laws": laws,
    "points": points,
    "search": search,
}


def rows(families: Any = None, *, quick: bool = False) -> list[Row]:
    return [found for name in families or FAMILIES for found in FAMILIES[name](quick)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few settings of every family, fewer data sets and runs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--family", choices=tuple(FAMILIES), action="append", help="only this family; repeat")
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=160)
    found = rows(options.family, quick=options.quick)
    heads = [
        "family",
        "method",
        "setting",
        "lower",
        "measured",
        "certified",
        "certified / measured",
        "failure at certified",
        "allowed",
    ]
    body = []
    for one in found:
        ratio = "-" if one.measured is None else f"{one.certified / one.measured:.1f}"
        shown = f"{'≤ ' if one.runs else ''}{one.at_most:.0e}"
        numbers = [f"{one.lower}", "-" if one.measured is None else f"{one.measured}", f"{one.certified}"]
        body.append([one.family, one.method, one.setting, *numbers, ratio, shown, f"{float(one.limit):.3g}"])
    Grid(f"β = {float(BETA):g}, α = {float(ALPHA):g} unless said", heads, body).show(console, markdown=options.markdown)
    console.print(
        f"lower <= certified, measured <= certified, failure <= allowed there: {sum(one.inside for one in found)} of "
        f"{len(found)} rows"
    )
    console.print(f"measured >= lower bound: {sum(one.above_lower for one in found)} of {len(found)} rows")
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
