"""A curator's domains as columns of a manifest, and back: both give every value the same code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers
from privpac.device.columns import DeviceColumn
from privpac.errors import ParameterError
from privpac.rules.base import Frozen

_LISTED = {False: "values", True: "ordered"}


def column_of(name: str, domain: Domain) -> DeviceColumn:
    """The column of a declared domain; an open vocabulary has none, because its codes depend on everybody's data."""
    entry = domain.to_device()
    if entry is None:
        raise ParameterError(
            f"a protocol reads Integers, Grid, Dates, Categories and Floats, but {name!r} is {type(domain).__name__}"
        )
    return DeviceColumn.read({"name": name, **entry})


def declared_domain(column: DeviceColumn) -> Domain:
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


def device_columns_of(features: Mapping[str, Domain]) -> tuple[DeviceColumn, ...]:
    """Columns in the order given."""
    return tuple(column_of(name, domain) for name, domain in features.items())


def device_domains_of(columns: Iterable[DeviceColumn]) -> Frozen[Domain]:
    """Named domains in the order of the columns."""
    return Frozen(tuple((column.name, declared_domain(column)) for column in columns))
