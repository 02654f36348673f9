"""``privpac protocol``: a run over data that stay with the people, each role its own command.

analyzer: ``keys``, ``analyze``; coordinator: ``keys --coordinator``, ``new``; every person: ``device``, ``trust``,
``client``; whoever collects: ``tokens``, ``collect``; shuffler: ``shuffle``
(:mod:`privpac.cli.protocol_commands.roles`).
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.agreement.races.words import rate
from privpac.agreement.tasks import KINDS, types_of
from privpac.cli.app import app, working
from privpac.cli.help import Commands
from privpac.cli.options import METHOD, Epsilon, Features, Json, NeighboursOption, check_targets, features_of
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.parameters import DEFAULT_BETA
from privpac.protocols.analyzer import promise
from privpac.protocols.bundle import bundle
from privpac.protocols.client import Client, read_records
from privpac.protocols.device import ACCEPTED, Device
from privpac.protocols.files import NAME, read_manifest
from privpac.protocols.promises import told
from privpac.protocols.protocol import CentralProtocol, LocalProtocol, Protocol, ShuffleProtocol
from privpac.protocols.seal import AnalyzerKey
from privpac.protocols.signature import CoordinatorKey, fingerprint
from privpac.protocols.submit import read_token, submit
from privpac.released_write import write_durably

__all__ = ["ManifestFile", "bytes_of", "in_arguments", "protocol", "task_parameters"]

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
    ] = str(float(DEFAULT_BETA)),
    neighbours: NeighboursOption = "add-remove",
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
    given: dict[str, Any] = {"label": label, "min_records": min_records, "max_records": max_records}
    given["beta"] = rational(beta, "beta", above=0, below=1)
    given["task"] = task_parameters(rule, gamma, parameter or [])
    domains = features_of(feature)
    if key is None and model in ("shuffle", "central") and not unsealed:
        raise ParameterError(
            f"--model {model} needs --key, the analyzer's public key, made with: privpac protocol keys analyzer (or "
            "--unsealed: whoever carries the messages can read them)"
        )
    if key is not None and unsealed:
        raise ParameterError("--key seals the messages and --unsealed leaves them open; give one of the two")
    given["analyzer"] = None if key is None else AnalyzerKey.read_public(bytes_of(key))
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
    signed = run.manifest.signed(signer)
    _write(out, signed.published())
    if json:
        typer.echo(signed.published().decode())
    else:
        more = f", about {run.expected_messages:.0f} messages per client" if isinstance(run, ShuffleProtocol) else ""
        typer.echo(
            f"{out}: {run.guarantee.summary}, run {signed.run.hex()[:16]}{more}, signed by {fingerprint(signer.public)}"
        )


@protocol.command()
def keys(
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
    made = CoordinatorKey.new() if coordinator else AnalyzerKey.new()
    secret, shown = made.write()
    write_durably(private, secret, 0o600)
    write_durably(public, shown)
    if coordinator:
        typer.echo(
            f"{private}: keep it secret, it signs for you (--sign of: privpac protocol new); {public}: give it to "
            f"everyone who takes part, by a way that the collector cannot change. Its fingerprint, for letters and "
            f"telephones: {fingerprint(made.public)}"
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
    made = Device.new(store, person, *total, accept or ACCEPTED, unsealed=unsealed, coordinators=keys)
    typer.echo(f"{store}: {person}, epsilon {made.epsilon} and delta {made.delta} in all, {', '.join(made.accepts)}")
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
    made = Client(read_manifest(manifest), *limits)
    own.agrees(made.manifest, name)
    check_targets({"--out": out}, {"the manifest": manifest, "the records": records})
    kept = made.kept(read_records(made.manifest, records), store=own, person=name)
    if out is not None:
        _write(out, bundle(kept.messages))
    else:
        trusted = None if authority is None else str(authority)
        submit(str(url), own.person, bundle(kept.messages), bearer, run=made.manifest.run, authority=trusted)
    again = " again, the same bytes as before" if kept.again else ""
    used = own.spent
    typer.echo(
        f"sent for {own.person}{again}, run {made.manifest.run.hex()[:16]}: {promise(made.manifest).summary}\n"
        f"{told(made.manifest)} Spent so far: epsilon {used[0]} of {own.epsilon}, delta {used[1]} of {own.delta}."
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


def _shuffled(rule: str, domains: Any, epsilon: str, given: dict[str, Any]) -> Protocol:
    with working("calibrating"):
        return ShuffleProtocol(rule, domains, rational(epsilon, "epsilon"), **given)


def _unused(model: str, options: dict[str, Any]) -> None:
    strange = [name for name, value in options.items() if value is not None]
    if strange:
        raise ParameterError(f"--model {model} does not use {', '.join(strange)}")


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _write(path: Path, data: bytes) -> None:
    write_durably(path, data)
