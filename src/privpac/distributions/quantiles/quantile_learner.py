"""Quantiles of a column, released: how people are weighed, how the budget is split, what is promised.

========== ============================================================================ ==========================
weight     what counts                                                                  must be declared (public)
========== ============================================================================ ==========================
``user``   every person alike, their records sharing that weight: the quantile of the   nothing
           mean of the people's own distributions
``own``    every person votes for the quantile of their own records, for the middle     nothing
           of both where there are two
``one``    one record of everybody, chosen by a public hash                             nothing
``record`` every record, up to ``max_records`` of a person                              ``max_records``
========== ============================================================================ ==========================

**Guarantee.**  Pure epsilon per user for either relation.  Every number released (a quantile; with ``interval=True``
also the two ends around it) is one exact draw of :class:`~privpac.distributions.quantiles.ranks.RankLaw` with an equal
part of epsilon; the parts add up (basic composition).  Values are sorted afterwards, and a point outside its interval
is moved to its end: both are functions of what was released.

**Accuracy.**  ``1 - confidence`` is divided among the draws; but for that probability all their statements hold, and
they still hold for the sorted values with the largest of the errors: of the ``i`` smallest ends, the largest is not
above the ``i``-th quantile.  Nothing is assumed about the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.data import Domain
from privpac.data.domains import own_code
from privpac.distributions.base import BoundUsers, DistributionLearner
from privpac.distributions.quantiles.ranks import End, RankLaw, Weighted, WeightedValues
from privpac.distributions.quantiles.result import Quantiles
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.methods.base import ITEM_LEVEL, Learner
from privpac.parameters import (
    QUANTILE_LEVELS,
    bounds,
    columns_or_none,
    named,
    one_word_of,
    privacy,
    probability,
    protected_unit,
    relation,
    truth,
    whole_or_none,
)
from privpac.result import Released, Saved, register

if TYPE_CHECKING:
    from privpac.data import Domain, Users
    from privpac.law import Law
    from privpac.rng import Rng

WEIGHTS = ("user", "own", "one", "record")
_MAX_QUANTILES = 64
_MAX_DENOMINATOR = 1000


def _read_q(q: object) -> tuple[Fraction, ...]:
    """Different quantiles, ascending."""
    given = q if isinstance(q, (list, tuple)) else (q,)
    found = tuple(sorted(rational(one, "q", above=0, below=1) for one in given))
    if not found or len(found) > _MAX_QUANTILES or len(set(found)) < len(found):
        raise ParameterError(f"q must be one quantile or up to {_MAX_QUANTILES} different ones, got {len(found)}")
    fine = next((one for one in found if one.denominator > _MAX_DENOMINATOR), None)
    if fine is not None:
        raise ParameterError(
            f"q must be a fraction with a denominator of at most {_MAX_DENOMINATOR}, such as 1/2 or 0.95, got {fine}"
        )
    return found


@frozen(slots=False, field_transformer=named)
class QuantileLearner(DistributionLearner):
    """Private quantiles of one column over a declared domain of up to 2**64 values.

    Parameters
    ----------
    epsilon : number
        The privacy parameter, for all quantiles together.
    q : number or several
        Which quantiles (public), strictly between 0 and 1; default the median.
    weight : str
        How people count (public): ``"user"`` all alike, ``"record"`` by records, ``"own"`` by the quantile
        of their own records, ``"one"`` by one record.
    interval : bool
        Whether an interval is released around each (public).
    confidence : number
        How often all of them are to hold at once (public); default 19/20.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[k, k + 2] for k in range(500)], features={"x": Integers(0, 999)}, labelled=False)
    >>> median = QuantileLearner(1, "1/2").learn(people).value
    >>> 200 < median.value < 300
    True
    """

    epsilon: Fraction = field(converter=privacy)
    q: tuple[Fraction, ...] = field(default=Fraction(1, 2), converter=_read_q)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=1 << 31))
    features: tuple[str, ...] | None = field(default=None, converter=columns_or_none)
    weight: str = field(default="user", kw_only=True, validator=one_word_of(WEIGHTS))
    interval: bool = field(default=False, kw_only=True, validator=truth)
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)

    def __attrs_post_init__(self) -> None:
        if self.weight == "record" and self.cap is None:
            raise ParameterError(
                "weight 'record' needs max_records: how many records of a person may count; or weight='user', in which "
                "everybody counts the same"
            )
        if self.features is not None and len(self.features) != 1:
            raise ParameterError(f"quantiles are of one column at a time, got {len(self.features)}")
        for one in self.q:  # an epsilon too small for any statement is refused here, not after the spend
            self._ranks(one, 0, 1 << 64)

    # Public numbers

    @property
    def draws(self) -> int:
        """How many numbers are released."""
        return len(self.q) * (3 if self.interval else 1)

    @property
    def levels(self) -> int:
        """The most weight a person can have."""
        if self.cap == 1 or self.weight == "one":
            return 1
        if self.weight == "own":
            return 2  # two votes, for who has two own quantiles
        return QUANTILE_LEVELS if self.weight == "user" else positive_int(self.cap, "max_records")

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        how = (
            f"{self.draws} numbers, each one exact draw with epsilon {epsilon / self.draws}"
            if self.draws > 1
            else "one exact draw; a person moves all scores within an interval of public length",
        )
        rho = self.draws * (epsilon / self.draws) ** 2 / 8
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)

    def ranks(self, q: Fraction, domain: Domain) -> RankLaw:
        """The law of one of the numbers."""
        return self._ranks(q, *domain.value_range())

    def _ranks(self, q: Fraction, least: int, most: int) -> RankLaw:
        beta = (1 - self.confidence) / self.draws
        part = self.epsilon / self.draws
        ranks = RankLaw(q, part, self.levels, least, most, self.neighbours, beta)
        assert ranks.reach >= 0
        return ranks

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        if len(domains) != 1:
            raise ParameterError(f"name the column of which a quantile is wanted; there are {', '.join(domains)}")
        for name, domain in domains.items():
            if domain.open:
                raise ParameterError(
                    f"texts have no order, so column {name!r} has no quantile; declare Integers, Grid, Dates, Floats "
                    "or ordered Categories"
                )
            if not domain.ordered:
                raise ParameterError(
                    f"column {name!r} has unordered categories, so it has no median or other quantile; write "
                    "Categories([...], ordered=True) if their order means something (in words {a<b<c})"
                )
            if own_code(domain) is not None:
                raise ParameterError(
                    f"missing values have no place in the order of column {name!r}; leave such records out: "
                    "Missing(domain, 'drop'), in words 0:100,missing=drop"
                )

    # Data

    def bind(self, data: Users) -> BoundUsers:
        users, domains = self.bind_users(data)
        return BoundUsers(users.max_records(1) if self.weight == "one" else users, domains)

    def _values(self, bound: BoundUsers) -> dict[Fraction, Weighted]:
        column, domain = next(iter(bound.features.items()))
        weight = "record" if self.levels == 1 and self.weight != "own" else self.weight

        def fold(q: Fraction) -> Weighted:
            return bound.users.fold(WeightedValues(column, weight, self.levels, q, domain.linear))

        if weight == "own":
            return {q: fold(q) for q in self.q}
        return dict.fromkeys(self.q, fold(self.q[0]))

    def law(self, data: Users, q: Rational | None = None, end: End = "point") -> Law:
        """The exact law of one of the numbers (curator only)."""
        bound, one = self.bind(data), self.q[0] if q is None else rational(q, "q")
        return self.ranks(one, next(iter(bound.features.values()))).law(self._values(bound)[one], end)

    def shown_as(self, bound: BoundUsers, value: Any) -> tuple[str, str] | None:
        if self.draws > 1:
            return None  # the law is that of one of the numbers
        ((name, domain),) = bound.features.items()
        return "released", str(Quantiles(name, domain, self.q, (value,)))

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        (name, domain), values = next(iter(bound.features.items())), self._values(bound)
        laws = {q: self.ranks(q, domain) for q in self.q}

        def drawn(end: End) -> tuple[int, ...]:
            return tuple(sorted(int(laws[q].law(values[q], end).sample(rng)) for q in self.q))

        points = drawn("point")
        lower, upper = (drawn("lower"), drawn("upper")) if self.interval else (None, None)
        if lower is not None and upper is not None:
            upper = tuple(map(max, lower, upper))
            points = tuple(min(max(p, lo), hi) for p, lo, hi in zip(points, lower, upper))
        counted = self.levels if self.weight == "record" else 1
        error = counted * max(one.missed for one in laws.values())
        rounding = Fraction(1, self.levels) if self.weight == "user" and self.levels > 1 else Fraction(0)
        found = Quantiles(
            name, domain, self.q, points, lower, upper, error, rounding, self.confidence
        )  # fmt: skip
        parameters = {
            "weight": self.weight,
            "numbers released": self.draws,
            "epsilon of each": self.epsilon / self.draws,
            f"off by at most ({'records' if self.weight == 'record' else 'people'})": round(float(error), 2),
            "confidence": self.confidence,
        } | ({} if self.cap is None else {"max_records": self.cap})
        warned = (ITEM_LEVEL,) if self.unit is Unit.ITEM else ()
        return Released(found, self.guarantee, parameters=parameters, warnings=warned, learner="QuantileLearner")


# Quantiles of several columns in one release, which share the budget equally (basic composition).


@register("quantile-table")
@frozen(slots=False)
class QuantileTable(Saved):
    """Released quantiles of several columns."""

    columns: tuple[Quantiles, ...]

    def __attrs_post_init__(self) -> None:
        if not self.columns or not all(isinstance(part, Quantiles) for part in self.columns):
            raise ParameterError("a table of quantiles needs those of at least one column, and nothing else")

    def __getitem__(self, column: str) -> Quantiles:
        for part in self.columns:
            if part.feature == column:
                return part
        raise ParameterError(f"released are {', '.join(part.feature for part in self.columns)}; got {str(column)[:40]}")

    def __str__(self) -> str:
        return "\n".join(map(str, self.columns))


@frozen(slots=False)
class ColumnQuantiles(Learner):
    """The learners of all columns, one after the other: their epsilons add up to the whole.

    Parameters
    ----------
    parts : tuple of QuantileLearner
        One for each column.
    """

    parts: tuple[QuantileLearner, ...]

    @staticmethod
    def of(names: Iterable[str], epsilon: Any, q: Any, **options: Any) -> ColumnQuantiles:
        """Equal parts of epsilon for every column."""
        listed = list(names)
        whole = QuantileLearner(epsilon, q, **options)
        return ColumnQuantiles(
            tuple(QuantileLearner(whole.epsilon / len(listed), q, features=name, **options) for name in listed)
        )

    @property
    def guarantee(self) -> Guarantee:
        first = self.parts[0]
        total = first.epsilon * len(self.parts)
        how = (f"quantiles of {len(self.parts)} columns, each with epsilon {first.epsilon}",)
        return Guarantee(total, unit=first.unit, neighbours=first.neighbours, derivation=how)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        for part in self.parts:
            assert part.features is not None
            part.check_domains({name: domains[name] for name in part.features})

    def bind(self, data: Users) -> tuple[BoundUsers, ...]:
        return tuple(part.bind(data) for part in self.parts)

    def draw(self, bound: tuple[BoundUsers, ...], rng: Rng) -> Released:
        found = [part.draw(one, rng) for part, one in zip(self.parts, bound)]
        shown = {"columns": len(found), **found[0].parameters}
        return Released(
            QuantileTable(tuple(one.value for one in found)), self.guarantee, shown, learner="ColumnQuantiles"
        )
