"""``privpac protocol``: a run over data that stay with the people, each role its own command.

analyzer: ``keys``, ``analyze``; coordinator: ``keys --coordinator``, ``new``; every person: ``device``, ``trust``,
``client``; whoever collects: ``tokens``, ``collect``; shuffler: ``shuffle``
(:mod:`privpac.cli.protocol`).
"""

from __future__ import annotations

import json as json_format
import re
import secrets
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from attrs import asdict
from rich.table import Table

from privpac.cli.app import NOTHING, Commands, app, errors, fail, working
from privpac.cli.deliver import deliver
from privpac.cli.jobs import command
from privpac.cli.options import (
    METHOD,
    Features,
    HeaderLine,
    Json,
    Label,
    Names,
    Separator,
    User,
    check_targets,
    csv_format,
    features_of,
    table_argument,
)
from privpac.data import Domain, UserData
from privpac.data.spec import TableSpec
from privpac.device.client import Client, read_records
from privpac.device.correlated_sampling import rate
from privpac.device.keys import AnalyzerKey, CoordinatorKey, fingerprint
from privpac.device.manifest import Manifest, told
from privpac.device.store import ACCEPTED, Device
from privpac.device.submit import NAME, fetch, read_token, submit
from privpac.device.tasks import KINDS, types_of
from privpac.device.wire import bundle
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.files import write_durably
from privpac.guarantee import positive_int
from privpac.lazy import need
from privpac.methods.agreement.agreement_learner import simulate_agreement
from privpac.parameters import DEFAULT_BETA
from privpac.protocols.analyzer import Analysis, analyze_central, analyze_local, analyze_shuffled, guarantee_of
from privpac.protocols.demo import Demo
from privpac.protocols.demo import demo as run_demo
from privpac.protocols.files import (
    Submitted,
    once,
    read_folder,
    read_manifest,
    read_shuffled,
    unpack_folder,
    write_shuffled,
)
from privpac.protocols.protocol import ShuffleProtocol, new_protocol
from privpac.protocols.shuffler import Shuffler
from privpac.report.compare import write_demo_report
from privpac.result import Released
from privpac.rules.base import RULES
from privpac.rules.named import rule_class
from privpac.rules.populations import standard_population

protocol = Commands(
    help="Learn from data that stay with the people: local, shuffled or central messages.", no_args_is_help=True
)
app.add_typer(protocol, name="protocol")

ManifestFile = Annotated[Path, typer.Argument(help="The manifest's file, made with: privpac protocol new")]
CoordinatorFiles = Annotated[
    list[Path],
    typer.Option(
        "--coordinator-key",
        help="Public key (NAME.pub) of a coordinator whose runs are taken; get it from them, not from the collector. "
        "Repeat.",
    ),
]


def in_arguments(option: str, variable: str) -> Any:
    """A hidden option that refuses a token among the arguments of a command."""

    def refuse(value: str | None) -> None:
        if value is not None:
            raise ParameterError(
                f"{option} would show the token to every user of this machine: put it into the environment variable "
                f"{variable}, or into a file and say {option}-file PATH (- is standard input)"
            )

    return typer.Option(option, hidden=True, callback=refuse)


