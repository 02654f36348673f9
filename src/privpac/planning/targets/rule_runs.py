"""From a certified line for rules or trees to the learner it speaks of: the same parameters, ready to run, and the
command that runs it.

A certificate is a promise about one learner with its clip, cap, split of the budget and so on; with any other nothing
is promised. What the certificate does not name is what was asked for: the accuracy, the records per user, and the
certified number of users where the learner takes a declared one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.concepts.named import name_of
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import ParameterError
from privpac.learners.base import Learner
from privpac.learners.registry import METHODS, build_learner, learner_options
from privpac.learners.settings import COMMON
from privpac.planning.targets.certified_runs import CertifiedRun, feature_words, learn_words

if TYPE_CHECKING:
    from privpac.planning.targets.rule_goal import RuleGoal
    from privpac.planning.targets.small_tree_targets import SmallTreeTarget
    from privpac.planning.targets.target import Asked
    from privpac.planning.targets.tree_targets import TreeTarget

__all__ = ["class_words", "rule_run"]

_RANKS = ("epsilon1", "hi", "K", "users_per_part")


def class_words(concept: Any) -> list[str]:
    """How the class is written on the command line."""
    name = name_of(concept)
    if name is None:
        raise ParameterError(
            f"this {type(concept).__name__} has no name on the command line; in Python: plan.learner(row).learn(users)"
        )
    return ["--rule", name, *feature_words(concept.declared())]


def rule_run(
    target: RuleGoal | TreeTarget | SmallTreeTarget, method: str, m: int, certificate: Certificate, asked: Asked
) -> CertifiedRun:
    """The run of a method of ``learn``."""
    own = learner_options(method, dict.fromkeys(COMMON))
    told: dict[str, Any] = {
        "alpha": target.alpha,
        "beta": target.beta,
        "records_per_user": m,
        "public_n_users": asked.n_users or certificate.n_users,
    }
    if target.delta > 0:
        told["delta"] = target.delta
    preset = METHODS[method].preset
    if "statistic" in preset:
        del told["public_n_users"]  # only a clip follows it, and a mean has none
    fixed = {key: value for key, value in certificate.parameters.items() if preset.get(key) != value}
    epsilon = fixed.pop("epsilon", target.epsilon)  # a certificate may be for less than may be spent
    if method == "tree":  # ranks and split of this very certificate, which is for labels that some node explains
        told |= {"mode": "closure"} | {key: value for key, value in certificate.details if key in _RANKS}
    if "sizes" in fixed:
        del told["records_per_user"]  # the sizes say more
    given = {key: value for key, value in (told | fixed).items() if key in own or key in fixed}
    concept: ConceptClass | VC1Tree = target.concept
    if isinstance(concept, VC1Tree) and method != "tree":
        concept = TreeNodes(concept)
    common = {
        "tree" if isinstance(concept, VC1Tree) else "concept": concept,
        "epsilon": epsilon,
        "neighbours": target.neighbours,
    }

    def build() -> Learner:
        options = {key: value for key, value in given.items() if key != "max_records"}
        return build_learner(method, common | {"max_records": given.get("max_records")}, options)

    def words() -> list[str]:
        return learn_words(asked.source or class_words(concept), epsilon, target.neighbours, method, given)

    return CertifiedRun(method, certificate.n_users, given, build, words)
