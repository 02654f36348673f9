"""Broken values, counted batch by batch and told once.

In memory a column is judged as a whole.  Here verdicts are counted in each batch and added up; the error then names the
same column, rules and counts as in memory, and nothing else.  Only ``on_invalid="raise"`` needs the count: the other
rules look at one record at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from privpac.data.build import Declared, assemble
from privpac.data.ids import SPOILT, as_ids
from privpac.data.schema import LABELS, OnInvalid, Verdict
from privpac.data.texts import read_column
from privpac.errors import SchemaError

__all__ = ["Faults", "faults_of"]

Counts = dict[int, int]


@dataclass(frozen=True)
class Faults:
    """Missing and spoilt ids, and for each column how many values got which bad verdict."""

    absent: int = 0
    spoilt: int = 0
    columns: Mapping[str, Counts] = field(default_factory=dict)

    def merge(self, other: Faults) -> Faults:
        columns = {
            name: {
                verdict: self.columns.get(name, {}).get(verdict, 0) + other.columns.get(name, {}).get(verdict, 0)
                for verdict in {*self.columns.get(name, {}), *other.columns.get(name, {})}
            }
            for name in {*self.columns, *other.columns}
        }
        return Faults(self.absent + other.absent, self.spoilt + other.spoilt, columns)

    def report(self, declared: Declared) -> None:
        """Raise what ``UserData`` would raise: ids first, then features in declared order, then labels."""
        if self.absent or self.spoilt:
            rules = {"are missing": self.absent, SPOILT: self.spoilt}
            broken = ", ".join(f"{count} user ids {rule}" for rule, count in rules.items() if count)
            raise SchemaError(
                f"column {declared.user!r}: {broken}; such a record belongs to nobody: correct the ids or choose "
                "on_invalid='drop'"
            ) from None
        for name, domain in declared.features.items():
            if domain is not None and self.columns.get(name):
                raise _broken(name, self.columns[name], domain.words(), domain.describe())
        if declared.label is not None and self.columns.get(declared.label):
            words = {
                Verdict.MISSING: "missing or NaN",
                Verdict.OUTSIDE: "not 0 or 1",
                Verdict.UNREAD: "not in label_map",
            }
            mapped = declared.label_map is not None
            allowed = "the values of label_map" if mapped else LABELS
            allowed = allowed if declared.positive is None else "a value"
            raise _broken(declared.label, self.columns[declared.label], words, allowed)


def _broken(name: str, counts: Counts, words: Mapping[Verdict, str], allowed: str) -> SchemaError:
    broken = ", ".join(f"{counts[v]} {words[v]}" for v in Verdict if counts.get(v))
    return SchemaError(
        f"column {name!r}: {broken} (number of records); allowed: {allowed}; correct the table or choose "
        "on_invalid='drop' or 'clamp'"
    )


def faults_of(table: Mapping[str, pl.Series], declared: Declared) -> Faults:
    """The faults of a batch in the declared columns that it has."""
    absent = spoilt = 0
    columns: dict[str, Counts] = {}
    if declared.user is not None and declared.user in table:
        _, missing, lossy = as_ids(table[declared.user], declared.user)
        absent, spoilt = (0 if mask is None else int(mask.sum()) for mask in (missing, lossy))
    for name, domain in declared.features.items():
        if domain is not None and name in table and not domain.holds(table[name]):
            (_, verdicts), _ = read_column(domain, table[name], name)
            judged = None if verdicts is None else domain.judged(verdicts)
            if judged is not None and judged.any():
                columns[name] = _counted(judged)
    if declared.label is not None and declared.label in table and not _plain(table[declared.label], declared):
        bad = _bad_labels(table[declared.label], replace(declared, user=None, features={}, on_invalid=OnInvalid.DROP))
        if bad:
            columns[declared.label] = bad
    return Faults(absent, spoilt, columns)


def _counted(verdicts: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Counts:
    return {v: int(n) for v, n in enumerate(np.bincount(verdicts).tolist()) if n and v != Verdict.GOOD}


def _plain(series: pl.Series, declared: Declared) -> bool:
    """Whether labels are booleans, all there, that nothing maps."""
    return (
        declared.label_map is None
        and declared.positive is None
        and series.dtype == pl.Boolean
        and not series.null_count()
    )


def _bad_labels(series: pl.Series, declared: Declared) -> Counts:
    assert declared.label is not None
    keep = assemble({declared.label: series}, declared).keep
    if keep is None or keep.all():
        return {}
    missing = series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()
    absent = int((pl.Series(~keep) & missing).sum())
    other = Verdict.OUTSIDE if declared.label_map is None else Verdict.UNREAD
    return {v: n for v, n in {Verdict.MISSING: absent, other: int((~keep).sum()) - absent}.items() if n}
