"""Learning by agreement as something to plan for, in three trust models: users for the plurality, records for the
agreement.

===========  =========================================  ======================================  ===================
model        who runs it                                selection                               relation
===========  =========================================  ======================================  ===================
``central``  ``AgreementLearner``, ``CentralProtocol``  stable histogram, or pure (delta = 0)   add-remove, replace
``local``    ``LocalProtocol``                          Hadamard reports, in chunks or not      replace
``shuffle``  ``ShuffleProtocol``                        shuffled counts, in chunks or not       replace
===========  =========================================  ======================================  ===================

Two rows for each model.  *Certified*: records per user are a requirement, mostly a very large one ((30/beta)**2, the
price of one public seed); below it nothing is certified.  *If 9 in 10 users agree*: the same number of users on the
assumption that agreement has been measured, on public or made-up people with fewer records.  Noise parameters are those
that the protocols themselves publish.

*Lower bound*: ``N`` rules of the class, each with a law of records for which no rule can be accurate on two of them,
force ``N p0(n) <= 1`` (:func:`privpac.bounds.lower_agreement_packing`) for any learner that names rules of the class,
in every model and for any number of records.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from attrs import field, frozen

from privpac.arrays import Ints
from privpac.data import Domain, Integers
from privpac.device.correlated_sampling import ln_up, rate
from privpac.device.randomizers import MAX_CAP, ChunkedHadamard, ShuffleSelection, cap_price, least_cap
from privpac.device.scores import IntervalScores, RaceLearner, walsh_hadamard
from privpac.device.statistical_queries import query_records
from privpac.device.tasks import Task
from privpac.errors import InfeasibleError, ManifestError, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Model, Neighbours, one_of
from privpac.law import BOTTOM
from privpac.lower_bounds import gilbert_varshamov
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import StableHistogram, vote_decay
from privpac.methods.agreement.agreement_learner import (
    AgreedRule,
    AgreedRules,
    AgreementLearner,
    kind_of,
    own_parameters,
    task_of,
)
from privpac.methods.agreement.plurality import (
    CLEAR,
    lower_agreement_packing,
    lower_agreement_representation,
    plan_race,
    users_histogram,
    users_local,
    users_local_chunks,
    users_plurality,
    users_shuffle,
    users_shuffle_chunks,
)
from privpac.methods.expected_error import error_by_rule
from privpac.methods.planned import (
    MOST,
    Asked,
    CertifiedRun,
    OutOfReach,
    PlanView,
    Target,
    feature_words,
    learn_words,
    option_words,
    read_goal,
)
from privpac.methods.registry import Choice, PlannedMethod, setting_text
from privpac.methods.simulation import Draws, Simulation, fixed_draws
from privpac.parameters import DEFAULT_BETA
from privpac.protocols.analyzer import decode_counts, likeliest
from privpac.protocols.calibrate import ShuffleNoise, calibrate
from privpac.protocols.protocol import LocalProtocol, Protocol, ShuffleProtocol
from privpac.rules.base import RULES, ConceptClass, Frozen
from privpac.rules.named import rule_class
from privpac.rules.populations import DEFAULT_NOISE, Population, standard_population
from privpac.sample_size import Certificate

# Users of a plurality of which nine in ten name one item, and the noise of a shuffled run: as the protocols themselves
# publish them.


_POWER, _LAST_POWER = 10, 20


_MOST_SHUFFLED = 10
"""The largest epsilon of which a shuffled run makes use."""


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


# The certified rows of agreement as learners: with a curator one of ``learn``, without one a protocol.
#
# *Certified* rows run the stable learner with the certified parameters (a race's ``Gamma``, a ``grid``), rows on the
# assumption that nine in ten people agree run the task as it was given.  Devices of the protocols speak from as many
# records on as the plan is for.


def agreement_run(
    target: AgreementTarget, task: Task, m: int, certificate: Certificate, n_users: int | None
) -> CertifiedRun:
    """The run of a certified row by one task, for ``n_users`` where they are known: a shuffled run admits them all, and
    all of them make the noise."""
    given, columns = dict(task.parameters), _columns(target)
    source = ["--rule", task.kind, *feature_words(columns)]
    if target.model is Model.CENTRAL:
        told: dict[str, Any] = (
            {"beta": CLEAR} | ({"delta": target.delta} if target.delta else {}) | ({"task": given} if given else {})
        )
        concept = AgreedRules(task.kind, columns) if target.concept is None else target.concept

        def learn() -> AgreementLearner:
            return AgreementLearner(concept, target.epsilon, neighbours=target.neighbours, **told)

        words = learn_words(source, target.epsilon, target.neighbours, "agreement", told)
        return CertifiedRun("agreement", certificate.n_users, told, learn, lambda: words)
    shape: dict[str, Any] = {"width": width_of_reports(task.learner.universe.bits)}
    epsilon = target.epsilon
    if target.model is Model.SHUFFLE:
        if n_users is not None:
            certificate = target.shuffled(n_users)
            if certificate.n_users is None or certificate.n_users > n_users:
                raise ParameterError(
                    f"a run that lets {n_users} clients take part certifies nothing at this epsilon; plan for a larger "
                    "one"
                )
        # The certificate may be that of a smaller epsilon, which promises more.
        epsilon, most = certificate["epsilon"], certificate["n_max"]
        shape = {
            "delta": target.delta,
            "n_min": n_users or certificate.n_users,
            "n_max": most,
            "width": certificate["width"],
        }
    kind: type[Any] = LocalProtocol if target.model is Model.LOCAL else ShuffleProtocol
    usual: int = LocalProtocol(task.kind, columns, target.epsilon, task=given).min_records or 1
    shape |= {"min_records": min(m, usual), "beta": CLEAR}

    def build() -> Protocol:
        run: Protocol = kind(task.kind, columns, epsilon, task=given, **shape)
        return run

    def command() -> list[str]:
        new = [
            "protocol",
            "new",
            "RUN.json",
            "--model",
            str(target.model),
            *source,
            "--label",
            "LABEL",
            "--epsilon",
            setting_text(epsilon),
        ]
        if target.model is Model.SHUFFLE:  # a shuffled run is sealed: privpac protocol keys ANALYZER
            new += ["--key", "ANALYZER.pub"]
        new += ["--sign", "COORDINATOR.key"]  # privpac protocol keys COORDINATOR --coordinator
        return [
            *new,
            *option_words(shape),
            *(word for name, value in given.items() for word in ("--set", f"{name}={value}")),
        ]

    return CertifiedRun(
        f"{target.model} protocol", certificate.n_users, shape | ({"task": given} if given else {}), build, command
    )


def _columns(target: AgreementTarget) -> Mapping[str, Domain]:
    """The columns of the class, or invented ones of the right sizes."""
    if target.concept is None:
        return {f"x{i}": Integers(0, size - 1) for i, size in enumerate(target.task.sizes)}
    return {name or "x": domain for name, domain in target.concept.declared().items() if domain is not None}


# What learning by agreement is predicted to do on the standard model of its class, with a curator: the exact law of
# the plurality.
#
# The people of the model name rules by one public seed each time; where the plurality is not clear the public default
# stands in.  The other trust models count the same votes with more noise and have no exact law: their runs are drawn
# (:mod:`privpac.protocols.agreement_plan`).


MOST_USERS, MOST_RECORDS = 1 << 10, 1 << 18
_NAMED, SEEDS = 16, 8


def agreement_simulations(target: AgreementTarget) -> list[AgreementSimulation]:
    """With a curator, of a class that has a standard model and rules that can be listed; else nothing.

    >>> from privpac.rules import Thresholds
    >>> [made.method for made in agreement_simulations(agreement_target(Thresholds(Integers(0, 99)), epsilon=1))]
    ['central agreement']
    """
    law = modelled_law(target)
    return [] if law is None else [AgreementSimulation(target, law)]


def modelled_law(target: AgreementTarget) -> str | None:
    """The standard model of a class whose rules can be listed, in words; None where there is none."""
    concept = modelled_concept(target)
    people = None if concept is None else standard_population(concept, records_per_user=_NAMED, noise=DEFAULT_NOISE)
    if people is None:
        return None
    learner = AgreementLearner(people.concept, target.epsilon, delta=target.delta)
    return None if error_by_rule(learner, people) is None else people.for_any_records


@frozen(slots=False)
class AgreementSimulation(Simulation):
    """Agreement on the standard model."""

    target: AgreementTarget
    law: str

    first: ClassVar[int] = 2 * SEEDS
    most_runs: ClassVar[int] = 16 * SEEDS
    strata: ClassVar[int] = SEEDS
    fine: ClassVar[int] = 8

    @property
    def method(self) -> str:
        return "central agreement"

    @property
    def model(self) -> str:
        return f"{self.law}, under {SEEDS} fixed public seeds"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The mean excess error over the law of the released rule; every run has drawn people of its own."""
        if n_users > MOST_USERS or n_users * records_per_user > MOST_RECORDS:
            return None
        return lambda i: _excess(self.target, records_per_user, n_users, epsilon, i)

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 8, MOST_USERS


