"""The methods: one record of facts for each, and the learners behind the names that people type.

Everything that is true of a method stands here once: what it is called, which learner it runs with which parameters
set, which classes of rules it learns, what has to be declared for it, what it promises, and where a plan shows it.
``learn``, ``plan``, ``compare``, the refuter, the command line, the estimator and the table in the documentation read
it.  A method that does not learn a class is refused here, in one place and before anything is spent, by every front
alike.

A method of one's own is a record given to :func:`register`; its learner is any class with the fields of a
``Selection`` (``concept``, ``epsilon``, ``neighbours``, ``unit``, ``max_records``) and its own parameters after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpac.data import Domain
from privpac.device.tasks import KINDS
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.methods.agreement.agreement_learner import AgreedRules, by_agreement
from privpac.methods.base import Learner
from privpac.methods.record import AGREEING, MEASURED, RIGHT_RULE, Method, scored
from privpac.parameters import Parameter, declared
from privpac.rules.base import RULES, ClassOfRules, ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.named import rule_class

PUBLIC_FACTS = ("public_n_users", "records_per_user", "noise", "people", "population")
"""Declarations for the choice of a method, which a method itself may have no use for; they are then ignored instead of
refused."""


def _cuts(concept: Any) -> bool:
    return isinstance(concept, ClassOfRules) and concept.cut_direction is not None


def _one_way(concept: Any) -> bool:
    return isinstance(concept, ClassOfRules) and concept.cut_direction not in (None, "both")


def _scored_or_tree(concept: Any) -> bool:
    return isinstance(concept, VC1Tree) or scored(concept)


def _small_trees(concept: Any) -> bool:
    return isinstance(concept, ClassOfRules) and concept.own_method == "small-tree"


def _cards(concept: Any) -> bool:
    return isinstance(concept, ClassOfRules) and concept.own_method == "scorecard"


def _nodes(concept: Any) -> bool:
    return isinstance(concept, ClassOfRules) and concept.is_tree


SIMULATED = "privpac.methods.simulation:RuleSimulation"
SUMS = "privpac.auditing.rule_laws:rule_claim"
_AGNOSTIC = "privpac.papers.pure_agnostic.plan_rows"
_FEW = "privpac.papers.few_examples_per_user.pairwise_plan"
_REDUCTION = "privpac.papers.realizable_to_agnostic.reduction_plan"

_ALL = (
    # What people should choose from.
    Method(
        "hybrid",
        "hybrid selection",
        "HybridSelection",
        "clipped regret with few users, per-user averages with many, in one law; the default",
        "Real labels and nothing known about the people.",
        rows="privpac.methods.hybrid:hybrid_rows",
        simulation=SIMULATED,
        hard_laws=SUMS,
    ),
    Method(
        "regret",
        "regret selection",
        "RegretSelection",
        "clipped regret against each user's own best rule; a clip that follows public_n_users",
        "Few people who share a best rule, tens of records each, and their number to declare.",
        own_parameters=("statistic", "tau"),
        rows="privpac.methods.regret:regret_rows",
        simulation=SIMULATED,
        hard_laws=SUMS,
    ),
    Method(
        "mean",
        "per-user mean",
        "RegretSelection",
        "per-user averages; unbiased when users differ",
        "Many people, or people who differ more than x explains.",
        preset={"statistic": "mean"},
        rows="privpac.methods.regret:mean_rows",
        simulation=SIMULATED,
        hard_laws=SUMS,
    ),
    Method(
        "realizable",
        "realizable selection",
        "RealizableSelection",
        "users with more than `tolerance` mistakes; when some rule is right",
        "Some rule is right for every record, or nearly so.",
        setting="realizable",
        accuracy=RIGHT_RULE,
        rows="privpac.methods.realizable:realizable_rows",
        simulation=SIMULATED,
        hard_laws=SUMS,
    ),
    Method(
        "trimmed",
        "trimmed selection",
        "TrimmedSelection",
        "drop the extreme users of every rule, test that the others agree; needs delta, replace",
        "Hundreds of people who are alike, many records each; nothing is released where they are not.",
        promise="approximate",
        accuracy=MEASURED,
        needs=(("delta",), ("records_per_user", "width")),
        relations={Neighbours.ADD_REMOVE: (("slots",),), Neighbours.REPLACE: ()},
    ),
    Method(
        "agreement",
        "agreement",
        "AgreementLearner",
        "the rule that most users' own records lead to; few users with many records each",
        "Few people with very many records each, also for classes too rich to be scored.",
        learns=by_agreement,
        rules=(
            "cut-offs in one direction, stumps, points, intervals, parities, conjunctions, disjunctions, "
            "decision lists, halfspaces and naive Bayes"
        ),
        setting=None,
        promise="either",
        accuracy=AGREEING,
        target="privpac.protocols.agreement_plan:agreement_target",
    ),
    Method(
        "tree",
        "tree learner",
        "TreeLearner",
        "private votes for one node of a hierarchy, such as PrefixTree(8); also cut-offs and points",
        "One node of a hierarchy or of an open vocabulary (which needs `delta`).",
        by_setting={"agnostic": {"mode": "erm"}, "realizable": {"mode": "closure"}},
        subject="tree",
        learns=_nodes,
        rules="trees such as PrefixTree(8), cut-offs in one direction and points",
        setting=None,
        promise="either",
        accuracy=RIGHT_RULE,
        own_parameters=(
            "mode",
            "selector",
            "epsilon1",
            "hi",
            "K",
            "parts",
            "users_per_part",
            "alpha",
            "beta",
            "strict",
        ),
        target="privpac.methods.hierarchy.tree_plan:tree_target",
        hard_laws="privpac.auditing.rule_laws:tree_claim",
    ),
    Method(
        "small-tree",
        "small tree",
        "SmallTreeLearner",
        "a tree of up to three questions from one exact law over all of them; the default of wide tables",
        "Five columns or more, of which several matter.",
        learns=_small_trees,
        rules="small trees, such as SmallTrees()",
        setting=None,
        target="privpac.methods.small_tree_plan:small_tree_target",
        hard_laws="privpac.auditing.claims:untried_claim",
    ),
    Method(
        "scorecard",
        "scorecard",
        "ScorecardLearner",
        "points for every answer, yes above a threshold; noisy gradient steps on everybody's records; needs delta",
        "Many weak columns that do not say the same thing, and hundreds of people: their number times epsilon 200 or "
        "more.",
        learns=_cards,
        rules="scorecards, such as Scorecards()",
        setting=None,
        promise="approximate",
        accuracy=MEASURED,
        needs=(("delta",),),
        exact_law=False,
    ),
    # Results of the papers that another method dominates in ordinary use.
    Method(
        "agnostic",
        "user agnostic selection",
        "UserAgnosticLearner",
        "users with more than t mistakes, t from a private estimate of the least error",
        "Many records each, and everybody is forgiven as many mistakes as the best rule makes.",
        exact_law=False,
        recommended=False,
        rows=f"{_AGNOSTIC}:counting_rows",
        hard_laws=f"{_AGNOSTIC}:counting_claim",
    ),
    Method(
        "pairwise",
        "pairwise selection",
        "PairwiseSelection",
        "worst clipped comparison with any other rule; needs records_per_user or tau",
        "Cut-offs, points or small classes, and a number of records to declare.",
        needs=(("records_per_user", "tau", "weighted"),),
        recommended=False,
        rows=f"{_FEW}:pairwise_rows",
        hard_laws=f"{_FEW}:pairwise_claim",
    ),
    Method(
        "surrogate",
        "surrogate selection",
        "SurrogateSelection",
        "a small public set of stand-ins for a large class",
        "Single values of a huge column, or a large class with a public `representation` by few rules.",
        by_setting={key: {"representation": "auto"} for key in ("agnostic", "realizable")},
        sized=True,
        accuracy=MEASURED,
        exact_law=False,
        recommended=False,
        rows=f"{_AGNOSTIC}:surrogate_rows",
        hard_laws=f"{_AGNOSTIC}:surrogate_claim",
    ),
    Method(
        "reduction",
        "agnostic reduction",
        "NamedReduction",
        "a learner for clean labels on a hidden part of the people, relabelled by a rule that does well on the others",
        "Noisy labels and a class that only a learner for clean labels knows, such as an open vocabulary.",
        keeps_trees=True,
        sized=True,
        learns=_scored_or_tree,
        rules="every class whose rules can be scored one by one, and trees",
        promise="either",
        needs=(("public_n_users",),),
        exact_law=False,
        recommended=False,
        rows=f"{_REDUCTION}:reduction_rows",
        hard_laws=f"{_REDUCTION}:reduction_claim",
    ),
    Method(
        "direct",
        "user agnostic cut-off",
        "ThresholdLearner",
        "the same over all cut-offs of one column",
        "As `agnostic`, for a column of any size.",
        preset={"method": "direct"},
        learns=_cuts,
        rules="cut-offs of one column",
        exact_law=False,
        recommended=False,
    ),
    Method(
        "search",
        "threshold search",
        "ThresholdLearner",
        "private binary search for a cut-off",
        "To compare: its advantage is asymptotic.",
        preset={"method": "search"},
        learns=_one_way,
        rules="cut-offs of one column in one direction",
        exact_law=False,
        recommended=False,
        rows=f"{_AGNOSTIC}:search_rows",
        hard_laws=f"{_AGNOSTIC}:search_claim",
    ),
)

METHODS: dict[str, Method] = {method.key: method for method in _ALL}
"""The methods by their keys; the default first."""

RECOMMENDED = tuple(method.key for method in _ALL if method.recommended)
"""Those that people should choose from."""

DEFAULT = next(iter(METHODS))
"""What runs where nothing but epsilon and a class is given."""


def compared_methods() -> tuple[str, ...]:
    """The recommended methods of noisy labels that have lines in the plan of any class: the default is left for one of
    them where it needs clearly fewer people.

    >>> compared_methods()
    ('hybrid', 'regret', 'mean')
    """
    return tuple(key for key, one in METHODS.items() if one.recommended and one.rows and one.setting == "agnostic")


def register_method(method: Method) -> None:
    """Make a method known to every front, under its key."""
    if method.key in METHODS:
        raise ParameterError(f"there is a method {method.key!r} already; choose another key")
    METHODS[method.key] = method


# Which method


def method_named(name: str) -> Method:
    """The method with a name."""
    if not isinstance(name, str) or name not in METHODS:
        raise ParameterError(f"method must be 'auto' or one of {', '.join(sorted(METHODS))}; got {name!r}")
    return METHODS[name]


def simulated_methods(setting: str | None, simulation: str = "") -> tuple[str, ...]:
    """The methods for rules that a plan predicts, those for labels that some rule explains first; perhaps only those of
    one ``simulation``.

    >>> simulated_methods(None), simulated_methods("agnostic")
    (('realizable', 'hybrid', 'regret', 'mean'), ('hybrid', 'regret', 'mean'))
    """
    fitting = (one for one in METHODS.values() if one.simulation and one.fits(setting))
    found = [one for one in fitting if not simulation or one.simulation == simulation]
    return tuple(one.key for one in sorted(found, key=lambda one: one.setting != "realizable"))


def chosen_by_parameters(concept: Any, setting: str, options: Mapping[str, Any]) -> str | None:
    """The method whose own parameters are given; those of trees count for trees only."""
    given = {name for name, value in options.items() if value is not None}
    for key, method in METHODS.items():
        about_it = method.subject == "concept" or isinstance(concept, VC1Tree)
        if about_it and method.fits(setting) and not given.isdisjoint(method.own_parameters):
            return key
    return None


def check_learns(method: str, concept: Any) -> None:
    """Refuse a method for a class of which it learns no rule, and name those that do."""
    if method_named(method).learns(concept) or not isinstance(concept, ClassOfRules):
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


def as_tree(concept: object, features: Mapping[str, Domain | None]) -> VC1Tree:
    """A tree as it is; cut-offs in one direction and single values as the path and the star they are.

    ``features``: the declared columns of the data, for a class that leaves its column or domain to them.

    >>> from privpac.data import Integers
    >>> from privpac.rules import Thresholds
    >>> as_tree(Thresholds(), {"age": Integers(0, 99)}).height
    100
    """
    if not isinstance(concept, ClassOfRules) or not concept.is_tree:
        raise ParameterError(
            f"the method 'tree' learns trees such as PrefixTree(8), cut-offs in one direction and points, not "
            f"{type(concept).__name__}"
        )
    missing = [name for name, domain in concept.declared().items() if domain is None]
    if missing and isinstance(concept, ConceptClass):
        (name,) = missing
        known = features if name is None else {name: features.get(name)}
        found = {column: domain for column, domain in known.items() if domain is not None}
        if len(known) != 1 or not found:
            raise ParameterError(
                "the method 'tree' needs the domain of the column: declare it, such as Thresholds(Integers(0, 100))"
            )
        concept = concept.with_columns(found)
    tree: VC1Tree = concept.as_tree()
    return tree


def class_of_rules(
    rule: str | ConceptClass | VC1Tree, features: Mapping[str, Domain | None], method: str = "auto"
) -> ConceptClass | VC1Tree:
    """What people mean by a rule: a class, or the name of one over the columns of the data."""
    if not isinstance(rule, str):
        return rule
    without = [name for name, domain in features.items() if domain is None]
    if without:
        raise ParameterError(
            f"columns {without} have no domain: declare one where the data are built, such as Integers(0, 100)"
        )
    known = {name: domain for name, domain in features.items() if domain is not None}
    return named_class(rule, known, method)


def named_class(rule: str, features: Mapping[str, Domain], method: str) -> ConceptClass:
    """The class of rules with a name; by agreement also kinds that are too rich to be scored rule by rule."""
    if method == "agreement" and rule in KINDS:
        return AgreedRules(rule, dict(features))
    if rule in KINDS and rule not in RULES:
        raise ParameterError(
            f"the rule {rule!r} is learned by the method 'agreement' alone, got {method!r}; name that method"
        )
    return rule_class(rule, features)


def rules_named(rule: Any, features: Mapping[str, Domain] | None, *, agreement: bool = False) -> Any:
    """What a plan is asked for: a name of a kind of rule becomes a class over ``features``; all else stays."""
    if not isinstance(rule, str) or rule not in (*RULES, *KINDS):
        if features is not None:
            raise ParameterError("features go with a rule by its name, such as 'stump'; a class brings its own columns")
        return rule
    if not features:
        raise ParameterError(
            f"the rule {rule!r} needs its columns: give features={{'age': Integers(0, 99)}}, or a class such as "
            "Thresholds(Integers(0, 99))"
        )
    if not isinstance(features, Mapping):
        raise TypeError(
            f"features must be columns with their domains, such as {{'age': Integers(0, 99)}}, got "
            f"{type(features).__name__}"
        )
    return named_class(rule, features, "agreement" if agreement else "auto")


# Its learner


def learner_options(method: str, common: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a method's learner that may be given, beside the ``common`` ones of every learner."""
    chosen = method_named(method)
    own = declared(chosen.load())
    return {name: word for name, word in own.items() if name not in common and name not in chosen.preset}


def takes(method: str, option: str) -> bool:
    """Whether the learner of a method has a parameter; no for ``"auto"``, which is none yet."""
    return method in METHODS and option in learner_options(method, {})


def build_learner(method: str, common: Mapping[str, Any], options: Mapping[str, Any]) -> Learner:
    """The learner of a method; ``common`` are the fields of every selection, ``options`` those of this one."""
    own, chosen = learner_options(method, common), METHODS[method]
    check_learns(method, common.get(chosen.subject))
    given = {name: value for name, value in options.items() if name in own or name not in PUBLIC_FACTS}
    missing = [name for name, word in own.items() if word.required and name not in given]
    if missing:
        raise ParameterError(f"the method {method!r} needs {missing[0]}; declare it, or use another method")
    strange = sorted(set(given) - set(own))
    if strange:
        allowed = ", ".join(own)
        raise ParameterError(
            f"unknown option {strange[0]!r}: the method {method!r} takes {allowed or 'none'}; leave {strange[0]} out"
        )
    built: Learner = chosen.load()(**common, **chosen.preset, **given)
    return built
