"""Clipped-regret selection: the default learner for real, noisy labels.

A rule is scored by how much worse it does on a user's records than *that user's own best rule*, cut off at a clip
``tau(m)`` that depends on the user's number of records and on public numbers only:

    g_i(h) = floor( levels * min(mistakes_i(h) - own least mistakes_i, tau(m_i)) / tau(m_i) )   in 0..levels

The clip follows :class:`privpac.concepts.statistics.ClipRule` for a public number ``N`` of users: with few users
sqrt(m), the size of a user's own luck; with many users m itself, the unbiased per-user mean.  ``N`` is declared
(``public_n_users``), or the public number of users under replace, or else a noisy count that costs ``epsilon / 16``.
With one or two records at most (item level, ``max_records``) the clip does not depend on it, and nothing is spent.

**Guarantee.**  ``(epsilon, 0)`` per user: g_i depends on user i's records and public values only and lies in
``0..levels`` (range rule, see ``learners.base``); the count, where one is drawn, has sensitivity 1 and composes
adaptively: ``epsilon/16 + 15 epsilon/16``.  The true number of users is never used under add-remove.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.concepts.statistics import DEFAULT_LEVELS, ClipRule, Mean, Regret, Statistic
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.learners.base import Bound, Selection, count_users, drawn_id, profile_of, public_table, shown_table
from privpac.mechanisms.laplace import Laplace
from privpac.parameters import bounds, either, named, whole, whole_or_none
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["COUNT_CAP", "COUNT_SHARE", "RegretSelection"]

COUNT_SHARE = Fraction(1, 16)
"""Part of epsilon spent on the noisy count when no number of users is public."""

COUNT_CAP = 1 << 40


def _clip(tau: Any) -> Any:
    return None if tau is None else public_table(tau, "tau", minimum=1)


@frozen(slots=False, field_transformer=named)
class RegretSelection(Selection):
    """The user gives epsilon and a domain and nothing else.

    Parameters
    ----------
    public_n_users : int, optional
        About how many users there are (public): it sets the clip.  Left out, part of epsilon buys a noisy count.
    levels : int, optional
        Steps in which a user's contribution is counted (public).
    statistic : {"regret", "mean"}
        ``"mean"`` is per-user averaging: right for panels whose x is a clock, or users known to disagree.
    tau : int, table or function, optional
        A public clip in records instead of the one that follows the number of users.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = RegretSelection(Thresholds(), epsilon=1, public_n_users=3)
    >>> str(learner.guarantee)
    '(1, 0)-DP per user, add-remove'
    >>> learner.law(people).mode
    4
    """

    public_n_users: int | None = field(
        default=None, converter=whole_or_none, metadata=bounds(minimum=0, maximum=COUNT_CAP)
    )
    levels: int = field(default=DEFAULT_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))
    statistic: str = field(default="regret", validator=either("regret", "mean"))
    tau: Any = field(default=None, converter=_clip)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.tau is not None and self.statistic == "mean":
            raise ParameterError("statistic='mean' has no clip; leave tau out")
        if self.needs_count:
            self._count()  # its own limits on epsilon, before anything is spent

    # The split of the budget

    @property
    def needs_count(self) -> bool:
        """Whether a noisy count of the users has to be bought for the clip."""
        follows = (
            self.statistic == "regret" and self.tau is None and self.public_n_users is None and not self.fixed_clip
        )
        return follows and self.neighbours is Neighbours.ADD_REMOVE and self.epsilon > 0

    @property
    def fixed_clip(self) -> bool:
        """Whether the clip is the same for every number of users: with at most two records ``k*k >= m`` alone makes it
        ``m``."""
        return self.unit is Unit.ITEM or (self.max_records is not None and self.max_records <= 2)

    @property
    def epsilon_count(self) -> Fraction:
        return self.epsilon * COUNT_SHARE if self.needs_count else Fraction(0)

    @property
    def epsilon_selection(self) -> Fraction:
        return self.epsilon - self.epsilon_count

    @property
    def theta(self) -> Fraction:
        """The per-user privacy of the selection: ``eta * levels``."""
        return self.rate(self.epsilon_selection, 1)

    @property
    def guarantee(self) -> Guarantee:
        how = (
            (f"noisy count of users ({self.epsilon_count}) and selection ({self.epsilon_selection})",)
            if self.needs_count
            else ()
        )
        rho = self.epsilon_count**2 / 2 + self.epsilon_selection**2 / 8
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)

    # Laws

    def statistic_for(self, bound: Bound, n_users: int) -> Statistic:
        """The per-user statistic, given the public number of users."""
        if self.statistic == "mean":
            return Mean(self.levels)
        if self.tau is not None:
            return Regret(self.tau, self.levels)
        return Regret(ClipRule(self.theta, n_users, bound.concept.bits), self.levels)

    def count_law(self, data: Users, cap: int = COUNT_CAP) -> Law:
        """The law of the noisy count, clamped to ``0..cap``."""
        return self._count().law(count_users(data), bounds=(0, cap))

    def _count(self) -> Laplace:
        return Laplace(self.epsilon_count, 1, unit=self.unit, neighbours=self.neighbours)

    def law(self, data: Users, given: int | None = None) -> Law:
        """The law over rule ids, given the number of users the clip follows (``given``, where it is drawn)."""
        bound = self.bind(data)
        if given is None and self.needs_count:
            raise TooLargeError(
                "the clip follows a noisy count: pass given=N for the law given N, or declare public_n_users"
            )
        return self._law(bound, self._public_count(bound) if given is None else positive_int(given, "given", minimum=0))

    def _public_count(self, bound: Bound) -> int:
        """N without a draw: declared, or public under replace (users without records included)."""
        if self.public_n_users is not None:
            return self.public_n_users
        return count_users(bound.users) if self.neighbours is Neighbours.REPLACE else 0

    def _law(self, bound: Bound, n_users: int) -> Law:
        return profile_of(bound, self.statistic_for(bound, n_users)).law(self.rate(self.epsilon_selection, self.levels))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown: dict[str, Any] = {"statistic": self.statistic, "levels": self.levels}
        if self.needs_count:
            noisy = self._count().sample(count_users(bound.users), rng)
            n_users = min(max(noisy, 0), COUNT_CAP)
            shown |= {"noisy_n_users": n_users, "epsilon_count": self.epsilon_count}
        else:
            n_users = self._public_count(bound)
            if self.tau is not None:
                shown["tau"] = shown_table(self.tau)
            elif self.statistic == "regret" and not self.fixed_clip:
                shown["public_n_users"] = n_users
        eta = self.rate(self.epsilon_selection, self.levels)
        chosen = drawn_id(bound, self.statistic_for(bound, n_users), eta, rng)
        return self.release_id(bound, chosen, shown, "clipped-regret selection")
