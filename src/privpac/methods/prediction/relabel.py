"""The secret part T and its new labels: the first half of the realizable-to-agnostic transformation.

Units are split into T and W by secret coins; T gets the labels that some rule of the class would give, drawn from the
exponential law of ``Q(h) = min over rules of A * (positions of T where h and the rule differ) + B * (losses on W)``;
then T is shuffled (Li, Wang and Ye, *Realizable-to-Agnostic*, Algorithms 1 and 2).  **The relabelled T is not
private**: only its composition with an inner algorithm that is private on realizable data is, by Theorem A
(``replace``, T of fixed size) or Theorem B (``add-remove``, every unit enters T independently).  So nothing of it may
be returned, printed, logged or put into an error.

Which records of a user count is said by ``users``:

* ``"hybrid"``: in T one uniformly chosen record of each user, in W an integer loss
  ``floor(levels * mistakes / records)`` of all records; one user moves the losses by at most ``levels`` and a labelling
  of the rest of T extends in at most ``G = 2`` ways;
* ``"one"``: one record of each user everywhere, by the data's public rule;
* ``"whole"``: all records (at most ``max_records``) in T; differences count users, and ``G`` is the number of
  labellings of ``max_records`` points, which enters the guarantee (squared under replace).

The shuffle carries a step of the proof: swapping a unit of T for one outside keeps "one record differs" only for
unordered data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Bools, Bytes, Ints
from privpac.data import UserData
from privpac.data.grouping import ranked
from privpac.errors import IncompatibleGuarantees, ParameterError, TooLargeError
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, Model, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.law.numbers import Number
from privpac.methods.prediction.reduction_privacy import MAX_COST, outer
from privpac.parameters import (
    DEFAULT_LEVELS,
    bounds,
    fraction_or_none,
    named,
    probability_or_none,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.rng import Rng
from privpac.rules.base import ConceptClass, Labellings
from privpac.rules.hierarchies.base import VC1Tree

if TYPE_CHECKING:
    from privpac.data import Users

# Many secret coins at once, exactly.
#
# Every function turns uniform 64-bit words into its law without a rounding error: words that would bias it are drawn
# again.


def random_order(n: int, rng: Rng) -> Ints:
    """A uniform permutation of ``0..n-1``: the order of n distinct words, all orders of which are equally likely."""
    if n <= 1:
        return np.arange(n, dtype=np.int64)
    while True:
        words = rng.words(n)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if bool((ordered[1:] != ordered[:-1]).all()):
            return order.astype(np.int64)


def below(sizes: Ints, rng: Rng) -> Ints:
    """Independent uniform numbers in ``0..sizes[i]-1``; sizes of 1 draw nothing.

    The lowest ``2**64 mod m`` words are drawn again, which leaves a multiple of m.
    """
    limits = np.asarray(sizes, dtype=np.uint64)
    out = np.zeros(len(limits), dtype=np.int64)
    open_ = np.flatnonzero(limits > 1)
    while len(open_):
        m = limits[open_]
        words = rng.words(len(open_))
        good = words >= (np.zeros(1, dtype=np.uint64) - m) % m
        out[open_[good]] = (words[good] % m[good]).astype(np.int64)
        open_ = open_[~good]
    return out


def coins(n: int, probability: Fraction, rng: Rng) -> Bools:
    """``n`` independent coins that show True with a rational probability in [0, 1].

    A word below ``floor(2**64 p)`` is True, one above it False; at equality the fractional part decides with a coin of
    its own.
    """
    if probability >= 1:
        return np.ones(n, dtype=np.bool_)
    scaled = probability * (1 << 64)
    whole = scaled.__floor__()
    words = rng.words(n)
    out = words < np.uint64(whole)
    tied = np.flatnonzero(words == np.uint64(whole))
    if len(tied):
        out[tied] = coins(len(tied), scaled - whole, rng)
    return out


USERS = ("hybrid", "one", "whole")
_Places = tuple[int, ...]


@frozen(slots=False, repr=False)
class BoundSplit:
    """A class filled in with columns and domains, and users with at least one record each."""

    concept: ConceptClass | VC1Tree
    users: UserData


@frozen(slots=False, field_transformer=named)
class Relabelling:
    """Public constants of the split and the relabelling law.

    Parameters
    ----------
    concept : ConceptClass or VC1Tree
        The class whose labellings are chosen from.
    A, B : int
        What a disagreement on T and a loss on W weigh.
    eta, base : number, optional
        The rate of the law, or ``base = e**eta`` as a rational: exactly one of them.
    split_size, split_rate : number, optional
        The size of T under replace, the chance of a unit to be in T under add-remove.
    public_n_users : int, optional
        Under replace the number of units itself, which the data must have: the share of T is ``split_size`` of it.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    users : {"hybrid", "one", "whole"}
        What of a user enters T and W.
    levels : int
        Steps that a user's loss on W is rounded to.
    max_records : int, optional
        How many records of a user are read at most.
    """

    concept: ConceptClass | VC1Tree
    A: int = field(converter=whole, metadata=bounds(maximum=MAX_COST))
    B: int = field(converter=whole)
    eta: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=0, maximum=1000))
    base: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=1, maximum=1 << 64))
    split_size: int | None = field(default=None, converter=whole_or_none)
    split_rate: Fraction | None = field(default=None, converter=probability_or_none)
    public_n_users: int | None = field(default=None, converter=whole_or_none)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    users: str = "hybrid"
    _levels: int = field(default=DEFAULT_LEVELS, converter=whole, metadata=bounds(maximum=MAX_COST))
    max_records: int | None = field(default=None, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.concept, (ConceptClass, VC1Tree)):
            raise TypeError(
                f"concept must be a class of rules such as Thresholds(Integers(0, 100)), or a tree, got "
                f"{type(self.concept).__name__}"
            )
        if self.users not in USERS:
            raise ParameterError(f"users must be one of {', '.join(map(repr, USERS))}, got {self.users!r}")
        positive_int(self.B, "B", maximum=MAX_COST // self.levels)
        if (self.eta is None) == (self.base is None):
            raise ParameterError("give exactly one of eta and base")
        self._check_split()
        if self.users == "whole" and self.unit is Unit.USER:
            if self.max_records is None:
                raise ParameterError(
                    "users='whole' needs max_records: the number of labellings of so many points enters the guarantee"
                )
            positive_int(self.max_records, "max_records", maximum=1 << 20)

    def _check_split(self) -> None:
        if self.neighbours is Neighbours.REPLACE:
            if self.split_size is None or self.split_rate is not None:
                raise ParameterError("under replace the split has a fixed size: give split_size, and no split_rate")
            if self.public_n_users is None:
                raise ParameterError(
                    "under replace the number of units is public and enters the guarantee: give public_n_users"
                )
            n = positive_int(self.public_n_users, "public_n_users", minimum=2, maximum=1 << 36)
            positive_int(self.split_size, "split_size", maximum=n - 1)
        elif self.split_rate is None or self.split_size is not None:
            raise ParameterError(
                "under add-remove every unit enters T independently: give split_rate, and no split_size (a fixed size "
                "would follow the private number of units)"
            )

    @property
    def levels(self) -> int:
        """Steps of a loss on W; 1 where every unit has one record."""
        return 1 if self.unit is Unit.ITEM or self.users == "one" else self._levels

    # The promise

    @cached_property
    def a(self) -> Fraction:
        """The cost of one disagreement on T, rounded up where it is irrational."""
        return self._rate(self.A)

    @cached_property
    def b(self) -> Fraction:
        """The cost of the largest loss of one unit on W."""
        return self._rate(self.B * self.levels)

    def _rate(self, times: int) -> Fraction:
        if self.eta is not None:
            return self.eta * times
        assert self.base is not None
        base = self.base
        return up(lambda: times * as_arb(base).log())

    @cached_property
    def labellings(self) -> int:
        """``G``: how many ways a labelling of the other units of T extends to one more; from the class alone."""
        if self.users == "whole" and self.unit is Unit.USER:
            assert self.max_records is not None
            return max(1, self.concept.growth(self.max_records))
        return 2

    @property
    def rounded_levels(self) -> int | None:
        """Steps that a unit's loss on W is rounded to; ``None`` where every unit has one record."""
        return None if self.unit is Unit.ITEM or self.users == "one" or self.max_records == 1 else self.levels

    @property
    def share(self) -> Fraction:
        """``q``, the share of T."""
        if self.neighbours is Neighbours.REPLACE:
            assert self.split_size is not None
            assert self.public_n_users is not None
            return Fraction(self.split_size, self.public_n_users)
        assert self.split_rate is not None
        return self.split_rate

    def guarantee(self, inner: Guarantee) -> Guarantee:
        """What an inner algorithm with this promise becomes."""
        spent = self.inner_guarantee(inner)
        epsilon, delta = outer(self.neighbours, self.share, self.a, self.b, spent.epsilon, spent.delta, self.labellings)
        fixed = self.neighbours is Neighbours.REPLACE
        theorem = "Theorem A, T of fixed size" if fixed else "Theorem B, T by independent coins"
        how = f"{spent.summary} on realizable data: secret relabelled part ({theorem})"
        steps = (*spent.derivation, how)
        return Guarantee(epsilon, delta, unit=self.unit, neighbours=self.neighbours, derivation=steps)

    def inner_guarantee(self, inner: Guarantee) -> Guarantee:
        """The inner promise under this relation; refused where it does not follow."""
        if not isinstance(inner, Guarantee):
            raise TypeError(f"the inner algorithm must declare a Guarantee, got {type(inner).__name__}")
        if inner.model is not Model.CENTRAL:
            raise IncompatibleGuarantees(f"the inner algorithm must be central, got the {inner.model} model")
        if self.users == "whole" and self.unit is Unit.USER and inner.unit is not Unit.USER:
            raise IncompatibleGuarantees(
                "with users='whole' the inner algorithm must protect users, not single records"
            )
        if self.neighbours is Neighbours.REPLACE:
            return inner.to_replace()
        if inner.neighbours is not Neighbours.ADD_REMOVE:
            raise IncompatibleGuarantees(
                "the inner algorithm promises replace only, so the transformation needs neighbours='replace' and a "
                "split_size"
            )
        return inner

    # Binding

    def bind(self, data: Users, reader: ConceptClass | VC1Tree | None = None, unit: Unit = Unit.USER) -> BoundSplit:
        """Schema checks and work limits from public numbers; ``reader`` is the inner algorithm's own class, ``unit``
        what it protects."""
        if not isinstance(data, UserData):
            raise TypeError(
                f"data must be UserData in memory (UserData.read, UserData.from_frame), got {type(data).__name__}: the "
                "split takes "
                "users one by one; learners that run on every engine: RegretSelection, UserAgnosticLearner"
            )
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the transformation promises privacy per {self.unit} but the data are grouped per {data.unit}; "
                "name the user column when building UserData, or set unit='item' on purpose"
            )
        users: Any = data if reader is None else reader.bind(data)[1]
        concept, users = self.concept.bind(users)
        cap = 1 if self.users == "one" else self.max_records
        if cap is not None and self.unit is Unit.USER:
            users = users.max_records(cap)
        public = users.n_users if self.neighbours is Neighbours.REPLACE else None
        if public is not None and public != self.public_n_users:
            raise ParameterError(
                f"under replace the data must have public_n_users = {self.public_n_users} units, got {public}"
            )
        if (
            self.unit is Unit.USER
            and unit is Unit.ITEM
            and any(d is not None and d.open for d in users.features.values())
        ):
            raise IncompatibleGuarantees(
                "with an open vocabulary users may stay empty, so the inner algorithm must protect users, not records"
            )
        concept.check_labellings(units=public, split_size=self.split_size, whole=self._whole)
        return BoundSplit(concept, _filled(users))

    @property
    def _whole(self) -> bool:
        return self.users == "whole" and self.unit is Unit.USER

    # Drawing

    def draw(self, bound: BoundSplit, rng: Rng, unit: Unit = Unit.USER) -> UserData:
        """The relabelled and shuffled T, as data whose units are protected as ``unit``.  Private."""
        users = bound.users
        order = random_order(users.n_users, rng)
        if self.neighbours is Neighbours.REPLACE:
            chosen = order[: self.split_size]  # a uniform subset, in uniform order
        else:
            assert self.split_rate is not None
            chosen = order[coins(users.n_users, self.split_rate, rng)]
        picks = None if self._whole else below(users.sizes[chosen], rng)
        part = _part(users, chosen, picks)
        listed = self._labellings(bound, part, chosen)
        return _relabelled(part, listed.labels(int(self._law(listed).sample(rng))), unit)

    def stand_in(self, bound: BoundSplit, unit: Unit) -> UserData:
        """Data of T's public shape with labels 0, for an inner algorithm's checks before anything is spent."""
        size = self.split_size or 0
        part = _part(bound.users, np.arange(size), None if self._whole else np.zeros(size, dtype=np.int64))
        return _relabelled(part, np.zeros(part.n_records, dtype=np.uint8), unit)

    def _labellings(self, bound: BoundSplit, part: UserData, chosen: Ints) -> Labellings:
        rest = np.ones(bound.users.n_users, dtype=bool)
        rest[chosen] = False
        return bound.concept.part_labellings(part, bound.users.take(rest), self.A, self.B, self.levels, self._whole)

    def _law(self, listed: Labellings) -> Law:
        return Law.from_blocks(score=listed.scores, eta=self.eta, base=self.base)

    # Enumerating

    def splits(self, users: UserData, max_splits: int) -> Iterator[tuple[Fraction, _Places]]:
        """Every split with its probability; ``TooLargeError`` beyond ``max_splits``."""
        n, limit = users.n_users, positive_int(max_splits, "max_splits")
        if self.split_size is not None:
            total = comb(n, self.split_size)
            self._limit(total, limit)
            yield from ((Fraction(1, total), places) for places in combinations(range(n), self.split_size))
            return
        assert self.split_rate is not None
        self._limit(1 << min(n, 200), limit)
        q = self.split_rate
        for size in range(n + 1):
            yield from ((q**size * (1 - q) ** (n - size), places) for places in combinations(range(n), size))

    @staticmethod
    def _limit(total: int, limit: int) -> None:
        if total > limit:
            raise TooLargeError(
                f"there are more than max_splits = {limit} splits to average over; pass given=(positions of T), or "
                "raise it"
            )

    def parts(
        self, bound: BoundSplit, given: Sequence[int], unit: Unit, limit: int
    ) -> Iterator[tuple[Number, UserData]]:
        """Relabelled Ts of one split, each with its probability (a number of the law)."""
        users = bound.users
        chosen = np.array(given, dtype=np.int64)
        sizes = [1] * len(chosen) if self._whole else np.maximum(users.sizes[chosen], 1).tolist()
        self._limit(prod(sizes), limit)
        for picks in product(*(range(m) for m in sizes)):
            part = _part(users, chosen, None if self._whole else np.array(picks, dtype=np.int64))
            listed = self._labellings(bound, part, chosen)
            law = self._law(listed).as_finite()
            for i in range(listed.count):
                yield law.number(i) * Fraction(1, prod(sizes)), _relabelled(part, listed.labels(i), unit)

    def read_given(self, given: Sequence[int], users: UserData) -> _Places:
        """Positions of T for ``law(data, given=...)``."""
        places = tuple(positive_int(i, "given", minimum=0) for i in given)
        if len(set(places)) != len(places) or any(i >= users.n_users for i in places):
            raise ParameterError("given must hold distinct positions of users")
        if self.split_size is not None and len(places) != self.split_size:
            raise ParameterError(f"given must hold split_size = {self.split_size} positions, got {len(places)}")
        return places


