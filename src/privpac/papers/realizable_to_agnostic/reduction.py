"""From learners for clean labels to learners for any labels (Li, Wang and Ye, *Realizable-to-Agnostic*, Theorem 18),
and from samples to a fixed table (Lemma 21).

:class:`AgnosticReduction` hides a random part T of the units, gives T the labels of a rule that does well on the
others, and runs an inner learner on T alone.  The inner learner then sees labels that some rule explains perfectly,
whatever the real labels are.

**Guarantee.**  With the inner learner ``(eps_A, delta_A)``-DP, public costs ``a = eta A``, ``b = eta B levels`` and the
share ``q`` of T: Theorem B under add-remove, Theorem A under replace
(``privpac.methods.prediction.reduction_privacy``), recomputed from exactly these constants, rounded up. Amplification
by ``q`` is paid once per split: the inner learner's whole output counts as one algorithm.

Where a class has a small representation, direct selection needs fewer users (about 7 to 9 times less noise for cuts of
2**64 values at epsilon 1): this transformation is for inner learners of classes without one.

:class:`EmpiricalLearner` runs a base learner on ``draws`` records drawn with replacement, so that a learner for i.i.d.
samples has small error on a fixed table.  **Guarantee.**  Theorem C, under replace only.
"""

from __future__ import annotations

import math
import warnings as python_warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, permutations, product
from math import comb, factorial, log, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import Law
from privpac.methods.base import ITEM_LEVEL, WEAK, Learner, Selection
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.methods.prediction.reduction_privacy import Objective, ReductionPlan, plan_reduction, theorem_c
from privpac.methods.prediction.relabel import BoundSplit, Relabelling, below
from privpac.methods.prediction.service_sample_size import (
    InnerError,
    LogGrowth,
    at_least,
    by_size,
    certify_reduction,
    excess_objective,
    relative,
    selection_error,
    voters_apart,
)
from privpac.methods.realizable import RealizableSelection
from privpac.parameters import (
    DEFAULT_BETA,
    Composed,
    bounds,
    named,
    part,
    privacy,
    privacy_or_none,
    probability,
    probability_or_none,
    probability_or_zero,
    protected_unit,
    relation,
    truth,
    whole,
    whole_or_none,
)
from privpac.result import Released
from privpac.rng import Rng, secret_rng
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.sample_size import SLACK, Certificate, open_unit

if TYPE_CHECKING:
    from privpac.data import Users

