"""Selection when some rule is right (realizable learning).

Score of a rule: the number of users on whose first ``max_records`` records it makes more than ``tolerance`` mistakes.
With about ``ln|H| / (epsilon * min(1, alpha * m))`` users the released rule has error at most ``alpha`` when some rule
of the class has error 0 (Ghazi et al., *Few Examples*, Theorem 4, with certificate C1 in ``privpac.bounds``).

**Guarantee.**  ``(epsilon, 0)`` per user, add-remove or replace, for any ``tolerance``, any cap and any numbers of
records: each user moves each score by at most 1.  Accuracy parameters never enter it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.concepts.statistics import Exceeds
from privpac.law import Law
from privpac.learners.base import Bound, Selection, drawn_id, profile_of, public_table, shown_table
from privpac.parameters import named
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["RealizableSelection"]


@frozen(slots=False, field_transformer=named)
class RealizableSelection(Selection):
    """Exponential law over "users with more than ``tolerance`` mistakes".

    Parameters
    ----------
    tolerance : int, table or function, optional
        Mistakes forgiven to a user: one number (default 0), or ``{least count: value}`` or a function of the number
        of records.  Public; so are the parameters of every :class:`~privpac.learners.base.Selection`.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = RealizableSelection(Thresholds(), epsilon=1)
    >>> learner.law(people).mode
    4
    """

    tolerance: Any = field(default=0, converter=public_table)

    @property
    def statistic(self) -> Exceeds:
        return Exceeds(self.tolerance)

    def law(self, data: Users) -> Law:
        """The law over rule ids (private: for the curator and for audits)."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return profile_of(bound, self.statistic).law(self.rate(self.epsilon, 1))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        chosen = drawn_id(bound, self.statistic, self.rate(self.epsilon, 1), rng)
        return self.release_id(bound, chosen, {"tolerance": shown_table(self.tolerance)}, "realizable selection")
