"""``privpac select`` and ``privpac distribution``: a table in, a private distribution out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.candidates import candidate_files
from privpac.api.distributions import (
    FAMILIES,
    distribution_learner,
    learn_distribution,
    release_distribution,
    select_distribution,
    selector_for,
)
from privpac.cli.jobs import Job, command
from privpac.cli.options import METHOD, Json, Ledger, Report
from privpac.distributions.base import DistributionLearner
from privpac.errors import ParameterError
from privpac.result import Released

_Bins = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        help="A number of equal bins, edges a,b,c or lo:hi:step; with several features name=... for each. Repeat.",
    ),
]
Tau = Annotated[
    str | None,
    typer.Option(
        "--tau",
        help="Clip of a person's contribution in records, instead of --records-per-user.",
        rich_help_panel=METHOD,
    ),
]
Alpha = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        help="Total variation aimed at (selection: discrete, product, method cover).",
        rich_help_panel=METHOD,
    ),
]
Beta = Annotated[
    str | None,
    typer.Option(
        "--beta",
        help="The probability of failure allowed for, which sets a clip; with --alpha.",
        rich_help_panel=METHOD,
    ),
]
_Out = Annotated[Path | None, typer.Option("--out", "-o", help="Save the released distribution as JSON.")]


@command(
    select_distribution,
    leave_out="ledger not_before",
    also="records_per_user public_n_users max_records",
    panels={METHOD: "neighbours"},
    help={
        "candidates_are": (
            "public (fixed before, or from public data) or dp-released (private results); anything else voids the "
            "promise."
        )
    },
)
def select(
    job: Job,
    candidate: Annotated[
        list[str],
        typer.Option(
            "--candidate", "-c", help="name=expon:scale=20 (a scipy.stats family) or name=file.json. Repeat for each."
        ),
    ],
    candidates_epsilon: Annotated[
        str | None,
        typer.Option(
            help="What dp-released candidates cost; read from their files if left out.", rich_help_panel=METHOD
        ),
    ] = None,
    tau: Tau = None,
    bins: _Bins = None,
    alpha: Alpha = None,
    beta: Beta = None,
    opt: Annotated[
        str | None,
        typer.Option(help="How far the closest candidate may be from the people's law (0).", rich_help_panel=METHOD),
    ] = None,
    ledger: Ledger = None,
    out: _Out = None,
    report: Report = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Select the candidate distribution closest to the people's records.

    privpac select calls.csv -u caller -f wait=0:600 -c short=expon:scale=20 -c long=gamma:a=2,scale=60 -e 1 -m 8
    --candidates-are public
    """
    domains = job.spec.domains
    options |= {"candidates_epsilon": candidates_epsilon, "tau": tau, "alpha": alpha, "beta": beta, "opt": opt}
    selector = selector_for(candidate, unit=job.spec.unit, bins=bins or None, domains=domains, **options)
    selector.check_domains(domains)
    job.sources.update({f"--candidate {name}": path for name, path in candidate_files(candidate).items()})

    def compared() -> Any:
        from privpac.report.distribution import candidates_of

        return candidates_of(selector, domains)

    _release(job, selector, "comparing the candidates", compared)


@command(
    learn_distribution,
    leave_out="ledger not_before",
    also="max_records records_per_user public_n_users",
    panels={METHOD: "neighbours"},
    help={
        "method": (
            "auto; histogram: average, counts, gaussian, stable or shuffle; gaussian: coarse-to-fine or cover; mean: "
            "average, trimmed or friendly."
        )
    },
)
def distribution(
    job: Job,
    family: Annotated[str, typer.Option("--family", help=f"{', '.join(FAMILIES)}.")] = "histogram",
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta",
            "-d",
            help="The promise may fail so often (gaussian noise; stable; shuffle; mean: trimmed, friendly).",
            rich_help_panel=METHOD,
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="How far apart two people's means are expected to be (mean: trimmed, friendly).",
            rich_help_panel=METHOD,
        ),
    ] = None,
    max_values: Annotated[
        int | None,
        typer.Option(help="So many values of a person count (histogram, method stable).", rich_help_panel=METHOD),
    ] = None,
    tau: Tau = None,
    bins: _Bins = None,
    stages: Annotated[
        int | None, typer.Option(help="Counts in 1 or 2 stages (histogram, method counts).", rich_help_panel=METHOD)
    ] = None,
    alpha: Alpha = None,
    beta: Beta = None,
    radius: Annotated[
        str | None,
        typer.Option(help="Public bound on the mean's distance from 0 (gaussian).", rich_help_panel=METHOD),
    ] = None,
    variance: Annotated[
        str | None,
        typer.Option(help="The known variance, or the smallest possible one (gaussian).", rich_help_panel=METHOD),
    ] = None,
    max_variance: Annotated[
        str | None,
        typer.Option(help="The largest possible variance, if it is unknown (gaussian).", rich_help_panel=METHOD),
    ] = None,
    ledger: Ledger = None,
    out: _Out = None,
    report: Report = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Learn the distribution of one or several columns.

    A histogram averages people, each of whom counts alike; with --max-records it counts records, up to so many of each
    person.

    privpac distribution visits.parquet --user patient --feature hour=0:23 --epsilon 1

    privpac distribution searches.parquet --user account --feature query=text --epsilon 1 --delta 1e-6
    """
    domains = job.spec.domains
    options |= {"delta": delta, "width": width, "max_values": max_values, "tau": tau, "stages": stages}
    options |= {"alpha": alpha, "beta": beta, "radius": radius, "variance": variance, "max_variance": max_variance}
    learner = distribution_learner(family, unit=job.spec.unit, domains=domains, bins=bins or None, **options)
    if isinstance(learner, DistributionLearner):
        learner.check_domains(domains)
    if family == "mean" and job.report is not None:
        raise ParameterError("a mean has no picture: leave --report out")
    _release(job, learner, "learning")


def _release(job: Job, learner: Any, doing: str, before: Callable[[], Any] = lambda: None) -> None:
    def write(released: Released, path: Path, candidates: Any) -> None:
        from privpac.report.distribution import write_distribution_report

        write_distribution_report(released, path, candidates=candidates)

    def shown(released: Released) -> str:
        name = released.parameters.get("name")
        return f"{name}\n{released}" if name else str(released)

    job.release(learner, "distribution", doing, release=release_distribution, before=before, report=write, shown=shown)
