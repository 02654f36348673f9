"""``privpac serve``: make a prediction session, run it as a service, manage its keys."""

from __future__ import annotations

import json as json_format
import math
import os
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from privpac.cli.app import FAILED, Commands, app, fail, working
from privpac.cli.declared import FurtherSchema, spec_of
from privpac.cli.deliver import check_recovery
from privpac.cli.options import (
    METHOD,
    Epsilon,
    Features,
    HeaderLine,
    Json,
    Label,
    LabelMap,
    MaxRecords,
    Names,
    NeighboursOption,
    OnInvalidLabelOption,
    OnInvalidOption,
    People,
    Positive,
    RuleOption,
    Separator,
    User,
    check_targets,
    csv_format,
    open_ledger,
    table_argument,
)
from privpac.data import UserData
from privpac.errors import ModelFileError, ParameterError
from privpac.guarantee import Neighbours, one_of
from privpac.lazy import need
from privpac.ledger import check_room
from privpac.methods.prediction.service_plan import plan_service
from privpac.parameters import DEFAULT_BETA
from privpac.rules.named import default_rule, rule_class

serve = Commands(
    help="Answer label queries privately: fit a session, run the service, manage keys.", no_args_is_help=True
)
keys = Commands(help="Make, list and revoke API keys.", no_args_is_help=True)
app.add_typer(serve, name="serve")
serve.add_typer(keys, name="keys")

_NOMINAL_USERS = 10_000
_LOCAL = ("127.0.0.1", "::1", "localhost")

_Session = Annotated[Path, typer.Argument(help="The session's file, made with: privpac serve fit")]
_Ledger = Annotated[
    Path,
    typer.Option(
        help="Budget ledger that pays for the session and counts its answers (made with: privpac ledger new)."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help=(
            "File with the secret that encrypts the session; else PRIVPAC_SESSION_KEY (64 hexadecimal digits or a "
            "passphrase)."
        )
    ),
]
Keys = Annotated[Path | None, typer.Option("--keys", help="File of API keys; SESSION.keys if left out.")]


def _need_extra(*modules: str) -> None:
    for name in modules:
        need(name, "privpac serve")


