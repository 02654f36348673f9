"""From a certified row to the learner it speaks of: the same parameters, ready to run, and the command that runs it.

A certificate is a promise about one learner with its clip, cap, split of the budget and so on; with any other nothing
is promised. What the certificate does not name is what was asked for: the accuracy, the records per user, and the
certified number of users where the learner takes a declared one.  Every target makes the runs of its own rows
(:mod:`privpac.planning.targets.certified_runs`); those of rules and trees, methods of ``learn``, are made here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.concepts.named import name_of
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.errors import ParameterError, PrivpacError
from privpac.learners.base import Learner
from privpac.learners.registry import METHODS, build_learner, learner_options, method_certified_by
from privpac.learners.settings import COMMON
from privpac.planning.targets.certified_runs import CertifiedRun, feature_words, learn_words

__all__ = ["certified_run", "rule_run", "runs"]

_RANKS = ("epsilon1", "hi", "K", "users_per_part")


def _class_words(concept: Any) -> list[str]:
    name = name_of(concept)
    if name is None:
        raise ParameterError(
            f"this {type(concept).__name__} has no name on the command line; in Python: plan.learner(row).learn(users)"
        )
    return ["--rule", name, *feature_words(concept.declared())]


def certified_run(plan: Any, row: Any, records_per_user: int | None = None) -> CertifiedRun:
    """The learner of a certified row, for one of the plan's numbers of records per user (the middle one if none is
    named)."""
    name = row if isinstance(row, str) else row.method
    shown = plan.row(name)
    if plan.asked is None or shown.kind != "certified":
        raise ParameterError(f"the row {name!r} is no certificate of a learner; take a certified row of privpac.plan")
    place = _place(plan, records_per_user)
    m = plan.records_per_user[place]
    target = _target_at(plan, shown, place, name, m)
    known = getattr(shown, "certificates", ())  # of a plan; those of an inverse plan are made again at the value found
    certify = next(certify for method, certify, _, _ in target.methods(plan.asked.setting) if method == name)
    certificate: Certificate | None = known[place] if known else certify(m)
    if certificate is None or certificate.n_users is None:
        raise ParameterError(
            f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row"
        )
    run: CertifiedRun = target.run(name, m, certificate, plan.asked)
    return run


def _place(plan: Any, records_per_user: int | None) -> int:
    sizes: tuple[int, ...] = plan.records_per_user
    if records_per_user is None:
        return len(sizes) // 2
    if records_per_user not in sizes:
        listed = ", ".join(map(str, sizes))
        raise ParameterError(
            f"the plan is for {listed} records per user, got {records_per_user}; plan for that number first"
        )
    return sizes.index(records_per_user)


def _target_at(plan: Any, row: Any, place: int, name: str, m: int) -> Any:
    """The target with the value that an inverse plan found for this row, asked about exactly the number of users there
    is."""
    target, quantity = plan.asked.target, getattr(plan, "quantity", None)
    if quantity is None:
        return target
    if row.values[place] is None:
        raise ParameterError(
            f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row"
        )
    within = {"within": plan.asked.n_users} if hasattr(target, "within") else {}
    return replace(target, **{quantity: row.values[place]}, **within)


def rule_run(target: Any, name: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
    """The run of a row for rules or trees: a method of ``learn``."""
    method = method_certified_by(name)
    if method is None:
        raise ParameterError(f"the row {name!r} is not run by a method of learn; its methods are {', '.join(METHODS)}")
    own = learner_options(method, dict.fromkeys(COMMON))
    told = {
        "alpha": target.alpha,
        "beta": target.beta,
        "records_per_user": m,
        "public_n_users": asked.n_users or certificate.n_users,
    }
    if getattr(target, "delta", 0) > 0:
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
    concept = getattr(target, "tree", None) or target.concept
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
        return learn_words(asked.source or _class_words(concept), epsilon, target.neighbours, method, given)

    return CertifiedRun(method, certificate.n_users, given, build, words)


def runs(plan: Any, records_per_user: int | None = None) -> dict[str, dict[str, Any]]:
    """Method, parameters and command of every certified row, for one number of records per user."""
    found: dict[str, dict[str, Any]] = {}
    for row in plan.rows if plan.asked is not None else ():
        if row.kind == "certified":
            with suppress(PrivpacError):  # nothing is certified there
                found[row.method] = certified_run(plan, row, records_per_user).to_dict()
    return found
