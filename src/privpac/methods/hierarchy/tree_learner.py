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
(:class:`~privpac.rules.hierarchies.nodes.TreeNodes`) is better, and certified for noisy labels too.

Each part (one user, or a group) is reduced to one node; :mod:`privpac.methods.hierarchy.tree_learner` draws a depth and
then a node.

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

**Accuracy.**  For i.i.d. records labelled by one concept: :mod:`privpac.methods.hierarchy.tree_sample_size`.
``mode="erm"`` runs on noisy labels as well, private as ever, but without a certificate for them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import factorial, prod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.bisection import least
from privpac.data import UserData
from privpac.data.users import check_users
from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import dyadic_base, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import BOTTOM, Law
from privpac.law.blocks import Bottom
from privpac.law.numbers import Number
from privpac.mechanisms.choosing import choosing_law, choosing_sample
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.mechanisms.laplace import Laplace
from privpac.mechanisms.rank import positive_base, rank_law
from privpac.methods.base import ITEM_LEVEL, WEAK, Learner, count_users
from privpac.methods.hierarchy.tree_sample_size import (
    TreeBudget,
    certified_alpha,
    plan_tree,
    spread_failure,
    tree_failure,
)
from privpac.methods.prediction.relabel import below, random_order
from privpac.methods.regret import COUNT_CAP, COUNT_SHARE
from privpac.parameters import (
    DEFAULT_BETA,
    bounds,
    fraction_or_none,
    named,
    one_word_of,
    privacy,
    probability,
    probability_or_none,
    probability_or_zero,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.result import Outcome, Released
from privpac.rng import Rng
from privpac.rules.hierarchies.base import MAX_LEVELS, Mode, Node, VC1Tree, check_mode, count_nodes

if TYPE_CHECKING:
    from privpac.data import Users

# Users bound to a tree, and their secret partitions into parts, drawn without a look at the data.
#
# Under replace the number ``n`` of users is public: a uniformly random permutation, part = position mod ``t``.  Under
# add-remove ``t`` is fixed in advance and every user goes to an independent uniform part, so that adding a user changes
# one part.


MAX_PARTITIONS = 1 << 12
"""How many partitions an exact law averages over at most."""

_Partition = NDArray[np.int64]


@frozen(slots=False, kw_only=True, field_transformer=named)
class PartSizes:
    """How users form parts, each of which says one node.  All public.

    Parameters
    ----------
    parts : int, optional
        A number of parts fixed in advance; by default every user is one.
    users_per_part : int
        Users of a part, under replace; default 1.
    """

    parts: int | None = field(default=None, converter=whole_or_none)
    _users_per_part: int = field(default=1, converter=whole)

    def __attrs_post_init__(self) -> None:
        if self._users_per_part > 1 and self.parts is not None:
            raise ParameterError("give parts or users_per_part, not both")


@frozen(slots=False, repr=False)
class BoundTree:
    """A tree with its columns, the users bound to it, and what is to be said with the result."""

    tree: VC1Tree
    users: Users
    label: str
    warnings: tuple[str, ...]


def draw_partition(n: int, t: int, rng: Rng, *, independent: bool) -> _Partition:
    """The part of every user."""
    if independent:
        return below(np.full(n, t), rng)
    return np.arange(n, dtype=np.int64)[random_order(n, rng)] % t


def all_partitions(n: int, t: int, *, independent: bool) -> list[_Partition]:
    """All partitions that can be drawn; they are equally likely.

    >>> len(all_partitions(4, 2, independent=False)), len(all_partitions(4, 2, independent=True))
    (6, 16)
    """
    count = 0
    if n <= 40:
        sizes = (len(range(i, n, t)) for i in range(min(t, n)))
        count = t**n if independent else factorial(n) // prod(map(factorial, sizes))
    if n > 40 or count > MAX_PARTITIONS:
        raise TooLargeError(
            f"there are more than {MAX_PARTITIONS} partitions to average over; pass law(data, given=partition)"
        )
    listed = product(range(t), repeat=n) if independent else _arrangements([i % t for i in range(n)])
    return [np.array(partition, dtype=np.int64) for partition in listed]


def _arrangements(items: list[int]) -> Iterator[tuple[int, ...]]:
    """Distinct orders of a multiset; each is reached by equally many permutations."""
    if not items:
        yield ()
    for first in dict.fromkeys(items):
        rest = items.copy()
        rest.remove(first)
        for tail in _arrangements(rest):
            yield (first, *tail)


# The two draws of the private tree learner, exactly: a depth, then a node at that depth.
#
# Every part (group of users) has one node ``v_i`` of depth ``y_i``.
#
# 1. ``z`` from the rank law of ``y`` with ranks ``hi``, ``K`` and base ``r1`` (or from an interior point of the window
#    of ranks ``hi..K+1``).
# 2. ``z = 0``: the root.  A level of one node: that node, which is public.  Otherwise part ``i`` votes for its ancestor
#    at depth ``z`` if it is that deep, and a node is drawn by the choosing law with base ``r2`` and ``delta``; with
#    ``delta = 0`` from *all* nodes of the level with weight ``r2**votes`` (unvoted nodes are one block).  ``BOTTOM``:
#    the choosing law abstains.
#
# **Privacy.**  However parts are turned into nodes, changing one part changes one ``y_i`` and, at every level, moves at
# most one vote (one count down, one up).  No realizability is used.  So both draws are private as proved in
# :mod:`~privpac.mechanisms.rank` and :mod:`~privpac.mechanisms.choosing`, the second one for every ``z``: adaptive
# basic composition.


class PartVotes(Protocol):
    """What the draws read: the depth of every part's node, and the votes at a level."""

    @property
    def depths(self) -> Any: ...

    def votes(self, level: int) -> Mapping[Node, int]: ...


@frozen(slots=False, repr=False)
class NamedParts:
    """Parts given by their nodes."""

    tree: VC1Tree
    nodes: Sequence[Node]

    @property
    def depths(self) -> list[int]:
        return [self.tree.depth(v) for v in self.nodes]

    def votes(self, level: int) -> Counter[Node]:
        return Counter(self.tree.ancestor(v, level) for v in self.nodes if self.tree.depth(v) >= level)


# The draws


@frozen(slots=False)
class NodeChoice:
    """A depth and a node at it, for a bound tree; ``point`` replaces the rank law, ``delta`` is that of the choosing
    law."""

    tree: VC1Tree
    hi: int
    K: int
    r1: Fraction
    r2: Fraction
    delta: Fraction
    point: InteriorPoint | None = None

    def depth_law(self, parts: PartVotes) -> Law:
        """The law of ``z``; ``BOTTOM`` only for interior points that abstain."""
        if self.point is not None:
            return self.point.law(parts.depths)
        return rank_law(parts.depths, self.hi, self.K, self.tree.height, self.r1)

    def node_law(self, parts: PartVotes, z: int) -> Law:
        """The law of the node, given the depth."""
        width = self.tree.level_width(z)
        if z == 0:
            return Law.point(self.tree.root)
        if width == 1:
            return Law.point(self.tree.only_node(z))
        votes = parts.votes(z)
        if self.delta > 0:
            return choosing_law(votes, self.r2, self.delta) if votes else Law.point(BOTTOM)
        if width is None:
            return Law.point(BOTTOM)  # a level that cannot be counted through is never answered, whatever the data
        if width > MAX_LEVELS:
            raise TooLargeError(
                f"a level of {width} nodes is too wide to write out; use delta > 0, or draw instead of asking for the "
                "law"
            )
        nodes = (self.tree.level_node(z, i) for i in range(width))
        return Law.from_weights([(v, self.r2 ** votes.get(v, 0)) for v in nodes])

    def law(self, parts: PartVotes) -> Law:
        """The law of what is released: nodes, and ``BOTTOM`` apart from the root."""
        depths = self.depth_law(parts).as_finite()
        if self.tree.is_path:
            return depths
        if self.tree.height > MAX_LEVELS:
            raise TooLargeError(f"the law is written out for trees of height at most {MAX_LEVELS}; draw instead")
        shares: list[tuple[Number, Law]] = []
        for z in depths.values():
            shares.append((depths.number(z), Law.point(BOTTOM) if z is BOTTOM else self.node_law(parts, z)))
        return Law.mixture(shares)

    def sample(self, parts: PartVotes, rng: Rng) -> Hashable:
        """One exact draw from :meth:`law`, on trees of any height and width."""
        z = self._depth(parts, rng)
        if isinstance(z, Bottom):
            return BOTTOM
        if z == 0 or self.tree.is_path:
            return self.tree.root if z == 0 else z
        width = self.tree.level_width(z)
        if width == 1:
            return self.tree.only_node(z)
        votes = parts.votes(z)
        if self.delta > 0:
            named: Hashable = choosing_sample(votes, self.r2, self.delta, rng=rng)
            return named
        return BOTTOM if width is None else self._level_sample(votes, z, width, rng)

    def _depth(self, parts: PartVotes, rng: Rng) -> int | Bottom:
        if self.point is not None:
            return self.point.sample(parts.depths, rng)
        return int(rank_law(parts.depths, self.hi, self.K, self.tree.height, self.r1).sample(rng))

    def _level_sample(self, votes: Mapping[Node, int], z: int, width: int, rng: Rng) -> Node:
        """Weight ``r2**votes`` for each of the ``width`` nodes: voted ones by name, the rest as one block."""
        named, spare = list(votes), width - len(votes)
        counts = [1] * len(named) + ([spare] if spare else [])
        scores = [-votes[v] for v in named] + ([0] if spare else [])
        label, _ = Law.from_blocks(counts=counts, score=scores, base=self.r2).sample(rng)
        if label < len(named):
            return named[int(label)]
        # Uniform among the unvoted: at most (width - voted)/width of the mass is here, so one try is needed on average.
        while (v := self.tree.level_node(z, rng.below(width))) in votes:
            pass
        return v


# How the tree learner divides epsilon, delta and its ranks: from public numbers only.
#
# ``Split.of`` fills in what was left out so that, with enough users, the depth misses its ranks with probability at
# most ``beta/3`` and ``hi`` votes are not followed with probability at most ``beta/3``; ``epsilon1`` is the multiple of
# ``epsilon/20`` with the least ``K``.
#
# Selectors of the depth:
#
# * ``exponential``: the rank law, pure; about ``(4/epsilon) ln(height)`` ranks.
# * ``interior``, ``prefix``: an interior point of the window of ranks ``hi..K+1``, by hidden walks or by random pairs
#   (:class:`~privpac.mechanisms.interior_point.InteriorPoint`); one replaced, added or removed part replaces one
#   element of the window.  They take a share of delta and need fewer ranks on trees of more than about 2**140 levels.
# * ``auto``: the one with fewer ranks, ties to the rank law.


SELECTORS = ("auto", "exponential", "interior", "prefix")
_GRID = 20
_LONG = 100
"""Heights of at most this many bits are always searched by the rank law in ``auto``."""


@frozen(slots=False, kw_only=True, field_transformer=named)
class Ranks:
    """How a depth is chosen.  All public; what is left out follows from public numbers.

    Parameters
    ----------
    selector : {"auto", "exponential", "interior", "prefix"}
        The mechanism; ``"auto"`` takes the one with fewer ranks.
    epsilon1 : number, optional
        What the depth spends; the votes for a node get the rest.
    hi, K : int, optional
        The depth lies between those of the ``hi``-th and the ``K + 1``-st deepest node.
    """

    _selector: str = field(default="auto", validator=one_word_of(SELECTORS))
    _epsilon1: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=0))
    _hi: int | None = field(default=None, converter=whole_or_none)
    _K: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))

    @property
    def _ranked(self) -> bool:
        """Whether a rank is set."""
        return self._hi is not None or self._K is not None


