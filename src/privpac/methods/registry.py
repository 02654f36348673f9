"""The methods: one record of facts for each, the learners behind the names that people type, and the default.

Everything that is true of a method stands here once: what it is called, which learner it runs with which parameters
set, which classes of rules it learns, what has to be declared for it, what it promises, and where a plan shows it.
``learn``, ``plan``, ``compare``, the refuter, the command line, the estimator and the table in the documentation read
it.  A method that does not learn a class is refused here, in one place and before anything is spent, by every entry
point alike.

What takes code of its own (the learner, the rows of a plan, the simulation, the hard laws that attack its certificates)
is named as ``"module:attribute"`` and loaded on use, so that a record costs nothing; a class or a function will do as
well.  A method of one's own is a record given to :func:`register_method`; its learner is any class with the fields of a
``Selection`` (``concept``, ``epsilon``, ``neighbours``, ``unit``, ``max_records``) and its own parameters after them.

In order: the record, the methods, which rules and method are taken where none are named, and parameters as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from importlib import import_module
from math import isqrt
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac import methods as learners
from privpac.data import Domain
from privpac.device.tasks import KINDS
from privpac.errors import ParameterError, did_you_mean
from privpac.exact import Rational, rational, shown
from privpac.guarantee import Neighbours, Unit, one_of, positive_int
from privpac.methods.agreement.agreement_learner import AgreedRules, by_agreement
from privpac.methods.base import Learner
from privpac.parameters import Parameter, declared
from privpac.rules.base import RULES, ClassOfRules, ConceptClass
from privpac.rules.cuts import Thresholds
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.named import rule_class
from privpac.rules.points import Points
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import SmallTrees
from privpac.rules.stumps import Stumps
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.methods.planned import Asked, CertifiedRun, RuleGoal, Target
    from privpac.methods.simulation import Simulation

Need = tuple[str, ...]
"""Parameters one of which has to be declared."""

PROMISES = {
    "pure": "(ε, 0)",
    "either": "(ε, δ), or (ε, 0) with δ = 0",
    "approximate": "(ε, δ), δ > 0",
}
"""What a method guarantees, by whether its learner takes no delta, may take one, or needs one."""

ANY_LABELS = "certified for any labels"
RIGHT_RULE = "certified where some rule is right"
AGREEING = "certified where people agree"
MEASURED = "measured, not certified"


def resolve(named: object) -> Any:
    """What a ``"module:attribute"`` names; all else as it is.

    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    if not isinstance(named, str):
        return named
    module, _, attribute = named.partition(":")
    return getattr(import_module(module), attribute)


def scored(concept: object) -> bool:
    """Whether the rules of a class can be scored one by one."""
    return isinstance(concept, ClassOfRules) and concept.scored


@frozen(slots=False)
class PlannedMethod:
    """One line of a plan.

    ``certify(m)`` is the bound on the number of users with ``m`` records each, ``kind`` what sort of number that is
    ("certified" or "lower bound"), and ``assumes`` what must hold beside what the certificate says.  ``run(m,
    certificate, asked)`` is the learner that a certified line speaks of; a line of a method of ``learn`` needs none.
    """

    name: str
    certify: Callable[[int], Certificate]
    assumes: str = ""
    kind: str = "certified"
    run: Callable[[int, Certificate, Asked], CertifiedRun] | None = None
    key: str = ""
    """The method itself, by which recommendations know it: its lines on several assumptions share it."""
    bounded_noise: bool = False
    """Whether it is for labels that are wrong with at most the declared probability."""
    hard_laws: str | Callable[..., Any] = ""
    """``(target, line, certificate, records_per_user)`` to a claim to refute, or to the reason (a text) why it is not
    tried; see :mod:`privpac.auditing.claims`."""


