"""Parameters of the tree learner, and what follows from them before any data: ranks, shares, guarantee, the two draws.

:mod:`privpac.learners.tree.learner` says what is learned and why it is private.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import field, frozen

from privpac.bounds.trees.plan import plan_tree
from privpac.concepts.trees.base import Mode, VC1Tree, check_mode
from privpac.errors import ParameterError
from privpac.exact import dyadic_base, rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.learners.base import Learner
from privpac.learners.selection.regret import COUNT_SHARE
from privpac.learners.tree.accuracy import TreeAim
from privpac.learners.tree.law import NodeChoice
from privpac.learners.tree.parts import PartSizes
from privpac.learners.tree.split import Ranks, Split
from privpac.mechanisms.choosing import choosing_law
from privpac.mechanisms.laplace import Laplace
from privpac.parameters import (
    Composed,
    named,
    part,
    privacy,
    probability_or_zero,
    protected_unit,
    relation,
    whole_or_none,
)

__all__ = ["PlannedTreeLearner"]


@frozen(slots=False, init=False, field_transformer=named)
class PlannedTreeLearner(Composed, Learner):
    """What a tree learner is told, and what it plans.  All parameters are public.

    Parameters
    ----------
    tree : VC1Tree
        The tree, such as ``PrefixTree(8)``.
    epsilon, delta : number
        The privacy parameters; ``delta = 0`` (the default) needs levels whose nodes can be counted through.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    mode : str
        How a part's records become a node: ``"closure"``, ``"erm"``, ``"exact"``.
    max_records : int, optional
        How many records of a user are read at most.
    ranks : Ranks
        Given by its own parameters: ``selector``, ``epsilon1``, ``hi``, ``K``.
    groups : PartSizes
        Given by its own parameters: ``parts``, ``users_per_part``.
    aim : TreeAim
        Given by its own parameters: ``alpha``, ``beta``, ``records_per_user``, ``public_n_users``, ``strict``.
    """

    tree: VC1Tree
    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    mode: Mode = "closure"
    max_records: int | None = field(default=None, kw_only=True, converter=whole_or_none)
    ranks: Ranks = part(Ranks)
    groups: PartSizes = part(PartSizes)
    aim: TreeAim = part(TreeAim)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree such as PrefixTree(8), got {type(self.tree).__name__}")
        check_mode(self.tree, self.mode)
        if self.ranks.epsilon1 is not None:
            rational(self.ranks.epsilon1, "epsilon1", maximum=self.epsilon)
        if self.groups.users_per_part > 1 and self.neighbours is Neighbours.ADD_REMOVE:
            raise ParameterError(
                "users_per_part needs the number of users, which is private under add-remove; declare parts instead"
            )
        self._check_levels()
        split = self.split
        if self.needs_count:
            self._count()  # its own limits on epsilon, before anything is spent
        if split.delta2 > 0:  # refuses a delta that is too large, before any data
            choosing_law({}, self.choice(self.tree).r2, split.delta2)

    def _check_levels(self) -> None:
        if self.delta > 0 or self.width == 1:
            return
        if self.width is None:
            raise ParameterError("open vocabulary needs delta > 0; give a delta such as 1e-6")
        if not self.tree.lists_levels:
            raise ParameterError("this tree does not list the nodes of a level; give a delta such as 1e-6")

    # What is planned where it is left out

    @cached_property
    def follows(self) -> bool:
        """Whether the ranks follow the number of parts."""
        ranked = self.tree.height > 0 and self.ranks.selector in ("auto", "exponential") and not self._long
        return self.mode == "erm" and ranked and not self.ranks.given

    @cached_property
    def _planned(self) -> dict[str, Any]:
        """What certifies a declared target with the fewest users."""
        free = not self.ranks.given and self.ranks.epsilon1 is None
        return (self._plan() or {}) if self.aim.alpha is not None and free and self._plannable else {}

    @cached_property
    def split(self) -> Split:
        """What each draw spends, and the ranks."""
        own = {name: self._planned.get(name, getattr(self.ranks, name)) for name in ("epsilon1", "hi", "K")}
        return Split.of(
            self.tree.height,
            self.width,
            self.epsilon - self.epsilon_count,
            self.delta,
            self.aim.beta,
            self.ranks.selector,
            one_way=self.one_way,
            **own,
        )

    @property
    def selector(self) -> str:
        return self.split.selector

    @property
    def epsilon1(self) -> Fraction:
        return self.split.epsilon1

    @property
    def hi(self) -> int | None:
        """None where it follows the number of parts."""
        return None if self.follows else self.split.hi

    @property
    def K(self) -> int | None:
        """None where it follows the number of parts."""
        return None if self.follows else self.split.K

    @property
    def users_per_part(self) -> int:
        planned: int = self._planned.get("users_per_part", self.groups.users_per_part)
        return planned

    @property
    def _plannable(self) -> bool:
        """The planner knows the rank law, one user per part (or equal groups under replace)."""
        return (
            self.tree.height > 0
            and self.groups.parts is None
            and self.ranks.selector in ("auto", "exponential")
            and not self._long
        )

    @property
    def _long(self) -> bool:
        """Too high for the rank law to be taken for granted."""
        return self.ranks.selector == "auto" and self.delta > 0 and self.tree.height.bit_length() > 100

    def _plan(self) -> dict[str, Any] | None:
        assert self.aim.alpha is not None
        plan = plan_tree(
            height=self.tree.height,
            width=self.width,
            epsilon=self.epsilon - self.epsilon_count,
            delta=0 if self.width == 1 else self.delta,
            alpha=self.aim.alpha,
            beta=self.aim.beta,
            records_per_user=min(self.aim.records_per_user, self.max_records or self.aim.records_per_user)
            * self.groups.users_per_part,
            neighbours=self.neighbours,
        )
        if plan.n_users is None:
            return None
        chosen = {name: plan[name] for name in ("epsilon1", "hi", "K")}
        return chosen | {"users_per_part": self.groups.users_per_part * plan["users_per_part"]}

    # Public numbers

    @cached_property
    def width(self) -> int | None:
        """Nodes of the widest level, ``None`` if open."""
        return self.tree.widest

    @property
    def one_way(self) -> bool:
        """Adding or removing a user adds or removes one vote, and changes no other."""
        return self.neighbours is Neighbours.ADD_REMOVE and self.groups.parts is None

    @property
    def epsilon2(self) -> Fraction:
        return self.split.epsilon2

    @property
    def _independent(self) -> bool:
        """A number of parts fixed in advance, and users assigned to them independently."""
        return self.groups.parts is not None and self.neighbours is Neighbours.ADD_REMOVE

    @property
    def needs_count(self) -> bool:
        """Whether a noisy count of the users has to be bought for the ranks."""
        return self.follows and self.one_way and self.aim.public_n_users is None

    @property
    def epsilon_count(self) -> Fraction:
        return self.epsilon * COUNT_SHARE if self.needs_count else Fraction(0)

    def _count(self) -> Laplace:
        return Laplace(self.epsilon_count, 1, unit=self.unit, neighbours=self.neighbours)

    def _ranks(self, n_parts: int) -> tuple[int, int]:
        """``hi`` and ``K``, for a public number of parts."""
        hi, K = self.split.hi, self.split.K
        return (max(hi, n_parts // 5), max(K, n_parts // 2)) if self.follows else (hi, K)

    @property
    def guarantee(self) -> Guarantee:
        tags: dict[str, Any] = {"unit": self.unit, "neighbours": self.neighbours}
        if self.tree.height == 0:
            return Guarantee(0, **tags)
        split = self.split
        total = self.epsilon_count + split.epsilon1 + split.epsilon2
        if split.delta == 0:
            # Both draws are bounded-range laws; their zCDP parameters add up, also with that of the count.
            return Guarantee(total, rho=self.epsilon_count**2 / 2 + (split.epsilon1**2 + split.epsilon2**2) / 8, **tags)
        return Guarantee(total, split.delta, **tags)

    def choice(self, tree: VC1Tree, n_parts: int = 0) -> NodeChoice:
        """The two draws on a bound tree, for a public number of parts (which matters to ranks that follow it)."""
        split, (hi, K) = self.split, self._ranks(n_parts)
        r2 = Fraction(1)  # nothing is paid for votes, so they weigh nothing
        if split.epsilon2 > 0:
            r2 = dyadic_base(split.epsilon2 if self.one_way else split.epsilon2 / 2)
        return NodeChoice(tree, hi, K, dyadic_base(split.epsilon1 / 2), r2, split.delta2, split.point)
