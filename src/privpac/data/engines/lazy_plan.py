"""What is done to every chunk: the declaration, then the steps asked for since, by the code that serves tables in
memory.

A :class:`Recipe` holds public things only, so it may travel to a cluster.  Beside it lives a *sample of no rows*: a
``UserData`` without records that has gone through the same steps.  It answers for the schema (features, unit, label)
and refuses bad parameters and column types at the moment they are asked for, before any row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl

from privpac.data.build import Declared, assemble, check_positive, invalid_labels, judged_labels
from privpac.data.domains import Domain, read_column
from privpac.data.engines.files import in_lanes
from privpac.data.ids import SPOILT, as_ids
from privpac.data.schema import OnInvalid, OnInvalidLabel, Verdict, broken
from privpac.data.split import private_ids, read_key, read_shares
from privpac.data.users import SALT, Kernel, UserData
from privpac.errors import SchemaError
from privpac.exact import Rational
from privpac.guarantee import Unit, one_of

__all__ = [
    "Chunk",
    "Faults",
    "Recipe",
    "RecipeUsers",
    "Summary",
    "doubted",
    "faults_of",
    "fold_chunks",
]


# Broken values, counted batch by batch and told once.
#
# In memory a column is judged as a whole.  Here verdicts are counted in each batch and added up; the error then names
# the same column, rules and counts as in memory, and nothing else.  Only ``on_invalid="raise"`` needs the count of ids
# and features: the other rules look at one record at a time.  Labels are counted unless their records may be dropped.


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


P = TypeVar("P")
Chunk = pl.DataFrame | UserData
"""Whole users: their rows, or grouped already."""


@dataclass(frozen=True)
class _Bind:
    domains: tuple[tuple[str, Domain], ...]
    on_invalid: OnInvalid | None

    def __call__(self, users: UserData) -> UserData:
        return users.bind(dict(self.domains), self.on_invalid)


@dataclass(frozen=True)
class _Cap:
    cap: int
    rule: str | None
    salt: bytes

    def __call__(self, users: UserData) -> UserData:
        return users.max_records(self.cap, self.rule, self.salt)


@dataclass(frozen=True)
class _Part:
    key: bytes
    low: int
    high: int
    moving: bool

    def __call__(self, users: UserData) -> UserData:
        return users.part(self.key, self.low, self.high, self.moving)


@dataclass(frozen=True)
class Recipe:
    """From columns of whole users to bound users."""

    declared: Declared
    steps: tuple[_Bind | _Cap | _Part, ...] = ()

    def build(self, chunk: Chunk, *, whole: bool = False) -> UserData:
        """Bound users of a chunk; ``whole`` says that it is all there is."""
        users = chunk if isinstance(chunk, UserData) else self._grouped(chunk, whole)
        for step in self.steps:
            users = step(users)
        return users

    def _grouped(self, table: pl.DataFrame, whole: bool) -> UserData:
        columns = {name: table.get_column(name) for name in self.declared.wanted}
        return UserData.of_parts(assemble(columns, self.declared, whole=whole), self.declared)


class RecipeUsers:
    """What the engines share: schema, ``bind`` and ``max_records`` on the sample of no rows.  Subclasses read the
    rows."""

    def __init__(self, recipe: Recipe, sample: UserData) -> None:
        self._recipe, self._sample = recipe, sample

    @staticmethod
    def start(declared: Declared, schema: Mapping[str, Any]) -> tuple[Recipe, UserData]:
        """A recipe without steps, and its sample of no rows for columns of these polars types."""
        recipe = Recipe(declared)
        return recipe, recipe.build(pl.DataFrame(schema={name: schema[name] for name in declared.wanted}))

    # Schema

    @property
    def features(self) -> Mapping[str, Domain | None]:
        return self._sample.features

    @property
    def unit(self) -> Unit:
        return self._sample.unit

    @property
    def label_name(self) -> str | None:
        return self._sample.label_name

    @property
    def on_invalid(self) -> OnInvalid:
        return self._sample.on_invalid

    @property
    def part_of_split(self) -> bool:
        return self._sample.part_of_split

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, where they were declared as classes."""
        return self._sample.classes

    @property
    def labels(self) -> Any:
        """``None`` if no label column was named; the labels themselves stay in the chunks."""
        return self._sample.labels

    def __repr__(self) -> str:
        return repr(self._sample).replace("UserData", type(self).__name__, 1)

    # Steps

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> Any:
        """Check columns on their domains by one pass over them, and encode them in every later chunk."""
        rule = None if on_invalid is None else one_of(OnInvalid, on_invalid, "on_invalid")
        sample = self._sample.bind(domains, rule)
        fresh = {name: domain for name, domain in domains.items() if self._sample.features[name] is None}
        if not fresh:
            return self
        if (self._recipe.declared.on_invalid if rule is None else rule) is OnInvalid.RAISE:
            # Folded like anything else: records that earlier steps have dropped are not judged, as in memory.
            checked = replace(self._recipe.declared, user=None, features=fresh, label=None, on_invalid=OnInvalid.RAISE)
            self.fold(_RawFaults(checked)).report(checked)
        return self._with(replace(self._recipe, steps=(*self._recipe.steps, _Bind(tuple(fresh.items()), rule))), sample)

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> Any:
        """Keep at most ``cap`` records per user: the same ones as in memory, since each chunk holds whole users."""
        sample = self._sample.max_records(cap, rule, salt)
        return self._with(replace(self._recipe, steps=(*self._recipe.steps, _Cap(cap, rule, salt))), sample)

    def split(
        self, shares: Mapping[str, Rational], *, key: bytes | None = None, ids: str = "private"
    ) -> dict[str, Any]:
        """Disjoint parts of the users, the same as in memory for the same key."""
        secret, parts, moving = read_key(key), read_shares(shares), private_ids(ids)
        return {name: self._part(_Part(secret, low, high, moving)) for name, (low, high) in parts.items()}

    def _part(self, step: _Part) -> Any:
        return self._with(replace(self._recipe, steps=(*self._recipe.steps, step)), step(self._sample))

    def _with(self, recipe: Recipe, sample: UserData) -> Any:
        raise NotImplementedError

    def fold(self, kernel: Kernel[P]) -> P:
        """The kernel's value over all users, chunk by chunk."""
        raise NotImplementedError


