"""What became of a table when it was read: a look for the curator, before anything is spent.

``people.check()``, ``pp.check(table, ...)`` and ``privpac check TABLE`` show how many records and people were read,
kept, repaired and dropped, by column and reason.  These counts come from the verdicts that reading itself acts on
(:func:`privpac.data.schema.accept`), not from a second look at the values.

Nothing here is differentially private.  A :class:`DataCheck` is shown to whoever holds the table: it cannot be saved or
pickled, its ``repr`` holds no count, and no learner, result, report or log reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import polars as pl
from attrs import asdict, evolve, field, frozen

from privpac.data.domains import Domain, in_one_line
from privpac.data.schema import OF_IDS, Fault, Tally, Verdict
from privpac.display import Shown
from privpac.errors import ParameterError
from privpac.guarantee import positive_int

if TYPE_CHECKING:
    from privpac.data.users import UserData

NOTICE = (
    "for the curator only: these counts are not protected. Correct mistakes of the table or of its declaration with "
    "them; do not publish or keep them, and do not choose domains, rules or budgets by them"
)
MUCH = 0.05
"""The share of lost records or people from which on a warning is due."""
PART = "only a whole table can be checked: call check before split, take or max_records"


@frozen
class ColumnFault:
    """Records of one column that broke one rule: ``dropped``, ``repaired``, or ``refused`` with the whole table."""

    column: str
    reason: str
    records: int
    what: str


@frozen
class LabelCount:
    """Records with one label: as the table writes it if ``read_as`` says what that means, else as it was read."""

    label: str
    records: int
    read_as: str | None = None


@frozen(repr=False, str=False, eq=False)
class DataCheck(Shown):
    """What became of a table when it was read; see the module's docstring.

    >>> from privpac.data import Integers, UserData
    >>> table = pl.DataFrame({"who": [1, 1, 2], "age": [30, None, 200], "ill": [0, 1, 1]})
    >>> age = {"age": Integers(0, 99)}
    >>> people = UserData.from_frame(table, user="who", label="ill", features=age, on_invalid="clamp")
    >>> found = people.check()
    >>> found.lost_records, found.lost_people, [(f.column, f.what, f.records) for f in found.columns]
    (1, 0, [('age', 'dropped', 1), ('age', 'repaired', 1)])
    """

    records_read: int
    records_kept: int
    people_read: int
    people_kept: int
    columns: tuple[ColumnFault, ...]
    labels: tuple[LabelCount, ...]
    records_per_person: Mapping[str, int]
    """``min``, ``q1``, ``median``, ``q3`` and ``max`` of the kept records of the people who have any."""
    max_records: int | None
    people_over_cap: int | None
    """People with more kept records than ``max_records``, where that was declared."""
    unchecked: tuple[str, ...]
    """Columns without a domain, in which every value counts as good."""
    warnings: tuple[str, ...]

    @property
    def lost_records(self) -> int:
        return self.records_read - self.records_kept

    @property
    def lost_people(self) -> int:
        """People none of whose records was kept."""
        return self.people_read - self.people_kept

    @property
    def notice(self) -> str:
        return NOTICE

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a program that shows them to the curator."""
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        found["labels"] = [
            {name: value for name, value in label.items() if name != "read_as" or value is not None}
            for label in found["labels"]
        ]
        return {"notice": NOTICE, **found}

    def to_frame(self) -> pl.DataFrame:
        """A row for each column and reason: records, and their share of all that were read."""
        schema = {"column": pl.String, "what": pl.String, "reason": pl.String, "records": pl.Int64, "share": pl.Float64}
        rows = [(f.column, f.what, f.reason, f.records, f.records / max(1, self.records_read)) for f in self.columns]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def lines(self) -> list[str]:
        """What ``print`` shows, without the warnings."""
        rows = [("", "read", "kept", "lost")]
        for name, read, kept in (
            ("records", self.records_read, self.records_kept),
            ("people", self.people_read, self.people_kept),
        ):
            rows.append((name, f"{read:,}", f"{kept:,}", _of(read - kept, read)))
        lines = _aligned(rows)
        if self.records_per_person:
            each = self.records_per_person
            lines.append(
                f"records per person: {each['min']:,} at least, {each['q1']:,} / {each['median']:,} / {each['q3']:,} "
                f"(quartiles), {each['max']:,} at most"
            )
        if self.people_over_cap is not None:
            lines.append(f"people with more than max_records = {self.max_records:,}: {self.people_over_cap:,}")
        if self.labels:
            named = [(found.label, f"{found.records:,}", found.read_as or found.label) for found in self.labels]
            lines += ["", *_aligned([("label", "records", "read as"), *named])]
        if self.columns:
            rows = [("column", "records", "", "reason")]
            rows += [(f.column, _of(f.records, self.records_read), f.what, f.reason) for f in self.columns]
            lines += ["", *_aligned(rows)]
        if self.unchecked:
            lines += ["", f"not checked, because no domain is declared: {', '.join(self.unchecked)}"]
        return lines

    def __str__(self) -> str:
        return "\n".join([NOTICE, "", *self.lines(), *(f"warning: {line}" for line in self.warnings)])

    def __repr__(self) -> str:
        return "DataCheck(for the curator only: print it)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DataCheck is for the curator's eyes and is not stored; run the check again")


