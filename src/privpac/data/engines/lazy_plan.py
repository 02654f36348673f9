"""What is done to every chunk: the declaration, then the steps asked for since, by the code that serves tables in
memory.

A :class:`Recipe` holds public things only, so it may travel to a cluster.  Beside it lives a *sample of no rows*: a
``UserData`` without records that has gone through the same steps.  It answers for the schema (features, unit, label)
and refuses bad parameters and column types at the moment they are asked for, before any row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, Generic, Self, TypeVar

import numpy as np
import polars as pl
from attrs import evolve, field, frozen

from privpac.arrays import Bytes
from privpac.data.build import assemble, check_positive, invalid_labels, judged_labels
from privpac.data.check import PART, DataCheck, ReadCounts, ReadCountsKernel, result_of
from privpac.data.domains import Domain, read_column
from privpac.data.engines.files import CHANGED, in_lanes
from privpac.data.ids import SPOILT, as_ids
from privpac.data.schema import OnInvalid, OnInvalidLabel, Verdict, accept_ids, broken, tallied
from privpac.data.spec import TableSpec
from privpac.data.split import private_ids, read_key, read_shares
from privpac.data.users import SALT, Kernel, UserData
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.exact import Rational
from privpac.guarantee import Unit, one_of

# Broken values, counted batch by batch and told once.
#
# In memory a column is judged as a whole.  Here verdicts are counted in each batch and added up; the error then names
# the same column, rules and counts as in memory, and nothing else.  Only ``on_invalid="raise"`` needs the count of ids
# and features: the other rules look at one record at a time.  Labels are counted unless their records may be dropped.


VerdictCounts = dict[int, int]


@frozen(slots=False)
class Faults:
    """Missing and spoilt ids, for each column how many values got which bad verdict, and how many labels there are and
    are not 0."""

    absent: int = 0
    spoilt: int = 0
    columns: Mapping[str, VerdictCounts] = field(factory=dict)
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

    def report(self, spec: TableSpec) -> None:
        """Raise what ``UserData`` would raise: ids first, then features in declared order, then labels."""
        if self.absent or self.spoilt:
            rules = {"are missing": self.absent, SPOILT: self.spoilt}
            found = ", ".join(f"{count} user ids {rule}" for rule, count in rules.items() if count)
            raise SchemaError(
                f"column {spec.user!r}: {found}; such a record belongs to nobody: correct the ids or choose "
                "on_invalid='drop'"
            ) from None
        for name, domain in spec.features.items():
            if domain is not None and self.columns.get(name):
                raise broken(name, self.columns[name], domain.words(), domain.describe())
        if spec.label is not None and self.columns.get(spec.label):
            raise invalid_labels(spec, self.columns[spec.label])
        check_positive(spec, self.positives, self.labels)


def faults_of(table: Mapping[str, pl.Series], spec: TableSpec) -> Faults:
    """The faults of a batch in the declared columns that it has: those of labels under every ``on_invalid``, others
    where it raises."""
    strict = spec.on_invalid is OnInvalid.RAISE
    absent = spoilt = positives = labels = 0
    columns: dict[str, VerdictCounts] = {}
    label = None if spec.label is None else table.get(spec.label)
    if spec.user is not None and spec.user in table:
        _, missing, lossy = as_ids(table[spec.user], spec.user)
        masks = [mask for mask in (missing, lossy) if mask is not None]
        if strict:
            absent, spoilt = (0 if mask is None else int(mask.sum()) for mask in (missing, lossy))
        elif label is not None and masks:  # the record is dropped before its label is read
            label = label.filter(pl.Series(~np.logical_or.reduce(masks)))
    for name, domain in spec.features.items() if strict else ():
        if domain is not None and name in table and not domain.holds(table[name]):
            (_, verdicts), _ = read_column(domain, table[name], name)
            judged = None if verdicts is None else domain.judged(verdicts)
            if judged is not None and judged.any():
                columns[name] = _counted(judged)
    if spec.label is not None and label is not None:
        found, verdicts = judged_labels(label, spec, plain_text=False)
        positives, labels = int(np.count_nonzero(found)), len(found)
        if verdicts is not None and verdicts.any() and spec.on_invalid_label is OnInvalidLabel.RAISE:
            columns[spec.label] = _counted(verdicts)
    return Faults(absent, spoilt, columns, positives, labels)


def doubted(spec: TableSpec) -> TableSpec:
    """The part of a declaration that may be broken: all of it, or where records are repaired the labels alone."""
    if spec.on_invalid is OnInvalid.RAISE:
        return spec
    if spec.label is None or spec.on_invalid_label is OnInvalidLabel.DROP:
        return spec.only(())
    return spec.only(name for name in (spec.user, spec.label) if name is not None)


def _counted(verdicts: Bytes) -> VerdictCounts:
    return {v: int(n) for v, n in enumerate(np.bincount(verdicts).tolist()) if n and v != Verdict.GOOD}


_P = TypeVar("_P")
Chunk = pl.DataFrame | UserData
"""Whole users: their rows, or grouped already."""


PlanStep = Callable[[UserData], UserData]
"""A method of ``UserData`` with its parameters, which are public; it may travel to a cluster."""


@frozen(slots=False)
class Recipe:
    """From columns of whole users to bound users."""

    spec: TableSpec
    steps: tuple[PlanStep, ...] = ()

    def build(self, chunk: Chunk, *, whole: bool = False) -> UserData:
        """Bound users of a chunk; ``whole`` says that it is all there is."""
        users = chunk if isinstance(chunk, UserData) else self._grouped(chunk, whole)
        for step in self.steps:
            users = step(users)
        return users

    def _grouped(self, table: pl.DataFrame, whole: bool) -> UserData:
        columns = {name: table.get_column(name) for name in self.spec.wanted}
        return UserData.of_parts(assemble(columns, self.spec, whole=whole), self.spec)


class RecipeUsers:
    """What the engines share: schema, ``bind`` and ``max_records`` on the sample of no rows.  Subclasses read the
    rows."""

    def __init__(self, recipe: Recipe, sample: UserData) -> None:
        self._recipe, self._sample = recipe, sample

    @staticmethod
    def start(spec: TableSpec, schema: Mapping[str, Any]) -> tuple[Recipe, UserData]:
        """A recipe without steps, and its sample of no rows for columns of these polars types."""
        recipe = Recipe(spec)
        return recipe, recipe.build(pl.DataFrame(schema={name: schema[name] for name in spec.wanted}))

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
    def user_name(self) -> str | None:
        return self._sample.user_name

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
    def labels(self) -> Bytes | None:
        """``None`` if no label column was named; the labels themselves stay in the chunks."""
        return self._sample.labels

    def __repr__(self) -> str:
        return repr(self._sample).replace("UserData", type(self).__name__, 1)

    # Steps

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> Self:
        """Check columns on their domains by one pass over them, and encode them in every later chunk."""
        rule = None if on_invalid is None else one_of(OnInvalid, on_invalid, "on_invalid")
        sample = self._sample.bind(domains, rule)
        fresh = {name: domain for name, domain in domains.items() if self._sample.features[name] is None}
        if not fresh:
            return self
        if (self._recipe.spec.on_invalid if rule is None else rule) is OnInvalid.RAISE:
            # Folded like anything else: records that earlier steps have dropped are not judged, as in memory.
            checked = TableSpec(None, fresh)
            self.fold(RawFaults(checked)).report(checked)
        return self._with(partial(UserData.bind, domains=fresh, on_invalid=rule), sample)

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> Self:
        """Keep at most ``cap`` records per user: the same ones as in memory, since each chunk holds whole users."""
        step = partial(UserData.max_records, cap=cap, rule=rule, salt=salt)
        return self._with(step, step(self._sample))

    def split(
        self, shares: Mapping[str, Rational], *, key: bytes | None = None, ids: str = "private"
    ) -> dict[str, Self]:
        """Disjoint parts of the users, the same as in memory for the same key."""
        secret, parts, moving = read_key(key), read_shares(shares), private_ids(ids)
        steps = {
            name: partial(UserData.part, key=secret, low=low, high=high, moving=moving)
            for name, (low, high) in parts.items()
        }
        return {name: self._with(step, step(self._sample)) for name, step in steps.items()}

    def _with(self, step: PlanStep, sample: UserData) -> Self:
        users = copy(self)
        users._recipe, users._sample = evolve(self._recipe, steps=(*self._recipe.steps, step)), sample
        return users

    def fold(self, kernel: Kernel[_P]) -> _P:
        """The kernel's value over all users."""
        raise NotImplementedError


