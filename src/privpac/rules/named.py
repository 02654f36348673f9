"""Classes of rules by the names people type: ``stump``, ``interval``, ``decision-list`` …

The names stand in the classes (``rule_names``); here the classes of the package are loaded, in the order of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from privpac.data import Domain
from privpac.errors import ParameterError, PrivpacError, did_you_mean
from privpac.rules.base import RULES, ConceptClass
from privpac.rules.binarized import Binarized
from privpac.rules.boxes import Rectangles
from privpac.rules.cuts import Thresholds
from privpac.rules.halfspaces import Halfspaces
from privpac.rules.intervals import Intervals
from privpac.rules.points import Points
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import SmallTrees
from privpac.rules.stumps import Stumps

_Features = Mapping[str, Domain]

_OWN = (Thresholds, Stumps, Scorecards, SmallTrees, Points, Intervals, Rectangles, Binarized, Halfspaces)
_in_order = {name: RULES[name] for concept in _OWN for name in concept.rule_names} | RULES
RULES.clear()
RULES.update(_in_order)

CUT_RULES = ("threshold", "threshold-below", "threshold-both", "stump", "interval", "rectangle")
"""Rules that cut a column where its values have an order: files older than the field ``ordered`` hold cuts."""


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


def default_rule(features: _Features) -> str:
    """The rule where none is named and rules are scored one by one: a cut of the only column, or the best cut; of
    categories without an order the best one of them."""
    return "threshold" if len(features) == 1 and all(domain.ordered for domain in features.values()) else "stump"


def rule_class(name: str, features: _Features) -> ConceptClass:
    """The class of rules with this name over named columns with their domains."""
    if not isinstance(name, str) or name not in RULES:
        raise ParameterError(f"rule must be one of {', '.join(RULES)}; got {name!r}{did_you_mean(name, RULES)}")
    if not features:
        raise ParameterError("a rule needs at least one column")
    built: ConceptClass = RULES[name](features)
    return built
