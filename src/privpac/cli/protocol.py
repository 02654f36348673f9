"""``privpac protocol``: a run over data that stay with the people, each role its own command.

coordinator: ``new``; every person: ``client``; whoever collects: ``collect``; shuffler: ``shuffle``; analyzer:
``analyze``.
"""

from __future__ import annotations

import csv
import json as json_format
import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.agreement.races.words import rate
from privpac.agreement.tasks import KINDS
from privpac.cli.app import NOTHING, app, errors, fail, working
from privpac.cli.deliver import deliver
from privpac.cli.help import Commands
from privpac.cli.options import METHOD, Epsilon, Features, Json, NeighboursOption, check_targets, features_of
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.protocols.analyzer import Analysis, analyze_central, analyze_local, analyze_shuffled, promise
from privpac.protocols.client import Client, bundle
from privpac.protocols.collect import Collector, submit
from privpac.protocols.files import NAME, once, read_folder, read_manifest, read_shuffled, write_shuffled
from privpac.protocols.manifest import Manifest
from privpac.protocols.protocol import CentralProtocol, LocalProtocol, Protocol, ShuffleProtocol
from privpac.protocols.shuffler import Shuffler
from privpac.released import Released
from privpac.released_write import write_durably

__all__ = ["protocol"]

protocol = Commands(
    help="Learn from data that stay with the people: local, shuffled or central messages.", no_args_is_help=True
)
app.add_typer(protocol, name="protocol")

ManifestFile = Annotated[Path, typer.Argument(help="The manifest's file, made with: privpac protocol new")]
Folder = Annotated[Path, typer.Argument(help="Folder with one file per client; the file's name is the client's.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Save the released rule as JSON.")]


@protocol.command()
def new(
    out: Annotated[Path, typer.Argument(help="Where to write the manifest.")],
    feature: Features,
    epsilon: Epsilon,
    model: Annotated[str, typer.Option("--model", "-m", help="local, shuffle or central.")] = "local",
    rule: Annotated[str, typer.Option("--rule", "-r", help=f"{', '.join(KINDS)}.")] = "threshold",
    label: Annotated[str, typer.Option("--label", "-y", help="Column with the 0/1 label.")] = "label",
    delta: Annotated[
        str | None,
        typer.Option("--delta", "-d", help="For shuffle and central, e.g. 1e-6; central without it is pure."),
    ] = None,
    n_min: Annotated[
        int | None, typer.Option(help="For shuffle: honest clients at least; with fewer nothing is released.")
    ] = None,
    n_max: Annotated[
        int | None, typer.Option(help="For shuffle: clients at most; ten times n-min if left out.")
    ] = None,
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
    min_records: Annotated[
        int | None, typer.Option(help="Records below which a device has nothing to say.", rich_help_panel=METHOD)
    ] = None,
    max_records: Annotated[
        int | None, typer.Option(help="Records a device reads at most.", rich_help_panel=METHOD)
    ] = None,
    width: Annotated[int | None, typer.Option(help="Bits of a chunk of a long item.", rich_help_panel=METHOD)] = None,
    beta: Annotated[
        str,
        typer.Option(
            help="Where no two people agree, a rule is released with at most this probability.",
            rich_help_panel=METHOD,
        ),
    ] = "1/20",
    neighbours: NeighboursOption = "add-remove",
    json: Json = False,
) -> None:
    """Fix and write everything that is public, with a fresh seed.

    privpac protocol new run.json --model local --feature age=0:99 --label ill --epsilon 1
    """
    given: dict[str, Any] = {"label": label, "min_records": min_records, "max_records": max_records}
    given["beta"] = rational(beta, "beta", above=0, below=1)
    given["task"] = _parameters(gamma, parameter or [])
    domains = features_of(feature)
    run: Protocol
    if model == "local":
        _unused(model, {"--delta": delta, "--n-min": n_min, "--n-max": n_max})
        run = LocalProtocol(rule, domains, rational(epsilon, "epsilon"), width=width, **given)
    elif model == "shuffle":
        if delta is None or n_min is None:
            raise ParameterError(
                "--model shuffle needs --delta (1e-6) and --n-min, the honest clients expected at least"
            )
        most = 10 * n_min if n_max is None else n_max
        run = _shuffled(
            rule, domains, epsilon, {"delta": delta, "n_min": n_min, "n_max": most, "width": width, **given}
        )
    elif model == "central":
        _unused(model, {"--n-min": n_min, "--n-max": n_max, "--width": width})
        own: dict[str, Any] = {"delta": rational(delta or 0, "delta"), "neighbours": neighbours, **given}
        run = CentralProtocol(rule, domains, rational(epsilon, "epsilon"), **own)
    else:
        raise ParameterError(f"--model must be local, shuffle or central; got {model!r}")
    check_targets({"the manifest": out}, {})
    if out.exists():
        raise ParameterError(
            f"{str(out)!r} exists; a manifest is never changed once people may have read it, so choose another name"
        )
    _write(out, run.manifest.write())
    if json:
        typer.echo(run.manifest.write().decode())
    else:
        more = f", about {run.expected_messages:.0f} messages per client" if isinstance(run, ShuffleProtocol) else ""
        typer.echo(f"{out}: {run.guarantee.summary}, run {run.manifest.run.hex()[:16]}{more}")


