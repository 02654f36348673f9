"""Linear separators with small integer weights: "1 iff 2*x - 3*y > 7".

Column ``j`` is measured in public units of ``stride_j`` steps of its domain, the least of 1, 2, 5, 10, 20, ... that
makes at most ``cuts`` units.  A rule is a vector of integer weights (cleared of common factors, once each) and an
integer threshold ``t``,

    1  iff  sum_j  weight_j * code_j / stride_j  >  t,

for every ``t`` that leaves neither side of the domain empty, plus "never" (id 0) and "always" (id 1) once.  Values are
not rounded to units: with ``scale`` the least common multiple of the strides, the test is ``sum_j a_j code_j > scale *
t`` in 64-bit integers, where a public bound excludes overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import gcd, lcm, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from attrs import frozen

from privpac.arrays import Array, Bytes, Ints
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.result import WideInt
from privpac.rules.base import ByAgreement, ColumnCodes, Frozen, Predictions, Rule
from privpac.rules.cuts import cut_mistakes
from privpac.rules.enumerated import (
    SIZE_LIMIT,
    EnumeratedClass,
    NamedColumns,
    checked_cuts,
    distinct_rows,
    key_digits,
    limited,
    named_domains,
    row_keys,
)
from privpac.rules.export.expression import CodeTimes, Expression, SumExceeds
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.grouped import (
    MOST_RECORDS,
    add_contributions,
    charge,
    extremes,
    group_equal_users,
    holds,
    settle,
    shared,
    terms,
)
from privpac.rules.profile import Profile, Statistic, dense_profile

# The mistakes of linear separators with integer weights.
#
# For one weight vector the rules are thresholds on one integer, so a user's mistakes come from a histogram over
# thresholds and a suffix sum: O(records x vectors + size) per user.  The own minimum is over the whole class.


@jit
def _mistakes(row: Array, rules: Bundle, weights: Array, start: int, end: int, ones: int, m: int) -> None:
    """A user's mistakes by every rule, in the type of ``row``."""
    points, factors, least_threshold, begins, scale = rules
    row[0], row[1] = row.dtype.type(ones), row.dtype.type(m - ones)
    row[2:] = 0
    for v in range(len(factors)):
        # Thresholds begin .. begin + q - 1 say 1, with q = clamp(ceil(total / scale) - least threshold).
        begin, stop = begins[v], begins[v + 1]
        for k in range(start, end):
            total = np.int64(0)
            for j in range(points.shape[1]):
                total += factors[v, j] * points[k, j]
            if scale != 1:
                total = -((-total) // scale)
            q = min(total - least_threshold[v], stop - begin)
            if q > 0:
                row[begin + q - 1] += row.dtype.type(weights[k])
        run = row[0]
        for h in range(stop - 1, begin - 1, -1):
            run = row.dtype.type(run + row[h])
            row[h] = run


@jit
def scores_of_users(
    first: int,
    last: int,
    scores: Array,
    groups: Bundle,
    offset: Array,
    cap: Array,
    levels: int,
    uses_minimum: bool,
    own: Array,
    rules: Bundle,
) -> None:
    """Add the contributions of the distinct users ``first..last - 1``."""
    starts, ends, _, weights, ones, sizes, times = groups
    row, bytes_row = np.empty(scores.shape[1], dtype=np.int32), np.empty(scores.shape[1], dtype=np.uint8)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(len(cap), scores.shape[1])
    elsewhere = np.zeros(len(cap), dtype=np.int64)
    for i in range(first, last):
        m = sizes[i]
        if m <= MOST_RECORDS:
            _mistakes(bytes_row, rules, weights, starts[i], ends[i], ones[i], m)
            own[0, i], own[1, i] = extremes(bytes_row)
            least = own[0, i] if uses_minimum else np.int64(0)
            charge(bytes_row, least, m, offset[i], cap[:, i], levels, times[i], elsewhere, values, held, scores)
        else:
            if len(values) <= m:
                values = np.empty(2 * m + 1, dtype=np.int64)
            _mistakes(row, rules, weights, starts[i], ends[i], ones[i], m)
            own[0, i], own[1, i] = extremes(row)
            least = own[0, i] if uses_minimum else np.int64(0)
            add_contributions(row, least, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)


_DEFAULT_CUTS = 16
_SMALL = 1 << 62


def _stride(size: int, cuts: int) -> int:
    """The least of 1, 2, 5, 10, 20, ... steps that makes at most ``cuts`` units of ``size`` values."""
    tens = 1
    while True:
        for digit in (1, 2, 5):
            if -(-size // (digit * tens)) <= cuts:
                return digit * tens
        tens *= 10


def _line(domain: Domain) -> tuple[Fraction, Fraction]:
    """Value of code 0 and of a step, for domains whose values are numbers in equal steps; days count from the first."""
    assert domain.line is not None
    return domain.line


def _number(x: Fraction) -> str:
    """A rational as an integer, a decimal if it is one, else a quotient."""
    places = next((p for p in range(320) if 10**p % x.denominator == 0), None)
    if x.denominator == 1 or places is None:
        return str(x)
    digits = f"{abs(x.numerator) * (10**places // x.denominator):0{places + 1}d}"
    return f"{'-' * (x < 0)}{digits[:-places]}.{digits[-places:]}"


@frozen(slots=False, repr=False)
class Halfspace(Rule):
    """1 iff ``sum weights[j] * code_j / strides[j] > threshold``; no weights at all make a constant."""

    saved_as: ClassVar[str] = "halfspace"
    columns: Frozen[Domain]
    weights: tuple[int, ...]
    strides: tuple[WideInt, ...]
    threshold: WideInt
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if (
            len(self.weights) != len(self.columns)
            or len(self.strides) != len(self.columns)
            or any(s < 1 for s in self.strides)
        ):
            raise ParameterError(
                f"a halfspace on {len(self.columns)} columns needs as many weights and positive strides"
            )
        if any(domain.line is None for domain in self.columns.values()):
            raise ParameterError("a halfspace reads numbers in equal steps: Integers, Grid or Dates")
        scale = lcm(*self.strides)
        reach = sum(abs(w) * scale // s * d.size for w, s, d in zip(self.weights, self.strides, self.columns.values()))
        if reach + scale * (abs(self.threshold) + 1) >= _SMALL:
            raise ParameterError("the weights are too large for 64-bit arithmetic on these domains")

    @property
    def reads(self) -> Sequence[str]:
        return tuple(name for name, weight in zip(self.columns, self.weights) if weight) or tuple(self.columns)[:1]

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        scale = lcm(*self.strides)
        total = np.zeros(len(codes[self.reads[0]]), dtype=np.int64)
        for name, weight, stride in zip(self.columns, self.weights, self.strides):
            if weight:
                total += codes[name].astype(np.int64) * np.int64(weight * (scale // stride))
        return (total > scale * self.threshold).astype(np.int8)

    @property
    def pulls(self) -> Mapping[str, float]:
        columns = zip(self.columns.items(), self.weights, self.strides)
        return {name: weight * (domain.size - 1) / stride for (name, domain), weight, stride in columns if weight}

    def expression(self) -> Expression:
        scale = lcm(*self.strides)
        pairs = zip(self.columns, self.weights, self.strides)
        terms = [CodeTimes(name, weight * (scale // stride)) for name, weight, stride in pairs if weight]
        return SumExceeds(terms, scale * self.threshold) if terms else self.threshold < 0

    def condition(self) -> str:
        """The inequality in the user's units, cleared of fractions and common factors."""
        if not any(self.weights):
            return "always" if self.threshold < 0 else "never"
        used = [
            (name, domain, w, s) for (name, domain), w, s in zip(self.columns.items(), self.weights, self.strides) if w
        ]
        lines = [_line(domain) for _, domain, _, _ in used]
        slopes = [Fraction(w) / (s * step) for (_, _, w, s), (_, step) in zip(used, lines)]
        right = self.threshold + sum((slope * low for slope, (low, _) in zip(slopes, lines)), Fraction(0))
        clear = Fraction(lcm(*(x.denominator for x in slopes)))
        clear /= gcd(*(int(x * clear) for x in slopes))
        whole, right = [int(x * clear) for x in slopes], right * clear
        if all(low.denominator == step.denominator == 1 for low, step in lines):
            right = Fraction(right // 1)  # the left side is an integer
        names = [f"({name} - {domain.text(0)})" if not domain.numeric else name for name, domain, _, _ in used]
        if len(whole) == 1 and whole[0] < 0:
            return f"{names[0]} < {_number(-right)}"
        signed = [
            ("- " if w < 0 else "+ ") + (name if abs(w) == 1 else f"{abs(w)}*{name}") for w, name in zip(whole, names)
        ]
        left = " ".join(signed)
        return f"{left[2:] if left[0] == '+' else '-' + left[2:]} > {_number(right)}"


class _Vectors(NamedTuple):
    """Weight vectors: in units, in codes times ``scale``, their least threshold, and the first id of each (and the
    end)."""

    weights: tuple[tuple[int, ...], ...]
    factors: Ints
    least: Ints
    begins: Ints
    scale: int


@frozen(slots=False, init=False)
class Halfspaces(NamedColumns, EnumeratedClass):
    """Halfspaces over numeric columns with weights from a public list.

    ``weights`` is a bound ``w`` (all of ``-w..w``) or the list of weights a column may have; ``cuts`` the number of
    units of every column, or a mapping to numbers.  Ids: never, always, then vectors in lexicographic order, thresholds
    increasing.

    Parameters
    ----------
    domains : mapping of names to domains, or names, optional
        The columns; None takes every feature of the data.
    weights : int or iterable of int
        A bound, or the list of weights.
    cuts : int or mapping of names to int
        Units of every column.

    Raises
    ------
    ParameterError
        A column is not numeric, or there are too many rules to count.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> rules = Halfspaces({"x": Integers(0, 9), "y": Integers(0, 9)}, weights=[-3, 0, 2])
    >>> rules.size, str(rules.decode(rules.size - 1)), str(rules.decode(100, label="late"))
    (164, '1 when 2*x - 3*y > 17', 'late when x > 8')
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"halfspace": {}}

    domains: Frozen[Domain | None]
    weights: tuple[int, ...]
    cuts: Any

    def __init__(
        self,
        domains: Mapping[str, Domain | None] | Sequence[str] | None = None,
        weights: int | Iterable[int] = 2,
        cuts: int | Mapping[str, int] = _DEFAULT_CUTS,
    ) -> None:
        columns = named_domains(domains, "domains")
        self.__attrs_init__(columns, _checked_weights(weights), checked_cuts(cuts, columns))

    def __attrs_post_init__(self) -> None:
        columns, cuts = self.domains, self.cuts
        if cuts is None or (isinstance(cuts, Frozen) and any(isinstance(cut, tuple) for cut in cuts.values())):
            raise TypeError("cuts must be a number, or map columns to numbers")
        for name, domain in columns.items():
            if domain is not None and domain.line is None:
                raise ParameterError(
                    f"domains[{name!r}] must be numbers in equal steps: Integers, Grid or Dates, got {domain!r}"
                )
        vectors = len(self.weights) ** len(columns)
        limited(vectors, "the set of weight vectors", "choose fewer weights or fewer columns")
        if columns and all(domain is not None for domain in columns.values()):
            limited(self.size, "Halfspaces", "choose fewer weights, fewer cuts or fewer columns")

    # Shape

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Steps of each domain that make one unit."""
        cuts: dict[str, Any] = (
            dict(self.cuts) if isinstance(self.cuts, Mapping) else dict.fromkeys(self._columns, self.cuts)
        )
        return tuple(_stride(domain.size, cuts.get(name, _DEFAULT_CUTS)) for name, domain in self._columns.items())

    @cached_property
    def _vectors(self) -> _Vectors:
        scale = lcm(*self.strides)
        highest = [domain.size - 1 for domain in self._columns.values()]
        units = [scale // stride for stride in self.strides]
        widest = max(abs(weight) for weight in self.weights)
        if 2 * widest * sum(unit * (top + 1) for unit, top in zip(units, highest)) + 4 * scale >= _SMALL:
            raise TooLargeError(
                "these domains and weights overflow 64-bit arithmetic; declare a coarser Grid(lo, hi, step) or smaller "
                "weights"
            )
        vectors, factors, least, counts = [], [], [], []
        for vector in _directions(self.weights, len(self._columns)):
            factor = [weight * unit for weight, unit in zip(vector, units)]
            lowest = sum(min(f, 0) * top for f, top in zip(factor, highest))
            most = sum(max(f, 0) * top for f, top in zip(factor, highest))
            first, end = -(-lowest // scale), -(-most // scale)
            vectors.append(vector)
            factors.append(factor)
            least.append(first)
            counts.append(end - first)
        shaped = np.array(factors, dtype=np.int64).reshape(-1, len(self._columns))
        return _Vectors(
            tuple(vectors), shaped, np.array(least, np.int64), 2 + np.cumsum([0, *counts], dtype=np.int64), scale
        )

    @property
    def size(self) -> int:
        return int(self._vectors.begins[-1])

    @property
    def vc_dimension(self) -> int:
        """An upper bound: columns plus one, and never more than ``log2(size)``."""
        return min(len(self._columns) + 1, self.size.bit_length() - 1)

    @property
    def _units(self) -> list[int]:
        """How many cut-offs, constants left out, each column has alone."""
        return [(domain.size - 1) // stride for domain, stride in zip(self._columns.values(), self.strides)]

    @property
    def shattered_points(self) -> int:
        """With weights -1, 0 and 1: zero and the unit points of all columns."""
        return len(self.strides) + 1 if {-1, 0, 1} <= {*self.weights} and all(self._units) else 1

    @property
    def mistake_tree_depth(self) -> int:
        """The cut-offs of each column are there."""
        return max(cut_mistakes(units + 1) for units in self._units) if {0, 1} <= {*self.weights} else 0

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("halfspace")

    # Columns and rules

    def decode(self, hypothesis: int, label: str = "1") -> Halfspace:
        h, vectors = self.checked(hypothesis), self._vectors
        if h < 2:
            return Halfspace(self._columns, (0,) * len(self._columns), self.strides, -h, label)
        v = int(np.searchsorted(vectors.begins, h, side="right")) - 1
        return Halfspace(
            self._columns, vectors.weights[v], self.strides, int(vectors.least[v]) + h - int(vectors.begins[v]), label
        )

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        vectors, ids = self._vectors, np.arange(first, last)
        points = np.stack([codes[name].astype(np.int64) for name in self._columns], axis=1)
        out = np.empty((len(points), len(ids)), dtype=np.uint8)
        out[:, ids == 0], out[:, ids == 1] = 0, 1
        moving = ids > 1
        which = np.searchsorted(vectors.begins, ids[moving], side="right") - 1
        limits = (vectors.least[which] + ids[moving] - vectors.begins[which]) * vectors.scale
        out[:, moving] = points @ vectors.factors[which].T > limits
        return out

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        codes, sizes = [users.codes[name] for name in self._columns], [d.size for d in self._columns.values()]
        if prod(sizes) < 1 << 63:
            groups = group_equal_users(row_keys(codes, sizes), users.labels, users.offsets)
            points = key_digits(groups.places.astype(np.uint64), sizes)
        else:
            rows, place = distinct_rows(codes, sizes)
            groups = group_equal_users(place, users.labels, users.offsets)
            points = rows[groups.places]
        vectors, packed, term = self._vectors, tuple(groups), terms(groups, statistic)
        rules = (points.astype(np.int64), vectors.factors, vectors.least, vectors.begins, vectors.scale)
        scores = shared(groups, term, self.size, lambda a, b, out: scores_of_users(a, b, out, packed, *term, rules))
        return dense_profile(scores, statistic.optimism(groups.sizes, term.own, groups.times))


def _checked_weights(weights: object) -> tuple[int, ...]:
    if isinstance(weights, Iterable) and not isinstance(weights, (str, bytes)):
        listed = sorted({positive_int(weight, "a weight", minimum=-(1 << 31), maximum=1 << 31) for weight in weights})
    else:
        bound = positive_int(weights, "weights", maximum=SIZE_LIMIT)
        listed = list(range(-bound, bound + 1))
    if not any(listed):
        raise ParameterError("weights must hold a number other than 0")
    return tuple(listed)


def _directions(weights: tuple[int, ...], columns: int) -> list[tuple[int, ...]]:
    """Vectors of weights, cleared of common factors, once each, in lexicographic order."""
    vectors = (vector for vector in product(weights, repeat=columns) if any(vector))
    return sorted({tuple(weight // gcd(*vector) for weight in vector) for vector in vectors})
