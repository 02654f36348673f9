"""Clipped pairwise selection: choose the rule whose worst comparison with another rule is small.

Every two rules are compared by their mistakes, and one user moves a comparison by at most a public number:

    P(h, h') = sum over users of clip(mistakes_i(h) - mistakes_i(h'), -tau, tau),      score(h) = max over h' != h of
    P(h, h')

(Ghazi et al., *Few Examples*, Theorems 37 and 40, with the sign of the comparison corrected; certificate C2 in
``privpac.bounds``).  With ``weighted=True`` the clip follows the user's own number of records, in public steps:
``levels * clip(., -tau(m), tau(m)) / tau(m)`` rounded to the nearest integer, halves away from 0; use it when some
users hold many more records than most.

Competitors are *other rules of the class*, also those that predict alike on the data (value 0).

**Guarantee.**  ``(epsilon, 0)`` per user.  One user's part of any comparison is a function of that user's records and
public numbers and lies in ``-T..T`` (T = ``levels``, or ``tau``, or ``max_records`` if that is smaller).  Under
add-remove a comparison, hence a maximum of comparisons, moves by at most T either way, under replace by 2T; so the
changes of two scores differ by at most ``rho = 2T`` or ``4T``, and weights ``e**(-(epsilon/rho) score)`` are epsilon-DP
(range rule).  Nothing in it depends on ``alpha``, ``beta``, the clip being a good one, or users holding as many records
as declared.  The clip is never read off the data: a clip that follows the largest number of records found is not
private.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from privpac.bisection import least_between
from privpac.distributions.selection.accuracy import plan_pairwise
from privpac.errors import AccuracyWarning, ParameterError, TooLargeError
from privpac.exact import root_up
from privpac.guarantee import Neighbours, positive_int
from privpac.law import Law
from privpac.methods.base import Bound, Selection, count_users
from privpac.methods.trimmed import Gather, joined
from privpac.papers.few_examples_per_user.pairwise_scores import MAX_PAIRED_RULES, pairwise_profile
from privpac.parameters import (
    DEFAULT_BETA,
    Composed,
    bounds,
    fraction,
    named,
    part,
    probability,
    truth,
    whole,
    whole_or_none,
)
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Profile, Table, read_table

if TYPE_CHECKING:
    from privpac.data import Users

DEFAULT_STEPS = 64
"""Steps of a weighted contribution."""

_MAX_LEVELS = 1 << 20
_CHECKED = (*range(1, 1025), *(1 << k for k in range(11, 41)))
_GRID = 1000


@frozen(slots=False, repr=False)
class PairwiseBound(Bound):
    """Bound users with the clip in use and the warnings that public numbers call for."""

    clip: Table = 1
    notes: tuple[str, ...] = ()


@frozen(slots=False, field_transformer=named)
class Aim:
    """What a certificate is about.  All public.

    Parameters
    ----------
    alpha : number
        Excess error aimed at; default 1/10.
    beta : number
        How often it may be missed; default 1/20.
    records_per_user : int, optional
        Records that every user holds.
    public_n_users : int, optional
        A lower bound on the number of users, for accuracy statements.
    """

    alpha: Fraction = field(default=Fraction(1, 10), converter=fraction, metadata=bounds(above=0, maximum=1))
    beta: Fraction = field(default=DEFAULT_BETA, converter=probability)
    records_per_user: int | None = field(default=None, converter=whole_or_none)
    public_n_users: int | None = field(default=None, converter=whole_or_none)


def _read_tau(tau: Any) -> Table | None:
    if tau is None:
        return None
    if isinstance(tau, Mapping):
        tau = {positive_int(m, "a key of tau", minimum=0): positive_int(clip, "tau") for m, clip in tau.items()}
        if not tau or min(tau) > 1:
            raise ParameterError(
                "tau must have an entry for users with 1 record; the entry of a missing number is the next lower one"
            )
    elif callable(tau):
        for m in _CHECKED:
            read_table(tau, m, name="tau", minimum=1)
    else:
        return positive_int(tau, "tau")
    return tau  # type: ignore[no-any-return]


@frozen(slots=False, init=False, field_transformer=named)
class PairwiseSelection(Composed, Selection):
    """Exponential law over the worst clipped comparison of every rule.

    Parameters
    ----------
    tau : int, table or function, optional
        The clip in records (public): an integer, or with ``weighted=True`` a table or function of the number of
        records.  Without it the clip follows from ``records_per_user`` (the one that certifies the fewest users), or
        with ``weighted=True`` is ``ceil(alpha m + sqrt m)``.
    weighted : bool
        Whether comparisons are scaled to ``levels`` steps instead of counted in records.
    levels : int
        Steps of a scaled comparison.
    aim : Aim
        Given by its own parameters: ``alpha``, ``beta``, ``records_per_user``, ``public_n_users``.

    Cuts and points cost O(sum of m_i**2 log) on any domain; other classes compare all pairs and have at most 8192
    rules.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> learner = PairwiseSelection(Thresholds(), epsilon=1, tau=2)
    >>> learner.law(people).mode, str(learner.guarantee)
    (4, '(1, 0)-DP per user, add-remove')
    """

    tau: Any = field(default=None, kw_only=True, converter=_read_tau)
    weighted: bool = field(default=False, kw_only=True, validator=truth)
    levels: int = field(default=DEFAULT_STEPS, kw_only=True, converter=whole, metadata=bounds(maximum=_MAX_LEVELS))
    aim: Aim = part(Aim)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.tau is None and self.aim.records_per_user is None and not self.weighted:
            raise ParameterError(
                "declare records_per_user (public) or tau: the clip is never taken from the data; private_cap buys "
                "a public cap"
            )
        if self.tau is not None and not isinstance(self.tau, int) and not self.weighted:
            raise ParameterError(
                "tau must be one integer, or pass weighted=True for a clip that follows the number of records"
            )

    # Public numbers

    def clip_for(self, concept: ConceptClass) -> Table:
        """The clip on a class: the declared one, or the one that follows from declared numbers."""
        if self.tau is not None:
            return self.tau  # type: ignore[no-any-return]
        if self.weighted:
            return growing_clip(self.aim.alpha)
        return int(plan_pairwise(records_per_user=self._records, **self._target(concept))["tau"])

    def range_sensitivity(self, clip: Table) -> int:
        """``rho``: how far the changes of two scores can differ between neighbours."""
        if self.weighted:
            bound = self.levels
        else:
            assert isinstance(clip, int)
            bound = clip if self.max_records is None else min(clip, self.max_records)
        # A comparison moves by at most `bound` either way when a user comes or goes, by twice that when one is
        # replaced.
        return bound * (2 if self.neighbours is Neighbours.ADD_REMOVE else 4)

    @property
    def _records(self) -> int:
        held = self.aim.records_per_user
        assert held is not None
        return held if self.max_records is None else min(held, self.max_records)

    def _target(self, concept: ConceptClass) -> dict[str, Any]:
        given = {"epsilon": self.epsilon, "neighbours": self.neighbours, "log_size": concept.log_size}
        return given | {"alpha1": self.aim.alpha, "beta": self.aim.beta}

    # Laws

    def bind(self, data: Users) -> PairwiseBound:
        plain = super().bind(data)
        concept = plain.concept
        if concept.layout == "listed" and concept.size > MAX_PAIRED_RULES:
            raise TooLargeError(
                f"the class has {concept.size} rules and pairs of at most {MAX_PAIRED_RULES} are compared; use "
                "RegretSelection or a smaller class"
            )
        clip = self.clip_for(concept)
        bound = PairwiseBound(concept, plain.users, plain.label, clip)
        note = self._accuracy(bound, clip)
        if note is None:
            return bound
        warnings.warn(note, AccuracyWarning, stacklevel=2)
        return evolve(bound, notes=(note,))

    def _accuracy(self, bound: Bound, clip: Table) -> str | None:
        """What the certificate says about a public number of users; computed from public numbers only."""
        if self.weighted or self.aim.records_per_user is None or not isinstance(clip, int):
            return None
        n = self.aim.public_n_users
        if n is None and self.neighbours is Neighbours.REPLACE:
            n = count_users(bound.users)
        if n is None or self.epsilon == 0:
            return None
        given = self._target(bound.concept) | {"records_per_user": self._records, "tau": clip}
        needed = plan_pairwise(**given).n_users
        if needed is not None and needed <= n:
            return None
        users = "no number of users" if needed is None else f"{needed} users"
        return (
            f"excess error {float(self.aim.alpha):g} is certified for {users} with tau = {clip}, not for {n}; "
            f"{_certified(given, n)}"
        )

    def law(self, data: Users) -> Law:
        """The law over rule ids (private: for the curator and for audits)."""
        return self._law(self.bind(data))

    def profile(self, data: Users) -> Profile:
        """The score of every rule (private)."""
        return self._profile(self.bind(data))

    def _law(self, bound: PairwiseBound) -> Law:
        return self._profile(bound).law(self.epsilon / self.range_sensitivity(bound.clip))

    def _profile(self, bound: PairwiseBound) -> Profile:
        columns = tuple(name for name in bound.concept.declared() if name is not None)
        records = bound.users.fold(Gather(columns))
        return pairwise_profile(
            bound.concept, *joined(records, columns), clip=bound.clip, levels=self.levels if self.weighted else None
        )

    def draw(self, bound: PairwiseBound, rng: Rng) -> Released:
        shown: dict[str, object] = {"tau": bound.clip if isinstance(bound.clip, int) else "table"}
        shown |= {"levels": self.levels} if self.weighted else {}
        shown |= {} if self.aim.records_per_user is None else {"records_per_user": self.aim.records_per_user}
        released = self.release_rule(bound, self._law(bound), rng, shown, "pairwise selection")
        return evolve(released, warnings=(*released.warnings, *bound.notes)) if bound.notes else released


def growing_clip(alpha: Fraction) -> Callable[[int], int]:
    """``ceil(alpha m + sqrt m)``, at most ``m``: a user's shift by ``alpha`` and one standard deviation of luck."""
    p, q = alpha.numerator, alpha.denominator
    return lambda m: min(max(m, 1), max(1, -(-(p * m + root_up(q * q * m)) // q)))


def _certified(given: dict[str, Any], n: int) -> str:
    """The least certified excess at ``n`` users, on a grid of thousandths."""

    def holds(k: int) -> bool:
        needed = plan_pairwise(**(given | {"alpha1": Fraction(k, _GRID)})).n_users
        return needed is not None and needed <= n

    if not holds(_GRID):
        return "no accuracy is certified for that many"
    return f"for that many, {least_between(holds, 0, _GRID) / _GRID:g} is"
