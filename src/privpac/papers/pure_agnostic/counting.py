"""Agnostic learning at user level by counting users with too many mistakes.

1. Estimate the least error of the class privately (:class:`~privpac.papers.pure_agnostic.minimum_error.MinimumError`,
   ``share`` of epsilon).
2. From the estimate take for every number of records the number of mistakes that separates good rules from bad ones
   best (``robust_t``): post-processing.
3. Select by the exponential law over "users with more mistakes than that", from the class or from a representation of
   it.

With ``2a + ln(3|H|/beta)/(lambda n)`` below the gap that ``robust_t`` guarantees (``a``: uniform deviation), the
released rule has error at most ``alpha`` above the least one, with probability ``1 - beta`` (Li, Wang and Ye, *Improved
Bounds*, Theorem 4.6, with the paper's thresholds replaced; ``privpac.bounds.plan_user_agnostic`` computes n).  Step 1
is skipped, and its budget goes to step 3, when users hold one record at most, when ``tolerance`` is given, or when
``noise=(value, radius)`` states public knowledge of the least error.

**Guarantee.**  ``(epsilon, 0)`` per user: step 1 is ``share * epsilon``, step 3 the rest, and the selection is private
for every table of tolerances (basic adaptive composition).  The estimate is released and covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.bisection import half_way, least, narrow
from privpac.errors import ParameterError, TooLargeError
from privpac.evaluation.best_error import Estimate, agnostic_radius, estimate_plan, relative_deviation
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law import Law
from privpac.methods.base import Bound, public_table, shown_table
from privpac.papers.pure_agnostic.minimum_error import ESTIMATORS, MinimumError, estimate_cells, ordered
from privpac.papers.pure_agnostic.sizes import SizedSelection
from privpac.papers.pure_agnostic.surrogate_selection import RepresentedSelection
from privpac.parameters import Composed, named, one_word_of, part, probability, probability_or_none, whole_or_none
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.profile import Table
from privpac.sample_size import SLACK, Certificate, log_size_of, numbers_up_to, open_unit, positive, relation
from privpac.special import MAX_RECORDS, cross, psi, robust_gap, robust_t

if TYPE_CHECKING:
    from privpac.data import Users


def _robust(m: int, value: Fraction, radius: Fraction, alpha: Fraction) -> int:
    # No size is refused: beyond the search limit the same share of the records is forgiven, and any public table is
    # private.
    near = min(m, MAX_RECORDS)
    return robust_t(near, value, radius, alpha) * m // max(near, 1)


@frozen(slots=False)
class RobustTolerance:
    """``t(m)``: the tolerance that separates error rates ``alpha`` apart best when the least error is ``value`` up to
    ``radius``."""

    value: Fraction
    radius: Fraction
    alpha: Fraction

    def __call__(self, m: int) -> int:
        return _robust(m, self.value, self.radius, self.alpha)


def _read_noise(noise: object) -> tuple[Fraction, Fraction] | None:
    if noise is None:
        return None
    if not isinstance(noise, (tuple, list)) or len(noise) != 2:
        raise TypeError(f"noise must be a pair (value, radius), got {type(noise).__name__}")
    value, radius = noise
    return rational(value, "noise value", minimum=0, maximum=1), rational(radius, "noise radius", minimum=0, maximum=1)


def _read_tolerance(tolerance: Any) -> Any:
    if isinstance(tolerance, str):
        if tolerance != "auto":
            raise ParameterError(f"tolerance must be 'auto', a number, a table or a function, got {tolerance!r}")
        return tolerance
    return public_table(tolerance, "tolerance", minimum=0)


@frozen(slots=False, field_transformer=named)
class KnownNoise:
    """What is known of the noise, and how the rest is estimated: where the tolerance comes from.  All public.

    Parameters
    ----------
    alpha : number
        Excess error aimed at; default 1/10.
    tolerance : "auto", int, table or function
        Mistakes forgiven to a user: from an estimate or from ``noise`` (the default), or by the number of records.
    noise : pair of numbers, optional
        The least error of the class is the first number up to the second.
    radius : number, optional
        Accuracy of the estimate; by default about ``1 / (2 sqrt(m))`` for the publicly known number of records
        (``records_per_user``, the largest of ``sizes``, or ``max_records``), and 1/8 if nothing is known.
    share : number
        The estimate's part of epsilon; default 1/4.
    estimator : str
        How the least error is estimated (:class:`~privpac.papers.pure_agnostic.minimum_error.MinimumError`).
    records_per_user : int, optional
        Records that every user holds.
    """

    alpha: Fraction = field(default=Fraction(1, 10), converter=probability)
    tolerance: Any = field(default="auto", converter=_read_tolerance)
    noise: tuple[Fraction, Fraction] | None = field(default=None, converter=_read_noise)
    radius: Fraction | None = field(default=None, converter=probability_or_none)
    share: Fraction = field(default=Fraction(1, 4), converter=probability)
    estimator: str = field(default="oneshot", validator=one_word_of(ESTIMATORS))
    records_per_user: int | None = field(default=None, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if self.tolerance != "auto" and self.noise is not None:
            raise ParameterError("give either tolerance or noise: each of them replaces the estimate")


@frozen(slots=False, init=False, field_transformer=named)
class NoiseKnowledge(Composed, SizedSelection):
    """What learners that count users with too many mistakes share: where the tolerance comes from, and what it costs.

    Parameters
    ----------
    known : KnownNoise
        Given by its own parameters: ``alpha``, ``tolerance``, ``noise``, ``radius``, ``share``, ``estimator``,
        ``records_per_user``.
    """

    known: KnownNoise = part(KnownNoise)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.estimates:
            self.estimate_learner  # noqa: B018  # reads the remaining parameters before any data

    # Where the tolerance comes from

    @property
    def estimates(self) -> bool:
        """Whether the tolerance follows a private estimate of the least error; with one record it is 0 whatever that
        is."""
        return (
            self.known.tolerance == "auto"
            and self.known.noise is None
            and self.largest not in (0, 1)
            and self.known.records_per_user != 1
        )

    @property
    def epsilon_estimate(self) -> Fraction:
        # An estimate to a radius that everything is within has one outcome, and needs no data.
        constant = self.known.estimator == "oneshot" and estimate_cells(self.estimate_radius) <= 2
        return self.epsilon * self.known.share if self.estimates and not constant else Fraction(0)

    @property
    def epsilon_rest(self) -> Fraction:
        return self.epsilon - self.epsilon_estimate

    @property
    def estimate_radius(self) -> Fraction:
        """``radius``, or the default."""
        if self.known.radius is not None:
            return self.known.radius
        m = self.known.records_per_user or self.largest
        # The least j with 2**j >= 2 sqrt(m), at most 8.
        return Fraction(1, 8) if m is None else Fraction(1, 1 << min(8, max(1, isqrt(max(4 * m - 1, 0)).bit_length())))

    @property
    def estimate_learner(self) -> MinimumError:
        return MinimumError(
            self.concept,
            self.epsilon_estimate,
            self.neighbours,
            self.unit,
            self.max_records,
            self.sizes,
            radius=self.estimate_radius,
            estimator=self.known.estimator,
        )

    @property
    def compared_alpha(self) -> Fraction:
        """The accuracy at which tolerances are chosen."""
        return self.known.alpha

    def tolerance_given(self, estimate: Fraction | None) -> Table:
        """The table of tolerances, given the released estimate where there is one."""
        if self.known.tolerance != "auto":
            table: Table = self.known.tolerance
            return table
        if self.known.noise is not None:
            return RobustTolerance(*self.known.noise, self.compared_alpha)
        return 0 if estimate is None else RobustTolerance(estimate, self.estimate_radius, self.compared_alpha)

    def _read_given(self, given: object) -> Fraction | None:
        if not self.estimates:
            if given is not None:
                raise ParameterError("nothing is estimated with these parameters; leave given out")
            return None
        return None if given is None else rational(given, "given", minimum=0, maximum=1)

    # Everything that is released

    def given_law(self, bound: Bound, estimate: Fraction | None) -> Law:
        """The law of the rule's id for bound users, given the estimate."""
        raise NotImplementedError

    def law(self, data: Users, given: object = None) -> Law:
        """The law of everything released: pairs (estimate, id), or ids where nothing is estimated or the estimate is
        ``given``."""
        bound, estimate = self.bind(data), self._read_given(given)
        if not self.estimates or estimate is not None:
            return self.given_law(bound, estimate)
        if self._count(bound) > 1 << 20:
            raise TooLargeError(
                "pairs (estimate, rule) are listed for at most 2**20 rules; use rule_law, or law(data, given=estimate)"
            )
        estimates = self.estimate_learner.law_of(bound)
        return estimates.bind(lambda value: self.given_law(bound, value).map(lambda rule: (value, rule)))

    def rule_law(self, data: Users) -> Law:
        """The law of the rule's id alone, averaged over the estimate."""
        bound = self.bind(data)
        if not self.estimates:
            return self.given_law(bound, None)
        return self.estimate_learner.law_of(bound).bind(lambda value: self.given_law(bound, value))

    def _count(self, bound: Bound) -> int:
        return bound.concept.size

    def estimate(self, bound: Bound, rng: Rng, shown: dict[str, object]) -> Fraction | None:
        """Draw the estimate where one is needed, and note what may be shown."""
        if self.estimates:
            drawn = self.estimate_learner.sample(bound, rng)
            shown |= {
                "best_error (private)": drawn,
                "radius": self.estimate_radius,
                "epsilon_estimate": self.epsilon_estimate,
            }
            return drawn
        if self.known.noise is not None:
            shown["noise (public)"] = list(self.known.noise)
        elif self.known.tolerance != "auto":
            shown["tolerance"] = shown_table(self.known.tolerance)
        return None

    def composed(self, rho_rest: Fraction) -> Guarantee:
        """The promise: estimate and the rest, one after the other."""
        how: tuple[str, ...] = ()
        rho = rho_rest
        if self.estimates:
            how = (f"estimate of the least error ({self.epsilon_estimate}) and selection ({self.epsilon_rest})",)
            rho = rho_rest + (self.estimate_learner.guarantee.rho or Fraction(0))
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)


