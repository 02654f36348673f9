"""Small trees as something to plan for: certified users, whatever the best tree's error, or with a bound on it.

Certificates (``methods.small_tree``) hold for any joint law of records, labels and numbers of records up to the one
that is planned for; the number of records enters only through the rounding of votes.  They are loose where the best
error is not small, so what a stated model lets expect (``models.small_tree_models``) stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privpac.arrays import Floats64
from privpac.data import UserData
from privpac.data.domains import own_code
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.methods.planned import PlanView, Target, read_goal, rule_run
from privpac.methods.registry import DELTA_PAYS, MANY, METHODS, Choice, PlannedMethod
from privpac.methods.simulation import Simulation, fixed_draws
from privpac.methods.small_tree import SmallTreeLearner, certified_users, exact_records
from privpac.rules.populations import DEFAULT_NOISE, users_from_codes
from privpac.rules.small_trees import SmallTrees, TreeCells
from privpac.rules.wide_columns import BinnedColumn
from privpac.sample_size import LIMIT, Certificate

# What small trees are predicted to do: the mean over the law of the tree, on drawn people of a stated model.
#
# *Model.*  Every column is uniform over its equal bins (a missing value, where declared, is one of them) and
# independent of the others.  Scale-free cuts are left out, of people and of rules: they serve ranges that are too wide,
# and where a range is not, measured errors were the same with them.  The truth is a tree of the class that asks as much
# as it may: in the middle of the first column, then in the middle of the second where that holds and of the third where
# not (of the second again where there are two, of the quarters of the only one); its leaves name different labels by
# turns.  A label is wrong with probability ``noise``, all wrong ones alike.  Everybody holds the same number of
# records.
#
# *Statistic.*  Errors of trees are sums over their leaves, and the law is a product over leaves, sides and roots
# (``methods.small_tree``), so the mean error over all trees takes as much work as the law itself: nothing is
# sampled
# but people.  Doubles will do: a prediction is no promise.


_MOST_RECORDS = 1 << 16
"""Records of one simulated data set at most."""
_SEED = 0


class LeafGains(NamedTuple):
    """``D`` of a table or a population as numbers: in all, where a test holds, where two do; labels first."""

    total: Floats64
    single: Floats64
    both: Floats64

    @staticmethod
    def of(cells: TreeCells, rate: float) -> LeafGains:
        return LeafGains(
            *(np.multiply(rate, part, dtype=np.float64) for part in (cells.total, cells.single, cells.both))
        )

    @property
    def sides(self) -> tuple[tuple[Floats64, Floats64], tuple[Floats64, Floats64]]:
        """For each side of every root: all of it, and where each further test holds."""
        return (self.single, self.both), (
            self.total[:, None] - self.single,
            self.single[:, None, :] - self.both,
        )


def _leaf(weights: Floats64, gains: Floats64) -> tuple[Floats64, Floats64]:
    """Log-weights of leaves, summed over labels, and their mean gains; label 0 weighs 1 and gains nothing."""
    if len(weights) == 1:
        small = np.exp(-np.abs(weights[0]))  # the lesser of the two labels over the other
        share = np.where(weights[0] > 0, 1.0, small) / (1 + small)
        return np.maximum(weights[0], 0.0) + np.log1p(small), share * gains[0]
    top = np.maximum(weights.max(axis=0), 0.0)
    raised = np.exp(weights - top)
    whole = np.exp(-top) + raised.sum(axis=0)
    return top + np.log(whole), (raised * gains).sum(axis=0) / whole


def _mean(logs: Floats64, gains: Floats64) -> tuple[Floats64, Floats64]:
    """Log of the summed weights along the last axis, and the mean gain."""
    top = logs.max(axis=-1)
    raised = np.exp(logs - top[..., None])
    whole = raised.sum(axis=-1)
    return top + np.log(whole), (raised * gains).sum(axis=-1) / whole


def mean_gain(concept: SmallTrees, weights: LeafGains, gains: LeafGains) -> float:
    """The mean over the law of what a tree's leaves gain over "always label 0"; ``weights`` are the exponents."""
    shape = concept.shape
    asks = np.log(np.array([float(ask) for ask in shape.asks]))
    logs, found = np.log(np.array([float(p) for p in shape.prior])), np.zeros(shape.tests)
    for (side, held), (true_side, true_held) in zip(weights.sides, gains.sides):
        log, gain = _leaf(side, true_side)
        options, own = [np.log(float(shape.leaf)) + log[:, None]], [gain[:, None]]
        if shape.depth == 2:
            (one, first), (two, second) = (
                _leaf(held, true_held),
                _leaf(side[:, :, None] - held, true_side[:, :, None] - true_held),
            )
            options, own = [*options, asks + one + two], [*own, first + second]
        log, gain = _mean(np.concatenate(options, axis=1), np.concatenate(own, axis=1))
        logs, found = logs + log, found + gain
    return float(_mean(logs, found)[1])


