"""Classes of rules by the names people type: ``stump``, ``interval``, ``decision-list`` …"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from privpac.data import Domain
from privpac.errors import ParameterError, PrivpacError
from privpac.rules.base import ConceptClass
from privpac.rules.binarized import asked_or_plain
from privpac.rules.boxes import Rectangles
from privpac.rules.cuts import Thresholds
from privpac.rules.halfspaces import Halfspaces
from privpac.rules.intervals import Intervals
from privpac.rules.points import Points
from privpac.rules.scorecards import PointsCard
from privpac.rules.small_trees import SmallTrees
from privpac.rules.stumps import Stumps

__all__ = ["CUT_RULES", "RULES", "default_rule", "name_of", "register_class", "rule_class"]

Features = Mapping[str, Domain]


def _single(build: Callable[[Domain, str], ConceptClass]) -> Callable[[Features], ConceptClass]:
    def of_one(features: Features) -> ConceptClass:
        if len(features) != 1:
            raise ParameterError(
                f"this rule reads one column, got {len(features)}: {', '.join(features)}; use the rule 'stump' for "
                "several"
            )
        ((feature, domain),) = features.items()
        return build(domain, feature)

    return of_one


RULES: dict[str, Callable[[Features], Any]] = {
    "threshold": _single(Thresholds),
    "threshold-below": _single(lambda domain, feature: Thresholds(domain, feature, "below")),
    "threshold-both": _single(lambda domain, feature: Thresholds(domain, feature, "both")),
    "stump": lambda features: Stumps(dict(features)),
    "card": lambda features: PointsCard(dict(features)),
    "small-tree": lambda features: SmallTrees(dict(features)),
    "point": _single(Points),
    "interval": _single(Intervals),
    "rectangle": lambda features: Rectangles(dict(features)),
    "conjunction": lambda features: asked_or_plain("conjunction", features),
    "disjunction": lambda features: asked_or_plain("disjunction", features),
    "parity": lambda features: asked_or_plain("parity", features),
    "decision-list": lambda features: asked_or_plain("decision-list", features),
    "halfspace": lambda features: Halfspaces(dict(features)),
}


CUT_RULES = ("threshold", "threshold-below", "threshold-both", "stump", "interval", "rectangle")
"""Rules that cut a column where its values have an order: files older than the field ``ordered`` hold cuts."""


def register_class(name: str, build: Callable[[Features], ConceptClass]) -> None:
    """Give a class of one's own a name that the command line, the estimator and ``rule_class`` know.

    ``build`` takes the named columns with their domains.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,59}", name):
        raise ParameterError(f"a name is 1 to 60 lower-case letters, digits and hyphens, got {name!r}")
    if RULES.get(name, build) is not build:
        raise ParameterError(f"the name {name!r} is taken; choose another one")
    RULES[name] = build


def name_of(concept: ConceptClass) -> str | None:
    """The name under which ``rule_class`` rebuilds a class with its domains; None for other classes.

    >>> from privpac.data import Integers
    >>> name_of(Thresholds(Integers(0, 9), direction="below"))
    'threshold-below'
    """
    declared = concept.declared() if isinstance(concept, ConceptClass) else {}
    features = {name or "x": domain for name, domain in declared.items() if domain is not None}
    bound = concept.with_columns(features) if features and len(features) == len(declared) else None
    for name in RULES if bound is not None else ():
        with suppress(PrivpacError):
            if rule_class(name, features) == bound:
                return name
    return None


def default_rule(features: Features) -> str:
    """The rule where none is named and rules are scored one by one: a cut of the only column, or the best cut; of
    categories without an order the best one of them."""
    return "threshold" if len(features) == 1 and all(domain.ordered for domain in features.values()) else "stump"


def rule_class(name: str, features: Features) -> ConceptClass:
    """The class of rules with this name over named columns with their domains."""
    if not isinstance(name, str) or name not in RULES:
        raise ParameterError(f"rule must be one of {', '.join(RULES)}; got {name!r}")
    if not features:
        raise ParameterError("a rule needs at least one column")
    built: ConceptClass = RULES[name](features)
    return built
