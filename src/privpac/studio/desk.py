"""What can be done at the desk: choose a table, declare it, check it, plan, learn, evaluate; and what is kept of it.

Tables lie in one folder (or are handed in through the page, into a private folder of the studio's own that goes with
it); what is written, lies in that folder too, under names that are still free.  Of a table only names and types of its
columns are looked at here; checking, learning and evaluating are commands in processes of their own
(:mod:`privpac.studio.words`).  A release is first an *offer*: its price, and the words that would be run.  Accepting it
runs those words, one release at a time; they name the head of the ledger whose balance was shown, and the ledger
refuses them, in the transaction that would spend, if anybody has spent since.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
from attrs import define, field, frozen

from privpac.api.learn import load
from privpac.data import parse_feature
from privpac.data.private_folder import PrivateFolder
from privpac.data.schema_file import OPEN, Schema
from privpac.data.suggest import chosen, column_types, suggest_domains
from privpac.errors import ParameterError, PrivpacError
from privpac.exact import rational, shown
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.ledger import BudgetLedger
from privpac.methods.base import ITEM_LEVEL
from privpac.rules.base import Rule
from privpac.studio import words
from privpac.studio.words import Ran, ReleasePlaces, TextFormat

PREFIX = "privpac-studio-"
"""How folders of tables that were handed in begin."""

_KINDS = (".csv", ".parquet")
_MOST_TABLES, _DEEPEST = 500, 3
_NAME = re.compile(r"[^\w.()+-]+")


class Busy(PrivpacError):
    """Something is being learned already."""


@frozen(slots=False)
class Declaration:
    """What a person says about a table on the page."""

    table: str
    columns: Mapping[str, str]
    unit: str
    """``user`` or ``item``: there is no default, because the promise is about the one or the other."""
    user: str
    label: str
    labels: str
    """``binary``: 0/1 or true/false; ``value``: ``positive`` is predicted; ``file``: as the schema file says."""
    positive: str
    missing: str
    on_invalid: str


@frozen(slots=False)
class _Offer:
    """A release that a person was shown the price of: exactly these words, or nothing."""

    secret: str
    what: str
    table: str
    line: Sequence[str]
    out: Path
    report: Path


@define(slots=False)
class Desk:
    """The state of one run of the studio."""

    folder: Path
    ledger: Path | None = None
    start: Path = field(factory=Path.cwd)
    results: list[dict[str, Any]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.folder = Path(os.path.realpath(self.folder))
        self._private = PrivateFolder(PREFIX, tempfile.gettempdir())
        self.private = self._private.path
        runner = words.Runner(self.start, self._private.lock)
        self.run: Callable[[Sequence[str]], Ran] = runner
        self._stop = runner.close
        self._readings: dict[str, TextFormat] = {}
        self._reports: dict[str, Path] = {}
        self._offer: _Offer | None = None
        self._working = threading.Lock()

    def close(self) -> None:
        """Stop what runs, and forget the tables that were handed in."""
        self._stop()
        self._private.remove()

    # Places

    def shown(self, path: Path) -> str:
        """A path as it is typed where the studio was started."""
        with suppress(ValueError):
            return str(path.relative_to(self.start))
        return str(path)

    def tables(self) -> list[str]:
        """Tables that can be chosen, by the way they are typed."""
        return [self.shown(path) for path in (*self._found(self.private), *self._found(self.folder))]

    @staticmethod
    def _found(folder: Path) -> list[Path]:
        found: list[Path] = []
        for place, folders, files in os.walk(folder):
            here = Path(place)
            deep = len(here.relative_to(folder).parts) >= _DEEPEST
            folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
            names = sorted(name for name in files if name.lower().endswith(_KINDS) and not name.startswith("."))
            found += [here / name for name in names if not (here / name).is_symlink()]
            if len(found) >= _MOST_TABLES:
                break
        return found[:_MOST_TABLES]

    def path(self, table: str) -> Path:
        """The file of a table that was offered; nothing else on this machine can be named."""
        if table not in self.tables():
            raise ParameterError(f"there is no table {table[:200]!r} in this folder; choose one of the list")
        return self.start / table

    def keep(self, name: str) -> Path:
        """Where a table that is handed in may be written."""
        plain = _NAME.sub("_", Path(name.replace("\\", "/")).name).lstrip(".-")[-100:]
        if not plain.lower().endswith(_KINDS) or len(plain) < 5:
            raise ParameterError("a table is a .csv or .parquet file")
        return self.private / plain

    def schema_of(self, table: str) -> Path:
        """Where the schema of a table lies."""
        return self.folder / f"{self.path(table).stem}.toml"

    def ledger_of(self, table: str) -> Path:
        """Where the budget of a table lies."""
        return self.ledger or self.folder / f"{self.path(table).stem}.budget.db"

    def _free(self, table: str, what: str) -> tuple[Path, Path]:
        """Two names beside each other that nobody has taken: of the result and of its report."""
        stem = self.path(table).stem
        for number in range(1, 10_000):
            pair = self.folder / f"{stem}-{what}-{number}.json", self.folder / f"{stem}-{what}-{number}.html"
            if not any(path.exists() for path in pair):
                return pair
        raise ParameterError(f"{stem}-{what}-1 to 9999 are all taken; move some of them away")

    # Declaring

    def columns(self, table: str, reading: TextFormat) -> dict[str, Any]:
        """Names and types, and what is suggested for them or was declared before; no value is looked at."""
        path = self.path(table)
        self._readings[table] = reading if path.suffix.lower() == ".csv" else TextFormat()
        types = self._types(table)
        found = suggest_domains(path, **self._readings[table].options)  # type: ignore[arg-type]
        saved, trouble = None, None
        try:
            saved = self._saved(table)
        except ParameterError as error:
            trouble = str(error)
        said = saved or found
        every = {**found.columns, **{name: None for name in types if name not in found.columns}}
        rows = [
            {
                "name": name,
                "type": _type(types[name]),
                "domain": _domain(said.columns.get(name) or (found.columns.get(name) if saved is None else None)),
                "read": name in said.columns,
                "note": found.notes.get(f"columns.{name}", "").partition(": ")[0],
            }
            for name in types
            if name in every
        ]
        told = {"user": _said(said.user), "label": _said(said.label), "positive": _said(said.positive)}
        told |= {"missing": said.missing or "drop", "on_invalid": str(said.on_invalid or "clamp")}
        told |= {"unit": "item" if saved is not None and said.user is None else "user" if told["user"] else ""}
        named = "" if saved is None else "file" if _in_file(saved) else "value" if told["positive"] else "binary"
        told |= {"labels": named, "file_labels": "" if saved is None else _in_file(saved)}
        return {"table": table, "columns": rows, "saved": saved is not None, "trouble": trouble, **told}

    def _types(self, table: str) -> dict[str, pl.DataType | None]:
        path, options = self.path(table), self._reading(table).options
        if not options:
            return column_types(path)
        found = suggest_domains(path, **options)  # type: ignore[arg-type]
        names = (found.user, found.label, *found.columns)
        return {name: None for name in names if name not in (None, OPEN)}  # a text file has no types

    def _reading(self, table: str) -> TextFormat:
        return self._readings.get(table, TextFormat())

    def _meaning(self, said: Declaration, saved: Schema | None) -> tuple[Any, dict[str, Any]]:
        """The value that is predicted, and what only a schema file says, as a person chose; there is no default.

        Labels that are neither 0/1 nor true/false, and that nobody named, would give noise that was paid for.
        """
        if said.labels == "file" and saved is not None and saved.label == said.label and _in_file(saved):
            return saved.positive, {"classes": saved.classes, "label_map": saved.label_map}
        if said.labels == "value":
            if not said.positive:
                raise ParameterError(f"write which value of {said.label} is to be predicted, such as dead or yes")
            return said.positive, {}
        if said.labels != "binary":
            raise ParameterError(
                f"say what the values of {said.label} are: 0 and 1 (or true and false), or the value to be predicted"
            )
        _check_binary(said.label, self._types(said.table).get(said.label))
        return None, {}

    def declare(self, said: Declaration) -> dict[str, Any]:
        """Write the schema file; the command that is shown writes the same bytes."""
        features = {}
        for name, text in said.columns.items():
            try:
                features[name] = parse_feature(f"x={text}")[1]
            except (ParameterError, TypeError) as error:
                raise ParameterError(f"{name}: {error}") from None
        if not features:
            raise ParameterError("choose at least one column that rules may read, and say which values it may have")
        if said.unit not in tuple(Unit) or (said.unit == Unit.USER) != bool(said.user):
            raise ParameterError(
                "say whose record it is: choose the column with the person's id, or that every record is a person of "
                "its own"
            )
        if not said.label:
            raise ParameterError("choose what is to be predicted")
        place = self.schema_of(said.table)
        saved = self._saved(said.table)  # a file that is no schema is somebody's, and stays
        reading, (positive, kept) = self._reading(said.table), self._meaning(said, saved)
        told: dict[str, Any] = {"user": said.user or None, "label": said.label, "positive": positive, "unit": said.unit}
        told |= reading.options
        found = suggest_domains(self.path(said.table), missing=said.missing, **told)  # type: ignore[arg-type]
        found = chosen(found, features, on_invalid=said.on_invalid, **(kept and kept | {"positive": positive}))
        found.check("the declaration")
        found.save(place)
        line = words.domains_words(
            said.table,
            dict(said.columns),
            reading=reading,
            user=said.user or None,
            label=said.label,
            positive=positive,
            missing=said.missing,
            on_invalid=said.on_invalid,
            out=self.shown(place),
        )
        domains = {name: domain.describe() for name, domain in found.features.items()}
        command = {} if kept else _command(line)  # no option says what the file said before
        return {"schema": self.shown(place), "domains": domains, "text": found.to_toml(), **command}

    def check(self, table: str) -> dict[str, Any]:
        """What the table holds and loses, by the command that is shown: for the person at the page, kept nowhere."""
        self.schema(table)
        line = words.check_words(table, self.shown(self.schema_of(table)), self._reading(table))
        ran = self.run(line)
        if ran.code:
            return {"failed": ran.err or "it failed", **_command(line)}
        return {"found": json.loads(ran.out), **_command(line)}

    def _saved(self, table: str) -> Schema | None:
        """What was declared before, finished or not."""
        place = self.schema_of(table)
        if not place.exists():
            return None
        try:
            return Schema.read(place)
        except PrivpacError as error:
            raise ParameterError(f"{error}. It is left as it is: correct {place.name}, or move it away") from None

    def schema(self, table: str) -> Schema:
        """The declared schema of a table."""
        if not self.schema_of(table).exists():
            raise ParameterError("declare the columns first: what each may hold, and who a record belongs to")
        return Schema.read(self.schema_of(table))

    # The budget

    def balance(self, table: str) -> dict[str, Any]:
        """What the ledger of a table says."""
        place = self.ledger_of(table)
        if not place.exists():
            return {"ledger": self.shown(place), "exists": False, "dataset": self.path(table).stem}
        with BudgetLedger.open(place) as book:
            left, budget = book.remaining(), book.budget
            spends = [
                {"epsilon": shown(s.eps), "delta": shown(s.delta), "what": s.label, "when": s.at}
                for s in book.history()
            ]
            head = book.head()
        told = {"exists": True, "budget": budget.summary, "total": str(budget.epsilon), "left": str(left.epsilon)}
        told |= {
            "total_shown": shown(budget.epsilon),
            "left_shown": shown(left.epsilon),
            "share": float(left.epsilon / budget.epsilon),
        }
        return {
            "ledger": self.shown(place),
            "spends": spends,
            "head": head,
            **told,
            **_command(["ledger", "show", self.shown(place)]),
        }

    def open_budget(self, table: str, epsilon: str, dataset: str) -> dict[str, Any]:
        """Make a ledger; one is never made by the way, nor over another."""
        place, unit = self.ledger_of(table), Unit.USER if self.schema(table).user else Unit.ITEM
        promise = Guarantee(rational(epsilon, "epsilon", above=0), 0, unit=unit, neighbours=Neighbours.ADD_REMOVE)
        BudgetLedger.create(place, promise, dataset=dataset).close()
        return _command(words.ledger_words(self.shown(place), epsilon, dataset, str(unit)))

    def _priced(self, table: str, epsilon: str) -> dict[str, Any]:
        """What a release would cost and leave, before anything is spent."""
        cost, schema = rational(epsilon, "epsilon", above=0), self.schema(table)
        if schema.positive is None and not _in_file(schema):
            _check_binary(str(schema.label), self._types(table).get(str(schema.label)))
        unit = Unit.USER if schema.user else Unit.ITEM
        promise = Guarantee(cost, 0, unit=unit, neighbours=Neighbours.ADD_REMOVE)
        kept = self.balance(table)
        if not kept["exists"]:
            raise ParameterError("there is no budget for this table yet: make one first")
        after = Fraction(kept["left"]) - cost
        told = {"epsilon": shown(cost), "left": kept["left_shown"], "after": shown(max(after, Fraction(0)))}
        told |= {"enough": after >= 0, "head": kept["head"], "ledger": kept["ledger"]}
        return told | said_promise(promise)

    # Releases

    def offer_rule(self, table: str, epsilon: str, rule: str | None, evaluate: bool) -> dict[str, Any]:
        """What learning a rule costs, and the command that does it."""
        price, (out, report) = self._priced(table, epsilon), self._free(table, "rule")
        line = words.learn_command_words(
            table,
            self.shown(self.schema_of(table)),
            reading=self._reading(table),
            epsilon=epsilon,
            rule=rule,
            evaluate="1/5" if evaluate else None,
            places=ReleasePlaces(price["ledger"], price["head"], self.shown(out), self.shown(report)),
        )
        return price | self._offered("rule", table, line, out, report)

    def offer_evaluation(self, table: str, epsilon: str, rule: str) -> dict[str, Any]:
        """What measuring a learned rule costs, and the command that does it."""
        found = next((kept for kept in self.results if kept["what"] == "rule" and kept["saved"] == rule), None)
        if found is None:
            raise ParameterError("choose a rule that was learned here")
        price, (out, report) = self._priced(table, epsilon), self._free(table, "evaluation")
        line = words.evaluate_words(
            rule,
            table,
            self.shown(self.schema_of(table)),
            reading=self._reading(table),
            epsilon=epsilon,
            same_people=found["table"] == table,
            places=ReleasePlaces(price["ledger"], price["head"], self.shown(out), self.shown(report)),
        )
        return price | self._offered("evaluation", table, line, out, report)

    def _offered(self, what: str, table: str, line: list[str], out: Path, report: Path) -> dict[str, Any]:
        self._offer = _Offer(secrets.token_urlsafe(16), what, table, tuple(line), out, report)
        return {"offer": self._offer.secret, **_command(line)}

    def accept(self, secret: str) -> dict[str, Any]:
        """Run the words of the last offer, once, one release at a time."""
        if not self._working.acquire(blocking=False):
            raise Busy("something is being learned or measured already; wait until it is done")
        try:
            offer, self._offer = self._offer, None
            if offer is None or not secrets.compare_digest(offer.secret.encode(), secret.encode()):
                raise ParameterError("this price is not the last one that was shown; nothing was spent, look again")
            if offer.out.exists() or offer.report.exists():
                raise ParameterError(f"{offer.out.name} was written by somebody else; nothing was spent, look again")
            return self._finish(offer)
        finally:
            self._working.release()

    def _finish(self, offer: _Offer) -> dict[str, Any]:
        ran, command, report = self.run(offer.line), _command(offer.line), offer.report
        if ran.code not in (0, 3):
            return {"failed": ran.err or "it failed", "code": ran.code, **command}
        saved = self.shown(offer.out)
        kept: dict[str, Any] = {"what": offer.what, "table": offer.table, "saved": saved, "text": ran.out, **command}
        released = load(offer.out)
        promise, rule = released.guarantee, released.value
        kept["title"] = str(rule) if isinstance(rule, Rule) else ran.out.splitlines()[0]
        kept["released"] = bool(released)
        if promise is not None:
            kept |= said_promise(promise)
        kept["lines"] = _lines(ran.out)
        noted = [said.partition("warning: ")[2] for said in ran.err.splitlines() if "warning: " in said]
        kept["warnings"] = [line for line in dict.fromkeys((*released.warnings, *noted)) if line != ITEM_LEVEL]
        if report.exists():
            secret = secrets.token_urlsafe(24)
            self._reports[secret] = report
            kept |= {"report": f"/report/{secret}", "report_file": self.shown(report)}
        self.results.append(kept)
        return kept

    def report(self, secret: str) -> Path | None:
        """The report behind an address that only this page knows."""
        return self._reports.get(secret)


def said_promise(promise: Guarantee) -> dict[str, Any]:
    """A promise as the page shows it; what is promised for single records alone says so wherever it is shown."""
    told = {"promise": promise.short, "odds": promise.odds, "alarming": promise.strength.alarming}
    return told | {"per_record": ITEM_LEVEL if promise.unit is Unit.ITEM else None}


def _command(line: Sequence[str]) -> dict[str, Any]:
    return {"command": words.command_line(line)}


def _in_file(schema: Schema) -> str:
    """What a schema file says about labels that the page has no field for."""
    if schema.classes is not None:
        return "the labels " + ", ".join(map(str, schema.classes))
    return "" if schema.label_map is None else "the labels " + ", ".join(map(str, schema.label_map))


def _check_binary(label: str, kind: pl.DataType | None) -> None:
    """Refuse labels that by their type are neither 0/1 nor true/false."""
    if kind is not None and kind != pl.Boolean and not kind.is_numeric():
        raise ParameterError(
            f"{label} holds {_type(kind)}, not 0/1 or true/false: write which value is to be predicted"
        )


def _lines(text: str) -> list[str]:
    """What a result says beside its first line, without where it was written and what the promise says anyway."""
    dropped = ("rule written", "report written", "evaluation written", "ε = ", "budget left", "warning:")
    return [line for line in text.splitlines()[1:] if not line.startswith(dropped)]


def _said(value: Any) -> str:
    return "" if value in (None, "?") else str(value)


def _domain(domain: Any) -> Any:
    return None if domain is None else domain.to_schema()


def _type(kind: pl.DataType | None) -> str:
    """A type in a word."""
    if kind is None:
        return ""
    tests = (("whole numbers", kind.is_integer()), ("numbers", kind.is_float()), ("yes or no", kind == pl.Boolean))
    dates = kind == pl.Date or isinstance(kind, pl.Datetime)
    return next((word for word, fits in (*tests, ("dates", dates), ("text", not kind.is_numeric())) if fits), "")
