"""Commands made from what they call, and the one way from a table to a delivered result.

``@command(pp.quantile, ...)`` gives a command the options of the function that it calls: names, types and defaults from
its signature, help from its Parameters section.  A command that reads a table gets the fields of a ``TableSpec`` as
options as well, and a :class:`Job` that reads the table, spends, and hands over what was released.  What the library
checks is not checked here again: its errors name options because :func:`privpac.methods.registry.flag` maps the names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from privpac.api.learn import release_rule, warn_item_level
from privpac.api.tables import DataFields, choose_engine, users_of_files
from privpac.cli import options as shared
from privpac.cli.app import app, working
from privpac.cli.declared import SchemaFile, spec_of
from privpac.cli.deliver import check_recovery, deliver
from privpac.cli.options import check_targets, csv_format, spending_ledger
from privpac.data import Domain, UserData
from privpac.data.readers import CsvFormat
from privpac.data.spec import TableSpec
from privpac.ledger import BudgetLedger, check_room
from privpac.methods.registry import flag
from privpac.result import Released

# What a command is told of the table, by the name of its parameter.
LABELS: dict[str, Any] = {
    "on_invalid_label": shared.OnInvalidLabelOption,
    "label_map": shared.LabelMap,
    "positive": shared.Positive,
}
READING: dict[str, Any] = {"separator": shared.Separator, "header": shared.HeaderLine, "names": shared.Names}
KNOWN: dict[str, Any] = {
    "epsilon": shared.Epsilon,
    "neighbours": shared.NeighboursOption,
    "max_records": shared.MaxRecords,
    "public_n_users": shared.People,
    "people": shared.PeopleAre,
    "records_per_user": shared.RecordsPerUser,
    "delta": shared.Delta,
}
"""Parameters that mean the same in every command."""


@dataclass(frozen=True)
class Job:
    """One run of a command on a table: all that can go wrong goes wrong before anything is spent."""

    table: str
    told: Mapping[str, Any]
    """What the table's options say."""
    labelled: bool
    optional_label: bool = False
    engine: str | None = None
    ledger: Path | None = None
    ledger_head: str | None = None
    out: Path | None = None
    report: Path | None = None
    json: bool = False
    columns: dict[str, Domain | None] = field(default_factory=dict)
    """Columns that something else than ``--feature`` declares: a saved rule, a tree."""
    sources: dict[str, str | Path | None] = field(default_factory=dict)
    """Files that the command reads besides the table."""

    @cached_property
    def spec(self) -> TableSpec:
        """What is publicly known of the table; refused here, before it is touched."""
        said = {name: value for name, value in self.told.items() if name not in ("feature", "schema", *READING)}
        return spec_of(
            self.told.get("schema"),
            feature=self.columns or self.told.get("feature"),
            labelled=self.labelled,
            optional_label=self.optional_label,
            **said,
        )

    @property
    def written(self) -> CsvFormat:
        """How a CSV file is written."""
        return csv_format(*(self.told.get(name) for name in READING))

    def release(
        self,
        learner: Any,
        what: str,
        doing: str,
        *,
        release: Callable[..., Released] = release_rule,
        before: Callable[[], Any] = lambda: None,
        report: Callable[[Released, Path, Any], None] | None = None,
        shown: Callable[[Released], str] = str,
        json: Callable[[Released], str] = Released.to_json,
    ) -> None:
        """Look at the places to write to, ask the ledger for room, read the table, spend, hand over.

        ``before`` is what a report needs to know before the data are touched.
        """
        written = self.written  # what is said of the file is judged before the ledger is asked
        read = {"the table": self.table, "--ledger": self.ledger, "--schema": self.told.get("schema"), **self.sources}
        check_targets({"--out": self.out, "--report": self.report}, read)
        ledger: BudgetLedger | None = spending_ledger(self.ledger, self.ledger_head)
        check_recovery(self.ledger)
        check_room(learner, ledger)
        engine = choose_engine(self.table, self.engine or "memory")
        bar: Callable[[str], Any] = nullcontext if engine == "stream" else working  # streams show the rows they read
        with bar("reading the table"):
            data = users_of_files(self.table, self.spec, engine=engine, written=written)
        known = None
        if self.report is not None:
            with working("planning"):
                known = before()
        if release is release_rule:  # others say it themselves
            warn_item_level(data)
        with bar(f"{doing} from {data.n_records:,} records" if isinstance(data, UserData) else doing):
            released = release(learner, data, ledger=ledger)  # on a terminal, for the curator
        # From here on the result is paid for.
        writes: dict[str, tuple[Path | None, Callable[[Path], None]]] = {what: (self.out, released.save)}
        if report is not None:
            writes["report"] = (self.report, lambda path: report(released, path, known))
        deliver(
            released, what, json(released) if self.json else shown(released), writes, self.ledger, note=not self.json
        )


