"""Which rules are learned where none are named, and by which method where nothing is declared: by public numbers alone.

| columns | rules |
|---|---|
| one | a cut, in either direction; of categories without an order one of them, or all but one |
| two to four | the best such rule on any one of them |
| five or more, none endless | a small tree; a scorecard with a delta and 200 people times theta declared |

Theta is epsilon under add-remove and half of it under replace.  Of ``k`` labels each has a scorecard of its own with
the ``k``-th part of the budget, whose noise is larger by the root of ``k``: so many times the people are asked for.

Why not more where it could be had: the number of people is private, and buying it costs where the budget is short; a
delta above 0 is a weaker promise that nobody gets without asking; and what needs many people is the worst choice where
they are few, while a small tree where they are many is a mild one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Any

from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.exact import Rational, rational, shown
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.methods.registry import DEFAULT, METHODS
from privpac.rules.base import ConceptClass
from privpac.rules.cuts import Thresholds
from privpac.rules.points import Points
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import SmallTrees
from privpac.rules.stumps import Stumps

FEW, MANY = 2, 5
"""From so many columns on: the best of them, a small tree."""

_Features = Mapping[str, Domain | None]


@dataclass(frozen=True)
class DefaultRules:
    """A class of rules, the method that learns it ("auto": any), and why these."""

    concept: ConceptClass
    method: str
    reason: str


@dataclass(frozen=True)
class WideDefault:
    """What stands in for small trees on wide tables with a delta, from so many people times theta on."""

    method: str
    least: int
    build: Callable[[_Features], ConceptClass]


SCORECARD_FROM = 200
"""People times theta from which a scorecard is better than a tree on most tables: the sign changes near 150."""

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
    for wide in WIDE.values() if delta is not None and rational(delta, "delta", minimum=0, below=1) > 0 else ():
        theta = rational(epsilon, "epsilon", above=0)
        if one_of(Neighbours, neighbours, "neighbours") is Neighbours.REPLACE:
            theta /= 2
        least = wide.least if labels <= 2 else isqrt(wide.least**2 * labels)
        if public_n_users is not None and positive_int(public_n_users, "public_n_users") * theta >= least:
            return DefaultRules(
                wide.build(columns),
                wide.method,
                f"{said}, a delta, and {public_n_users} people declared, times theta = {shown(theta)} at least "
                f"{least}: a {METHODS[wide.method].title}",
            )
    few = "" if delta is None else "; the delta is not used: too few people are declared for more"
    return DefaultRules(SmallTrees(columns), "small-tree", f"{said}: a small tree{few}")


def unused(rules: DefaultRules, options: Mapping[str, Any]) -> dict[str, Any]:
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


@dataclass(frozen=True)
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