@frozen(slots=False)
class Split:
    """What each draw spends, and the ranks."""

    selector: str
    epsilon1: Fraction
    epsilon2: Fraction
    delta1: Fraction
    delta2: Fraction
    hi: int
    K: int
    point: InteriorPoint | None

    @property
    def delta(self) -> Fraction:
        return self.delta1 + self.delta2

    @staticmethod
    def of(
        height: int,
        width: int | None,
        epsilon: Fraction,
        delta: Fraction,
        beta: Fraction,
        selector: str,
        *,
        one_way: bool,
        epsilon1: Fraction | None,
        hi: int | None,
        K: int | None,
    ) -> Split:
        if height == 0:
            return Split("exponential", Fraction(0), Fraction(0), Fraction(0), Fraction(0), 1, 0, None)
        ask = _SplitQuestion(height, width, epsilon, delta, beta, one_way, hi, K)
        if hi is not None and K is not None and hi > K + 1:
            raise ParameterError(f"hi must be at most K + 1, got hi = {hi} and K = {K}")
        if width != 1 and epsilon1 is not None and epsilon1 >= epsilon:
            raise ParameterError("epsilon1 must leave something for the votes: it must be below epsilon")
        plain = ask.exponential(epsilon1) if selector in ("auto", "exponential") else None
        if selector == "exponential" or (selector == "auto" and (delta == 0 or height.bit_length() <= _LONG)):
            assert plain is not None
            return plain
        if selector != "auto":
            return ask.windowed(selector, epsilon1)
        assert plain is not None
        short = ask.windowed("interior", epsilon1)
        return short if short.K + 2 - short.hi < plain.K + 2 - plain.hi else plain