# Accuracy of the transformation with an inner learner that may release rules outside the class (Lemma 17 of Li, Wang
# and Ye, *Realizable-to-Agnostic*, with constants).
#
# A proper learner's rule g and the rule behind the relabelling belong to one class, so that what they differ on in T
# says how far apart they are on everybody.  An improper g may remember T.  What it cannot do, being private, is fit T
# much better than fresh records.  Notation of :mod:`privpac.methods.prediction.service_sample_size`; the inner learner
# is ``(eps_A, delta_A)``-DP under **replace** (an add-remove promise counts as ``(2 eps_A, (1 + e**eps_A) delta_A)``),
# and on any realizable T has at most a share ``alpha_A`` of wrong labels but for ``b_A``.  ``K = G**2 e**(2a +
# eps_A)``.
#
# **Theorem D.**  Off events of total probability ``b0 + b1 + b2 + b3 + bs + bz``,
#
#     error(g) <= best + alpha1 + alpha0 + 1/levels + L/(b w) + omega(L/(a t)) + s + z,
#     s = (ln(2 Pi(N)**2 N/r) + ln(1/bs)) / (r ln(N/r)),  N = v + r for any r,   v = ceil(t/2),  u = floor(t/2),
#     z = (K (alpha_A + b_A + (log2 Pi(t) + 2)/u) + delta_A) / bz.
#
# *Proof.*  Let f' be a rule of the class with the new labels h on T: ``err(f') <= best + (all terms before s)``.  Split
# T by coins of one's own into V and U of v and u records; that split is made in the proof only, so it is independent of
# T, h and g.  Let h' be a rule of the class that agrees with h on V, chosen by V and its labels alone.
#
# 1. *f' and h'* agree on V: ``P(f' != h') <= s`` but for bs (step 1 of
#    :mod:`privpac.methods.prediction.service_sample_size`, for one part).
# 2. *h and h' on U.*  Given T and h, a labelling of T by the class that differs from h on j records has all of them
#    outside V with probability at most ``2**-j``, and there are at most ``Pi(t)``: the number J of differences on U has
#    ``Pr[J >= j] <= Pi(t) 2**-j``, so ``E J <= log2 Pi(t) + 2``.
# 3. *g and h' on U.*  U is a uniform half of T, whatever g: ``E dis_U(g, h) = E dis_T(g, h) <= alpha_A + b_A``.  With
#    2., ``E dis_U(g, h') <= alpha_A + b_A + (log2 Pi(t) + 2)/u``.  (The paper bounds ``dis_U`` by ``dis_T``, which is
#    false for a single split.)
# 4. *g and h' on everybody.*  Fix V and W.  The map from U to the pair (g, h') is ``(ln K, delta_A)``-DP under replace:
#    for a labelling c of all of T but the changed record, its extensions have total weight in ``e**-m(c) [e**-a, G]``
#    on both sides, so the law of c moves by at most ``G**2 e**(2a)``; c fixes the labels of V and with them h'; given c
#    the inner inputs are neighbours.  Exchange the i-th record of U with a fresh one: ``Pr[g != h' at a fresh record]
#    <= K Pr[g != h' at the i-th record] + delta_A``.  Averaged over i, ``E P(g != h') <= K E dis_U(g, h') + delta_A``.
# 5. Markov's inequality: ``P(g != h') <= z`` but for bz.
#
# The price of leaving the class is the factor ``K/bz``; it holds in expectation without ``1/bz``.  For every share of T
# and every cost a of the fixed grids the bound falls with the number of people and with b, so a certified number holds
# for every larger one and more budget never needs more.


_ROOM = 1e-3
"""Costs are judged this share larger in K than aimed at."""


def fresh_records(
    t: int, K: float, inner: float, failure: float, delta: float, log_growth: LogGrowth, share: float
) -> float:
    """``z``: how often g differs from a rule of the class that agrees with half of the labels, on fresh records, but
    for ``share``; ``inner`` is ``alpha_A`` and ``failure`` is ``b_A``."""
    half = t // 2
    if half < 1:
        return math.inf
    seen = inner + failure + (log_growth(t) / math.log(2) + 2) / half
    return (K * seen + delta) / share * (1 + SLACK)


