"""Small trees for wide tables: one exact law over all trees of depth 2.

*Problem.*  A table with 5 to 30 columns wants a rule that reads several of them.  Choosing among ``K`` questions three
times at a third of epsilon loses about ``9 ln K / epsilon`` votes; one law over all trees loses ``3 ln K / epsilon``.

*Scores.*  User ``i`` with ``m_i`` records gives each of them ``floor(levels / m_i)`` votes and votes against a tree
with the records that it gets wrong: an integer in ``0..levels``, a function of that user's records alone.

*Guarantee.*  ``(epsilon, 0)`` per user and ``epsilon**2 / 8``-zCDP, with the rate ``epsilon / levels`` under add-remove
and ``epsilon / (2 levels)`` under replace, whatever the cuts, the prior and the numbers of records.  Add-remove: all
scores move by amounts in ``[0, levels]`` and the normaliser moves with them, so log-ratios stay within ``rate *
levels``.  Replace: the difference of two such moves lies in ``[-levels, levels]``.  A user without records moves
nothing; no users give the prior.  With ``c`` labels a user's votes against a tree are in ``0..levels`` as well.

*Accuracy.*  ``bounds.small_trees``.  Never shown: scores, cells, the normaliser, the probability of the drawn tree.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from privpac.concepts.small_trees import SmallTrees
from privpac.learners.base import Bound, Selection
from privpac.learners.wide.tree_law import SmallTreeLaw
from privpac.parameters import named
from privpac.released import Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["SmallTreeLearner"]


@frozen(slots=False, field_transformer=named)
class SmallTreeLearner(Selection):
    """A tree of at most three questions, drawn from the one law over all of them.

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users(
    ...     [[(30, 0, 0), (80, 1, 1)], [(20, 1, 0)], [(90, 0, 1)]],
    ...     features={"age": Integers(0, 99), "smokes": Integers(0, 1)})
    >>> learner = SmallTreeLearner(SmallTrees(), epsilon=1)
    >>> str(learner.guarantee), learner.law(people).shape.size
    ('(1, 0)-DP per user, add-remove', 69696)
    """

    scores_rules: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not isinstance(self.concept, SmallTrees):
            raise TypeError(f"concept must be SmallTrees(...), got {type(self.concept).__name__}")

    @property
    def vote_rate(self) -> Fraction:
        """What one vote counts in the exponent: epsilon / levels, half of it under replace."""
        assert isinstance(self.concept, SmallTrees)
        return self.rate(self.epsilon, self.concept.levels)

    def law(self, data: Users) -> SmallTreeLaw:
        """The law over the ids of the class."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> SmallTreeLaw:
        concept = bound.concept
        assert isinstance(concept, SmallTrees)
        return SmallTreeLaw(concept.shape, concept.cells(bound.users), self.vote_rate)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        concept = bound.concept
        assert isinstance(concept, SmallTrees)
        tree = self._law(bound).sample(rng)
        shown = {"depth": concept.depth, "levels": concept.levels, "price in nats": f"{concept.price(tree):.1f}"}
        return self.release_id(bound, tree, shown, "small tree")
