"""Methods by the names people type, and the learners behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.named import rule_class
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.learners.base import Learner

__all__ = ["METHODS", "Method", "build_learner", "named_class"]

PUBLIC_FACTS = ("public_n_users", "records_per_user", "noise", "users", "population")
"""Declarations for the choice of a method, which a method itself may have no use for; they are then ignored instead of refused."""


@dataclass(frozen=True)
class Method:
    """A learner class in ``privpac.learners`` with some of its parameters set."""

    home: str
    learner: str
    about: str
    preset: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> type[Any]:
        found: type[Any] = getattr(import_module(f"privpac.learners.{self.home}"), self.learner)
        return found


METHODS: dict[str, Method] = {
    "voices": Method("voices", "TwoVoices", "clipped regret with few users, per-user averages with many, in one law; the default"),
    "regret": Method("regret", "RegretSelection", "clipped regret against each user's own best rule; a clip that follows public_n_users"),
    "mean": Method("regret", "RegretSelection", "per-user averages; unbiased when users differ", {"statistic": "mean"}),
    "realizable": Method("realizable", "RealizableSelection", "users with more than `tolerance` mistakes; when some rule is right"),
    "agnostic": Method("agnostic", "UserAgnosticLearner", "users with more than t mistakes, t from a private estimate of the least error"),
    "direct": Method("thresholds", "ThresholdLearner", "the same over all cut-offs of one column", {"method": "direct"}),
    "search": Method("thresholds", "ThresholdLearner", "private binary search for a cut-off", {"method": "search"}),
    "surrogate": Method("surrogate", "SurrogateSelection", "a small public set of stand-ins for a large class"),
    "pairwise": Method("pairwise", "PairwiseSelection", "worst clipped comparison with any other rule; needs records_per_user or tau"),
    "trimmed": Method(
        "trimmed", "TrimmedSelection", "drop the extreme users of every rule, test that the others agree; needs delta, replace"
    ),
    "agreement": Method("agreement", "AgreementLearner", "the rule that most users' own records lead to; few users with many records each"),
    "tree": Method("tree", "TreeLearner", "private votes for one node of a hierarchy, such as PrefixTree(8); also cut-offs and points"),
}


def named_class(rule: str, features: Mapping[str, Domain], method: str) -> ConceptClass:
    """The class of rules with a name; by agreement also kinds that are too rich to be scored rule by rule."""
    if method != "agreement":
        return rule_class(rule, features)
    from privpac.learners.agreed_class import AgreedRules

    return AgreedRules(rule, dict(features))


def build_learner(method: str, common: Mapping[str, Any], options: Mapping[str, Any]) -> Learner:
    """The learner of a method; ``common`` are the fields of every selection, ``options`` those of this one."""
    if method not in METHODS:
        raise ParameterError(f"method must be 'auto' or one of {', '.join(sorted(METHODS))}; got {method!r}")
    chosen = METHODS[method]
    learner = chosen.load()
    own = [f.name for f in fields(learner) if f.init and f.name not in common and f.name not in chosen.preset]
    given = {name: value for name, value in options.items() if name in own or name not in PUBLIC_FACTS}
    missing = [f.name for f in fields(learner) if f.name in own and f.name not in given and f.default is MISSING is f.default_factory]
    if missing:
        raise ParameterError(f"the method {method!r} needs {missing[0]}")
    strange = sorted(set(given) - set(own))
    if strange:
        raise ParameterError(f"unknown option {strange[0]!r}: {learner.__name__} takes {', '.join(own)}")
    built: Learner = learner(**common, **chosen.preset, **given)
    return built
