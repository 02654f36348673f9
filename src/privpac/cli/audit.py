"""``privpac audit``: is a privacy claim true?

A learner is audited exactly over a small universe made from its declared domains; a function of one's own is run and
audited statistically.  Audits print datasets, so no table is read here.  Exit code 5: the claim is violated.
"""

from __future__ import annotations

import json as json_format
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from privpac.api.audit import audit as audit_claim
from privpac.api.learn import learner_for
from privpac.auditing.report import Audit
from privpac.cli.app import working
from privpac.cli.jobs import command
from privpac.cli.options import Json, check_targets, features_of
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, one_of
from privpac.rules.base import RULES
from privpac.rules.named import rule_class

FUNCTIONS = "Functions of your own, and statistical audits"
VIOLATED = 5
"""Exit code of an audit that refutes its claim, or whose draws differ from the law."""


@command(
    audit_claim,
    leave_out="universe datasets features build output rng method",
    panels={FUNCTIONS: "runs confidence"},
    flags={"epsilon": ("--epsilon", "-e"), "delta": ("--delta", "-d"), "n_users": ("--people", "-n")},
    help={
        "epsilon": "The claim; for a learner, the epsilon it runs with.",
        "delta": "The claim's delta.",
        "n_users": "Datasets of up to this many people (2).",
        "records": "Users with up to this many records (1).",
        "neighbours": "add-remove (default for a learner) or replace.",
        "runs": "Runs on each dataset, for a statistical audit.",
        "confidence": "Confidence of a statistical audit.",
        "draws": "Draws compared with the law on each of a few datasets, for an exact audit; 0 for none.",
    },
)
def audit_command(
    table: Annotated[str | None, typer.Argument(hidden=True)] = None,
    rule: Annotated[str | None, typer.Option("--rule", "-r", help=f"Audit a learner of: {', '.join(RULES)}.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="name=lo:hi, as for learn. Keep it small. Repeat.")
    ] = None,
    method: Annotated[str, typer.Option(help="The learner's method, as for learn.")] = "auto",
    callable_: Annotated[
        str | None,
        typer.Option(
            "--callable",
            help="Audit a function of your own, module:function; needs --neighbours.",
            rich_help_panel=FUNCTIONS,
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Made-up datasets for --callable, as JSON: '[[0, 1], [0, 0]]', or @file.json.",
            rich_help_panel=FUNCTIONS,
        ),
    ] = None,
    statistical: Annotated[
        bool,
        typer.Option("--statistical", help="Run it many times instead of deciding exactly.", rich_help_panel=FUNCTIONS),
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Is a privacy claim true? Decided exactly on small made-up datasets, or tested by running a function.

    privpac audit --rule threshold --feature x=0:3 --epsilon 1 --people 2 --records 2

    privpac audit --callable mine:noisy_sum --statistical --neighbours replace --epsilon 1 --datasets '[[0, 1], [0, 0]]'
    """
    if table is not None:
        raise ParameterError(
            "audit prints the datasets it tries, so it reads no table; it makes up its own from --feature and --people"
        )
    if (rule is None) == (callable_ is None):
        raise ParameterError("say what to audit: --rule with --feature for a learner, or --callable module:function")
    check_targets({"--report": report}, {"--datasets": datasets[1:] if datasets and datasets.startswith("@") else None})
    if callable_ is not None:
        subject: Any = _function(callable_)
        options["datasets"] = None if datasets is None else _datasets(datasets)
        options["features"] = features_of(feature) if feature else None
    else:
        if options["epsilon"] is None or datasets is not None:
            raise ParameterError(
                "a learner is audited with --epsilon, on datasets made from --feature, --people and --records"
            )
        relation, people = options["neighbours"] or Neighbours.ADD_REMOVE, options["n_users"]
        subject = learner_for(
            rule_class(rule or "", features_of(feature or [])),
            epsilon=options.pop("epsilon"),
            method=method,
            neighbours=one_of(Neighbours, relation, "neighbours"),
            public_n_users=2 if people is None else people,  # a public number lets its law be written down
        )
    with working("auditing"):
        result = audit_claim(subject, method="statistical" if statistical else "auto", **options)
    _show(result, json, report)
    if not result:
        raise typer.Exit(VIOLATED)


def _function(text: str) -> Any:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise ParameterError(f"--callable is written module:function, got {text[:80]!r}")
    sys.path.insert(0, os.getcwd())
    try:
        subject: Any = import_module(module)
        for part in name.split("."):
            subject = getattr(subject, part)
    except Exception as error:
        raise ParameterError(
            f"--callable {text[:80]!r} cannot be imported ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    finally:
        sys.path.remove(os.getcwd())
    return subject


def _datasets(text: str) -> list[Any]:
    try:
        read = json_format.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise ParameterError(f"--datasets cannot be read: {error.strerror}") from None
    except ValueError:
        raise ParameterError("--datasets must be JSON, a list of datasets such as '[[0, 1], [0, 0]]'") from None
    if not isinstance(read, list) or len(read) < 2 or not all(isinstance(data, list) for data in read):
        raise ParameterError("--datasets must list at least two datasets, each a list of users: '[[0, 1], [0, 0]]'")
    return read


def _show(result: Audit, json: bool, report: Path | None) -> None:
    if report is not None:
        from privpac.report.audit import write_audit_report

        write_audit_report(result, report)
    if json:
        typer.echo(json_format.dumps(result.to_dict(), indent=2))
        return
    console = Console(highlight=False)
    console.print(result.table())
    for line in result.notes():
        console.print(line, markup=False, soft_wrap=True)