class ChunkedUsers(RecipeUsers):
    """Users whose rows this process reads piece by piece.

    An engine says how: :meth:`batches` gives all rows in any order, :meth:`chunks` whole users.  Its constructor finds
    the types of the columns, and calls :meth:`judge` so that a bad table is refused before anything is spent.
    """

    lanes: int = 1
    """Chunks in work at the same time."""
    rows: int | None = None
    """How many rows there are, if that is known."""

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """All rows of some columns, in any order."""
        raise NotImplementedError

    def chunks(self) -> Iterator[Chunk]:
        """The same rows as whole users, with all columns that are wanted."""
        raise NotImplementedError

    def judge(self) -> None:
        """Raise what ``UserData`` would raise on these rows."""
        faults, spec = Faults(), doubted(self._recipe.spec)
        for batch in self.batches(self._recipe.spec.wanted):
            faults = faults.merge(faults_of({name: batch.get_column(name) for name in spec.wanted}, spec))
        faults.report(self._recipe.spec)

    def fold(self, kernel: Kernel[_P]) -> _P:
        """The kernel's value over all users, chunk by chunk."""
        with suppress(SchemaError):
            return fold_chunks(kernel, self._recipe, self.chunks(), self.lanes).total()
        # All rows were good when they were checked.  What is wrong now is not told: the budget may be spent already.
        raise EngineError(CHANGED) from None

    def check(self, max_records: int | None = None) -> DataCheck:
        """How many records and people were read, kept, repaired and dropped: for the curator, as in memory."""
        return result_of(self.counts(), self._sample, max_records)

    def counts(self) -> ReadCounts:
        """What :meth:`check` shows; private.  Rows of nobody, which are in no chunk, are counted by their ids."""
        if self._sample._tally is None:
            raise ParameterError(PART)
        counts, spec, rows = self.fold(ReadCountsKernel()), self._recipe.spec, 0
        if spec.user is None or (self.rows is not None and counts.tally.records >= self.rows):
            return counts
        with tallied(lenient=spec.counted) as nobody:
            for batch in self.batches([spec.user]):
                rows += len(batch)
                _, absent, spoilt = as_ids(batch.get_column(spec.user), spec.user)
                accept_ids(spec.user, absent, spoilt, SPOILT, spec.on_invalid)
        nobody.records = sum(nobody.faults.values())
        return evolve(counts, tally=counts.tally.merge(nobody)) if counts.tally.records < rows else counts