def command(
    *calls: Callable[..., Any],
    leave_out: str = "",
    panels: Mapping[str, str] | None = None,
    help: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, ...]] | None = None,
    also: str = "",
    features: bool = True,
    labels: bool | None = False,
    classes: bool = False,
    engine: Any = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function ``f(job, ..., **asked)``.

    ``asked`` are the parameters of the functions that it ``calls`` that have no default or a keyword, but those to
    ``leave_out``, and ``also`` those of :data:`KNOWN` that they take as further options.  A parameter ``job`` stands
    for the table: its columns are named by ``--feature`` where ``features``, a label is read where ``labels`` (None:
    may be read), one of more than two where ``classes``.  ``panels`` says on which page of the help an option stands: a
    title and names; the others are on the first.  ``help`` and ``flags`` replace what the function's own words say.
    """
    place = {each: panel for panel, names in (panels or {}).items() for each in names.split()}

    def make(body: Callable[..., None]) -> Callable[..., None]:
        hints, wanted = get_type_hints(body, include_extras=True), inspect.signature(body).parameters
        asked: dict[str, inspect.Parameter] = {}
        for function in calls:
            words = parameter_help(function)
            for parameter in inspect.signature(function).parameters.values():
                asks = parameter.name not in DataFields.__annotations__  # what is said of the table is the job's
                if asks and parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in leave_out.split():
                    asked[parameter.name] = _option(parameter, words, place, help or {}, flags or {})
        for each in also.split():
            asked[each] = _placed(each, KNOWN[each], None, place)
        asked = {each: parameter for each, parameter in asked.items() if each not in wanted}
        table = _table_options(features, labels, classes, engine)
        own = [
            each.replace(annotation=hints[each.name])
            for each in wanted.values()
            if each.name != "job" and each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        place_of_job = list(wanted).index("job")
        before, after = own[:place_of_job], own[place_of_job:]
        files = {"ledger", "ledger_head", "out", "report", "json"}
        ends = [each for each in after if each.name in files]
        first = [table["table"]]
        needed = [each for each in asked.values() if each.default is each.empty]
        main = [each for each in table.values() if each.name in ("label", "feature", "user", "schema")]
        rest = [each for each in asked.values() if each.default is not each.empty]
        left = [each for each in table.values() if all(each is not one for one in (*first, *main))]
        middle = [each for each in after if each.name not in files]
        ordered = [*before, *first, *needed, *(e for e in middle if e.default is e.empty), *main]
        ordered += [*(e for e in middle if e.default is not e.empty), *rest, *left, *ends]

        def run(**values: Any) -> None:
            job = Job(
                values["table"],
                {each: values[each] for each in table if each not in ("table", "engine")},
                labelled=labels is not False,
                optional_label=labels is None,
                engine=values.get("engine"),
                **{each.name: values[each.name] for each in ends},
            )
            more = {each.name: values[each.name] for each in (*before, *middle)}
            body(job=job, **more, **{each: values[each] for each in asked})

        run.__doc__, run.__name__ = body.__doc__, body.__name__
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in ordered]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in named}
        app.command(body.__name__.replace("_", "-"))(run)
        return body

    return make


def _table_options(features: bool, labels: bool | None, classes: bool, engine: Any) -> dict[str, inspect.Parameter]:
    found: dict[str, Any] = {"table": shared.Tables if engine is not None else shared.TableArgument}
    if labels is not False:
        found["label"] = shared.Label
    if features:
        found["feature"] = shared.Features
    found |= {"user": shared.User, "schema": SchemaFile}
    found["on_invalid"] = shared.OnInvalidOption
    found |= LABELS if labels is not False else {}
    found |= {"classes": shared.Classes} if classes else {}
    found |= READING
    made = {each: _parameter(each, kind, None) for each, kind in found.items()}
    made["table"] = made["table"].replace(default=inspect.Parameter.empty)
    if engine is not None:
        made["engine"] = _parameter("engine", engine, "auto")
    return made


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _placed(name: str, annotation: Any, default: Any, place: Mapping[str, str]) -> inspect.Parameter:
    """A shared option on the page that a command has it on."""
    if name not in place:
        return _parameter(name, annotation, default)
    kind, option = annotation.__origin__, annotation.__metadata__[0]
    moved = typer.Option(*(option.param_decls or ()), help=option.help, rich_help_panel=place[name] or None)
    return _parameter(name, Annotated[kind, moved], default)


def _option(
    parameter: inspect.Parameter,
    words: Mapping[str, tuple[str, str]],
    place: Mapping[str, str],
    help: Mapping[str, str],
    flags: Mapping[str, tuple[str, ...]],
) -> inspect.Parameter:
    """The option that says a parameter of the library."""
    name, default = parameter.name, parameter.default
    default = default.value if isinstance(default, Enum) else default
    if name in KNOWN and name not in help:
        plain = default is None or default is parameter.empty or isinstance(default, int)
        shown = default if plain else str(default)
        return _placed(name, KNOWN[name], shown, place)
    written, text = words.get(name, ("", ""))
    said = str(parameter.annotation)
    many = "Sequence" in said or "Iterable" in said
    kind: Any = bool if said.startswith("bool") else int if re.match(r"int\b", said) else str
    if default is parameter.empty or (isinstance(default, (bool, int)) and kind is not str):
        shown = default
    else:
        shown = None if default is None or many else str(default)
    if many:
        kind = list[int] if "[int]" in said else list[str]
    if shown is None:
        kind = kind | None
    choices = ", ".join(re.findall(r'"([^"]+)"', written.partition("{")[2].partition("}")[0]))
    text = help.get(name) or (f"{choices}: {text[0].lower()}{text[1:]}" if choices and text else text)
    option = typer.Option(
        *flags.get(name, (flag(name),)),
        help=text,
        rich_help_panel=place.get(name),
        show_default=shown is not None and not isinstance(shown, bool),
    )
    return _parameter(name, Annotated[kind, option], shown)


def parameter_help(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Of every parameter of a numpydoc Parameters section its type and its first sentence, in plain text.

    >>> parameter_help(spec_of)
    {}
    """
    text = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.M | re.S)
    found: dict[str, tuple[str, str]] = {}
    for entry in re.finditer(r"^(\w[\w, ]*?)(?: : (.*))?\n((?:[ \t]+.*\n?|\n)*)", section[1] if section else "", re.M):
        words = re.sub(r"``?\"?|\"?``?|:\w+:`[^`]*`", "", " ".join(entry[3].split()))
        first = re.match(r".*?[.](?= |$)|.*", words.removeprefix("Public. "))
        for name in entry[1].split(", "):
            found[name] = (entry[2] or "", first[0] if first else "")
    return found