@frozen(slots=False)
class _SplitQuestion:
    height: int
    width: int | None
    epsilon: Fraction
    delta: Fraction
    beta: Fraction
    one_way: bool
    hi: int | None
    K: int | None

    def _budget(self, epsilon1: Fraction, delta2: Fraction) -> TreeBudget:
        epsilon2 = Fraction(0) if self.width == 1 else self.epsilon - epsilon1
        positive_base(epsilon1 / 2, "epsilon1")
        if self.width != 1:
            positive_base(epsilon2 / (1 if self.one_way else 2), "epsilon2 (what is left of epsilon)")
        return TreeBudget(self.height, self.width, epsilon1, epsilon2, delta2, self.one_way)

    def _votes(self, budget: TreeBudget) -> int:
        return budget.votes(float(self.beta) / 3) if self.hi is None else self.hi

    def exponential(self, epsilon1: Fraction | None) -> Split:
        """The rank law, with the share of epsilon that needs the smallest ``K``."""
        delta2 = Fraction(0) if self.width == 1 else self.delta
        if self.width == 1:
            shares = [self.epsilon if epsilon1 is None else epsilon1]
        else:
            shares = [self.epsilon * i / _GRID for i in range(1, _GRID)] if epsilon1 is None else [epsilon1]
        found: list[Split] = []
        for share in shares:
            try:
                budget = self._budget(share, delta2)
            except ParameterError:
                if len(shares) == 1:
                    raise
                continue
            hi = self._votes(budget)
            if self.K is not None:
                hi = min(hi, self.K + 1)
            K = 2 * budget.steps(float(self.beta) / 3) + hi - 1 if self.K is None else self.K
            spent = (share, Fraction(0) if self.width == 1 else self.epsilon - share)
            found.append(Split("exponential", *spent, Fraction(0), delta2, hi, K, None))
        if not found:
            raise InfeasibleError(
                "epsilon is too small, or delta too large for it, however it is split; use a larger epsilon, a smaller "
                "delta"
            )
        # With given ranks every share has the same K, and the even split is taken.
        return min(found, key=lambda split: (split.K, abs(2 * split.epsilon1 - self.epsilon)))

    def windowed(self, selector: str, epsilon1: Fraction | None) -> Split:
        """An interior point of the window of ranks; half of epsilon and delta for it, all where naming a depth names
        the node."""
        share = epsilon1 if epsilon1 is not None else self.epsilon if self.width == 1 else self.epsilon / 2
        delta1 = self.delta if self.width == 1 else self.delta / 2
        delta2 = self.delta - delta1
        hi = self._votes(self._budget(share, delta2))
        size = None if self.K is None else self.K + 2 - hi
        if size is not None and size < 1:
            raise ParameterError(f"K must be at least hi - 1 = {hi - 1}, got {self.K}")
        engine, levels = "pairs" if selector == "prefix" else "walk", 1 if self.delta > 0 else 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # said by the learner, for the number of users
            point = InteriorPoint(
                share, delta1, top=self.height, beta=self.beta / 3, size=size, levels=levels, engine=engine, hi=hi
            )
        spent = (share, Fraction(0) if self.width == 1 else self.epsilon - share)
        return Split(selector, *spent, delta1, delta2, hi, hi + point.size - 2, point)