def improper_objective(
    *,
    beta: float,
    log_growth: LogGrowth,
    inner_error: InnerError,
    neighbours: Neighbours,
    levels: int | None = None,
    inner_delta: float = 0.0,
    labellings: int = 2,
) -> Callable[[Fraction], Objective]:
    """The promised excess of a matrix of candidates, as ``excess_objective`` for proper learners.

    Half of ``beta`` for the events of the relabelling, an eighth for V, a quarter for Markov's inequality, an eighth
    for the sizes under add-remove; ``b_A`` is ``1/t``.
    """
    rounding = 0.0 if levels is None else 1 / levels
    poisson = neighbours is Neighbours.ADD_REMOVE

    def of(eps_a: Fraction) -> Objective:
        spent = float(eps_a) * (2 if poisson else 1)
        leak = inner_delta * (1 + math.exp(float(eps_a)) if poisson else 1.0)

        def row(t: int, w: int) -> tuple[float, ...]:
            if poisson:
                t, w = at_least(t, beta / 16), at_least(w, beta / 16)
            if t < 4 or w < 1:
                return (math.inf, math.inf, math.inf, math.inf, 1.0, 1.0)
            inside = inner_error(t, float(eps_a), 1 / t)
            again = fresh_records(t, 1.0, inside, 1 / t, 0.0, log_growth, beta / 4)
            apart = voters_apart(-(-t // 2), 1, beta / 8, log_growth)
            size, square, convergence = by_size(t, w, beta / 8, log_growth)
            return (size, square, convergence + apart, again, float(t), float(w))

        def value(t: NDArray[np.int64], w: NDArray[np.int64], a: object, b: object) -> Any:
            rows = np.array([row(int(x), int(y)) for x, y in zip(t, w)])
            size, square, fixed, again, part, rest = rows.T[:, :, None]
            with np.errstate(over="ignore"):
                k = labellings**2 * np.exp(2 * np.asarray(a) * (1 + _ROOM) + spent)
            far = again * k + 4 * leak / beta
            noise = size / (b * rest) + relative(size / (a * part), square)
            return (fixed + noise + far + rounding) * (1 + SLACK)

        return value

    return of


# What the reduction promises about its error for a public number of units; functions of public numbers only.


def _own_error(inner: object, concept: object, given: InnerError | None, probe: Relabelling) -> InnerError | None:
    """The inner learner's error on clean labels: declared, known for a selection from the class, else ``None``."""
    if given is not None:
        return given
    if isinstance(inner, Selection) and isinstance(concept, ConceptClass) and is_proper(inner):
        return selection_error(concept.log_size, probe.neighbours)
    return None


def is_proper(inner: object) -> bool:
    """Whether an inner learner releases rules of the class only: unless it says otherwise (``proper = False``)."""
    return bool(getattr(inner, "proper", True))


def promised_excess(
    inner: Any, concept: Any, beta: Rational, inner_error: InnerError | None, probe: Relabelling
) -> Callable[[Fraction], Objective]:
    """What the constants are chosen for: the least promised excess, without the inner learner's part where nothing is
    known of it."""
    error = _own_error(inner, concept, inner_error, probe) or (lambda t, epsilon, failure: 0.0)
    told: dict[str, Any] = {"inner_error": error, "neighbours": probe.neighbours, "levels": probe.rounded_levels}
    told |= {"beta": open_unit(beta, "beta"), "log_growth": lambda t: log(concept.growth(t))}
    if is_proper(inner):
        return excess_objective(**told)
    leak = float(inner.guarantee.delta)
    return improper_objective(**told, inner_delta=leak, labellings=probe.labellings)


def accuracy_note(
    inner: Any,
    concept: Any,
    alpha: Rational,
    beta: Rational,
    inner_error: InnerError | None,
    epsilon: Rational,
    delta: Rational,
    spent: Guarantee,
    probe: Relabelling,
    n: int,
) -> str | None:
    """What to say when the error wanted is not certified for ``n`` units; ``None`` if it is."""
    error = _own_error(inner, concept, inner_error, probe)
    if error is None:
        raise ParameterError(
            "alpha needs inner_error(t, epsilon, failure): what the inner learner's error is on t records"
        )

    def certified(users: int | None) -> Certificate:
        return certify_reduction(
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            log_growth=lambda t: log(concept.growth(t)),
            inner_error=error,
            inner_epsilons=(spent.epsilon,),
            inner_delta=spent.delta,
            labellings=probe.labellings,
            levels=probe.rounded_levels,
            neighbours=probe.neighbours,
            n_users=users,
            objective=None if is_proper(inner) else promised_excess(inner, concept, beta, inner_error, probe),
        )

    if certified(n).n_users is not None:
        return None
    levels, target = probe.rounded_levels, open_unit(alpha, "alpha")
    if levels is not None and levels * target <= 1:
        return (
            f"an excess error of {alpha} is not certified for any number of users: losses in {levels} steps are "
            f"rounded by up to {1 / levels:.3g}; raise levels. Privacy is not affected"
        )
    enough = certified(None).n_users
    then = "no number of users certifies it" if enough is None else f"{enough} users certify it"
    return f"an excess error of {alpha} is not certified for {n} users; {then}. Privacy is not affected"


MAX_SPLITS = 20_000


@frozen(slots=False, init=False, field_transformer=named)
class AgnosticReduction(Composed, Learner):
    """``inner`` on a secret, relabelled part of the units; see :meth:`for_target` for constants that meet a target.

    Parameters
    ----------
    inner : learner
        Any learner with a declared ``guarantee``, or an object with ``guarantee`` and ``learn(data, rng=...)`` or
        ``law(data)``.  One that says ``symmetric = True`` ignores the order of units, which makes exact laws cheaper.
    relabelling : Relabelling
        Given by its own parameters (``A``, ``B``, ``eta``, ``split_rate`` …), all public; ``concept`` is the inner
        learner's class (or tree) unless another one is given.
    note : str, optional
        A public remark on accuracy that every result repeats.

    *costs, **given
        Parameters of the relabelling, by position or by name.

    Raises
    ------
    ParameterError, InfeasibleError
        Constants that give no guarantee, or none within the budget.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.methods.realizable import RealizableSelection
    >>> inner = RealizableSelection(Thresholds(Integers(0, 99)), epsilon="1/2")
    >>> learner = AgnosticReduction.for_target(inner, epsilon=1, public_n_users=10000)
    >>> learner.guarantee.epsilon <= 1, str(learner.guarantee)
    (True, '(1, 0)-DP per user, add-remove')
    """

    inner: Any
    relabelling: Relabelling = part(Relabelling)
    note: str | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            inner: Any,
            A: int,
            B: int,
            *,
            concept: ConceptClass | VC1Tree | None = None,
            eta: Rational | None = ...,
            base: Rational | None = ...,
            split_size: int | None = ...,
            split_rate: Rational | None = ...,
            public_n_users: int | None = ...,
            neighbours: Neighbours | str = ...,
            unit: Unit | str = ...,
            users: str = ...,
            levels: int = ...,
            max_records: int | None = ...,
            note: str | None = ...,
        ) -> None: ...
    else:

        def __init__(self, inner: Any, *costs: int, **given: Any) -> None:
            _require_learner(inner, "inner")
            given |= dict(zip(("A", "B"), costs, strict=False))
            if "relabelling" not in given and given.get("concept") is None:
                given["concept"] = _class_of(inner)
                if given["concept"] is None:
                    raise ParameterError("the inner learner names no class: give concept=")
            super().__init__(inner, **given)
            self.relabelling.inner_guarantee(inner.guarantee)

    @classmethod
    def for_target(
        cls,
        inner: Any,
        *,
        epsilon: Rational,
        public_n_users: int,
        delta: Rational = 0,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        split_size: int | None = None,
        least_split: int = 1,
        alpha: Rational | None = None,
        beta: Rational = DEFAULT_BETA,
        inner_error: InnerError | None = None,
        **shape: Any,
    ) -> Self:
        """Constants of least promised excess error (but for ``beta``) for a target; ``InfeasibleError`` says what would
        suffice.

        With ``alpha`` an ``AccuracyWarning`` says whether an excess error of ``alpha`` is certified at this number of
        units, and with how many it would be; ``inner_error`` is the inner learner's own error, known for selections.

        ``public_n_users``: a declared number under add-remove, the number of units itself under replace.
        ``split_size`` fixes the
        (expected) size of T, ``least_split`` bounds it from below; ``shape`` are the other fields.
        """
        relation = one_of(Neighbours, neighbours, "neighbours")
        concept = shape.get("concept") or _class_of(inner)
        if concept is None:
            raise ParameterError("the inner learner names no class: give concept=")
        n = positive_int(public_n_users, "public_n_users", minimum=2)
        size = {"split_size": 1, "public_n_users": n} if relation is Neighbours.REPLACE else {"split_rate": "1/2"}
        probe = Relabelling(
            concept,
            1,
            1,
            eta=Fraction(1),
            neighbours=relation,
            **size,
            **{k: v for k, v in shape.items() if k != "concept"},
        )
        spent = probe.inner_guarantee(inner.guarantee)
        plan = plan_reduction(
            n_users=n,
            epsilon=epsilon,
            delta=delta,
            log_growth=lambda t: log(concept.growth(t)),
            inner_epsilons=[spent.epsilon],
            inner_delta=spent.delta,
            least_split=least_split if split_size is None else split_size,
            most_split=split_size,
            labellings=probe.labellings,
            levels=probe.levels,
            neighbours=relation,
            objective=promised_excess(inner, concept, beta, inner_error, probe),
        )
        note = (
            None
            if alpha is None
            else accuracy_note(inner, concept, alpha, beta, inner_error, epsilon, delta, spent, probe, n)
        )
        if note is not None:
            python_warnings.warn(note, AccuracyWarning, stacklevel=2)
        return cls(inner, **_constants(plan, relation), note=note, **shape)

    @cached_property
    def guarantee(self) -> Guarantee:
        return self.relabelling.guarantee(self.inner.guarantee)

    # Binding and drawing

    def bind(self, data: Users) -> BoundSplit:
        bound = self.relabelling.bind(data, _class_of(self.inner), self._inner_unit)
        # The inner learner's own checks, before the spend: on no units, or on as many as T will have where that is
        # public.
        if hasattr(self.inner, "bind"):
            self.inner.bind(self.relabelling.stand_in(bound, self._inner_unit))
        return bound

    @property
    def _inner_unit(self) -> Unit:
        """One record per unit in T: the inner learner may protect users or records alike."""
        unit: Unit = self.inner.guarantee.unit
        return unit

    def draw(self, bound: BoundSplit, rng: Rng) -> Released:
        law = self.relabelling
        # Only the inner learner's output leaves: neither T, nor its labels, nor the number of them.
        released = _run(self.inner, law.draw(bound, rng, self._inner_unit), rng)
        hidden: dict[str, object] = {"A": law.A, "B": law.B, "levels": law.levels, "users": law.users}
        hidden |= {"eta": law.eta} if law.eta is not None else {"base": law.base}
        hidden |= {"split_rate": law.split_rate} if law.split_size is None else {"split_size": law.split_size}
        hidden |= {"epsilon_inner": self.inner.guarantee.epsilon, "delta_inner": self.inner.guarantee.delta}
        method = f"agnostic reduction of {released.learner or type(self.inner).__name__}"
        return evolve(
            released,
            guarantee=self.guarantee,
            insecure=False,
            parameters=dict(released.parameters) | hidden,
            warnings=self.warnings,
            learner=method,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        weak = f"epsilon above {WEAK} promises very little"
        item = (ITEM_LEVEL,) if self.relabelling.unit is Unit.ITEM else ()
        return (
            *item,
            *((weak,) if self.guarantee.epsilon > WEAK else ()),
            *(() if self.note is None else (self.note,)),
        )

    # Laws

    def law(self, data: Users, max_splits: int = MAX_SPLITS, given: Sequence[int] | None = None) -> Law:
        """The law of the inner learner's output, averaged over all splits, or for one split (positions of T) with
        ``given``."""
        bound = self.bind(data)
        limit = positive_int(max_splits, "max_splits")
        memory: dict[Hashable, Law] = {}
        if given is not None:
            return self._law_given(bound, self.relabelling.read_given(given, bound.users), limit, memory)
        splits: dict[Hashable, Law] = {}
        parts: list[tuple[Fraction, Law]] = []
        for share, places in self.relabelling.splits(bound.users, limit):
            key = _key(bound.users, places)
            if key not in splits:
                splits[key] = self._law_given(bound, places, limit, memory)
            parts.append((share, splits[key]))
        return Law.mixture(parts)

    def _law_given(self, bound: BoundSplit, places: tuple[int, ...], limit: int, memory: dict[Hashable, Law]) -> Law:
        return Law.mixture(
            [
                (number, _shuffled_law(self.inner, part, limit, memory))
                for number, part in self._parts(bound, places, limit)
            ]
        )

    def _parts(self, bound: BoundSplit, places: tuple[int, ...], limit: int) -> Iterator[tuple[Any, UserData]]:
        return self.relabelling.parts(bound, places, self._inner_unit, limit)


def _require_learner(inner: object, name: str) -> None:
    if not hasattr(inner, "guarantee") or not (hasattr(inner, "learn") or hasattr(inner, "law")):
        raise TypeError(f"{name} must be a learner with a guarantee, got {type(inner).__name__}")


@frozen(slots=False, field_transformer=named)
class EmpiricalLearner(Learner):
    """``base`` on ``draws`` units drawn with replacement from exactly ``size`` units.

    Parameters
    ----------
    base : learner
        The learner that sees the drawn units.
    draws, size : int
        How many units are drawn, and how many there are (both public).

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> from privpac.methods.realizable import RealizableSelection
    >>> base = RealizableSelection(Thresholds(Integers(0, 99)), epsilon="0.1", neighbours="replace")
    >>> str(EmpiricalLearner(base, draws=1000, size=106).guarantee)
    '(0.991687, 0)-DP per user, replace'
    """

    base: Any
    draws: int = field(converter=whole, metadata=bounds(maximum=1 << 28))
    size: int = field(converter=whole, metadata=bounds(maximum=1 << 36))

    def __attrs_post_init__(self) -> None:
        _require_learner(self.base, "base")

    @property
    def concept(self) -> ConceptClass | VC1Tree | None:
        return _class_of(self.base)

    @cached_property
    def guarantee(self) -> Guarantee:
        spent = self.base.guarantee.to_replace()
        epsilon, delta = theorem_c(self.draws, self.size, spent.epsilon, spent.delta)
        how = f"{spent.summary} on {self.draws} draws with replacement from {self.size} (Theorem C)"
        return Guarantee(
            epsilon,
            delta,
            unit=spent.unit,
            neighbours=Neighbours.REPLACE,
            model=spent.model,
            derivation=(*spent.derivation, how),
        )

    def bind(self, data: Users) -> UserData:
        if not isinstance(data, UserData):
            raise TypeError(
                f"data must be UserData in memory (UserData.read, UserData.from_frame), got {type(data).__name__}: it "
                "draws users"
            )
        users: Any = data if self.concept is None else self.concept.bind(data)[1]
        if users.n_users != self.size:
            raise ParameterError(
                f"this learner is for size = {self.size} units (public under replace), got {users.n_users}"
            )
        if hasattr(self.base, "bind"):
            self.base.bind(self._drawn(users, np.zeros(self.draws, dtype=np.int64)))
        bound: UserData = users
        return bound

    @staticmethod
    def _drawn(users: UserData, places: Any) -> UserData:
        return evolve(users.take(places), ids=None, default_rule="first")

    def draw(self, bound: UserData, rng: Rng) -> Released:
        places = below(np.full(self.draws, self.size), rng)
        released = _run(self.base, self._drawn(bound, places), rng)
        shown = dict(released.parameters) | {"draws": self.draws, "size": self.size}
        method = f"{released.learner or type(self.base).__name__} on draws with replacement"
        return evolve(released, guarantee=self.guarantee, insecure=False, parameters=shown, learner=method)

    def law(self, data: Users, max_draws: int = MAX_SPLITS) -> Law:
        """Averaged over all draws, as multisets where the base learner ignores the order of units."""
        users, limit = self.bind(data), positive_int(max_draws, "max_draws")
        n, m = self.size, self.draws
        total = comb(n + m - 1, m) if _symmetric(self.base) else n**m if m * n.bit_length() < 200 else limit + 1
        if total > limit:
            raise TooLargeError(f"there are more than max_draws = {limit} ways to draw; use fewer draws, or raise it")
        if not _symmetric(self.base):
            return Law.mixture(
                [(Fraction(1, n**m), self._base_law(users, places)) for places in product(range(n), repeat=m)]
            )
        parts = []
        for places in combinations_with_replacement(range(n), m):
            ways = factorial(m) // prod(factorial(places.count(i)) for i in set(places))
            parts.append((Fraction(ways, n**m), self._base_law(users, places)))
        return Law.mixture(parts)

    def _base_law(self, users: UserData, places: tuple[int, ...]) -> Law:
        law: Law = self.base.law(self._drawn(users, np.array(places, dtype=np.int64)))
        return law


# Running an inner learner


def _class_of(inner: object) -> ConceptClass | VC1Tree | None:
    """What an inner learner chooses from: its class, or its tree."""
    for name in ("concept", "tree"):
        found = getattr(inner, name, None)
        if isinstance(found, (ConceptClass, VC1Tree)):
            return found
    return None


def _run(inner: Any, data: UserData, rng: Rng) -> Released:
    if hasattr(inner, "bind") and hasattr(inner, "draw"):
        released = inner.draw(inner.bind(data), rng)
    elif hasattr(inner, "learn"):
        released = inner.learn(data, rng=secret_rng(rng))
    else:
        released = inner.law(data).sample(rng)
    return released if isinstance(released, Released) else Released(released, None)


def _symmetric(inner: object) -> bool:
    """Whether the order of units never matters: sums over units, or what a learner says of itself."""
    if isinstance(inner, EmpiricalLearner):
        return _symmetric(inner.base)
    return bool(getattr(inner, "symmetric", isinstance(inner, Selection)))


def _shuffled_law(inner: Any, part: UserData, limit: int, memory: dict[Hashable, Law]) -> Law:
    """The inner law on T in random order."""
    key = _key(part, range(part.n_users))[0]
    if key not in memory:
        if _symmetric(inner):
            memory[key] = inner.law(part)
        else:
            if factorial(min(part.n_users, 20)) > limit:
                raise TooLargeError(
                    f"there are more than max_splits = {limit} orders of T to average over; declare inner.symmetric, "
                    "or raise it"
                )
            orders = list(permutations(range(part.n_users)))
            memory[key] = Law.mixture(
                [(Fraction(1, len(orders)), inner.law(part.take(np.array(order, dtype=np.int64)))) for order in orders]
            )
    return memory[key]


def _key(users: UserData, places: Sequence[int]) -> tuple[Hashable, Hashable]:
    """The units at the places and the others, each as a multiset."""
    lists = [tuple(sorted(user)) for user in users.to_lists()]
    inside = set(places)
    rest = sorted(lists[i] for i in range(len(lists)) if i not in inside)
    return tuple(sorted(lists[i] for i in inside)), tuple(rest)


def _constants(plan: ReductionPlan, relation: Neighbours) -> dict[str, Any]:
    out: dict[str, Any] = {
        "A": plan.A,
        "B": plan.B,
        "eta": plan.eta,
        "neighbours": relation,
        "public_n_users": plan.n_users,
    }
    return out | (
        {"split_size": plan.split_size} if relation is Neighbours.REPLACE else {"split_rate": plan.split_rate}
    )


# The reduction by name: a class, a budget and a declared number of people are enough (``method="reduction"``).
#
# The inner learner is built from the class: selection among its rules for labels that one of them explains, or votes
# for the node of a tree; it gets ``inner_epsilon`` (half of epsilon unless given), and the constants of least promised
# excess are those of :meth:`~privpac.papers.realizable_to_agnostic.reduction.AgnosticReduction.for_target`.
#
# **Guarantee.**  That of the transformation with exactly these constants, at most the ``(epsilon, delta)`` asked for:
# Theorem B of the reduction under add-remove, Theorem A under replace.  With ``empirical=True`` the inner learner runs
# on ``draws`` people of T drawn with replacement (Theorem C), which makes a learner for independent samples one for a
# fixed table.  That is proved under replace alone: a person is drawn a number of times that depends on how many people
# there are, and add-remove keeps that number private, so it is refused there.


NOT_WITHOUT_REPLACE = (
    "empirical=True draws people with replacement from a public number of them, and add-remove keeps that number "
    "private: use neighbours='replace', or leave empirical out (the inner learner then reads every person of the "
    "hidden part once)"
)


@frozen(slots=False, field_transformer=named)
class InnerShape:
    """How the learner for clean labels is run.  All public.

    Parameters
    ----------
    inner_epsilon : number, optional
        What it spends; default half of epsilon.
    empirical : bool
        Whether it reads people drawn with replacement from the hidden part; needs replace, and ``split_size``.
    draws : int, optional
        How many are drawn; default as many as the part has.
    """

    _inner_epsilon: Fraction | None = field(default=None, kw_only=True, converter=privacy_or_none)
    empirical: bool = field(default=False, kw_only=True, validator=truth)
    draws: int | None = field(default=None, kw_only=True, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if self.draws is not None and not self.empirical:
            raise ParameterError("draws goes with empirical=True; leave it out")


@frozen(slots=False, field_transformer=named)
class ReductionAim:
    """What the constants are planned for.  All public.

    Parameters
    ----------
    public_n_users : int
        The number of people: declared under add-remove, the number itself under replace.
    split_size : int, optional
        The (expected) size of the hidden part; planned when left out.
    alpha, beta : number, optional
        Excess error whose certificate is judged, and how often it may be missed (default 1/20).
    """

    public_n_users: int = field(kw_only=True, converter=whole, metadata=bounds(minimum=2))
    split_size: int | None = field(default=None, kw_only=True, converter=whole_or_none)
    alpha: Fraction | None = field(default=None, kw_only=True, converter=probability_or_none)
    beta: Fraction = field(default=DEFAULT_BETA, kw_only=True, converter=probability)


@frozen(slots=False, field_transformer=named)
class NamedReduction(ReductionAim, InnerShape, Learner):
    """An inner learner for clean labels, run on a secret relabelled part of the people.  All parameters are public.

    Parameters
    ----------
    concept : ConceptClass or VC1Tree
        The class of rules, or the tree.
    epsilon, delta : number
        The privacy parameters; ``delta`` is 0 unless given.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    unit : {"user", "item"}
        Whose data are protected.
    max_records : int, optional
        How many records of a user are read at most.

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, or no split meets the promise.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers
    >>> learner = NamedReduction(Thresholds(Integers(0, 99)), 1, public_n_users=10_000)
    >>> str(learner.guarantee), learner.reduction.inner.epsilon
    ('(1, 0)-DP per user, add-remove', Fraction(1, 2))
    """

    concept: ConceptClass | VC1Tree
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, converter=whole_or_none)
    delta: Fraction = field(default=Fraction(0), kw_only=True, converter=probability_or_zero)

    def __attrs_post_init__(self) -> None:
        InnerShape.__attrs_post_init__(self)
        if not isinstance(self.concept, (ConceptClass, VC1Tree)):
            raise TypeError(
                f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got "
                f"{type(self.concept).__name__}"
            )
        if self.empirical and self.neighbours is Neighbours.ADD_REMOVE:
            raise ParameterError(NOT_WITHOUT_REPLACE)
        if self.empirical and self.split_size is None:
            raise ParameterError("empirical=True needs split_size: how many people the hidden part has")
        if isinstance(self.concept, VC1Tree) and not self.delta and not self.concept.scored:
            raise ParameterError("an open vocabulary needs delta above 0, such as delta='1e-6'")
        if isinstance(self.concept, ConceptClass):
            try:
                self.concept.size  # noqa: B018
            except ParameterError:
                raise ParameterError(
                    "the reduction is planned from the size of the class: declare its domains in the class itself, "
                    "such as Thresholds(Integers(0, 100))"
                ) from None
        self.reduction.guarantee  # noqa: B018  # what is out of reach is refused here, before any data

    @property
    def inner_epsilon(self) -> Fraction:
        """What the inner learner spends."""
        return self.epsilon / 2 if self._inner_epsilon is None else self._inner_epsilon

    @cached_property
    def inner(self) -> Any:
        """The learner for clean labels."""
        relation = self.neighbours
        if isinstance(self.concept, VC1Tree):
            # At most half of delta for the inner learner; T is a part of the people, so less of it arrives.
            found: Any = TreeLearner.plan(
                self.concept,
                epsilon=self.inner_epsilon,
                delta=self.delta / 2,
                alpha="1/10",
                beta=self.beta,
                records_per_user=1,
                neighbours=relation,
            )
        else:
            found = RealizableSelection(self.concept, self.inner_epsilon, relation)
        if not self.empirical:
            return found
        size = positive_int(self.split_size, "split_size")
        return EmpiricalLearner(found, draws=self.draws or size, size=size)

    @cached_property
    def reduction(self) -> AgnosticReduction:
        """The transformation with its constants."""
        shape: dict[str, Any] = {"unit": self.unit, "max_records": self.max_records, "concept": self.concept}
        return AgnosticReduction.for_target(
            self.inner,
            epsilon=self.epsilon,
            delta=self.delta,
            public_n_users=self.public_n_users,
            neighbours=self.neighbours,
            split_size=self.split_size,
            alpha=self.alpha,
            beta=self.beta,
            **shape,
        )

    @property
    def guarantee(self) -> Guarantee:
        return self.reduction.guarantee

    def bind(self, data: Users) -> Any:
        if hasattr(data, "fold") and not isinstance(data, UserData):
            raise ParameterError(
                "the reduction draws a secret part of the people, which needs the table in memory (UserData.read, "
                "--engine memory); methods such as 'hybrid' run on every engine"
            )
        return self.reduction.bind(data)

    def draw(self, bound: Any, rng: Rng) -> Released:
        return self.reduction.draw(bound, rng)

    def law(self, data: Users) -> Law:
        """The law of the released rule, averaged over all splits (small tables only)."""
        return self.reduction.law(data)
