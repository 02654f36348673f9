"""``privpac check``: what becomes of a table when it is read, for the curator's eyes; spends nothing."""

from __future__ import annotations

import json as json_format
import os
import sys

import typer

from privpac.api.check import check_declared
from privpac.api.tables import choose_engine
from privpac.cli.app import working
from privpac.cli.jobs import Job, command
from privpac.cli.options import Engine, Json, MaxRecords
from privpac.data.check import DataCheck


@command(labels=None, classes=True, engine=Engine)
def check_command(job: Job, max_records: MaxRecords = None, json: Json = False) -> None:
    """Show what is read of a table, what is repaired or dropped, and why: for the curator only, spends nothing.

    privpac check visits.csv --user patient --label died --feature age=0:110 --on-invalid clamp

    privpac check visits.parquet --schema visits.toml
    """
    spec, engine = job.spec, choose_engine(job.table, job.engine or "auto")
    with working("reading the table"):
        findings = check_declared(job.table, spec, max_records, engine, job.written)
    typer.echo(json_format.dumps(findings.to_dict(), indent=1) if job.json else _coloured(findings))


def _coloured(findings: DataCheck) -> str:
    """On a terminal warnings are red."""
    terminal = sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = str(findings)
    for line in findings.warnings if terminal else ():
        text = text.replace(f"warning: {line}", typer.style(f"warning: {line}", fg="red", bold=True))
    return text
