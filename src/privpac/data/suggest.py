"""A schema to begin with, from names, types and public knowledge: never from values.

``suggest_domains`` looks at the names and the types of columns, which a curator's table has as its public schema, and
at nothing else of it: a CSV file is read up to its first line end, a Parquet file up to its schema.  What no name tells
is left open for a person (``"?"``), with what its type allows beside it.  Only if the owner says that the ranges of the
table are public (``ranges_are_public=True``) are values looked at: least and greatest, and the distinct texts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import polars as pl
from attrs import evolve

from privpac.data.columns import text
from privpac.data.domains import Domain, Integers, MissingRule, parse_domain
from privpac.data.objects import OBJECTS
from privpac.data.readers import (
    AS_USUAL,
    MISSING_TEXTS,
    CsvFormat,
    csv_names,
    expand,
    no_format,
    read_files,
    read_frame,
)
from privpac.data.schema import OnInvalid, quietly
from privpac.data.schema_file import OPEN, Schema
from privpac.errors import ParameterError, SchemaError
from privpac.guarantee import Unit, one_of
from privpac.lazy import need

# What everybody knows about columns of some names: ranges that no table is needed for.
#
# A column is looked up by the words of its name (``bodyTemp_c`` has the words body, temp, c).  The entry with the most
# words that all occur wins; a name with a word of ``OTHER`` (a change, a code, a group) is not looked up, for its
# values are something else.  Ranges are wide on purpose: they cost little, and a value outside them is a mistake.
# Where values lie far from zero, ``~a:b`` says where most of them do: rules look more closely there.


_Entry = tuple[str, str, str]

_ENTRIES: tuple[_Entry, ...] = (
    # people
    ("age", "0:120", "years; nobody is older than about 120"),
    ("weight", "0:400~40:150", "kilograms; the heaviest people are below 400 (in pounds write 0:900)"),
    ("height", "0:260~140:200", "centimetres; the tallest people are below 260 (in inches write 0:100)"),
    ("bmi", "5:100:0.1~15:50", "kg per square metre; people are between about 7 and 100"),
    ("birth year", "1900:2030~1930:2010", "somebody who lives was born after 1900"),
    # time
    ("year", "1900:2100", "calendar years; write the years that the records can come from"),
    ("month", "1:12", "months of a year"),
    ("week", "1:53", "weeks of a year"),
    ("quarter", "1:4", "quarters of a year"),
    ("weekday", "0:7", "days of a week, from 0 or from 1"),
    ("day", "1:31", "days of a month"),
    ("day week", "0:7", "days of a week, from 0 or from 1"),
    ("day year", "1:366", "days of a year"),
    ("dow", "0:7", "days of a week, from 0 or from 1"),
    ("hour", "0:23", "hours of a day"),
    ("minute", "0:59", "minutes of an hour; minutes of a day are 0:1439"),
    ("second", "0:59", "seconds of a minute"),
    # shares, marks and places
    ("percent", "0:100:0.1", "a percentage"),
    ("percentage", "0:100:0.1", "a percentage"),
    ("pct", "0:100:0.1", "a percentage"),
    ("percentile", "0:100:0.1", "a percentile"),
    ("probability", "0:1:0.001", "a probability"),
    ("prob", "0:1:0.001", "a probability"),
    ("proportion", "0:1:0.001", "a share of a whole"),
    ("fraction", "0:1:0.001", "a share of a whole"),
    ("rating", "1:5", "a rating of one to five; write 0:10 if yours goes to ten"),
    ("stars", "1:5", "one to five stars"),
    ("likert", "1:5", "a scale of one to five; write 1:7 if yours has seven points"),
    ("gpa", "0:4:0.01", "a grade point average of 0 to 4"),
    ("zip", "0:99999", "a US code as a number; its order says little about places"),
    ("zipcode", "0:99999", "a US code as a number; its order says little about places"),
    ("latitude", "-90:90:0.01", "degrees; a hundredth is about a kilometre"),
    ("lat", "-90:90:0.01", "degrees; a hundredth is about a kilometre"),
    ("longitude", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("lon", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("lng", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("temperature", "-90:60:0.1", "degrees Celsius of the air (of a body write 30:45:0.1, Fahrenheit -130:140:0.1)"),
    ("temp", "-90:60:0.1", "degrees Celsius of the air (of a body write 30:45:0.1, Fahrenheit -130:140:0.1)"),
    ("humidity", "0:100", "per cent"),
    # vital signs
    ("body temperature", "30:45:0.1~35:41", "degrees Celsius of a living body"),
    ("body temp", "30:45:0.1~35:41", "degrees Celsius of a living body"),
    ("heart rate", "0:300~40:160", "beats per minute"),
    ("hr", "0:300", "beats per minute"),
    ("pulse", "0:300~40:160", "beats per minute"),
    ("respiratory rate", "0:100~8:40", "breaths per minute"),
    ("resp rate", "0:100~8:40", "breaths per minute"),
    ("systolic", "0:300~80:200", "mmHg"),
    ("sbp", "0:300~80:200", "mmHg"),
    ("diastolic", "0:200~40:120", "mmHg"),
    ("dbp", "0:200~40:120", "mmHg"),
    ("blood pressure", "0:300~80:200", "mmHg"),
    ("spo2", "0:100~80:100", "per cent"),
    ("oxygen saturation", "0:100~80:100", "per cent"),
    ("gcs", "3:15", "the Glasgow coma scale"),
    ("apgar", "0:10", "the Apgar score"),
    ("pain", "0:10", "a pain scale of 0 to 10"),
    ("gestation", "15:45~24:43", "weeks"),
    # laboratory
    ("bilirubin", "0:60:0.1", "mg/dl (in µmol/l write 0:1000)"),
    ("bili", "0:60:0.1", "mg/dl (in µmol/l write 0:1000)"),
    ("albumin", "0:10:0.01", "g/dl (in g/l write 0:100:0.1)"),
    ("glucose", "0:1500", "mg/dl (in mmol/l write 0:80:0.1)"),
    ("hba1c", "2:20:0.1", "per cent"),
    ("creatinine", "0:40:0.01", "mg/dl (in µmol/l write 0:3500)"),
    ("hemoglobin", "0:30:0.1~5:20", "g/dl (in g/l write 0:300)"),
    ("haemoglobin", "0:30:0.1~5:20", "g/dl (in g/l write 0:300)"),
    ("hematocrit", "0:80:0.1~20:60", "per cent"),
    ("cholesterol", "0:2000", "mg/dl (in mmol/l write 0:50:0.1)"),
    ("chol", "0:2000", "mg/dl (in mmol/l write 0:50:0.1)"),
    ("hdl", "0:300", "mg/dl (in mmol/l write 0:8:0.01)"),
    ("ldl", "0:1000", "mg/dl (in mmol/l write 0:30:0.01)"),
    ("triglycerides", "0:10000", "mg/dl (in mmol/l write 0:120:0.1)"),
    ("trig", "0:10000", "mg/dl (in mmol/l write 0:120:0.1)"),
    ("platelets", "0:3000", "thousands per microlitre"),
    ("platelet", "0:3000", "thousands per microlitre"),
    ("wbc", "0:1000:0.1", "thousands per microlitre"),
    ("sodium", "80:220~120:155", "mmol/l"),
    ("potassium", "0:15:0.1~2.5:7", "mmol/l"),
    ("calcium", "0:30:0.1~6:13", "mg/dl (in mmol/l write 0:8:0.01)"),
    ("crp", "0:1000:0.1", "mg/l"),
    ("inr", "0:30:0.1", "a ratio of clotting times"),
    ("protime", "0:150:0.1", "seconds"),
    ("prothrombin", "0:150:0.1", "seconds"),
    ("ast", "0:20000", "units per litre"),
    ("alt", "0:20000", "units per litre"),
    ("alk phos", "0:30000", "units per litre"),
    ("insulin", "0:3000", "µU/ml"),
    ("ph", "0:14:0.01", "acidity"),
)
_KNOWN = {frozenset(key.split()): (domain, reason) for key, domain, reason in _ENTRIES}

OTHER = frozenset(
    (
        *("change", "diff", "difference", "delta", "ratio", "log", "code", "group", "category", "class"),
        *("type", "name", "id", "number", "count", "total", "sum", "rank", "bin", "level", "since", "until"),
        *("from", "to", "text", "note", "date", "time", "zscore", "std", "sd", "var"),
    )
)
"""Words that make something else of the word beside them."""

PEOPLE = (
    *("person", "patient", "user", "subject", "student", "customer", "client", "member", "employee"),
    *("participant", "respondent", "individual", "citizen", "worker", "player", "caller", "driver"),
    *("rider", "borrower", "who"),
)
"""Words for whom a record belongs to, alone or with "id"."""

LABELS = (
    *("label", "target", "outcome", "event", "y", "died", "dead", "death", "churn", "default", "readmitted"),
    *("relapse", "late", "fraud", "status", "response", "converted", "survived", "passed", "diagnosis"),
    "class",
)
"""Words for what is predicted."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*[a-z]*|\d+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters; a plural is not another word.

    >>> words_of("bodyTemp_C"), words_of("alk.phos"), words_of("SBP"), words_of("spo2")
    (('body', 'temp', 'c'), ('alk', 'phos'), ('sbp',), ('spo2',))
    """
    return tuple(word.lower() for word in _WORD.findall(name[:200]))


def known_domain(name: str) -> tuple[str, str] | None:
    """Domain and reason for a name that everybody knows the range of.

    >>> known_domain("age_at_diagnosis"), known_domain("age_group")
    (('0:120', 'years; nobody is older than about 120'), None)
    """
    said = words_of(name)
    words = frozenset(said) | {word.removesuffix("s") for word in said if len(word) > 3}
    if words & OTHER:
        return None
    fitting = [key for key in _KNOWN if key <= words]
    return _KNOWN[max(fitting, key=lambda key: (len(key), max(map(len, key))))] if fitting else None


Types = dict[str, pl.DataType | None]
_HEAD = """What is publicly known of the table, in the words of `--feature`; see docs/domains.md.
Only what everybody may know belongs here: it is printed with every result, and nothing in it may be read off the table.
A domain is lo:hi (whole numbers or dates), lo:hi:step, {a,b,c}, ["a, b", "c"], number (any) or text.
After lo:hi or lo:hi:step, ~a:b says that most values lie there; values outside it stay valid.
A "?" must be replaced, or its line deleted, before the file can be used.
Delete the lines of columns that rules may not read."""
_NOTES = {
    "user": "whose record it is; delete this line only if every record is a person of its own",
    "label": "the column to predict; delete this line for distributions and quantiles",
    "positive": "the value of the label that is predicted; every other one means the opposite",
    "on_invalid": "a number outside its domain counts as its nearest end; or drop the record, or raise",
    "missing": "own: missing is an answer of its own (small trees, scorecards); drop: such records are left out",
}
_PUBLIC = "read off the table, whose ranges its owner calls public"
_WIDE = 5
_NUMBERED = (("id",), ("number",), ("no",), ("key",))


def suggest_domains(
    columns: object,
    *,
    user: str | None = None,
    label: str | None = None,
    positive: str | int | bool | None = None,
    missing: MissingRule | None = None,
    unit: Unit | str = Unit.USER,
    ranges_are_public: bool = False,
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
) -> Schema:
    """A schema to edit: domains by the names and types of columns, and by what everybody knows.

    Parameters
    ----------
    columns : frame, path, mapping of names to types, or names
        A table of which only names and types are read; a Parquet or CSV file; or the names themselves.
    user : str, optional
        The column of person ids; guessed from the names if left out.
    label : str, optional
        The column to predict; guessed from the names if left out.
    positive : str, int or bool, optional
        The value of the label that is predicted.
    missing : {"own", "drop", "raise"}, optional
        What missing values are, in all columns; if left out, "own" from five columns on, where small trees are learned,
        else "drop".
    unit : {"user", "item"}
        "item" declares that every record is a person of its own, and no column of ids is looked for.
    ranges_are_public : bool
        The owner's word that least and greatest values and the names of categories of this table are public.
    separator, header, names
        How a CSV file is written, as in ``UserData.read``.

    Returns
    -------
    Schema
        ``print(schema.to_toml())`` shows it, ``schema.save("visits.toml")`` writes it; ``schema.open`` lists what a
        person still has to declare.

    Raises
    ------
    SchemaError, ParameterError
        A file that cannot be read, or a column that it does not have.

    Examples
    --------
    >>> import privpac as pp
    >>> schema = pp.suggest_domains(["patient_id", "age", "bili", "ward", "died"])
    >>> schema.user, schema.label, schema.columns["age"], schema.open
    ('patient_id', 'died', Integers(lo=0, hi=120), ('ward',))
    """
    written = CsvFormat(separator, header, names)
    types = column_types(columns, written)
    for role, name in (("user", user), ("label", label)):
        if name is not None and name not in types:
            raise SchemaError(f"the table has no column {name!r} for {role}; it has {_listed(types)}")
    alone = one_of(Unit, unit, "unit") is Unit.ITEM
    if alone and user is not None:
        raise ParameterError("unit='item' says that there is no column of person ids; leave out user or unit")
    user = _person(types, label) if user is None and not alone else user
    label = _predicted(types, user) if label is None else label
    rest = {name: kind for name, kind in types.items() if name not in (user, label)}
    found: dict[str, tuple[Domain | None, str]] = {name: _suggested(name, kind) for name, kind in rest.items()}
    if ranges_are_public:
        found = _ranges(columns, list(rest), written)
    notes = dict(_NOTES) | {"": _HEAD} | {f"columns.{name}": note for name, (_, note) in found.items()}
    if label is not None and positive is None and _is_text(types[label]):
        positive = OPEN
    if label is None:
        notes["label"] = 'label = "NAME": the column to predict, which no name tells; needed to learn rules'
        del notes["positive"]
    elif positive is None:
        notes["positive"] = 'positive = "dead": the label that is predicted, if labels are not 0/1 or true/false'
    if alone:
        notes["user"] = 'user = "NAME": whose record it is; without this line every record is a person of its own'
    if not found:
        raise SchemaError(f"the table has no column for rules to read beside {user!r} and {label!r}")
    return Schema(
        {name: domain for name, (domain, _) in found.items()},
        user=OPEN if user is None and not alone else user,
        label=label,
        positive=None if label is None else positive,
        on_invalid=OnInvalid.CLAMP,
        missing=missing or ("own" if len(found) >= _WIDE else "drop"),
        notes=notes,
    )


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")


# Names and types


def column_types(columns: Any, written: CsvFormat = AS_USUAL) -> Types:
    """The columns with their types, None where there are none (a CSV file, bare names)."""
    if isinstance(columns, (str, os.PathLike)):
        return _types_of_files(columns, written)
    no_format(written)
    if isinstance(columns, Mapping):
        return _unique(list(columns), [_type(kind) for kind in columns.values()])
    if isinstance(columns, Iterable) and not hasattr(columns, "columns") and not hasattr(columns, "schema"):
        names = list(columns)
        return _unique(names, [None] * len(names))
    try:
        table = nw.from_native(columns)
        schema = table.collect_schema()
        names = list(getattr(columns, "columns", schema.names()))
    except TypeError:
        raise TypeError(
            f"columns must be a table, a path, names, or names with types, got {type(columns).__name__}"
        ) from None
    except Exception:
        raise SchemaError("the table's columns cannot be read; their names must be unique") from None
    return _unique(
        names if all(isinstance(n, str) for n in names) else schema.names(), [_type(k) for k in schema.values()]
    )


def _unique(names: list[Any], kinds: list[pl.DataType | None]) -> Types:
    if not names:
        raise SchemaError("the table has no columns")
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise TypeError(f"a column's name must be text, got {type(odd).__name__}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise SchemaError(f"the table has {Counter(names)[twice[0]]} columns named {twice[0]!r}; names must be unique")
    return dict(zip(names, kinds))


def _types_of_files(path: str | os.PathLike[str], written: CsvFormat) -> Types:
    files = [file for file in expand(path, folders=True) if not file.name.startswith((".", "_"))]
    if not files or files[0].suffix.lower() not in (".parquet", ".csv"):
        raise ParameterError(f"a table must be .parquet or .csv files, got {os.fspath(path)!r}")
    file = files[0]
    if file.suffix.lower() == ".csv":
        names = [name for name in csv_names(file, written) if name]  # row names have a column without a name
        return _unique(names, [None] * len(names))
    no_format(written)
    broken = f"file {file.name!r} is not a readable Parquet file"
    parquet = need("pyarrow.parquet", "reading a Parquet file")
    schema = quietly(lambda: parquet.read_schema(file), broken)
    kinds = quietly(lambda: pl.from_arrow(schema.empty_table()).schema, broken)  # type: ignore[union-attr]
    return _unique(schema.names, list(kinds.values()))


_BY_NAME: dict[str, pl.DataType] = {
    **{f"int{bits}": pl.Int64() for bits in ("", 8, 16, 32, 64)},
    **{f"uint{bits}": pl.UInt64() for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("float", "float64"), pl.Float64()),
    "float32": pl.Float32(),
    **dict.fromkeys(("bool", "boolean"), pl.Boolean()),
    **dict.fromkeys(("str", "string", "text"), pl.String()),
    "date": pl.Date(),
    "datetime": pl.Datetime(),
}


def _type(kind: object) -> pl.DataType | None:
    """A polars type for whatever names one; None for what says nothing, such as pandas' object."""
    if kind is None or isinstance(kind, pl.DataType):
        return kind
    name = str(getattr(kind, "__name__", kind)).lower()
    return _BY_NAME.get(name.partition("(")[0].partition("[")[0])


