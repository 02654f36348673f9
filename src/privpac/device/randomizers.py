"""What one message says, how much noise is in it, and what a device checks before it sends: integers only.

**Negative binomial noise.**  ``NB(x, p)``: ``f(k) = binom(k + x - 1, k) (1 - p)**x p**k``, mean ``x p/(1 - p)``; a sum
of independent ``NB(x_i, p)`` is ``NB(sum x_i, p)``, so noise can be divided among people.  ``x`` and ``p`` are
rationals.

*Sampling.*  Inversion: ``f(0) = (1 - p)**x`` is enclosed between two integers over ``2**P`` (logarithm and exponential
by series with counted rounding), ``f(k+1) = f(k) p (k + x)/(k + 1)`` keeps the enclosure, and the bits of the uniform
number are drawn as needed: while the answer is open, both get longer.  No floating point decides anything.

*Many buckets.*  The total over ``M`` buckets of ``NB(s, p)`` noise is ``NB(M s, p)``; given the total, message ``t +
1`` goes to a uniform bucket with probability ``M s/(M s + t)`` and else joins a uniformly chosen earlier message
(Polya's urn).  Cost: the number of messages, not of buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from privpac.device.correlated_sampling import Ints
from privpac.device.scores import walsh_hadamard
from privpac.errors import ManifestError, ParameterError, TooLargeError
from privpac.rng import Rng

_STEP = 64
_MOST_BITS = 1 << 16
_MOST_MEAN = 1 << 20


# Fixed-point enclosures: a pair (low, high) stands for [low, high] / 2**bits


def _atanh(num: int, den: int, bits: int) -> tuple[int, int]:
    """``2**bits * atanh(num/den)`` for ``0 <= 3 num <= den``."""
    term, total, k = (num << bits) // den, 0, 1
    n2, d2 = num * num, den * den
    while term:
        total += term // k
        term = term * n2 // d2
        k += 2
    # Each floor loses less than 1 per division, terms are positive, and the remainder is below a geometric series of
    # ratio 1/9; there were (k - 1)/2 terms.
    return total, total + k + 1


def _log(value: Fraction, bits: int) -> tuple[int, int]:
    """``2**bits * ln(value)`` for ``value >= 1``."""
    shift = max(value.numerator.bit_length() - value.denominator.bit_length(), 0)
    if value >= Fraction(2) ** (shift + 1):
        shift += 1
    rest = value / Fraction(2) ** shift
    if rest < 1:
        shift, rest = shift - 1, rest * 2
    low, high = _atanh(rest.numerator - rest.denominator, rest.numerator + rest.denominator, bits)
    two_low, two_high = _atanh(1, 3, bits)
    return 2 * low + shift * 2 * two_low, 2 * high + shift * 2 * two_high


def exp_minus(low: int, high: int, bits: int) -> tuple[int, int]:
    """``2**bits * e**(-t)`` for ``t`` in ``[low, high]/2**bits``."""
    return _exp_below(high, bits), _exp_below(low, bits, upper=True)


def _exp_below(t: int, bits: int, *, upper: bool = False) -> int:
    """A bound on ``2**bits * e**(-t/2**bits)``: halve until small, sum the series, square back."""
    halvings = (t >> bits).bit_length() + 8
    work = bits + 2 * halvings + 16
    small = ((t << (work - bits)) >> halvings) + (not upper)
    # e**-s = 1 - s + s**2/2 - ...: an alternating series of falling terms, cut at either side.
    one = 1 << work
    total, term, k = one, one, 0
    while term:
        k += 1
        term = (term * small >> work) // k
        total += -term if k % 2 else term
    slack = 2 * k + 2
    value = min(total + slack, one) if upper else max(total - slack, 0)
    for _ in range(halvings):
        value = (value * value >> work) + upper
    return (value >> (work - bits)) + upper


class Mass:
    """Enclosures of ``f(0), f(1), ...`` and of their sums, over ``2**bits``."""

    def __init__(self, x: Fraction, p: Fraction, bits: int) -> None:
        self.x, self.p, self.bits = x, p, bits
        guard = 64 + (x.numerator // x.denominator).bit_length()
        low, high = _log(1 / (1 - p), bits + guard)
        scaled = (low * x.numerator // x.denominator, -(-high * x.numerator // x.denominator))
        first = exp_minus(*scaled, bits + guard)
        self.f = first[0] >> guard, -(-first[1] >> guard)
        self.sum = self.f

    def step(self, k: int) -> None:
        """From ``f(k)`` to ``f(k + 1)``."""
        ratio = self.p * (k + self.x) / (k + 1)
        low, high = self.f
        self.f = low * ratio.numerator // ratio.denominator, -(-high * ratio.numerator // ratio.denominator)
        self.sum = self.sum[0] + self.f[0], self.sum[1] + self.f[1]


def _first_bits(x: Fraction, p: Fraction) -> int:
    """``1/(1-p)**x < 2**(x (bits of the denominator))``: enough places to see ``f(0)``."""
    return _STEP + 64 + int(x * (1 / (1 - p)).__ceil__().bit_length())


def check_total(x: Fraction, p: Fraction) -> None:
    """Refuse what :func:`sample_total` could not draw; a curator asks before anything is spent."""
    if not (isinstance(x, Fraction) and isinstance(p, Fraction) and x > 0 and 0 < p < 1):
        raise ParameterError("negative binomial noise needs rational x > 0 and 0 < p < 1")
    if x * p / (1 - p) > _MOST_MEAN:
        raise ParameterError(
            f"the noise would be more than {_MOST_MEAN} messages on average; choose fewer buckets, or a larger n_min"
        )
    if _first_bits(x, p) > _MOST_BITS:
        raise ParameterError("the noise needs more precision than is provided; choose fewer buckets, or a larger n_min")


def sample_total(x: Fraction, p: Fraction, rng: Rng) -> int:
    """One exact draw of ``NB(x, p)``."""
    check_total(x, p)
    known, drawn, bits = 0, 0, _first_bits(x, p)
    while bits <= _MOST_BITS:
        known = (known << (bits - drawn)) | rng.bits(bits - drawn)
        found = _invert(x, p, known, bits)
        if found is not None:
            return found
        drawn, bits = bits, 2 * bits
    raise ParameterError("the noise needs more precision than is provided; choose fewer buckets, or a larger n_min")


def _invert(x: Fraction, p: Fraction, u: int, bits: int) -> int | None:
    """The ``k`` with ``F(k-1) <= U < F(k)`` for every ``U`` in ``[u, u + 1)/2**bits``, if the enclosures decide it."""
    mass, k = Mass(x, p, bits), 0
    while True:
        if u + 1 <= mass.sum[0]:
            return k
        if u < mass.sum[1]:
            return None
        k += 1
        mass.step(k - 1)
        if mass.f[1] <= 1 and k > x * p / (1 - p):
            return None  # the tail is below the resolution


def sample_noise(buckets: int, s: Fraction, p: Fraction, rng: Rng) -> list[int]:
    """The buckets of the messages when each of ``0..buckets - 1`` gets ``NB(s, p)`` of them, independently."""
    if buckets < 1:
        raise ParameterError(f"there must be at least one bucket, got {buckets}")
    mass = buckets * s
    out: list[int] = []
    for t in range(sample_total(mass, p, rng)):
        coin = rng.below(mass.numerator + t * mass.denominator)
        out.append(rng.below(buckets) if coin < mass.numerator else out[rng.below(t)])
    return out


# Local plurality: one random bit of the item's Hadamard code, told through randomised response.
#
# The client draws ``j`` uniformly, takes the sign ``(-1)**<j, u>`` of its item ``u`` (a fair coin if it has none),
# tells it truthfully with probability ``keep`` and sends ``(chunk, j, bit)``.  Items longer than ``width`` bits are cut
# into chunks, little end first; the client reports a uniformly chosen one.
#
# **Guarantee.**  ``epsilon = ln(keep/(1 - keep))`` in the local model, for any two items of one user, ``NONE``
# included: chunk and ``j`` are independent of the item, and the probability of a bit is ``keep``, ``1 - keep`` or one
# half.  Exactly attained.
#
# **Decoding.**  ``c * sum of s_i (-1)**<j_i, u>`` with ``c = 1/(2 keep - 1)`` is unbiased for the count of ``u``, and
# all of them are within ``c sqrt(2 n ln(2 U/beta))`` with probability ``1 - beta`` (Hoeffding); one Walsh-Hadamard
# transform finds them all.  With chunks only a majority is found: without one the answer may be a mixture of items.

MAX_WIDTH = 22
_LAW = 1 << 16
BitReport = tuple[int, int, int]


def _check(keep: Fraction, bits: int, width: int) -> None:
    if not (isinstance(keep, Fraction) and Fraction(1, 2) < keep < 1):
        raise ParameterError("keep must be a rational strictly between 1/2 and 1")
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits < 1 << 19:
        raise ParameterError("an item has between 1 and 2**19 - 1 bits")
    if not 1 <= width <= MAX_WIDTH:
        raise TooLargeError(
            f"one transform takes items of 1 to {MAX_WIDTH} bits, got {width}; use ChunkedHadamard for longer ones"
        )


@dataclass(frozen=True)
class ChunkedHadamard:
    """Items of ``bits`` bits in chunks of ``width``; ``keep`` is the chance of telling the truth."""

    bits: int
    keep: Fraction
    width: int = 8

    def __post_init__(self) -> None:
        _check(self.keep, self.bits, self.width)
        if self.chunks >= 1 << 16:
            raise TooLargeError(f"{self.chunks} chunks are more than 65535; use wider ones")

    @property
    def chunks(self) -> int:
        return -(-self.bits // self.width)

    def width_of(self, chunk: int) -> int:
        """Bits of one chunk: the last may be shorter."""
        return min(self.width, self.bits - chunk * self.width)

    # On the device

    def report(self, item: int | None, rng: Rng) -> BitReport:
        """``(chunk, j, bit)`` for an item of ``0..2**bits - 1``, or for nothing to say.

        As many words are drawn for ``None`` as for an item.
        """
        if item is not None and not 0 <= item < 1 << self.bits:
            raise ParameterError(f"the item must have at most {self.bits} bits")
        chunk = rng.below(self.chunks)
        width = self.width_of(chunk)
        j = rng.below(1 << width)
        coin, truth = rng.bits(1), rng.below(self.keep.denominator) < self.keep.numerator
        if item is None:
            return chunk, j, coin
        value = (item >> (chunk * self.width)) & ((1 << width) - 1)
        sign = 1 - ((j & value).bit_count() & 1)
        return chunk, j, sign if truth else 1 - sign

    def message_law(self, item: int | None) -> dict[BitReport, Fraction]:
        """The exact law of :meth:`report`, for short chunks."""
        if item is not None and not 0 <= item < 1 << self.bits:
            raise ParameterError(f"the item must have at most {self.bits} bits")
        if self.chunks << self.width > _LAW:
            raise TooLargeError(f"a law of more than {_LAW} chunks and values is not written out; take a smaller width")
        law: dict[BitReport, Fraction] = {}
        for chunk in range(self.chunks):
            width = self.width_of(chunk)
            value = 0 if item is None else (item >> (chunk * self.width)) & ((1 << width) - 1)
            for j in range(1 << width):
                sign = 1 - ((j & value).bit_count() & 1)
                for bit in (0, 1):
                    told = Fraction(1, 2) if item is None else self.keep if bit == sign else 1 - self.keep
                    law[chunk, j, bit] = told / (self.chunks << width)
        return law

    def accepts(self, report: BitReport) -> bool:
        """Whether a report could come from an honest client."""
        chunk, j, bit = report
        return 0 <= chunk < self.chunks and 0 <= j < 1 << self.width_of(chunk) and bit in (0, 1)

    # At the server

    def sums(self, reports: Iterable[BitReport]) -> list[Ints]:
        """Signed reports by chunk and ``j``; what is not acceptable is left out."""
        totals = [np.zeros(1 << self.width_of(chunk), dtype=np.int64) for chunk in range(self.chunks)]
        for chunk, j, bit in filter(self.accepts, reports):
            totals[chunk][j] += 2 * bit - 1
        return totals

    def spectra(self, reports: Iterable[BitReport]) -> list[Ints]:
        """For each chunk, and each of its values ``v``, the sum of ``s_i (-1)**<j_i, v>``: estimates before scaling."""
        return [walsh_hadamard(total) for total in self.sums(reports)]

    def estimates(self, reports: Iterable[BitReport]) -> list[list[Fraction]]:
        """For each chunk the unbiased estimates of the counts, over the reports of that chunk."""
        scale = 1 / (2 * self.keep - 1)
        return [[scale * int(v) for v in spectrum] for spectrum in self.spectra(reports)]

    def decode(self, reports: Iterable[BitReport]) -> int:
        """The item put together from the likeliest value of every chunk; ties go to the smaller value."""
        item = 0
        for chunk, spectrum in enumerate(self.spectra(reports)):
            item |= int(np.argmax(spectrum)) << (chunk * self.width)
        return item


def HadamardSelection(bits: int, keep: Fraction) -> ChunkedHadamard:
    """Items of at most 22 bits in one transform."""
    _check(keep, bits, bits)
    return ChunkedHadamard(bits, keep, bits)


# Shuffled plurality: one real message among noise messages, counted after a shuffle.
#
# Every client sends the bucket of its item (the last bucket, ``NULL``, if it has none) and, for every bucket,
# ``NB(r/n_min, p)`` noise messages.  After the shuffle only counts per bucket are left: ``c_u`` plus ``NB(r', p)``,
# ``r' >= r`` when ``n_min`` or more clients added their share.  Items of a large universe are cut into chunks of
# ``width`` bits, little end first; a client reports one, uniformly chosen.
#
# **Guarantee.**  ``(epsilon, delta)`` under *replace*, with at least ``n_min`` honest clients: a replaced client moves
# one message from one bucket to another, and ``delta`` is the exact two-bucket divergence
# (:mod:`privpac.protocols.calibrate`).  More clients add more noise, which is post-processing.  Nothing is promised
# under add-remove: who leaves takes noise along.  A client sends at most ``cap`` messages; if each exceeds that with
# probability at most ``tau``, the counts differ from the ideal ones with probability at most ``n_max tau`` in either of
# two neighbouring worlds, which costs ``(1 + e**epsilon) n_max tau`` of delta.
#
# ``direction="under"`` sends one message for every bucket *but* the item's, and counts what is missing: never an
# overestimate, for at most 64 buckets.

MAX_BUCKETS = 1 << 16
_FEW = 64
_Message = TypeVar("_Message")


def in_random_order(messages: list[_Message], rng: Rng) -> list[_Message]:
    """The list itself in uniformly random order."""
    for i in range(len(messages) - 1, 0, -1):
        j = rng.below(i + 1)
        messages[i], messages[j] = messages[j], messages[i]
    return messages


@dataclass(frozen=True)
class ShuffleSelection:
    """``size`` items, in chunks of ``width`` bits (0: no chunks); noise ``NB(r, p)`` per bucket once ``n_min`` clients
    took part."""

    size: int
    r: Fraction
    p: Fraction
    n_min: int
    cap: int
    width: int = 0
    direction: str = "over"

    def __post_init__(self) -> None:
        if self.size < 1 or self.n_min < 1 or self.cap < 1 or not 0 <= self.width <= 16:
            raise ParameterError("size, n_min and cap must be at least 1, and a chunk has at most 16 bits")
        if not (self.r > 1 and 0 < self.p < 1):
            raise ParameterError("the noise needs r > 1 and 0 < p < 1")
        if self.direction not in ("over", "under"):
            raise ParameterError(f"direction must be 'over' or 'under', got {self.direction!r}")
        if self.buckets > MAX_BUCKETS:
            raise TooLargeError(
                f"{self.buckets} buckets are more than {MAX_BUCKETS}; cut items into chunks of 8 bits (width=8)"
            )
        if self.direction == "under" and self.buckets > _FEW:
            raise TooLargeError(
                f"direction='under' sends a message per bucket: at most {_FEW} buckets, got {self.buckets}"
            )

    @property
    def chunks(self) -> int:
        return 1 if self.width == 0 else -(-max((self.size - 1).bit_length(), 1) // self.width)

    @property
    def null(self) -> int:
        """The bucket of those with nothing to say."""
        return self.size if self.width == 0 else self.chunks << self.width

    @property
    def buckets(self) -> int:
        return self.null + 1

    @property
    def share(self) -> Fraction:
        """``s``: the noise of one client per bucket is ``NB(s, p)``."""
        return self.r / self.n_min

    @property
    def expected_messages(self) -> Fraction:
        """What a client sends on average."""
        real = 1 if self.direction == "over" else self.buckets - 1
        return real + self.buckets * self.share * self.p / (1 - self.p)

    # On the device

    def bucket(self, number: int | None, rng: Rng) -> int:
        """The bucket of an item's number, or of nothing."""
        chunk = rng.below(self.chunks)
        if number is None:
            return self.null
        if not 0 <= number < self.size:
            raise ParameterError("the item is not in the universe")
        return self.places(number)[chunk]

    def places(self, number: int) -> list[int]:
        """The buckets that stand for an item, one for each chunk."""
        if self.width == 0:
            return [number]
        part = (1 << self.width) - 1
        return [(chunk << self.width) | ((number >> (chunk * self.width)) & part) for chunk in range(self.chunks)]

    def messages(self, number: int | None, rng: Rng) -> list[int]:
        """The buckets of all messages of one client, in random order."""
        mine = self.bucket(number, rng)
        real = [mine] if self.direction == "over" else [b for b in range(self.buckets) if b != mine]
        out = (real + sample_noise(self.buckets, self.share, self.p, rng))[: self.cap]
        return in_random_order(out, rng)

    # At the analyzer

    def counts(self, buckets: Sequence[int], clients: int) -> list[int]:
        """Messages by bucket; with ``direction="under"`` the messages missing."""
        out = [0] * self.buckets
        for bucket in buckets:
            if 0 <= bucket < self.buckets:
                out[bucket] += 1
        return out if self.direction == "over" else [clients - count for count in out]

    def decode(self, counts: Sequence[int]) -> int | None:
        """The number with the largest count, chunk by chunk; ties go to the smaller.  ``None`` if that is no number of
        the universe."""
        if self.width == 0:
            return max(range(self.size), key=lambda u: (counts[u], -u))
        number = 0
        for chunk in range(self.chunks):
            here = counts[chunk << self.width : (chunk + 1) << self.width]
            number |= max(range(len(here)), key=lambda v: (here[v], -v)) << (chunk * self.width)
        return number if number < self.size else None


