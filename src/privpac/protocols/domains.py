"""A curator's domains as columns of a manifest, and back: both give every value the same code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from fractions import Fraction

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers
from privpac.errors import ParameterError
from privpac.protocols.columns import DeviceColumn
from privpac.rules.enumerated import Frozen

__all__ = ["column_of", "columns_of", "domain_of", "domains_of"]


_LISTED = {False: "values", True: "ordered"}


def column_of(name: str, domain: Domain) -> DeviceColumn:
    """The column of a declared domain; an open vocabulary has none, because its codes depend on everybody's data."""
    if isinstance(domain, Integers):
        return DeviceColumn.numbers(name, Fraction(domain.lo), Fraction(domain.hi))
    if isinstance(domain, Grid):
        return DeviceColumn.numbers(name, domain.lo, domain.hi, domain.step)
    if isinstance(domain, Dates):
        return DeviceColumn.days(name, domain.lo.isoformat(), domain.hi.isoformat())
    if isinstance(domain, Categories):
        return DeviceColumn.listed(name, [str(value) for value in domain.values], _LISTED[domain.ordered])
    if isinstance(domain, Floats):
        return DeviceColumn.floats(name)
    raise ParameterError(
        f"a protocol reads Integers, Grid, Dates, Categories and Floats, but {name!r} is {type(domain).__name__}"
    )


def domain_of(column: DeviceColumn) -> Domain:
    """The domain of a column."""
    if column.values is not None:
        return Categories(column.values, ordered=column.kind == _LISTED[True])
    if column.kind == "floats":
        return Floats()
    last = column.first + column.step * (column.size - 1)
    if column.kind == "days":
        first = date.fromordinal(int(column.first))
        return Dates(first, first + timedelta(days=column.size - 1))
    if column.step == 1 and column.first.denominator == 1 and column.first >= -(1 << 63) and last < 1 << 64:
        return Integers(int(column.first), int(last))
    return Grid(column.first, last, column.step)


def columns_of(features: Mapping[str, Domain]) -> tuple[DeviceColumn, ...]:
    """Columns in the order given."""
    return tuple(column_of(name, domain) for name, domain in features.items())


def domains_of(columns: Iterable[DeviceColumn]) -> Frozen[Domain]:
    """Named domains in the order of the columns."""
    return Frozen(tuple((column.name, domain_of(column)) for column in columns))
