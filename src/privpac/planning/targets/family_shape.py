"""The public shape of a family of distributions, read and checked: what is missing or strange is said by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from privpac.data import Domain
from privpac.distributions.families import Gaussian
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import positive_int

__all__ = ["read_shape"]


def read_shape(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a target from what was declared.

    >>> read_shape("product", {"k": 3, "d": 2})
    {'sizes': (3, 3)}
    """
    read = {
        "selection": _selection,
        "discrete": _discrete,
        "gaussian": _gaussian,
        "vocabulary": _vocabulary,
    }.get(family, _columns)
    return read(family, given)


def _selection(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    opt = rational(given.get("opt", 0), "opt", minimum=0, below=1)
    if "candidates" not in given:
        if "domains" in given:
            raise ParameterError("domains go with candidates; give both, or k alone")
        return {"k": _count(family, given, "k", "how many candidates there are"), "opt": opt}
    candidates = given["candidates"]
    found = len(HypothesisSelector(candidates, 1, candidates_are="public", records_per_user=1).candidates)
    if given.get("k", found) != found:
        raise ParameterError(f"k = {given['k']} but there are {found} candidates; leave k out")
    return {"k": found, "opt": opt, "candidates": candidates, "domains": tuple(dict(given.get("domains", {})).items())}


def _discrete(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "domain" not in given:
        return {"sizes": (_count(family, given, "k", "how many values the column may have"),)}
    domain = given["domain"]
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 9), got {type(domain).__name__}")
    if given.get("k", domain.size) != domain.size:
        raise ParameterError(f"k = {given['k']} but the domain has {domain.size} values; leave one of them out")
    return {"sizes": (domain.size,)}


def _columns(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "sizes" in given:
        if "k" in given or "d" in given:
            raise ParameterError("give sizes, or k and d, not both")
        sizes = given["sizes"]
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            raise TypeError(
                f"sizes must be a list of numbers of values, one for each column, got {type(sizes).__name__}"
            )
        read = tuple(positive_int(size, "sizes") for size in sizes)
        if not read:
            raise ParameterError("sizes needs at least one column")
        return {"sizes": read}
    what = "how many bins" if family == "histogram" else "how many values each column may have"
    k = _count(family, given, "k", what)
    d = 1 if family == "histogram" and "d" not in given else _count(family, given, "d", "how many columns there are")
    return {"sizes": (k,) * positive_int(d, "d", maximum=1 << 12)}


def _gaussian(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "radius" not in given:
        raise ParameterError("family 'gaussian' needs radius: a public bound on how far the mean is from 0")
    ranges = {name: given[name] for name in ("radius", "variance", "max_variance") if name in given}
    return {"law": Gaussian(**ranges), "d": positive_int(given.get("d", 1), "d", maximum=4096)}


def _vocabulary(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {} if "max_values" not in given else {"max_values": positive_int(given["max_values"], "max_values")}


def _count(family: str, given: Mapping[str, Any], name: str, what: str) -> int:
    if name not in given:
        raise ParameterError(f"family {family!r} needs {name}: {what}")
    return positive_int(given[name], name)