@frozen(slots=False)
class RawFaults:
    """Broken values of columns that are not bound yet."""

    spec: TableSpec

    def zero(self) -> Faults:
        return Faults()

    def chunk(self, users: UserData) -> Faults:
        return faults_of({name: users.unbound[name] for name in self.spec.features}, self.spec)

    def merge(self, a: Faults, b: Faults) -> Faults:
        return a.merge(b)


# Folding


class Summary(Generic[_P]):
    """A running merge in pairs of equal weight: every part is merged about log2(chunks) times, however many chunks
    there are."""

    def __init__(self, kernel: Kernel[_P]) -> None:
        self._kernel = kernel
        self._parts: list[tuple[int, _P]] = []

    def add(self, part: _P) -> None:
        weight = 1
        while self._parts and self._parts[-1][0] == weight:
            _, other = self._parts.pop()
            part, weight = self._kernel.merge(other, part), 2 * weight
        self._parts.append((weight, part))

    def total(self) -> _P:
        if not self._parts:
            return self._kernel.zero()
        *rest, (_, found) = self._parts
        for _, part in reversed(rest):
            found = self._kernel.merge(part, found)
        return found

    def __bool__(self) -> bool:
        return bool(self._parts)


def fold_chunks(kernel: Kernel[_P], recipe: Recipe, chunks: Iterable[Chunk], lanes: int = 1) -> Summary[_P]:
    """The kernel over chunks of whole users, ``lanes`` of them at a time; parts are merged in the order of the
    chunks."""
    summary = Summary(kernel)
    for part in in_lanes(lambda chunk: kernel.chunk(recipe.build(chunk)), chunks, lanes):
        summary.add(part)
    return summary
