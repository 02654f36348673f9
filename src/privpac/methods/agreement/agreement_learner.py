"""Learning by agreement: every user turns its own records into one item, and the item named most often is released.

The item is the answer of a stable learner (:mod:`privpac.device`) to one user's records and a public seed: users
whose records come from the same law mostly name the *same* item, so a plurality needs few users however rich the class
is.  With ``delta > 0`` the plurality is found by a stable histogram (Ghazi, Kumar and Manurangsi, *Correlated
Sampling*, Algorithm 2), with ``delta = 0`` by an exponential law over all items (Theorem 3).

**Guarantee.**  ``(epsilon, delta)`` per user, add-remove or replace, for every seed: one user changes one item
(Proposition 1 of the protocols).  Stability, the number of records and the labels only matter for accuracy.

**Seed repetition** (``repeats = R``).  Everybody names one item for each of R public seeds, and the best supported of
all tagged items (seed, item) is released: where a seed is bad with probability z (two rules nearly tie), all of them
are with probability z**R.  With ``delta = 0`` it costs no epsilon: one person moves the weights of R candidates by one
factor ``B`` in the same direction (under replace of R more in the other), the normaliser by at most ``B``, so every
probability moves by at most ``B`` (``B**2``), as for one item; only the number of candidates grows, R-fold.  With
``delta > 0`` one person moves R independent noisy counts by one: a histogram at ``(epsilon/R, delta/R)`` for each seed,
which add up, and the largest noisy count of all is post-processing.

**Accuracy.**  If a share 0.9 of the users name the same item, some tens of users suffice
(:mod:`privpac.methods.agreement.plurality`); how many records that takes is certified far too cautiously and is best
simulated. When no item is clear the public default stands in, ``outcome="default"``: where no two users agree always
with ``delta > 0``, and with probability ``1 - beta`` without.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.device.correlated_sampling import check_seed
from privpac.device.items import BitParity, Cut, Hypothesis, Junction, LinearRule, OnePoint, RuleList
from privpac.device.littlestone import ValueTable
from privpac.device.scores import CellRun, HashedPoint
from privpac.device.statistical_queries import BayesRule
from privpac.device.tasks import KINDS, ORDERED, Task
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import BOTTOM, Law
from privpac.mechanisms.votes import PureSelection, StableHistogram, vote_decay
from privpac.methods.agreement.plurality import CLEAR, silent_votes
from privpac.methods.base import Bound, Selection
from privpac.parameters import bounds, named, probability, probability_or_zero, whole
from privpac.result import Outcome, Released, register
from privpac.rng import Rng, derive
from privpac.rules.base import ByAgreement, ClassOfRules, ConceptClass, Frozen, Rule, columns_from_list, columns_to_list
from privpac.rules.boxes import literal
from privpac.rules.cuts import cut_condition, need_order
from privpac.rules.enumerated import declared_of, domains_of, named_domains
from privpac.rules.intervals import Interval
from privpac.rules.profile import Profile, Statistic

if TYPE_CHECKING:
    from privpac.data import Users

# Rules that are learned by agreement only: far too many to be scored one by one, so they are named, not numbered.
#
# ``AgreedRules("decision-list", {...})`` or ``AgreedRules("naive-bayes", {...})`` can be bound to columns and given to
# ``AgreementLearner`` (or to ``learn`` with ``method="agreement"``); other methods refuse it.


def by_agreement(concept: object) -> bool:
    """Whether agreement learns rules of this class."""
    return isinstance(concept, ClassOfRules) and concept.by_agreement is not None


def kind_of(concept: ConceptClass) -> str:
    """The kind of task that learns rules of this class."""
    found = concept.by_agreement
    if found is None:
        raise ParameterError(
            f"{type(concept).__name__} cannot be learned by agreement; use Thresholds in one direction, Conjunctions, "
            "DecisionLists, Disjunctions, Halfspaces, Intervals, Parities, Points, Stumps, or AgreedRules of one of "
            f"{', '.join(KINDS)}"
        )
    if found.only_with:
        raise ParameterError(f"{type(concept).__name__} can be learned by agreement with {found.only_with} only")
    return found.kind


def own_parameters(concept: ConceptClass) -> dict[str, int | str]:
    """Parameters of the task that the class itself fixes: a list has at most as many tests as the class allows."""
    found = concept.by_agreement
    return {} if found is None else dict(found.parameters)


def need_ordered_columns(kind: str, features: Mapping[str, Domain | None]) -> None:
    """Refuse columns without an order for a kind of rule that needs one; stumps and weighted sums of two values do
    not."""
    free = 2 if kind in ("stump", "halfspace") else 0
    for name, domain in features.items() if kind in ORDERED else ():
        if domain is None or domain.size <= free:
            continue
        need_order(name, domain, "learn the rule 'point' of one column, or 'naive-bayes' of several")


def _named(features: Mapping[str, Domain | None] | Iterable[str]) -> Mapping[str, Domain | None]:
    return named_domains(features, "features")


@frozen(slots=False)
class AgreedRules(ConceptClass):
    """A kind of rule over named columns.

    >>> from privpac.data import Integers
    >>> AgreedRules("naive-bayes", {"age": Integers(0, 9), "sex": Integers(0, 1)}).vc_dimension
    11
    """

    kind: str
    features: Mapping[str, Domain | None] = field(converter=_named)

    @property
    def scored(self) -> bool:
        return False

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement(self.kind)

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"the kind of rule must be one of {', '.join(KINDS)}; got {str(self.kind)[:40]!r}")
        need_ordered_columns(self.kind, self.features)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(domain.size for domain in domains_of(self.features).values())

    @property
    def size(self) -> int:
        return Task(self.kind, self.sizes).learner.universe.size

    @property
    def vc_dimension(self) -> int:
        """An upper bound; for naive Bayes one weight for every value but the first of a column, and a constant."""
        if self.kind == "naive-bayes":
            return 1 + sum(size - 1 for size in self.sizes)
        return min(self.size.bit_length() - 1, 1 << 20)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self.features)

    def with_columns(self, columns: Mapping[str, Domain]) -> AgreedRules:
        return AgreedRules(self.kind, dict(columns))

    # What cannot be done rule by rule

    def _refuse(self) -> NoReturn:
        raise TooLargeError(f"{self.kind} rules named this way are not scored one by one; use method='agreement'")

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        self._refuse()

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        self._refuse()

    def empty_profile(self) -> Profile:
        self._refuse()

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        self._refuse()

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Any:
        self._refuse()


# The rule of an item that users agreed on: predicts, prints, and is saved like any other rule.


_WORD = 1 << 62
_TEXTS = {"race", "ridge", "learner", "theta", "stop", "alpha", "coins", "share"}


@register("agreed")
@frozen(slots=False, repr=False)
class AgreedRule(Rule):
    """What an item of a task says about named columns."""

    kind: str
    columns: Frozen[Domain]
    item: bytes
    parameters: tuple[tuple[str, int | str], ...] = ()
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if self._hypothesis is None:
            raise ParameterError("these bytes are no rule of the task")

    @cached_property
    def _hypothesis(self) -> Hypothesis | None:
        sizes = tuple(domain.size for domain in self.columns.values())
        return Task(self.kind, sizes, self.parameters).learner.decode(self.item)

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        table = np.stack([codes[name] for name in self.columns], axis=1)
        rule = self._hypothesis
        assert rule is not None
        if isinstance(rule, LinearRule):
            most = max(domain.size for domain in self.columns.values())
            if most * sum(abs(w) for w in rule.weights) < _WORD:
                weights = np.array(rule.weights, dtype=np.int64)
                total = table.astype(np.int64) @ weights[: table.shape[1]] + weights[table.shape[1] :].sum()
                return np.asarray(total > 0, dtype=np.int8)
        return rule.predict(table)

    def condition(self) -> str:
        return _condition(self._hypothesis, self.columns)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.kind,
            "columns": columns_to_list(self.columns),
            "item": self.item.hex(),
            "parameters": {name: str(value) for name, value in self.parameters},
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        numbers = tuple((name, text if name in _TEXTS else int(text)) for name, text in values["parameters"].items())
        columns, item = columns_from_list(values["columns"]), bytes.fromhex(values["item"])
        return cls(values["rule"], columns, item, numbers, values["label"])


def _literals(numbers: Iterable[int], columns: Mapping[str, Domain]) -> list[str]:
    named = list(columns.items())
    return [literal(*named[j % len(named)], int(j < len(named))) for j in numbers]


def _condition(rule: Hypothesis | None, columns: Mapping[str, Domain]) -> str:
    """When a rule says 1."""
    names, domains = list(columns), list(columns.values())

    def value(place: int, code: int) -> str:
        return f"{names[place]} {'=' if domains[place].ordered else 'is'} {domains[place].text(code)}"

    match rule:
        case Cut(column, cut, above):
            return cut_condition(names[column], domains[column], cut, "above" if above else "below")
        case OnePoint(None) | HashedPoint(bucket=None):
            return "never"
        case OnePoint(int(point)):
            return value(0, point)
        case HashedPoint(_, function, buckets, bucket):
            return f"{names[0]} is in bucket {bucket} of {buckets} (public hash {function})"
        case CellRun(low, high):
            return Interval(names[0], domains[0], low, high).condition()
        case BitParity(mask):
            odd = [name for j, name in enumerate(names) if mask >> j & 1]
            return f"an odd number of {', '.join(odd)}" if odd else "never"
        case BayesRule():
            return f"the values of {', '.join(names)} weigh more for 1 (naive Bayes)"
        case Junction(width, mask, every):
            chosen = [j for j in range(2 * width) if mask >> j & 1]
            if any(j + width in chosen for j in chosen):
                return "never" if every else "always"
            return (" and " if every else " or ").join(_literals(chosen, columns)) or ("always" if every else "never")
        case RuleList(_, (), (), default):
            return "always" if default else "never"
        case RuleList(_, tests, labels, default):
            steps = [f"{' and '.join(_literals(t, columns)) or 'true'}: {said}" for t, said in zip(tests, labels)]
            return f"the first that holds says 1 ({'; '.join([*steps, f'otherwise: {default}'])})"
        case LinearRule(weights):
            parts = [f"{weight:+d} {name}" for weight, name in zip(weights, names) if weight]
            constant = [f"{weight:+d}" for weight in weights[len(names) :] if weight]
            if parts:
                return f"{' '.join([*parts, *constant])} > 0"
            return "always" if constant and constant[0][0] == "+" else "never"
        case ValueTable(sizes, bits):
            ones = [np.unravel_index(place, sizes) for place in np.flatnonzero(bits)]
            points = (" and ".join(value(j, int(code)) for j, code in enumerate(point)) for point in ones)
            return "always" if len(ones) == len(bits) else " or ".join(points) or "never"
    raise TypeError(f"no words for {type(rule).__name__}")


_MOST_REPEATS = 64


@frozen(slots=False)
class _Items:
    """Counts of the users' items; users with nothing to say are not counted."""

    task: Task
    columns: tuple[str, ...]
    seeds: tuple[bytes, ...]

    def zero(self) -> Counter[tuple[int, bytes]]:
        return Counter()

    def chunk(self, users: UserData) -> Counter[tuple[int, bytes]]:
        assert users.labels is not None
        x, y = np.stack([users.codes[name] for name in self.columns], axis=1), users.labels.astype(np.int64)
        learner, ends = self.task.learner, users.offsets.tolist()
        votes: Counter[tuple[int, bytes]] = Counter()
        for j, seed in enumerate(self.seeds):
            items = (learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(ends))
            votes.update((j, item) for item in items if item is not None)
        return votes

    def merge(self, a: Counter[tuple[int, bytes]], b: Counter[tuple[int, bytes]]) -> Counter[tuple[int, bytes]]:
        return a + b


