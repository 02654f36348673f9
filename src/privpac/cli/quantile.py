"""``privpac quantile``: a table in, a private median or other quantiles out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.quantiles import quantile as released_quantiles
from privpac.api.quantiles import quantile_learner
from privpac.cli.jobs import Job, command
from privpac.cli.options import METHOD, Json, Ledger


@command(
    released_quantiles,
    leave_out="ledger not_before",
    panels={METHOD: "method delta neighbours"},
    flags={"q": ("--q", "-q"), "delta": ("--delta", "-d")},
    help={
        "q": "A quantile such as 1/2 (the default) or 0.9. Repeat.",
        "weight": "user, own, one, record: everybody alike, everybody's own quantile, one record each, every record.",
        "interval": "Also release an interval around every quantile (three numbers each).",
        "method": "auto, ranks, walks.",
        "delta": "Only for --method walks, e.g. 1e-6.",
    },
)
def quantile_command(
    job: Job,
    ledger: Ledger = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released quantiles as JSON.")] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Release the median of a column, or other quantiles, with what is certain about their ranks.

    privpac quantile people.parquet --user id --feature income=0:1000000 --epsilon 1 -q 1/4 -q 1/2 -q 3/4
    """
    learner = quantile_learner(unit=job.spec.unit, **options | {"q": options["q"] or ["1/2"]})
    learner.check_domains(job.spec.domains)
    job.release(learner, "quantiles", "learning")
