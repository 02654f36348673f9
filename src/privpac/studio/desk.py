"""What can be done at the desk: choose a table, declare it, plan, learn, evaluate; and what is kept of it.

Tables lie in one folder (or are handed in through the page, into a folder of the studio's own that goes with it); what
is written, lies in that folder too, under names that are still free.  Of a table only names and types of its columns
are looked at here; learning and evaluating are commands in processes of their own (:mod:`privpac.studio.words`), one at
a time, and only if the ledger is still the one whose balance the person saw.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from privpac.api import load
from privpac.concepts.base import Rule
from privpac.data.declare import parse_feature
from privpac.data.schema_file import Schema, domain_value
from privpac.data.suggest import chosen, column_types, suggest_domains
from privpac.errors import LedgerError, ParameterError, PrivpacError
from privpac.exact import rational, shown
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.ledger import BudgetLedger
from privpac.studio import words

__all__ = ["Busy", "Declaration", "Desk"]

_KINDS = (".csv", ".parquet")
_MOST_TABLES, _DEEPEST = 500, 3
_NAME = re.compile(r"[^\w.()+-]+")


class Busy(PrivpacError):
    """Something is being learned already."""


@dataclass(frozen=True)
class Declaration:
    """What a person says about a table on the page."""

    table: str
    columns: Mapping[str, str]
    user: str | None
    label: str
    positive: str | None
    missing: str
    on_invalid: str


@dataclass
class Desk:
    """The state of one run of the studio."""

    folder: Path
    ledger: Path | None = None
    start: Path = field(default_factory=Path.cwd)
    results: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = Path(os.path.realpath(self.folder))
        self._uploads = tempfile.TemporaryDirectory(prefix="privpac-studio-")  # for its owner alone
        self._reports: dict[str, Path] = {}
        self._working = threading.Lock()

    def close(self) -> None:
        """Forget the tables that were handed in."""
        self._uploads.cleanup()

    # Places

    def shown(self, path: Path) -> str:
        """A path as it is typed where the studio was started."""
        with suppress(ValueError):
            return str(path.relative_to(self.start))
        return str(path)

    def tables(self) -> list[str]:
        """Tables that can be chosen, by the way they are typed."""
        return [self.shown(path) for path in (*self._found(Path(self._uploads.name)), *self._found(self.folder))]

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
        return Path(self._uploads.name) / plain

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

    def columns(self, table: str) -> dict[str, Any]:
        """Names and types, and what is suggested for them or was declared before; no value is looked at."""
        path, types = self.path(table), column_types(self.path(table))
        found = suggest_domains(path)
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
        return {"table": table, "columns": rows, "saved": saved is not None, "trouble": trouble, **told}

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
        unit = Unit.USER if said.user else Unit.ITEM
        told: dict[str, Any] = {"user": said.user or None, "label": said.label, "positive": said.positive or None}
        found = suggest_domains(self.path(said.table), unit=unit, missing=said.missing, **told)  # type: ignore[arg-type]
        found = chosen(found, features, on_invalid=said.on_invalid)
        found.check("the declaration")
        place = self.schema_of(said.table)
        self._saved(said.table)  # a file that is no schema is somebody's, and stays
        found.save(place)
        line = words.domains_words(
            said.table,
            dict(said.columns),
            user=said.user or None,
            label=said.label,
            positive=said.positive or None,
            missing=said.missing,
            on_invalid=said.on_invalid,
            out=self.shown(place),
        )
        domains = {name: domain.describe() for name, domain in found.features.items()}
        return {"schema": self.shown(place), "domains": domains, "text": found.to_toml(), **_command(line)}

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

    def price(self, table: str, epsilon: str) -> dict[str, Any]:
        """What a release would cost and leave, before anything is spent."""
        cost = rational(epsilon, "epsilon", above=0)
        unit = Unit.USER if self.schema(table).user else Unit.ITEM
        promise = Guarantee(cost, 0, unit=unit, neighbours=Neighbours.ADD_REMOVE)
        kept = self.balance(table)
        if not kept["exists"]:
            raise ParameterError("there is no budget for this table yet: make one first")
        after = Fraction(kept["left"]) - cost
        told = {"epsilon": shown(cost), "left": kept["left_shown"], "after": shown(max(after, Fraction(0)))}
        told |= {"enough": after >= 0, "head": kept["head"], "ledger": kept["ledger"]}
        return told | {"promise": promise.summary, "odds": promise.odds, "alarming": promise.strength.alarming}

    # Releases

    def learn(self, table: str, epsilon: str, rule: str | None, evaluate: bool, head: str) -> dict[str, Any]:
        """Learn a rule by the command that is shown."""
        with self._turn(table, head):
            out, report = self._free(table, "rule")
            line = words.learn_words(
                table,
                self.shown(self.schema_of(table)),
                epsilon=epsilon,
                rule=rule,
                evaluate="1/5" if evaluate else None,
                ledger=self.shown(self.ledger_of(table)),
                out=self.shown(out),
                report=self.shown(report),
            )
            return self._finish("rule", table, line, out, report)

    def learn_command(self, table: str, epsilon: str, rule: str | None, evaluate: bool) -> dict[str, Any]:
        """The command alone, for the page to show before anybody confirms it."""
        out, report = self._free(table, "rule")
        told = {"ledger": self.shown(self.ledger_of(table)), "out": self.shown(out), "report": self.shown(report)}
        share = "1/5" if evaluate else None
        schema = self.shown(self.schema_of(table))
        return _command(words.learn_words(table, schema, epsilon=epsilon, rule=rule, evaluate=share, **told))

    def evaluate(self, rule: str, table: str, epsilon: str, head: str | None) -> dict[str, Any]:
        """Measure a learned rule by the command that is shown; without a head only the command is told."""
        found = next((kept for kept in self.results if kept["what"] == "rule" and kept["saved"] == rule), None)
        if found is None:
            raise ParameterError("choose a rule that was learned here")
        out, report = self._free(table, "evaluation")
        told = {"ledger": self.shown(self.ledger_of(table)), "out": self.shown(out), "report": self.shown(report)}
        schema, same = self.shown(self.schema_of(table)), found["table"] == table
        line = words.evaluate_words(rule, table, schema, epsilon=epsilon, same_people=same, **told)
        if head is None:
            return _command(line)
        with self._turn(table, head):
            return self._finish("evaluation", table, line, out, report)

    @contextmanager
    def _turn(self, table: str, head: str) -> Iterator[None]:
        """One release at a time, paid from the balance that was shown."""
        if not self._working.acquire(blocking=False):
            raise Busy("something is being learned or measured already; wait until it is done")
        try:
            if self.balance(table).get("head") != head:
                raise LedgerError("the ledger has changed since its balance was shown; nothing was spent, look again")
            yield
        finally:
            self._working.release()

    def _finish(self, what: str, table: str, line: list[str], out: Path, report: Path) -> dict[str, Any]:
        ran = words.run(line, self.start)
        if ran.code not in (0, 3):
            return {"failed": ran.err or "it failed", "code": ran.code, **_command(line)}
        kept: dict[str, Any] = {
            "what": what,
            "table": table,
            "saved": self.shown(out),
            "text": ran.out,
            **_command(line),
        }
        released = load(out)
        promise, rule = released.guarantee, released.hypothesis
        kept["title"] = str(rule) if isinstance(rule, Rule) else ran.out.splitlines()[0]
        kept["released"] = bool(released)
        if promise is not None:
            kept |= {"promise": promise.summary, "odds": promise.odds, "alarming": promise.strength.alarming}
        kept["lines"] = _lines(ran.out)
        kept["warnings"] = [said.partition("warning: ")[2] for said in ran.err.splitlines() if "warning: " in said]
        if report.exists():
            secret = secrets.token_urlsafe(24)
            self._reports[secret] = report
            kept |= {"report": f"/report/{secret}", "report_file": self.shown(report)}
        self.results.append(kept)
        return kept

    def report(self, secret: str) -> Path | None:
        """The report behind an address that only this page knows."""
        return self._reports.get(secret)


def _command(line: list[str]) -> dict[str, Any]:
    return {"command": words.command_line(line)}


def _lines(text: str) -> list[str]:
    """What a result says beside its first line, without where it was written and what the promise says anyway."""
    dropped = ("rule written", "report written", "evaluation written", "in words:", "budget left")
    return [line for line in text.splitlines()[1:] if not line.startswith(dropped) and "-DP per " not in line]


def _said(value: Any) -> str:
    return "" if value in (None, "?") else str(value)


def _domain(domain: Any) -> Any:
    return None if domain is None else domain_value(domain)


def _type(kind: pl.DataType | None) -> str:
    """A type in a word."""
    if kind is None:
        return ""
    tests = (("whole numbers", kind.is_integer()), ("numbers", kind.is_float()), ("yes or no", kind == pl.Boolean))
    dates = kind == pl.Date or isinstance(kind, pl.Datetime)
    return next((word for word, fits in (*tests, ("dates", dates), ("text", not kind.is_numeric())) if fits), "")