def task_of(
    kind: str, columns: Mapping[str, Domain], parameters: Mapping[str, int | str], min_records: int = 1
) -> Task:
    """The task of a kind of rule over bound columns."""
    return Task(kind, tuple(domain.size for domain in columns.values()), tuple(parameters.items()), min_records)


def pure_selection(
    epsilon: Rational,
    task: Task,
    beta: Rational,
    neighbours: Neighbours | str,
    unit: Unit | str = Unit.USER,
    repeats: int = 1,
) -> PureSelection:
    """Selection among all items of a task (for each of ``repeats`` seeds) that abstains, except with probability
    ``beta``, where no two people agree."""
    size, base = repeats * task.learner.universe.size, 1 / vote_decay(epsilon, neighbours)
    abstain = silent_votes(base, size, beta)
    return PureSelection(epsilon, universe=size, abstain=abstain, unit=unit, neighbours=neighbours)


@frozen(slots=False, kw_only=True, field_transformer=named)
class PublicSeeds:
    """The seeds that everybody names an item for.  All public.

    Parameters
    ----------
    seed : bytes
        32 bytes; drawn from the system when left out.
    repeats : int
        How many seeds are made from it; default 1, the seed itself.
    """

    seed: bytes = field(factory=lambda: secrets.token_bytes(32))
    repeats: int = field(default=1, converter=whole, metadata=bounds(maximum=_MOST_REPEATS))

    def __attrs_post_init__(self) -> None:
        check_seed(self.seed)

    @cached_property
    def all_seeds(self) -> tuple[bytes, ...]:
        """The seeds in use."""
        if self.repeats == 1:
            return (self.seed,)
        return tuple(derive(self.seed, "repeat", j) for j in range(self.repeats))


