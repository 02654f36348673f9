"""Learning by agreement: every user turns its own records into one item, and the item named most often is released.

The item is the answer of a stable learner (:mod:`privpac.agreement`) to one user's records and a public seed: users
whose records come from the same law mostly name the *same* item, so a plurality needs few users however rich the class
is.  With ``delta > 0`` the plurality is found by a stable histogram (Ghazi, Kumar and Manurangsi, *Correlated
Sampling*, Algorithm 2), with ``delta = 0`` by an exponential law over all items (Theorem 3).

**Guarantee.**  ``(epsilon, delta)`` per user, add-remove or replace, for every seed: one user changes one item
(Proposition 1 of the room ``agreement``).  Stability, the number of records and the labels only matter for accuracy.

**Seed repetition** (``repeats = R``).  Everybody names one item for each of R public seeds, and the best supported of
all tagged items (seed, item) is released: where a seed is bad with probability z (two rules nearly tie), all of them
are with probability z**R.  With ``delta = 0`` it costs no epsilon: one person moves the weights of R candidates by one
factor ``B`` in the same direction (under replace of R more in the other), the normaliser by at most ``B``, so every
probability moves by at most ``B`` (``B**2``), as for one item; only the number of candidates grows, R-fold.  With
``delta > 0`` one person moves R independent noisy counts by one: a histogram at ``(epsilon/R, delta/R)`` for each seed,
which add up, and the largest noisy count of all is post-processing.

**Accuracy.**  If a share 0.9 of the users name the same item, some tens of users suffice
(:mod:`privpac.bounds.agreement.plurality`); how many records that takes is certified far too cautiously and is best
simulated. When no item is clear the public default stands in, ``outcome="default"``: where no two users agree always
with ``delta > 0``, and with probability ``1 - beta`` without.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.agreement.races.words import check_seed
from privpac.agreement.tasks import Task
from privpac.bounds.agreement.plurality import CLEAR, silent_votes
from privpac.concepts.cells import Frozen
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import BOTTOM, Law
from privpac.learners.agreement.classes import kind_of, own_parameters
from privpac.learners.agreement.rule import AgreedRule
from privpac.learners.base import Bound, Selection
from privpac.mechanisms.votes import PureSelection, StableHistogram, vote_decay
from privpac.parameters import Composed, bounds, named, part, probability, probability_or_zero, whole
from privpac.released import Released
from privpac.rng import Rng, derive

if TYPE_CHECKING:
    from privpac.concepts.base import ConceptClass
    from privpac.data import Domain, UserData, Users

__all__ = ["AgreementLearner", "pure_selection", "task_of"]

MOST_REPEATS = 64


@dataclass(frozen=True)
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
        named = (
            (j, learner.item(x[a:b], y[a:b], seed)) for j, seed in enumerate(self.seeds) for a, b in pairwise(ends)
        )
        return Counter((j, item) for j, item in named if item is not None)

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
    return PureSelection(
        epsilon, universe=size, abstain=silent_votes(base, size, beta), unit=unit, neighbours=neighbours
    )


def _frozen_task(task: Mapping[str, int | str]) -> Mapping[str, int | str]:
    return Frozen(tuple(sorted(dict(task).items())))


@frozen(slots=False, field_transformer=named)
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
    repeats: int = field(default=1, converter=whole, metadata=bounds(maximum=MOST_REPEATS))

    def __attrs_post_init__(self) -> None:
        check_seed(self.seed)

    @cached_property
    def all(self) -> tuple[bytes, ...]:
        """The seeds in use."""
        if self.repeats == 1:
            return (self.seed,)
        return tuple(derive(self.seed, "repeat", j) for j in range(self.repeats))


@frozen(slots=False, init=False, field_transformer=named)
class AgreementLearner(Composed, Selection):
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
    seeds : PublicSeeds
        Given by its own parameters: ``seed``, ``repeats``.

    >>> from privpac.concepts import Thresholds
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
    seeds: PublicSeeds = part(PublicSeeds)
    scores_rules: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __init__(
            self,
            concept: ConceptClass,
            epsilon: Rational,
            neighbours: Neighbours | str = ...,
            unit: Unit | str = ...,
            max_records: int | None = ...,
            delta: Rational = ...,
            task: Mapping[str, int | str] = ...,
            min_records: int = ...,
            beta: Rational = ...,
            *,
            seed: bytes = ...,
            repeats: int = ...,
        ) -> None: ...

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
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
        repeats = self.seeds.repeats
        shares = {"epsilon": self.epsilon / repeats, "delta": self.delta / repeats}
        return StableHistogram(**shares, unit=self.unit, neighbours=self.neighbours, named=2)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        self.task_of(bound)
        return bound

    def columns_of(self, bound: Bound) -> dict[str, Domain]:
        """The columns of the bound class."""
        return {
            name: domain for name, domain in bound.concept.declared().items() if name is not None and domain is not None
        }

    def task_of(self, bound: Bound) -> Task:
        """What every user's records are turned into an item by."""
        return task_of(
            kind_of(bound.concept),
            self.columns_of(bound),
            {**own_parameters(bound.concept), **self.task},
            self.min_records,
        )

    def _votes(self, bound: Bound) -> dict[int, int]:
        task = self.task_of(bound)
        universe, items = (
            task.learner.universe,
            bound.users.fold(_Items(task, tuple(self.columns_of(bound)), self.seeds.all)),
        )
        return {j * universe.size + universe.number(item): count for (j, item), count in items.items()}

    def selector(self, task: Task) -> StableHistogram | PureSelection:
        """What names one item from all votes."""
        if self._histogram is not None:
            return self._histogram
        return pure_selection(self.epsilon, task, self.beta, self.neighbours, self.unit, self.seeds.repeats)

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
        shown = {"class": type(bound.concept).__name__, "seed": self.seeds.seed.hex(), "min_records": self.min_records}
        shown |= {"beta": str(self.beta), **dict(self.task)}
        shown |= {} if self.seeds.repeats == 1 else {"repeats": self.seeds.repeats}
        return Released(
            rule,
            self.guarantee,
            parameters=shown,
            outcome="released" if known else "default",
            warnings=self.warnings,
            learner="agreement",
        )
