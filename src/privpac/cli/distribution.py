"""``privpac select`` and ``privpac distribution``: a table in, a private distribution out."""

from __future__ import annotations

import json as json_format
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.distributions import (
    FAMILIES,
    distribution_learner,
    learn_distribution,
    release_distribution,
    select_distribution,
    selector_for,
)
from privpac.api.learn import load
from privpac.cli.jobs import Job, command
from privpac.cli.options import METHOD, Json, Ledger, Report
from privpac.data import Domain
from privpac.distributions.base import DistributionLearner
from privpac.distributions.results import Distribution, HistogramDistribution
from privpac.errors import ModelFileError, ParameterError
from privpac.exact import rational
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
_MAX_EDGES = 1 << 16
_LARGEST = 10**300


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
    **asked: Any,
) -> None:
    """Select the candidate distribution closest to the people's records.

    privpac select calls.csv -u caller -f wait=0:600 -c short=expon:scale=20 -c long=gamma:a=2,scale=60 -e 1 -m 8
    --candidates-are public
    """
    domains = job.spec.domains
    asked |= {"candidates_epsilon": candidates_epsilon, "tau": tau, "alpha": alpha, "beta": beta, "opt": opt}
    selector = selector_for(_candidates(candidate, domains), unit=job.spec.unit, bins=_bins(bins, domains), **asked)
    selector.check_domains(domains)
    for text in candidate:
        if text.endswith(".json"):
            name, _, path = text.partition("=")
            job.sources[f"--candidate {name}"] = path

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
    **asked: Any,
) -> None:
    """Learn the distribution of one or several columns.

    A histogram averages people, each of whom counts alike; with --max-records it counts records, up to so many of each
    person.

    privpac distribution visits.parquet --user patient --feature hour=0:23 --epsilon 1

    privpac distribution searches.parquet --user account --feature query=text --epsilon 1 --delta 1e-6
    """
    domains = job.spec.domains
    asked |= {"delta": delta, "width": width, "max_values": max_values, "tau": tau, "stages": stages}
    asked |= {"alpha": alpha, "beta": beta, "radius": radius, "variance": variance, "max_variance": max_variance}
    learner = distribution_learner(family, unit=job.spec.unit, domains=domains, bins=_bins(bins, domains), **asked)
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


# Options


def _bins(texts: list[str] | None, features: dict[str, Domain]) -> Any:
    """Parsed ``--bins`` options: one for all, or one for each named feature."""
    if not texts:
        return None
    named = {name: body for name, equals, body in (text.partition("=") for text in texts) if equals}
    if len(named) < len(texts):
        if len(texts) > 1:
            raise ParameterError(
                "several --bins must each name their feature: --bins age=0:100:10, and no feature twice"
            )
        return _edges(texts[0])
    strange = [name for name in named if name not in features]
    if strange:
        raise ParameterError(f"--bins names {strange[0][:40]!r}, which is not among the features {list(features)}")
    return {name: _edges(body) for name, body in named.items()}


def _edges(text: str) -> int | list[Fraction]:
    if text.strip().isdecimal():
        return int(text[:20])
    if text.count(":") == 2:
        low, high, step = (rational(part.strip(), "--bins") for part in text.split(":"))
        if step <= 0 or low >= high or (high - low) / step > _MAX_EDGES:
            raise ParameterError(f"--bins lo:hi:step needs lo < hi and at most {_MAX_EDGES} steps, got {text[:60]!r}")
        return [low + step * i for i in range(math.floor((high - low) / step) + 1)]
    if "," not in text:
        raise ParameterError(f"--bins takes a number of bins, edges a,b,c or lo:hi:step, got {text[:60]!r}")
    return [rational(part.strip(), "--bins") for part in text.split(",")]