def _part(users: UserData, chosen: Ints, picks: Ints | None) -> UserData:
    """The chosen units in their order; with ``picks`` the record of each that is kept."""
    part = users.take(chosen)
    if picks is None:
        return part
    held = part.sizes > 0  # all of them, but for open vocabularies
    rows = (part.offsets[:-1] + picks)[held]
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(held)])
    codes = {name: values[rows] for name, values in part.codes.items()}
    labels = None if part.labels is None else part.labels[rows]
    bound = {name: domain for name, domain in part.features.items() if name in codes}
    return evolve(part, offsets=offsets, codes=codes, labels=labels, features=bound, raw={}, ids=None)


def _relabelled(part: UserData, labels: Bytes, unit: Unit) -> UserData:
    bound = {name: domain for name, domain in part.features.items() if name in part.codes}
    codes, words = dict(part.codes), dict(part._vocabularies)
    for name, vocabulary in part._vocabularies.items():
        # The inner algorithm sees T alone: not even the other texts of the data.
        held, place = ranked(codes[name])
        codes[name], words[name] = place.astype(np.uint64), vocabulary.gather(held)
    shape: dict[str, Any] = {"default_rule": "first", "raw": {}, "ids": None, "vocabularies": words}
    return evolve(part, labels=labels.astype(np.uint8), codes=codes, unit=unit, features=bound, **shape)


def _filled(users: UserData) -> UserData:
    """A public record (the least value of every column, label 0) for users without any, so that every user can enter T.

    An open vocabulary has no public value: there such users stay empty, and count as an empty unit in T.
    """
    sizes = users.sizes
    empty = np.flatnonzero(sizes == 0)
    bound = {name: domain for name, domain in users.features.items() if name in users.codes}
    users = evolve(users, features=bound, raw={})
    if len(empty) == 0 or any(domain is not None and domain.open for domain in bound.values()):
        return users
    assert users.labels is not None
    at = users.offsets[empty]
    codes = {}
    for name, values in users.codes.items():
        domain = bound[name]
        assert domain is not None
        codes[name] = np.insert(values, at, np.uint64(domain.value_range()[0]))
    labels = np.insert(users.labels, at, np.uint8(0))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.maximum(sizes, 1))])
    return evolve(users, offsets=offsets, codes=codes, labels=labels)
