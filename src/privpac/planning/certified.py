"""From a certified row to the learner it speaks of: the same parameters, ready to run, and the command that runs it.

A certificate is a promise about one learner with its clip, cap, split of the budget and so on; with any other nothing is promised.
What the certificate does not name is what was asked for: the accuracy, the records per user, and the certified number of users where
the learner takes a declared one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.concepts.named import name_of
from privpac.concepts.trees.base import VC1Tree
from privpac.concepts.trees.nodes import TreeNodes
from privpac.data.declare import domain_text
from privpac.errors import ParameterError, PrivpacError
from privpac.guarantee import Neighbours
from privpac.learners.base import Learner
from privpac.planning.methods import METHODS, build_learner, learner_options
from privpac.planning.rule_models import ROWS
from privpac.planning.settings import COMMON, written

__all__ = ["CertifiedRun", "certified_run", "method_of", "runs"]

_FURTHER = {"user agnostic selection": "agnostic", "pairwise selection": "pairwise", "threshold search": "search"}
_FURTHER |= {"selection from all rules": "realizable"}
_RANKS = ("epsilon1", "hi", "K", "users_per_part")
_OPTIONS = ("max_records", "records_per_user", "public_n_users", "delta")
"""Parameters with an option of their own."""


def method_of(row: str) -> str | None:
    """The method behind a row of a plan; None where no method of ``learn`` is.

    >>> method_of("regret selection, bounded noise"), method_of("agnostic reduction")
    ('regret', None)
    """
    name = row.partition(", ")[0]
    return {**{shown: method for method, shown in ROWS.items()}, **_FURTHER}.get(name)


@dataclass(frozen=True)
class CertifiedRun:
    """A learner that a certificate speaks of, before it is built."""

    method: str
    concept: Any
    epsilon: Fraction
    neighbours: Neighbours
    n_users: int | None
    parameters: Mapping[str, Any]
    source: tuple[str, ...] = ()
    """How the class is written on the command line, where its name and its domains do not say."""

    def learner(self) -> Learner:
        """The learner itself."""
        tree = "tree" if isinstance(self.concept, VC1Tree) else "concept"
        cap = self.parameters.get("max_records")
        common = {tree: self.concept, "epsilon": self.epsilon, "neighbours": self.neighbours, "max_records": cap}
        return build_learner(self.method, common, {name: value for name, value in self.parameters.items() if name != "max_records"})

    def command(self) -> str:
        """``privpac learn`` with these parameters; the names in capitals are the reader's."""
        words = ["privpac", "learn", "TABLE.parquet", "--user", "USER", "--label", "LABEL", *(self.source or _class_words(self.concept))]
        words += ["--epsilon", written(self.epsilon), *(["--neighbours", "replace"] if self.neighbours is Neighbours.REPLACE else [])]
        words += ["--method", self.method]
        for name, value in self.parameters.items():
            words += [f"--{name.replace('_', '-')}", written(value)] if name in _OPTIONS else ["--set", f"{name}={written(value)}"]
        return shlex.join(words)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        shown = {name: value if isinstance(value, (int, str)) else written(value) for name, value in self.parameters.items()}
        return {"method": self.method, "n_users": self.n_users, "parameters": shown, "command": self.command()}


def _class_words(concept: Any) -> list[str]:
    name = name_of(concept)
    if name is None:
        raise ParameterError(f"this {type(concept).__name__} has no name on the command line; build the learner in Python")
    named = {feature or "x": domain for feature, domain in concept.declared().items()}
    return ["--rule", name, *(word for feature, domain in named.items() for word in ("--feature", f"{feature}{domain_text(domain)}"))]


def certified_run(plan: Any, row: Any, records_per_user: int | None = None) -> CertifiedRun:
    """The learner of a certified row, for one of the plan's numbers of records per user (the middle one if none is named)."""
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
        raise ParameterError(f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row")
    return _run(target, name, m, certificate, plan.asked)


def _place(plan: Any, records_per_user: int | None) -> int:
    sizes: tuple[int, ...] = plan.records_per_user
    if records_per_user is None:
        return len(sizes) // 2
    if records_per_user not in sizes:
        listed = ", ".join(map(str, sizes))
        raise ParameterError(f"the plan is for {listed} records per user, got {records_per_user}; plan for that number first")
    return sizes.index(records_per_user)


def _target_at(plan: Any, row: Any, place: int, name: str, m: int) -> Any:
    """The target with the value that an inverse plan found for this row, asked about exactly the number of users there is."""
    target, quantity = plan.asked.target, getattr(plan, "quantity", None)
    if quantity is None:
        return target
    if row.values[place] is None:
        raise ParameterError(f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row")
    within = {"within": plan.asked.n_users} if hasattr(target, "within") else {}
    return replace(target, **{quantity: row.values[place]}, **within)


def _run(target: Any, name: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
    method = method_of(name)
    if method is None:
        raise ParameterError(f"the row {name!r} is not run by a method of learn; its methods are {', '.join(METHODS)}")
    own = learner_options(method, dict.fromkeys(COMMON))
    told = {"alpha": target.alpha, "beta": target.beta, "records_per_user": m, "public_n_users": asked.n_users or certificate.n_users}
    if getattr(target, "delta", 0) > 0:
        told["delta"] = target.delta
    preset = METHODS[method].preset
    if "statistic" in preset:
        del told["public_n_users"]  # only a clip follows it, and a mean has none
    fixed = {key: value for key, value in certificate.parameters.items() if preset.get(key) != value}
    if method == "tree":  # ranks and split of this very certificate, which is for labels that some node explains
        told |= {"mode": "closure"} | {key: value for key, value in certificate.details if key in _RANKS}
    if "sizes" in fixed:
        del told["records_per_user"]  # the sizes say more
    given = {key: value for key, value in (told | fixed).items() if key in own or key in fixed}
    concept = getattr(target, "tree", None) or target.concept
    if isinstance(concept, VC1Tree) and method != "tree":
        concept = TreeNodes(concept)
    return CertifiedRun(method, concept, target.epsilon, target.neighbours, certificate.n_users, given, asked.source)


def runs(plan: Any, records_per_user: int | None = None) -> dict[str, dict[str, Any]]:
    """Method, parameters and command of every certified row that has them, for one number of records per user."""
    found: dict[str, dict[str, Any]] = {}
    for row in plan.rows if plan.asked is not None else ():
        if row.kind == "certified" and method_of(row.method) is not None:
            try:
                found[row.method] = certified_run(plan, row, records_per_user).to_dict()
            except PrivpacError:
                continue  # nothing is certified there, or the class cannot be written on the command line
    return found