def _excess(target: AgreementTarget, m: int, n: int, epsilon: Fraction, i: int) -> float:
    people, value, default = _modelled(target, m)
    learner = AgreementLearner(people.concept, epsilon, delta=target.delta, neighbours=target.neighbours)
    votes = Counter(number for number in _named(target, m, i, 1 << (n - 1).bit_length())[:n] if number is not None)
    mean = 0.0
    for cell, number in learner.selector(target.task).law(dict(votes)).as_finite().cells:
        each = float(number.arb())
        # Without a clear plurality the public default is released.
        mean += each * (
            default if cell is BOTTOM else sum(map(value, cell)) if isinstance(cell, range) else value(cell)
        )
    return mean


@lru_cache(maxsize=64)
def _modelled(target: AgreementTarget, m: int) -> tuple[Population, Callable[[Any], float], float]:
    concept = modelled_concept(target)
    assert concept is not None
    people = standard_population(concept, records_per_user=m, noise=DEFAULT_NOISE)
    assert people is not None
    value = error_by_rule(AgreementLearner(people.concept, target.epsilon), people)
    assert value is not None
    return people, value, default_excess(people)


@lru_cache(maxsize=1024)
def _named(target: AgreementTarget, m: int, i: int, n: int) -> list[int | None]:
    """The items of the first ``n`` people of run ``i``, under its public seed."""
    people, task = _modelled(target, m)[0], target.task
    seed = hashlib.sha256(b"privpac plan %d" % (i % SEEDS)).digest()
    data: Any = people.growing((7, i))(n)
    x, y = np.stack([data.codes[name] for name in data.codes], axis=1), data.labels.astype(np.int64)
    named = (task.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(data.offsets.tolist()))
    return [None if item is None else task.learner.universe.number(item) for item in named]


