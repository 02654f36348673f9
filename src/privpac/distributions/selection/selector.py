"""Hypothesis selection: the candidate closest in total variation to the population, with user-level privacy.

For candidates P, Q the Scheffé set is ``W = {z : P(z) > Q(z)}``.  A user with ``m`` records, ``c`` of them in ``W``,
contributes

    g = clip(m q - L c, -T, T),    q = floor(L P(W) + 1/2),  T = L tau,

to the pair; a candidate's score is its worst pair sum, and the exponential mechanism picks a small score (Theorem 41).

**Guarantee.**  ``(epsilon, 0)`` per user.  ``g`` depends on that user's records and on public numbers and lies in a
public interval, so the range of score changes between neighbours is at most ``scheffe_range`` and weights
``e**(-(epsilon / range) score)`` are epsilon-DP.  Nothing of that depends on how good the candidates, the probabilities
``P(W)`` or ``tau`` are.

**Accuracy.**  If some candidate is within ``opt`` of the population and the output's score is below ``a1``, the output
is within ``a1 + 2 opt`` of it.  :attr:`HypothesisSelector.certificate` says how many users suffice.

**Candidates must be public**, or outputs of a private mechanism whose budget is added; fitting them on these or other
private users without privacy voids the guarantee.  ``candidates_are`` must say which.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.data import Domain
from privpac.distributions.base import BoundUsers, DistributionLearner, warn_accuracy
from privpac.distributions.selection.accuracy import (
    MAX_RESOLUTION,
    ClipAim,
    ClipPlan,
    KnownPairs,
    default_resolution,
    read_plan,
    read_top,
)
from privpac.distributions.selection.candidates import Candidate, read_candidates
from privpac.distributions.selection.comparison import CandidateComparison, compare, read_bins, scheffe_range
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee, Unit, positive_int
from privpac.mechanisms.exponential import ExponentialMechanism
from privpac.parameters import (
    Composed,
    bounds,
    fraction,
    fraction_or_none,
    named,
    part,
    privacy,
    probability_or_zero,
    whole,
    whole_or_none,
)
from privpac.result import Released

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.law import Law
    from privpac.rng import Rng
    from privpac.sample_size import Certificate


@frozen(slots=False, field_transformer=named)
class SelectionAim(ClipAim):
    """What a selection is certified for.  All public.

    Parameters
    ----------
    alpha : number
        The distance aimed at; default 1/10.
    opt : number
        The distance of the best candidate; default 0.
    """

    alpha: Fraction = field(
        default=Fraction(1, 10), kw_only=True, converter=fraction, metadata=bounds(above=0, maximum=1)
    )
    opt: Fraction = field(default=Fraction(0), kw_only=True, converter=probability_or_zero)


@frozen(slots=False, field_transformer=named)
class ComparedSets:
    """How two candidates are compared.  All public.

    Parameters
    ----------
    resolution : int, optional
        Steps in which probabilities are written; follows from ``alpha``.
    bins : "auto", edges, int or None
        Values of small domains, else edges at the candidates' quantiles (``"auto"``), edges, a number of them, or
        None for exact sets.
    samples : int
        Draws from a density whose probabilities are not known otherwise.
    public_seed : bytes
        32 bytes that fix those draws.
    """

    resolution: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_RESOLUTION))
    bins: Any = field(default="auto", converter=read_bins)
    samples: int = field(default=1_000_000, converter=whole, metadata=bounds(maximum=1 << 26))
    public_seed: bytes = bytes(32)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.public_seed, bytes) or len(self.public_seed) != 32:
            raise ParameterError("public_seed must be 32 bytes")


@frozen(slots=False, init=False, field_transformer=named)
class HypothesisSelector(Composed, DistributionLearner):
    """Select among candidate distributions.

    ``records_per_user`` (declared, public) sets the clip ``tau``, unless ``tau`` is given.

    Parameters
    ----------
    candidates : list
        The candidates.
    epsilon : number
        The privacy parameter.
    candidates_are : {"public", "dp-released"}
        Where they come from.
    candidates_epsilon : number, optional
        What candidates that were released privately have cost.
    aim : SelectionAim
        Given by its own parameters: ``alpha``, ``opt``, ``beta``, ``records_per_user``, ``tau``, ``public_n_users``.
    sets : ComparedSets
        Given by its own parameters: ``resolution``, ``bins``, ``samples``, ``public_seed``.

    >>> from privpac.data import Integers, UserData
    >>> rolls = UserData.from_users([[1, 6, 6], [6, 6], [2, 6, 5]], features={"roll": Integers(1, 6)}, labelled=False)
    >>> fair, loaded = [1] * 6, [1, 1, 1, 1, 1, 5]
    >>> selector = HypothesisSelector([fair, loaded], epsilon=1, records_per_user=3, candidates_are="public")
    >>> str(selector.guarantee), selector.law(rolls).mode
    ('(1, 0)-DP per user, add-remove', 1)

    ===============================  =====================================================
    no users, users without records  all scores equal: a uniform law
    one candidate                    that candidate
    two equal candidates             kept, compete with value 0, reported as a warning
    a density that fails somewhere   the record is in no set of that candidate
    ===============================  =====================================================
    """

    candidates: Any = field(converter=read_candidates)
    epsilon: Fraction = field(converter=privacy)
    candidates_are: str = field(kw_only=True)
    candidates_epsilon: Fraction | None = field(
        default=None, kw_only=True, converter=fraction_or_none, metadata=bounds(minimum=0)
    )
    aim: SelectionAim = part(SelectionAim)
    sets: ComparedSets = part(ComparedSets)

    def __attrs_post_init__(self) -> None:
        if self.candidates_are not in ("public", "dp-released"):
            raise ParameterError(
                f"candidates_are must be 'public' or 'dp-released', got {str(self.candidates_are)[:40]!r}"
            )
        if (self.candidates_epsilon is None) != (self.candidates_are == "public"):
            raise ParameterError("candidates_epsilon goes with candidates_are='dp-released', and only with it")
        self.top  # noqa: B018  # a missing or useless clip is refused here

    @cached_property
    def _made(self) -> dict[Any, CandidateComparison]:
        return {}

    @property
    def resolution(self) -> int:
        """Steps in which probabilities are written; follows from ``alpha`` unless given."""
        given = self.sets.resolution
        unit = default_resolution(self.aim.alpha) if given is None else given
        return positive_int(unit, "resolution", maximum=MAX_RESOLUTION)

    # Public numbers

    @property
    def plan(self) -> ClipPlan:
        """The numbers of the accuracy certificate for any candidates: ``alpha0 = opt``, ``alpha1 = alpha - 2 opt``."""
        return self._plan(None)

    def plan_for(self, comparison: CandidateComparison) -> ClipPlan:
        """The same for these candidates on these columns: where ``P(W)`` is known a smaller clip may do, and fewer
        users."""
        if not comparison.known:
            return self.plan
        return self._plan(KnownPairs.of(comparison.pairs, comparison.unit, Fraction(1, 2 * comparison.unit), self.cap))

    def _plan(self, pairs: KnownPairs | None) -> ClipPlan:
        aim = self.aim
        return read_plan(
            log(len(self.candidates)),
            self.epsilon,
            aim.opt,
            aim.alpha - 2 * aim.opt,
            aim.beta,
            1 if self.unit is Unit.ITEM else aim.records_per_user,
            aim.tau,
            self.neighbours,
            self.cap,
            pairs,
            self.resolution,
        )

    @property
    def certificate(self) -> Certificate | None:
        """How many users make the output ``alpha``-close (given ``opt``) except with probability ``beta``, whatever the
        columns."""
        return self.plan.certificate

    def certificate_for(self, domains: Mapping[str, Domain]) -> Certificate | None:
        """The same on these columns, where the candidates' probabilities are known."""
        return self.plan_for(self.comparison(domains)).certificate

    @property
    def top(self) -> int:
        """The integer clip ``T = resolution * tau`` as far as it is known without columns."""
        return read_top(self.resolution, self.plan.clip)

    def top_for(self, comparison: CandidateComparison) -> int:
        """The integer clip in use."""
        return read_top(comparison.unit, self.plan_for(comparison).clip)

    @property
    def guarantee(self) -> Guarantee:
        """Of this selection alone; see :attr:`total_guarantee` for candidates that cost budget themselves."""
        epsilon = self.epsilon
        how = (f"the candidates cost {self.candidates_epsilon} besides",) if self.candidates_epsilon else ()
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=epsilon**2 / 8, derivation=how)

    @property
    def total_guarantee(self) -> Guarantee:
        """This selection together with the release of its candidates."""
        total = self.epsilon + (self.candidates_epsilon or 0)
        return Guarantee(total, unit=self.unit, neighbours=self.neighbours)

    # Comparison and law

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        self.comparison(domains)

    def comparison(self, domains: Mapping[str, Domain]) -> CandidateComparison:
        """Sets and probabilities of all pairs on these columns: public, computed once."""
        key = tuple(domains.items())
        if key not in self._made:
            sets = self.sets
            self._made[key] = compare(
                self.candidates, domains, sets.bins, self.resolution, sets.samples, sets.public_seed
            )
        return self._made[key]

    def range_of(self, comparison: CandidateComparison) -> int:
        """The range sensitivity of the scores."""
        return scheffe_range(comparison.pairs, comparison.unit, self.top_for(comparison), self.cap, self.neighbours)

    def bind(self, data: Users) -> BoundUsers:
        users, domains = self.bind_users(data)
        comparison = self.comparison(domains)
        notes = []
        same = np.argwhere(np.triu((comparison.q == 0) & (comparison.q.T == 0), 1))
        if len(same):
            names = ", ".join(f"{self.candidates[i].name} = {self.candidates[j].name}" for i, j in same[:3].tolist())
            notes.append(warn_accuracy(f"some candidates cannot be told apart at this resolution: {names}"))
        n_users = self.public_users(users, self.aim.public_n_users)
        short = None if n_users is None else self.plan_for(comparison).shortfall(n_users)
        if short:
            notes.append(warn_accuracy(short))
        return BoundUsers(users, domains, tuple(notes), comparison)

    def law(self, data: Users) -> Law:
        """The law over the candidates' positions."""
        return self._law(self.bind(data))

    def _law(self, bound: BoundUsers) -> Law:
        comparison: CandidateComparison = bound.plan
        select = ExponentialMechanism(
            self.epsilon, self.range_of(comparison), unit=self.unit, neighbours=self.neighbours
        )
        return select.law(comparison.scores(bound.users, self.top_for(comparison)))

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        index = int(self._law(bound).sample(rng))
        chosen: Candidate = self.candidates[index]
        shown: dict[str, Any] = {
            "candidate": index,
            "name": chosen.name,
            "candidates": len(self.candidates),
            "candidates_are": self.candidates_are,
            "tau": self.plan_for(bound.plan).clip,
            "resolution": self.resolution,
        }
        if self.candidates_epsilon is not None:
            shown["candidates_epsilon"] = self.candidates_epsilon
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        published = chosen.publish(bound.features, index)
        return Released(published, self.guarantee, shown, warnings=bound.warnings, learner="hypothesis selection")