@frozen(slots=False)
class Method:
    """What is known of one method."""

    key: str
    """What people type."""
    title: str
    """Its name in sentences, and in the rows of a plan."""
    learner: str | type[Any]
    """A class of ``privpac.methods``, ``"module:attribute"``, or a class of one's own."""
    about: str
    """What it does."""
    when: str
    """When to use it, in a sentence."""
    recommended: bool = True
    """Whether people should choose from it; else a paper's, that another one dominates: reached by its name, and shown
    where all methods are asked for."""
    preset: Mapping[str, Any] = field(factory=dict)
    """Parameters of the learner that make it this method."""
    by_setting: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """Parameters that follow the declared setting, unless they are given."""
    subject: str = "concept"
    """The learner's field for what is learned: ``"concept"``, or ``"tree"``."""
    sized: bool = False
    """Whether its parameters follow the size of the class, which therefore takes its domains from the data first."""
    keeps_trees: bool = False
    """Whether a tree is learned as it is; otherwise as the class of its nodes."""
    learns: Callable[[Any], bool] = scored
    rules: str = "every class whose rules can be scored one by one"
    """Of which classes it learns a rule, as a function and in words."""
    setting: str | None = "agnostic"
    """The labels it is for: ``"agnostic"`` (any), ``"realizable"`` (some rule is right), None: either."""
    promise: str = "pure"
    """A key of :data:`PROMISES`."""
    accuracy: str = ANY_LABELS
    needs: tuple[Need, ...] = ()
    """What has to be declared for every class."""
    relations: Mapping[Neighbours, tuple[Need, ...]] = field(
        factory=lambda: {Neighbours.ADD_REMOVE: (), Neighbours.REPLACE: ()}
    )
    """The relations it can promise, each with what has to be declared besides."""
    units: tuple[Unit, ...] = (Unit.USER, Unit.ITEM)
    rows: str | Callable[[RuleGoal], Iterable[PlannedMethod]] = ""
    """Its lines in the plan of a class of rules, where something is certified."""
    simulation: str | Callable[[str, RuleGoal], Simulation] = ""
    """``(key, goal)`` to what a plan predicts of it on a model of a class of rules, in a row of its title."""
    target: str | Callable[..., Target] = ""
    """What is planned for, where the method has a plan of its own: of the class that it alone learns, of trees, in a
    trust model."""
    hard_laws: str | Callable[..., Any] = ""
    """Of its lines that name none: see :class:`PlannedMethod`."""
    exact_law: bool = True
    """Whether its law over a class of some thousand rules costs less than a few runs."""
    own_parameters: tuple[str, ...] = ()
    """Who gives one of these without naming a method has chosen this one."""

    def __attrs_post_init__(self) -> None:
        if not self.key.replace("-", "").isalnum() or self.key == "auto":
            raise ParameterError(f"a method's key is a word other than 'auto', such as 'mean'; got {self.key!r}")
        if self.promise not in PROMISES:
            raise ParameterError(f"promise must be one of {', '.join(PROMISES)}; got {self.promise!r}")

    def load(self) -> type[Any]:
        """The class of its learner."""
        named = isinstance(self.learner, str) and ":" not in self.learner
        found: type[Any] = getattr(learners, str(self.learner)) if named else resolve(self.learner)
        return found

    def fits(self, setting: str | None) -> bool:
        """Whether it is for the labels of a setting; None stands for both."""
        return setting is None or self.setting in (None, setting)


PUBLIC_FACTS = ("public_n_users", "records_per_user", "noise", "people", "population")
"""Declarations for the choice of a method, which a method itself may have no use for; they are then ignored instead of
refused."""


def _cuts(concept: object) -> bool:
    return isinstance(concept, ClassOfRules) and concept.cut_direction is not None


def _one_way(concept: object) -> bool:
    return isinstance(concept, ClassOfRules) and concept.cut_direction not in (None, "both")


def _scored_or_tree(concept: object) -> bool:
    return isinstance(concept, VC1Tree) or scored(concept)


def _small_trees(concept: object) -> bool:
    return isinstance(concept, ClassOfRules) and concept.own_method == "small-tree"


def _cards(concept: object) -> bool:
    return isinstance(concept, ClassOfRules) and concept.own_method == "scorecard"


def _nodes(concept: object) -> bool:
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
        known = ", ".join(sorted(METHODS))
        raise ParameterError(f"method must be 'auto' or one of {known}; got {name!r}{did_you_mean(name, METHODS)}")
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


def chosen_by_parameters(concept: object, setting: str, options: Mapping[str, object]) -> str | None:
    """The method whose own parameters are given; those of trees count for trees only."""
    given = {name for name, value in options.items() if value is not None}
    for key, method in METHODS.items():
        about_it = method.subject == "concept" or isinstance(concept, VC1Tree)
        if about_it and method.fits(setting) and not given.isdisjoint(method.own_parameters):
            return key
    return None


def check_learns(method: str, concept: object) -> None:
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


# Its learner