def default_excess(people: Population) -> float:
    """Of the public default."""
    columns = {
        name: domain for name, domain in people.concept.declared().items() if name is not None and domain is not None
    }
    task = task_of(kind_of(people.concept), columns, own_parameters(people.concept))
    rule = AgreedRule(task.kind, Frozen(tuple(columns.items())), task.default, task.parameters)
    return float(people.error(rule.predict_codes(people.points))) - people.best_error


def modelled_concept(target: AgreementTarget) -> ConceptClass | None:
    """The class of the task, as far as its kind and its columns say all of it."""
    if target.task.kind not in RULES or dict(target.task.parameters):
        return None
    try:
        return rule_class(
            target.task.kind, {f"x{i}": Integers(0, size - 1) for i, size in enumerate(target.task.sizes)}
        )
    except (ParameterError, TooLargeError):
        return None


# What agreement without a curator is predicted to do on the standard model of its class: votes drawn, noise drawn,
# decoded.
#
# For each of a few public seeds some drawn people name items; they stand for all, so that thousands of users cost no
# more than their noise. A run draws the votes of ``n`` users among them and the noise that the protocol would add, and
# decodes as the analyzer does:
#
# * local: one report each, through the protocol's own ``keep``, by one Walsh-Hadamard transform for each chunk;
# * shuffle: counts with ``NB(r, p)`` noise in every bucket, the ``r`` and ``p`` of a run with ``n_min = n``.
#
# Messages are not written and read again: nothing is lost or forged on the way.  People with fewer records than the
# protocol's ``min_records`` have nothing to say, and where nothing stands out from the noise the public default is
# released.  Everything is seeded, so the same question has the same answer.


Winner = Callable[[Ints, Draws], int | None]
PEOPLE, PROTOCOL_SEEDS = 64, 8
MOST_PROTOCOL_USERS, MOST_PROTOCOL_RECORDS = 1 << 16, 1 << 18


