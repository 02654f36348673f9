"""Decision lists of yes/no columns: "if a then 1 else if not b then 0 else 1".

A list of at most ``length`` tests, each on a literal.  Many lists compute the same function; one of each is kept:

* no column is tested twice (a repeated literal is never reached, its opposite ends the list);
* the default differs from the last label (else the last test changes nothing);
* neighbouring tests with one label are in the order of the columns (they commute);
* with negations, the last run of equal labels has two tests or more, and a list of one test says 1 there
  (``if a then 1 else 0`` and ``if not a then 0 else 1`` are one function).

Each step of this reduction keeps the function and does not lengthen the list, so every list of at most ``length`` tests
is represented.  What is left are the layers of a nested canalizing function, which the function determines: the rules
of a layer are exactly those literals that alone decide what the earlier layers leave open.  Hence no two rules predict
alike.

The number of rules is a formula, checked against ``SIZE_LIMIT`` before anything is enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import comb
from typing import ClassVar, NamedTuple

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Codes
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.errors import ParameterError, TooLargeError
from privpac.parameters import named, truth, whole
from privpac.rules.base import ByAgreement, ColumnCodes, Frozen, Predictions, Rule
from privpac.rules.boxes import literal, yes_no_columns
from privpac.rules.enumerated import EnumeratedClass, NamedColumns, dense_fold, domains_of, limited
from privpac.rules.export.expression import Cases, Expression, codes_in
from privpac.rules.profile import Profile, Statistic

_MOST_COLUMNS = 63


class _Table(NamedTuple):
    """Lists row by row: tested column (-1: end), value asked for, label; and the default."""

    columns: NDArray[np.int8]
    wanted: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    default: NDArray[np.uint8]


# Counting and enumerating


@lru_cache(maxsize=64)
def _rankings(n: int) -> int:
    """Ordered partitions of ``n`` things."""
    return 1 if n == 0 else sum(comb(n, k) * _rankings(n - k) for k in range(1, n + 1))


def _number(columns: int, length: int, negations: bool) -> int:
    total = 2
    for tests in range(1, min(length, columns) + 1):
        if not negations:
            forms = 2 * _rankings(tests)
        elif tests == 1:
            forms = 2
        else:
            forms = 2 ** (tests + 1) * (_rankings(tests) - tests * _rankings(tests - 1))
        total += comb(columns, tests) * forms
    return total


def _layers(rest: tuple[int, ...], last: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Ordered partitions of ``rest`` whose last part has at least ``last`` members."""
    if len(rest) >= last:
        yield (rest,)
    for k in range(1, len(rest)):
        for part in combinations(rest, k):
            left = tuple(i for i in rest if i not in part)
            yield from ((part, *more) for more in _layers(left, last))


def _forms(tests: int, negations: bool) -> Iterator[tuple[list[int], list[int], tuple[int, ...]]]:
    """Order, labels and values asked for, of lists that test the columns ``0..tests - 1``."""
    signs = list(product((1, 0), repeat=tests)) if negations else [(1,) * tests]
    last = 2 if negations and tests > 1 else 1
    for layers in _layers(tuple(range(tests)), last):
        order = [i for layer in layers for i in layer]
        for label in (1,) if negations and tests == 1 else (1, 0):
            labels = [label ^ (depth & 1) for depth, layer in enumerate(layers) for _ in layer]
            for sign in signs:
                yield order, labels, sign


@lru_cache(maxsize=4)
def _enumerate(columns: int, length: int, negations: bool) -> _Table:
    """All lists: the constants 0 and 1, then by number of tests, by columns tested, by form."""
    length = min(length, columns)
    tested: list[Array] = [np.full((2, length), -1, np.int8)]
    wanted: list[Array] = [np.zeros((2, length), np.uint8)]
    labels: list[Array] = [np.zeros((2, length), np.uint8)]
    default: list[Array] = [np.array([0, 1], np.uint8)]
    for tests in range(1, length + 1):
        chosen = np.array(list(combinations(range(columns), tests)), dtype=np.int8)
        forms = list(_forms(tests, negations))
        orders, marks = np.array([f[0] for f in forms]), np.array([f[1] for f in forms], dtype=np.uint8)
        rows = len(chosen) * len(forms)
        block = np.full((rows, length), -1, np.int8)
        block[:, :tests] = chosen[:, orders].reshape(rows, tests)
        tested.append(block)
        for out, values in ((wanted, np.array([f[2] for f in forms], dtype=np.uint8)), (labels, marks)):
            block = np.zeros((rows, length), np.uint8)
            block[:, :tests] = np.tile(values, (len(chosen), 1))
            out.append(block)
        default.append(np.tile(1 - marks[:, -1], len(chosen)))
    return _Table(np.concatenate(tested), np.concatenate(wanted), np.concatenate(labels), np.concatenate(default))


@jit
def _evaluate(points: Array, columns: Array, wanted: Array, labels: Array, default: Array, out: Array) -> None:
    for p in range(len(points)):
        bits = points[p]
        for h in range(len(default)):
            answer = default[h]
            for k in range(columns.shape[1]):
                if columns[h, k] < 0:
                    break
                if np.uint8((bits >> np.uint64(columns[h, k])) & np.uint64(1)) == wanted[h, k]:
                    answer = labels[h, k]
                    break
            out[p, h] = answer


# Rules