def _frozen_task(task: Mapping[str, int | str]) -> Mapping[str, int | str]:
    return Frozen(tuple(sorted(dict(task).items())))


@frozen(slots=False, field_transformer=named)
class AgreementLearner(PublicSeeds, Selection):
    """Release the rule that most users' own records lead to.

    Parameters
    ----------
    delta : number
        The most that the promise may miss (public); 0, the default, promises epsilon alone.
    task : mapping
        Public parameters of the stable learner, such as ``{"Gamma": ...}`` or ``{"grid": 20}``.
    min_records : int
        Records below which a user says nothing (public); default 1.
    beta : number
        Where no two users agree something is released with at most this probability (public).

    Raises
    ------
    ParameterError
        A parameter is outside its range, or the class has no stable learner.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, int(x > 4)) for x in range(10)] * 30] * 40, features={"x": Integers(0, 9)})
    >>> learner = AgreementLearner(Thresholds(), epsilon=1, delta="1e-6")
    >>> learner.learn(people).outcome, str(learner.guarantee)
    ('released', '(1, 1e-06)-DP per user, add-remove')
    """

    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    task: Mapping[str, int | str] = field(factory=dict, converter=_frozen_task)
    min_records: int = field(default=1, converter=whole)
    beta: Fraction = field(default=CLEAR, converter=probability)
    scores_rules: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        PublicSeeds.__attrs_post_init__(self)
        Selection.__attrs_post_init__(self)
        if self.epsilon == 0:
            raise ParameterError("agreement needs epsilon > 0")
        kind_of(self.concept)
        _ = self._histogram

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    @cached_property
    def _histogram(self) -> StableHistogram | None:
        if self.delta == 0:
            return None
        repeats = self.repeats
        shares = {"epsilon": self.epsilon / repeats, "delta": self.delta / repeats}
        return StableHistogram(**shares, unit=self.unit, neighbours=self.neighbours, named=2)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        self.task_of(bound)
        return bound

    def columns_of(self, bound: Bound) -> dict[str, Domain]:
        """The columns of the bound class."""
        declared = bound.concept.declared().items()
        return {name: domain for name, domain in declared if name is not None and domain is not None}

    def task_of(self, bound: Bound) -> Task:
        """What every user's records are turned into an item by."""
        parameters = {**own_parameters(bound.concept), **self.task}
        return task_of(kind_of(bound.concept), self.columns_of(bound), parameters, self.min_records)

    def _votes(self, bound: Bound) -> dict[int, int]:
        task = self.task_of(bound)
        universe = task.learner.universe
        items = bound.users.fold(_Items(task, tuple(self.columns_of(bound)), self.all_seeds))
        return {j * universe.size + universe.number(item): count for (j, item), count in items.items()}

    def selector(self, task: Task) -> StableHistogram | PureSelection:
        """What names one item from all votes."""
        if self._histogram is not None:
            return self._histogram
        return pure_selection(self.epsilon, task, self.beta, self.neighbours, self.unit, self.repeats)

    def law(self, data: Users) -> Law:
        """The law over items' numbers and ``BOTTOM``, given the seed; those of seed j come after j universes."""
        bound = self.bind(data)
        return self.selector(self.task_of(bound)).law(self._votes(bound))

    def _rule(self, bound: Bound, drawn: Any) -> tuple[AgreedRule, bool]:
        """The rule of what was drawn, and whether it is one that somebody can name: otherwise the default."""
        task, columns = self.task_of(bound), self.columns_of(bound)
        item = None if drawn is BOTTOM else task.learner.universe.item(drawn % task.learner.universe.size)
        known = item is not None and task.learner.decode(item) is not None
        said = item if known and item is not None else task.default
        return AgreedRule(task.kind, Frozen(tuple(columns.items())), said, task.parameters, bound.label), known

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        rule, known = self._rule(bound, value)
        return "released" if known else "default", str(rule)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        rule, known = self._rule(bound, self.selector(self.task_of(bound)).sample(self._votes(bound), rng))
        parameters: dict[str, object] = {"class": type(bound.concept).__name__, "seed": self.seed.hex()}
        parameters |= {"min_records": self.min_records, "beta": str(self.beta), **dict(self.task)}
        if self.repeats > 1:
            parameters["repeats"] = self.repeats
        outcome: Outcome = "released" if known else "default"
        return Released(rule, self.guarantee, parameters, outcome, self.warnings, learner="agreement")


