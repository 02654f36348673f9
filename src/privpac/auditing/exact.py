"""Differential privacy decided, not sampled: every neighbouring pair of a finite universe of datasets, both orders.

A mechanism is (epsilon, delta)-DP on a universe iff ``Pr[M(x) in E] <= e**epsilon Pr[M(x') in E] + delta`` for all
neighbours x, x' and events E, that is iff the hockey stick of the two laws is at most delta in both orders.  Laws are
exact, so each of these comparisons is decided exactly, equality included; balls only speed up the clear cases and
rank the pairs.  A universe is made up or declared public, so its datasets may be printed.

>>> from privpac.law import Law
>>> def law(data):
...     return Law.from_blocks([0, 1], [0, 1], [data.count(0), data.count(1)], "1/2")
>>> audit = audit_exact(law, datasets([0, 1], 3), neighbours="add-remove", epsilon="1/2")
>>> audit.holds, audit.pairs
(True, 24)
>>> audit_exact(law, datasets([0, 1], 3), neighbours="replace", epsilon="1/2").holds
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import inf
from typing import Any, TypeVar

from attrs import frozen

from privpac.errors import ParameterError
from privpac.exact import Ball, Rational, rational, round_up
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.law import Law
from privpac.law.divergence import within

Dataset = tuple[Hashable, ...]
"""Users, in order; a user is any hashable value."""

T = TypeVar("T", bound=Hashable)

# Pairs whose epsilon differs by less than this are not told apart when the worst one is named.
_RESOLUTION = 1 + Fraction(1, 1 << 20)


# Universes


@frozen(slots=False)
class Universe:
    """Datasets to audit on.  ``ordered``: the order of users matters, so a replaced user keeps their place."""

    datasets: tuple[Dataset, ...]
    ordered: bool = False

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self.datasets)

    def __len__(self) -> int:
        return len(self.datasets)


def user_universe(
    records: Iterable[T], max_records: int, *, min_records: int = 0, ordered: bool = False
) -> tuple[tuple[T, ...], ...]:
    """All users that hold ``min_records`` to ``max_records`` of the given records, as multisets (or in every order).

    >>> user_universe("ab", 2)
    ((), ('a',), ('b',), ('a', 'a'), ('a', 'b'), ('b', 'b'))
    """
    kinds = tuple(records)
    least = positive_int(min_records, "min_records", minimum=0)
    return tuple(_choices(kinds, least, positive_int(max_records, "max_records", minimum=least), ordered))


def datasets(user_types: Iterable[Hashable], n_max: int, *, n_min: int = 0, ordered: bool = False) -> Universe:
    """All datasets of ``n_min`` to ``n_max`` users of the given types, as multisets (or in every order)."""
    kinds = tuple(user_types)
    if not kinds:
        raise ParameterError("datasets needs at least one type of user, got none")
    least = positive_int(n_min, "n_min", minimum=0)
    return Universe(tuple(_choices(kinds, least, positive_int(n_max, "n_max", minimum=least), ordered)), ordered)


def _choices(kinds: tuple[T, ...], least: int, most: int, ordered: bool) -> Iterator[tuple[T, ...]]:
    for n in range(least, most + 1):
        yield from product(kinds, repeat=n) if ordered else combinations_with_replacement(kinds, n)


def neighbouring(universe: Iterable[Dataset], relation: Neighbours | str) -> Iterator[tuple[Dataset, Dataset]]:
    """All neighbouring pairs, each once.

    ``add-remove``: one dataset is the other without one user.  ``replace``: same number of users, one of them replaced
    by any other, whatever the number of their records; in a universe that is not ``ordered`` (any plain iterable) the
    users left over may stand in other places.
    """
    rule = one_of(Neighbours, relation, "neighbours")
    ordered = isinstance(universe, Universe) and universe.ordered
    # Users by number: a user may hold many records, and tuples are hashed again wherever they are looked up.
    numbers: dict[Hashable, int] = {}
    listed: dict[_Numbered, Dataset] = {}
    for data in universe:
        listed.setdefault(tuple(numbers.setdefault(user, len(numbers)) for user in _read(data)), data)
    if rule is Neighbours.ADD_REMOVE:
        for coded, data in listed.items():
            rests = dict.fromkeys(rest for _, rest in _without_one(coded, ordered=False))
            yield from ((data, listed[rest]) for rest in rests if rest in listed)
        return
    groups: dict[Hashable, dict[_Numbered, None]] = {}
    for coded in listed:
        for place, rest in _without_one(coded, ordered=ordered):
            groups.setdefault((place, rest) if ordered else rest, {})[coded] = None
    seen: set[frozenset[_Numbered]] = set()
    for group in groups.values():
        members = list(group)
        for i, first in enumerate(members):
            for second in members[:i]:
                pair = frozenset((first, second))
                if len(first) == len(second) and pair not in seen:
                    seen.add(pair)
                    yield listed[second], listed[first]


_Numbered = tuple[int, ...]


def _without_one(data: _Numbered, *, ordered: bool) -> Iterator[tuple[int, _Numbered]]:
    """Without each user in turn; where places do not matter, of equal users in a row without the first only."""
    return ((i, data[:i] + data[i + 1 :]) for i in range(len(data)) if ordered or i == 0 or data[i] != data[i - 1])


def _read(data: object) -> Dataset:
    if not isinstance(data, tuple):
        raise TypeError(f"a dataset of a universe is a tuple of users, not {type(data).__name__}")
    return data


# The audit


@frozen(slots=False)
class ExactAudit:
    """What was decided: ``holds`` over all ``pairs`` (ordered), and the pair that comes closest to breaking it.

    ``epsilon_found`` is the least epsilon that would hold on this universe at ``delta``, rounded up (``inf`` if there
    is none); ``worst`` attains it up to one part in a million.
    """

    holds: bool
    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    pairs: int
    epsilon_found: Fraction | float
    worst: tuple[Dataset, Dataset]

    def __bool__(self) -> bool:
        return self.holds

    @property
    def slack(self) -> Fraction | float:
        """The claimed epsilon minus the one found; negative (or ``-inf``) when the claim fails."""
        return self.epsilon - self.epsilon_found

    def explain(self) -> str:
        """A few lines for people."""
        verdict = "holds" if self.holds else "is violated"
        x, y = self.worst
        return (
            f"({float(self.epsilon):g}, {float(self.delta):g})-DP under {self.neighbours.value} {verdict}: "
            f"{self.pairs} ordered neighbouring pairs, each decided exactly.\n"
            f"Least epsilon at this delta: {float(self.epsilon_found):.6g} (slack {float(self.slack):.3g}).\n"
            f"Worst pair: {x!r} against {y!r}."
        )


def audit_exact(
    law_of: Callable[[Any], Law] | Any,
    universe: Iterable[Dataset],
    *,
    neighbours: Neighbours | str | None = None,
    epsilon: Rational | None = None,
    delta: Rational | None = None,
    build: Callable[[Dataset], Any] | None = None,
) -> ExactAudit:
    """Decide (epsilon, delta)-DP over every neighbouring pair of a universe, in both orders.

    ``law_of`` is a function from datasets to laws, or an object with ``.law`` (a learner or mechanism); what is left
    out of ``neighbours``, ``epsilon`` and ``delta`` is then taken from its ``guarantee``.  ``build`` turns a tuple of
    users into what the law reads (a ``UserData``, an array of scores).
    """
    promised: Any = getattr(law_of, "guarantee", None)
    if promised is None and (neighbours is None or epsilon is None):
        raise ParameterError(
            "say what to audit: neighbours= and epsilon= (only an object with a guarantee may leave them out)"
        )
    rule = one_of(Neighbours, promised.neighbours if neighbours is None else neighbours, "neighbours")
    e = rational(promised.epsilon if epsilon is None else epsilon, "epsilon", minimum=0)
    d = rational(delta if delta is not None else promised.delta if epsilon is None else 0, "delta", minimum=0, below=1)
    law = _law_of(law_of, build)
    found = _Worst(e, d)
    for x, y in neighbouring(universe, rule):
        p, q = law(x), law(y)
        found.compare(x, y, p, q)
        found.compare(y, x, q, p)
    if found.pair is None:
        raise ParameterError(
            f"the universe has no two neighbours under {rule.value}, so there is nothing to audit; add datasets"
        )
    top = found.epsilon if isinstance(found.epsilon, float) else round_up(found.epsilon)
    top = min(top, e) if found.holds else top
    return ExactAudit(found.holds, e, d, rule, found.pairs, top, found.pair)


def _law_of(law_of: object, build: Callable[[Dataset], Any] | None) -> Callable[[Dataset], Law]:
    """One law per dataset, computed once; datasets with the same law share it, so that no two laws are compared
    twice."""
    compute = getattr(law_of, "law", law_of)
    if not callable(compute):
        raise TypeError(f"law_of must be a function or an object with .law, not {type(law_of).__name__}")
    kept: dict[Dataset, Law] = {}
    same: dict[Hashable, Law] = {}

    def law(data: Dataset) -> Law:
        if data not in kept:
            made = compute(data if build is None else build(data))
            if not isinstance(made, Law):
                raise TypeError(f"law_of must return a Law, not {type(made).__name__}")
            name = made.identity()
            kept[data] = made if name is None else same.setdefault((type(made), name), made)
        return kept[data]

    return law


class _Worst:
    """The running verdict.  ``epsilon`` bounds from above what every pair so far needs at ``delta``."""

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        self.claim, self.delta = epsilon, delta
        self.holds, self.pairs = True, 0
        self.epsilon: Fraction | float = Fraction(-1)
        self.pair: tuple[Dataset, Dataset] | None = None
        self._compared: set[tuple[int, int]] = set()

    def compare(self, x: Dataset, y: Dataset, p: Law, q: Law) -> None:
        """The laws live as long as the audit, so that their addresses tell them apart."""
        self.pairs += 1
        if (id(p), id(q)) in self._compared:
            return
        self._compared.add((id(p), id(q)))
        needed = self._needed(p, q)
        # A certified bound at or below the claim settles this pair; otherwise the exact decision does.
        if needed > self.claim:
            self.holds = within(p, q, self.claim, self.delta) and self.holds
        if needed > self.epsilon:
            self.epsilon, self.pair = needed, (x, y)

    def _needed(self, p: Law, q: Law) -> Fraction | float:
        """An upper bound on what this pair needs: tight, or no more than the worst so far."""
        if self.delta == 0:
            # A pair that needs neither more than is claimed nor more than the worst so far is settled by a short ball.
            worst = self.claim if isinstance(self.epsilon, float) else min(self.epsilon, self.claim)
            top = p.max_divergence(q, enough=worst)
            return top.hi if isinstance(top, Ball) else inf
        if self.epsilon == inf:
            return inf
        if isinstance(self.epsilon, Fraction) and self.epsilon > 0 and p.hockey_stick(q, self.epsilon).hi <= self.delta:
            return self.epsilon
        needed = p.epsilon_at(q, self.delta)
        return needed * _RESOLUTION if isinstance(needed, Fraction) else inf
