"""Families of distributions as something to plan for: users needed to learn a law in total variation, from public
numbers only.

==============  =============================================  =====================================================
family          must be given                                  methods
==============  =============================================  =====================================================
``selection``   ``k`` candidates (or ``candidates``,           hypothesis selection
                ``domains``)
``discrete``    ``k`` values (or ``domain``)                   selection from a cover, noisy averages, noisy counts
``product``     ``d`` columns of ``k`` values (or ``sizes``)   selection from a cover, noisy averages, noisy counts
``histogram``   ``k`` bins (``d`` columns, or ``sizes``)       noisy averages, noisy counts
``gaussian``    ``radius`` (``d``, ``variance``,               coarse to fine (known variance), selection from a cover
                ``max_variance``)
``vocabulary``  ``delta`` (``max_values``)                     stable histogram
==============  =============================================  =====================================================

Certified numbers are those of the learners themselves (their own certificates, with the same cover, clip and split of
the budget). Not certified, so not in a plan: histograms in two stages, and coarse-to-fine variances and covariances.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Floats64
from privpac.data import Domain, Floats, Integers, Texts, UserData
from privpac.distributions.base import Discrete, DistributionLearner, Family, Gaussian, Independent
from privpac.distributions.gaussian import TAU, CoarseToFineMean, Quantities, cell_scores, certify_mean, fine_budget
from privpac.distributions.histogram import AveragedHistogram, ClippedHistogram, certify_averages, certify_counts
from privpac.distributions.quantiles.median_plan import MedianTarget, median_target
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.distributions.vocabulary import MAX_VOCABULARY, VocabularyHistogram, certify_vocabulary
from privpac.errors import InfeasibleError, ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.lower_bounds import (
    larger,
    lower_covariance,
    lower_discrete,
    lower_gauss_mean,
    lower_product,
    lower_selection,
)
from privpac.methods.planned import (
    TABLE,
    Asked,
    CertifiedRun,
    Target,
    feature_words,
    option_words,
    privacy_words,
    read_goal,
)
from privpac.methods.registry import PlannedMethod, resolve
from privpac.methods.simulation import Draws, Simulation, fixed_draws
from privpac.parameters import COUNT_LEVELS, DEFAULT_BETA
from privpac.sample_size import Certificate
from privpac.special import ndtr, ndtri

# The public shape of a family of distributions, read and checked: what is missing or strange is said by name.


def read_shape(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a target from what was declared.

    >>> read_shape("product", {"k": 3, "d": 2})
    {'sizes': (3, 3)}
    """
    read = {
        "selection": _selection,
        "discrete": _discrete,
        "gaussian": _gaussian,
        "vocabulary": _vocabulary,
    }.get(family, _columns)
    return read(family, given)