def _of(part: int, whole: int) -> str:
    return f"{part:,} ({_percent(part / whole)})" if part and whole else f"{part:,}"


def _percent(share: float) -> str:
    """At most two significant digits.

    >>> _percent(0.2876), _percent(0.0001), _percent(1)
    ('29 %', '0.01 %', '100 %')
    """
    return "100 %" if share >= 0.995 else f"{100 * share:.2g} %"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Texts to the left, further cells that begin with a digit to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def cell(place: int, text: str) -> str:
        return text.rjust(widths[place]) if place and text[:1].isdigit() else text.ljust(widths[place])

    return ["  ".join(cell(place, text) for place, text in enumerate(row)).rstrip() for row in rows]


# Counting, in memory or chunk by chunk


@frozen(slots=False)
class ReadCounts:
    """Sums over whole users."""

    tally: Tally = field(factory=Tally)
    sizes: Counter[int] = field(factory=Counter)
    """How many people have so many kept records."""
    labels: Counter[int] = field(factory=Counter)


class ReadCountsKernel:
    """Adds up what reading has counted."""

    def zero(self) -> ReadCounts:
        return ReadCounts()

    def chunk(self, users: UserData) -> ReadCounts:
        if users._tally is None:
            raise ParameterError(PART)
        sizes, people = np.unique(users.sizes, return_counts=True)
        labels = [] if users.labels is None else np.bincount(users.labels).tolist()
        return ReadCounts(
            users._tally,
            Counter(dict(zip(sizes.tolist(), people.tolist()))),
            Counter({code: count for code, count in enumerate(labels) if count}),
        )

    def merge(self, a: ReadCounts, b: ReadCounts) -> ReadCounts:
        return ReadCounts(a.tally.merge(b.tally), a.sizes + b.sizes, a.labels + b.labels)


class DeclaredColumns(Protocol):
    """What a table's people say about its columns, in memory or not."""

    @property
    def features(self) -> Mapping[str, Domain | None]: ...
    @property
    def labels(self) -> Any: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def label_name(self) -> str | None: ...


