"""``privpac protocol tokens | collect | shuffle | analyze``: what happens to messages after they left the devices."""

from __future__ import annotations

import json as json_format
import secrets
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.cli.app import NOTHING, errors, fail, working
from privpac.cli.deliver import deliver
from privpac.cli.options import Json, check_targets
from privpac.cli.protocol_commands.base import ManifestFile, bytes_of, in_arguments, protocol
from privpac.errors import ParameterError
from privpac.protocols.analyzer import Analysis, analyze_central, analyze_local, analyze_shuffled
from privpac.protocols.collect import Collector
from privpac.protocols.files import (
    NAME,
    Submitted,
    once,
    read_folder,
    read_manifest,
    read_shuffled,
    unpack_folder,
    write_shuffled,
)
from privpac.protocols.manifest import Manifest
from privpac.protocols.seal import AnalyzerKey
from privpac.protocols.shuffler import Shuffler
from privpac.protocols.submit import fetch, read_token
from privpac.protocols.support import Support
from privpac.released import Released
from privpac.released_write import write_durably

__all__: list[str] = []

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
        raise ParameterError(f"cannot listen on port {port} or write to {str(out)!r}: {error.strerror}") from None
    typer.echo(f"collecting on {'https' if pair else 'http'}://{host}:{server.server_port} into {out}")
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
    shown = f"{released}\n{result}"
    if json:
        shown = json_format.dumps(_plain(result) | {"released": json_format.loads(released.to_json())}, indent=1)
    deliver(released, "rule", shown, {"rule": (out, released.save)}, None, note=not json)


def _analysis(run: Manifest, source: Path, key: AnalyzerKey | None, skip: bool) -> Analysis:
    if run.analyzer is not None and key is None:
        raise ParameterError("this run is sealed; give the analyzer's private key: --key analyzer.key")
    if run.protocol == "shuffle":
        messages, clients = read_shuffled(run, _shuffled(source))
        return analyze_shuffled(run, messages, clients, key=key)

    def submitted() -> list[tuple[Any, list[bytes]]]:
        if source.is_dir() or not source.exists():
            return list(read_folder(run, source, skip=skip))
        # Mixed: one message per client, without names.
        return [(i, [message]) for i, message in enumerate(read_shuffled(run, bytes_of(source))[0])]

    if run.protocol == "local":
        return analyze_local(run, submitted(), key=key)
    return _central_once(run, source, lambda: analyze_central(run, submitted(), key=key))


def _shuffled(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise ParameterError(
            f"cannot read {str(source)!r}: {error.strerror}; it is made with: privpac protocol shuffle"
        ) from None


def _central_once(run: Manifest, source: Path, analyse: Callable[[], Analysis]) -> Analysis:
    """A second draw would be a second release."""

    def make() -> bytes:
        found = analyse()
        return json_format.dumps([found.released.to_json(), _plain(found)]).encode()

    folder = source if source.is_dir() else source.absolute().parent
    if not folder.exists():
        raise ParameterError(f"cannot read the folder {str(source)!r}: no such place")
    kept = once(folder, run, make)
    try:
        text, said = json_format.loads(kept)
        support = said["support"]
        if support is not None:
            support = Support(**{**support, "confidence": Fraction(support["confidence"])})
        return Analysis(Released.from_json(text), said["received"], said["dropped"], said["reasons"], support)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError(
            f"the release kept in {str(folder)!r} is damaged; restore it: a second draw would be a second release"
        ) from None


def _plain(result: Analysis) -> dict[str, Any]:
    support = None
    if result.support is not None:
        support = {**asdict(result.support), "confidence": str(result.support.confidence)}
    return {
        "received": result.received,
        "dropped": result.dropped,
        "reasons": {reason: count for reason, count in result.reasons.items() if count},
        "support": support,
    }


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
