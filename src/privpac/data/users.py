"""Users and their records: the only form in which learners see data.

:class:`UserData` is an immutable CSR table: user ``i`` owns records ``offsets[i]:offsets[i+1]``, each with a code per
bound feature and a 0/1 label.  Values are checked and encoded ("bound") once, at construction or by :meth:`bind`,
always before any budget is spent; learners repeat no check.  Its errors (``SchemaError``) are for the curator who
holds the table and lie outside the guarantee; with ``on_invalid="drop"`` or ``"clamp"`` nothing depends on the data
but the records themselves.  Empty tables, empty users and single users are ordinary.

A learner folds users into a profile with a :class:`Kernel`; :meth:`Users.fold` runs it in memory here, and in pieces
of whole users elsewhere.  ``repr`` shows the schema and no count: under add-remove even the number of users is private.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, Unpack

import numpy as np
import polars as pl
from attrs import evolve, field, frozen
from numpy.typing import ArrayLike, NDArray

from privpac.arrays import Array, Bools, Bytes, Words
from privpac.data.build import BuiltUsers, assemble, from_lists, matrix_columns
from privpac.data.check import DataCheck, ReadCountsKernel, result_of
from privpac.data.columns import column
from privpac.data.domains import Domain, read_column
from privpac.data.grouping import Offsets, compress, hash_ids, keep_first, keep_hash, take
from privpac.data.ids import id_column
from privpac.data.objects import OBJECTS
from privpac.data.readers import AS_USUAL, MISSING_TEXTS, CsvFormat, TablePath, read_files, read_frame
from privpac.data.schema import OnInvalid, OnInvalidLabel, Tally, tallied
from privpac.data.schema_file import TableFields, shows_fields, table_spec
from privpac.data.spec import NamedFeatures, TableSpec
from privpac.data.split import fresh_words, keyed_words, members, private_ids, read_key, read_shares
from privpac.display import Shown
from privpac.errors import IncompatibleGuarantees, ParameterError, SchemaError, did_you_mean
from privpac.exact import Rational, one_of, positive_int
from privpac.guarantee import Unit

_P = TypeVar("_P")
SALT = b"privpac"
_SHOWN = {"\0user": "users", "\0label": "y"}
"""What messages call the arrays."""


class Kernel(Protocol[_P]):
    """A sum over users: ``chunk`` of all users equals ``merge`` of the chunks of any split into whole users."""

    def zero(self) -> _P:
        """The value of no users."""

    def chunk(self, users: UserData) -> _P:
        """The value of some users."""

    def merge(self, a: _P, b: _P) -> _P:
        """The value of two disjoint groups of users together."""


class Users(Protocol):
    """What a learner may ask of a dataset, wherever it lives."""

    @property
    def features(self) -> Mapping[str, Domain | None]:
        """Column names with their domains, ``None`` while unbound."""

    @property
    def unit(self) -> Unit:
        """Whose data are protected: users, or single records."""

    @property
    def label_name(self) -> str | None:
        """The label's column, if it has a name: public schema."""

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> Users:
        """Check and encode columns."""

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> Users:
        """Keep at most ``cap`` records per user."""

    def fold(self, kernel: Kernel[_P]) -> _P:
        """The kernel's value over all users."""


def is_people(data: object) -> bool:
    """Whether these are users of an engine.  The class says so: columns of a pandas frame are its attributes, and a
    table may have a column ``fold`` and a column ``unit``."""
    return callable(getattr(type(data), "fold", None)) and hasattr(data, "unit")


def check_users(data: Users, unit: Unit) -> None:
    """Data of users, grouped as the learner's promise says."""
    if not is_people(data):
        raise TypeError(
            f"data must be UserData, got {type(data).__name__}; use UserData.from_frame(table, user=..., features=..., "
            "label=...)"
        )
    if data.unit != unit:
        raise IncompatibleGuarantees(
            f"the learner promises privacy per {unit} but the data are grouped per {data.unit}; "
            "name the user column when building UserData, or set unit='item' on purpose"
        )