def protocol_simulations(target: AgreementTarget) -> list[ProtocolSimulation]:
    """The local or shuffle model of a class that has a standard model and rules that can be listed; else nothing."""
    law = modelled_law(target)
    return [] if law is None else [ProtocolSimulation(target, law)]


@frozen(slots=False)
class ProtocolSimulation(Simulation):
    """Agreement in the local or shuffle model."""

    target: AgreementTarget
    law: str

    first: ClassVar[int] = 4 * PROTOCOL_SEEDS
    most_runs: ClassVar[int] = 160 * PROTOCOL_SEEDS
    worst: ClassVar[float] = 0.5
    strata: ClassVar[int] = PROTOCOL_SEEDS

    @property
    def method(self) -> str:
        return f"{self.target.model} agreement"

    @property
    def model(self) -> str:
        return f"{self.law}, {PEOPLE} of them standing for all, under {PROTOCOL_SEEDS} fixed public seeds"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The excess error of what is released; None where that is too much to simulate, or no run is possible."""
        if n_users > MOST_PROTOCOL_USERS or PEOPLE * records_per_user > MOST_PROTOCOL_RECORDS:
            return None
        try:
            winner = _winner(self.target, n_users, epsilon)
        except (ParameterError, TooLargeError):
            return None

        def excess(i: int) -> float:
            items, value = _protocol_named(self.target, records_per_user, i % PROTOCOL_SEEDS)
            rng = fixed_draws(17, i, n_users)
            return value(winner(items[rng.integers(0, len(items), n_users)], rng))

        return excess

    def between(self, records_per_user: int) -> tuple[int, int]:
        if PEOPLE * records_per_user > MOST_PROTOCOL_RECORDS:
            return 1, 0
        try:
            needed = self.target.users(records_per_user).n_users
        except (ParameterError, TooLargeError):
            needed = None
        silent = bool((_protocol_named(self.target, records_per_user, 0)[0] < 0).all())
        # If nobody has anything to say, more of them say no more.
        return 256 if needed is None else max(16, needed // 2), 1 if silent else MOST_PROTOCOL_USERS


def _winner(target: AgreementTarget, n: int, epsilon: Fraction) -> Winner:
    universe = target.task.learner.universe
    if target.model is Model.LOCAL:
        local = ChunkedHadamard(universe.bits, keep_probability(epsilon), width_of_reports(universe.bits))
        return lambda items, rng: local_winner(local, items, rng)
    shuffle = shuffled_selection(epsilon, target.delta, universe.size, universe.bits, n)
    return lambda items, rng: shuffle_winner(shuffle, items, rng)


def local_winner(select: ChunkedHadamard, items: Ints, rng: Draws) -> int | None:
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


def shuffle_winner(select: ShuffleSelection, items: Ints, rng: Draws) -> int | None:
    """What the analyzer says of the counts of one message each and the noise of all."""
    n, width = len(items), select.width
    chunk = rng.integers(0, select.chunks, n)
    places = items if width == 0 else (chunk << width) | ((items >> (chunk * width)) & ((1 << width) - 1))
    counts = rng.negative_binomial(float(select.share * n), 1 - float(select.p), select.buckets)
    counts += np.bincount(np.where(items < 0, select.null, places), minlength=select.buckets)
    return decode_counts(select, counts.tolist(), n, float(CLEAR))


@lru_cache(maxsize=64)
def _protocol_named(target: AgreementTarget, m: int, i: int) -> tuple[Ints, Callable[[int | None], float]]:
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
    data: Any = people.draw(PEOPLE, fixed_draws(7, i))
    x, y = np.stack([data.codes[name] for name in data.codes], axis=1), data.labels.astype(np.int64)
    named = (task.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(data.offsets.tolist()))
    return np.array(
        [-1 if item is None else task.learner.universe.number(item) for item in named], dtype=np.int64
    ), excess


_RACES = ("threshold", "threshold-below", "stump", "point", "interval", "parity")
_QUERIES = ("conjunction", "disjunction")
_MAX_CODE = 1 << 12


class Stability(NamedTuple):
    """A task with certified parameters, the records per user at which nine in ten agree, and whether labels may be
    noisy."""

    task: Task
    records: int
    agnostic: bool


@frozen(slots=False)
class AgreementTarget(Target):
    """What is wanted of a rule named by agreement: excess error at most ``alpha`` with probability ``1 - beta``.

    ``dimension``: the class's probabilistic representation dimension in bits, if known; it enters the lower bound.
    """

    task: Task
    model: Model
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    dimension: Fraction | None = None
    concept: ConceptClass | None = field(default=None, eq=False)
    """The class with its columns, where one was given."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = []
        name = f"{self.model} agreement"
        promised = _races(self.task) or (self.task.kind in _QUERIES and setting != "agnostic")
        if promised:
            labels = "" if _races(self.task) else ", labels right"
            law = f", which is certified for independent records from one law{labels}"
            lines.append(self._line(name, self.certified, law, True))
        enough = ", and it is as accurate as wanted"
        agreed = f"{name}, if 9 in 10 users agree"
        lines.append(self._line(agreed, self.users, enough, False))
        if self.dimension is not None or self.tasks > 1:
            lines.append(PlannedMethod("any private learner naming such rules", self.lower, kind="lower bound"))
        return lines

    def _line(self, name: str, certify: Callable[[int], Certificate], assumes: str, proved: bool) -> PlannedMethod:
        key, laws = ("agreement proved", "stability_claim") if proved else ("agreement measured", "agreement_claim")
        run = partial(self._run, proved)
        laws = f"privpac.auditing.vote_laws:{laws}"
        return PlannedMethod(name, certify, assumes, run=run, key=key, hard_laws=laws)

    def _run(self, proved: bool, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """The learner, or the protocol: the stable one where agreement itself is proved, else the task as given."""
        return agreement_run(self, self.stability.task if proved else self.task, m, certificate, asked.n_users)

    def certain_if(self, setting: str | None) -> str:
        return "under the assumption below"

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*(agreement_simulations if self.model is Model.CENTRAL else protocol_simulations)(self)]

    def quick(self, plan: PlanView) -> bool:
        few = len(plan.records_per_user) == 1 or self.model is not Model.CENTRAL
        return few and plan.quantity != "epsilon"

    @property
    def shown(self) -> dict[str, str]:
        """The class and the model in words, for a title."""
        columns = len(self.task.sizes)
        return {"rule": f"{self.task.kind} on {columns} column{'s' if columns > 1 else ''}", "model": str(self.model)}

    @property
    def note(self) -> str:
        words = []
        if not _races(self.task) and self.task.kind not in _QUERIES:
            words.append(f"no accuracy is proved for {self.task.kind} by agreement: measure it on public people")
        if self.model is Model.LOCAL and self.delta > 0:
            words.append("local reports are pure: delta is not used")
        words.append(
            f"where no two people agree a rule is released with probability at most {CLEAR}, else the public default"
        )
        return "; ".join(words)

    def recommend(self, plan: PlanView) -> Choice:
        return self.advice(plan.asked.n_users if plan.asked else None, plan.records_per_user[plan.place])

    def advice(self, n_users: int | None, records_per_user: int) -> Choice:
        """Agreement in this model, and what must be measured before: the certified records are out of reach for most
        people."""
        try:
            needed = self.users(records_per_user).n_users
        except (ParameterError, TooLargeError) as error:
            return Choice("agreement", f"but no number of users is known to do: {error}")
        short = (
            "" if n_users is None or needed is None or n_users >= needed else f", more than the {n_users:,} there are"
        )
        words = [f"{'no number of' if needed is None else f'{needed:,}'} users name the rule if 9 in 10 agree{short}"]
        words.append(
            f"measure first, on public or made-up people with {records_per_user:,} records each, how many agree"
        )
        if self.model is Model.CENTRAL:
            words.append("a curator who may see the records needs no agreement: plan the class without a model")
        return Choice("agreement", "; ".join(words))

    # Records

    @property
    def stability(self) -> Stability:
        """The certified parameters; ``InfeasibleError`` where the task's own ones certify nothing, or no accuracy is
        proved."""
        return _stability(self.task, self.alpha, self.beta)

    def certified(self, m: int) -> Certificate:
        """Users, if ``m`` records are enough for certified agreement."""
        records = self.stability.records
        if records > MOST:
            raise OutOfReach("records of each person")
        if m < records:
            raise InfeasibleError(f"needs {records:,} records per user for agreement")
        return self.users(m)

    # Users

    def users(self, m: int) -> Certificate:
        """Users for the plurality, if nine in ten name the same item."""
        find = {Model.CENTRAL: self._central, Model.LOCAL: self._local, Model.SHUFFLE: self._shuffle}[self.model]
        return find()

    def _central(self) -> Certificate:
        if self.delta == 0:
            return central_users(
                1 / vote_decay(self.epsilon, self.neighbours), self.task.learner.universe.size, self.beta
            )
        return users_histogram(
            StableHistogram(self.epsilon, delta=self.delta, neighbours=self.neighbours).K, beta=self.beta, named=2
        )

    def _local(self) -> Certificate:
        bits, keep, told = (
            self.task.learner.universe.bits,
            keep_probability(self.epsilon),
            {"beta": self.beta, "clear": CLEAR},
        )
        width = width_of_reports(bits)
        # The transform runs over all values of so many bits, rules or not.
        return users_local(keep, 1 << bits, **told) if width >= bits else users_local_chunks(keep, bits, width, **told)

    def _shuffle(self) -> Certificate:
        return self.shuffled(1)

    def shuffled(self, clients: int) -> Certificate:
        """Users of a run that lets so many clients take part.

        For an epsilon so large that clients could not make the noise, a run with less promises more and will do; and
        noise is made of whole messages, so that a little more epsilon may need a user more.  From 4 on the best of all
        halves up to epsilon is taken: more budget then has all the choices that less has.
        """
        universe, beta = self.task.learner.universe, self.beta
        halves = range(min(math.floor(2 * self.epsilon), 2 * _MOST_SHUFFLED), 7, -1)
        found: list[Certificate] = []
        refused = InfeasibleError("no shuffled run is possible")
        for epsilon in [Fraction(half, 2) for half in halves] or [self.epsilon]:
            try:
                found.append(shuffled_users(epsilon, self.delta, beta, universe.size, universe.bits, clients))
            except InfeasibleError as error:
                refused = error
        if not found:
            raise refused
        return min(found, key=lambda each: math.inf if each.n_users is None else each.n_users)

    # What nobody can beat

    @property
    def tasks(self) -> int:
        """How many rules of the class have laws on which no rule is accurate for two of them."""
        return min(_packing(self.task.kind, self.task.sizes, self.alpha), self.task.learner.universe.size, 1 << 999)

    def lower(self, m: int) -> Certificate:
        """The larger of the packing and, if the dimension is known, the representation bound."""
        told: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "beta": self.beta}
        found = [lower_agreement_packing(self.tasks, **told)]
        if self.dimension is not None:
            # Stated for failure 1/4 of the representation, and the class's dimension at the accuracy wanted.
            found.append(lower_agreement_representation(self.dimension, **told))
        return max(found, key=lambda c: math.inf if c.n_users is None else c.n_users)


