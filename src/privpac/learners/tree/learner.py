"""Private learning of classes of VC dimension 1: name one node of a public tree.

Problem: labels are those of one concept ``h_v(x) = f(x) XOR [node(x) is v or above it]``: thresholds, points of an open
vocabulary, the place of a target in a hierarchy.  The cost grows with the logarithm of the tree's height and not with
its width (Yan, *VC Dimension 1*, Algorithm 2, corrected: a contradictory part gets the root instead of voting for
everything, votes are weighed for the relation that is promised, and for labels without noise the ranks are constants
instead of shares of the number of users).

**Noisy labels** (``mode="erm"``) need shares: noise deepens the nodes of a share of the users, and once those are more
than a constant ``K`` the noise sets the depth, and more users hurt.  Unless given, the ranks then are ``max(hi, n //
5)`` and ``max(K, n // 2)`` for a public number ``n`` of parts: declared, known under replace, or a noisy count for
``epsilon / 16``.  Where the nodes can be counted, selection over all of them
(:class:`~privpac.concepts.trees.nodes.TreeNodes`) is better, and certified for noisy labels too.

Each part (one user, or a group) is reduced to one node; :mod:`privpac.learners.tree.law` draws a depth and then a node.

**Guarantee.**  ``(epsilon1 + epsilon2, delta)`` per user, whatever the data:

=============  ==================================  =======================  ===================
neighbours     parts                               base of the rank law     base of the votes
=============  ==================================  =======================  ===================
add-remove     one user each (default)             ``base(epsilon1/2)``     ``base(epsilon2)``
add-remove     ``parts`` fixed, users assigned     ``base(epsilon1/2)``     ``base(epsilon2/2)``
               independently
replace        one user each, or random equal      ``base(epsilon1/2)``     ``base(epsilon2/2)``
               groups
=============  ==================================  =======================  ===================

One user lies in one part, whatever the number of records, so one part changes (or, with one user per part, appears or
vanishes).  The random partition reads no data: couple it for both neighbours, then mix.  Trees with one node per level
(thresholds) need no votes: ``epsilon2 = delta = 0``.  A tree of height 0 has one rule, promised (0, 0).  The noisy
count composes adaptively with the two draws.

**Accuracy.**  For i.i.d. records labelled by one concept: :mod:`privpac.bounds.trees.learner`.  ``mode="erm"`` runs on
noisy labels as well, private as ever, but without a certificate for them.
"""

from __future__ import annotations

import warnings as python_warnings
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from privpac.bounds.trees.learner import TreeBudget
from privpac.concepts.trees.base import Mode, VC1Tree
from privpac.concepts.trees.tally import count_nodes
from privpac.data import UserData
from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Neighbours, Unit, positive_int
from privpac.law import BOTTOM, Law
from privpac.learners.base import ITEM_LEVEL, WEAK, check_users, count_users
from privpac.learners.selection.regret import COUNT_CAP
from privpac.learners.tree.accuracy import TreeAccuracy, TreePromises
from privpac.learners.tree.parts import BoundTree, Partition, all_partitions, draw_partition
from privpac.learners.tree.shape import PlannedTreeLearner
from privpac.learners.tree.split import SELECTORS
from privpac.parameters import DEFAULT_BETA, named
from privpac.released import Outcome, Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.exact import Rational

__all__ = ["SELECTORS", "TreeLearner"]

_SHOWN_BITS = 4096


