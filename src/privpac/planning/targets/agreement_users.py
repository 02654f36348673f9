"""Users of a plurality of which nine in ten name one item, and the noise of a shuffled run: as the protocols themselves
publish them."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from privpac.bounds.agreement.chunks import users_shuffle_chunks
from privpac.bounds.agreement.plurality import CLEAR, users_plurality, users_shuffle
from privpac.bounds.certificate import Certificate
from privpac.errors import InfeasibleError, ManifestError
from privpac.protocols.calibrate import ShuffleNoise, calibrate
from privpac.protocols.shuffle import ShuffleSelection
from privpac.protocols.verify import MAX_CAP, cap_price, least_cap

__all__ = ["central_users", "shuffled_selection", "shuffled_users", "width_of_reports"]

_POWER, _LAST_POWER = 10, 20


@lru_cache(maxsize=256)
def central_users(base: Fraction, universe: int, beta: Fraction) -> Certificate:
    return users_plurality(base, universe, beta=beta, clear=CLEAR)


@lru_cache(maxsize=256)
def _noise(epsilon: Fraction, delta: Fraction, n_max: int) -> ShuffleNoise:
    left = delta - cap_price(epsilon, n_max)
    if left <= delta / 1000:
        raise InfeasibleError(f"with {n_max} clients the cap on messages costs all of delta; choose a larger delta")
    return calibrate(epsilon, left)


@lru_cache(maxsize=256)
def shuffled_users(
    epsilon: Fraction, delta: Fraction, beta: Fraction, size: int, bits: int, clients: int
) -> Certificate:
    """Users when ``n_min`` is their number and ``n_max`` a power of two that holds them: clients beyond ``n_min`` would
    add noise."""
    width = 0 if size <= 1024 else _chunk(bits, 9)  # the default of ``ShuffleProtocol``
    power = _POWER
    # The cap on messages is paid for every client allowed: few clients where delta is small against e**epsilon.
    while power > 1 and cap_price(epsilon, 1 << power) > delta / 2:
        power -= 1
    power = max(power, (clients - 1).bit_length())
    while power <= _LAST_POWER:
        noise = _noise(epsilon, delta, 1 << power)
        if width == 0:
            found = users_shuffle(noise.r, noise.p, size + 1, beta=beta, clear=CLEAR)
        else:
            found = users_shuffle_chunks(noise.r, noise.p, bits, width, beta=beta, clear=CLEAR)
        if found.n_users is None:
            break
        if found.n_users <= 1 << power:
            try:
                least_cap(ShuffleSelection(size, noise.r, noise.p, found.n_users, MAX_CAP, width))
            except ManifestError as error:  # what the protocol itself would refuse
                raise InfeasibleError(str(error)) from None
            details = {"epsilon": epsilon, "n_max": 1 << power, "r": noise.r, "p": noise.p, "width": width}
            return Certificate.upper(found.n_users, found.method, found.assumption, **details)
        power = (found.n_users - 1).bit_length()
    return Certificate.upper(None, "shuffled plurality", "a share of 0.9 names one item")


def width_of_reports(bits: int) -> int:
    """Bits of a chunk that a local report is about: the default of ``LocalProtocol``."""
    return bits if bits <= 20 else _chunk(bits, 20) if bits <= 128 else 8


def shuffled_selection(epsilon: Fraction, delta: Fraction, size: int, bits: int, n: int) -> ShuffleSelection:
    """The noise of a run with ``n`` clients, none more or fewer than is promised but for ``n_max``, a power of two."""
    noise = _noise(epsilon, delta, 1 << (n - 1).bit_length())
    return ShuffleSelection(size, noise.r, noise.p, n, MAX_CAP, 0 if size <= 1024 else _chunk(bits, 9))


def _chunk(bits: int, most: int) -> int:
    """Chunks of at most ``most`` bits, as equal as they come."""
    return -(-bits // -(-bits // most))