def _is_text(kind: pl.DataType | None) -> bool:
    return kind is not None and (kind == pl.String or isinstance(kind, (pl.Categorical, pl.Enum)))


# Guesses


def _person(types: Types, label: str | None) -> str | None:
    """The column whose name is a person's, best with "id"; None if there is none, or more than one."""
    named = [(name, words_of(name)) for name in types if name != label]
    numbered = [name for name, words in named if words[:1] and words[0] in PEOPLE and words[1:] in _NUMBERED]
    alone = [name for name, words in named if len(words) == 1 and words[0].removesuffix("s") in PEOPLE]
    joined = [name for name, words in named if len(words) == 1 and words[0].removesuffix("id") in PEOPLE]
    bare = [name for name, words in named if words in (("id",), ("pid",), ("uid",))]
    found = next(filter(None, (numbered, joined, alone, bare)), [])
    return found[0] if len(found) == 1 else None


def _predicted(types: Types, user: str | None) -> str | None:
    names = {words_of(name): name for name in reversed(types) if name != user}
    return next((names[word,] for word in LABELS if (word,) in names), None)


def _suggested(name: str, kind: pl.DataType | None) -> tuple[Domain | None, str]:
    """A domain and why; None with what a person may write."""
    own = next((one for column in Domain.kinds() if (one := column.suggest(name, kind)) is not None), None)
    if own is not None:
        return own
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        return None, "dates, by its type: write first and last day, such as 2020-01-01:2029-12-31"
    known = None if _is_text(kind) else known_domain(name)
    if known is not None:
        return parse_domain(known[0]), known[1]
    words = words_of(name)
    if words[:1] in (("is",), ("has",), ("was",)) and kind is not None and kind.is_integer():
        return Integers(0, 1), "no or yes, by its name"
    return None, _hint(words, kind)


