"""Candidate distributions as text: the forms that Python and the command line share.

=======================================  ==============================================================================
text                                     candidate
=======================================  ==============================================================================
``expon:scale=20``                       a law of ``scipy.stats`` with its parameters
``file.json``                            a saved result, or ``{"edges": [...], "weights": [...]}``,
                                         ``{"values": [...], "weights": [...]}`` or a list of weights
=======================================  ==============================================================================

In a list of texts each has its name in front: ``short=expon:scale=20``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from privpac.api.learn import load
from privpac.data import Domain
from privpac.distributions.results import Distribution, HistogramDistribution
from privpac.errors import ModelFileError, ParameterError
from privpac.exact import rational

_LARGEST = 10**300


def candidates_from(candidates: object, features: Mapping[str, Domain | None]) -> Any:
    """Candidates with every text replaced by the law it names; all else stays as it is.

    >>> laws = candidates_from(["short=expon:scale=20", "long=gamma:a=2,scale=60"], {})
    >>> {name: float(law.mean()) for name, law in laws.items()}
    {'short': 20.0, 'long': 120.0}
    """
    if isinstance(candidates, Mapping):
        return {name: candidate_from(law, features) for name, law in candidates.items()}
    if not isinstance(candidates, (list, tuple)) or not any(isinstance(law, str) for law in candidates):
        return candidates
    pairs = [_named(law) if isinstance(law, str) else (f"candidate {i}", law) for i, law in enumerate(candidates)]
    return {name: candidate_from(law, features) for name, law in _once(pairs)}


def candidate_files(candidates: Iterable[str]) -> dict[str, str]:
    """The files among texts of candidates, by the names of these."""
    return {name: law for name, law in map(_named, candidates) if law.endswith(".json")}


def candidate_from(law: object, features: Mapping[str, Domain | None]) -> Any:
    """One candidate; edges in a file are those of the first feature."""
    if not isinstance(law, str):
        return law
    return _from_file(law, next(iter(features), "x")) if law.endswith(".json") else _from_scipy(law.strip())


def _named(text: str) -> tuple[str, str]:
    name, equals, body = text.partition("=")
    if not name.strip() or not equals or not body.strip():
        raise ParameterError(f"a candidate is written name=family:parameter=value or name=file.json, got {text[:60]!r}")
    return name.strip(), body


def _once(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"two candidates are named {name[:40]!r}; give each a name of its own")
    return pairs


def _from_scipy(text: str) -> Any:
    """``expon:scale=20`` as a frozen ``scipy.stats`` law."""
    from scipy import stats

    name, _, body = text.partition(":")
    kind = getattr(stats, name, None) if name.isidentifier() else None
    if not isinstance(kind, (stats.rv_continuous, stats.rv_discrete)):
        raise ParameterError(
            f"scipy.stats has no distribution named {name[:40]!r}; write name=expon:scale=20, or name=file.json for a "
            "file"
        )
    required = [shape.strip() for shape in (kind.shapes or "").split(",") if shape.strip()]
    known = [*required, "loc", *(["scale"] if isinstance(kind, stats.rv_continuous) else [])]
    parameters: dict[str, float] = {}
    for part in filter(None, body.split(",")):
        parameter, _, value = (word.strip() for word in part.partition("="))
        if parameter not in known or parameter in parameters:
            raise ParameterError(f"{name} takes each of {', '.join(known)} once, as in scale=20, got {part[:40]!r}")
        parameters[parameter] = float(rational(value, f"{parameter} of {name}", minimum=-_LARGEST, maximum=_LARGEST))
    missing = [shape for shape in required if shape not in parameters]
    if missing:
        raise ParameterError(f"{name} needs {', '.join(missing)}, as in {name}:{missing[0]}=2")
    law = kind(**parameters)
    if math.isnan(float(law.support()[0])):
        raise ParameterError(f"{text[:60]!r} has invalid parameters for {name}")
    return law


def _from_file(path: str, feature: str) -> Any:
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"), parse_float=str)  # decimals are read exactly
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
        law = _weighted(body, feature)
    except (TypeError, ParameterError) as error:
        raise ModelFileError(f"{path!r} is not a candidate: {error}") from None
    if law is None:
        raise ModelFileError(
            f'{path!r} is not a candidate: write {{"edges": [...], "weights": [...]}}, '
            "a list of weights, or a saved result"
        )
    return law


def _weighted(body: Any, feature: str) -> Any:
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