def agreement_target(
    what: Task | ConceptClass,
    *,
    model: Model | str = Model.CENTRAL,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational = "0.05",
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str | None = None,
    dimension: Rational | None = None,
) -> AgreementTarget:
    """What to plan for: rules of a class with its domains (or a ``Task``), named by agreement in a trust model.

    ``neighbours`` is add-remove in the central model unless given, and replace in the others.

    >>> target = agreement_target(Task("threshold", (1023,)), epsilon=1, delta="1e-6", beta="0.1")
    >>> {method.name: method.certify(1000).n_users for method in target.methods()[1:]}
    {'central agreement, if 9 in 10 users agree': 47, 'any private learner naming such rules': 7}
    """
    trust = one_of(Model, model, "model")
    relation = (
        (Neighbours.ADD_REMOVE if trust is Model.CENTRAL else Neighbours.REPLACE) if neighbours is None else neighbours
    )
    relation = one_of(Neighbours, relation, "neighbours")
    if trust is not Model.CENTRAL and relation is not Neighbours.REPLACE:
        raise ParameterError(
            f"the {trust} model protects the report of a person who takes part: neighbours must be 'replace'"
        )
    goal = read_goal(epsilon, alpha, beta, relation, delta)
    if trust is Model.SHUFFLE and goal["delta"] == 0:
        raise ParameterError("the shuffle model needs delta > 0; give a delta such as 1e-6")
    return AgreementTarget(
        _task_of(what),
        trust,
        **goal,
        dimension=None if dimension is None else rational(dimension, "dimension", minimum=0),
        concept=what if isinstance(what, ConceptClass) else None,
    )