def learner_options(method: str, common: Mapping[str, object]) -> dict[str, Parameter]:
    """The parameters of a method's learner that may be given, beside the ``common`` ones of every learner."""
    chosen = method_named(method)
    own = declared(chosen.load())
    return {name: word for name, word in own.items() if name not in common and name not in chosen.preset}


def takes(method: str, option: str) -> bool:
    """Whether the learner of a method has a parameter; no for ``"auto"``, which is none yet."""
    return method in METHODS and option in learner_options(method, {})


def build_learner(method: str, common: Mapping[str, object], options: Mapping[str, object]) -> Learner:
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
        near = did_you_mean(strange[0], (*own, *PUBLIC_FACTS, *_OF_LEARN))
        raise ParameterError(
            f"unknown option {strange[0]!r}: the method {method!r} takes {allowed or 'none'}; leave {strange[0]} out"
            f"{near or _who_takes(strange[0], common.get(chosen.subject))}"
        )
    built: Learner = chosen.load()(**common, **chosen.preset, **given)
    return built


_OF_LEARN = ("method", "setting", "neighbours", "max_records", "ledger", "not_before", "evaluate", "certify", "ids")
"""Words of ``learn`` itself, for a near miss."""


def _who_takes(option: str, concept: object) -> str:
    """The methods that use an option, those for these rules first; nothing if there are none."""
    using = [one for one in METHODS.values() if one.recommended and option in learner_options(one.key, {})]
    fitting = [one for one in using if one.learns(concept)]
    names = " or ".join(repr(one.key) for one in fitting or using)
    if not names:
        return ""
    instead = "; evaluate='1/5' gives every rule chances" if option == "calibrate" else ""
    return f", or use it with method={names}{'' if fitting else ', which learn other rules'}{instead}"


FEW, MANY = 2, 5
"""From so many columns on: the best of them, a small tree."""

_Features = Mapping[str, Domain | None]


# Which rules are learned where none are named, and by which method where nothing is declared: by public numbers alone.
#
# | columns | rules |
# |---|---|
# | one | a cut, in either direction; of categories without an order one of them, or all but one |
# | two to four | the best such rule on any one of them |
# | five or more, none endless | a small tree; a scorecard with a delta and 500 people times theta declared |
#
# Theta is epsilon under add-remove and half of it under replace.  Of ``k`` labels each has a scorecard of its own with
# the ``k``-th part of the budget, whose noise is larger by the root of ``k``: so many times the people are asked for.
#
# Why not more where it could be had: the number of people is private, and buying it costs where the budget is short;
# a delta above 0 is a weaker promise that nobody gets without asking; and what needs many people is the worst choice
# where they are few, while a small tree where they are many is a mild one.


@frozen(slots=False)
class DefaultRules:
    """A class of rules, the method that learns it ("auto": any), and why these."""

    concept: ConceptClass
    method: str
    reason: str


@frozen(slots=False)
class WideDefault:
    """What stands in for small trees on wide tables with a delta, from so many people times theta on."""

    method: str
    least: int
    build: Callable[[_Features], ConceptClass]


SCORECARD_FROM = 500
"""People times theta from which a scorecard is better than a tree: over public tables in natural ranges the tree was
better at 300, the scorecard at 900."""

DELTA_PAYS = (
    f"from {SCORECARD_FROM} people times theta on, a delta such as delta='1e-6' gives a scorecard, which was wrong "
    "about 1 time in 100 less often on the tables measured, and more often where columns repeat each other"
)

WIDE: dict[str, WideDefault] = {
    "scorecard": WideDefault("scorecard", SCORECARD_FROM, lambda features: Scorecards(dict(features))),
}
"""By method."""


def _questions(columns: _Features) -> str:
    """What stumps ask of these columns."""
    orders = {domain is None or domain.ordered for domain in columns.values()}
    return "cut or category" if len(orders) == 2 else "cut" if True in orders else "category"