@frozen(slots=False, init=False, field_transformer=named)
class UserAgnosticLearner(NoiseKnowledge, RepresentedSelection):  # type: ignore[override]
    """Estimate the least error, then select among users' counts; from the class, or (``representation``) from a public
    set.

    With a representation a third of ``alpha`` is kept for the disagreement of the released rule with its concept.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> UserAgnosticLearner(Thresholds(), epsilon=1, tolerance=0).law(people).mode
    4
    """

    @property
    def compared_alpha(self) -> Fraction:
        return self.known.alpha if self.proper else self.known.alpha * 2 / 3

    @property
    def guarantee(self) -> Guarantee:
        return self.composed(self.epsilon_rest**2 / 8)

    def _count(self, bound: Bound) -> int:
        return self._rules(bound).size

    def given_law(self, bound: Bound, estimate: Fraction | None) -> Law:
        return self.selection(bound, self.epsilon_rest, self.tolerance_given(estimate))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown: dict[str, object] = {"alpha": self.known.alpha}
        if self.estimates and self.proper:
            bound = ordered(bound)
        estimate = self.estimate(bound, rng, shown)
        return self.released(bound, self.given_law(bound, estimate).sample(rng), shown, "user-level agnostic selection")


# Users that the pure agnostic learners need: item level, user level with thresholds, and the threshold search.
#
# Every bound is the least ``n`` (doubling, then bisection) at which an explicit condition holds; parts of ``beta`` are
# named in each docstring.  ``slack = ln(|H|/b) / (lambda n)`` is what the exponential mechanism loses, ``a`` the
# uniform deviation (:func:`privpac.evaluation.best_error.agnostic_radius`).  Users hold ``records_per_user``
# records each, all from one law; nothing is assumed about the labels.  Privacy never depends on any of this.