@command(
    new_protocol,
    group=protocol,
    leave_out="task seed analyzer",
    panels={METHOD: "min_records max_records width beta neighbours"},
    flags={"label": ("--label", "-y"), "delta": ("--delta", "-d")},
    help={
        "label": "Column with the 0/1 label.",
        "delta": "For shuffle and central, e.g. 1e-6; central without it is pure.",
        "n_min": "For shuffle: honest clients at least; with fewer nothing is released.",
        "n_max": "For shuffle: clients at most; ten times n-min if left out.",
        "width": "Bits of a chunk of a long item.",
        "min_records": "Records below which a device has nothing to say.",
        "max_records": "Records a device reads at most.",
        "beta": f"Where no two people agree, a rule is released with at most this probability ({float(DEFAULT_BETA)}).",
        "neighbours": "Of a central run: add-remove (the default) or replace.",
    },
)
def new_command(
    out: Annotated[Path, typer.Argument(help="Where to write the manifest.")],
    feature: Features,
    model: Annotated[str, typer.Option("--model", "-m", help="local, shuffle or central.")] = "local",
    rule: Annotated[str, typer.Option("--rule", "-r", help=f"{', '.join(KINDS)}.")] = "threshold",
    gamma: Annotated[
        str | None,
        typer.Option(
            help="How sharply errors count in a race, e.g. 60 (the default). Larger needs more records.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another public parameter of the rule: grid=20. Repeat.", rich_help_panel=METHOD),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The analyzer's public key (NAME.pub), to which messages are sealed.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(help="The coordinator's private key (NAME.key), made with: privpac protocol keys --coordinator"),
    ] = None,
    unsealed: Annotated[
        bool,
        typer.Option(
            "--unsealed",
            help="A shuffled or central run whose messages everyone on the way can read.",
            rich_help_panel=METHOD,
        ),
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Fix, sign and write everything that is public, with a fresh seed.

    privpac protocol new run.json --feature age=0:99 --label ill --epsilon 1 --key analyzer.pub --sign coordinator.key
    """
    if sign is None:
        raise ParameterError(
            "say whose run it is: --sign coordinator.key, made with: privpac protocol keys coordinator --coordinator. "
            "Devices take no manifest without a signature"
        )
    signer = CoordinatorKey.read(bytes_of(sign))
    if key is None and model in ("shuffle", "central") and not unsealed:
        raise ParameterError(
            f"--model {model} needs --key, the analyzer's public key, made with: privpac protocol keys analyzer (or "
            "--unsealed: whoever carries the messages can read them)"
        )
    if key is not None and unsealed:
        raise ParameterError("--key seals the messages and --unsealed leaves them open; give one of the two")
    with working("calibrating"):
        run = new_protocol(
            rule,
            features_of(feature),
            task=task_parameters(rule, gamma, parameter or []),
            analyzer=None if key is None else AnalyzerKey.read_public(bytes_of(key)),
            model=model,
            **options,
        )
    check_targets({"the manifest": out}, {})
    if out.exists():
        raise ParameterError(
            f"{str(out)!r} exists; a manifest is never changed once people may have read it, so choose another name"
        )
    signed = run.manifest.signed(signer)
    write_durably(out, signed.published())
    if json:
        typer.echo(signed.published().decode())
    else:
        more = f", about {run.expected_messages:.0f} messages per client" if isinstance(run, ShuffleProtocol) else ""
        typer.echo(
            f"{out}: {run.guarantee.summary}, run {signed.run.hex()[:16]}{more}, signed by {fingerprint(signer.public)}"
        )


@protocol.command("keys")
def keys_command(
    out: Annotated[Path, typer.Argument(help="Name of the pair: NAME.key is secret, NAME.pub is public.")],
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="A coordinator's pair, which signs manifests, not an analyzer's.")
    ] = False,
) -> None:
    """Make the analyzer's key pair; messages sealed to NAME.pub can be read with NAME.key alone.  With --coordinator:
    make the pair that signs manifests; devices take runs that are signed with a key they trust, and no others.

    privpac protocol keys analyzer

    privpac protocol keys coordinator --coordinator
    """
    private, public = out.with_name(f"{out.name}.key"), out.with_name(f"{out.name}.pub")
    if private.exists() or public.exists():
        raise ParameterError(f"{str(private)!r} or {str(public)!r} exists; a key is never overwritten")
    pair = CoordinatorKey.new() if coordinator else AnalyzerKey.new()
    secret, published = pair.write()
    write_durably(private, secret, 0o600)
    write_durably(public, published)
    if coordinator:
        typer.echo(
            f"{private}: keep it secret, it signs for you (--sign of: privpac protocol new); {public}: give it to "
            f"everyone who takes part, by a way that the collector cannot change. Its fingerprint, for letters and "
            f"telephones: {fingerprint(pair.public)}"
        )
    else:
        typer.echo(
            f"{private}: keep it secret, the analysis needs it; {public}: give it to --key of: privpac protocol new"
        )


@protocol.command()
def device(
    store: Annotated[Path, typer.Argument(help="Folder of the device's own; made if it is not there.")],
    person: Annotated[str, typer.Option(help="Whose records these are: the name at the collector.")],
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="What all runs together may cost.")],
    coordinator_key: CoordinatorFiles,
    delta: Annotated[str, typer.Option("--delta", "-d", help="What all runs together may cost.")] = "0",
    accept: Annotated[
        list[str] | None,
        typer.Option(help="A trust model this person agrees to; local and shuffle if left out. Repeat."),
    ] = None,
    unsealed: Annotated[
        bool, typer.Option("--unsealed", help="Also join shuffled and central runs that others on the way can read.")
    ] = False,
) -> None:
    """Make a person's store: a total over all runs, charged before anything is sent.

    privpac protocol device mine --person ann --epsilon 1 --delta 1e-6 --coordinator-key coordinator.pub
    """
    total = rational(epsilon, "epsilon", above=0), rational(delta, "delta", minimum=0, below=1)
    keys = [CoordinatorKey.read_public(bytes_of(path)) for path in coordinator_key]
    owned = Device.new(store, person, *total, accept or ACCEPTED, unsealed=unsealed, coordinators=keys)
    typer.echo(f"{store}: {person}, epsilon {owned.epsilon} and delta {owned.delta} in all, {', '.join(owned.accepts)}")
    _trusts(keys)


@protocol.command()
def trust(
    store: Annotated[Path, typer.Argument(help="The person's store, made with: privpac protocol device")],
    coordinator_key: CoordinatorFiles,
) -> None:
    """Take runs of another coordinator, too; the total over all runs stays what it is.

    privpac protocol trust mine --coordinator-key other.pub
    """
    own, keys = Device.open(store), [CoordinatorKey.read_public(bytes_of(path)) for path in coordinator_key]
    for key in keys:
        own.trust(key)
    _trusts(keys)


def _trusts(keys: list[bytes]) -> None:
    for key in keys:
        typer.echo(f"trusts the coordinator {fingerprint(key)}: compare it with what they told you")


@protocol.command()
def client(
    manifest: ManifestFile,
    records: Annotated[Path, typer.Argument(help="The person's own records, a CSV file with a header.")],
    store: Annotated[Path, typer.Option(help="The person's store, made with: privpac protocol device")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the messages to this file.")] = None,
    url: Annotated[str | None, typer.Option(help="Send them to a collector, e.g. http://127.0.0.1:8765")] = None,
    name: Annotated[str | None, typer.Option(help="The person's name; the store must be theirs.")] = None,
    token_file: Annotated[
        str | None, typer.Option(help="File with the name's token (- is standard input); else PRIVPAC_TOKEN has it.")
    ] = None,
    token: Annotated[str | None, in_arguments("--token", "PRIVPAC_TOKEN")] = None,
    authority: Annotated[Path | None, typer.Option(help="Certificates to trust, for a collector with its own.")] = None,
    max_epsilon: Annotated[str | None, typer.Option(help="Refuse a run that asks for more.")] = None,
    max_delta: Annotated[str | None, typer.Option(help="Refuse a run that asks for more.")] = None,
) -> None:
    """Turn one person's records into messages, on their own device.

    privpac protocol client run.json mine.csv --store mine --url http://127.0.0.1:8765
    """
    if (out is None) == (url is None):
        raise ParameterError("say where the messages go: --out FILE or --url ADDRESS")
    bearer = None if url is None else read_token(token_file)
    own = Device.open(store)
    if url is not None and not NAME.fullmatch(own.person):
        raise ParameterError("--url needs a store whose person has 1 to 100 letters, digits and . _ - @, no dot first")
    limits: list[Fraction | None] = [
        None if text is None else rational(text, what, minimum=0)
        for text, what in ((max_epsilon, "max-epsilon"), (max_delta, "max-delta"))
    ]
    run = read_manifest(manifest)
    own.agrees(run, name)
    check_targets({"--out": out}, {"the manifest": manifest, "the records": records})
    sending = Client(run, *limits).kept(read_records(run, records), store=own, person=name)
    if out is not None:
        write_durably(out, bundle(sending.messages))
    else:
        trusted = None if authority is None else str(authority)
        submit(str(url), own.person, bundle(sending.messages), bearer, run=run.run, authority=trusted)
    again = " again, the same bytes as before" if sending.again else ""
    used = own.spent
    typer.echo(
        f"sent for {own.person}{again}, run {run.run.hex()[:16]}: {guarantee_of(run).summary}\n"
        f"{told(run)} Spent so far: epsilon {used[0]} of {own.epsilon}, delta {used[1]} of {own.delta}."
    )


# Parts


def task_parameters(rule: str, gamma: str | None, texts: list[str]) -> dict[str, int | str]:
    """Public parameters of a task, from --gamma and --set; read as what the rule needs: alpha=1 is a text, grid=1 an
    integer."""
    types = types_of(rule)
    out: dict[str, int | str] = {} if gamma is None else {"Gamma": rate(gamma)}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in out:
            raise ParameterError(f"a parameter is written name=value, each once; got {text!r}")
        whole = types.get(name, int) is int and re.fullmatch(r"-?[0-9]{1,30}", value)
        out[name] = int(value) if whole else value
    return out


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(f"cannot read {str(path)!r}: {error.strerror}") from None


# ``privpac protocol tokens | collect | shuffle | analyze``: what happens to messages after they left the devices.


Skip = Annotated[
    bool, typer.Option("--skip-damaged", help="Leave out files that are no whole submissions of this run, and go on.")
]
OperatorFile = Annotated[
    str | None,
    typer.Option(
        help="File with the token for which the collector gives everything (- is standard input); else "
        "PRIVPAC_OPERATOR has it."
    ),
]
Operator = Annotated[str | None, in_arguments("--operator", "PRIVPAC_OPERATOR")]


@protocol.command()
def tokens(
    out: Annotated[Path, typer.Argument(help="Where to write a line 'name token' for every name.")],
    name: Annotated[list[str] | None, typer.Option("--name", help="A client's name. Repeat.")] = None,
    names: Annotated[Path | None, typer.Option(help="File with a name on every line.")] = None,
) -> None:
    """Make the tokens with which clients show the collector who they are, each its own.

    privpac protocol tokens tokens.txt --names people.txt
    """
    listed = [*(name or []), *(_lines(names) if names is not None else [])]
    if not listed:
        raise ParameterError("tokens for whom? say --name ann --name bob, or --names with a file of them")
    strange = sum(not NAME.fullmatch(each) for each in listed)
    if strange or len(set(listed)) < len(listed):
        raise ParameterError(
            f"{strange} of {len(listed)} names are not 1 to 100 letters, digits and . _ - @"
            if strange
            else "a name occurs twice; every client has one of its own"
        )
    check_targets({"the tokens": out}, {} if names is None else {"the names": names})
    if out.exists():
        raise ParameterError(f"{str(out)!r} exists; tokens that people may hold are never overwritten")
    write_durably(out, "".join(f"{each} {secrets.token_urlsafe(24)}\n" for each in listed).encode(), 0o600)
    typer.echo(
        f"{out}: {len(listed)} tokens; give everyone their own, and the file to --tokens of: privpac protocol collect"
    )


@protocol.command()
def collect(
    manifest: ManifestFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the submissions, one file per client.")],
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(help="Address to listen on; others need --tokens.")] = "127.0.0.1",
    tokens: Annotated[Path | None, typer.Option(help="File with a line 'name token' for every client allowed.")] = None,
    operator_file: OperatorFile = None,
    operator: Operator = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate chain, for TLS.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front encrypts.")] = False,
    origin: Annotated[
        str | None, typer.Option(help="A page that browsers may send from, e.g. https://study.example")
    ] = None,
    rate: Annotated[int, typer.Option(help="Requests of one address in a minute; 0 for no limit.", min=0)] = 600,
    until: Annotated[int | None, typer.Option(help="Stop after so many clients.", min=1)] = None,
) -> None:
    """Take submissions over HTTP, one per name; stop with Ctrl-C.

    privpac protocol collect run.json --out submissions --tokens tokens.txt --port 8765
    """
    need("uvicorn", "privpac protocol collect")
    from privpac.protocols.collect import Collector

    run, known = read_manifest(manifest), None if tokens is None else _tokens(tokens)
    if run.coordinator is None:
        raise ParameterError(
            f"{str(manifest)!r} is not signed, and no device would take it; make it with: privpac protocol new --sign"
        )
    if (certificate is None) != (private_key is None):
        raise ParameterError("TLS needs both --certificate and --private-key")
    operates = read_token(operator_file, "PRIVPAC_OPERATOR")
    if operates is not None and len(operates) < 16:
        raise ParameterError("the operator's token has at least 16 characters")
    pair = None if certificate is None or private_key is None else (certificate, private_key)
    more: dict[str, Any] = {"tokens": known, "operator": operates, "certificate": pair, "behind_proxy": behind_proxy}
    more["origin"] = origin
    try:
        server = Collector(run, out, port, host=host, rate=rate, until=until, **more)
    except OSError as error:
        raise ParameterError(f"cannot write to {str(out)!r}: {error.strerror}") from None
    typer.echo(f"collecting on {'https' if pair else 'http'}://{host}:{server.server_port} into {out}")
    if known is None:
        errors.print("privpac: warning: without --tokens anyone on this machine can submit under any name")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped")


@protocol.command()
def shuffle(
    manifest: ManifestFile,
    source: Annotated[str, typer.Argument(help="Folder with one file per client, or the collector's address.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the shuffled messages.")],
    operator_file: OperatorFile = None,
    operator: Operator = None,
    authority: Annotated[Path | None, typer.Option(help="Certificates to trust, for a collector with its own.")] = None,
    skip_damaged: Skip = False,
) -> None:
    """Strip the names and mix all messages; writes nothing while fewer than n-min took part (exit code 3).

    A run is shuffled once: called again, the same bytes are written, whatever arrived since.  Sealed messages stay
    sealed: the shuffler cannot read them.
    """
    run = read_manifest(manifest)
    mixer = Shuffler(run)
    check_targets({"--out": out}, {"the manifest": manifest})
    remote = source.startswith(("http://", "https://"))
    operates = read_token(operator_file, "PRIVPAC_OPERATOR") if remote else None

    def submitted() -> Submitted:
        if not remote:
            return read_folder(run, Path(source), skip=skip_damaged)
        trusted = None if authority is None else str(authority)
        return unpack_folder(run, fetch(source, "/submissions", run.run, operates, trusted), skip=skip_damaged)

    def make() -> bytes:
        for name, messages in submitted():
            mixer.submit(name, messages)
        mixed = mixer.release()
        if mixed is None:
            raise _TooFew
        return write_shuffled(run, mixed, mixer.clients)

    try:
        with working("shuffling"):
            data = once(out.absolute().parent if remote else Path(source), run, make)
    except _TooFew:
        raise fail(
            f"{mixer.clients} clients are fewer than n_min = {mixer.fewest}; nothing was released "
            f"(dropped: {mixer.dropped})",
            NOTHING,
        ) from None
    write_durably(out, data)
    messages, clients = read_shuffled(run, data)
    again = "" if mixer.clients else ", the same as before"
    typer.echo(f"{out}: {len(messages)} messages of {clients} clients{again}; dropped: {mixer.dropped}")


class _TooFew(Exception):
    """Nothing to release yet."""


@protocol.command()
def analyze(
    manifest: ManifestFile,
    source: Annotated[Path, typer.Argument(help="Folder of submissions (local, central), or the shuffler's file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released rule as JSON.")] = None,
    key: Annotated[Path | None, typer.Option(help="The analyzer's private key (NAME.key), for a sealed run.")] = None,
    skip_damaged: Skip = False,
    json: Json = False,
) -> None:
    """Turn what was sent into one rule, and say what was received and what was dropped and why.

    A central run is selected from once: called again, the same rule is shown, whatever arrived since.
    """
    run = read_manifest(manifest)
    check_targets({"--out": out}, {"the manifest": manifest, "the messages": source})
    own = None if key is None else AnalyzerKey.read(bytes_of(key))
    with working("analyzing"):
        result = _analysis(run, source, own, skip_damaged)
    released = result.released
    text = f"{released}\n{result}"
    if json:
        text = json_format.dumps(result.to_dict() | {"released": json_format.loads(released.to_json())}, indent=1)
    deliver(released, "rule", text, {"rule": (out, released.save)}, None, note=not json)


def _analysis(run: Manifest, source: Path, key: AnalyzerKey | None, skip: bool) -> Analysis:
    if run.analyzer is not None and key is None:
        raise ParameterError("this run is sealed; give the analyzer's private key: --key analyzer.key")
    if run.protocol == "shuffle":
        messages, clients = read_shuffled(run, _read_shuffled(source))
        return analyze_shuffled(run, messages, clients, key=key)

    def submitted() -> list[tuple[Any, list[bytes]]]:
        if source.is_dir() or not source.exists():
            return list(read_folder(run, source, skip=skip))
        # Mixed: one message per client, without names.
        return [(i, [message]) for i, message in enumerate(read_shuffled(run, bytes_of(source))[0])]

    if run.protocol == "local":
        return analyze_local(run, submitted(), key=key)
    return _central_once(run, source, lambda: analyze_central(run, submitted(), key=key))


def _read_shuffled(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise ParameterError(
            f"cannot read {str(source)!r}: {error.strerror}; it is made with: privpac protocol shuffle"
        ) from None


def _central_once(run: Manifest, source: Path, analyse: Callable[[], Analysis]) -> Analysis:
    """A second draw would be a second release."""

    def make() -> bytes:
        analysis = analyse()
        return json_format.dumps([analysis.released.to_json(), analysis.to_dict()]).encode()

    folder = source if source.is_dir() else source.absolute().parent
    if not folder.exists():
        raise ParameterError(f"cannot read the folder {str(source)!r}: no such place")
    data = once(folder, run, make)
    try:
        released, values = json_format.loads(data)
        return Analysis.from_dict(Released.from_json(released), values)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError(
            f"the release kept in {str(folder)!r} is damaged; restore it: a second draw would be a second release"
        ) from None


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"cannot read {str(path)!r} as lines of text") from None


def _tokens(path: Path) -> dict[str, str]:
    pairs = [line.split() for line in _lines(path)]
    if any(len(pair) != 2 or not NAME.fullmatch(pair[0]) or len(pair[1]) < 16 for pair in pairs):
        raise ParameterError("a line of the tokens is a client's name and a token of at least 16 characters")
    if len({pair[0] for pair in pairs}) < len(pairs):
        raise ParameterError("a name has two tokens")
    return {pair[0]: pair[1] for pair in pairs}


# ``privpac protocol demo``: hundreds of simulated devices in one command; ``simulate``: how far would people agree?


_REFUSED = (
    "this shows how people's own records vote, which no guarantee covers: say --public if the table is public already, "
    "or leave the table out and let made-up people stand in"
)
_MOST_RECORDS = 1 << 22


@protocol.command("demo")
def demo_command(
    people: Annotated[int, typer.Option(help="Simulated devices.", min=50, max=20_000)] = 500,
    records: Annotated[int, typer.Option(help="Records on each device.", min=20, max=10_000)] = 200,
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Of every run.")] = "1",
    seed: Annotated[int, typer.Option(help="Of the made-up people; the mechanisms draw from the system.")] = 7,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures.")] = None,
    json: Json = False,
) -> None:
    """Local, shuffled and central runs on the same made-up people, next to a learner that holds the table.

    privpac protocol demo --report demo.html
    """
    check_targets({"--report": report}, {})
    with working("running the devices"):
        outcome = run_demo(people, records, rational(epsilon, "epsilon", above=0), seed)
    if report is not None:
        write_demo_report(outcome, report)
    if json:
        typer.echo(json_format.dumps({**asdict(outcome), "epsilon": str(outcome.epsilon)}, indent=1))
        return
    _show(outcome)
    if report is not None:
        typer.echo(f"page written to {report}")


@protocol.command()
def simulate(
    feature: Features,
    table: Annotated[str | None, table_argument("A public table; made-up people if left out.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The table is public.")] = False,
    user: User = None,
    label: Label = None,
    rule: Annotated[str, typer.Option("--rule", "-r", help=f"{', '.join(KINDS)}.")] = "threshold",
    people: Annotated[int, typer.Option("--people", "-n", help="Made-up people.", min=2, max=100_000)] = 40,
    records: Annotated[int, typer.Option("--records-per-user", "-m", help="Records each made-up person holds.")] = 200,
    noise: Annotated[str, typer.Option(help="Share of wrong labels of made-up people.")] = "0.1",
    seeds: Annotated[int, typer.Option(help="Public seeds to try; a run has one.", min=1, max=1000)] = 8,
    gamma: Annotated[
        str | None, typer.Option(help="How sharply errors count in a race, e.g. 60.", rich_help_panel=METHOD)
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another public parameter of the rule: grid=20. Repeat.", rich_help_panel=METHOD),
    ] = None,
    min_records: Annotated[
        int, typer.Option(help="Records below which a device has nothing to say.", rich_help_panel=METHOD)
    ] = 1,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    json: Json = False,
) -> None:
    """How far would people agree?  On a public table, or on made-up people, before a manifest is written.

    privpac protocol simulate --feature age=0:99 --rule threshold --people 40 --records-per-user 200

    privpac protocol simulate public.parquet --public --user id --label ill --feature age=0:99
    """
    features, task = features_of(feature), task_parameters(rule, gamma, parameter or [])
    if table is None:
        if public or user or label:
            raise ParameterError("--public, --user and --label describe a table: name it, or leave them out")
        data = _made_up(rule, features, people, positive_int(records, "--records-per-user"), noise)
    else:
        if not public:
            raise ParameterError(_REFUSED)
        if user is None or label is None:
            raise ParameterError("a table needs --user and --label")
        with working("reading the table"):
            spec = TableSpec(user, features, label)
            data = UserData.of_files(table, spec, csv_format(separator, header, names))
    with working("asking everybody"):
        agreement = simulate_agreement(rule, data, task=task, seeds=seeds, min_records=min_records, public=True)
    if json:
        typer.echo(
            json_format.dumps({**asdict(agreement), "share": agreement.share, "error": agreement.error}, indent=1)
        )
    else:
        typer.echo(str(agreement))


def _made_up(rule: str, features: dict[str, Domain], people: int, records: int, noise: str) -> UserData:
    """People of the standard model of the rule."""
    if people * records > _MOST_RECORDS:
        raise ParameterError(f"--people times --records-per-user may be at most {_MOST_RECORDS:,}")
    model = None
    if rule in RULES:
        model = standard_population(rule_class(rule, features), records_per_user=records, noise=noise)
    if model is None:
        raise ParameterError(f"there is no model of people for the rule {rule!r}: give a public table, with --public")
    return model.draw(people, np.random.default_rng(0))


def _show(outcome: Demo) -> None:
    from rich.console import Console

    table = Table(title=f"{outcome.people} people with {outcome.records} records each; right: age > 40")
    for name in ("model", "promise", "rule", "error", "people needed", "bytes each"):
        table.add_column(name)
    for row in outcome.rows:
        needed = "" if row.needed is None else f"{row.needed:,}"
        rule = row.rule if row.outcome == "released" else f"{row.rule} ({row.outcome})"
        table.add_row(row.model, row.guarantee, rule, f"{row.error:.2f}", needed, str(row.bytes_per_person))
    Console().print(table)
    for row in outcome.rows:
        typer.echo(f"{row.model}: {row.saw}" + (f"; the rule was {row.support}" if row.support else ""))
