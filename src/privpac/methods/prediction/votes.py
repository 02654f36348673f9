"""Private votes: what one noisy majority costs, what k adaptive ones cost, and how often they are wrong.

``r`` voters answer 0 or 1; with ``k`` ones the released answer is 1 with probability ``1/(1 + e**(-gamma (2k - r)))``.
One changed voter moves ``k`` by at most 1, so one answer is

* ``eps_v``-DP with ``eps_v = ln((1 + e**(gamma r)) / (1 + e**(gamma (r - 2))))``, exactly (Li, Wang and Ye,
  *Realizable-to-Agnostic*, Lemma 19): the ratio of neighbouring answers grows with the smaller of the two votes, and is
  largest between ``k = 0`` and ``k = 1`` for the answer 0;
* ``gamma**2/2``-zCDP: two Bernoulli laws whose logits differ by ``2 gamma`` form an exponential family whose
  log-partition function has second derivative at most 1/4, so the Renyi divergence of order ``a`` is at most ``a (2
  gamma)**2 / 8``.

The transcript of any adaptive analyst after ``k`` answers is a randomised function of the relabelled part alone.  It
costs the smaller of ``(k eps_v, 0)`` and the optimal conversion of ``k gamma**2/2``-zCDP at ``delta_A``; Theorems A and
B of :mod:`privpac.methods.prediction.reduction_privacy` are applied **once, to the whole transcript**.  Multiplying the
cost of a single query by ``k`` is wrong: the amplification by the share ``q`` is paid for once per split, not once per
query.

*Utility.*  If a share ``x`` of the votes is wrong on average over queries, the answer is wrong with probability at most
``env(x)``, the upper concave envelope of ``j/r -> 1/(1 + e**(-gamma (2j - r)))`` (Jensen).  Everything is rounded
outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from privpac.bisection import last_between
from privpac.composition import zcdp_epsilon
from privpac.errors import InfeasibleError
from privpac.exact import Rational, as_arb, rational, up
from privpac.guarantee import Neighbours, positive_int
from privpac.methods.prediction.reduction_privacy import inner_budget, inner_delta, outer

__all__ = [
    "MAX_QUERIES",
    "certified_voters",
    "fewest_voters",
    "gamma_for_transcript",
    "most_queries",
    "service_spend",
    "transcript_epsilon",
    "vote_epsilon",
    "vote_gamma",
    "vote_rho",
    "wrong_answer",
]

MAX_QUERIES = 1 << 40
MAX_VOTERS = 1 << 20
_GAMMA_BITS = 53


# One answer


def vote_epsilon(gamma: Rational, voters: int) -> Fraction:
    """``eps_v`` of one answer, rounded up; below ``2 gamma``, and ``gamma`` itself for one voter.

    >>> float(vote_epsilon(1, 1)), round(float(vote_epsilon("0.5", 8)), 6)
    (1.0, 0.969563)
    """
    rate, r = _gamma(gamma), _voters(voters)
    if r == 1:
        return rate
    # (1 + e**x) / (1 + e**(x - 2 gamma)) with x = gamma r, in a form that neither cancels nor overflows.
    return min(2 * rate, up(lambda: _softplus(as_arb(rate * r)) - _softplus(as_arb(rate * (r - 2)))))


def vote_gamma(epsilon: Rational, voters: int) -> Fraction:
    """The largest ``gamma`` (a dyadic rational of 53 bits) with ``vote_epsilon(gamma) <= epsilon``: between half of it
    and all of it."""
    target, r = rational(epsilon, "epsilon", above=0, maximum=10**6), _voters(voters)
    return _largest_below(lambda g: vote_epsilon(g, r) <= target, target / 2, target)


def vote_rho(gamma: Rational) -> Fraction:
    """The zCDP parameter of one answer."""
    return _gamma(gamma) ** 2 / 2


# A transcript of k adaptive answers


def transcript_epsilon(queries: int, gamma: Rational, voters: int, delta: Rational = 0) -> Fraction:
    """``eps_A`` of ``queries`` adaptive answers at ``delta_A = delta``: the smaller of the pure sum and the zCDP
    conversion."""
    k, rate = positive_int(queries, "queries", maximum=MAX_QUERIES), _gamma(gamma)
    leak = rational(delta, "delta", minimum=0, below=1)
    pure = k * vote_epsilon(rate, voters)
    return pure if leak == 0 else min(pure, zcdp_epsilon(k * vote_rho(rate), leak, form="optimal"))


def gamma_for_transcript(queries: int, epsilon: Rational, voters: int, delta: Rational = 0) -> Fraction:
    """The largest ``gamma`` (rounded down) with which ``queries`` answers cost at most ``epsilon`` at ``delta``."""
    k, target = (
        positive_int(queries, "queries", maximum=MAX_QUERIES),
        rational(epsilon, "epsilon", above=0, maximum=10**6),
    )
    low = vote_gamma(target / k, voters)
    if rational(delta, "delta", minimum=0, below=1) == 0:
        return low
    high = low
    while transcript_epsilon(k, 2 * high, voters, delta) <= target:
        high *= 2
    return _largest_below(lambda g: transcript_epsilon(k, g, voters, delta) <= target, high, 2 * high)


def service_spend(
    queries: int,
    gamma: Rational,
    voters: int,
    *,
    neighbours: Neighbours | str,
    q: Rational,
    a: Rational,
    b: Rational,
    delta: Rational = 0,
    G: int = 2,
) -> tuple[Fraction, Fraction]:
    """``(eps_out, delta_out)`` of a split, a relabelling and ``queries`` adaptive answers, with ``delta_out <= delta``.

    ``delta_A`` is the largest one that keeps ``delta_out`` within ``delta`` for **every** ``eps_A`` (under replace
    ``delta/q``), so it does not depend on the number of answers.
    """
    inner = min(inner_delta(q, a, b, 0, delta, G, neighbours), Fraction(1, 2))
    pure = positive_int(queries, "queries", maximum=MAX_QUERIES) * vote_epsilon(gamma, voters)
    spent = transcript_epsilon(queries, gamma, voters, inner)
    # Where the pure line wins nothing is leaked.
    return outer(neighbours, q, a, b, spent, 0 if spent == pure else inner, G)


def most_queries(
    epsilon: Rational,
    gamma: Rational,
    voters: int,
    *,
    neighbours: Neighbours | str,
    q: Rational,
    a: Rational,
    b: Rational,
    delta: Rational = 0,
    G: int = 2,
) -> int:
    """``k_max``: the most answers with ``eps_out <= epsilon`` and ``delta_out <= delta``; ``InfeasibleError`` if not
    even one fits."""
    target = rational(epsilon, "epsilon", above=0)

    def fits(k: int) -> bool:
        return service_spend(k, gamma, voters, neighbours=neighbours, q=q, a=a, b=b, delta=delta, G=G)[0] <= target

    if inner_budget(q, a, b, target, delta, G, neighbours) is None or not fits(1):
        raise InfeasibleError(
            "not even one answer fits into this epsilon: the split and the relabelling alone cost too much; lower q, "
            "a, b or gamma"
        )
    high = 1
    while high < MAX_QUERIES and fits(2 * high):
        high *= 2
    return last_between(fits, high, min(2 * high, MAX_QUERIES + 1))


# Utility


def wrong_answer(mean_wrong: Rational, gamma: Rational, voters: int) -> Fraction:
    """``env(mean_wrong)``, rounded up: how often an answer differs from what an average share ``1 - mean_wrong`` of the
    voters say."""
    x, rate, r = rational(mean_wrong, "mean_wrong", minimum=0, maximum=1), _gamma(gamma), _voters(voters)

    def answer(j: int) -> arb:
        return 1 / (1 + (-as_arb(rate * (2 * j - r))).exp())

    # The sequence is convex up to r/2 and concave after: its envelope is one chord from 0, then the sequence itself.
    # So the envelope at x is the largest of the chords over x that start at 0 or just below x.
    place = x * r
    below = min(math.floor(place), r - 1)

    def envelope() -> arb:
        best = arb(0)
        for i in {0, below}:
            start = answer(i)
            for j in range(max(i + 1, math.ceil(place)), r + 1):
                best = best.max(start + as_arb((place - i) / (j - i)) * (answer(j) - start))
        return best

    return up(envelope)


def certified_voters(epsilon: Rational, alpha: Rational) -> int:
    """``ceil(6 ln(4/alpha) / eps_v)``: with ``gamma = eps_v/2`` and a mean wrong share ``alpha/4`` answers err at most
    ``alpha`` often."""
    target, goal = rational(epsilon, "epsilon", above=0), rational(alpha, "alpha", above=0, below=1)
    return math.ceil(up(lambda: 6 * as_arb(4 / goal).log() / as_arb(target)))


def fewest_voters(epsilon: Rational, alpha: Rational, mean_wrong: Rational | None = None) -> int:
    """The least ``r`` whose ``eps_v``-DP vote is wrong at most ``alpha`` often; ``mean_wrong`` defaults to ``alpha/4``.

    >>> [fewest_voters(1, alpha) for alpha in ("0.2", "0.1", "0.05")]
    [3, 5, 7]
    """
    goal = rational(alpha, "alpha", above=0, below=1)
    share = goal / 4 if mean_wrong is None else rational(mean_wrong, "mean_wrong", minimum=0, maximum=1)
    if share >= goal:
        raise InfeasibleError("the voters themselves are wrong more often than alpha; mean_wrong must be below alpha")
    # The certificate covers shares up to alpha/4; beyond it the scan may need more, and the envelope tends to 2 *
    # share.
    limit = 4 * certified_voters(epsilon, goal)
    for r in range(1, limit + 1):
        if wrong_answer(share, vote_gamma(epsilon, r), r) <= goal:
            return r
    raise InfeasibleError(
        "no number of voters reaches this alpha: the mean wrong share is too close to it; lower mean_wrong"
    )


# Shared


def _gamma(value: Rational) -> Fraction:
    return rational(value, "gamma", above=0, maximum=10**6)


def _voters(value: int) -> int:
    return positive_int(value, "voters", maximum=MAX_VOTERS)


def _softplus(x: arb) -> arb:
    """``ln(1 + e**x)``."""
    return x + (-x).exp().log1p() if x > 0 else x.exp().log1p()


def _largest_below(holds: Callable[[Fraction], bool], low: Fraction, high: Fraction) -> Fraction:
    """The largest dyadic rational of 53 bits at which ``holds``, which is true at ``low``."""
    if holds(high):
        low = high
    shift = low.numerator.bit_length() - low.denominator.bit_length() - _GAMMA_BITS
    unit = Fraction(2) ** shift
    best = last_between(lambda m: holds(m * unit), math.floor(low / unit), math.ceil(high / unit) + 1)
    return best * unit
