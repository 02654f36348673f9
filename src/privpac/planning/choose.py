"""Which method, from public quantities only.

With nothing declared the answer is clipped-regret selection, which needs neither the noise rate nor a cap.  With a number of users and
of records per user declared, cut-offs are compared by their predicted excess error on the standard model; other classes by
certified numbers of users.  Data are never an argument here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.thresholds import Thresholds
from privpac.concepts.trees.base import VC1Tree
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.learners.regret import RegretSelection
from privpac.planning.plan import plan_users
from privpac.planning.predict import predict_excess
from privpac.planning.trees import tree_reason

__all__ = ["Choice", "choose_method"]

DEFAULT_NOISE = 0.2
MAX_SIMULATED = 1 << 17
"""Simulated records per data set at most; larger declarations are predicted at this many, which favours no method."""


@dataclass(frozen=True)
class Choice:
    """A method and the reason for it."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def choose_method(
    concept: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    delta: Rational = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    setting: str = "agnostic",
    public_n_users: int | None = None,
    records_per_user: int | None = None,
    noise: Rational | None = None,
) -> Choice:
    """The method predicted best among those that need nothing but what was declared.

    >>> import privpac as pp
    >>> choose_method(pp.Thresholds(pp.Integers(0, 99)), epsilon=1).method
    'regret'
    >>> print(choose_method(pp.PrefixTree(8), epsilon=1, delta="1e-6"))
    tree: the vocabulary is open: the rules cannot be listed, and people vote for what they hold
    """
    if isinstance(concept, VC1Tree):
        relation = one_of(Neighbours, neighbours, "neighbours")
        return Choice("tree", tree_reason(concept, epsilon, delta, relation, records_per_user))
    if setting == "realizable":
        return Choice("realizable", "some rule is declared to be right")
    relation, eps = one_of(Neighbours, neighbours, "neighbours"), rational(epsilon, "epsilon", above=0)
    if records_per_user is None or public_n_users is None:
        return Choice("regret", "the default: it needs no noise rate, no cap and nothing to tune")
    m, n = positive_int(records_per_user, "records_per_user"), positive_int(public_n_users, "public_n_users", minimum=0)
    if m == 1:
        return Choice("regret", "with one record per user all agnostic methods score users alike")
    if isinstance(concept, Thresholds) and concept.direction != "both" and n > 0:
        flips = DEFAULT_NOISE if noise is None else float(rational(noise, "noise", minimum=0, below="1/2"))
        return _predicted(str(eps), str(relation), n, min(m, max(1, MAX_SIMULATED // n)), flips)
    return _certified(concept, eps, relation, m)


@lru_cache(maxsize=256)
def _predicted(epsilon: str, neighbours: str, n: int, m: int, noise: float) -> Choice:
    users = min(n, MAX_SIMULATED)
    learners: Mapping[str, Callable[[], Any]] = {
        "regret": lambda: RegretSelection(Thresholds(), epsilon, neighbours, public_n_users=users),  # type: ignore[arg-type]
        "mean": lambda: RegretSelection(Thresholds(), epsilon, neighbours, public_n_users=users, statistic="mean"),  # type: ignore[arg-type]
    }
    found = {name: predict_excess(build(), n_users=users, records_per_user=m, noise=noise) for name, build in learners.items()}
    best = min(found, key=lambda name: found[name].excess)
    if found["regret"].excess <= found[best].excess + found[best].error:
        best = "regret"
    compared = ", ".join(f"{name} {value.excess:.4f}" for name, value in found.items())
    return Choice(best, f"predicted excess error {compared} ({found[best].model})")


def _certified(concept: ConceptClass, epsilon: Any, neighbours: Neighbours, m: int) -> Choice:
    rows = {row.method: row.n_users[0] for row in plan_users(concept, epsilon=epsilon, neighbours=neighbours, records_per_user=m).rows}
    regret, mean = rows["regret selection"], rows["per-user mean"]
    return Choice("regret", f"no prediction for this class; certified users: regret {regret}, mean {mean}")