@frozen(slots=False, init=False, field_transformer=named)
class TreeLearner(TreePromises, PlannedTreeLearner):
    """Learn one node of a tree; the parameters are those of :class:`~privpac.learners.tree.shape.PlannedTreeLearner`.

    Ranks and shares that are left out are chosen from public numbers: with ``alpha`` and ``records_per_user`` declared
    they are planned for the fewest users (:meth:`plan`), else so that both draws succeed but for ``beta/3`` each once
    there are enough users.

    >>> from privpac.concepts.trees.base import VC1Tree
    >>> from privpac.data import UserData
    >>> tree = VC1Tree.from_matrix([[0, 0], [1, 0], [1, 1]], root=0)
    >>> people = UserData.from_users([[(0, 1), (1, 0)]] * 30)
    >>> learner = TreeLearner(tree, epsilon=2)
    >>> str(learner.guarantee), learner.law(people).mode
    ('(2, 0)-DP per user, add-remove', 1)

    ========================  ==================================================================================
    no users                  the depth is uniform, the votes abstain; no error
    users without records     count as a part that names the root
    unknown points            dropped record by record
    ``BOTTOM``                outcome ``"default"``: the root, which is the base labelling; ``law`` keeps them apart
    ``delta = 0``             needs levels whose nodes can be counted through; an open vocabulary is refused
    ``parts > n`` (replace)   ``InfeasibleError``: the number of users is public; under add-remove parts may be empty
    users on disk, on Spark   counted by node there; ``parts`` and ``users_per_part`` refused, since a part's records
                              must meet
    ========================  ==================================================================================
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            tree: VC1Tree,
            epsilon: Rational,
            delta: Rational = ...,
            neighbours: Neighbours | str = ...,
            unit: Unit | str = ...,
            mode: Mode = ...,
            *,
            max_records: int | None = ...,
            selector: str = ...,
            epsilon1: Rational | None = ...,
            hi: int | None = ...,
            K: int | None = ...,
            parts: int | None = ...,
            users_per_part: int = ...,
            alpha: Rational | None = ...,
            beta: Rational = ...,
            records_per_user: int = ...,
            public_n_users: int | None = ...,
            strict: bool = ...,
        ) -> None: ...

    @classmethod
    def plan(
        cls, tree: VC1Tree, epsilon: Any, delta: Any = 0, *, alpha: Any, beta: Any = DEFAULT_BETA, **options: Any
    ) -> TreeLearner:
        """The learner that certifies error at most ``alpha`` but for ``beta`` with the fewest users (``users_needed``
        says how many)."""
        return cls(tree, epsilon, delta, alpha=alpha, beta=beta, **options)

    # Accuracy, from public numbers

    @cached_property
    def accuracy(self) -> TreeAccuracy:
        """The certificates of this learner."""
        split, capped = self.split, self.max_records or self.aim.records_per_user
        window = None if split.point is None else float(split.point.failure)
        epsilon1 = split.epsilon1 or self.epsilon
        budget = TreeBudget(self.tree.height, self.width, epsilon1, split.epsilon2, split.delta2, self.one_way, window)
        grouped = (self.groups.parts, self.users_per_part, self._independent, min(self.aim.records_per_user, capped))
        return TreeAccuracy(
            budget, split.hi, split.K, *grouped, self.aim.alpha, self.aim.beta, certified=not self.follows
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is known before any data."""
        weak = (f"epsilon above {WEAK} promises very little",) if self.epsilon > WEAK else ()
        return (*((ITEM_LEVEL,) if self.unit is Unit.ITEM else ()), *weak, *self._shortfall(None))

    def _shortfall(self, n: int | None) -> tuple[str, ...]:
        """For the number of users where it is public, else for the declared one; nothing is said without either."""
        known = self.aim.public_n_users if self.neighbours is Neighbours.ADD_REMOVE else n
        return () if known is None or self.tree.height == 0 else self.accuracy.shortfall(known)

    # Data

    def bind(self, data: Users) -> BoundTree:
        check_users(data, self.unit)
        tree, users = self.tree.bind(data)
        if self._partitioned and not isinstance(users, UserData):
            raise TypeError(
                f"groups of users are read in memory, got {type(users).__name__}; use UserData, or leave out parts and "
                "users_per_part"
            )
        if self.max_records is not None:
            users = users.max_records(self.max_records)
        n = count_users(users) if self.neighbours is Neighbours.REPLACE else None
        if n is not None and self.groups.parts is not None and self.groups.parts > n:
            raise InfeasibleError(f"{self.groups.parts} parts need at least as many users, got {n}; use fewer parts")
        short = self._shortfall(n)
        if short and self.aim.strict:
            raise InfeasibleError(short[0])
        for line in short:
            python_warnings.warn(line, AccuracyWarning, stacklevel=4)
        known = tuple(line for line in self.warnings if line not in short)
        return BoundTree(tree, users, data.label_name or "1", (*known, *short))

    def _parts(self, bound: BoundTree, partition: Partition | None) -> Any:
        if not isinstance(bound.users, UserData):
            return count_nodes(bound.tree, bound.users, self.mode)
        count = None if partition is None else self._count_of(bound)
        return bound.tree.part_nodes(bound.users, self.mode, partition, count)

    def _count_of(self, bound: BoundTree) -> int:
        """Parts of a random partition: fixed in advance, or a function of the public number of users."""
        fixed = self.groups.parts
        return max(1, self.accuracy.part_count(count_users(bound.users))) if fixed is None else fixed

    @property
    def _partitioned(self) -> bool:
        return self.groups.parts is not None or self.users_per_part > 1

    def _partition(self, bound: BoundTree, rng: Rng) -> Partition | None:
        """A secret random partition; ``None`` where every user is a part."""
        if not self._partitioned:
            return None
        return draw_partition(count_users(bound.users), self._count_of(bound), rng, independent=self._independent)

    def _public_parts(self, bound: BoundTree) -> int:
        """The number of parts that ranks follow, without a draw."""
        if self._partitioned:
            return self._count_of(bound)
        return self.aim.public_n_users or 0 if self.one_way else count_users(bound.users)

    def law(self, data: Users, *, given: Any = None) -> Law:
        """The exact law over nodes and ``BOTTOM``.

        ``given`` is a partition (the part of each user), by default averaged over; or, where a noisy count is bought,
        what it said.
        """
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore", AccuracyWarning)
            bound = self.bind(data)
        if self.tree.height == 0:
            return Law.point(bound.tree.root)
        if self.needs_count:
            if given is None:
                raise TooLargeError(
                    "the ranks follow a noisy count: pass given=n for the law given n, or declare public_n_users"
                )
            return self.choice(bound.tree, positive_int(given, "given", minimum=0)).law(self._parts(bound, None))
        choice = self.choice(bound.tree, self._public_parts(bound))
        if not self._partitioned:
            if given is not None:
                raise ParameterError("every user is one part: there is no partition to give")
            return choice.law(self._parts(bound, None))
        if given is not None:
            return choice.law(self._parts(bound, np.asarray(given)))
        drawn = all_partitions(count_users(bound.users), self._count_of(bound), independent=self._independent)
        return Law.mixture([(Fraction(1, len(drawn)), choice.law(self._parts(bound, p))) for p in drawn])

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        node = bound.tree.root if value is BOTTOM else value
        return "default" if value is BOTTOM else "released", str(bound.tree.rule(node, bound.label))

    def draw(self, bound: BoundTree, rng: Rng) -> Released:
        node, n_parts, counted = bound.tree.root, 0, {}
        if self.needs_count:
            n_parts = min(max(self._count().sample(count_users(bound.users), rng), 0), COUNT_CAP)
            counted = {"noisy_n_users": n_parts, "epsilon_count": self.epsilon_count}
        elif self.follows:
            n_parts = self._public_parts(bound)
        if self.tree.height > 0:
            node = self.choice(bound.tree, n_parts).sample(self._parts(bound, self._partition(bound, rng)), rng)
        outcome: Outcome = "default" if node is BOTTOM else "released"
        rule = bound.tree.rule(bound.tree.root if node is BOTTOM else node, bound.label)
        shown = self._shown(n_parts) | counted
        return Released(rule, self.guarantee, shown, outcome=outcome, warnings=bound.warnings, learner="tree learner")

    def _shown(self, n_parts: int) -> dict[str, Any]:
        bits = self.tree.height.bit_length()
        height = self.tree.height if bits <= _SHOWN_BITS else f"more than 2^{bits - 1}"
        split, (hi, K) = self.split, self._ranks(n_parts)
        shown: dict[str, Any] = {
            "tree": type(self.tree).__name__,
            "height": height,
            "mode": self.mode,
            "selector": split.selector,
        }
        shown |= {"epsilon1": split.epsilon1, "epsilon2": split.epsilon2, "hi": hi, "K": K}
        named = {
            "parts": self.groups.parts,
            "max_records": self.max_records,
            "public_n_users": self.aim.public_n_users,
            "alpha": self.aim.alpha,
        }
        grouped = {"users_per_part": self.users_per_part} if self.users_per_part > 1 else {}
        return shown | grouped | {name: value for name, value in named.items() if value is not None}