def _hint(words: tuple[str, ...], kind: pl.DataType | None) -> str:
    if words[:1] in (("is",), ("has",), ("was",)):
        return "yes or no as the table writes it: {no,yes}, {false,true} or 0:1"
    if set(words) & {"sex", "gender"}:
        return "the names or numbers that the table uses, such as {f,m} or 1:2"
    if _is_text(kind):
        return "text, by its type: list the names it may hold, {a,b,c}, or delete the line"
    if kind is not None and kind.is_integer():
        return "whole numbers, by its type: write the least and the greatest that can be, such as 0:1000"
    if kind is not None and kind.is_float():
        return "numbers, by its type: write lo:hi:step, such as 0:100:0.1, or number for any"
    return "not known by its name: write lo:hi, lo:hi:step, {a,b,c} or number"


# Ranges that are public


def _ranges(columns: object, wanted: list[str], written: CsvFormat) -> dict[str, tuple[Domain | None, str]]:
    """Domains as wide as the values are; only for a table whose owner calls its ranges public."""
    if isinstance(columns, (str, os.PathLike)):
        table, plain_text = read_files(columns, wanted, MISSING_TEXTS, written)
    elif isinstance(columns, Mapping) or not (hasattr(columns, "columns") or hasattr(columns, "schema")):
        raise ParameterError("ranges_are_public=True reads them off a table: give the table or its path, not its names")
    else:
        table, plain_text = read_frame(columns, wanted), False
    untyped = {name: plain_text or series.dtype == OBJECTS for name, series in table.items()}
    found = {name: _range(_as_numbers(text(s)) if untyped[name] else s) for name, s in table.items()}
    return {
        name: (domain, _PUBLIC if domain is not None else "it holds no value, or too many to list: write its domain")
        for name, domain in found.items()
    }


