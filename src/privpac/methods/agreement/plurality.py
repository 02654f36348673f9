"""Learning by agreement: records per user for a stable item, users for a private plurality, and what no protocol can
avoid.

**Stability.**  A learner whose item equals a fixed ``h_r`` except with probability ``beta/30`` over seed and user is
0.9-stable for all but a third of ``beta`` of the seeds (Markov).  :func:`records_representation` (Algorithm 3),
:func:`records_list` (Algorithm 1) and :func:`records_queries` (Algorithm 5) turn that into a number of records; most of
it is ``(30/beta)**2``, the price of one seed.

**Plurality.**  With every user naming the stable item independently with probability ``share`` (0.9), the selectors
fail with probability ``beta/3`` at the numbers of users below.  The relation and ``epsilon`` enter through the
selector's own public numbers.

**No agreement.**  If no two people name the same item, nothing must be released but with probability ``clear``.  The
selectors of ``privpac`` abstain below an edge that is public (:func:`silent_votes`, :func:`local_edge`,
:func:`shuffle_edge`), and with ``clear`` (or ``named``) the numbers of users hold for these; without it for selectors
that always answer.

**Lower bounds.**  ``p0(n) = e**(-n eps) (1 - beta) - delta (1 - e**(-n eps))/(e**eps - 1)`` is the chance that a
learner run on fixed reference data answers as it would on any ``n`` users.  If it is positive, ``ceil(ln 4/p0)`` runs
form a representation (Algorithm 6), and ``N`` tasks with disjoint answers force ``N p0 <= 1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privpac.arrays import Floats64, Ints
from privpac.bisection import least
from privpac.device import correlated_sampling as device
from privpac.device.correlated_sampling import Ratio
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, rational, up
from privpac.guarantee import positive_int
from privpac.sample_size import SLACK, Certificate, open_unit, positive
from privpac.special import binom, nbinom

CLEAR = Fraction(1, 20)
"""With at most this probability something is released where no two people agree, unless declared otherwise."""

_SHARE = Fraction(9, 10)
_MOST = 1 << 21
_TAIL = 1e-18


# Records for a stable item


def records_representation(size: int, *, alpha: Rational, beta: Rational) -> tuple[float, int]:
    """``gamma`` and the records per user of Algorithm 3 on a finite class or representation of this size.

    >>> records_representation(16, alpha="0.2", beta="0.1")[1]
    735416950
    """
    h, a, b = positive_int(size, "size"), open_unit(alpha, "alpha"), open_unit(beta, "beta")
    gamma = 2 / a * (math.log(6 / b) + math.log(h))
    return gamma, math.ceil(gamma**2 * (math.log(2) + math.log(h)) / 2 * (30 / b) ** 2)


class RacePlan(NamedTuple):
    """The published integer rate, and the records per user at which it is certified."""

    Gamma: int
    records: int


def plan_race(size: int, alpha: Ratio, beta: Ratio) -> RacePlan:
    """Certified parameters: ``gamma = (2/alpha) ln(6|H|/beta)``, ``m = ceil(gamma^2 ln(2|H|)/2 (30/beta)^2)``.

    Then a fresh user's item is the common one with probability at least 0.9 for a ``1 - beta/3`` fraction of seeds.
    Most of ``m`` pays for the seeds at which two rules nearly tie; 50 gamma records are a practical start.
    """
    size, excess, failure = (
        device.integer("size", size, 1),
        device.rational("alpha", alpha),
        device.rational("beta", beta),
    )
    if not (0 < excess < 1 and 0 < failure < 1):
        raise ParameterError(f"alpha and beta must be between 0 and 1, got {alpha} and {beta}")
    gamma = 2 / excess * device.ln_up(6 * size / failure)
    records = gamma**2 * device.ln_up(2 * size) / 2 * (30 / failure) ** 2
    return RacePlan(device.rate(gamma), -(-records.numerator // records.denominator))


def records_list(size: int, *, eta: Rational, beta: Rational) -> tuple[float, int]:
    """``gamma`` and the number of sub-samples of Algorithm 1 for a list learner of list size ``size`` and stability
    ``eta``."""
    lists, tau = positive_int(size, "size"), float(rational(eta, "eta", above=0, maximum=1)) / 2
    budget = open_unit(beta, "beta") / 30
    gamma = math.log(6 * lists / (0.9 * tau * budget)) / (0.9 * tau)
    spread = math.log(24 * lists / (tau * budget)) / (0.02 * tau**2)
    return gamma, math.ceil(max(spread, gamma**2 * math.log(2 * lists / (0.9 * tau)) / 2 * (3 / budget) ** 2))


def records_queries(queries: int, grid: int, *, beta: Rational, width: Rational = 1) -> int:
    """Records per user of Algorithm 5: ``(30 q I (w/2)/beta)**2``, all queries on the same records."""
    q, cells, w = positive_int(queries, "queries"), positive_int(grid, "grid"), rational(width, "width", above=0)
    return math.ceil((30 * q * cells * w / 2 / rational(beta, "beta", above=0, below=1)) ** 2)


# Edges below which nothing is released


def silent_votes(base: Rational, universe: int, clear: Rational) -> int:
    """The least ``T`` with ``base**T >= U base (1 - clear)/clear``: votes of no answer among ``U`` items named at most
    once.

    >>> silent_votes(2, 1024, "1/20")
    16
    """
    b, beta = rational(base, "base", above=1), rational(clear, "clear", above=0, below=1)
    size = positive_int(universe, "universe")
    needed = up(lambda: (as_arb(size * b * (1 - beta) / beta)).log() / as_arb(b).log())
    return max(1, math.ceil(needed))


def local_edge(keep: Rational, reports: ArrayLike, places: int, chunks: int, clear: Rational) -> Floats64:
    """What the sum of a value's signs among so many reports of a chunk must exceed, with ``places`` values in all
    chunks together.

    Signs of people who name another value are fair.  One chunk: one person may name the value.  Several: half of the
    people may, and which of them report this chunk is chance; a sum of ``reports`` signs is beyond its mean by ``sqrt(2
    n ln(places/clear))`` with probability at most ``clear/places`` (Hoeffding, also for draws without replacement).
    """
    n = np.asarray(reports, dtype=np.float64)
    spread = np.sqrt(2 * n * math.log(places / float(rational(clear, "clear", above=0, below=1))))
    return np.asarray(spread + (1 if chunks == 1 else n * float(2 * rational(keep, "keep") - 1) / 2))


def shuffle_edge(r: float, p: float, buckets: int, clear: float, *, speak: int, chunks: int = 1) -> int:
    """The least count that a bucket exceeds with probability at most ``clear/buckets``, ``NB(r, p)`` noise included.

    One chunk: one person may name the item.  Several: half of those who ``speak`` may, and each reports this chunk with
    probability ``1/chunks``.  A cap on messages and dishonest clients who add no noise only lower the counts.  ``r =
    0``: no noise.

    >>> shuffle_edge(45.1, 0.449, 1025, 0.05, speak=500)
    76
    """
    limit = clear / buckets

    def noise(k: Ints) -> Floats64:
        return np.asarray(nbinom.sf(k, r, 1 - p)) if r else (k < 0).astype(np.float64)

    if chunks == 1:
        return 1 + (int(nbinom.isf(limit, r, 1 - p)) if r else 0)
    half = speak // 2
    low, high = (int(quantile(limit / 64, half, 1 / chunks)) for quantile in (binom.ppf, binom.isf))
    named = np.arange(max(low - 1, 0), min(half, high + 1) + 1)
    # Fewer real messages than the first are counted as the first, more than the last as a failure.
    weights = binom.pmf(named, half, 1 / chunks)
    weights[0] += float(binom.cdf(named[0] - 1, half, 1 / chunks))
    beyond = float(binom.sf(named[-1], half, 1 / chunks))
    found = least(lambda t: bool(weights @ noise(t - named) + beyond <= limit), start=0, limit=1 << 50)
    assert found is not None
    return found


# Users for a plurality.  With ``clear`` (or ``named`` above 1) it is the learner as it runs, and the number holds for
# every larger one; without, the published formulas.


def _read_share(share: Rational) -> float:
    return float(rational(share, "share", above=Fraction(1, 2), maximum=1))


def _majority(share: float) -> str:
    """What certificates of a plurality assume."""
    return f"a share of {share:g} names one item"


def _first(fails: Callable[[Ints], Floats64], limit: float, step: int = 256, *, lasts: bool = False) -> int | None:
    """The least ``n`` whose failure is small enough; failures are not quite monotone (parity), so every ``n`` is looked
    at.

    ``lasts``: it must stay so.  A majority of ``n + 2`` fails no more often than one of ``n`` (two more votes move the
    line by one, and each is right more often than not), so what lapses does so among the next few; ``n/4`` more are
    looked at, 16 at least.
    """
    start, found, until = 1, None, 0
    while start < _MOST:
        n = np.arange(start, start + step, dtype=np.int64)
        for number, good in zip(n.tolist(), (fails(n) <= limit).tolist()):
            if not good:
                found = None
            elif found is None:
                found, until = number, number + max(16, number // 4) if lasts else number
            if found is not None and number >= until:
                return found
        start += step
    return None


def users_histogram(K: int, *, beta: Rational, share: Rational = _SHARE, named: int = 1) -> Certificate:
    """:class:`~privpac.mechanisms.votes.StableHistogram` with noise on ``-K..K``: ``Pr[2 Bin(n, share) - n < 2 K + 1]
    <= beta/3``, and as seldom fewer than ``2 K + named`` votes.

    >>> users_histogram(14, beta="0.1").n_users
    45
    """
    k, p = positive_int(K, "K"), _read_share(share)
    fewest = 2 * k + positive_int(named, "named")
    limit = open_unit(beta, "beta") / 3
    n = _first(lambda n: binom.cdf(np.maximum((n + 2 * k + 2) // 2, fewest) - 1, n, p), limit, lasts=named > 1)
    return Certificate.upper(n, "stable histogram", _majority(p), K=k)


def users_plurality(
    base: Rational, universe: int, *, beta: Rational, share: Rational = _SHARE, clear: Rational | None = None
) -> Certificate:
    """:class:`~privpac.mechanisms.votes.PureSelection`: ``E min(1, (U - 1 + B**(n-c) + B**T)/B**c) <= beta/3``, ``c ~
    Bin(n, share)``.

    ``B**T`` is the weight of no answer, there with ``clear`` only.
    """
    log_b = math.log(rational(base, "base", above=1))
    size, p = positive_int(universe, "universe"), _read_share(share)
    others = math.log(size - 1) if size > 1 else -math.inf
    if clear is not None:
        others = float(np.logaddexp(others, silent_votes(base, size, clear) * log_b))

    def fails(ns: Ints) -> Floats64:
        out = []
        for n in ns.tolist():
            c = np.arange(n + 1)
            wrong = np.logaddexp(others, (n - c) * log_b) - c * log_b
            out.append(float(binom.pmf(c, n, p) @ np.exp(np.minimum(wrong, 0))))
        return np.array(out)

    n = _first(fails, open_unit(beta, "beta") / 3, 8, lasts=clear is not None)
    return Certificate.upper(n, "pure plurality", _majority(p), universe=size)


def users_local(
    keep: Rational, universe: int, *, beta: Rational, share: Rational = _SHARE, clear: Rational | None = None
) -> Certificate:
    """:class:`HadamardSelection`, keep probability ``keep``: every estimate within ``c sqrt(2 n ln(12 U/beta))`` and a
    clear majority.

    The two tails are ``beta/6`` each; the votes' tail is Hoeffding's.  With ``clear`` the sum of the right item's signs
    is beyond the edge.
    """
    p, size = rational(keep, "keep", above=Fraction(1, 2), below=1), positive_int(universe, "universe")
    c, b, q = 1 / float(2 * p - 1), open_unit(beta, "beta"), _read_share(share)
    log = math.log(12 / b) + math.log(size)

    def fails(n: Ints) -> Floats64:
        needed = np.floor((n + 2 * c * np.sqrt(2 * n * log)) / 2) + 1
        if clear is not None:
            needed = np.maximum(needed, np.floor(c * (local_edge(p, n, size, 1, clear) + np.sqrt(2 * n * log))) + 1)
        gap = q - (needed - 1) / n
        return np.where(gap > 0, np.exp(-2 * n * np.maximum(gap, 0) ** 2), 1.0)

    n = _first(fails, b / 6, 1 << 14, lasts=clear is not None)
    return Certificate.upper(n, "local plurality", _majority(q), universe=size)


def users_shuffle(
    r: Rational, p: Rational, universe: int, *, beta: Rational, share: Rational = _SHARE, clear: Rational | None = None
) -> Certificate:
    """:class:`ShuffleSelection`, noise ``NB(r, p)`` in each of ``universe`` buckets: ``E min(1, Pr[Y - Y' >= 2c - n] +
    U Pr[Y - Y' >= c]) <= beta/3``; with ``clear`` the chance of ``c + Y <= edge`` is added."""
    size, s = positive_int(universe, "universe"), _read_share(share)
    shape, odds = positive(r, "r"), open_unit(p, "p")
    at_least = _difference_tail(shape, odds)
    edge = None if clear is None else shuffle_edge(shape, odds, size, open_unit(clear, "clear"), speak=0)

    def fails(ns: Ints) -> Floats64:
        out = []
        for n in ns.tolist():
            c = np.arange(n + 1)
            hidden = 0 if edge is None else nbinom.cdf(edge - c, shape, 1 - odds)
            out.append(float(binom.pmf(c, n, s) @ np.minimum(1, at_least(2 * c - n) + size * at_least(c) + hidden)))
        return np.array(out)

    n = _first(fails, open_unit(beta, "beta") / 3, 8, lasts=clear is not None)
    return Certificate.upper(n, "shuffled plurality", _majority(s), universe=size)


def _difference_tail(r: float, p: float) -> Callable[[Ints], Floats64]:
    """``k -> Pr[Y - Y' >= k]`` for ``Y, Y' ~ NB(r, p)`` independent; the mass beyond the last ``N`` listed is added to
    every entry."""
    last = int(nbinom.isf(_TAIL, r, 1 - p)) + 1
    if last > 1 << 15:
        raise TooLargeError("the noise spreads over more than 2**15 counts; raise epsilon or delta")
    mass = nbinom.pmf(np.arange(last + 1), r, 1 - p)
    difference = np.convolve(mass, mass[::-1])
    tail: Floats64 = np.minimum(1, np.cumsum(difference[::-1])[::-1] + 2 * _TAIL)
    return lambda k: np.asarray(tail[np.clip(k, -last, last) + last])


# Lower bounds


def _least(allowed: Callable[[float], bool], epsilon: Rational, delta: Rational, beta: Rational) -> int | None:
    """The least ``n`` at which ``p0(n)`` is allowed, or not positive.  Under either relation ``n`` steps lead to the
    reference data, so the numbers are those of both."""
    eps, small = positive(epsilon, "epsilon"), float(rational(delta, "delta", minimum=0, below=1))
    failure = open_unit(beta, "beta")

    def holds(n: int) -> bool:
        kept = math.exp(-n * eps)
        chance = kept * (1 - failure) - small * (1 - kept) / math.expm1(eps)
        return chance <= 0 or allowed(chance)

    return least(holds, start=0)


def lower_agreement_representation(
    dimension: Rational, *, epsilon: Rational, delta: Rational = 0, beta: Rational = "1/4"
) -> Certificate:
    """Users below which a learner would make too small a representation: ``log2 ceil(ln 4/p0(n)) >= dimension`` is
    necessary.

    ``dimension`` is the class's probabilistic representation dimension in bits at the accuracy wanted and failure 1/4.

    >>> lower_agreement_representation(10, epsilon=1, delta="1e-6").n_users
    7
    """
    bits = float(rational(dimension, "dimension", minimum=0))
    n = _least(lambda chance: math.log2(math.ceil(math.log(4) / chance)) >= bits, epsilon, delta, beta)
    return Certificate.lower(n, "representation", f"a class that needs {bits:g} bits to represent")


def lower_agreement_packing(
    tasks: int, *, epsilon: Rational, delta: Rational = 0, beta: Rational = "1/4"
) -> Certificate:
    """Users below which ``tasks`` targets with disjoint good answers cannot all be learned: ``tasks * p0(n) <= 1`` is
    necessary."""
    count = positive_int(tasks, "tasks")
    if count.bit_length() > 1000:
        raise ParameterError("tasks must be below 2**1000")
    n = _least(lambda chance: math.log(count) + math.log(chance) <= 0, epsilon, delta, beta)
    return Certificate.lower(n, "packing", f"{count} tasks with disjoint answers")


# Users for a plurality of items that are told in chunks: every user reports one chunk of the item, uniformly chosen.
#
# With ``B`` chunks ``n_k ~ Bin(n, 1/B)`` users report chunk ``k``; given that number each of them names the right value
# with probability ``share``, independently, so a chunk fails as a plurality of ``n_k`` users over ``2**width`` values
# does, and ``B E[failure(n_k)]`` bounds the failure of all.  One chunk is the case above.
#
# *Who names something else.*  With ``c`` right votes the other ``n_k - c`` do most harm on one value: noise differences
# ``Y - Y'`` are symmetric and most likely near 0, so ``Pr[Y - Y' >= c - v]`` grows ever faster with the votes ``v`` of
# a rival up to ``v = c``.  Beyond that (``3 c <= n_k``: two rivals as strong as the right value) the bound is 1 anyway.
# Having nothing to say is one more rival, which must beat all chunks together and so at least one of them, or two
# chunks are lost to a majority and the bound is 1 again.
#
# *No agreement.*  With ``clear`` a value is told only if it is beyond what half of the people could name
# (:func:`local_edge`, :func:`shuffle_edge`).


_MOST_IN_CHUNKS = 1 << 24


def users_local_chunks(
    keep: Rational, bits: int, width: int, *, beta: Rational, share: Rational = _SHARE, clear: Rational | None = None
) -> Certificate:
    """:class:`ChunkedHadamard`, keep probability ``keep``: every chunk's estimates within ``c sqrt(2 n_k ln(12 B
    2**w/beta))`` and a clear majority.

    Estimates and votes fail with probability ``beta/6`` each, over all chunks.  With ``clear`` the sum of the right
    value's signs must be beyond the edge, too: a sign is +1 with probability ``share keep + (1 - share)/2``
    (who names another value, or none, has a fair one), so a sum of ``n_k`` of them has an exact binomial tail, which is
    added to that of the votes.

    >>> users_local_chunks("0.7310585784725845", 64, 16, beta="0.1").n_users
    4658
    """
    # Exactly, then rounded: keep may be close to one half.
    scale = 1 / float(2 * rational(keep, "keep", above=Fraction(1, 2), below=1) - 1)
    b, q = open_unit(beta, "beta"), _read_share(share)
    chunks = -(-positive_int(bits, "bits") // positive_int(width, "width", maximum=64))
    log = math.log(12 / b) + math.log(chunks) + width * math.log(2)
    places, plus = chunks << width, q * float(rational(keep, "keep")) + (1 - q) / 2

    def fails(n: Ints) -> Floats64:
        # A majority of more than 2 sqrt(2 n log)/(2 keep - 1) over all others.
        needed = (n + 2 * scale * np.sqrt(2 * n * log)) / 2
        least_votes = np.floor(needed * (1 + SLACK)) + 1
        few = np.asarray(binom.cdf(least_votes - 1, n, q))
        if clear is None:
            return few
        # A sum 2 X - n of X plus signs is not beyond the edge iff X <= (n + edge)/2.
        edge = (n + local_edge(keep, n, places, chunks, clear)) / 2
        hidden = np.asarray(binom.cdf(np.floor(edge * (1 + SLACK)), n, plus * (1 - SLACK)))
        return np.asarray(np.minimum(few + hidden, 1))

    n = _least_in_chunks(fails, chunks, b / 6)
    return Certificate.upper(n, "local plurality in chunks", _majority(q), chunks=chunks, width=width)


def users_shuffle_chunks(
    r: Rational,
    p: Rational,
    bits: int,
    width: int,
    *,
    beta: Rational,
    share: Rational = _SHARE,
    clear: Rational | None = None,
) -> Certificate:
    """:class:`ShuffleSelection` with chunks, noise ``NB(r, p)`` in each of ``B 2**width`` buckets and the one of no
    answer: ``B E min(1, Pr[Y - Y' >= 2 c - n_k] + (2**w + 1) Pr[Y - Y' >= c]) <= beta/3``; with ``clear`` the chance of
    ``c + Y <= edge`` is added, in every chunk."""
    b, q = open_unit(beta, "beta"), _read_share(share)
    chunks = -(-positive_int(bits, "bits") // positive_int(width, "width", maximum=16))
    shape, odds = positive(r, "r"), open_unit(p, "p")
    at_least, others = _difference_tail(shape, odds), (1 << width) + 1

    def fails(ns: Ints) -> Floats64:
        out = []
        for n in ns.tolist():
            # Numbers of right votes 12 deviations away count as failures.
            spread = 12 * math.sqrt(n * q * (1 - q)) + 60
            low, high = max(0, math.floor(n * q - spread)), min(n, math.ceil(n * q + spread))
            c = np.arange(low, high + 1)
            lost = float(binom.cdf(low - 1, n, q) + binom.sf(high, n, q))
            out.append(float(binom.pmf(c, n, q) @ np.minimum(1, at_least(2 * c - n) + others * at_least(c))) + lost)
        return np.array(out)

    def hidden(n: int) -> float:
        if clear is None:
            return 0.0
        edge = shuffle_edge(shape, odds, (chunks << width) + 1, open_unit(clear, "clear"), speak=n, chunks=chunks)
        k = np.arange(min(n, edge) + 1)
        return float(binom.pmf(k, n, q / chunks) @ nbinom.cdf(edge - k, shape, 1 - odds))

    # Tails are known down to their last entry only: a smaller failure is never reached.
    known = chunks * others * float(at_least(np.array([1 << 40]))[0]) <= b / 3
    n = _least_in_chunks(fails, chunks, b / 3, hidden) if known else None
    return Certificate.upper(n, "shuffled plurality in chunks", _majority(q), chunks=chunks, width=width)


def _least_in_chunks(
    fails: Callable[[Ints], Floats64], chunks: int, limit: float, hidden: Callable[[int], float] = lambda n: 0.0
) -> int | None:
    """The least ``n`` (by bisection) with ``chunks (E[fails(n_k)] + hidden(n)) <= limit``; users per chunk far from the
    mean fail.

    Whole edges and parity make steps: it must also hold for the 16 numbers after it.
    """
    known: dict[int, float] = {0: 1.0}

    def holds(n: int) -> bool:
        mean, spread = n / chunks, 12 * math.sqrt(n / chunks) + 60
        low, high = (n, n) if chunks == 1 else (max(0, math.floor(mean - spread)), min(n, math.ceil(mean + spread)))
        k = np.arange(low, high + 1, dtype=np.int64)
        new = np.array([value for value in k.tolist() if value not in known], dtype=np.int64)
        if len(new):
            known.update(zip(new.tolist(), fails(new).tolist()))
        weights = np.ones(1) if chunks == 1 else binom.pmf(k, n, 1 / chunks)
        expected = float(weights @ np.array([known[value] for value in k.tolist()]))
        if chunks > 1:
            expected += float(binom.cdf(low - 1, n, 1 / chunks) + binom.sf(high, n, 1 / chunks))
        return chunks * (expected + hidden(n)) * (1 + SLACK) <= limit

    found = least(holds, limit=_MOST_IN_CHUNKS)
    while found is not None:
        lapse = next((n for n in range(found + 16, found, -1) if not holds(n)), None)
        if lapse is None:
            break
        found = lapse + 1 if lapse + 1 < _MOST_IN_CHUNKS else None
    return found