# What a configured tree learner certifies for a public number of users
# (:mod:`privpac.methods.hierarchy.tree_sample_size`).


@frozen(slots=False, kw_only=True, field_transformer=named)
class TreeAim:
    """What accuracy statements are about.  All public.

    Parameters
    ----------
    alpha : number, optional
        The error that is tolerated; with it the ranks are planned for the fewest users.
    beta : number
        How often it may be missed; default 1/20.
    records_per_user : int
        Records that every user holds; default 1.
    public_n_users : int, optional
        A lower bound on the number of users (under replace the number itself is used).
    strict : bool
        Whether a missed target is an ``InfeasibleError`` before data are touched, instead of a warning.
    """

    alpha: Fraction | None = field(default=None, converter=probability_or_none)
    beta: Fraction = field(default=DEFAULT_BETA, converter=probability)
    records_per_user: int = field(default=1, converter=whole)
    public_n_users: int | None = field(default=None, converter=whole_or_none)
    strict: bool = False


@frozen(slots=False)
class TreeAccuracy:
    """Budget and ranks, how users form parts, and the target."""

    budget: TreeBudget
    hi: int
    K: int
    parts: int | None
    users_per_part: int
    independent: bool
    records: int
    alpha: Fraction | None
    beta: Fraction
    certified: bool = True
    """Whether anything is: ranks that follow the number of users are for noisy labels, for which nothing is proved."""

    def part_count(self, n: int) -> int:
        """Parts that ``n`` users form, where every part gets its share of them."""
        return (
            min(n, self.parts)
            if self.parts is not None
            else n // self.users_per_part
            if n >= self.users_per_part
            else min(n, 1)
        )

    @property
    def target(self) -> Fraction:
        if self.alpha is None:
            raise ParameterError("declare alpha, the error that is tolerated")
        return self.alpha

    @property
    def _ranks(self) -> dict[str, int]:
        return {"hi": self.hi, "K": self.K}

    def failure(self, n: int, alpha: Any = None) -> float:
        """A bound on the probability of error above ``alpha``."""
        error = self.target if alpha is None else alpha
        if not self.certified:
            return 1.0
        if self.independent:
            assert self.parts is not None
            return spread_failure(
                self.budget, n_users=n, parts=self.parts, records_per_user=self.records, alpha=error, **self._ranks
            )
        return min(tree_failure(self.budget, alpha=error, **self._parts(n), **self._ranks))

    def _parts(self, n: int) -> dict[str, int]:
        t = self.part_count(n)
        return {"parts": t, "records_per_part": n // t * self.records if t else 0}

    @cached_property
    def users_needed(self) -> int | None:
        """The fewest users that certify the target with these parameters."""
        if not self.certified:
            return None
        beta, step, budget = float(self.beta), self.users_per_part, self.budget
        opt = (self.K + 1 - self.hi) // 2
        rank = (
            budget.missed_rank(opt)
            if self.independent
            else min(budget.missed_rank(opt), budget.missed_deep(self.hi, opt))
        )
        if self.failure(0) > beta and rank + budget.missed(self.hi) >= beta:
            return None  # what is left when all parts are good
        found = least(lambda t: self.failure(t * step) <= beta, start=0)
        return None if found is None else found * step

    def alpha_for(self, n: int) -> float | None:
        """The least error certified at ``beta`` for ``n`` users; ``None`` if none is."""
        if not self.certified:
            return None
        if self.independent:
            grid = (k / 1000 for k in range(1, 1000))
            return next((alpha for alpha in grid if self.failure(n, alpha) <= float(self.beta)), None)
        return certified_alpha(self.budget, beta=self.beta, **self._parts(n), **self._ranks)

    def shortfall(self, n: int) -> tuple[str, ...]:
        """What ``n`` users (a public number) cannot promise."""
        if not self.certified:
            return ()
        if self.alpha is None:
            t = self.part_count(n)
            return (
                (f"{t} parts are fewer than hi = {self.hi}: the result will hardly depend on the data",)
                if self.hi > t
                else ()
            )
        failure = self.failure(n)
        if failure <= self.beta:
            return ()
        needed, alpha = self.users_needed, self.alpha_for(n)
        enough = "no number of users certifies" if needed is None else f"{needed} users certify"
        held = "no error below 1" if alpha is None else f"error {alpha:.3g}"
        return (
            f"with {n} users an error above {float(self.alpha):g} is certified only to be less likely than "
            f"{failure:.3g}, "
            f"not {float(self.beta):g}; {enough} the target, and {n} users certify {held}",
        )


class TreePromises:
    """What a learner with an ``accuracy`` says of it."""

    @cached_property
    def accuracy(self) -> TreeAccuracy:
        raise NotImplementedError

    def failure(self, n_users: int, alpha: object = None) -> float:
        """A certified bound on the probability of error above ``alpha`` for this many users (records of one concept,
        i.i.d.)."""
        error = None if alpha is None else rational(alpha, "alpha", above=0, below=1)
        return self.accuracy.failure(positive_int(n_users, "n_users", minimum=0), error)

    @property
    def users_needed(self) -> int | None:
        """The fewest users for which this learner certifies ``alpha`` and ``beta``; ``None`` where nothing is
        certified."""
        return self.accuracy.users_needed

    def alpha_for(self, n_users: int) -> float | None:
        """The least error certified at ``beta`` for this many users; ``None`` if none is."""
        return self.accuracy.alpha_for(positive_int(n_users, "n_users", minimum=0))

    def with_(self, **changes: object) -> Self:
        """The same learner with other parameters."""
        return evolve(self, **changes)  # type: ignore[misc]


# Parameters of the tree learner, and what follows from them before any data: ranks, shares, guarantee, the two draws.
#
# :mod:`privpac.methods.hierarchy.tree_learner` says what is learned and why it is private.


@frozen(slots=False, field_transformer=named)
class PlannedTreeLearner(Ranks, PartSizes, TreeAim, Learner):
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
    """

    tree: VC1Tree
    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    mode: Mode = "closure"
    max_records: int | None = field(default=None, kw_only=True, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        PartSizes.__attrs_post_init__(self)
        if not isinstance(self.tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree such as PrefixTree(8), got {type(self.tree).__name__}")
        check_mode(self.tree, self.mode)
        if self._epsilon1 is not None:
            rational(self._epsilon1, "epsilon1", maximum=self.epsilon)
        if self._users_per_part > 1 and self.neighbours is Neighbours.ADD_REMOVE:
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
        ranked = self.tree.height > 0 and self._selector in ("auto", "exponential") and not self._long
        return self.mode == "erm" and ranked and not self._ranked

    @cached_property
    def _planned(self) -> dict[str, Any]:
        """What certifies a declared target with the fewest users."""
        free = not self._ranked and self._epsilon1 is None
        return (self._plan() or {}) if self.alpha is not None and free and self._plannable else {}

    @cached_property
    def split(self) -> Split:
        """What each draw spends, and the ranks."""
        own = {name: self._planned.get(name, getattr(self, f"_{name}")) for name in ("epsilon1", "hi", "K")}
        return Split.of(
            self.tree.height,
            self.width,
            self.epsilon - self.epsilon_count,
            self.delta,
            self.beta,
            self._selector,
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
        planned: int = self._planned.get("users_per_part", self._users_per_part)
        return planned

    @property
    def _plannable(self) -> bool:
        """The planner knows the rank law, one user per part (or equal groups under replace)."""
        return (
            self.tree.height > 0 and self.parts is None and self._selector in ("auto", "exponential") and not self._long
        )

    @property
    def _long(self) -> bool:
        """Too high for the rank law to be taken for granted."""
        return self._selector == "auto" and self.delta > 0 and self.tree.height.bit_length() > 100

    def _plan(self) -> dict[str, Any] | None:
        assert self.alpha is not None
        plan = plan_tree(
            height=self.tree.height,
            width=self.width,
            epsilon=self.epsilon - self.epsilon_count,
            delta=0 if self.width == 1 else self.delta,
            alpha=self.alpha,
            beta=self.beta,
            records_per_user=min(self.records_per_user, self.max_records or self.records_per_user)
            * self._users_per_part,
            neighbours=self.neighbours,
        )
        if plan.n_users is None:
            return None
        chosen = {name: plan[name] for name in ("epsilon1", "hi", "K")}
        return chosen | {"users_per_part": self._users_per_part * plan["users_per_part"]}

    # Public numbers

    @cached_property
    def width(self) -> int | None:
        """Nodes of the widest level, ``None`` if open."""
        return self.tree.widest

    @property
    def one_way(self) -> bool:
        """Adding or removing a user adds or removes one vote, and changes no other."""
        return self.neighbours is Neighbours.ADD_REMOVE and self.parts is None

    @property
    def epsilon2(self) -> Fraction:
        return self.split.epsilon2

    @property
    def _independent(self) -> bool:
        """A number of parts fixed in advance, and users assigned to them independently."""
        return self.parts is not None and self.neighbours is Neighbours.ADD_REMOVE

    @property
    def needs_count(self) -> bool:
        """Whether a noisy count of the users has to be bought for the ranks."""
        return self.follows and self.one_way and self.public_n_users is None

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


_SHOWN_BITS = 4096


@frozen(slots=False, field_transformer=named)
class TreeLearner(TreePromises, PlannedTreeLearner):
    """Learn one node of a tree; the parameters are those of
    :class:`~privpac.methods.hierarchy.tree_learner.PlannedTreeLearner`.

    Ranks and shares that are left out are chosen from public numbers: with ``alpha`` and ``records_per_user`` declared
    they are planned for the fewest users (:meth:`plan`), else so that both draws succeed but for ``beta/3`` each once
    there are enough users.

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

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, or an open vocabulary without ``delta``.

    Examples
    --------
    >>> from privpac.rules.hierarchies.base import VC1Tree
    >>> from privpac.data import UserData
    >>> tree = VC1Tree.from_matrix([[0, 0], [1, 0], [1, 1]], root=0)
    >>> people = UserData.from_users([[(0, 1), (1, 0)]] * 30)
    >>> learner = TreeLearner(tree, epsilon=2)
    >>> str(learner.guarantee), learner.law(people).mode
    ('(2, 0)-DP per user, add-remove', 1)
    """

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
        split, capped = self.split, self.max_records or self.records_per_user
        window = None if split.point is None else float(split.point.failure)
        epsilon1 = split.epsilon1 or self.epsilon
        budget = TreeBudget(self.tree.height, self.width, epsilon1, split.epsilon2, split.delta2, self.one_way, window)
        grouped = (self.parts, self.users_per_part, self._independent, min(self.records_per_user, capped))
        return TreeAccuracy(budget, split.hi, split.K, *grouped, self.alpha, self.beta, certified=not self.follows)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is known before any data."""
        weak = (f"epsilon above {WEAK} promises very little",) if self.epsilon > WEAK else ()
        return (*((ITEM_LEVEL,) if self.unit is Unit.ITEM else ()), *weak, *self._shortfall(None))

    def _shortfall(self, n: int | None) -> tuple[str, ...]:
        """For the number of users where it is public, else for the declared one; nothing is said without either."""
        known = self.public_n_users if self.neighbours is Neighbours.ADD_REMOVE else n
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
        if n is not None and self.parts is not None and self.parts > n:
            raise InfeasibleError(f"{self.parts} parts need at least as many users, got {n}; use fewer parts")
        short = self._shortfall(n)
        if short and self.strict:
            raise InfeasibleError(short[0])
        for line in short:
            warnings.warn(line, AccuracyWarning, stacklevel=4)
        known = tuple(line for line in self.warnings if line not in short)
        return BoundTree(tree, users, data.label_name or "1", (*known, *short))

    def _parts(self, bound: BoundTree, partition: _Partition | None) -> Any:
        if not isinstance(bound.users, UserData):
            return count_nodes(bound.tree, bound.users, self.mode)
        count = None if partition is None else self._count_of(bound)
        return bound.tree.part_nodes(bound.users, self.mode, partition, count)

    def _count_of(self, bound: BoundTree) -> int:
        """Parts of a random partition: fixed in advance, or a function of the public number of users."""
        fixed = self.parts
        return max(1, self.accuracy.part_count(count_users(bound.users))) if fixed is None else fixed

    @property
    def _partitioned(self) -> bool:
        return self.parts is not None or self.users_per_part > 1

    def _partition(self, bound: BoundTree, rng: Rng) -> _Partition | None:
        """A secret random partition; ``None`` where every user is a part."""
        if not self._partitioned:
            return None
        return draw_partition(count_users(bound.users), self._count_of(bound), rng, independent=self._independent)

    def _public_parts(self, bound: BoundTree) -> int:
        """The number of parts that ranks follow, without a draw."""
        if self._partitioned:
            return self._count_of(bound)
        return self.public_n_users or 0 if self.one_way else count_users(bound.users)

    def law(self, data: Users, *, given: Any = None) -> Law:
        """The exact law over nodes and ``BOTTOM``.

        ``given`` is a partition (the part of each user), by default averaged over; or, where a noisy count is bought,
        what it said.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
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
            "parts": self.parts,
            "max_records": self.max_records,
            "public_n_users": self.public_n_users,
            "alpha": self.alpha,
        }
        grouped = {"users_per_part": self.users_per_part} if self.users_per_part > 1 else {}
        return shown | grouped | {name: value for name, value in named.items() if value is not None}