def _candidates(texts: list[str], features: dict[str, Domain]) -> dict[str, Any]:
    """Parsed ``--candidate`` options by name."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, body = text.partition("=")
        if not name.strip() or not equals or not body.strip():
            raise ParameterError(
                f"a candidate is written name=family:parameter=value or name=file.json, got {text[:60]!r}"
            )
        if name.strip() in found:
            raise ParameterError(f"two candidates are named {name.strip()[:40]!r}; give each a name of its own")
        found[name.strip()] = _file(body, next(iter(features))) if body.endswith(".json") else _family(body.strip())
    return found


def _family(text: str) -> Any:
    """``expon:scale=20`` as a frozen ``scipy.stats`` law."""
    from scipy import stats

    name, _, body = text.partition(":")
    kind = getattr(stats, name, None) if name.isidentifier() else None
    if not isinstance(kind, (stats.rv_continuous, stats.rv_discrete)):
        raise ParameterError(
            f"scipy.stats has no distribution named {name[:40]!r}; write name=expon:scale=20, or name=file.json for a "
            "file"
        )
    known = [shape.strip() for shape in (kind.shapes or "").split(",") if shape.strip()]
    optional = ["loc", "scale"] if isinstance(kind, stats.rv_continuous) else ["loc"]
    given: dict[str, float] = {}
    for part in filter(None, body.split(",")):
        parameter, _, value = (word.strip() for word in part.partition("="))
        if parameter not in (*known, *optional) or parameter in given:
            raise ParameterError(
                f"{name} takes each of {', '.join([*known, *optional])} once, as in scale=20, got {part[:40]!r}"
            )
        given[parameter] = float(rational(value, f"{parameter} of {name}", minimum=-_LARGEST, maximum=_LARGEST))
    missing = [shape for shape in known if shape not in given]
    if missing:
        raise ParameterError(f"{name} needs {', '.join(missing)}, as in {name}:{missing[0]}=2")
    law = kind(**given)
    if math.isnan(float(law.support()[0])):
        raise ParameterError(f"{text[:60]!r} has invalid parameters for {name}")
    return law


def _file(path: str, feature: str) -> Any:
    """A saved result, or ``{"edges": [...], "weights": [...]}``, ``{"values": [...], "weights": [...]}`` or a list of
    weights."""
    try:
        body = json_format.loads(Path(path).read_text(encoding="utf-8"), parse_float=str)  # decimals are read exactly
    except OSError as error:
        raise ModelFileError(f"cannot read {path!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path!r} is not a candidate: it is not JSON") from None
    if isinstance(body, dict) and "format" in body:
        released = load(path)
        if not isinstance(released.value, Distribution):
            raise ModelFileError(f"{path!r} is not a candidate: no distribution was released in it")
        return released
    try:
        found = _listed(body, feature)
    except (TypeError, ParameterError) as error:
        raise ModelFileError(f"{path!r} is not a candidate: {error}") from None
    if found is None:
        raise ModelFileError(
            f'{path!r} is not a candidate: write {{"edges": [...], "weights": [...]}}, '
            "a list of weights, or a saved result"
        )
    return found


def _listed(body: Any, feature: str) -> Any:
    """Weights of positions, values or bins; None if it is none of them."""
    weights = body.get("weights") if isinstance(body, dict) else body
    if not isinstance(weights, list):
        return None
    exact = [rational(weight, "a weight", minimum=0) for weight in weights]
    if isinstance(body, list):
        return exact
    if body.keys() == {"edges", "weights"}:
        unit = math.lcm(*(weight.denominator for weight in exact))
        return HistogramDistribution(feature, tuple(body["edges"]), tuple(int(weight * unit) for weight in exact))
    values = body.get("values")
    if body.keys() != {"values", "weights"} or not isinstance(values, list) or len(values) != len(exact):
        return None
    if not all(isinstance(value, (str, int)) for value in values) or len(set(values)) < len(values):
        raise ParameterError("its values must be different texts or whole numbers")
    return dict(zip(values, exact))