def result_of(
    counts: ReadCounts,
    schema: DeclaredColumns,
    max_records: int | None = None,
    *,
    user: str | None = None,
    problems: Sequence[Fault] = (),
    labels: tuple[LabelCount, ...] | None = None,
) -> DataCheck:
    """The check of a table with these counts.

    ``problems`` are columns that cannot be read at all, so that no record counts (and nobody is known if it is the
    column ``user``); ``labels`` what the label column says, where somebody has looked.
    """
    cap = None if max_records is None else positive_int(max_records, "max_records")
    tally, columns = counts.tally, {name: place for place, name in enumerate(schema.features)}

    def place(fault: Fault) -> tuple[int, int]:
        """Ids first, then columns as they are declared, then labels."""
        return -1 if fault.reason.startswith(OF_IDS) else columns.get(fault.column, len(columns)), fault.verdict

    met = {fault: tally.faults[fault] for fault in sorted(tally.faults, key=place)}
    faults = dict.fromkeys(problems, tally.records) | met
    sizes = Counter({size: people for size, people in counts.sizes.items() if size})
    names = schema.classes or ("0", "1")
    if labels is None and schema.labels is not None:
        labels = tuple(LabelCount(name, counts.labels[code]) for code, name in enumerate(names))
    result = DataCheck(
        records_read=tally.records,
        records_kept=0 if problems else sum(size * people for size, people in sizes.items()),
        people_read=0 if any(fault.column == user for fault in problems) else tally.people,
        people_kept=0 if problems else sum(sizes.values()),
        columns=tuple(ColumnFault(f.column, _reason(f), count, f.what) for f, count in faults.items()),
        labels=labels or (),
        records_per_person=_quartiles(sizes),
        max_records=cap,
        people_over_cap=None if cap is None else sum(people for size, people in sizes.items() if size > cap),
        unchecked=tuple(name for name, domain in schema.features.items() if domain is None),
        warnings=(),
    )
    lines = [*_lost(result), *_remedies(met, tally.records, schema.features)]
    if schema.labels is not None and not problems:
        lines += _one_sided(counts.labels, names, schema.label_name)
    return evolve(result, warnings=tuple(lines))


def _reason(fault: Fault) -> str:
    moved = {Verdict.OUTSIDE: ": moved to the nearest end", Verdict.OFF: ": moved to the value below"}
    return fault.reason + (moved.get(fault.verdict, "") if fault.what == "repaired" else "")


def _quartiles(sizes: Counter[int]) -> dict[str, int]:
    """The values at rank ceil(q n), each of them somebody's number of records."""
    ordered, people = sorted(sizes), sum(sizes.values())
    if not people:
        return {}
    ends = np.cumsum([sizes[size] for size in ordered])
    ranks = {"min": 1, "q1": -(-people // 4), "median": -(-people // 2), "q3": -(-3 * people // 4), "max": people}
    return {name: ordered[int(np.searchsorted(ends, rank))] for name, rank in ranks.items()}


# Warnings


def _lost(found: DataCheck) -> Iterator[str]:
    if any(fault.what == "refused" for fault in found.columns):
        yield "this table is refused as it is declared: correct what is listed as refused, or declare another rule"
    for lost, read, name in (
        (found.lost_records, found.records_read, "records"),
        (found.lost_people, found.people_read, "people"),
    ):
        if lost > MUCH * read:
            yield f"{lost:,} of {read:,} {name} are lost ({_percent(lost / read)})"


def _remedies(faults: Mapping[Fault, int], records: int, features: Mapping[str, Domain | None]) -> Iterator[str]:
    """What to do about each rule that costs many records."""
    for fault, count in faults.items():
        if fault.what == "repaired" or count <= MUCH * records or fault.column not in features:
            continue
        name, lost = fault.column, f"column {fault.column!r}: {fault.reason} in {count:,} records"
        domain = features[name]
        if fault.verdict is Verdict.MISSING and not (domain is not None and domain.open):
            yield (
                f"{lost}; to keep them as a category of their own, which small trees and scorecards read, write "
                f'Missing(domain, "own"), in a schema file missing = "own", on the command line '
                f"--feature {name}=...,missing=own"
            )
        elif fault.verdict is Verdict.UNREAD:
            yield f"{lost}; correct the table, or declare all values that everybody may know of"
        elif fault.verdict in (Verdict.OUTSIDE, Verdict.OFF):
            yield f"{lost}; check the unit of the column, declare what everybody may know, or use on_invalid='clamp'"


def _one_sided(labels: Counter[int], names: tuple[str, ...], predicted: str | None) -> Iterator[str]:
    """Labels that no kept record has: mostly a value that the table writes in another way."""
    absent = [name for code, name in enumerate(names) if not labels[code]]
    if labels and absent:
        said = [f"1 ({predicted})" if name == "1" and predicted is not None else name for name in absent]
        yield (
            f"no record that is kept has the label {', '.join(map(in_one_line, said))}, so that nothing can be learned "
            "about it; compare with how the table writes its labels (letters, case, spaces)"
        )