@frozen(slots=False, eq=False, repr=False)
class UserData(Shown):
    """Records by user, in memory.

    Examples
    --------
    >>> data = UserData.from_users([[(3, 0), (8, 1)], [], [(5, 1)]])
    >>> data
    UserData(unit='user', features={'x': 'unbound'}, label=True)
    """

    offsets: Offsets
    codes: Mapping[str, Words]
    labels: Bytes | None
    features: Mapping[str, Domain | None]
    unit: Unit
    on_invalid: OnInvalid
    default_rule: str
    _raw: Mapping[str, pl.Series]
    _ids: pl.Series | None
    label_name: str | None = None
    _vocabularies: Mapping[str, pl.Series] = field(factory=dict)
    part_of_split: bool = False
    """A part of a split by ids that are not public: another person may have another id, hence belong elsewhere, so how
    many people a part holds is a secret under replace, too."""
    classes: tuple[str, ...] = ()
    """The labels, where they were declared as classes."""
    user_name: str | None = None
    """The column that says whose record it is: public schema."""
    _tally: Tally | None = None
    """What :meth:`check` says about the reading; ``None`` for a part of a table."""

    def __attrs_post_init__(self) -> None:
        for array in (self.offsets, *self.codes.values(), *(() if self.labels is None else (self.labels,))):
            array.setflags(write=False)
        for name in ("codes", "features", "_raw", "_vocabularies"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getstate__(self) -> dict[str, Any]:
        # Copies for worker processes: whoever has one has the records.  A view of a mapping cannot be pickled.
        return {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__attrs_post_init__()

    # Constructors

    @classmethod
    @shows_fields
    def from_frame(cls, frame: object, spec: TableSpec | None = None, **fields: Unpack[TableFields]) -> UserData:
        """From a pandas, polars, Arrow or DuckDB table.

        Parameters
        ----------
        frame : table
            Private; everything else is public.
        spec : TableSpec, optional
            The declaration in one value, in place of the keywords below.
        user : str or None
            The column of person ids; None makes every record its own user.
        features : mapping of names to domains, or names
            The columns that rules may read, with domains such as ``Integers(0, 110)``, ``(0, 110)``, ``["f", "m"]`` or
            ``"0:110"`` (the table in :mod:`privpac.data.spec`).  Named without a domain they have that of the schema.
        label : str, optional
            The column to predict: 0/1 or booleans, or any values with one of the next three.
        label_map, positive, classes
            What label values mean: ``{"dead": 1, "alive": 0}``; the value that means 1, the others mean 0; or all
            labels where there are more than two.
        on_invalid : {"raise", "drop", "clamp"}, optional
            What happens to a value outside its domain: "raise" (the default) refuses the table, "drop" leaves the
            record out, "clamp" moves a number to the nearest end; the last two move a number between the domain's
            points to the point below.  A missing value, and a text that is no number or no listed category, has no
            nearest end: "raise" refuses the table, the others leave the record out.  ``Missing(domain, "own")`` keeps
            missing values as a category of their own instead; ``Missing(domain, "drop")`` leaves their records out
            under "raise", too.  :meth:`check` says how many records that concerns.
        on_invalid_label : {"raise", "drop"}, optional
            What happens to a record whose label is missing or none of the named ones.
        missing : {"own", "drop", "raise"}, optional
            What missing values are, in every column that does not say so itself.
        schema : Schema or path, optional
            Says whatever is not said here.

        Returns
        -------
        UserData

        Raises
        ------
        ParameterError, SchemaError
            With column and count, never with a value.
        """
        said = table_spec(spec, fields)
        return cls.of_parts(assemble(read_frame(frame, said.wanted, said.user), said, whole=True), said)

    @classmethod
    @shows_fields
    def read(
        cls,
        path: TablePath,
        spec: TableSpec | None = None,
        *,
        missing_texts: Sequence[str] = MISSING_TEXTS,
        separator: str | None = None,
        header: bool | None = None,
        names: Sequence[str] | None = None,
        **fields: Unpack[TableFields],
    ) -> UserData:
        """From ``.parquet`` or ``.csv`` files, one, a glob or a list of them, declared as for :meth:`from_frame`.

        Of a CSV file ``missing_texts`` lists the fields that mean no value, ``separator`` is the character between
        fields (a comma unless said), and ``header=False`` says that its first line is a record, not the names of
        columns: then ``names`` has them, all and in order.  A first line that looks like a record is refused unless
        ``header=True``.
        """
        written = CsvFormat(separator, header, names)
        return cls.of_files(path, table_spec(spec, fields), written, missing_texts)

    @classmethod
    def of_files(
        cls,
        path: TablePath,
        spec: TableSpec,
        written: CsvFormat = AS_USUAL,
        missing: Sequence[str] = MISSING_TEXTS,
    ) -> UserData:
        """:meth:`read` of a table that is declared already."""
        table, plain_text = read_files(path, spec.wanted, missing, written)
        return cls.of_parts(assemble(table, spec, plain_text=plain_text, whole=True), spec)

    @classmethod
    def from_arrays(
        cls,
        X: object,
        y: object = None,
        users: object = None,
        spec: TableSpec | None = None,
        *,
        features: NamedFeatures | None = None,
        on_invalid: OnInvalid | str = OnInvalid.RAISE,
        on_invalid_label: OnInvalidLabel | str | None = None,
        label_map: Mapping[Any, int] | None = None,
        classes: Sequence[object] | None = None,
    ) -> UserData:
        """From an array (one row per record) or a frame of features, labels, and user ids (``None``: item level).

        A ``spec`` says all that the keywords say; ids and labels are the arrays, whatever columns it names.
        """
        columns = matrix_columns(X, features if spec is None else spec.features)
        named: NamedFeatures = features if isinstance(features, Mapping) else list(columns)
        user, label = ("\0user" if users is not None else None), ("\0label" if y is not None else None)
        if spec is None:
            labels: dict[str, Any] = {"label_map": label_map, "classes": classes, "on_invalid_label": on_invalid_label}
            spec = TableSpec(user, named, label, on_invalid, shown=_SHOWN, **labels)
        else:
            spec = evolve(spec, user=user, label=label, shown=_SHOWN)
        if user is not None:
            columns[user] = id_column(users, "users")
        if label is not None:
            columns[label] = column(y, "y")
        if len({len(values) for values in columns.values()}) > 1:
            raise SchemaError("X, y and users must have one row per record each; their lengths differ") from None
        return cls.of_parts(assemble(columns, spec), spec, "first")

    @classmethod
    def from_users(
        cls,
        users: Iterable[Iterable[object]],
        *,
        features: NamedFeatures | None = None,
        labelled: bool = True,
        on_invalid: OnInvalid | str = OnInvalid.RAISE,
        on_invalid_label: OnInvalidLabel | str | None = None,
        classes: Sequence[object] | None = None,
    ) -> UserData:
        """From a list of users, each a list of ``(x, y)`` or ``(x1, ..., xd, y)``; without labels ``x`` or ``(x1, ...,
        xd)``."""
        offsets, columns, label = from_lists(users, features, labelled)
        named: NamedFeatures = (
            features if isinstance(features, Mapping) else [name for name in columns if name != label]
        )
        labels: dict[str, Any] = {"classes": classes, "on_invalid_label": on_invalid_label}
        spec = TableSpec(None, named, label, on_invalid, shown=_SHOWN, **labels)
        return evolve(cls.of_parts(assemble(columns, spec, offsets=offsets), spec, "first"), unit=Unit.USER)

    @classmethod
    def of_parts(cls, parts: BuiltUsers, spec: TableSpec, rule: str = "hash") -> UserData:
        """From columns that were grouped and checked already; ``rule`` is the default of :meth:`max_records`."""
        data = cls(
            parts.offsets,
            parts.codes,
            parts.labels,
            {name: domain if name in parts.codes else None for name, domain in spec.features.items()},
            spec.unit,
            spec.on_invalid,
            rule,
            parts.raw,
            parts.ids,
            spec.predicted,
            parts.vocabularies,
            classes=spec.class_names,
            user_name=spec.user_name,
            tally=parts.tally,
        )
        return data if parts.keep is None else data._filter(parts.keep)

    # Schema

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name!r}: {'unbound' if domain is None else domain!r}" for name, domain in self.features.items()
        )
        return f"UserData(unit={str(self.unit)!r}, features={{{shown}}}, label={self.labels is not None})"

    def feature(self, name: str | None = None) -> str:
        """The name of a feature: the one asked for, or the only one."""
        if name is None:
            if len(self.features) != 1:
                raise ParameterError(
                    f"the data have {len(self.features)} features ({', '.join(map(repr, self.features))}): name one"
                )
            return next(iter(self.features))
        if name not in self.features:
            raise SchemaError(
                f"the data have no feature {name!r}; they have {', '.join(map(repr, self.features))}"
                f"{did_you_mean(name, self.features)}"
            ) from None
        return name

    def check_typed(self, names: Iterable[str]) -> None:
        """Refuse undeclared columns of Python objects for functions that read values: they have no type, and one
        guessed from everybody's values would let one person change how a function reads all others."""
        untyped = [name for name in names if name in self._raw and self._raw[name].dtype == OBJECTS]
        if untyped:
            raise SchemaError(
                f"columns {untyped} hold Python objects, which have no type, and have no domain; declare one, such as "
                f"features={{{untyped[0]!r}: Integers(0, 100)}}, so that everybody's values are read alike"
            ) from None

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> UserData:
        """Check and encode columns on their domains; a column bound before keeps its domain."""
        rule = self.on_invalid if on_invalid is None else one_of(OnInvalid, on_invalid, "on_invalid")
        for name, domain in domains.items():
            if not isinstance(domain, Domain):
                raise TypeError(
                    f"the domain of {name!r} must be a Domain such as Integers(0, 10), got {type(domain).__name__}"
                )
            bound = self.features[self.feature(name)]
            if bound is not None and bound != domain:
                raise ParameterError(f"column {name!r} is declared twice: as {bound!r} and as {domain!r}; keep one")
        fresh = {name: domain for name, domain in domains.items() if self.features[name] is None}
        if not fresh:
            return self
        codes, vocabularies, keep = dict(self.codes), dict(self._vocabularies), None
        with tallied() as met:
            for name, domain in fresh.items():
                (codes[name], verdicts), vocabulary = read_column(domain, self._raw[name], name)
                if vocabulary is not None:
                    vocabularies[name] = vocabulary
                good = domain.accept(verdicts, rule, name)
                keep = good if keep is None else keep if good is None else keep & good
        data = evolve(
            self,
            codes=codes,
            features={**self.features, **fresh},
            raw={name: series for name, series in self._raw.items() if name not in fresh},
            vocabularies=vocabularies,
            tally=None if self._tally is None else self._tally.merge(met),
        )
        return data if keep is None else data._filter(keep)

    def check(self, max_records: int | None = None) -> DataCheck:
        """How many records and people were read, kept, repaired and dropped, by column and reason.

        For the curator's eyes only: these counts are private and no promise covers them.  They are not stored, and
        nothing that is released depends on them.

        Parameters
        ----------
        max_records : int, optional
            A cap that will be declared, to count the people with more records.

        Returns
        -------
        DataCheck
            ``print`` shows it, ``to_frame()`` gives columns and reasons as a table, ``warnings`` what to look at.
        """
        return result_of(self.fold(ReadCountsKernel()), self, max_records)

    @property
    def unbound(self) -> Mapping[str, pl.Series]:
        """The columns without a domain yet, grouped by user."""
        return self._raw

    # ReadCounts: private under add-remove, for kernels and never for messages

    @property
    def n_users(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_records(self) -> int:
        return int(self.offsets[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records of each user."""
        return np.diff(self.offsets)

    def vocabulary(self, name: str) -> pl.Series | None:
        """The texts that the codes of an open column index, ``None`` for a declared domain."""
        return self._vocabularies.get(name)

    # Subsets of users and records

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> UserData:
        """At most ``cap`` records of each user: ``"hash"`` (default for tables) or ``"first"`` (for arrays and lists).

        The hash reads bound features only; unbound columns are left out of its result.
        """
        cap = positive_int(cap, "cap")
        rule = self.default_rule if rule is None else rule
        if rule not in ("hash", "first"):
            raise ParameterError(f"rule must be 'hash' or 'first', got {rule!r}")
        if not isinstance(salt, bytes):
            raise TypeError(f"salt must be bytes, got {type(salt).__name__}")
        if rule == "first":
            return evolve(self, tally=None)._filter(keep_first(self.offsets, cap))
        if not self.codes:
            raise ParameterError(
                "rule 'hash' reads codes: bind the features to their domains first, or use rule='first'"
            )
        if self.unit is Unit.ITEM:
            return self  # every user is one record
        if self._ids is None:
            # Positions are no ids: removing one user would move the others and change what they keep.
            raise ParameterError("rule 'hash' needs user ids, and these data have none; use rule='first'")
        ids = self._ids
        labels = np.full(self.n_records, 2, np.uint8) if self.labels is None else self.labels
        words: list[Array] = [*(self._words(name) for name in sorted(self.codes)), labels]
        named = {n: d for n, d in self.features.items() if n in self.codes}
        bound = evolve(self, features=named, raw={}, tally=None)
        return bound._filter(keep_hash(self.offsets, cap, hash_ids(ids), words, salt))

    def _words(self, name: str) -> Words:
        """What the hash reads of a column: its codes; of an open vocabulary, whose codes depend on all users, the
        texts' own hashes."""
        vocabulary = self._vocabularies.get(name)
        return self.codes[name] if vocabulary is None else take(hash_ids(vocabulary), self.codes[name])

    def take(self, users: ArrayLike) -> UserData:
        """The users at these positions, or where a mask is true."""
        chosen = np.asarray(users)
        if chosen.dtype == np.bool_ and chosen.shape == (self.n_users,):
            # Rows stay in order, so that columns are filtered, not gathered.
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes[chosen])])
            ids = None if self._ids is None else self._ids.filter(pl.Series(chosen))
            return evolve(self._filter(np.repeat(chosen, self.sizes)), offsets=offsets, ids=ids, tally=None)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise TypeError("users must be positions, or a mask with one entry per user")
        chosen = chosen.astype(np.int64)
        sizes = self.sizes[chosen]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return evolve(
            self,
            offsets=offsets,
            codes={name: take(values, rows) for name, values in self.codes.items()},
            labels=None if self.labels is None else take(self.labels, rows),
            raw={name: series.gather(rows) for name, series in self._raw.items()},
            ids=None if self._ids is None else self._ids.gather(chosen),
            tally=None,
        )

    def split(
        self, shares: Mapping[str, Rational], *, key: bytes | None = None, ids: str = "private"
    ) -> dict[str, UserData]:
        """Disjoint people for different purposes: ``data.split({"learn": "4/5", "evaluate": "1/5"})``.

        A person's part depends on a keyed hash of who they are and on nothing else.  The key is drawn afresh unless
        given (16 bytes or more); people without ids (lists, item level) get coins of their own.  Under add-remove,
        releases on different parts cost the largest of their prices, not the sum.  Under replace a person may be
        replaced by one of another part, which changes how many people either holds: learners that promise replace
        refuse such parts, unless ``ids="public"`` declares that ids are known to all and fixed.
        """
        ranges, secret, moving = read_shares(shares), read_key(key), private_ids(ids)
        if self._ids is None and key is not None:
            raise ParameterError(
                "these data have no user ids to hash: leave out the key, and people are dealt by chance"
            )
        words = fresh_words(self.n_users) if self._ids is None else keyed_words(self._ids, secret)
        parts = {name: self.take(members(words, part)) for name, part in ranges.items()}
        return {name: evolve(part, part_of_split=self.part_of_split or moving) for name, part in parts.items()}

    def part(self, key: bytes, low: int, high: int, moving: bool) -> UserData:
        """The people whose keyed hash is at least ``low`` and below ``high``."""
        if self._ids is None:
            raise ParameterError("these data have no user ids to hash; read them into memory to split them by chance")
        chosen = self.take(members(keyed_words(self._ids, key), (low, high)))
        return evolve(chosen, part_of_split=self.part_of_split or moving)

    def _filter(self, keep: Bools) -> UserData:
        """Drop records, keep users."""
        if keep.all():
            return self
        mask = pl.Series(keep)
        return evolve(
            self,
            offsets=compress(self.offsets, keep),
            codes={name: values[keep] for name, values in self.codes.items()},
            labels=None if self.labels is None else self.labels[keep],
            raw={name: series.filter(mask) for name, series in self._raw.items()},
        )

    # Folding

    def fold(self, kernel: Kernel[_P]) -> _P:
        """The kernel's value over all users, here in one piece."""
        return kernel.chunk(self)

    def to_lists(self) -> list[list[tuple[int, ...]]]:
        """Bound codes, in the order of the features, and the label, user by user; for small data."""
        columns: list[Array] = [self.codes[name] for name in self.features if name in self.codes]
        columns += [] if self.labels is None else [self.labels]
        records = list(zip(*(values.tolist() for values in columns))) if columns else []
        return [records[a:b] for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist())]