def _as_numbers(series: pl.Series) -> pl.Series:
    """Text as numbers or dates where all of it is."""
    found = [series.cast(pl.Int64, strict=False), series.cast(pl.Float64, strict=False)]
    found.append(series.str.to_date("%Y-%m-%d", strict=False))
    return next((read for read in found if read.null_count() == series.null_count()), series)


def _range(series: pl.Series) -> Domain | None:
    there = series.drop_nulls()
    if series.dtype.is_float():
        there = there.filter(there.is_finite())
    if not len(there):
        return None
    return next((one for kind in Domain.kinds() if (one := kind.spanning(there)) is not None), None)


def chosen(schema: Schema, features: Mapping[str, Domain | None], **changes: Any) -> Schema:
    """The schema for some columns alone, with domains that a person gave in place of the suggested ones."""
    strange = [name for name in features if name not in schema.columns]
    if strange:
        raise SchemaError(f"the table has no column {strange[0]!r} for rules to read; it has {_listed(schema.columns)}")
    columns = {name: schema.columns[name] if domain is None else domain for name, domain in features.items()}
    notes = {
        key: note
        for key, note in schema.notes.items()
        if not key.startswith("columns.") or features.get(key.removeprefix("columns."), 0) is None
    }
    return evolve(schema, columns=columns, notes=notes, **changes)