def _task_of(what: object) -> Task:
    if isinstance(what, Task):
        return what
    if not isinstance(what, ConceptClass):
        raise TypeError(
            f"give a class of rules such as Thresholds(Integers(0, 100)) or a Task, got {type(what).__name__}"
        )
    kind, domains = kind_of(what), list(what.declared().values())
    if not domains or any(domain is None for domain in domains):
        raise ParameterError(
            f"{type(what).__name__} needs the domain of every column to be planned, such as Thresholds(Integers(0, "
            "100))"
        )
    return Task(
        kind, tuple(domain.size for domain in domains if domain is not None), tuple(own_parameters(what).items())
    )


# Records for agreement


def _races(task: Task) -> bool:
    """Whether all rules of the class itself run in a race: other learners, and coarser cells, are not certified."""
    if task.kind not in _RACES or not isinstance(task.learner, RaceLearner):
        return False
    scores = task.learner.scores
    return not isinstance(scores, IntervalScores) or scores.cells == scores.size


def _stability(task: Task, alpha: Fraction, beta: Fraction) -> Stability:
    if _races(task):
        return _race(task, alpha, beta)
    if task.kind not in _QUERIES:
        raise InfeasibleError(f"no accuracy is proved for {task.kind} by agreement")
    given, literals = dict(task.parameters), 2 * len(task.sizes)
    kept = int(given.get("keep_at_most", 0)) + 1
    # A literal kept by mistake is 0 on less than kept/I of the records, and there are so many literals.
    grid = int(given.get("grid", math.ceil(literals * kept / alpha)))
    if literals * kept > grid * alpha:
        raise InfeasibleError(
            f"a grid of {grid} promises error {literals * kept}/{grid} only; take {math.ceil(literals * kept / alpha)}"
        )
    made = Task(task.kind, task.sizes, tuple({**given, "grid": grid}.items()))
    return Stability(made, query_records(literals, grid, beta), False)