@serve.command()
def fit(
    table: Annotated[str, table_argument("A .parquet or .csv file, or a glob of them.")],
    epsilon: Epsilon,
    queries: Annotated[int, typer.Option("--queries", "-k", help="How many new answers the service will give in all.")],
    ledger: _Ledger,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to save the encrypted session.")],
    label: Label = None,
    feature: Features = None,
    user: User = None,
    schema: FurtherSchema = None,
    rule: RuleOption = None,
    delta: Annotated[
        str,
        typer.Option(
            "--delta", "-d", help="Delta of all answers together; a positive one (1e-6) allows far more answers."
        ),
    ] = "0",
    key_file: KeyFile = None,
    neighbours: NeighboursOption = "add-remove",
    people: People = None,
    max_records: MaxRecords = None,
    epochs: Annotated[
        int,
        typer.Option(
            help="Independent splits, each for an equal part of the answers; 1 is usually best.",
            rich_help_panel=METHOD,
        ),
    ] = 1,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Choose constants with a certificate: the excess error of an answer, e.g. 0.1; says if it holds.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    beta: Annotated[str, typer.Option(help="With --alpha: failure probability allowed.", rich_help_panel=METHOD)] = str(
        float(DEFAULT_BETA)
    ),
    on_invalid: OnInvalidOption = None,
    on_invalid_label: OnInvalidLabelOption = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    json: Json = False,
) -> None:
    """Spend a guarantee for a number of answers and learn a session that can give them.

    privpac serve fit visits.parquet -u patient -y event -f glucose -e 1 --delta 1e-6 -k 100 --ledger b.db --key-file
    s.key -o s.ppm
    """
    _need_extra("cryptography")
    from privpac.serve.session_file import new_secret, operator_secret, rule_name, save_session

    # Parameters first, then places to write to, then the file; only then is the whole guarantee spent, and only then
    # are data used.
    said: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    said |= {"on_invalid_label": on_invalid_label}
    spec = spec_of(schema, user=user, feature=feature, labelled=True, **said)
    features = spec.domains
    rule = rule or default_rule(features)
    concept = rule_class(rule, features)
    rule_name(concept)
    relation = one_of(Neighbours, neighbours, "neighbours")
    planning: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "queries": queries,
        "neighbours": relation,
        "unit": spec.unit,
    }
    planning |= {"max_records": max_records, "epochs": epochs, "alpha": alpha, "beta": beta}
    declared = people or (_NOMINAL_USERS if relation is Neighbours.ADD_REMOVE else None)
    with working("planning"):
        plan = None if declared is None else plan_service(concept, public_n_users=declared, **planning)
    check_targets({"--out": out}, {"the table": table, "--ledger": ledger, "--key-file": key_file, "--schema": schema})
    if out.exists():
        raise ParameterError(
            f"{str(out)!r} exists already; a session is never replaced by the way, choose another name"
        )
    book = open_ledger(ledger)
    check_recovery(ledger)
    if plan is not None:
        check_room(plan.predictor, book)
    made_key = key_file is not None and not key_file.exists()
    if made_key and key_file is not None:
        new_secret(key_file)
    secret = operator_secret(key_file)
    with working("reading the table"):
        data = UserData.of_files(table, spec, csv_format(separator, header, names))
    if plan is None:  # under replace the number of people is public
        plan = plan_service(concept, public_n_users=data.n_users, **planning)
    with working("learning the session"):
        session = plan.predictor.learn(data, ledger=book)
    try:
        save_session(session, out, secret)
    except ModelFileError as error:
        spare = Path(os.path.realpath(ledger)).with_name(f"{ledger.name}.{session.session_id[:8]}.result.ppm")
        kept = f"it is kept in {str(spare)!r}"
        try:
            save_session(session, spare, secret)
        except ModelFileError:
            kept = "what was spent stays spent"
        raise fail(f"the session was paid for, but {error}; {kept}", FAILED) from None
    guarantee = plan.predictor.guarantee
    if json:
        body = {"session_id": session.session_id, "guarantee": guarantee.to_dict(), "queries": session.queries}
        body |= {"parameters": dict(session.parameters), "expected_error": round(plan.expected_error, 6)}
        body |= {"promised_excess": math.ceil(plan.promised_excess * 1e6) / 1e6, "beta": str(plan.beta)}
        typer.echo(json_format.dumps(body, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(
        f"session of {rule} rules on {', '.join(features)}: {session.queries} answers, {guarantee.summary} for all of "
        "them together"
    )
    console.print(
        f"expected error beyond the best rule: about {plan.expected_error:.2g} (estimate for {declared or 'the'} "
        "people)"
    )
    console.print(
        f"certified: at most {math.ceil(plan.promised_excess * 1000) / 1000:g} beyond the best rule, but for "
        f"{float(plan.beta):g}"
        if plan.promised_excess < 1
        else "nothing is certified for so few people; privpac plan --queries says how many it takes"
    )
    if people is None and relation is Neighbours.ADD_REMOVE:
        console.print(f"planned for {_NOMINAL_USERS} people; declare --people for a better plan")
    if made_key:
        console.print(f"key written to {key_file}; without it the session cannot be opened")
    console.print(f"session written to {out}; next: privpac serve keys new {out} --name operator --operator")


@serve.command()
def run(
    session: _Session,
    ledger: _Ledger,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes; they share the ledger's count.")] = 1,
    key_file: KeyFile = None,
    keys_file: Keys = None,
) -> None:
    """Answer queries over HTTP until stopped; every answer is in the ledger before it leaves."""
    _need_extra("cryptography", "fastapi", "uvicorn")
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from privpac.connections import listen, server_config
    from privpac.serve.app import CONFIGURATION, Configuration
    from privpac.serve.keys import KeyStore
    from privpac.serve.responses import ServiceConnection
    from privpac.serve.session_file import load_session, operator_secret

    store = _keys_of(session, keys_file)
    with open_ledger(ledger) as book:  # whatever is wrong is said here, in one line, before any worker starts
        opened = load_session(session, operator_secret(key_file), book)
        left = opened.remaining()
    if not [key for key in KeyStore(store).all() if key.revoked is None]:
        raise ParameterError(
            f"there are no API keys yet; make one with: privpac serve keys new {session} --name operator --operator"
        )
    places = {"session": session, "ledger": ledger, "keys": store}
    found = {name: str(path.resolve()) for name, path in places.items()}
    os.environ[CONFIGURATION] = Configuration(
        **found, key_file=None if key_file is None else str(key_file.resolve())
    ).to_json()
    listener = listen(host, port)
    typer.echo(
        f"{left} of {opened.queries} answers left; console at http://{f'[{host}]' if ':' in host else host}:{port}/",
        err=True,
    )
    if host not in _LOCAL:
        typer.echo(
            "keys travel in clear over HTTP: put a TLS proxy in front of any address but this machine's own", err=True
        )
    config = server_config("privpac.serve.app:from_environment", ServiceConnection, factory=True, workers=workers)
    try:
        if workers == 1:
            uvicorn.Server(config).run([listener])
        else:
            # Older servers are told what a worker runs, newer ones know.
            told = {"target": uvicorn.Server(config).run} if "target" in signature(Multiprocess).parameters else {}
            Multiprocess(config, sockets=[listener], **told).run()
    except SystemExit:  # the server's own codes mean other things here
        raise fail("the service could not start; see the lines above", FAILED) from None


# Keys


def _keys_of(session: Path, chosen: Path | None) -> Path:
    return session.with_name(session.name + ".keys") if chosen is None else chosen


@keys.command("new")
def new_command(
    session: _Session,
    name: Annotated[str, typer.Option(help="Who will use the key.")],
    share: Annotated[
        int | None,
        typer.Option(
            help=(
                "The most new answers this key may get (0: only what was asked before); no limit of its own if left "
                "out."
            )
        ),
    ] = None,
    operator: Annotated[bool, typer.Option("--operator", help="May also manage keys in the console.")] = False,
    keys_file: Keys = None,
    json: Json = False,
) -> None:
    """Make a key; it is shown once."""
    from privpac.serve.keys import KeyStore, Role

    key, token = KeyStore(_keys_of(session, keys_file)).new(name, Role.OPERATOR if operator else Role.ANALYST, share)
    typer.echo(
        json_format.dumps(key.public() | {"token": token}, indent=2)
        if json
        else f"{token}\n(key {key.id} of {key.name}; shown only now)"
    )


@keys.command("list")
def list_keys(session: _Session, keys_file: Keys = None, json: Json = False) -> None:
    """All keys, without their secrets."""
    from privpac.serve.keys import KeyStore

    found = KeyStore(_keys_of(session, keys_file)).all()
    if json:
        typer.echo(json_format.dumps([key.public() for key in found], indent=2))
        return
    table = Table("id", "name", "role", "share", "made", "revoked")
    for key in found:
        table.add_row(
            key.id,
            key.name,
            key.role,
            "no limit" if key.share is None else str(key.share),
            key.created[:10],
            (key.revoked or "")[:10],
        )
    Console(highlight=False, markup=False).print(table if found else "no keys yet")


@keys.command()
def revoke(
    session: _Session, identity: Annotated[str, typer.Argument(help="The key's id.")], keys_file: Keys = None
) -> None:
    """Stop a key from working, for good."""
    from privpac.serve.keys import KeyStore

    key = KeyStore(_keys_of(session, keys_file)).revoke(identity)
    typer.echo(f"key {key.id} of {key.name} is revoked")
