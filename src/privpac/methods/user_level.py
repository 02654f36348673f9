"""Any item-level algorithm at user level: the cheapest way that is proved, chosen from public numbers and explained.

The algorithm is somebody else's; all that is known of it is what it promises about one record, ``(e, d)``.  Three
strategies make a promise about one person of it:

* **sampling**: one record of everybody, and of everybody only with probability ``p``, by secret coins.  A person is
  then one record, and ``(ln(1 + p (exp(e) - 1)), p d)`` is promised per person (amplification by sampling): the largest
  ``p`` that meets the target is taken, ``p = 1`` where ``e`` is not above it (*one record*).
* **group**: up to ``M`` records of everybody, every one a record of the algorithm; ``M`` steps cost ``M e`` (and ``d (1
  + exp(e) + ... )``).  The largest ``M`` that meets the target is taken, and at most ``max_records``.  Under
  item-level add-remove only: replace would need everybody to have exactly ``M`` records.
* **deletion**: nothing has to be promised, but the algorithm must give its law, there must be a handful of people, and
  the answer may be "nothing" (:class:`~privpac.papers.few_examples_per_user.deletion.DeletionStability`).  Only by
  name.

Among the first two, the one that lets the algorithm see more records is taken.

**Guarantee.**  Which records of a person are kept is decided by that person's records and a public hash; coins are
secret.  The relation is the algorithm's own.  Where the algorithm raises, nothing is released: an output like any
other, so its promise must cover that, too.  Under replace everybody must have a record.  **Nothing can check the
promise itself**: it is the caller's word.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.data import UserData
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, SchemaError, TooLargeError
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, Model, Neighbours, Unit, replace_unit
from privpac.law import Law
from privpac.methods.base import Learner
from privpac.methods.prediction.relabel import below
from privpac.methods.trimmed import no_release
from privpac.parameters import bounds, named, privacy, probability_or_zero, whole_or_none
from privpac.result import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Callable

    from privpac.data import Users

STRATEGIES = ("auto", "sampling", "group")
_COIN = 1 << 30
"""Sampling rates are multiples of one over this."""
_MAX_PEOPLE = 12
"""The most people whose subsets a law averages over."""


@frozen(slots=False)
class Strategy:
    """One strategy: what it promises, how many records of a person are read at most, and how often somebody takes
    part."""

    name: str
    guarantee: Guarantee
    records: int
    rate: Fraction

    def __str__(self) -> str:
        often = "everybody" if self.rate == 1 else f"each person with probability {float(self.rate):.3g}"
        many = "one record" if self.records == 1 else f"up to {self.records} records"
        return f"{self.name}: {many} of {often}, {self.guarantee.summary}"


@frozen(slots=False, field_transformer=named)
class ItemAlgorithm(Learner):
    """``algorithm`` with its item-level promise ``item``, run so that ``(epsilon, delta)`` is promised per user.

    Parameters
    ----------
    algorithm : function
        A function of a table.
    item : Guarantee
        What it promises about one record.
    epsilon, delta : number
        What is promised per user; ``delta`` is 0 unless given.
    strategy_named : str
        How it is run: ``"auto"`` takes the way that reads most.
    max_records : int, optional
        How many records of a user are read at most (public).
    table : function
        Turns users into what the algorithm is given; by default their records as lists of codes.

    >>> item = Guarantee(3, unit="item", neighbours="add-remove")
    >>> print(ItemAlgorithm(len, item, 1).strategy)
    sampling: one record of each person with probability 0.09, (1, 0)-DP per user, add-remove
    >>> print(ItemAlgorithm(len, Guarantee("1/4", unit="item", neighbours="add-remove"), 1).strategy)
    group: up to 4 records of everybody, (1, 0)-DP per user, add-remove
    """

    algorithm: Any
    item: Guarantee
    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    strategy_named: str = field(default="auto", kw_only=True)
    max_records: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=1 << 31)
    )
    table: Callable[[UserData], Any] = field(default=UserData.to_lists, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self.algorithm):
            raise TypeError(f"algorithm must be a function of a table, got {type(self.algorithm).__name__}")
        if not isinstance(self.item, Guarantee):
            raise TypeError(f"item must be a Guarantee, got {type(self.item).__name__}")
        if self.item.unit is not Unit.ITEM or self.item.model is not Model.CENTRAL:
            raise IncompatibleGuarantees(
                f"item must be what the algorithm promises about one record (unit='item', central), got {self.item}"
            )
        if self.strategy_named not in STRATEGIES:
            raise ParameterError(
                f"strategy must be one of {', '.join(STRATEGIES)}, got {str(self.strategy_named)[:40]!r}"
            )
        self.strategy  # noqa: B018  # what no strategy reaches is refused here, before any data

    # The choice

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies that meet the target, the best first."""
        found = [strategy for strategy in (self._sampled(), self._grouped()) if strategy is not None]
        return tuple(sorted(found, key=lambda strategy: -(strategy.records * strategy.rate)))

    @property
    def strategy(self) -> Strategy:
        """The one that runs."""
        fitting = [strategy for strategy in self.strategies if self.strategy_named in ("auto", strategy.name)]
        if not fitting:
            raise InfeasibleError(
                f"no strategy leads from {self.item.summary} to (epsilon, delta) = ({self.epsilon}, {self.delta}) "
                "per user"
                + (f" by {self.strategy_named}" if self.strategy_named != "auto" else "")
                + "; allow a larger delta, or give the algorithm a smaller one"
            )
        return fitting[0]

    def _reached(self, guarantee: Guarantee) -> bool:
        return guarantee.epsilon <= self.epsilon and guarantee.delta <= self.delta

    def _sampled(self) -> Strategy | None:
        target, spent = self.epsilon, self.item.epsilon
        rate = Fraction(1)
        if spent > target:
            # p = (e^target - 1)/(e^e - 1), from above; what it promises is recomputed, and one step down if need be.
            exact = up(lambda: as_arb(target).expm1() / as_arb(spent).expm1())
            rate = Fraction(int(exact * _COIN), _COIN)
        if self.item.delta > self.delta * (1 / rate if rate else 0):
            rate = Fraction(int(self.delta / self.item.delta * _COIN), _COIN)
        scheme = "poisson" if self.item.neighbours is Neighbours.ADD_REMOVE else "without-replacement"
        for _ in range(3):
            if rate <= 0:
                return None
            promised = replace_unit(self.item if rate == 1 else self.item.subsample(rate, scheme), Unit.USER)
            if self._reached(promised):
                return Strategy("sampling", promised, 1, rate)
            rate -= Fraction(1, _COIN)
        return None

    def _grouped(self) -> Strategy | None:
        if self.item.neighbours is not Neighbours.ADD_REMOVE or self.item.epsilon == 0:
            return None
        most = int(self.epsilon / self.item.epsilon)
        most = min(most, most if self.max_records is None else self.max_records, 1 << 20)
        while most >= 1:
            try:
                promised = self.item.item_to_user(most)
            except InfeasibleError:
                most //= 2
                continue
            if self._reached(promised):
                return Strategy("group", promised, most, Fraction(1))
            most -= max(1, most // 64)
        return None

    @property
    def guarantee(self) -> Guarantee:
        return self.strategy.guarantee

    # Data

    def bind(self, data: Users) -> UserData:
        if not isinstance(data, UserData):
            raise TypeError(f"data must be UserData in memory (UserData.read, from_frame), got {type(data).__name__}")
        if data.unit is not Unit.USER:
            raise IncompatibleGuarantees("name the user column when building UserData: people are to be protected")
        filled = data.take(np.flatnonzero(data.sizes > 0))  # people without records are not in any table
        empty = data.n_users - filled.n_users
        if empty and self.item.neighbours is Neighbours.REPLACE:
            raise SchemaError(
                f"{empty} people have no records: under replace everybody needs one; start from an item-level "
                "add-remove promise, or leave them out before people are counted"
            )
        capped = filled.max_records(self.strategy.records)
        gone = [name for name in data.features if name not in capped.features]
        if gone:
            raise SchemaError(
                f"columns {gone} have no domain, and which records of a person are kept is decided by declared columns "
                "only; declare them, or leave them out"
            )
        return capped

    def _kept(self, bound: UserData, rng: Rng) -> UserData:
        rate, n = self.strategy.rate, bound.n_users
        if rate == 1:
            return bound
        if self.item.neighbours is Neighbours.ADD_REMOVE:
            coins = below(np.full(n, _COIN), rng)
            return bound.take(np.flatnonzero(coins < int(rate * _COIN)))
        # A uniform set of floor(rate n) people, by the first steps of a shuffle: n is public under replace.
        places = np.arange(n)
        size = int(rate * n)
        for i in range(size):
            j = i + int(rng.below(n - i))
            places[[i, j]] = places[[j, i]]
        return bound.take(np.sort(places[:size]))

    def draw(self, bound: UserData, rng: Rng) -> Released:
        table = self.table(self._kept(bound, rng))
        shown = {"strategy": str(self.strategy), "chosen because": self.reason, "item-level promise": self.item.summary}
        name = getattr(self.algorithm, "__name__", type(self.algorithm).__name__)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says may depend on the data
            try:
                value = self.algorithm(table)
            except Exception:  # an output like any other
                return no_release(self.guarantee, shown, (), f"{name}, at user level")
        return Released(value, self.guarantee, shown, learner=f"{name}, at user level")

    @property
    def reason(self) -> str:
        """Why this strategy, in words."""
        others = [strategy for strategy in self.strategies if strategy != self.strategy]
        if self.strategy_named != "auto":
            return "asked for"
        if not others:
            return "no other strategy meets the target"
        return "the algorithm sees more of each person than by " + "; ".join(map(str, others))

    def law(self, data: Users) -> Law:
        """The exact law, for an algorithm with ``law(table)`` and a few people (curator only)."""
        bound, law_of = self.bind(data), self.algorithm.law
        rate = self.strategy.rate
        if rate == 1:
            return law_of(self.table(bound))  # type: ignore[no-any-return]
        if bound.n_users > _MAX_PEOPLE:
            raise TooLargeError(f"a law averages over all sets of at most {_MAX_PEOPLE} people")
        parts = []
        sets = [np.flatnonzero(kept) for kept in product((0, 1), repeat=bound.n_users)]
        if self.item.neighbours is not Neighbours.ADD_REMOVE:
            sets = [kept for kept in sets if len(kept) == int(rate * bound.n_users)]
        for kept in sets:
            k, n = len(kept), bound.n_users
            share = rate**k * (1 - rate) ** (n - k) if self.item.neighbours is Neighbours.ADD_REMOVE else Fraction(1)
            parts.append((share, law_of(self.table(bound.take(kept)))))
        total = sum((share for share, _ in parts), Fraction(0))
        return Law.mixture([(share / total, law) for share, law in parts])
