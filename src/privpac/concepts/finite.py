"""Any finite list of rules, given by what they say on every value.

``rules[h, c]`` is what rule ``h`` says on code ``c``; with several columns the codes are numbered with the first column
most significant.  The table is public.  The kernel adds up table rows over a user's distinct points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule, sauer
from privpac.concepts.cells import Frozen, columns_from_list, columns_to_list, declared_of, domains_of, named_domains
from privpac.concepts.dense import Bytes, EnumeratedClass, dense_fold, limited
from privpac.concepts.dimensions import littlestone_dimension
from privpac.concepts.profile import Profile, dense_profile
from privpac.concepts.statistics import Statistic
from privpac.data import Domain, UserData
from privpac.errors import DimensionLimit, ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.released import register

__all__ = ["MAX_CELLS", "FiniteClass", "TableRule", "table_vc_dimension"]

MAX_CELLS = 1 << 28
"""The most entries (rules times values) a table may have."""

_SEARCHED, _SEARCH_STATES = 1 << 16, 1 << 14
"""Cells of a table that is searched for a mistake tree at all, and steps of that search: a fraction of a second."""

Codes = Mapping[str, NDArray[np.uint64]]
_SHOWN = 8


def flat_codes(codes: Codes, columns: Mapping[str, Domain]) -> NDArray[np.uint64]:
    """One number for the codes of several columns, the first most significant."""
    out: NDArray[np.uint64] | None = None
    for name, domain in columns.items():
        out = codes[name] if out is None else out * np.uint64(domain.size) + codes[name]
    assert out is not None
    return out


@register("table")
@dataclass(frozen=True, repr=False)
class TableRule(Rule):
    """What to say on every value, written as a text of 0 and 1."""

    columns: Mapping[str, Domain]
    bits: str
    name: str | None = None
    label: str = "1"

    def __post_init__(self) -> None:
        columns = domains_of(named_domains(self.columns, "columns"))
        object.__setattr__(self, "columns", Frozen(tuple(columns.items())))
        if not isinstance(self.bits, str) or set(self.bits) - {"0", "1"}:
            raise ParameterError("bits must be a text of 0 and 1")
        if len(self.bits) != prod(domain.size for domain in columns.values()):
            raise ParameterError(f"bits must have one digit per value of {list(columns)}, got {len(self.bits)}")

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def predict_codes(self, codes: Codes) -> NDArray[np.int8]:
        table = np.frombuffer(self.bits.encode(), dtype=np.int8) - np.int8(ord("0"))
        return table[flat_codes(codes, self.columns)]

    def condition(self) -> str:
        if "0" not in self.bits or "1" not in self.bits:
            return "always" if "1" in self.bits else "never"
        if self.name is not None:
            return self.name
        names, domains = list(self.columns), list(self.columns.values())
        where = [i for i, bit in enumerate(self.bits) if bit == "1"]
        shown = [self._value(i, domains) for i in where[:_SHOWN]] + (
            [f"… ({len(where)} values)"] if len(where) > _SHOWN else []
        )
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} in {{{', '.join(shown)}}}"

    @staticmethod
    def _value(flat: int, domains: Sequence[Domain]) -> str:
        parts = []
        for domain in reversed(domains):
            flat, code = divmod(flat, domain.size)
            parts.append(domain.text(code))
        return parts[0] if len(parts) == 1 else "(" + ", ".join(reversed(parts)) + ")"

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": columns_to_list(self.columns),
            "bits": "b" + self.bits,
            "name": self.name,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            columns_from_list(values["columns"]), values["bits"].removeprefix("b"), values["name"], values["label"]
        )


def _tabulate(functions: Sequence[Callable[..., Any]], domains: Sequence[Domain]) -> Bytes:
    if len(functions) * prod(domain.size for domain in domains) > 1 << 22:
        raise TooLargeError(
            "more than 2^22 evaluations of the given functions are needed; pass their table as a 0/1 array"
        )
    values = product(*([domain.value(code) for code in range(domain.size)] for domain in domains))
    return np.array([[bool(f(*value)) for f in functions] for value in values], dtype=np.uint8).T


@dataclass(frozen=True, eq=False)
class FiniteClass(EnumeratedClass):
    """``rules`` is a 0/1 table (rules by values), or a list of functions of a value (one argument per column).

    ``domain`` is one domain for one column (``feature`` names it), or a mapping from names to domains.

    >>> from privpac.data import Integers
    >>> c = FiniteClass([lambda d: d % 2, lambda d: d > 4], Integers(0, 6), feature="day", names=["odd", "weekend"])
    >>> c.size, str(c.decode(1, label="late")), c.predictions({"day": np.array([0, 5], dtype=np.uint64)}, 1).tolist()
    (2, 'late when weekend', [0, 1])
    """

    rules: Any
    domain: Domain | Mapping[str, Domain] | None = None
    feature: str | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.domain, Mapping):
            if self.feature is not None:
                raise ParameterError(
                    "feature names the only column; several columns are named by the mapping of domains"
                )
            object.__setattr__(self, "domain", Frozen(tuple(domains_of(named_domains(self.domain, "domain")).items())))
        elif self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as Integers(0, 100), or map names to domains, got "
                f"{type(self.domain).__name__}"
            )
        object.__setattr__(self, "rules", self._read(self.rules))
        if self.names is not None:
            names = tuple(self.names)
            if not all(isinstance(name, str) for name in names) or isinstance(self.names, str):
                raise TypeError("names must be a list of texts, one for each rule")
            if len(names) != self.size:
                raise ParameterError(f"there are {self.size} rules and {len(names)} names")
            object.__setattr__(self, "names", names)

    def _read(self, given: Any) -> Bytes:
        domains = [domain for domain in self.declared().values() if domain is not None]
        if isinstance(given, (list, tuple)) and given and all(callable(item) for item in given):
            if not domains:
                raise ParameterError(
                    "functions need a domain to be tabulated on: FiniteClass(functions, Integers(0, 6))"
                )
            limited(len(given), "the class", "use a smaller class")
            given = _tabulate(given, domains)
        array = np.asarray(given)
        if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
            raise ParameterError(
                f"a class is a 0/1 array (rules by values) or a list of functions, got {array.dtype}, shape "
                f"{array.shape}"
            )
        if not bool(((array == 0) | (array == 1)).all()):
            raise ParameterError("a class is a table of 0 and 1; other entries were found")
        limited(array.shape[0], "the class", "use a smaller class")
        if array.size > MAX_CELLS:
            raise TooLargeError(
                f"the table has {array.size} entries, at most {MAX_CELLS} are allowed; use a coarser Grid"
            )
        if domains and prod(domain.size for domain in domains) != array.shape[1]:
            raise ParameterError(
                f"the table has {array.shape[1]} columns, the domain {prod(domain.size for domain in domains)} values"
            )
        table = np.array(array, dtype=np.uint8, order="C")
        table.setflags(write=False)
        return table

    @cached_property
    def _points(self) -> Bytes:
        """Values by rules: the kernel reads what all rules say on one value in a row."""
        return np.ascontiguousarray(self.rules.T)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteClass):
            return NotImplemented
        mine, theirs = (self.domain, self.feature, self.names), (other.domain, other.feature, other.names)
        return mine == theirs and np.array_equal(self.rules, other.rules)

    def __hash__(self) -> int:
        return hash((self.domain, self.feature, self.names, self.rules.shape))

    @property
    def size(self) -> int:
        return len(self.rules)

    @cached_property
    def vc_dimension(self) -> int:
        """By search; ``DimensionLimit`` if that is too much work."""
        return table_vc_dimension(self.rules)

    @property
    def shattered_points(self) -> int:
        try:
            return self.vc_dimension
        except DimensionLimit as limit:
            return limit.lower

    @cached_property
    def mistake_tree_depth(self) -> int:
        if self.rules.size > _SEARCHED:
            return 0
        try:
            return littlestone_dimension(self.rules, max_states=_SEARCH_STATES)
        except DimensionLimit as limit:
            return limit.lower

    def growth(self, n: int) -> int:
        try:
            dimension = self.vc_dimension
        except DimensionLimit as limit:
            dimension = self.size.bit_length() if limit.upper is None else limit.upper
        return min(self.size, sauer(dimension, min(n, self.rules.shape[1])))

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return declared_of(self.domain) if isinstance(self.domain, Mapping) else {self.feature: self.domain}

    @cached_property
    def _columns(self) -> dict[str, Domain]:
        return domains_of({name or "x": domain for name, domain in self.declared().items()})

    def with_columns(self, columns: Mapping[str, Domain]) -> FiniteClass:
        if isinstance(self.domain, Mapping):
            return FiniteClass(self.rules, columns, None, self.names)
        ((feature, domain),) = columns.items()
        return FiniteClass(self.rules, domain, feature, self.names)

    def decode(self, hypothesis: int, label: str = "1") -> TableRule:
        said = self.rules[self.checked(hypothesis)]
        name = None if self.names is None else self.names[hypothesis]
        return TableRule(self._columns, (said + np.uint8(ord("0"))).tobytes().decode(), name, label)

    def table(self, codes: Codes, first: int, last: int) -> Bytes:
        return self._points[flat_codes(codes, self._columns), first:last]

    # Folding

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        points = flat_codes(users.codes, self._columns)
        table = self._points
        return dense_fold(
            points,
            users.labels,
            users.offsets,
            statistic,
            size=self.size,
            n_points=len(table),
            table=lambda a, b: table[:, a:b],
        )

    def empty_profile(self) -> Profile:
        return dense_profile(np.zeros(self.size, dtype=np.int64))


def table_vc_dimension(matrix: NDArray[np.uint8], max_states: int = 1 << 20) -> int:
    """The largest k such that some k columns of a 0/1 table show all ``2**k`` rows.

    Shattered sets are grown column by column (a subset of a shattered set is shattered).  Rows and columns that repeat
    add nothing; ``max_states`` bounds the sets looked at.
    """
    positive_int(max_states, "max_states")
    rows = np.unique(matrix, axis=0)
    columns = np.unique(rows, axis=1).T.astype(np.int64)
    most = len(rows).bit_length() - 1
    best, states = 0, 0
    stack: list[tuple[int, int, NDArray[np.int64]]] = [(0, 0, np.zeros(len(rows), dtype=np.int64))]
    while stack:
        start, k, pattern = stack.pop()
        best = max(best, k)
        if best == most:
            return best
        for c in range(start, len(columns)):
            if k + len(columns) - c <= best:
                break
            states += 1
            if states > max_states:
                raise DimensionLimit(best, most)
            wider = 2 * pattern + columns[c]
            if np.count_nonzero(np.bincount(wider, minlength=2 << k)) == 2 << k:
                stack.append((c + 1, k + 1, wider))
    return best