@frozen(slots=False)
class TreeModel:
    """People whose labels follow one tree, up to noise."""

    concept: SmallTrees
    noise: Fraction

    @cached_property
    def _asked(self) -> tuple[tuple[int, NDArray[np.bool_]], ...]:
        """The questions of the truth, the root's first: a column, and where it holds, bin by bin."""
        binned = self.concept.binned
        if self.concept.depth == 1 or (len(binned) == 1 and len(binned[0].tests) < 3):
            places = [(0, 2)]
        elif len(binned) == 1:
            places = [(0, 2), (0, 3), (0, 1)]
        else:
            places = [(0, 2), (1, 2), (min(2, len(binned) - 1), 2)]
        return tuple((j, _held(binned[j])[len(binned[j].tests) * quarter // 4]) for j, quarter in places)

    def _named(self, answers: Sequence[Any]) -> NDArray[np.int64]:
        """The label of the truth from the answers to its questions."""
        if len(answers) == 1:
            return np.where(answers[0], 1, 0)
        root, yes, no = answers
        return np.where(root, np.where(yes, 1, 0), np.where(no, 2, 3)) % self.concept.labels

    def draw(self, seed: int, users: int, records: int) -> UserData:
        """So many people; more of them are these and some more."""
        binned, size = self.concept.binned, users * records
        bins = [fixed_draws(_SEED, seed, j).integers(0, c.width, size) for j, c in enumerate(binned)]
        labels = self._named([holds[bins[j]] for j, holds in self._asked])
        wrong = fixed_draws(_SEED, seed, len(binned)).random((size, 2))
        others = (wrong[:, 1] * (self.concept.labels - 1)).astype(np.int64)
        labels = np.where(wrong[:, 0] < float(self.noise), (labels + 1 + others) % self.concept.labels, labels)
        codes = {column.name: _codes(column)[values] for column, values in zip(binned, bins)}
        features = {column.name: column.domain for column in binned}
        return users_from_codes(np.full(users, records), codes, labels, features)

    @cached_property
    def population(self) -> LeafGains:
        """``D`` per record of all people: over the answers of the truth's columns, within which columns are
        independent."""
        concept = self.concept
        binned, k, labels = concept.binned, len(concept.tests), concept.labels
        starts = np.cumsum([0, *(len(column.tests) for column in binned)])
        parts = [self._classes(j) for j in range(len(binned))]
        one, both = np.zeros((labels, k)), np.zeros((labels, k, k))
        whole = np.zeros(labels)
        for chosen in product(*parts):
            chance = float(np.prod([share for share, _, _ in chosen]))
            single = np.concatenate([held.mean(axis=1) for _, held, _ in chosen])
            pairs = np.outer(single, single)
            for j, (_, held, _) in enumerate(chosen):  # two questions about one column are not independent
                here = slice(starts[j], starts[j + 1])
                pairs[here, here] = held.astype(float) @ held.T / held.shape[1]
            truth = int(self._named([chosen[j][2][slot] for slot, (j, _) in enumerate(self._asked)]))
            for label in range(labels):
                p = chance * (1 - float(self.noise) if label == truth else float(self.noise) / (labels - 1))
                whole[label] += p
                one[label] += p * single
                both[label] += p * pairs
        return LeafGains(whole[1:] - whole[0], one[1:] - one[0], both[1:] - both[0])

    def _classes(self, j: int) -> list[tuple[float, NDArray[np.bool_], tuple[bool, ...]]]:
        """The bins of a column by what they answer to the questions of the truth about it: their share, where its tests
        hold on them, and the answers (False to questions about other columns)."""
        column = self.concept.binned[j]
        answers = np.array([holds if asked == j else np.zeros(column.width, bool) for asked, holds in self._asked])
        out = []
        for answer in np.unique(answers, axis=1).T:
            own = (answers == answer[:, None]).all(axis=0)
            out.append((float(own.mean()), _held(column)[:, own], tuple(answer.tolist())))
        return out

    @cached_property
    def best(self) -> float:
        """The gain of the truth itself: no tree has more."""
        sharp = 1e9  # a law so sharp that it is the best tree
        gains = self.population
        return mean_gain(self.concept, LeafGains(*(sharp * part for part in gains)), gains)

    def excess(self, weights: LeafGains) -> float:
        return max(0.0, self.best - mean_gain(self.concept, weights, self.population))


def _held(column: BinnedColumn) -> NDArray[np.bool_]:
    """Where the tests of a column hold, test by bin."""
    bins = np.arange(column.width)
    return np.array([bins == v if kind == "is" else (bins >= v) & (bins < column.bins) for kind, v in column.tests])


def _codes(column: BinnedColumn) -> NDArray[np.uint64]:
    """A code of each bin."""
    if column.is_category:
        return np.arange(column.width, dtype=np.uint64)
    own = own_code(column.domain)
    return np.array([0, *column.edges, *([] if own is None else [own])], dtype=np.uint64)


@frozen(slots=False)
class SmallTreeSimulation(Simulation):
    """Small trees on their model, with or without wrong labels."""

    target: SmallTreeTarget
    noise: Fraction
    method: str

    @property
    def key(self) -> str:
        return "small-tree"

    @cached_property
    def people(self) -> TreeModel:
        return TreeModel(self.target.predicted, self.noise)

    @property
    def model(self) -> str:
        asked = "one question" if self.target.concept.depth == 1 else "three questions"
        wrong = "labels right" if self.noise == 0 else f"labels wrong with probability {float(self.noise):g}"
        return f"a tree of {asked} in the middle of columns that are uniform (equal cuts) and independent, {wrong}"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        if n_users * records_per_user > _MOST_RECORDS:
            return None
        learner = SmallTreeLearner(self.target.predicted, epsilon, neighbours=self.target.neighbours)
        rate, people = float(learner.vote_rate), self.people

        def excess(i: int) -> float:
            data = people.draw(i, n_users, records_per_user)
            return people.excess(LeafGains.of(self.target.predicted.cells(data), rate))

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 8, _MOST_RECORDS // records_per_user

    def limit(self, records_per_user: int, n_users: int) -> int:
        """A public number of records, but twelve runs at least."""
        return min(self.most_runs, max(12, 32 * _MOST_RECORDS // (n_users * records_per_user)))


_KEY = "small-tree"
_MOST_PAIRS = 1 << 17
"""Pairs of questions, over all numbers of records, up to which predictions take some seconds: 150 questions at five."""
_RIGHT, _ANY = "small tree, some tree is right", "small tree"


@frozen(slots=False)
class SmallTreeTarget(Target):
    """Excess error ``alpha`` with probability ``1 - beta`` for a small tree, at ``epsilon``."""

    concept: SmallTrees
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None = None
    """At most this error is made by the best tree, where it is declared."""
    delta: Fraction = Fraction(0)
    model_noise: Fraction | None = None
    """How often labels are wrong in predictions; None: as often as the best tree errs, or else the usual noise."""

    @cached_property
    def predicted(self) -> SmallTrees:
        """The class that predictions are about."""
        return evolve(self.concept, spacing="equal")

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        own: dict[str, Any] = {"run": partial(rule_run, self, _KEY), "hard_laws": METHODS[_KEY].hard_laws}
        lines = []
        if setting != "agnostic":
            # Beside the line for any labels it is no line of the method: nobody asked for labels without mistakes.
            right = partial(self.certificate, best_error=Fraction(0), said="some tree is right for every record")
            lines.append(PlannedMethod(_RIGHT, right, key=_KEY if setting == "realizable" else "", **own))
        if setting != "realizable":
            said = "any labels" if self.noise is None else f"the best tree errs on at most {self.noise} of the records"
            any_ = partial(self.certificate, best_error=self.noise, said=said)
            lines.append(PlannedMethod(_ANY, any_, key=_KEY, **own))
        return lines

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        made: list[Simulation] = []
        if setting != "agnostic" and self.model_noise is None:
            made.append(SmallTreeSimulation(self, Fraction(0), _RIGHT))
        if setting != "realizable":
            wrong = DEFAULT_NOISE if self.noise is None else self.noise
            made.append(SmallTreeSimulation(self, wrong if self.model_noise is None else self.model_noise, _ANY))
        return made

    def certificate(self, m: int, *, best_error: Fraction | None, said: str) -> Certificate:
        """Users with up to ``m`` records each.

        Votes of so many records that they do not divide the levels are rounded, which costs users; so no more are read.
        Those that are kept by hash are a random part of a person's records: the mean share of mistakes among them is
        that among all, and people stay independent.
        """
        shape, read = self.concept.shape, exact_records(self.concept.levels, m)
        theta = self.epsilon if self.neighbours is Neighbours.ADD_REMOVE else self.epsilon / 2
        n = certified_users(
            shape.power, shape.least, theta=theta, alpha=self.alpha, beta=self.beta, best_error=best_error
        )
        name = _ANY if best_error != 0 else _RIGHT
        some = f", of which {read} are read, chosen by hash or otherwise at random" if read < m else ""
        found = Certificate.upper(n if n <= LIMIT else None, name, f"{said}, at most {m} records each{some}")
        return found.run_with(max_records=read) if read < m else found

    def certain_if(self, setting: str | None) -> str:
        right = setting == "realizable" or self.noise == 0
        return "if some tree is always right" if right else super().certain_if(setting)

    def quick(self, plan: PlanView) -> bool:
        return len(self.predicted.tests) ** 2 * len(plan.records_per_user) <= _MOST_PAIRS

    def recommend(self, plan: PlanView) -> Choice:
        wide = f"; {DELTA_PAYS}" if len(self.concept.binned) >= MANY else ""
        return Choice(_KEY, f"the one method that learns these rules{wide}")

    @property
    def shown(self) -> dict[str, str]:
        columns, tests = len(self.concept.binned), len(self.concept.tests)
        trees = f"small trees of depth {self.concept.depth}, {tests} questions about {columns} columns"
        return {"class": f"{trees} (cuts: {self.concept.spacing_words})"}


def small_tree_target(
    concept: SmallTrees,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    model_noise: Rational | None = None,
    **model: object,
) -> SmallTreeTarget:
    """The numbers, read and checked; the model of the people to predict on is one of its own."""
    strange = [name for name, value in model.items() if value]
    if strange:
        raise ParameterError(f"{strange[0]} is not known for small trees; leave it out")
    concept.size  # noqa: B018  # a class without its domains is refused here
    goal = read_goal(epsilon, alpha, beta, neighbours)
    most = 1 - Fraction(1, concept.labels)
    return SmallTreeTarget(
        concept,
        **goal,
        noise=None if noise is None else rational(noise, "noise", minimum=0, below=1),
        model_noise=None if model_noise is None else rational(model_noise, "model_noise", minimum=0, below=most),
    )
