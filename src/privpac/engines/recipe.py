"""What is done to every chunk: the declaration, then the steps asked for since, by the code that serves tables in
memory.

A :class:`Recipe` holds public things only, so it may travel to a cluster.  Beside it lives a *sample of no rows*: a
``UserData`` without records that has gone through the same steps.  It answers for the schema (features, unit, label)
and refuses bad parameters and column types at the moment they are asked for, before any row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import polars as pl

from privpac.data.build import Declared, assemble
from privpac.data.domains import Domain
from privpac.data.schema import OnInvalid
from privpac.data.split import private_ids, read_key, read_shares
from privpac.data.users import SALT, Kernel, UserData
from privpac.engines.faults import Faults, faults_of
from privpac.engines.lanes import in_lanes
from privpac.exact import Rational
from privpac.guarantee import Unit, one_of

__all__ = ["Chunk", "Recipe", "RecipeUsers", "Summary", "fold_chunks"]

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