@protocol.command()
def client(
    manifest: ManifestFile,
    records: Annotated[Path, typer.Argument(help="The person's own records, a CSV file with a header.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the messages to this file.")] = None,
    url: Annotated[str | None, typer.Option(help="Send them to a collector, e.g. http://127.0.0.1:8765")] = None,
    name: Annotated[str | None, typer.Option(help="The client's name at the collector.")] = None,
    token: Annotated[str | None, typer.Option(envvar="PRIVPAC_TOKEN", help="The name's token.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of the device's own: a message is drawn once and kept there.")
    ] = None,
    max_epsilon: Annotated[str | None, typer.Option(help="Refuse a run that asks for more.")] = None,
    max_delta: Annotated[str | None, typer.Option(help="Refuse a run that asks for more.")] = None,
) -> None:
    """Turn one person's records into messages, on their own device.

    privpac protocol client run.json mine.csv --store ~/.privpac --url http://127.0.0.1:8765 --name ann
    """
    if (out is None) == (url is None):
        raise ParameterError("say where the messages go: --out FILE or --url ADDRESS")
    if url is not None and (name is None or not NAME.fullmatch(name)):
        raise ParameterError("--url needs --name: 1 to 100 letters, digits and . _ - @, not starting with a dot")
    if url is not None and store is None:
        raise ParameterError(
            "--url needs --store: if sending fails, the same messages must be sent again, never new ones"
        )
    limits: list[Fraction | None] = [
        None if text is None else rational(text, what, minimum=0)
        for text, what in ((max_epsilon, "max-epsilon"), (max_delta, "max-delta"))
    ]
    device = Client(read_manifest(manifest), *limits)
    check_targets({"--out": out}, {"the manifest": manifest, "the records": records})
    try:
        with open(records, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise ParameterError(f"cannot read the records {str(records)!r}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ParameterError(f"{str(records)!r} is not a CSV file in UTF-8") from None
    sent = bundle(device.messages(rows, store=store))
    if out is not None:
        _write(out, sent)
    else:
        submit(str(url), str(name), sent, token)
    typer.echo(f"sent, run {device.manifest.run.hex()[:16]}: {promise(device.manifest).summary}")


@protocol.command()
def collect(
    manifest: ManifestFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the submissions, one file per client.")],
    port: Annotated[
        int, typer.Option(help="Port on this machine's own address; 0 takes a free one.", min=0, max=65535)
    ] = 8765,
    tokens: Annotated[Path | None, typer.Option(help="File with a line 'name token' for every client allowed.")] = None,
    until: Annotated[int | None, typer.Option(help="Stop after so many clients.", min=1)] = None,
) -> None:
    """Take submissions over HTTP on 127.0.0.1, one per name; stop with Ctrl-C.

    privpac protocol collect run.json --out submissions --port 8765
    """
    run, known = read_manifest(manifest), None if tokens is None else _tokens(tokens)
    try:
        server = Collector(run, out, port, tokens=known, until=until)
    except OSError as error:
        raise ParameterError(f"cannot listen on port {port} or write to {str(out)!r}: {error.strerror}") from None
    typer.echo(f"collecting on http://127.0.0.1:{server.server_port} into {out}")
    if known is None:
        errors.print("privpac: warning: without --tokens anyone on this machine can submit under any name")
    with server:
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            typer.echo("stopped")


@protocol.command()
def shuffle(
    manifest: ManifestFile,
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the shuffled messages.")],
) -> None:
    """Mix all clients' messages; writes nothing while fewer than n-min took part (exit code 3).

    A run is shuffled once: called again, the same bytes are written, whatever arrived since.
    """
    run = read_manifest(manifest)
    mixer = Shuffler(run)
    check_targets({"--out": out}, {"the manifest": manifest})

    def make() -> bytes:
        for name, messages in read_folder(run, folder):
            mixer.submit(name, messages)
        mixed = mixer.release()
        if mixed is None:
            raise _TooFew
        return write_shuffled(run, mixed, mixer.clients)

    try:
        with working("shuffling"):
            data = once(folder, run, make)
    except _TooFew:
        raise fail(
            f"{mixer.clients} clients are fewer than n_min = {run.shuffle.n_min}; nothing was released", NOTHING
        ) from None
    _write(out, data)
    messages, clients = read_shuffled(run, data)
    typer.echo(f"{out}: {len(messages)} messages of {clients} clients; {mixer.dropped.total} dropped")


class _TooFew(Exception):
    """Nothing to release yet."""


@protocol.command()
def analyze(
    manifest: ManifestFile,
    source: Annotated[Path, typer.Argument(help="Folder of submissions (local, central), or the shuffler's file.")],
    out: Out = None,
    json: Json = False,
) -> None:
    """Turn what was sent into one rule.

    A central run is selected from once: called again, the same rule is shown, whatever arrived since.
    """
    run = read_manifest(manifest)
    check_targets({"--out": out}, {"the manifest": manifest, "the messages": source})
    with working("analyzing"):
        result = _analysis(run, source)
    released = result.released
    shown = f"{released}\n{result.received} messages, {result.dropped} dropped"
    if json:
        body = {
            "received": result.received,
            "dropped": result.dropped,
            "released": json_format.loads(released.to_json()),
        }
        shown = json_format.dumps(body, indent=1)
    deliver(released, "rule", shown, {"rule": (out, released.save)}, None, note=not json)


def _analysis(run: Manifest, source: Path) -> Analysis:
    if run.protocol == "local":
        return analyze_local(run, read_folder(run, source))
    if run.protocol == "shuffle":
        try:
            messages, clients = read_shuffled(run, source.read_bytes())
        except OSError as error:
            raise ParameterError(
                f"cannot read {str(source)!r}: {error.strerror}; it is made with: privpac protocol shuffle"
            ) from None
        return analyze_shuffled(run, messages, clients)

    def make() -> bytes:
        found = analyze_central(run, read_folder(run, source))
        return json_format.dumps([found.released.to_json(), found.received, found.dropped]).encode()

    kept = once(source, run, make)
    try:
        text, received, dropped = json_format.loads(kept)
        return Analysis(Released.from_json(text), int(received), int(dropped))
    except (ValueError, TypeError, RecursionError):
        raise ParameterError(
            f"the release kept in {str(source)!r} is damaged; restore it: a second draw would be a second release"
        ) from None


# Parts


def _parameters(gamma: str | None, texts: list[str]) -> dict[str, int | str]:
    out: dict[str, int | str] = {} if gamma is None else {"Gamma": rate(gamma)}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in out:
            raise ParameterError(f"a parameter is written name=value, each once; got {text!r}")
        out[name] = int(value) if re.fullmatch(r"-?[0-9]{1,30}", value) else value
    return out


def _shuffled(rule: str, domains: Any, epsilon: str, given: dict[str, Any]) -> Protocol:
    with working("calibrating"):
        return ShuffleProtocol(rule, domains, rational(epsilon, "epsilon"), **given)


def _unused(model: str, options: dict[str, Any]) -> None:
    strange = [name for name, value in options.items() if value is not None]
    if strange:
        raise ParameterError(f"--model {model} does not use {', '.join(strange)}")


def _tokens(path: Path) -> dict[str, str]:
    try:
        pairs = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"cannot read the tokens {str(path)!r}") from None
    if any(len(pair) != 2 or not NAME.fullmatch(pair[0]) or len(pair[1]) < 16 for pair in pairs):
        raise ParameterError("a line of the tokens is a client's name and a token of at least 16 characters")
    if len({pair[0] for pair in pairs}) < len(pairs):
        raise ParameterError("a name has two tokens")
    return {pair[0]: pair[1] for pair in pairs}


def _write(path: Path, data: bytes) -> None:
    write_durably(path, data)
