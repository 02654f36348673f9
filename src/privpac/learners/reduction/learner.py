"""From learners for clean labels to learners for any labels (Li, Wang and Ye, *Realizable-to-Agnostic*, Theorem 18),
and from samples to a fixed table (Lemma 21).

:class:`AgnosticReduction` hides a random part T of the units, gives T the labels of a rule that does well on the
others, and runs an inner learner on T alone.  The inner learner then sees labels that some rule explains perfectly,
whatever the real labels are.

**Guarantee.**  With the inner learner ``(eps_A, delta_A)``-DP, public costs ``a = eta A``, ``b = eta B levels`` and the
share ``q`` of T: Theorem B under add-remove, Theorem A under replace (``privpac.bounds.reduction.privacy``), recomputed
from exactly these constants, rounded up. Amplification by ``q`` is paid once per split: the inner learner's whole
output counts as one algorithm.

Where a class has a small representation, direct selection needs fewer users (about 7 to 9 times less noise for cuts of
2**64 values at epsilon 1): this transformation is for inner learners of classes without one.

:class:`EmpiricalLearner` runs a base learner on ``draws`` records drawn with replacement, so that a learner for i.i.d.
samples has small error on a fixed table.  **Guarantee.**  Theorem C, under replace only.
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, permutations, product
from math import comb, factorial, log, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from attrs import field, frozen

from privpac.bounds.reduction.accuracy import InnerError
from privpac.bounds.reduction.plan import ReductionPlan, plan_reduction
from privpac.bounds.reduction.privacy import theorem_c
from privpac.concepts.base import ConceptClass
from privpac.concepts.trees.base import VC1Tree
from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import Law
from privpac.learners.base import ITEM_LEVEL, WEAK, Learner, Selection
from privpac.learners.reduction.accuracy import accuracy_note, promised_excess
from privpac.learners.reduction.coins import below
from privpac.learners.reduction.relabel import BoundSplit, Relabelling
from privpac.parameters import DEFAULT_BETA, Composed, bounds, named, part, whole
from privpac.released import Released
from privpac.rng import Rng, secret_rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["AgnosticReduction", "EmpiricalLearner"]

MAX_SPLITS = 20_000


@frozen(slots=False, init=False, field_transformer=named)
class AgnosticReduction(Composed, Learner):
    """``inner`` on a secret, relabelled part of the units; see :meth:`for_target` for constants that meet a target.

    Parameters
    ----------
    inner : learner
        Any learner with a declared ``guarantee``, or an object with ``guarantee`` and ``learn(data, rng=...)`` or
        ``law(data)``.  One that says ``symmetric = True`` ignores the order of units, which makes exact laws cheaper.
    relabelling : Relabelling
        Given by its own parameters (``A``, ``B``, ``eta``, ``split_rate`` …), all public; ``concept`` is the inner
        learner's class (or tree) unless another one is given.
    note : str, optional
        A public remark on accuracy that every result repeats.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.learners.selection.realizable import RealizableSelection
    >>> inner = RealizableSelection(Thresholds(Integers(0, 99)), epsilon="1/2")
    >>> learner = AgnosticReduction.for_target(inner, epsilon=1, public_n_users=10000)
    >>> learner.guarantee.epsilon <= 1, str(learner.guarantee)
    (True, '(1, 0)-DP per user, add-remove')
    """

    inner: Any
    relabelling: Relabelling = part(Relabelling)
    note: str | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            inner: Any,
            A: int,
            B: int,
            *,
            concept: ConceptClass | VC1Tree | None = None,
            eta: Rational | None = ...,
            base: Rational | None = ...,
            split_size: int | None = ...,
            split_rate: Rational | None = ...,
            public_n_users: int | None = ...,
            neighbours: Neighbours | str = ...,
            unit: Unit | str = ...,
            users: str = ...,
            levels: int = ...,
            max_records: int | None = ...,
            note: str | None = ...,
        ) -> None: ...
    else:

        def __init__(self, inner: Any, *costs: int, **given: Any) -> None:
            _require_learner(inner, "inner")
            given |= dict(zip(("A", "B"), costs, strict=False))
            if "relabelling" not in given and given.get("concept") is None:
                given["concept"] = _class_of(inner)
                if given["concept"] is None:
                    raise ParameterError("the inner learner names no class: give concept=")
            super().__init__(inner, **given)
            self.relabelling.inner_guarantee(inner.guarantee)

    @classmethod
    def for_target(
        cls,
        inner: Any,
        *,
        epsilon: Rational,
        public_n_users: int,
        delta: Rational = 0,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        split_size: int | None = None,
        least_split: int = 1,
        alpha: Rational | None = None,
        beta: Rational = DEFAULT_BETA,
        inner_error: InnerError | None = None,
        **shape: Any,
    ) -> Self:
        """Constants of least promised excess error (but for ``beta``) for a target; ``InfeasibleError`` says what would
        suffice.

        With ``alpha`` an ``AccuracyWarning`` says whether an excess error of ``alpha`` is certified at this number of
        units, and with how many it would be; ``inner_error`` is the inner learner's own error, known for selections.

        ``public_n_users``: a declared number under add-remove, the number of units itself under replace.
        ``split_size`` fixes the
        (expected) size of T, ``least_split`` bounds it from below; ``shape`` are the other fields.
        """
        relation = one_of(Neighbours, neighbours, "neighbours")
        concept = shape.get("concept") or _class_of(inner)
        if concept is None:
            raise ParameterError("the inner learner names no class: give concept=")
        n = positive_int(public_n_users, "public_n_users", minimum=2)
        size = {"split_size": 1, "public_n_users": n} if relation is Neighbours.REPLACE else {"split_rate": "1/2"}
        probe = Relabelling(
            concept,
            1,
            1,
            eta=Fraction(1),
            neighbours=relation,
            **size,
            **{k: v for k, v in shape.items() if k != "concept"},
        )
        spent = probe.inner_guarantee(inner.guarantee)
        plan = plan_reduction(
            n_users=n,
            epsilon=epsilon,
            delta=delta,
            log_growth=lambda t: log(concept.growth(t)),
            inner_epsilons=[spent.epsilon],
            inner_delta=spent.delta,
            least_split=least_split if split_size is None else split_size,
            most_split=split_size,
            labellings=probe.labellings,
            levels=probe.levels,
            neighbours=relation,
            objective=promised_excess(inner, concept, beta, inner_error, probe),
        )
        note = (
            None
            if alpha is None
            else accuracy_note(inner, concept, alpha, beta, inner_error, epsilon, delta, spent, probe, n)
        )
        if note is not None:
            python_warnings.warn(note, AccuracyWarning, stacklevel=2)
        return cls(inner, **_constants(plan, relation), note=note, **shape)

    @cached_property
    def guarantee(self) -> Guarantee:
        return self.relabelling.guarantee(self.inner.guarantee)

    # Binding and drawing

    def bind(self, data: Users) -> BoundSplit:
        bound = self.relabelling.bind(data, _class_of(self.inner), self._inner_unit)
        # The inner learner's own checks, before the spend: on no units, or on as many as T will have where that is
        # public.
        if hasattr(self.inner, "bind"):
            self.inner.bind(self.relabelling.stand_in(bound, self._inner_unit))
        return bound

    @property
    def _inner_unit(self) -> Unit:
        """One record per unit in T: the inner learner may protect users or records alike."""
        unit: Unit = self.inner.guarantee.unit
        return unit

    def draw(self, bound: BoundSplit, rng: Rng) -> Released:
        law = self.relabelling
        # Only the inner learner's output leaves: neither T, nor its labels, nor the number of them.
        released = _run(self.inner, law.draw(bound, rng, self._inner_unit), rng)
        hidden: dict[str, Any] = {"A": law.A, "B": law.B, "levels": law.levels, "users": law.users}
        hidden |= {"eta": law.eta} if law.eta is not None else {"base": law.base}
        hidden |= {"split_rate": law.split_rate} if law.split_size is None else {"split_size": law.split_size}
        hidden |= {"epsilon_inner": self.inner.guarantee.epsilon, "delta_inner": self.inner.guarantee.delta}
        method = f"agnostic reduction of {released.learner or type(self.inner).__name__}"
        return replace(
            released,
            guarantee=self.guarantee,
            insecure=False,
            parameters=dict(released.parameters) | hidden,
            warnings=self.warnings,
            learner=method,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        weak = f"epsilon above {WEAK} promises very little"
        item = (ITEM_LEVEL,) if self.relabelling.unit is Unit.ITEM else ()
        return (
            *item,
            *((weak,) if self.guarantee.epsilon > WEAK else ()),
            *(() if self.note is None else (self.note,)),
        )

    # Laws

    def law(self, data: Users, max_splits: int = MAX_SPLITS, given: Sequence[int] | None = None) -> Law:
        """The law of the inner learner's output, averaged over all splits, or for one split (positions of T) with
        ``given``."""
        bound = self.bind(data)
        limit = positive_int(max_splits, "max_splits")
        memory: dict[Any, Law] = {}
        if given is not None:
            return self._law_given(bound, self.relabelling.read_given(given, bound.users), limit, memory)
        splits: dict[Any, Law] = {}
        parts: list[tuple[Fraction, Law]] = []
        for share, places in self.relabelling.splits(bound.users, limit):
            key = _key(bound.users, places)
            if key not in splits:
                splits[key] = self._law_given(bound, places, limit, memory)
            parts.append((share, splits[key]))
        return Law.mixture(parts)

    def _law_given(self, bound: BoundSplit, places: tuple[int, ...], limit: int, memory: dict[Any, Law]) -> Law:
        return Law.mixture(
            [
                (number, _shuffled_law(self.inner, part, limit, memory))
                for number, part in self._parts(bound, places, limit)
            ]
        )

    def _parts(self, bound: BoundSplit, places: tuple[int, ...], limit: int) -> Iterator[tuple[Any, UserData]]:
        return self.relabelling.parts(bound, places, self._inner_unit, limit)


def _require_learner(inner: Any, name: str) -> None:
    if not hasattr(inner, "guarantee") or not (hasattr(inner, "learn") or hasattr(inner, "law")):
        raise TypeError(f"{name} must be a learner with a guarantee, got {type(inner).__name__}")


@frozen(slots=False, field_transformer=named)
class EmpiricalLearner(Learner):
    """``base`` on ``draws`` units drawn with replacement from exactly ``size`` units.

    Parameters
    ----------
    base : learner
        The learner that sees the drawn units.
    draws, size : int
        How many units are drawn, and how many there are (both public).

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.learners.selection.realizable import RealizableSelection
    >>> base = RealizableSelection(Thresholds(Integers(0, 99)), epsilon="0.1", neighbours="replace")
    >>> str(EmpiricalLearner(base, draws=1000, size=106).guarantee)
    '(0.991687, 0)-DP per user, replace'
    """

    base: Any
    draws: int = field(converter=whole, metadata=bounds(maximum=1 << 28))
    size: int = field(converter=whole, metadata=bounds(maximum=1 << 36))

    def __attrs_post_init__(self) -> None:
        _require_learner(self.base, "base")

    @property
    def concept(self) -> ConceptClass | VC1Tree | None:
        return _class_of(self.base)

    @cached_property
    def guarantee(self) -> Guarantee:
        spent = self.base.guarantee.to_replace()
        epsilon, delta = theorem_c(self.draws, self.size, spent.epsilon, spent.delta)
        how = f"{spent.summary} on {self.draws} draws with replacement from {self.size} (Theorem C)"
        return Guarantee(
            epsilon,
            delta,
            unit=spent.unit,
            neighbours=Neighbours.REPLACE,
            model=spent.model,
            derivation=(*spent.derivation, how),
        )

    def bind(self, data: Users) -> UserData:
        if not isinstance(data, UserData):
            raise TypeError(
                f"data must be UserData in memory (UserData.read, UserData.from_frame), got {type(data).__name__}: it "
                "draws users"
            )
        users: Any = data if self.concept is None else self.concept.bind(data)[1]
        if users.n_users != self.size:
            raise ParameterError(
                f"this learner is for size = {self.size} units (public under replace), got {users.n_users}"
            )
        if hasattr(self.base, "bind"):
            self.base.bind(self._drawn(users, np.zeros(self.draws, dtype=np.int64)))
        bound: UserData = users
        return bound

    @staticmethod
    def _drawn(users: UserData, places: Any) -> UserData:
        return replace(users.take(places), _ids=None, default_rule="first")

    def draw(self, bound: UserData, rng: Rng) -> Released:
        places = below(np.full(self.draws, self.size), rng)
        released = _run(self.base, self._drawn(bound, places), rng)
        shown = dict(released.parameters) | {"draws": self.draws, "size": self.size}
        method = f"{released.learner or type(self.base).__name__} on draws with replacement"
        return replace(released, guarantee=self.guarantee, insecure=False, parameters=shown, learner=method)

    def law(self, data: Users, max_draws: int = MAX_SPLITS) -> Law:
        """Averaged over all draws, as multisets where the base learner ignores the order of units."""
        users, limit = self.bind(data), positive_int(max_draws, "max_draws")
        n, m = self.size, self.draws
        total = comb(n + m - 1, m) if _symmetric(self.base) else n**m if m * n.bit_length() < 200 else limit + 1
        if total > limit:
            raise TooLargeError(f"there are more than max_draws = {limit} ways to draw; use fewer draws, or raise it")
        if not _symmetric(self.base):
            return Law.mixture(
                [(Fraction(1, n**m), self._base_law(users, places)) for places in product(range(n), repeat=m)]
            )
        parts = []
        for places in combinations_with_replacement(range(n), m):
            ways = factorial(m) // prod(factorial(places.count(i)) for i in set(places))
            parts.append((Fraction(ways, n**m), self._base_law(users, places)))
        return Law.mixture(parts)

    def _base_law(self, users: UserData, places: tuple[int, ...]) -> Law:
        law: Law = self.base.law(self._drawn(users, np.array(places, dtype=np.int64)))
        return law


# Running an inner learner


def _class_of(inner: Any) -> ConceptClass | VC1Tree | None:
    """What an inner learner chooses from: its class, or its tree."""
    for name in ("concept", "tree"):
        found = getattr(inner, name, None)
        if isinstance(found, (ConceptClass, VC1Tree)):
            return found
    return None


def _run(inner: Any, data: UserData, rng: Rng) -> Released:
    if hasattr(inner, "bind") and hasattr(inner, "draw"):
        released = inner.draw(inner.bind(data), rng)
    elif hasattr(inner, "learn"):
        released = inner.learn(data, rng=secret_rng(rng))
    else:
        released = inner.law(data).sample(rng)
    return released if isinstance(released, Released) else Released(released, None)


def _symmetric(inner: Any) -> bool:
    """Whether the order of units never matters: sums over units, or what a learner says of itself."""
    if isinstance(inner, EmpiricalLearner):
        return _symmetric(inner.base)
    return bool(getattr(inner, "symmetric", isinstance(inner, Selection)))


def _shuffled_law(inner: Any, part: UserData, limit: int, memory: dict[Any, Law]) -> Law:
    """The inner law on T in random order."""
    key = _key(part, range(part.n_users))[0]
    if key not in memory:
        if _symmetric(inner):
            memory[key] = inner.law(part)
        else:
            if factorial(min(part.n_users, 20)) > limit:
                raise TooLargeError(
                    f"there are more than max_splits = {limit} orders of T to average over; declare inner.symmetric, "
                    "or raise it"
                )
            orders = list(permutations(range(part.n_users)))
            memory[key] = Law.mixture(
                [(Fraction(1, len(orders)), inner.law(part.take(np.array(order, dtype=np.int64)))) for order in orders]
            )
    return memory[key]


def _key(users: UserData, places: Sequence[int]) -> tuple[Any, Any]:
    """The units at the places and the others, each as a multiset."""
    lists = [tuple(sorted(user)) for user in users.to_lists()]
    inside = set(places)
    rest = sorted(lists[i] for i in range(len(lists)) if i not in inside)
    return tuple(sorted(lists[i] for i in inside)), tuple(rest)


def _constants(plan: ReductionPlan, relation: Neighbours) -> dict[str, Any]:
    out: dict[str, Any] = {
        "A": plan.A,
        "B": plan.B,
        "eta": plan.eta,
        "neighbours": relation,
        "public_n_users": plan.n_users,
    }
    return out | (
        {"split_size": plan.split_size} if relation is Neighbours.REPLACE else {"split_rate": plan.split_rate}
    )