@frozen(slots=False, repr=False)
class DecisionList(Rule):
    """Tests ``(column, value asked for, label)`` in order; the first that holds gives its label, else ``default``."""

    saved_as: ClassVar[str] = "decision-list"
    columns: Frozen[Domain]
    tests: tuple[tuple[str, int, int], ...]
    default: int
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        bits = [self.default, *(bit for _, value, mark in self.tests for bit in (value, mark))]
        if any(bit not in (0, 1) for bit in bits) or any(name not in self.columns for name, _, _ in self.tests):
            raise ParameterError("a decision list tests its own columns for 0 or 1 and answers 0 or 1")
        if any(domain.size != 2 for domain in self.columns.values()):
            raise ParameterError("a decision list needs domains of two values")

    @property
    def reads(self) -> Sequence[str]:
        return tuple(dict.fromkeys(name for name, _, _ in self.tests)) or tuple(self.columns)[:1]

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        out = np.full(len(codes[self.reads[0]]), self.default, dtype=np.int8)
        for name, value, mark in reversed(self.tests):
            out[codes[name] == value] = mark
        return out

    def expression(self) -> Expression:
        return Cases([(codes_in(name, value, value), mark) for name, value, mark in self.tests], self.default)

    def condition(self) -> str:
        if not self.tests:
            return "always" if self.default else "never"
        steps = [f"if {literal(name, self.columns[name], value)} then {mark}" for name, value, mark in self.tests]
        return " else ".join([*steps, str(self.default)])

    def __str__(self) -> str:
        if not self.tests:
            return super().__str__()
        return self.condition() if self.label == "1" else f"{self.label}: {self.condition()}"


@frozen(slots=False, field_transformer=named)
class DecisionLists(NamedColumns, EnumeratedClass):
    """All functions of decision lists of at most ``length`` tests, once each; ids 0 and 1 are "never" and "always".

    Parameters
    ----------
    features : mapping of names to domains, or names, optional
        The yes/no columns; None takes every feature of the data.
    length : int
        The most tests of a list.
    negations : bool
        Whether a column may also be required to be 0.

    Raises
    ------
    ParameterError
        A column has more than two values, or there are too many rules to count.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> rules = DecisionLists({"a": Integers(0, 1), "b": Integers(0, 1)}, length=2)
    >>> rules.size, str(rules.decode(7))
    (14, 'if a then 1 else if not b then 1 else 0')
    """

    columns_in: ClassVar[str] = "features"

    features: Frozen[Domain | None] = field(default=None, converter=yes_no_columns)
    length: int = field(default=3, converter=whole)
    negations: bool = field(default=True, validator=truth)

    def __attrs_post_init__(self) -> None:
        columns = self.features
        if len(columns) > _MOST_COLUMNS:
            raise TooLargeError(
                f"DecisionLists reads at most {_MOST_COLUMNS} columns, got {len(columns)}; name fewer columns"
            )
        shown = min(self.length, len(columns))
        limited(
            _number(len(columns), shown, self.negations),
            f"DecisionLists of {len(columns)} columns and length {shown}",
            "choose a smaller length or fewer columns" + ", or negations=False" * self.negations,
        )

    @property
    def size(self) -> int:
        return _number(self._width, self.length, self.negations)

    @property
    def _width(self) -> int:
        if not self.declared():
            domains_of({})
        return len(self.declared())

    @property
    def _lists(self) -> _Table:
        return _enumerate(self._width, self.length, self.negations)

    @property
    def vc_dimension(self) -> int:
        """``d + 1`` for lists over all ``d`` columns, where it is exact; else the lesser of that and ``log2(size)``.

        A list is a linear separator (weights 2**-k), so no ``d + 2`` points are shattered.  Zero and the ``d`` unit
        points are: test the columns whose unit point is labelled unlike zero.
        """
        return min(self._width + 1, self.size.bit_length() - 1)

    @property
    def shattered_points(self) -> int:
        """Zero and as many unit points as there are tests."""
        return min(self._width, self.length) + 1

    @property
    def by_agreement(self) -> ByAgreement:
        only = "" if self.negations else "negations=True"
        return ByAgreement("decision-list", {"stages": self.length}, only)

    # Columns and rules

    def decode(self, hypothesis: int, label: str = "1") -> DecisionList:
        columns = self._columns
        names, lists, h = list(columns), self._lists, self.checked(hypothesis)
        rows = zip(lists.columns[h].tolist(), lists.wanted[h].tolist(), lists.labels[h].tolist())
        tests = tuple((names[column], value, mark) for column, value, mark in rows if column >= 0)
        return DecisionList(columns, tests, int(lists.default[h]), label)

    def _bits(self, codes: ColumnCodes) -> Codes:
        out = np.zeros(len(codes[next(iter(self.features))]), dtype=np.uint64)
        for j, name in enumerate(self.features):
            out |= codes[name] << np.uint64(j)
        return out

    def _predict(self, points: Codes, first: int, last: int) -> NDArray[np.uint8]:
        out = np.empty((len(points), last - first), dtype=np.uint8)
        columns, wanted, labels, default = (part[first:last] for part in self._lists)
        _evaluate(points, columns, wanted, labels, default, out)
        return out

    def table(self, codes: ColumnCodes, first: int, last: int) -> NDArray[np.uint8]:
        return self._predict(self._bits(codes), first, last)

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        points, place = np.unique(self._bits(users.codes), return_inverse=True)
        return dense_fold(
            place.astype(np.uint64),
            users.labels,
            users.offsets,
            statistic,
            size=self.size,
            n_points=len(points),
            table=lambda first, last: self._predict(points, first, last),
        )
