"""Broken values, counted batch by batch and told once.

In memory a column is judged as a whole.  Here verdicts are counted in each batch and added up; the error then names the
same column, rules and counts as in memory, and nothing else.  Only ``on_invalid="raise"`` needs the count of ids and
features: the other rules look at one record at a time.  Labels are counted unless their records may be dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from privpac.data.build import Declared
from privpac.data.ids import SPOILT, as_ids
from privpac.data.labels import check_positive, invalid_labels, judged_labels
from privpac.data.schema import OnInvalid, OnInvalidLabel, Verdict, broken
from privpac.data.texts import read_column
from privpac.errors import SchemaError

__all__ = ["Faults", "doubted", "faults_of"]

Counts = dict[int, int]


@dataclass(frozen=True)
class Faults:
    """Missing and spoilt ids, for each column how many values got which bad verdict, and how many labels there are and
    are not 0."""

    absent: int = 0
    spoilt: int = 0
    columns: Mapping[str, Counts] = field(default_factory=dict)
    positives: int = 0
    labels: int = 0

    def merge(self, other: Faults) -> Faults:
        columns = {
            name: {
                verdict: self.columns.get(name, {}).get(verdict, 0) + other.columns.get(name, {}).get(verdict, 0)
                for verdict in {*self.columns.get(name, {}), *other.columns.get(name, {})}
            }
            for name in {*self.columns, *other.columns}
        }
        return Faults(
            self.absent + other.absent,
            self.spoilt + other.spoilt,
            columns,
            self.positives + other.positives,
            self.labels + other.labels,
        )

    def report(self, declared: Declared) -> None:
        """Raise what ``UserData`` would raise: ids first, then features in declared order, then labels."""
        if self.absent or self.spoilt:
            rules = {"are missing": self.absent, SPOILT: self.spoilt}
            found = ", ".join(f"{count} user ids {rule}" for rule, count in rules.items() if count)
            raise SchemaError(
                f"column {declared.user!r}: {found}; such a record belongs to nobody: correct the ids or choose "
                "on_invalid='drop'"
            ) from None
        for name, domain in declared.features.items():
            if domain is not None and self.columns.get(name):
                raise broken(name, self.columns[name], domain.words(), domain.describe())
        if declared.label is not None and self.columns.get(declared.label):
            raise invalid_labels(declared, self.columns[declared.label])
        check_positive(declared, self.positives, self.labels)


def faults_of(table: Mapping[str, pl.Series], declared: Declared) -> Faults:
    """The faults of a batch in the declared columns that it has: those of labels under every ``on_invalid``, others
    where it raises."""
    strict = declared.on_invalid is OnInvalid.RAISE
    absent = spoilt = positives = labels = 0
    columns: dict[str, Counts] = {}
    label = None if declared.label is None else table.get(declared.label)
    if declared.user is not None and declared.user in table:
        _, missing, lossy = as_ids(table[declared.user], declared.user)
        masks = [mask for mask in (missing, lossy) if mask is not None]
        if strict:
            absent, spoilt = (0 if mask is None else int(mask.sum()) for mask in (missing, lossy))
        elif label is not None and masks:  # the record is dropped before its label is read
            label = label.filter(pl.Series(~np.logical_or.reduce(masks)))
    for name, domain in declared.features.items() if strict else ():
        if domain is not None and name in table and not domain.holds(table[name]):
            (_, verdicts), _ = read_column(domain, table[name], name)
            judged = None if verdicts is None else domain.judged(verdicts)
            if judged is not None and judged.any():
                columns[name] = _counted(judged)
    if declared.label is not None and label is not None:
        found, verdicts = judged_labels(label, declared, plain_text=False)
        positives, labels = int(np.count_nonzero(found)), len(found)
        if verdicts is not None and verdicts.any() and declared.on_invalid_label is OnInvalidLabel.RAISE:
            columns[declared.label] = _counted(verdicts)
    return Faults(absent, spoilt, columns, positives, labels)


def doubted(declared: Declared) -> Declared:
    """The part of a declaration that may be broken: all of it, or where records are repaired the labels alone."""
    if declared.on_invalid is OnInvalid.RAISE:
        return declared
    if declared.label is None or declared.on_invalid_label is OnInvalidLabel.DROP:
        return replace(declared, user=None, features={}, label=None)
    return replace(declared, features={})


def _counted(verdicts: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Counts:
    return {v: int(n) for v, n in enumerate(np.bincount(verdicts).tolist()) if n and v != Verdict.GOOD}