def default_rules(
    features: _Features,
    *,
    epsilon: Rational,
    method: str = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    delta: Rational | None = None,
    public_n_users: int | None = None,
    labels: int = 2,
) -> DefaultRules:
    """The rules to learn over some columns.

    >>> from privpac.data import Integers
    >>> found = default_rules({f"x{j}": Integers(0, 9) for j in range(6)}, epsilon=1)
    >>> found.method, found.reason
    ('small-tree', '6 columns and no class of rules named: a small tree')
    """
    if not features:
        raise ParameterError("a rule needs at least one column")
    columns = dict(features)
    said = f"{len(columns)} column{'s' if len(columns) > 1 else ''} and no class of rules named"
    if (asked := WIDE.get(method)) is not None:
        return DefaultRules(asked.build(columns), method, f"the method {method} asked for")
    if method == "small-tree":
        return DefaultRules(SmallTrees(columns), method, "the method small-tree asked for")
    # A small tree asks about public cut points, and there are none on the whole line.
    endless = any(not getattr(domain, "bounded", True) for domain in columns.values())
    if method != "auto" or len(columns) < MANY or endless:
        if len(columns) < FEW:
            ((name, domain),) = columns.items()
            if domain is not None and not domain.ordered:
                # A method that was named may learn hierarchies only, and single values are one.
                one = Stumps(columns) if method == "auto" else Points(domain, name)
                return DefaultRules(one, method, f"{said}: the best of its categories")
            # A method that was named may learn one direction only, and then the usual one.
            direction = "both" if method == "auto" else "above"
            return DefaultRules(Thresholds(domain, name, direction), method, f"{said}: a cut")
        return DefaultRules(Stumps(columns), method, f"{said}: the best {_questions(columns)} on one of them")
    theta = rational(epsilon, "epsilon", above=0)
    if one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE:
        theta /= 2
    for wide in WIDE.values() if delta is not None and rational(delta, "delta", minimum=0, below=1) > 0 else ():
        least = wide.least if labels <= 2 else isqrt(wide.least**2 * labels)
        if public_n_users is not None and positive_int(public_n_users, "public_n_users") * theta >= least:
            return DefaultRules(
                wide.build(columns),
                wide.method,
                f"{said}, a delta, and {public_n_users} people declared, times theta = {shown(theta)} at least "
                f"{least}: a {METHODS[wide.method].title}",
            )
    more = "" if delta is None else "; the delta is not used: too few people are declared for more"
    if delta is None and public_n_users is not None:
        enough = positive_int(public_n_users, "public_n_users") * theta >= SCORECARD_FROM * max(1, labels - 1)
        more = f"; {DELTA_PAYS}" if enough else ""
    return DefaultRules(SmallTrees(columns), "small-tree", f"{said}: a small tree{more}")


def unused(rules: DefaultRules, options: Mapping[str, object]) -> dict[str, Any]:
    """The options without those that the rules have no use for: a small tree is pure, whatever delta is allowed."""
    return {name: value for name, value in options.items() if name != "delta" or rules.method != "small-tree"}


# A method and the reason for it: what a recommendation is, wherever it comes from.


_BASES = {
    "": "{}",
    "predicted": "a simulation says so (not a certificate): {}",
    "unpredicted": "it is the default, with {}",
    "default": "it is {}",
    "least": "it has {}",
}
"""What a reason rests on, and how it continues "because": nothing said, a prediction, the default where there is no
prediction or in general, the least certified number."""


@frozen(slots=False)
class Choice:
    """A method, the reason for it, and what that rests on.

    >>> print(Choice("hybrid", "the default: nothing is declared", "default"))
    hybrid: the default: nothing is declared
    >>> Choice("hybrid", "the default: nothing is declared", "default").because
    'it is the default: nothing is declared'
    """

    method: str
    reason: str
    basis: str = ""

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"

    @property
    def because(self) -> str:
        """The reason as the end of a sentence."""
        return _BASES[self.basis].format(self.reason)


def default_method(setting: str) -> Choice:
    """The method where nothing but the setting is declared."""
    if setting == "realizable":
        return Choice("realizable", "some rule is declared to be right")
    return Choice(
        DEFAULT, "the default: it needs no number of users, no noise rate, no cap and nothing to tune", "default"
    )


# Parameters of a learner as text, both ways: ``--set name=value`` on the command line, and commands that a plan
# prints.
#
# The learner's own fields say which names there are and how a text is read; whether a value is allowed the learner says
# itself.
#
# =====================  =========================================================
# field                  text
# =====================  =========================================================
# a whole number         ``32``
# a rational             ``1/16``, ``0.05``
# a word                 ``bisect``
# yes or no              ``true``, ``false``
# numbers of records     ``1,4,16``
# a pair of rationals    ``0.1,1/16``
# a table of numbers     ``3``, ``1:1,16:4`` (from 16 records on 4), or ``auto``
# a seed                 hexadecimal digits
# words to numbers       ``Gamma:60,race:dyadic``
# =====================  =========================================================