# How far people would agree, before a run: for choosing ``Gamma``, grids and the number of records before a manifest is
# written.  **No privacy.**  The shares are computed from the people's items themselves; nothing of this may be done
# with people who are to be protected.


@frozen(slots=False)
class SimulatedAgreement:
    """What people named, for each of several seeds: the share of the most voted rule, of the two most voted, of people
    with nothing to say, and the error of the most voted rule on all records."""

    people: int
    shares: tuple[float, ...]
    two: tuple[float, ...]
    silent: float
    errors: tuple[float, ...]
    bits: int

    @property
    def share(self) -> float:
        """The mean share of the most voted rule."""
        return float(np.mean(self.shares))

    @property
    def error(self) -> float:
        """The mean error of the most voted rule."""
        return float(np.mean(self.errors)) if self.errors else 1.0

    def __str__(self) -> str:
        low = min(self.shares)
        return (
            f"{self.share:.0%} of {self.people} people name one rule ({low:.0%} for the worst of {len(self.shares)} "
            f"seeds), its error is {self.error:.3f}; {self.silent:.0%} have nothing to say; items of {self.bits} bits"
        )


def simulate_agreement(
    concept: ConceptClass | str,
    people: UserData,
    *,
    task: Mapping[str, int | str] | None = None,
    seeds: int = 8,
    min_records: int = 1,
    public: bool = False,
) -> SimulatedAgreement:
    """How far these people agree: measure before a run, on public or made-up people.

    Parameters
    ----------
    concept
        A class of rules, or the name of a kind of rule over all columns of the people.
    people
        Public or made-up people; never those who are to be protected.
    task
        Public parameters of the stable learner, such as ``{"Gamma": rate(60)}``.
    seeds
        Public seeds to try, the same in every call; a real run has one of its own.
    min_records
        Records below which a person has nothing to say.
    public
        Must be ``True``: says that the people are public or made up.

    Returns
    -------
    SimulatedAgreement
        What the people named, for each of the seeds.

    Raises
    ------
    ParameterError
        Without ``public=True``, or for a class without a stable learner.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, int(x > 4)) for x in range(10)] * 30] * 20, features={"x": Integers(0, 9)})
    >>> simulate_agreement("threshold", people, seeds=2, public=True).share > 0.5
    True
    """
    if public is not True:
        raise ParameterError("this shows people's own votes; say public=True, for public or made-up people")
    chosen = AgreedRules(concept, dict(people.features)) if isinstance(concept, str) else concept
    learner = AgreementLearner(chosen, epsilon=Fraction(1), task=dict(task or {}), min_records=min_records)
    bound = learner.bind(people)
    made, columns, table = learner.task_of(bound), learner.columns_of(bound), bound.users
    assert isinstance(table, UserData)
    assert table.labels is not None
    x = np.stack([table.codes[name] for name in columns], axis=1)
    y, ends = table.labels.astype(np.int64), table.offsets.tolist()
    shares, two, errors, silent = [], [], [], 0
    for j in range(positive_int(seeds, "seeds", maximum=1000)):
        seed = derive(bytes(32), "simulated", j)
        named = [made.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(ends)]
        votes = Counter(item for item in named if item is not None)
        silent += len(named) - sum(votes.values())
        top = votes.most_common(2)
        shares.append(top[0][1] / len(named) if top else 0.0)
        two.append(sum(count for _, count in top) / max(1, len(named)))
        if top:
            rule = AgreedRule(made.kind, Frozen(tuple(columns.items())), top[0][0], made.parameters)
            errors.append(float(np.mean(rule.predict_codes({name: table.codes[name] for name in columns}) != y)))
    count = max(1, len(ends) - 1)
    return SimulatedAgreement(
        len(ends) - 1, tuple(shares), tuple(two), silent / (seeds * count), tuple(errors), made.learner.universe.bits
    )