# What a device checks before it sends anything: does the mechanism in the manifest keep the guarantee it claims?
#
# Decided with integers (enclosures of ``e**-epsilon`` and of negative binomial masses), independently of the code that
# chose the parameters.

TAIL = Fraction(1, 1 << 40)
"""The chance that one client would send more than the cap."""

MAX_CAP = 1 << 18
"""No client sends more messages than this."""

_BITS = 256
_MOST = 1 << 15
_WHOLE = 1 << 64


def _decay(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals around ``e**-epsilon``."""
    scaled = epsilon.numerator << _BITS
    low, high = exp_minus(scaled // epsilon.denominator, -(-scaled // epsilon.denominator), _BITS)
    return Fraction(low, 1 << _BITS), Fraction(high, 1 << _BITS)


def keeps_local(keep: Fraction, epsilon: Fraction) -> bool:
    """``keep/(1 - keep) <= e**epsilon``."""
    return (1 - keep) / keep >= _decay(epsilon)[1]


def shuffle_delta(select: ShuffleSelection, n_max: int, epsilon: Fraction) -> Fraction:
    """An upper bound on the delta of a shuffled count at ``epsilon``, the cap on messages included.

    The bound is that of :mod:`privpac.protocols.calibrate`; every quantity is rounded against the claim.
    """
    # Refused before a table is built: noise that no table of a device holds, in long numbers or with a mean beyond it.
    if any(part >= _WHOLE for value in (select.r, select.p) for part in (value.numerator, value.denominator)):
        raise ManifestError("r and p of the noise have numerators and denominators below 2**64")
    if select.r * select.p / (1 - select.p) > _MOST:
        raise ManifestError("the noise spreads over too many counts")
    decay_low, decay_high = _decay(epsilon)
    noise = _Tails(select.r, select.p)
    total, r = Fraction(0), select.r
    for b in range(noise.last + 1):
        share = Fraction(b) / (b + r - 1)
        if share >= decay_high:
            break  # c >= 1: no term is positive from here on
        if share >= decay_low:
            raise ManifestError("a ratio could not be decided; choose other parameters")
        # a*: with c = share/e**-eps, one more than floor(c (r-1)/(1-c)) = floor(share (r-1)/(e**-eps - share)).
        least, most = (share * (r - 1) // (decay - share) for decay in (decay_high, decay_low))
        if least != most:
            raise ManifestError("a boundary could not be decided; choose other parameters")
        first = least + 1
        f, before = noise.f(b), noise.f(b - 1)
        total += max(Fraction(0), f[1] * noise.tail(first - 1)[1] - before[0] * noise.tail(first)[0] / decay_high)
    else:
        total += noise.beyond
    if select.cap < least_cap(select):
        raise ManifestError("the cap on messages is too small for the noise")
    return total + cap_price(epsilon, n_max)


def cap_price(epsilon: Fraction, n_max: int) -> Fraction:
    """What the cap costs of delta: ``(1 + e**epsilon) n_max TAIL``, rounded up; 1 (all of it) where ``e**-epsilon`` is
    below the precision."""
    decay, _ = _decay(epsilon)
    return (1 + 1 / decay) * n_max * TAIL if decay else Fraction(1)


class _Tails:
    """Enclosures of ``f(k)`` and ``Pr[Y >= k]``, as rationals."""

    def __init__(self, r: Fraction, p: Fraction) -> None:
        mass, k = Mass(r, p, 2 * _BITS), 0
        if mass.f[0] == 0:  # no lower end would ever rise above 0, while the upper ones grow beyond all bounds
            raise ManifestError("the noise spreads over too many counts")
        listed = [mass.f]
        limit = 1 << _BITS
        while True:
            mass.step(k)
            k += 1
            listed.append(mass.f)
            later = p * (k + r) / (k + 1)
            if later < 1 and mass.f[1] < limit:
                break
            if k > _MOST:
                raise ManifestError("the noise spreads over too many counts")
        scale = 1 << (2 * _BITS)
        self.last, self._f = k, [(Fraction(low, scale), Fraction(high, scale)) for low, high in listed]
        self.beyond = self._f[-1][1] * later / (1 - later)
        tails = [(Fraction(0), self.beyond)]
        for low, high in reversed(self._f):
            tails.append((tails[-1][0] + low, tails[-1][1] + high))
        self._tails = tails[::-1]

    def f(self, k: int) -> tuple[Fraction, Fraction]:
        return self._f[k] if 0 <= k <= self.last else (Fraction(0), Fraction(0))

    def tail(self, k: int) -> tuple[Fraction, Fraction]:
        return self._tails[max(k, 0)] if k < len(self._tails) else (Fraction(0), self.beyond)


def least_cap(select: ShuffleSelection) -> int:
    """The least cap that one client's messages exceed with probability at most ``TAIL``; whatever cap ``select``
    has."""
    x, real = select.buckets * select.share, 1 if select.direction == "over" else select.buckets - 1
    if select.expected_messages > MAX_CAP:
        raise ManifestError(f"a client would send more than {MAX_CAP} messages; choose fewer buckets, or more clients")
    # (1 - p)**-x < 2**(x places): enough bits to see f(0).
    places = (1 / (1 - select.p)).__ceil__().bit_length()
    bits, most = 2 * _BITS + places * (int(x) + 1), 0
    if bits > _MOST:
        raise ManifestError("the noise needs more precision than a device has; choose fewer buckets, or more clients")
    mass = Mass(x, select.p, bits)
    enough = (1 << mass.bits) - ((TAIL.numerator << mass.bits) // TAIL.denominator)
    while mass.sum[0] < enough:
        mass.step(most)
        most += 1
        if most + real > MAX_CAP:
            raise ManifestError(
                f"a client might send more than {MAX_CAP} messages; choose fewer buckets, or more clients"
            )
    return real + most