def _selection(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    opt = rational(given.get("opt", 0), "opt", minimum=0, below=1)
    if "candidates" not in given:
        if "domains" in given:
            raise ParameterError("domains go with candidates; give both, or k alone")
        return {"k": _count(family, given, "k", "how many candidates there are"), "opt": opt}
    candidates = given["candidates"]
    found = len(HypothesisSelector(candidates, 1, candidates_are="public", records_per_user=1).candidates)
    if given.get("k", found) != found:
        raise ParameterError(f"k = {given['k']} but there are {found} candidates; leave k out")
    return {"k": found, "opt": opt, "candidates": candidates, "domains": tuple(dict(given.get("domains", {})).items())}


def _discrete(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "domain" not in given:
        return {"sizes": (_count(family, given, "k", "how many values the column may have"),)}
    domain = given["domain"]
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 9), got {type(domain).__name__}")
    if given.get("k", domain.size) != domain.size:
        raise ParameterError(f"k = {given['k']} but the domain has {domain.size} values; leave one of them out")
    return {"sizes": (domain.size,)}


def _columns(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "sizes" in given:
        if "k" in given or "d" in given:
            raise ParameterError("give sizes, or k and d, not both")
        sizes = given["sizes"]
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            raise TypeError(
                f"sizes must be a list of numbers of values, one for each column, got {type(sizes).__name__}"
            )
        read = tuple(positive_int(size, "sizes") for size in sizes)
        if not read:
            raise ParameterError("sizes needs at least one column")
        return {"sizes": read}
    what = "how many bins" if family == "histogram" else "how many values each column may have"
    k = _count(family, given, "k", what)
    d = 1 if family == "histogram" and "d" not in given else _count(family, given, "d", "how many columns there are")
    return {"sizes": (k,) * positive_int(d, "d", maximum=1 << 12)}


def _gaussian(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "radius" not in given:
        raise ParameterError("family 'gaussian' needs radius: a public bound on how far the mean is from 0")
    ranges = {name: given[name] for name in ("radius", "variance", "max_variance") if name in given}
    return {"law": Gaussian(**ranges), "d": positive_int(given.get("d", 1), "d", maximum=4096)}


def _vocabulary(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {} if "max_values" not in given else {"max_values": positive_int(given["max_values"], "max_values")}


def _count(family: str, given: Mapping[str, Any], name: str, what: str) -> int:
    if name not in given:
        raise ParameterError(f"family {family!r} needs {name}: {what}")
    return positive_int(given[name], name)


# What learners of distributions are predicted to do on a stated law: mean total variation over simulated people.
#
# Noisy counts and coarse-to-fine means have no finite law, so their steps are drawn: people and noise of the learners'
# own public numbers, in double precision, with public seeds.  Stated laws: all values of every column equally likely;
# normal with the mean half-way to the public radius.  Selection has an exact law
# (:mod:`privpac.distributions.family_plan`).


_Runner = Callable[[Any, int, int, Fraction], Callable[[int], float]]
MOST_VALUES, MOST_COLUMNS = 1 << 12, 64
_MOST_USERS = 1 << 20
MOST_CELLS = 1 << 16
_MOST_DRAWN, _MOST_BRANCHES = 1 << 18, 1 << 10


def histogram_simulations(target: CountedTarget) -> list[FamilySimulation]:
    """Noisy averages and noisy counts.

    >>> [made.method for made in histogram_simulations(family_target("histogram", epsilon=1, k=10))]
    ['averaged histogram', 'clipped histogram, one stage']
    """
    if max(target.sizes) == 1 or sum(target.sizes) > MOST_VALUES:
        return []
    many = "" if len(target.sizes) == 1 else " of every column"
    summed = (
        ""
        if math.prod(target.sizes) <= MOST_CELLS
        else " (the sum over the columns, which is at least that of the whole)"
    )
    law = f"all {' x '.join(map(str, dict.fromkeys(target.sizes)))} values{many} equally likely{summed}"
    return [
        FamilySimulation("averaged histogram", law, target, _averaged, _MOST_USERS),
        FamilySimulation("clipped histogram, one stage", law, target, _counted, _MOST_USERS),
    ]


def coarse_simulations(target: GaussianTarget) -> list[FamilySimulation]:
    """Coarse-to-fine means of known variance; people are drawn one by one."""
    if target.law.max_variance is not None or target.d > MOST_COLUMNS:
        return []
    law = f"normal with variance {float(rational(target.law.variance)):g}, the mean half-way to the radius"
    return [FamilySimulation("coarse-to-fine mean", law, target, _normal, _MOST_DRAWN // target.d)]


@frozen(slots=False)
class FamilySimulation(Simulation):
    """One learner on one law."""

    method: str
    law: str
    target: FamilyTarget
    steps: _Runner
    most_users: int

    first: ClassVar[int] = 16
    most_runs: ClassVar[int] = 2048

    @property
    def model(self) -> str:
        return f"{self.law}, as many records per user as the column says"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many to simulate, or the learner refuses these numbers."""
        if n_users > self.most_users:
            return None
        try:
            return self.steps(self.target, records_per_user, n_users, epsilon)
        except (ParameterError, TooLargeError):
            return None

    def between(self, records_per_user: int) -> tuple[int, int]:
        certified = self.target.certified_users(self.method, records_per_user)
        return max(2, (certified or 64) // 8), self.most_users


def noise_of_sums(rng: Draws, rate: float, size: Any) -> Array:
    """Discrete Laplace noise."""
    kept = -math.expm1(-rate)
    return np.asarray(rng.geometric(kept, size) - rng.geometric(kept, size))


# Counts


def _counted(target: object, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    return _masses(target, m, n, epsilon, m)


def _averaged(target: object, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    """Everybody has as many records: the sums are the counts in finer units."""
    return _masses(target, m, n, epsilon, COUNT_LEVELS)


def _masses(target: Any, m: int, n: int, epsilon: Fraction, weight: int) -> Callable[[int], float]:
    sizes, factor = target.sizes, 1 if target.neighbours is Neighbours.ADD_REMOVE else 2
    rate = float(epsilon) / (len(sizes) * factor * weight)

    def distance(i: int) -> float:
        rng, columns = fixed_draws(41, m, i), []
        for k in sizes:
            sums = rng.multinomial(n * m, np.full(k, 1 / k)) * (weight / m)
            kept = np.maximum(sums + noise_of_sums(rng, rate, k), 0)
            columns.append(kept / kept.sum() if kept.any() else np.full(k, 1 / k))
        if math.prod(sizes) > MOST_CELLS:
            return sum(float(np.abs(masses - 1 / len(masses)).sum() / 2) for masses in columns)
        joint: Floats64 = np.ones(1)
        for masses in columns:
            joint = np.multiply.outer(joint, masses).ravel()
        return float(np.abs(joint - 1 / len(joint)).sum() / 2)

    return distance


# Means


def _normal(target: object, m: int, n: int, epsilon: Fraction) -> Callable[[int], float]:
    run = normal_run(target, m, n, epsilon)

    def distance(i: int) -> float:
        distances, likely = run(i)
        return float(np.sum(likely * distances))

    return distance


def normal_run(
    target: Any, m: int, n: int, epsilon: Fraction, place: float = 0.5, more: float = 0.0
) -> Callable[[int], tuple[Floats64, Floats64]]:
    """Distances of what is released, and their chances, in a run; the mean ``place`` of the way to the radius.

    ``more``: the share of users who hold four times as many records as declared.
    """
    law, d = target.law, int(target.d)
    learner = evolve(target, epsilon=epsilon).coarse_learner(m)
    axis, relation, shares = learner.axis, Neighbours(target.neighbours), learner.shares
    factor, deviation = 1 if relation is Neighbours.ADD_REMOVE else 2, math.sqrt(rational(law.variance))
    centre = float(rational(law.radius)) * place / math.sqrt(d)
    scatter = deviation / np.sqrt(np.where(np.arange(n) < more * n, 4.0 * m, float(m)))
    coarse, fine = epsilon * shares[0] / d, epsilon * shares[1] / d
    first, last = axis.limits

    def cells(rng: Draws, y: NDArray[np.int64]) -> tuple[Floats64, Floats64]:
        """The exact law of the first step: a center in every block of cells that count alike, and its chance."""
        if axis.idle:
            return np.array([float(axis.window[0])]), np.ones(1)
        places, scores = cell_scores(Quantities(y, n), axis.cell, first, last)
        lengths = np.diff(np.append(places, last - first + 1)).astype(np.float64)
        logs = np.log(lengths) - float(coarse) / factor * (scores - scores.min())
        chance = np.exp(logs - logs.max())
        kept = chance > 1e-6 * chance.sum()
        chosen = first + places[kept] + np.floor(rng.random(int(kept.sum())) * lengths[kept])
        return chosen * axis.cell + axis.cell // 2, chance[kept] / chance[kept].sum()

    tau = axis.window[1] if axis.idle else TAU
    rate = float(fine_budget(axis, (coarse, fine))) / (factor * tau)

    def run(i: int) -> tuple[Floats64, Floats64]:
        rng, away, likely = fixed_draws(43, m, d, i), np.zeros(1), np.ones(1)
        count = n if not shares[2] else max(1, n + int(noise_of_sums(rng, float(epsilon * shares[2]), ())))
        for _ in range(d):
            y = axis.steps(rng.normal(centre, scatter, n))
            centers, chance = cells(rng, y)
            sums = np.clip(y[None, :] - centers[:, None], -tau, tau).sum(axis=1) + noise_of_sums(rng, rate, ())
            value = np.clip(axis.unit * (centers + sums / count), axis.lo, axis.hi)
            away, likely = np.add.outer(away, (value - centre) ** 2).ravel(), np.multiply.outer(likely, chance).ravel()
            if len(away) > _MOST_BRANCHES:  # one of them, by its chance
                one = rng.choice(len(away), p=likely / likely.sum())
                away, likely = away[one : one + 1], np.ones(1)
        return np.asarray(2 * ndtr(np.sqrt(away) / deviation / 2) - 1), likely

    return run


# What selection among distributions is predicted to do: the mean total variation over its exact law, on drawn people
# of a stated law.
#
# =================  ================================================================================================
# selection          ``k`` candidates on a power of two of values, tilted along different Walsh signs so that any two
#                    are ``2 alpha`` apart (at most 1/2); the first of them is the law.  Given candidates of one
#                    column: the first is the law
# discrete, product  the masses of every column grow like 1, 2, ..., k
# gaussian           the mean is half-way to the public radius, in all columns alike, and so is the variance where it
#                    has a range (one column)
# =================  ================================================================================================
#
# Learners, clips and covers are those of the plan; scores are computed as the learner does, and the mean over its
# exponential law is a sum in double precision.  People are drawn with fixed seeds, so the same question has the same
# answer.


MOST_RECORDS, MOST_CANDIDATES, MOST_LISTED = 1 << 18, 64, 1 << 10


@frozen(slots=False, eq=False)
class Ready:
    """A learner with all that does not depend on the data: scores of a data set, their range, and how far each outcome
    is from the law."""

    scores: Callable[[UserData], NDArray[np.int64]]
    rate: float
    distances: Floats64
    draw: Callable[[int, Draws], Array]
    domains: tuple[tuple[str, Domain], ...]

    def mean(self, n: int, m: int, rng: Draws) -> float:
        """Mean total variation over the law of the output, for one drawn data set."""
        return float(np.sum(self.chances(n, m, rng) * self.distances))

    def chances(self, n: int, m: int, rng: Draws) -> Floats64:
        """The law of the output, for one drawn data set."""
        values = self.draw(n * m, rng)
        people = UserData.from_arrays(values, None, np.repeat(np.arange(n), m), features=dict(self.domains))
        scores = self.scores(people).astype(np.float64)
        weight = np.exp(-self.rate * (scores - scores.min()))
        return np.asarray(weight / np.sum(weight))


@frozen(slots=False)
class LawSimulation(Simulation):
    """One way of selecting a distribution, on one law."""

    method: str
    law: str
    target: FamilyTarget
    prepare: Callable[[Any, int, Fraction], Ready]
    quick: bool = True
    """Whether it takes a moment only."""
    _made: dict[Any, Any] = field(factory=dict, init=False, repr=False, eq=False)

    first: ClassVar[int] = 4
    most_runs: ClassVar[int] = 160

    @property
    def model(self) -> str:
        return f"{self.law}, as many records per user as the column says"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many to simulate, or the learner refuses these numbers."""
        m, asked = records_per_user, (records_per_user, epsilon)
        if n_users * m * self.target.numbers_per_record > MOST_RECORDS:
            return None
        try:
            if asked not in self._made:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                    self._made[asked] = self.prepare(self.target, m, epsilon)
        except (ParameterError, TooLargeError):
            return None
        ready: Ready = self._made[asked]
        return lambda i: ready.mean(n_users, m, fixed_draws(19, m, i))

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self.most_runs if self.quick else 8

    def between(self, records_per_user: int) -> tuple[int, int]:
        certified = self.target.certified_users(self.method, records_per_user)
        return max(4, (certified or 64) // 32), MOST_RECORDS // (records_per_user * self.target.numbers_per_record)


# Candidates


def _aim(target: SelectionTarget) -> Fraction:
    """The accuracy that a learner is told; from one half on, where it says nothing, a usual one."""
    return target.alpha if target.alpha < Fraction(1, 2) else Fraction(1, 10)


def selection_simulations(target: SelectionTarget) -> list[LawSimulation]:
    """Selection among candidates, as far as that takes a moment."""
    if target.candidates is None:
        if not 1 < target.k <= MOST_CANDIDATES:
            return []
        law = f"{target.k} candidates, any two {float(_apart(target)):g} apart, one of them right"
        return [LawSimulation("hypothesis selection", law, target, selected_ready)]
    if len(target.domains) != 1 or target.domains[0][1].size > MOST_LISTED or len(target.candidates) > MOST_CANDIDATES:
        return []
    return [LawSimulation("hypothesis selection", "the first of the given candidates", target, selected_ready)]


def _apart(target: SelectionTarget) -> Fraction:
    return min(2 * _aim(target), Fraction(1, 2))


def _walsh(target: SelectionTarget) -> tuple[list[list[int]], tuple[tuple[str, Domain], ...]]:
    """Weights ``1 + t w_i(x)``, ``w_i`` different Walsh signs: where two differ, on half of the values, it is by ``2
    t``."""
    size, tilt = 1 << target.k.bit_length(), 2 * _apart(target)
    x = np.arange(size)
    signs = [1 - 2 * (np.bitwise_count(x & i).astype(np.int64) & 1) for i in range(1, target.k + 1)]
    weights = [(tilt.denominator + tilt.numerator * sign).tolist() for sign in signs]
    return weights, (("x", Integers(0, size - 1)),)


def selected_ready(target: SelectionTarget, m: int, epsilon: Fraction) -> Ready:
    given, domains = (target.candidates, target.domains) if target.candidates is not None else _walsh(target)
    told = {"records_per_user": m, "alpha": _aim(target), "beta": target.beta, "opt": target.opt}
    learner = evolve(target, epsilon=epsilon).selector(given, told)
    comparison = learner.comparison(dict(domains))
    top, reach = learner.top_for(comparison), learner.range_of(comparison)
    masses = np.array([[float(p) for p in candidate.value_masses(dict(domains))] for candidate in learner.candidates])
    masses /= masses.sum(axis=1, keepdims=True)
    domain = domains[0][1]

    def draw(size: int, rng: Draws) -> Array:
        codes = rng.choice(masses.shape[1], size, p=masses[0])
        return (
            codes
            if domain.numeric and domain.line == (Fraction(0), Fraction(1))
            else np.array([domain.value(int(code)) for code in codes])
        )

    distances = np.abs(masses - masses[0]).sum(axis=1) / 2
    return Ready(lambda users: comparison.scores(users, top), float(epsilon) / reach, distances, draw, domains)


# What all families of distributions share as something to plan for: the goal, the learners of covers and of counts,
# and the commands of their certified rows, ``privpac distribution`` and ``privpac select``.
#
# A plan knows how many values or bins a column has, not which: where it cannot say, a word in capitals stands for the
# reader's own.


COVERS = "privpac.papers.few_examples_per_user.cover_plan"
"""Selection from a cover: a result of the paper, loaded on use."""

_HARD_LAWS = {
    "average": "histogram_claim",
    "counts": "histogram_claim",
    "coarse-to-fine": "mean_claim",
    "selection": "candidates_claim",
    "stable": "vocabulary_claim",
}

_DEFAULTS = ("levels", "cover_radius")
"""Parameters that are certified as the learner's own defaults: no option changes them."""


@frozen(slots=False)
class FamilyTarget(Target):
    """What is wanted of a learned law: total variation at most ``alpha`` with probability ``1 - beta``."""

    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    delta: Fraction

    family: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]
    cover_laws: ClassVar[str] = ""
    """Hard laws for selection from a cover: what a cover holds decides how its certificate is tried."""

    measure = "total variation"
    usual_alpha = Fraction(1, 10)
    slow = True

    @property
    def covered(self) -> Family | None:
        """The laws among which a cover selects; None where none is planned."""
        return None

    @property
    def numbers_per_record(self) -> int:
        """How much a drawn record takes."""
        return 1

    @property
    def note(self) -> str:
        return "; ".join(self._remarks())

    def _remarks(self) -> list[str]:
        if self.delta > 0:
            return [
                "all methods are pure (delta is not used); the lower bounds are proved for delta = 0 only, so none is "
                "shown"
            ]
        return []

    @property
    @abstractmethod
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        """Columns as far as the plan knows them."""

    @abstractmethod
    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        """The learner of a method, with the parameters of its certificate."""

    def _run(self, method: str, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """The run of a certified row: its parameters are those of the certificate."""
        told = certificate.parameters
        options = self._ranges() | {name: value for name, value in told.items() if name not in _DEFAULTS}

        def words() -> list[str]:
            return [*self._command(method), *privacy_words(self.epsilon, self.neighbours), *option_words(options)]

        return CertifiedRun(method, certificate.n_users, told, lambda: self.learner(method, certificate), words)

    def _command(self, method: str) -> list[str]:
        return ["distribution", *TABLE, *self._columns(), "--family", self.family, "--method", method]

    def _columns(self) -> list[str]:
        return feature_words(dict(self.domains))

    def _ranges(self) -> dict[str, Any]:
        """Public bounds that a command says beside the certified parameters."""
        return {}

    def _line(self, name: str, method: str, certify: Callable[[int], Certificate], assumes: str = "") -> PlannedMethod:
        run, laws = partial(self._run, method), f"privpac.auditing.family_laws:{_HARD_LAWS[method]}"
        return PlannedMethod(name, certify, assumes, run=run, key=method, hard_laws=laws)

    def _cover_line(self, assumes: str = "") -> PlannedMethod:
        line: PlannedMethod = resolve(f"{COVERS}:cover_line")(self, assumes)
        return evolve(line, run=partial(self._run, "cover"), hard_laws=f"{COVERS}:{self.cover_laws}")

    @property
    def _hard(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "success": 1 - self.beta, "neighbours": self.neighbours}

    def _with_lower(
        self, lines: list[PlannedMethod], name: str, lower: Callable[[int], Certificate]
    ) -> list[PlannedMethod]:
        return lines if self.delta > 0 else [*lines, PlannedMethod(name, lower, kind="lower bound")]


# Open vocabularies as something to plan for: the share of every value at once, also of those that are not shown.


@frozen(slots=False)
class VocabularyTarget(FamilyTarget):
    """Shares of the values of a column that nobody can list, each within ``alpha``."""

    max_values: int = MAX_VOCABULARY

    family = "vocabulary"
    takes = ("max_values",)
    measure = "share of any value"
    usual_alpha = FamilyTarget.usual_alpha / 2

    def __attrs_post_init__(self) -> None:
        if self.delta == 0:
            raise ParameterError(
                "family 'vocabulary' needs delta above 0, such as 1e-6: without it no value may show that another "
                "table does not hold; declare the values (Categories) and plan a histogram for pure privacy"
            )

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        return [self._line("stable histogram", "stable", self.stable)]

    def stable(self, m: int) -> Certificate:
        learner = _stable(self)
        told: dict[str, Any] = {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta}
        return certify_vocabulary(
            learner.stable.threshold,
            neighbours=self.neighbours,
            max_values=self.max_values,
            levels=learner.contribution.levels,
            **told,
        )

    def learner(self, method: str, certificate: Certificate) -> VocabularyHistogram:
        return _stable(self)

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return (("x", Texts()),)

    def _columns(self) -> list[str]:
        return ["--feature", "COLUMN=text"]

    def _command(self, method: str) -> list[str]:
        return ["distribution", *TABLE, *self._columns(), "--method", method, "--delta", str(self.delta)]

    @property
    def shown(self) -> dict[str, str]:
        return {"vocabulary": f"open, at most {self.max_values} values of a person count"}

    def _remarks(self) -> list[str]:
        needed = _stable(self).stable.threshold / _stable(self).contribution.levels
        return [
            "alpha is the largest error of any value's share, 0 being said of those not shown",
            f"a value shows from about {needed:.4g} people on who hold nothing else",
        ]


@lru_cache(maxsize=256)
def _stable(target: VocabularyTarget) -> VocabularyHistogram:
    return VocabularyHistogram(
        target.epsilon, delta=target.delta, neighbours=target.neighbours, max_values=target.max_values
    )


_ANY_TWO = ([1, 0], [0, 1])


# Selection


@frozen(slots=False)
class SelectionTarget(FamilyTarget):
    """The closest of ``k`` candidates, one of which is within ``opt`` of the population."""

    k: int
    opt: Fraction = Fraction(0)
    candidates: Any = None
    _domains: tuple[tuple[str, Domain], ...] = ()

    family = "selection"
    takes = ("k", "candidates", "domains", "opt")

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return self._domains

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = [self._line("hypothesis selection", "selection", self.selection)]
        return lines if self.candidates is not None else self._with_lower(lines, "any private selection", self.lower)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*selection_simulations(self)]

    @property
    def shown(self) -> dict[str, str]:
        return {"selection": f"among {self.k} {'given ' if self.candidates is not None else ''}candidates"}

    def _remarks(self) -> list[str]:
        if self.candidates is not None:
            return ["no lower bound for given candidates: the one for the worst candidates says nothing about them"]
        return super()._remarks()

    def _command(self, method: str) -> list[str]:
        """A law for every name: one of ``scipy.stats``, or a file."""
        given = self.candidates
        names = list(given) if isinstance(given, Mapping) else [f"NAME{i}" for i in range(1, min(self.k, 3) + 1)]
        laws = [word for name in names for word in ("--candidate", f"{name}=LAW")]
        columns = self._columns() or ["--feature", "COLUMN=LO:HI"]
        return ["select", *TABLE, *columns, *laws, "--candidates-are", "public"]

    def selection(self, m: int) -> Certificate:
        # Any two candidates stand for k: what is promised whatever the candidates depends on their number only.
        listed = _ANY_TWO if self.candidates is None else self.candidates
        told = {"records_per_user": m, "alpha": self.alpha, "beta": self.beta, "opt": self.opt}
        learner = self.selector(listed, told)
        if self.candidates is None:
            found = evolve(learner.plan, log_size=math.log(self.k)).certificate
        else:
            found = learner.certificate_for(dict(self.domains)) if self.domains else learner.certificate
        assert found is not None
        return found.run_with(**told)

    def selector(self, candidates: object, told: dict[str, Any]) -> HypothesisSelector:
        return HypothesisSelector(candidates, self.epsilon, candidates_are="public", neighbours=self.neighbours, **told)

    def learner(self, method: str, certificate: Certificate) -> HypothesisSelector:
        if self.candidates is None:
            raise ParameterError(
                "the learner selects among candidates that the plan does not know: plan with candidates=[...]"
            )
        return self.selector(self.candidates, certificate.parameters)

    def lower(self, m: int) -> Certificate:
        return lower_selection(self.k, alpha=self.alpha, records_per_user=m, **self._hard)


# Mass functions


@frozen(slots=False)
class CountedTarget(FamilyTarget):
    """Mass functions on so many values in each column."""

    sizes: tuple[int, ...]

    takes: ClassVar[tuple[str, ...]] = ("k", "d", "sizes")
    described: ClassVar[Family | None] = None
    cells: ClassVar[str] = "values"
    """What has a mass."""
    cover_laws = "masses_claim"

    @property
    def covered(self) -> Family | None:
        return self.described

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = [
            *([] if self.covered is None else [self._cover_line()]),
            self._line("averaged histogram", "average", lambda m: certify_averages(self.sizes, **self._goal)),
            self._line("clipped histogram, one stage", "counts", self.counts),
        ]
        return self._with_lower(lines, "any private learner", self.lower)

    def counts(self, m: int) -> Certificate:
        return certify_counts(self.sizes, records_per_user=m, **self._goal)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        covered = [] if self.covered is None else resolve(f"{COVERS}:mass_simulations")(self)
        return [*covered, *histogram_simulations(self)]

    def _command(self, method: str) -> list[str]:
        family = self.family if method == "cover" else "histogram"
        return ["distribution", *TABLE, *self._columns(), "--family", family, "--method", method]

    @property
    def shown(self) -> dict[str, str]:
        if len(self.sizes) == 1:
            return {self.family: f"{self.sizes[0]} {self.cells}"}
        same = len(set(self.sizes)) == 1
        return {
            self.family: f"{len(self.sizes)} columns of "
            f"{self.sizes[0] if same else ', '.join(map(str, self.sizes))} {self.cells}"
        }

    def _remarks(self) -> list[str]:
        words = super()._remarks()
        words.append("histograms in two stages have no certificate; the number is for stages=1")
        words.append(
            "averaging needs no cap and lets people differ; where all hold equally many records it errs as counting "
            "does"
        )
        return words

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return tuple((f"x{i}", Integers(0, size - 1)) for i, size in enumerate(self.sizes))

    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        if method == "cover":
            covering: DistributionLearner = resolve(f"{COVERS}:cover_learner")(self, certificate.parameters)
            return covering
        kind = AveragedHistogram if method == "average" else ClippedHistogram
        return kind(self.epsilon, neighbours=self.neighbours, **certificate.parameters)

    def lower(self, m: int) -> Certificate:
        largest = max(self.sizes)
        if largest < 2:
            return Certificate.lower(0, "discrete law", "one value")
        # The bound grows with the number of categories, so that for fewer of them holds as well.
        one = lower_discrete(min(largest, 1 << 13), alpha=self.alpha, records_per_user=m, **self._hard)
        if len(self.sizes) == 1:
            return one
        return larger(one, lower_product(self.sizes, alpha=self.alpha, records_per_user=m, **self._hard))


@frozen(slots=False)
class DiscreteTarget(CountedTarget):
    """All mass functions on ``k`` values."""

    family = "discrete"
    takes = ("k", "domain")
    described = Discrete()


@frozen(slots=False)
class ProductTarget(CountedTarget):
    """All products of mass functions."""

    family = "product"
    cover_laws = "products_claim"
    described = Independent()


@frozen(slots=False)
class HistogramTarget(CountedTarget):
    """Masses of declared bins."""

    family = "histogram"
    cells = "bins"

    def _columns(self) -> list[str]:
        names = ["COLUMN"] if len(self.sizes) == 1 else [f"COLUMN{i}" for i in range(1, len(self.sizes) + 1)]
        features = [word for name in names for word in ("--feature", f"{name}=LO:HI")]
        return [*features, *(word for name, size in zip(names, self.sizes) for word in ("--bins", f"{name}={size}"))]


# Normal laws


@frozen(slots=False)
class GaussianTarget(FamilyTarget):
    """Normal laws of ``d`` columns, the mean within ``radius`` of 0, one known ``variance`` or eigenvalues up to
    ``max_variance``."""

    law: Gaussian
    d: int

    family = "gaussian"
    cover_laws = "normal_claim"
    takes = ("radius", "d", "variance", "max_variance")

    @property
    def covered(self) -> Family | None:
        return self.law

    @property
    def numbers_per_record(self) -> int:
        return self.d

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        known = self.law.max_variance is None
        lines = [self._line("coarse-to-fine mean", "coarse-to-fine", self.coarse)] if known else []
        if self.d <= 4:
            # Sets of laws with different spreads are found on a grid, their probabilities from many samples.
            sets = "" if known else ", and sets and their probabilities right up to the learner's rounding"
            lines.append(self._cover_line(sets))
        return self._with_lower(lines, "any private learner", self.lower)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*resolve(f"{COVERS}:normal_simulations")(self), *coarse_simulations(self)]

    def _ranges(self) -> dict[str, Any]:
        wide = {} if self.law.max_variance is None else {"max_variance": rational(self.law.max_variance)}
        return {"radius": rational(self.law.radius), "variance": rational(self.law.variance), **wide}

    @property
    def shown(self) -> dict[str, str]:
        spread = f"variance {float(rational(self.law.variance)):g}"
        if self.law.max_variance is not None:
            spread += f" to {float(rational(self.law.max_variance)):g}"
        return {
            "gaussian": (
                f"{self.d} column{'s' if self.d > 1 else ''}, radius {float(rational(self.law.radius)):g}, {spread}"
            )
        }

    def _remarks(self) -> list[str]:
        words = super()._remarks()
        if self.law.max_variance is not None:
            words.append("coarse-to-fine variances and covariances have no certificate")
            if self.d == 1:
                words.append("the lower bound is that of the mean alone")
        if self.d > 4:
            words.append("covers of more than 4 columns are too large to search")
        return words

    def coarse(self, m: int) -> Certificate:
        """The best of all declarations that people with ``m`` records fulfil: finer units have more cells to choose
        from.

        ``records_per_user`` of the certificate is the one to declare.
        """
        found = [_coarse(self, told) for told in _declared(m)]
        return min(found, key=lambda c: math.inf if c.n_users is None else c.n_users)

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return tuple((f"x{i}", Floats()) for i in range(self.d))

    def coarse_learner(self, told: int) -> CoarseToFineMean:
        """The learner of people with ``told`` records or more."""
        ranges: dict[str, Any] = {"radius": self.law.radius, "variance": self.law.variance}
        return CoarseToFineMean(self.epsilon, records_per_user=told, neighbours=self.neighbours, **ranges)

    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        if method == "cover":
            covering: DistributionLearner = resolve(f"{COVERS}:cover_learner")(self, certificate.parameters)
            return covering
        return self.coarse_learner(certificate["records_per_user"])

    def lower(self, m: int) -> Certificate:
        """The mean's, or the covariance's where that is unknown and needs more people."""
        if self.law.max_variance is None or self.d == 1:
            return self._lower_mean(m)
        target = min(self.alpha, Fraction(499999, 10**6))
        shape = lower_covariance(self.d, alpha=target, records_per_user=m, ratio=self.law.ratio, **self._hard)
        try:
            return larger(self._lower_mean(m), shape)
        except InfeasibleError:
            return shape

    def _lower_mean(self, m: int) -> Certificate:
        """Means along a code, all of them within ``Phi^-1(1/2 + alpha) sqrt(d)`` deviations of 0: the family must hold
        them."""
        needed = float(ndtri(0.5 + min(float(self.alpha), 0.499999))) * math.sqrt(self.d) * (1 + 1e-6)
        reach = float(rational(self.law.radius)) / math.sqrt(rational(self.law.variance))
        if reach < needed:
            raise InfeasibleError(
                f"the bound is for means within {needed:.3g} deviations of 0; the radius is {reach:.3g} of them"
            )
        return lower_gauss_mean(self.d, alpha=self.alpha, records_per_user=m, **self._hard)


@lru_cache(maxsize=4096)
def _coarse(target: GaussianTarget, m: int) -> Certificate:
    found = certify_mean(target.coarse_learner(m), alpha=target.alpha, beta=target.beta, dimension=target.d)
    return found.run_with(radius=target.law.radius, variance=target.law.variance, records_per_user=m)


def _declared(m: int) -> list[int]:
    """Numbers of up to three binary digits, at most ``m``, the largest first: one list for all ``m``, so more records
    never harm."""
    found = {1, 2, 3} | {digits << shift for shift in range(m.bit_length()) for digits in (4, 5, 6, 7)}
    return sorted((told for told in found if told <= m), reverse=True)


# Reading a request


FAMILY_TARGETS: dict[str, type[FamilyTarget]] = {
    kind.family: kind
    for kind in (SelectionTarget, DiscreteTarget, ProductTarget, HistogramTarget, GaussianTarget, VocabularyTarget)
}


def shape_of_family(family: str) -> tuple[str, ...]:
    """By which numbers a family, or the median, is described."""
    return MedianTarget.takes if family == "median" else FAMILY_TARGETS[family].takes


def family_target(
    family: str,
    *,
    epsilon: Rational,
    alpha: Rational = "0.1",
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    delta: Rational = 0,
    **shape: Any,
) -> FamilyTarget | MedianTarget:
    """What to plan for: a family by name, its public shape, and the total variation wanted.

    ``"median"`` (of a ``domain``, or of numbers of so many ``bits``) is planned as well; ``alpha`` is then a share of
    the ranks.

    >>> target = family_target("discrete", epsilon=1, alpha="0.1", k=4)
    >>> {method.name: method.certify(16).n_users for method in target.methods()}  # doctest: +NORMALIZE_WHITESPACE
    {'selection from a cover': 695, 'averaged histogram': 471, 'clipped histogram, one stage': 137,
     'any private learner': 3}
    """
    if not isinstance(family, str) or family not in (*FAMILY_TARGETS, "median"):
        raise ParameterError(f"family must be one of {', '.join(FAMILY_TARGETS)}, median, got {str(family)[:40]!r}")
    takes = shape_of_family(family)
    given = {name: value for name, value in shape.items() if value is not None}
    strange = sorted(set(given) - set(takes))
    if strange:
        raise ParameterError(f"family {family!r} is not described by {', '.join(strange)}; give {', '.join(takes)}")
    if family == "median":
        return median_target(epsilon=epsilon, alpha=alpha, beta=beta, neighbours=neighbours, delta=delta, **given)
    goal = read_goal(epsilon, alpha, beta, neighbours, delta)
    return FAMILY_TARGETS[family](**goal, **read_shape(family, given))
