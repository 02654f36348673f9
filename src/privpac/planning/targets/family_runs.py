"""Commands of the certified rows for families of distributions: ``privpac distribution`` and ``privpac select``.

A plan knows how many values or bins a column has, not which: where it cannot say, a word in capitals stands for the
reader's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.exact import rational
from privpac.planning.targets.certified_runs import TABLE, CertifiedRun, feature_words, option_words, privacy_words
from privpac.planning.targets.family_targets import CountedTarget, FamilyTarget, GaussianTarget, SelectionTarget

__all__ = ["family_run"]

_METHODS = {
    "averaged histogram": "average",
    "clipped histogram, one stage": "counts",
    "coarse-to-fine mean": "coarse-to-fine",
    "selection from a cover": "cover",
    "hypothesis selection": "selection",
}
_DEFAULTS = ("levels", "cover_radius")
"""Parameters that are certified as the learner's own defaults: no option changes them."""


def family_run(target: FamilyTarget, row: str, certificate: Certificate) -> CertifiedRun:
    """The run of a certified row: its parameters are those of the certificate."""
    method, told = _METHODS[row], certificate.parameters
    shown = {name: value for name, value in told.items() if name not in _DEFAULTS}

    def words() -> list[str]:
        if isinstance(target, SelectionTarget):
            found = [
                "select",
                *TABLE,
                *(feature_words(dict(target.domains)) or ["--feature", "COLUMN=LO:HI"]),
                *_candidates(target),
            ]
        else:
            family = "histogram" if method in ("average", "counts") else target.family
            found = ["distribution", *TABLE, *_columns(target), "--family", family, "--method", method]
        ranges = _ranges(target) if isinstance(target, GaussianTarget) else {}
        return [*found, *privacy_words(target.epsilon, target.neighbours), *option_words(ranges | shown)]

    return CertifiedRun(method, certificate.n_users, told, lambda: target.learner(row, certificate), words)


def _columns(target: FamilyTarget) -> list[str]:
    if not isinstance(target, CountedTarget) or target.family != "histogram":
        return feature_words(dict(target.domains))
    names = ["COLUMN"] if len(target.sizes) == 1 else [f"COLUMN{i}" for i in range(1, len(target.sizes) + 1)]
    bins = [f"{name}={size}" for name, size in zip(names, target.sizes)]
    features = [word for name in names for word in ("--feature", f"{name}=LO:HI")]
    return [*features, *(word for text in bins for word in ("--bins", text))]


def _candidates(target: SelectionTarget) -> list[str]:
    """A law for every name: one of ``scipy.stats``, or a file."""
    given: Any = target.candidates
    names = list(given) if isinstance(given, Mapping) else [f"NAME{i}" for i in range(1, min(target.k, 3) + 1)]
    return [*(word for name in names for word in ("--candidate", f"{name}=LAW")), "--candidates-are", "public"]


def _ranges(target: GaussianTarget) -> dict[str, Any]:
    law = target.law
    wide = {} if law.max_variance is None else {"max_variance": rational(law.max_variance)}
    return {"radius": rational(law.radius), "variance": rational(law.variance), **wide}