@dataclass(frozen=True)
class _RawFaults:
    """Broken values of columns that are not bound yet."""

    declared: Declared

    def zero(self) -> Faults:
        return Faults()

    def chunk(self, users: UserData) -> Faults:
        return faults_of({name: users.unbound[name] for name in self.declared.features}, self.declared)

    def merge(self, a: Faults, b: Faults) -> Faults:
        return a.merge(b)


# Folding


class Summary(Generic[P]):
    """A running merge in pairs of equal weight: every part is merged about log2(chunks) times, however many chunks
    there are."""

    def __init__(self, kernel: Kernel[P]) -> None:
        self._kernel = kernel
        self._parts: list[tuple[int, P]] = []

    def add(self, part: P) -> None:
        weight = 1
        while self._parts and self._parts[-1][0] == weight:
            _, other = self._parts.pop()
            part, weight = self._kernel.merge(other, part), 2 * weight
        self._parts.append((weight, part))

    def total(self) -> P:
        if not self._parts:
            return self._kernel.zero()
        *rest, (_, found) = self._parts
        for _, part in reversed(rest):
            found = self._kernel.merge(part, found)
        return found

    def __bool__(self) -> bool:
        return bool(self._parts)


def fold_chunks(kernel: Kernel[P], recipe: Recipe, chunks: Iterable[Chunk], lanes: int = 1) -> Summary[P]:
    """The kernel over chunks of whole users, ``lanes`` of them at a time; parts are merged in the order of the
    chunks."""
    summary = Summary(kernel)
    for part in in_lanes(lambda chunk: kernel.chunk(recipe.build(chunk)), chunks, lanes):
        summary.add(part)
    return summary