_ITEM = "records from one law, one per user"
_USER = "users with equally many records, all from one law"
_SCAN = tuple(range(9))
_MAX_RECORDS = 8192


# Item level


def plan_item_proper(
    *,
    log_size: Rational,
    dimension: int,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Certificate:
    """Selection among all rules of a finite class, one record per user: ``2 a + slack <= alpha``, ``beta/2`` each."""
    log_h, target, b = log_size_of(log_size), open_unit(alpha, "alpha"), open_unit(beta, "beta") / 2
    lam, d = _rate(epsilon, neighbours), positive_int(dimension, "dimension")
    n = least(lambda n: _fits(2 * _radius(n, 1, d, 1, b, log_h) + (log_h - math.log(b)) / (lam * n), target))
    return Certificate.upper(n, "agnostic selection, item level", _ITEM)


def plan_item_surrogate(
    *,
    log_size: Rational,
    dimension: int,
    representation_alpha: Rational,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    score: str = "union",
    log_class_size: Rational | None = None,
) -> Certificate:
    """Selection over a representation: ``omega(2 a + rho + dev + slack) <= alpha``, each part at ``beta/5``.

    The representation has log size ``log_size`` and accuracy ``rho = representation_alpha`` at failure ``beta/5``;
    ``dev = (l + sqrt(l**2 + 8 l rho n)) / (2n)``, ``l = ln(5/beta)``, is the empirical excess of its disagreement.
    ``score="union"`` has sensitivity 1, ``"sum"`` 2.  ``log_class_size`` sharpens ``a`` when the class (not the
    representation) is finite and small.
    """
    if score not in ("union", "sum"):
        raise ParameterError(f"score must be 'union' or 'sum', got {score!r}")
    log_h, target, b = log_size_of(log_size), open_unit(alpha, "alpha"), open_unit(beta, "beta") / 5
    rho = float(rational(representation_alpha, "representation_alpha", minimum=0, below=rational(alpha)))
    lam, d = _rate(epsilon, neighbours) / (1 if score == "union" else 2), positive_int(dimension, "dimension")
    log_c, ell = None if log_class_size is None else log_size_of(log_class_size, "log_class_size"), -math.log(b)

    def holds(n: int) -> bool:
        deviation = (ell + math.sqrt(ell * ell + 8 * ell * rho * n)) / (2 * n)
        share = 2 * _radius(n, 1, d, 1, b, log_c) + rho + deviation + (log_h + ell) / (lam * n)
        return _fits(relative_deviation(share, n_users=n, dimension=d, log_size=log_h, failure=b), target)

    return Certificate.upper(
        least(holds), f"surrogate selection ({score}), item level", _ITEM, representation_alpha=rho
    )


# User level


def plan_user_agnostic(
    *,
    log_size: Rational,
    dimension: int,
    records_per_user: int,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    share: Rational = "1/4",
    estimator: str = "bisect",
    estimates: tuple[int, ...] = _SCAN,
    noise: tuple[Rational, Rational] | None = None,
    truncate: bool = False,
) -> Certificate:
    """Count users with more than ``t`` mistakes, ``t`` from a private estimate of the least error: ``2 a + slack <=
    robust gap``.

    Three parts of ``beta/3`` (deviation over the ``m`` possible thresholds, selection at ``(1 - share) epsilon``,
    estimate at ``share epsilon``); the accuracy ``2**-j`` of the estimate is scanned over ``estimates``; j = 0 means no
    estimate (two parts of ``beta/2``, all of ``epsilon``).  ``noise = (value, radius)`` is public knowledge of the
    least error: no estimate either.  ``truncate=True`` also tries to read fewer records (``numbers_up_to``), which
    helps where the estimate costs more than it brings.

    Every condition falls with ``n`` (the deviation, the slack and the noise of the estimate do; the gaps and the table
    of thresholds do not follow ``n``), so the number holds for every larger number of users.
    """
    m = _records(records_per_user)
    task = _AgnosticTask.read(log_size, dimension, alpha, beta, epsilon, neighbours, share, estimator, estimates)
    known = _read_noise(noise)
    return _fewest(m, truncate, lambda size, beat: _user_plan(task, size, known, beat))


def _fewest(m: int, truncate: bool, plan: Callable[[int, int | None], Certificate]) -> Certificate:
    """The number of records to read that certifies the fewest users; ``plan(records, beat)``: only fewer users than
    ``beat`` are of interest."""
    found: Certificate | None = None
    for size in numbers_up_to(m) if truncate else [m]:
        tried = plan(size, None if found is None else found.n_users)
        if found is None or (tried.n_users is not None and (found.n_users is None or tried.n_users < found.n_users)):
            found = tried
    assert found is not None
    return found


def _user_plan(task: _AgnosticTask, m: int, known: tuple[Fraction, Fraction] | None, beat: int | None) -> Certificate:
    def direct(n: int, radius: float, spent: float, b: float, gap: float) -> bool:
        slack = (task.log_h - math.log(b)) / (task.lam * spent * n)
        return _fits(2 * radius + slack, gap)

    def plain(gap: float) -> Callable[[int], bool]:
        b = task.beta / 2
        return lambda n: direct(n, _radius(n, m, task.dimension, 1, b, task.log_h), 1.0, b, gap)

    def estimated(plan: Estimate) -> Callable[[int], bool]:
        b = task.beta / 3

        def holds(n: int) -> bool:
            a = _radius(n, m, task.dimension, m, b, task.log_h)
            # The estimate first: the gap of the threshold that follows it is dear.
            return plan.succeeds(n, a, task.share * task.epsilon, b) and direct(
                n, a, 1 - task.share, b, plan.robust_gap
            )

        return holds

    return _scan(task, m, known, task.exact_alpha, "user agnostic selection", plain, estimated, {}, beat)


def plan_threshold_search(
    *,
    log_domain: Rational,
    records_per_user: int,
    alpha: Rational,
    beta: Rational,
    epsilon: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    share: Rational = "1/4",
    estimator: str = "bisect",
    estimates: tuple[int, ...] = _SCAN,
    theta: Rational = "2/3",
    truncate: bool = False,
) -> Certificate:
    """The threshold search with private medians over a domain of log size ``log_domain``: five parts of ``beta/5``.

    ``T`` rounds, the least with ``theta**T <= alpha/2``; budget ``e/(4T)`` for each median and ``3e/(4T)`` for each
    branch.  Branches need ``2 a + ln(3T/b)/(lambda_branch n) <= robust gap`` at ``alpha/2``; medians, at every level
    and by Chernoff in KL form, a ``y`` with ``n KL(y || psi_p) >= Lam`` and ``n KL(y + x || psi_q) >= Lam``, ``Lam = 2
    ln|X| + ln(2T/b)``, ``x`` the slack of the median at ``b/T``. In every configuration seen so far direct selection
    certifies fewer users.  ``truncate=True`` also tries to read fewer records, as :func:`plan_user_agnostic`: the
    comparisons of one more record need not be easier.
    """
    m, log_x = _records(records_per_user), log_size_of(log_domain, "log_domain")
    log_h = log_x + math.log1p(math.exp(-log_x))
    task = _AgnosticTask.read(log_h, 1, alpha, beta, epsilon, neighbours, share, estimator, estimates)
    ratio = rational(theta, "theta", above="1/2", maximum="99/100")
    return _fewest(m, truncate, lambda size, beat: _search_plan(task, size, log_x, ratio, beat))


def _search_plan(task: _AgnosticTask, m: int, log_x: float, ratio: Fraction, beat: int | None) -> Certificate:
    tail, b, log_h = task.exact_alpha / 2, task.beta / 5, task.log_h
    rounds, mass = 0, Fraction(1)
    levels: list[tuple[float, float]] = []
    while mass > tail:
        s = cross(m, mass / 2, ratio * mass)
        levels.append((psi(m, mass / 2, s), psi(m, ratio * mass, s)))
        rounds, mass = rounds + 1, mass * ratio
    lam_per_epsilon, lam_needed = task.lam / (4 * rounds), 2 * log_x + math.log(2 * rounds / b)

    def steps(n: int, a: float, spent: float, gap: float) -> bool:
        if not _fits(2 * a + math.log(3 * rounds / b) / (3 * lam_per_epsilon * spent * n), gap):
            return False
        slack = (log_h + math.log(rounds / b)) / (lam_per_epsilon * spent * n)
        return all(_median_succeeds(n, low, high, slack, lam_needed) for low, high in levels)

    def plain(gap: float) -> Callable[[int], bool]:
        return lambda n: steps(n, _radius(n, m, 1, 1, b, log_h), 1.0, gap)

    def estimated(plan: Estimate) -> Callable[[int], bool]:
        def holds(n: int) -> bool:
            a = _radius(n, m, 1, m, b, log_h)
            return plan.succeeds(n, a, task.share * task.epsilon, b) and steps(n, a, 1 - task.share, plan.robust_gap)

        return holds

    aim, details = task.exact_alpha - tail, {"rounds": rounds}
    found = _scan(task, m, None, aim, "threshold search", plain, estimated, details, beat)
    return found.run_with(theta=ratio, rounds=rounds)


def _median_succeeds(n: int, low: float, high: float, slack: float, needed: float) -> bool:
    """Whether some ``y`` is improbable both as a mean of ``low`` and, with ``slack`` added, as a mean of ``high``."""
    if n * _divergence(0.0, high) < needed:
        return False
    # The largest z below ``high`` that is still improbable enough; y = z - slack is then the best candidate.
    left, _ = narrow(lambda z: n * _divergence(z, high) < needed * (1 + SLACK), 0.0, high, middle=half_way, steps=60)
    y = left - slack
    return y > low and n * _divergence(y, low) >= needed * (1 + SLACK)


def _divergence(y: float, p: float) -> float:
    """``KL(Bernoulli(y) || Bernoulli(p))``."""
    first = 0.0 if y <= 0 else y * math.log(y / p) if p > 0 else math.inf
    second = 0.0 if y >= 1 else (1 - y) * (math.log1p(-y) - math.log1p(-p)) if p < 1 else math.inf
    return max(0.0, first + second)


# Shared


@frozen(slots=False)
class _AgnosticTask:
    log_h: float
    dimension: int
    exact_alpha: Fraction
    beta: float
    epsilon: float
    lam: float
    share: float
    estimator: str
    estimates: tuple[int, ...]
    exact_share: Fraction

    @staticmethod
    def read(
        log_size: Rational,
        dimension: int,
        alpha: Rational,
        beta: Rational,
        epsilon: Rational,
        neighbours: Neighbours | str,
        share: Rational,
        estimator: str,
        estimates: tuple[int, ...],
    ) -> _AgnosticTask:
        if estimator not in ESTIMATORS:
            raise ParameterError(f"estimator must be one of {', '.join(sorted(ESTIMATORS))}, got {estimator!r}")
        exact = rational(alpha, "alpha", minimum="1e-9", below=1)
        return _AgnosticTask(
            log_size_of(log_size),
            positive_int(dimension, "dimension"),
            exact,
            open_unit(beta, "beta"),
            positive(epsilon, "epsilon"),
            _rate(epsilon, neighbours),
            open_unit(share, "share"),
            estimator,
            tuple(positive_int(j, "estimates", minimum=0, maximum=12) for j in estimates),
            rational(share, "share"),
        )


def _scan(
    task: _AgnosticTask,
    m: int,
    known: tuple[Fraction, Fraction] | None,
    alpha: Fraction,
    method: str,
    plain: Callable[[float], Callable[[int], bool]],
    estimated: Callable[[Estimate], Callable[[int], bool]],
    details: dict[str, int],
    beat: int | None = None,
) -> Certificate:
    """The best accuracy ``2**-j`` of the estimate; j = 0 is no estimate (the whole unit interval, or what is publicly
    known).

    ``beat``: only fewer users than that are of interest.
    """
    centre, radius = known or (Fraction(1, 2), Fraction(1, 2))
    users: int | None = None
    most = beat
    chosen = 0
    for j in task.estimates if known is None else (0,):
        if j == 0:
            gap = robust_gap(m, centre, radius, alpha)
            holds = plain(gap)
        elif m == 1:
            continue
        else:
            plan = estimate_plan(task.estimator, m, j, alpha)
            gap, holds = plan.compare_gap, estimated(plan)
        # A j that fails just below the best n so far cannot improve on it.
        if gap <= 0 or (most is not None and (most == 1 or not holds(most - 1))) or (j and plan.robust_gap <= 0):
            continue
        n = least(holds)
        if n is not None:
            users = most = n
            chosen = j
    accuracy: Fraction | str = Fraction(1, 1 << chosen) if chosen else "none"
    assumption = _USER if known is None else f"{_USER}, least error known to {radius}"
    found = Certificate.upper(users, method, assumption, estimate=accuracy, j=chosen, records_per_user=m, **details)
    # One admissible number of records: under replace a comparison with an expectation then moves by 1, not 2.
    given: dict[str, Any] = {"alpha": task.exact_alpha, "sizes": (m,), "max_records": m}
    if chosen:
        given |= {"estimator": task.estimator, "radius": accuracy, "share": task.exact_share}
    else:
        given |= {"tolerance": 0} if m == 1 else {"noise": (centre, radius)}
    return found.run_with(**given)


def _radius(n: int, m: int, dimension: int, tv: int, b: float, log_size: float | None) -> float:
    return agnostic_radius(
        n_users=n, records_per_user=m, dimension=dimension, thresholds=tv, failure=b, log_size=log_size
    )


def _fits(value: float, target: float) -> bool:
    return value * (1 + SLACK) <= target


def _records(records_per_user: int) -> int:
    m = positive_int(records_per_user, "records_per_user")
    if m > _MAX_RECORDS:
        raise TooLargeError(
            f"these plans are computed for at most {_MAX_RECORDS} records per user, got {m}; declare max_records"
        )
    return m


def _rate(epsilon: Rational, neighbours: Neighbours | str) -> float:
    """``lambda`` of a score that one user moves by at most 1."""
    return positive(epsilon, "epsilon") / (1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2)


# Sizes of probabilistic representations: how many rules stand in for a class, whatever the data.
#
# An ``(alpha, beta)`` representation is a random set H such that each concept has, with probability ``1 - beta``, a
# rule in H that disagrees with it on mass at most ``alpha``; its log size is what a selection over it costs.


@frozen(slots=False)
class PointsSize:
    """``hashes`` hash functions into ``buckets`` buckets each; ``size`` rules in all."""

    hashes: int
    buckets: int

    @property
    def size(self) -> int:
        return self.hashes * self.buckets


def points_representation(alpha: Rational, beta: Rational) -> PointsSize:
    """Hashed points: one copy fails with probability at most ``1/(B alpha)``, so ``k`` copies with at most its k-th
    power.

    The cheapest ``(k, B)`` with ``(1/(B alpha))**k <= beta``, decided exactly; independent of the domain.

    >>> points_representation("0.02", "0.01")
    PointsSize(hashes=5, buckets=126)
    """
    accuracy, failure = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    if accuracy < Fraction(1, 10**12) or failure < Fraction(1, 10**100):
        raise ParameterError(
            "alpha must be at least 1e-12 and beta at least 1e-100 for a representation of usable size"
        )
    # k B is smallest near k = ln(1/beta); past that B hardly falls.
    top = 2 + math.ceil(2 * -math.log(failure))
    options = [PointsSize(k, _buckets(accuracy, failure, k)) for k in range(1, top + 1)]
    return min(options, key=lambda option: option.size)


def _buckets(alpha: Fraction, beta: Fraction, k: int) -> int:
    """The least ``B`` with ``(B alpha)**k beta >= 1``."""
    buckets: int = max(1, math.floor(1 / (float(alpha) * float(beta) ** (1 / k))) - 1)
    while (buckets * alpha) ** k * beta < 1:
        buckets += 1
    return buckets


@frozen(slots=False)
class BoostedSize:
    """``rounds`` rounds of majority, each over ``copies`` fresh copies of the base representation."""

    rounds: int
    copies: int

    def log_size(self, base_log_size: float) -> float:
        return self.rounds * (base_log_size + math.log(self.copies))


def boosting_size(alpha: Rational, beta: Rational, *, alpha0: Rational = "1/4", beta0: Rational = "1/4") -> BoostedSize:
    """From an ``(alpha0, beta0)`` representation to ``(alpha, beta)`` by unweighted majorities.

    ``T`` is the least with ``(2 sqrt(alpha0 (1 - alpha0)))**T <= alpha`` (1 if ``alpha >= alpha0``) and ``k`` the least
    with ``beta0**k <= beta / T``; both decided exactly.

    >>> boosting_size("0.02", "0.01").rounds
    28
    """
    accuracy, failure = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    a0, b0 = rational(alpha0, "alpha0", above=0, below="1/2"), rational(beta0, "beta0", above=0, below=1)
    if (
        min(accuracy, failure) < Fraction(1, 10**100)
        or 4 * a0 * (1 - a0) > Fraction(9999, 10000)
        or b0 > Fraction(999, 1000)
    ):
        raise ParameterError(
            "alpha and beta must be at least 1e-100, alpha0 at most 0.495 and beta0 at most 0.999 to boost in practice"
        )
    shrink = 4 * a0 * (1 - a0)
    rounds = 1 if accuracy >= a0 else _least_power(shrink, accuracy**2)
    return BoostedSize(rounds, max(1, _least_power(b0, failure / rounds)))


def _least_power(base: Fraction, target: Fraction) -> int:
    """The least ``k >= 0`` with ``base**k <= target``."""
    k = max(0, math.floor(math.log(target) / math.log(base)) - 1)
    while base**k > target:
        k += 1
    return positive_int(k, "k", minimum=0)
