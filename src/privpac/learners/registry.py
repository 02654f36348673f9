"""Methods by the names people type, the learners behind them, and the rules that each of them learns.

A method that does not learn a class is refused here, in one place and before anything is spent, by every front alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from privpac import learners
from privpac.concepts.base import ConceptClass
from privpac.concepts.named import RULES, rule_class
from privpac.concepts.points import Points
from privpac.concepts.thresholds import Thresholds
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import MAX_NODES
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.learners.agreement.classes import KINDS, AgreedRules, by_agreement
from privpac.learners.base import Learner

__all__ = ["METHODS", "Method", "build_learner", "check_learns", "learner_options", "named_class", "takes"]

PUBLIC_FACTS = ("public_n_users", "records_per_user", "noise", "users", "population")
"""Declarations for the choice of a method, which a method itself may have no use for; they are then ignored instead of
refused."""


def _scored(concept: Any) -> bool:
    if isinstance(concept, VC1Tree):  # the nodes of a tree are a class where they can be counted
        return concept.n_nodes is not None and concept.n_nodes <= MAX_NODES
    return isinstance(concept, ConceptClass) and concept.scored


def _cuts(concept: Any) -> bool:
    return isinstance(concept, Thresholds)


def _one_way(concept: Any) -> bool:
    return isinstance(concept, Thresholds) and concept.direction != "both"


def _nodes(concept: Any) -> bool:
    return isinstance(concept, (VC1Tree, Points)) or _one_way(concept)


@dataclass(frozen=True)
class Method:
    """A learner class in ``privpac.learners`` with some of its parameters set.

    ``learns`` says of which classes it learns a rule, ``rules`` the same in words.
    """

    learner: str
    about: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    learns: Callable[[Any], bool] = _scored
    rules: str = "every class whose rules can be scored one by one"

    def load(self) -> type[Any]:
        found: type[Any] = getattr(learners, self.learner)
        return found


METHODS: dict[str, Method] = {
    "voices": Method(
        "TwoVoices", "clipped regret with few users, per-user averages with many, in one law; the default"
    ),
    "regret": Method(
        "RegretSelection",
        "clipped regret against each user's own best rule; a clip that follows public_n_users",
    ),
    "mean": Method("RegretSelection", "per-user averages; unbiased when users differ", {"statistic": "mean"}),
    "realizable": Method("RealizableSelection", "users with more than `tolerance` mistakes; when some rule is right"),
    "agnostic": Method(
        "UserAgnosticLearner",
        "users with more than t mistakes, t from a private estimate of the least error",
    ),
    "direct": Method(
        "ThresholdLearner",
        "the same over all cut-offs of one column",
        {"method": "direct"},
        _cuts,
        "cut-offs of one column",
    ),
    "search": Method(
        "ThresholdLearner",
        "private binary search for a cut-off",
        {"method": "search"},
        _one_way,
        "cut-offs of one column in one direction",
    ),
    "surrogate": Method("SurrogateSelection", "a small public set of stand-ins for a large class"),
    "pairwise": Method(
        "PairwiseSelection", "worst clipped comparison with any other rule; needs records_per_user or tau"
    ),
    "trimmed": Method(
        "TrimmedSelection",
        "drop the extreme users of every rule, test that the others agree; needs delta, replace",
    ),
    "agreement": Method(
        "AgreementLearner",
        "the rule that most users' own records lead to; few users with many records each",
        learns=by_agreement,
        rules=(
            "cut-offs in one direction, stumps, points, parities, conjunctions, disjunctions, decision lists, "
            "halfspaces and naive Bayes"
        ),
    ),
    "tree": Method(
        "TreeLearner",
        "private votes for one node of a hierarchy, such as PrefixTree(8); also cut-offs and points",
        learns=_nodes,
        rules="trees such as PrefixTree(8), cut-offs in one direction and points",
    ),
}


def method_named(name: str) -> Method:
    """The method with a name."""
    if not isinstance(name, str) or name not in METHODS:
        raise ParameterError(f"method must be 'auto' or one of {', '.join(sorted(METHODS))}; got {name!r}")
    return METHODS[name]


def check_learns(method: str, concept: Any) -> None:
    """Refuse a method for a class of which it learns no rule, and name those that do."""
    if method_named(method).learns(concept) or not isinstance(concept, (ConceptClass, VC1Tree)):
        return  # what is no class at all is refused by the learner, as a wrong type
    fitting = [name for name, other in METHODS.items() if other.learns(concept)]
    which = " in both directions" if _cuts(concept) and not _one_way(concept) else ""
    named = (
        f"one of the methods auto, {', '.join(fitting)}"
        if len(fitting) > 1
        else f"the method {fitting[0]!r}"
        if fitting
        else "another"
    )
    raise ParameterError(
        f"the method {method!r} learns {METHODS[method].rules}, not {type(concept).__name__}{which}; use {named}"
    )


def named_class(rule: str, features: Mapping[str, Domain], method: str) -> ConceptClass:
    """The class of rules with a name; by agreement also kinds that are too rich to be scored rule by rule."""
    if method == "agreement" and rule in KINDS:
        return AgreedRules(rule, dict(features))
    if rule in KINDS and rule not in RULES:
        raise ParameterError(
            f"the rule {rule!r} is learned by the method 'agreement' alone, got {method!r}; name that method"
        )
    return rule_class(rule, features)


def learner_options(method: str, common: Mapping[str, Any]) -> dict[str, Field[Any]]:
    """The parameters of a method's learner that may be given, beside the ``common`` ones of every learner."""
    chosen = method_named(method)
    return {f.name: f for f in fields(chosen.load()) if f.init and f.name not in common and f.name not in chosen.preset}


def takes(method: str, option: str) -> bool:
    """Whether the learner of a method has a parameter; no for ``"auto"``, which is none yet."""
    return method in METHODS and option in learner_options(method, {})


def build_learner(method: str, common: Mapping[str, Any], options: Mapping[str, Any]) -> Learner:
    """The learner of a method; ``common`` are the fields of every selection, ``options`` those of this one."""
    own = learner_options(method, common)
    check_learns(method, common.get("concept", common.get("tree")))
    given = {name: value for name, value in options.items() if name in own or name not in PUBLIC_FACTS}
    missing = [name for name, f in own.items() if name not in given and f.default is MISSING is f.default_factory]
    if missing:
        raise ParameterError(f"the method {method!r} needs {missing[0]}; declare it, or use another method")
    strange = sorted(set(given) - set(own))
    if strange:
        allowed = ", ".join(own)
        raise ParameterError(
            f"unknown option {strange[0]!r}: the method {method!r} takes {allowed or 'none'}; leave {strange[0]} out"
        )
    chosen = METHODS[method]
    built: Learner = chosen.load()(**common, **chosen.preset, **given)
    return built