def _race(task: Task, alpha: Fraction, beta: Fraction) -> Stability:
    given, size = dict(task.parameters), task.learner.universe.size
    least = plan_race(size, alpha, beta)
    if "Gamma" not in given:
        return Stability(
            Task(task.kind, task.sizes, tuple({**given, "Gamma": least.Gamma}.items())), least.records, True
        )
    assert isinstance(task.learner, RaceLearner)
    own = task.learner.Gamma
    if own < least.Gamma:
        raise InfeasibleError(f"Gamma = {own} is too slow a race for this alpha; take at least {least.Gamma}")
    # The records of ``plan_race`` at the task's own rate, rounded up.
    gamma = Fraction(own + 1, rate(1))
    records = gamma**2 * ln_up(Fraction(2 * size)) / 2 * (30 / beta) ** 2
    return Stability(task, math.ceil(records), True)


# Targets that exclude each other


def _packing(kind: str, sizes: tuple[int, ...], alpha: Fraction) -> int:
    """Rules with laws on which no rule of the class (for the last three kinds: no rule at all) errs on at most
    ``alpha`` of two.

    Cuts and points: all mass on the one or two values that only one rule explains.  Stumps: the same, other columns
    fixed, so that rules of other columns are constant there.  Conjunctions that fix every column: half on the point
    that fulfils it, the rest on its neighbours; a good one accepts the point and has all but a share ``2 alpha`` of the
    literals, so two at a distance of more than ``2 alpha d`` have none in common.  Parities and single literals (with
    the constants): uniform records, pairwise difference 1/2.
    """
    d, half = len(sizes), alpha < Fraction(1, 2)
    if kind == "hashed-point":
        return 2  # one bucket may be right for many values
    if kind == "point":
        return sizes[0]
    if kind == "interval":
        return 2 if half else 1  # one value, all labels 1 or all 0
    if kind in ("threshold", "threshold-below"):
        return sizes[0] + 1 if half else 1
    if kind == "stump":
        return 2 * sum(size - 1 for size in sizes) + 2 if half else 1
    if kind in ("conjunction", "disjunction"):
        return gilbert_varshamov(d, math.floor(2 * alpha * d) + 1) if half and d <= _MAX_CODE else 1
    if kind == "naive-bayes" or alpha >= Fraction(1, 4):
        return 1
    return 1 << d if kind == "parity" else 2 * d + 2
