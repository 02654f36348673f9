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
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from attrs import field, frozen

from privpac.api.learn import release_rule, warn_item_level
from privpac.api.tables import DataFields, choose_engine, users_of_files
from privpac.cli import options as shared
from privpac.cli.app import Commands, app, working
from privpac.cli.declared import SchemaFile, spec_of
from privpac.cli.deliver import check_recovery, deliver
from privpac.cli.options import check_targets, csv_format, spending_ledger
from privpac.data import Domain, UserData
from privpac.data.readers import CsvFormat
from privpac.data.spec import TableSpec
from privpac.ledger import BudgetLedger, check_room
from privpac.methods.registry import flag
from privpac.result import Released

# What a command declares of the table, by the name of its parameter.
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


@frozen(slots=False)
class Job:
    """One run of a command on a table: all that can go wrong goes wrong before anything is spent."""

    table: str
    options: Mapping[str, Any]
    """What is declared of the table, by the names of its options."""
    labelled: bool
    optional_label: bool = False
    engine: str | None = None
    ledger: Path | None = None
    ledger_head: str | None = None
    out: Path | None = None
    report: Path | None = None
    json: bool = False
    columns: dict[str, Domain | None] = field(factory=dict)
    """Columns that something else than ``--feature`` declares: a saved rule, a tree."""
    sources: dict[str, str | Path | None] = field(factory=dict)
    """Files that the command reads besides the table."""

    @cached_property
    def spec(self) -> TableSpec:
        """What is publicly known of the table; refused here, before it is touched."""
        declared = {name: value for name, value in self.options.items() if name not in ("feature", "schema", *READING)}
        return spec_of(
            self.options.get("schema"),
            feature=self.columns or self.options.get("feature"),
            labelled=self.labelled,
            optional_label=self.optional_label,
            **declared,
        )

    @property
    def written(self) -> CsvFormat:
        """How a CSV file is written."""
        return csv_format(*(self.options.get(name) for name in READING))

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
        written = self.written  # how the file is written is judged before the ledger is asked
        read = {
            "the table": self.table,
            "--ledger": self.ledger,
            "--schema": self.options.get("schema"),
            **self.sources,
        }
        check_targets({"--out": self.out, "--report": self.report}, {**read, **self.sources})
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
    group: Commands | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function ``f(..., **options)``, in the app or a ``group`` of it.

    ``options`` are the keyword parameters of the functions that it ``calls``, but those to ``leave_out`` or that it
    names itself, and ``also`` those of :data:`KNOWN` that they take as further options.  A parameter ``job`` stands
    for a table that is spent on: its columns are named by ``--feature`` where ``features``, a label is read where
    ``labels`` (None: may be read), one of more than two where ``classes``.  ``panels`` says on which page of the help
    an option stands: a title and names; the others are on the first.  ``help`` and ``flags`` replace what the
    function's own words say.
    """
    place = {each: panel for panel, names in (panels or {}).items() for each in names.split()}

    def make(body: Callable[..., None]) -> Callable[..., None]:
        hints, wanted = get_type_hints(body, include_extras=True), inspect.signature(body).parameters
        taken: dict[str, inspect.Parameter] = {}
        for function in calls:
            words = parameter_help(function)
            for parameter in inspect.signature(function).parameters.values():
                about_table = parameter.name in DataFields.__annotations__  # said by the job, but where help= names it
                asks = not about_table or parameter.name in (help or {})
                if asks and parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in leave_out.split():
                    taken[parameter.name] = _option(parameter, words, place, help or {}, flags or {})
        for each in also.split():
            taken[each] = _placed(each, KNOWN[each], None, place)
        taken = {each: parameter for each, parameter in taken.items() if each not in wanted}
        own = [
            each.replace(annotation=hints[each.name])
            for each in wanted.values()
            if each.name != "job" and each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        table: dict[str, inspect.Parameter] = {}
        if "job" in wanted:
            table = _table_options(features, labels, classes, engine)
            before = own[: list(wanted).index("job")]
            ordered = [*before, *_in_order(own[len(before) :], taken, table)]
        else:
            files = [each for each in own if each.name in _FILES]
            ordered = [*(each for each in own if each.name not in _FILES), *taken.values(), *files]
            ordered.sort(key=lambda each: each.default is not each.empty)

        def run(**values: Any) -> None:
            if table:
                own_files = {each.name: values.pop(each.name) for each in own if each.name in _FILES}
                declared = {each: values.pop(each) for each in table}
                values["job"] = Job(
                    declared.pop("table"),
                    labelled=labels is not False,
                    optional_label=labels is None,
                    engine=declared.pop("engine", None),
                    options=declared,
                    **own_files,
                )
            body(**values)

        run.__doc__, run.__name__ = body.__doc__, body.__name__
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in ordered]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in named}
        (group or app).command(body.__name__.replace("_", "-"))(run)
        return body

    return make


_FILES = ("ledger", "ledger_head", "out", "report", "json")
"""Options of a job that say where things are written and spent: last on a page."""


def _in_order(
    own: list[inspect.Parameter], taken: Mapping[str, inspect.Parameter], table: Mapping[str, inspect.Parameter]
) -> list[inspect.Parameter]:
    """The options of a job as its help lists them: what is needed, the columns, the rest, how it is read, files."""
    ends = [each for each in own if each.name in _FILES]
    middle = [each for each in own if each.name not in _FILES]
    columns = [each for each in table.values() if each.name in ("label", "feature", "user", "schema")]
    needed = [each for each in (*taken.values(), *middle) if each.default is each.empty]
    rest = [each for each in (*middle, *taken.values()) if each.default is not each.empty]
    reading = [each for each in table.values() if each.name != "table" and all(each is not one for one in columns)]
    return [table["table"], *needed, *columns, *rest, *reading, *ends]


def _table_options(features: bool, labels: bool | None, classes: bool, engine: Any) -> dict[str, inspect.Parameter]:
    kinds: dict[str, Any] = {"table": shared.Tables if engine is not None else shared.TableArgument}
    if labels is not False:
        kinds["label"] = shared.Label
    if features:
        kinds["feature"] = shared.Features
    kinds |= {"user": shared.User, "schema": SchemaFile}
    kinds["on_invalid"] = shared.OnInvalidOption
    kinds |= LABELS if labels is not False else {}
    kinds |= {"classes": shared.Classes} if classes else {}
    kinds |= READING
    options = {each: _parameter(each, kind, None) for each, kind in kinds.items()}
    options["table"] = options["table"].replace(default=inspect.Parameter.empty)
    if engine is not None:
        options["engine"] = _parameter("engine", engine, "auto")
    return options


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
        value = default if plain else str(default)
        return _placed(name, KNOWN[name], value, place)
    written, text = words.get(name, ("", ""))
    annotation = str(parameter.annotation)
    many = "Sequence" in annotation or "Iterable" in annotation
    kind: Any = bool if annotation.startswith("bool") else int if re.match(r"int\b", annotation) else str
    if default is parameter.empty or (isinstance(default, (bool, int)) and kind is not str):
        value = default
    else:
        value = None if default is None or many else str(default)
    if many:
        kind = list[int] if "[int]" in annotation else list[str]
    if value is None:
        kind = kind | None
    choices = ", ".join(re.findall(r'"([^"]+)"', written.partition("{")[2].partition("}")[0]))
    text = help.get(name) or (f"{choices}: {text[0].lower()}{text[1:]}" if choices and text else text)
    option = typer.Option(
        *flags.get(name, (flag(name),)),
        help=text,
        rich_help_panel=place.get(name),
        show_default=value is not None and not isinstance(value, bool),
    )
    return _parameter(name, Annotated[kind, option], value)


def parameter_help(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Of every parameter of a numpydoc Parameters section its type and its first sentence, in plain text.

    >>> parameter_help(spec_of)
    {}
    """
    text = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.M | re.S)
    described: dict[str, tuple[str, str]] = {}
    for entry in re.finditer(r"^(\w[\w, ]*?)(?: : (.*))?\n((?:[ \t]+.*\n?|\n)*)", section[1] if section else "", re.M):
        words = re.sub(r"``?\"?|\"?``?|:\w+:`[^`]*`", "", " ".join(entry[3].split()))
        first = re.match(r".*?[.](?= |$)|.*", words.removeprefix("Public. "))
        for name in entry[1].split(", "):
            described[name] = (entry[2] or "", first[0] if first else "")
    return described
