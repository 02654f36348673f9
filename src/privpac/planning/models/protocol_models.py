"""What agreement without a curator is predicted to do on the standard model of its class: votes drawn, noise drawn,
decoded.

For each of a few public seeds some drawn people name items; they stand for all, so that thousands of users cost no more
than their noise. A run draws the votes of ``n`` users among them and the noise that the protocol would add, and decodes
as the analyzer does:

* local: one report each, through the protocol's own ``keep``, by one Walsh-Hadamard transform for each chunk;
* shuffle: counts with ``NB(r, p)`` noise in every bucket, the ``r`` and ``p`` of a run with ``n_min = n``.

Messages are not written and read again: nothing is lost or forged on the way.  People with fewer records than the
protocol's ``min_records`` have nothing to say, and where nothing stands out from the noise the public default is
released.  Everything is seeded, so the same question has the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.scores import walsh_hadamard
from privpac.bounds.agreement.plurality import CLEAR
from privpac.data import Integers
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Model
from privpac.learners.agreement.learner import AgreementLearner
from privpac.mechanisms.randomized_response import keep_probability
from privpac.planning.comparison.expected_error import error_by_rule
from privpac.planning.models.agreement_models import default_excess, modelled_concept, modelled_law
from privpac.planning.models.simulation import Simulation
from privpac.planning.models.standard_models import DEFAULT_NOISE, standard_population
from privpac.planning.targets.agreement_users import shuffled_selection, width_of_reports
from privpac.protocols.analyzer import decode_counts, likeliest
from privpac.protocols.hadamard import ChunkedHadamard
from privpac.protocols.protocol import LocalProtocol
from privpac.protocols.shuffle import ShuffleSelection

if TYPE_CHECKING:
    from privpac.planning.targets.agreement_targets import AgreementTarget

__all__ = ["ProtocolSimulation", "local_winner", "protocol_simulations", "shuffle_winner"]

Ints = NDArray[np.int64]
Winner = Callable[[Ints, np.random.Generator], int | None]
PEOPLE, SEEDS = 64, 8
MOST_USERS, MOST_RECORDS = 1 << 16, 1 << 18


def protocol_simulations(target: AgreementTarget) -> list[ProtocolSimulation]:
    """The local or shuffle model of a class that has a standard model and rules that can be listed; else nothing."""
    law = modelled_law(target)
    return [] if law is None else [ProtocolSimulation(target, law)]


@dataclass(frozen=True)
class ProtocolSimulation(Simulation):
    """Agreement in the local or shuffle model."""

    target: AgreementTarget
    law: str

    first: ClassVar[int] = 4 * SEEDS
    most_runs: ClassVar[int] = 160 * SEEDS
    worst: ClassVar[float] = 0.5
    strata: ClassVar[int] = SEEDS

    @property
    def method(self) -> str:
        return f"{self.target.model} agreement"

    @property
    def model(self) -> str:
        return f"{self.law}, {PEOPLE} of them standing for all, under {SEEDS} fixed public seeds"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The excess error of what is released; None where that is too much to simulate, or no run is possible."""
        if n_users > MOST_USERS or PEOPLE * records_per_user > MOST_RECORDS:
            return None
        try:
            winner = _winner(self.target, n_users, epsilon)
        except (ParameterError, TooLargeError):
            return None

        def excess(i: int) -> float:
            items, value = _named(self.target, records_per_user, i % SEEDS)
            rng = np.random.default_rng([17, i, n_users])
            return value(winner(items[rng.integers(0, len(items), n_users)], rng))

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        if PEOPLE * records_per_user > MOST_RECORDS:
            return 1, 0
        try:
            needed = self.target.users(records_per_user).n_users
        except (ParameterError, TooLargeError):
            needed = None
        silent = bool((_named(self.target, records_per_user, 0)[0] < 0).all())
        # If nobody has anything to say, more of them say no more.
        return 256 if needed is None else max(16, needed // 2), 1 if silent else MOST_USERS


def _winner(target: AgreementTarget, n: int, epsilon: Fraction) -> Winner:
    universe = target.task.learner.universe
    if target.model is Model.LOCAL:
        local = ChunkedHadamard(universe.bits, keep_probability(epsilon), width_of_reports(universe.bits))
        return lambda items, rng: local_winner(local, items, rng)
    shuffle = shuffled_selection(epsilon, target.delta, universe.size, universe.bits, n)
    return lambda items, rng: shuffle_winner(shuffle, items, rng)


def local_winner(select: ChunkedHadamard, items: Ints, rng: np.random.Generator) -> int | None:
    """What :func:`privpac.protocols.analyzer.decode_reports` says of one drawn report each; an item below 0 is nothing
    to say."""
    n, spectra, sizes = len(items), [], []
    chunks, truth, coin = rng.integers(0, select.chunks, n), rng.random(n) < float(select.keep), rng.integers(0, 2, n)
    for chunk in range(select.chunks):
        mine, size = chunks == chunk, 1 << select.width_of(chunk)
        values = (items[mine] >> (chunk * select.width)) & (size - 1)
        j = rng.integers(0, size, len(values))
        sign = 1 - 2 * (np.bitwise_count(j & values) & 1).astype(np.int64)
        told = np.where(items[mine] < 0, 2 * coin[mine] - 1, np.where(truth[mine], sign, -sign))
        spectra.append(walsh_hadamard(np.bincount(j, weights=told, minlength=size).astype(np.int64)))
        sizes.append(len(values))
    return likeliest(select, spectra, sizes, float(CLEAR))


def shuffle_winner(select: ShuffleSelection, items: Ints, rng: np.random.Generator) -> int | None:
    """What the analyzer says of the counts of one message each and the noise of all."""
    n, width = len(items), select.width
    chunk = rng.integers(0, select.chunks, n)
    places = items if width == 0 else (chunk << width) | ((items >> (chunk * width)) & ((1 << width) - 1))
    counts = rng.negative_binomial(float(select.share * n), 1 - float(select.p), select.buckets)
    counts += np.bincount(np.where(items < 0, select.null, places), minlength=select.buckets)
    return decode_counts(select, counts.tolist(), n, float(CLEAR))


@lru_cache(maxsize=64)
def _named(target: AgreementTarget, m: int, i: int) -> tuple[Ints, Callable[[int | None], float]]:
    """The items of some people under one public seed (-1: nothing to say), and the excess error of what may be
    released."""
    concept = modelled_concept(target)
    assert concept is not None
    people = standard_population(concept, records_per_user=m, noise=DEFAULT_NOISE)
    assert people is not None
    value, default = error_by_rule(AgreementLearner(people.concept, target.epsilon), people), default_excess(people)
    assert value is not None
    task, seed = target.task, hashlib.sha256(b"privpac plan %d" % i).digest()
    # A device with fewer records than the protocol asks for has nothing to say.
    columns = {f"x{c}": Integers(0, size - 1) for c, size in enumerate(task.sizes)}
    fewest = LocalProtocol(task.kind, columns, Fraction(1)).min_records or 1
    size = task.learner.universe.size

    def excess(number: int | None) -> float:
        return default if number is None or number >= size else float(value(number))

    if m < fewest:
        return np.full(1, -1, np.int64), excess
    data: Any = people.draw(PEOPLE, np.random.default_rng([7, i]))
    x, y = np.stack([data.codes[name] for name in data.codes], axis=1), data.labels.astype(np.int64)
    named = (task.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(data.offsets.tolist()))
    return np.array(
        [-1 if item is None else task.learner.universe.number(item) for item in named], dtype=np.int64
    ), excess