COMMON = ("concept", "tree", "epsilon", "neighbours", "unit", "max_records")
"""Fields of every learner: they have options of their own."""

_FLAGS = {
    "public_n_users": "--people",
    "n_users": "--people",
    "people": "--people-are",
    "k": "--values",
    "d": "--columns",
    "features": "--feature",
}
"""Parameters whose options are not called like them."""

_WHOLE = re.compile(r"[+-]?\d+")


def flag(name: str) -> str:
    """The option of the command line that says a parameter of the library.

    >>> flag("records_per_user"), flag("public_n_users")
    ('--records-per-user', '--people')
    """
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def read_settings(method: str, texts: Iterable[str]) -> dict[str, Any]:
    """The parameters named by ``name=value`` texts, for the learner of a method.

    >>> read_settings("agnostic", ["radius=1/16", "sizes=32", "estimator=bisect"])
    {'radius': '1/16', 'sizes': (32,), 'estimator': 'bisect'}
    """
    given = [text.partition("=") for text in texts]
    if not given:
        return {}
    if method == "auto":
        raise ParameterError("a parameter belongs to a method: name one with --method next to --set")
    allowed = _settable(method)
    found: dict[str, Any] = {}
    for name, equals, value in given:
        if not equals or not name or not value:
            raise ParameterError(
                f"a parameter is set as name=value, such as radius=1/16; got {name + equals + value!r}"
            )
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            near = did_you_mean(name, allowed)
            raise ParameterError(f"the method {method!r} has no parameter {name!r} to set; it has {known}{near}")
        if name in found:
            raise ParameterError(f"the parameter {name!r} is set twice; set it once")
        found[name] = _read(allowed[name], name, value)
    return found


def _settable(method: str) -> dict[str, str]:
    """Parameters that a text can say, with their types."""
    kinds = {name: str(word.type) for name, word in learner_options(method, dict.fromkeys(COMMON)).items()}
    return {name: kind for name, kind in kinds.items() if name != "population" and _reader(kind) is not None}


def _reader(kind: str) -> tuple[Callable[[str], Any], str] | None:
    return next(((read, said) for mark, read, said in _READERS if mark in kind), None)


def _read(kind: str, name: str, text: str) -> Any:
    reader = _reader(kind)
    assert reader is not None
    try:
        return reader[0](text)
    except ValueError:
        raise ParameterError(f"{name} must be {reader[1]}; got {text[:40]!r}") from None


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(text)
    return int(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _table(text: str) -> Any:
    """A number, a table, or a word that the learner may know."""
    if ":" in text:
        return {_whole(least): _whole(value) for least, _, value in (part.partition(":") for part in text.split(","))}
    return _whole(text) if _WHOLE.fullmatch(text.strip()) else text


def _words(text: str) -> dict[str, int | str]:
    pairs = [part.partition(":") for part in text.split(",")]
    if any(not (name and value) for name, _, value in pairs):
        raise ValueError(text)
    return {name: int(value) if _WHOLE.fullmatch(value) else value for name, _, value in pairs}


_READERS: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("Table", _table, "a whole number, or a table such as 1:1,16:4"),
    ("tuple[int", lambda text: tuple(_whole(part) for part in text.split(",")), "whole numbers such as 1,4,16"),
    ("tuple[Fraction", lambda text: tuple(text.split(",")), "two numbers such as 0.1,1/16"),
    ("Mapping[str, int | str]", _words, "names with values such as Gamma:60,race:dyadic"),
    ("bytes", bytes.fromhex, "hexadecimal digits"),
    ("bool", _truth, "true or false"),
    ("Fraction", str, "a number"),
    ("Rational", str, "a number"),
    ("int", _whole, "a whole number"),
    ("str", str, "a word"),
    ("Mode", str, "a word"),
    ("Any", _table, "a whole number, or a table such as 1:1,16:4"),
)
"""By a mark in the type of a field, the first that fits: how its text is read, and what it must be."""


def setting_text(value: object) -> str:
    """A value as :func:`read_settings` reads it.

    >>> [setting_text(value) for value in (Fraction(1, 16), (1, 4), {1: 1, 16: 4}, True, bytes(2))]
    ['0.0625', '1,4', '1:1,16:4', 'true', '0000']
    """
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ",".join(map(setting_text, value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction):
        short = f"{float(value):g}"
        return short if Fraction(short) == value else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
