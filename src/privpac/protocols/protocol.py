"""A run over data that stay with the people: parameters in, a manifest out, one client for each person, one analysis.

Every person's device turns its own records into one item with a public seed (:mod:`privpac.device`) and sends a
noisy trace of it; the item named most often is found from all traces.

| class | who sees what | guarantee |
|---|---|---|
| ``LocalProtocol`` | every message is private by itself | ``epsilon``, one person's report for another |
| ``ShuffleProtocol`` | a shuffler mixes the messages of all | ``(epsilon, delta)``, replace, ``n_min`` honest clients |
| ``CentralProtocol`` | the curator sees items only | ``(epsilon, delta)`` or ``epsilon``, add-remove or replace |

**Guarantee.**  Known before anything is sent, a function of public numbers only, and recomputed by every client from
the manifest. ``n_min`` is the number of *honest* clients expected at least; ``n_max`` bounds those accepted.  The seed
is drawn from the system when the parameters have been checked (or given: a public beacon); it needs no secrecy.
Stability, records and labels matter for accuracy only.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, fields, frozen

from privpac.device.client import Client
from privpac.device.correlated_sampling import MAX_DENOMINATOR, check_seed
from privpac.device.keys import AnalyzerKey
from privpac.device.manifest import VERSION, Manifest
from privpac.device.randomizers import MAX_CAP, ShuffleSelection, cap_price, least_cap
from privpac.device.tasks import Task
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ManifestError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Model, Neighbours, Unit, one_of, positive_int
from privpac.mechanisms.randomized_response import keep_probability
from privpac.methods.agreement.agreement_learner import need_ordered_columns
from privpac.methods.agreement.plurality import CLEAR
from privpac.parameters import read_epsilon
from privpac.protocols.analyzer import (
    Analysis,
    Submissions,
    analyze_central,
    analyze_local,
    analyze_shuffled,
    without_promise,
)
from privpac.protocols.calibrate import calibrate
from privpac.protocols.domains import device_columns_of
from privpac.protocols.shuffler import Shuffler
from privpac.result import Released
from privpac.rng import Rng, secret_rng
from privpac.rules.base import Frozen
from privpac.rules.enumerated import named_domains

if TYPE_CHECKING:
    from privpac.data import Domain, UserData

_GAMMA_ONE = 1586259972792  # the published rate of gamma = 1
_FEWEST = 20


@frozen(slots=False)
class Protocol(ABC):
    """What the protocols share.

    Parameters
    ----------
    rule : str
        A kind of rule (:data:`privpac.device.tasks.KINDS`).
    features : mapping of names to domains
        The columns that devices read.
    epsilon : number
        The privacy loss of a person.
    label : str
        What is predicted.
    task : mapping
        Public parameters of the stable learner (``{"Gamma": rate(60)}``, ``{"grid": 20}``).
    min_records, max_records : int, optional
        A device with fewer valid records (20, or gamma if that is larger) has nothing to say; it reads at most so many.
    seed : bytes, optional
        32 public bytes; drawn from the system when left out.
    beta : number
        Where no two people agree a rule is released with at most this probability.
    analyzer : bytes, optional
        The public key to which messages are sealed; without one they are not, as in a simulation, and devices refuse
        shuffled and central runs.
    """

    rule: str
    features: Mapping[str, Domain]
    epsilon: Fraction
    label: str = "label"
    task: Mapping[str, int | str] = field(factory=dict, kw_only=True)
    min_records: int | None = field(default=None, kw_only=True)
    max_records: int | None = field(default=None, kw_only=True)
    seed: bytes | None = field(default=None, kw_only=True)
    beta: Fraction = field(default=CLEAR, kw_only=True)
    analyzer: bytes | None = field(default=None, kw_only=True)

    model: ClassVar[Model]

    def __attrs_post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", read_epsilon(self.epsilon))
        put(self, "beta", rational(self.beta, "beta", above=0, below=1))
        put(self, "features", named_domains(self.features, "features"))
        if any(domain is None for domain in self.features.values()):
            raise ParameterError("every feature of a protocol needs a domain: nobody sees the data who could find one")
        need_ordered_columns(self.rule, self.features)
        # A drawn representation has fresh public coins, unless given.
        coins = {"coins": secrets.token_hex(32)} if self.rule == "hashed-point" else {}
        put(self, "task", Frozen(tuple(sorted({**coins, **dict(self.task)}.items()))))
        rate = int(getattr(self._task_of(1, MAX_DENOMINATOR).learner, "Gamma", 0))
        fewest = max(_FEWEST, (rate + _GAMMA_ONE // 2) // _GAMMA_ONE) if self.min_records is None else self.min_records
        put(self, "min_records", positive_int(fewest, "min_records"))
        most = MAX_DENOMINATOR if self.max_records is None else self.max_records
        put(self, "max_records", positive_int(most, "max_records", maximum=MAX_DENOMINATOR))
        if self.max_records < self.min_records:  # type: ignore[operator]
            raise ParameterError("max_records must be at least min_records, or nobody could take part")
        if self.analyzer is not None and (not isinstance(self.analyzer, bytes) or len(self.analyzer) != 32):
            raise ParameterError("the analyzer's public key has 32 bytes")
        self._check()
        _ = self._task, self._mechanism
        # Only now: parameters chosen after the seed could be chosen for it.
        put(self, "seed", check_seed(secrets.token_bytes(32) if self.seed is None else self.seed))
        _ = self.manifest

    @abstractmethod
    def _check(self) -> None:
        """Parameters of its own."""

    @cached_property
    @abstractmethod
    def _mechanism(self) -> dict[str, int | str]:
        """The mechanism's entry in the manifest."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, known before anything is sent."""
        delta, neighbours = getattr(self, "delta", 0), getattr(self, "neighbours", Neighbours.REPLACE)
        return Guarantee(self.epsilon, delta, unit=Unit.USER, neighbours=neighbours, model=self.model)

    def _task_of(self, fewest: int, most: int) -> Task:
        sizes = tuple(column.size for column in device_columns_of(self.features))
        return Task(self.rule, sizes, tuple(self.task.items()), fewest, most)

    @cached_property
    def _task(self) -> Task:
        return self._task_of(self.min_records or 1, self.max_records or MAX_DENOMINATOR)

    # Running

    @cached_property
    def manifest(self) -> Manifest:
        """Everything that is fixed and published before anyone reads their data."""
        assert self.seed is not None
        promised, task = self.guarantee, self._task
        claim = {name: str(getattr(promised, name)) for name in ("epsilon", "delta", "neighbours", "unit")}
        try:
            return Manifest(
                {
                    "v": VERSION,
                    "protocol": str(self.model),
                    "rule": task.kind,
                    # Integers beyond 2**53 travel as text.
                    "parameters": {name: str(value) if name == "Gamma" else value for name, value in task.parameters},
                    "features": [column.write() for column in device_columns_of(self.features)],
                    "label": self.label,
                    "seed": self.seed.hex(),
                    "m_min": task.min_records,
                    "m_cap": task.max_records,
                    "default": task.default.hex(),
                    "beta": str(self.beta),
                    "mechanism": self._mechanism,
                    "guarantee": claim,
                    "analyzer": "" if self.analyzer is None else self.analyzer.hex(),
                }
            )
        except ManifestError as error:
            raise ParameterError(str(error)) from None

    def client(self) -> Client:
        """What a person's device runs."""
        return Client(self.manifest)

    def simulate(self, users: UserData, rng: Rng | None = None) -> Released:
        """Run every person's client in this process, then the rest of the protocol."""
        source = secret_rng(rng)
        plain = self if self.analyzer is None else evolve(self, analyzer=None)  # nothing leaves this process
        analysis = plain._run(plain._sent(users, source), source)
        return analysis.released if source.secure else without_promise(analysis.released)

    @abstractmethod
    def _run(self, sent: Submissions, rng: Rng) -> Analysis:
        """All that follows the clients."""

    def _sent(self, users: UserData, rng: Rng) -> Iterator[tuple[int, list[bytes]]]:
        if users.unit is not Unit.USER:
            raise IncompatibleGuarantees(
                "a protocol protects people, but the data are grouped per item; name the user column"
            )
        if users.labels is None:
            raise ParameterError("the users' records need labels")
        bound = users.bind({name: domain for name, domain in self.features.items() if domain is not None})
        assert bound.labels is not None
        x, y = np.stack([bound.codes[name] for name in self.features], axis=1), bound.labels.astype(np.int64)
        client = self.client()
        for i, (a, b) in enumerate(pairwise(bound.offsets.tolist())):
            yield i, client.send(client.item_of_codes(x[a:b], y[a:b]), rng)


def _chunk(bits: int, most: int) -> int:
    """Chunks of at most ``most`` bits, as equal as they come."""
    return -(-bits // -(-bits // most))


@frozen(slots=False)
class LocalProtocol(Protocol):
    """One report per person, private by itself.

    Parameters
    ----------
    width : int, optional
        The number of bits of a chunk: chosen so that one transform does for 2^20 items.

    Raises
    ------
    ParameterError
        A parameter is outside its range, or the kind of rule has no stable learner.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> run = LocalProtocol("threshold", {"age": Integers(0, 99)}, 1)
    >>> str(run.guarantee), len(run.client().messages([]))
    ('(1, 0)-DP per user, replace, local model', 1)
    """

    width: int | None = field(default=None, kw_only=True)

    model: ClassVar[Model] = Model.LOCAL

    def _check(self) -> None:
        if self.width is not None:
            positive_int(self.width, "width")

    @cached_property
    def _mechanism(self) -> dict[str, int | str]:
        bits = self._task.learner.universe.bits
        default = bits if bits <= 20 else _chunk(bits, 20) if bits <= 128 else 8
        return {"keep": str(keep_probability(self.epsilon)), "width": default if self.width is None else self.width}

    def analyze(self, submissions: Submissions, key: AnalyzerKey | None = None) -> Analysis:
        """From every client's name and messages to a rule; ``key`` opens those of a sealed run."""
        return analyze_local(self.manifest, submissions, key=key)

    def _run(self, sent: Submissions, rng: Rng) -> Analysis:
        return self.analyze(sent)


@frozen(slots=False)
class ShuffleProtocol(Protocol):
    """Messages mixed by a shuffler: noise shared by at least ``n_min`` honest clients.

    Parameters
    ----------
    delta : number
        The promise may fail with this probability.
    n_min, n_max : int
        So many honest clients take part at least, and so many clients at most.
    width : int, optional
        0 has a bucket for every item; larger universes are cut into chunks of that many bits.
    direction : {"over", "under"}
        ``"under"`` never overestimates, for at most 64 buckets.

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, or no noise of ``n_min`` clients meets the promise.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> run = ShuffleProtocol("threshold", {"age": Integers(0, 99)}, 1, delta="1e-6", n_min=500, n_max=1000)
    >>> str(run.guarantee)
    '(1, 1e-06)-DP per user, replace, shuffle model'
    """

    delta: Fraction = field(kw_only=True)
    n_min: int = field(kw_only=True)
    n_max: int = field(kw_only=True)
    width: int | None = field(default=None, kw_only=True)
    direction: str = field(default="over", kw_only=True)

    model: ClassVar[Model] = Model.SHUFFLE

    def _check(self) -> None:
        put = object.__setattr__
        put(self, "delta", rational(self.delta, "delta", above=0, below=1))
        put(self, "n_min", positive_int(self.n_min, "n_min"))
        put(self, "n_max", positive_int(self.n_max, "n_max", minimum=self.n_min, maximum=1 << 40))
        if self.width is not None:
            positive_int(self.width, "width", minimum=0, maximum=16)

    @cached_property
    def _select(self) -> ShuffleSelection:
        left = self.delta - cap_price(self.epsilon, self.n_max)
        if left <= self.delta / 1000:
            raise InfeasibleError(
                f"with n_max = {self.n_max} the cap on messages costs all of delta; choose a smaller n_max or a larger "
                "delta"
            )
        noise = calibrate(self.epsilon, left)
        universe = self._task.learner.universe
        default = 0 if universe.size <= 1024 or self.direction == "under" else _chunk(universe.bits, 9)
        width = default if self.width is None else self.width
        loose = ShuffleSelection(universe.size, noise.r, noise.p, self.n_min, MAX_CAP, width, self.direction)
        try:
            cap = least_cap(loose)
        except ManifestError as error:
            raise InfeasibleError(str(error)) from None
        return replace(loose, cap=cap)

    @cached_property
    def _mechanism(self) -> dict[str, int | str]:
        select = self._select
        noise: dict[str, int | str] = {
            "r": str(select.r),
            "p": str(select.p),
            "n_min": select.n_min,
            "n_max": self.n_max,
        }
        return {**noise, "cap": select.cap, "width": select.width, "direction": select.direction}

    @property
    def expected_messages(self) -> float:
        """What one client sends on average."""
        return float(self._select.expected_messages)

    def shuffler(self) -> Shuffler:
        """What the shuffler runs."""
        return Shuffler(self.manifest)

    def analyze(self, messages: Any, clients: int, key: AnalyzerKey | None = None) -> Analysis:
        """From the shuffled messages of so many clients to a rule; ``key`` opens those of a sealed run."""
        return analyze_shuffled(self.manifest, messages, clients, key=key)

    def _run(self, sent: Submissions, rng: Rng) -> Analysis:
        mixer = self.shuffler()
        for name, messages in sent:
            mixer.submit(name, messages)
        return self.analyze(mixer.release(rng) or [], mixer.clients)


@frozen(slots=False)
class CentralProtocol(Protocol):
    """Items to a curator who selects privately; records stay where they are."""

    delta: Fraction = field(default=Fraction(0), kw_only=True)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, kw_only=True)

    model: ClassVar[Model] = Model.CENTRAL

    def _check(self) -> None:
        object.__setattr__(self, "delta", rational(self.delta, "delta", minimum=0, below=1))
        object.__setattr__(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))

    @cached_property
    def _mechanism(self) -> dict[str, int | str]:
        return {"selector": "histogram" if self.delta else "pure"}

    def analyze(self, submissions: Submissions, rng: Rng | None = None, key: AnalyzerKey | None = None) -> Analysis:
        """From every client's name and item to a rule: spends the guarantee, once per run."""
        return analyze_central(self.manifest, submissions, rng, key=key)

    def _run(self, sent: Submissions, rng: Rng) -> Analysis:
        return self.analyze(sent, rng)


def new_protocol(
    rule: str,
    features: Mapping[str, Domain],
    *,
    epsilon: Rational,
    model: Model | str = Model.LOCAL,
    label: str = "label",
    delta: Rational | None = None,
    n_min: int | None = None,
    n_max: int | None = None,
    width: int | None = None,
    neighbours: Neighbours | str | None = None,
    task: Mapping[str, int | str] | None = None,
    min_records: int | None = None,
    max_records: int | None = None,
    beta: Rational | None = None,
    seed: bytes | None = None,
    analyzer: bytes | None = None,
) -> Protocol:
    """The protocol of a trust model; what that model has no use for is refused, not ignored.

    Parameters
    ----------
    rule : str
        A kind of rule (:data:`privpac.device.tasks.KINDS`).
    features : mapping of names to domains
        The columns that devices read.
    epsilon : rational
        The privacy loss of a person.
    model : {"local", "shuffle", "central"}
        Who sees the messages.
    label : str
        What is predicted.
    delta : rational, optional
        The promise may fail with this probability: for shuffle and central.
    n_min, n_max : int, optional
        For shuffle: honest clients at least, and clients at most (ten times ``n_min``).
    width : int, optional
        Bits of a chunk of a long item: for local and shuffle.
    neighbours : {"add-remove", "replace"}, optional
        For central.
    task, min_records, max_records, beta, seed, analyzer : optional
        As in :class:`Protocol`.

    Returns
    -------
    Protocol

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, missing, or one that the model does not use.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> str(new_protocol("threshold", {"age": Integers(0, 99)}, epsilon=1).guarantee)
    '(1, 0)-DP per user, replace, local model'
    """
    if model not in _OF_MODEL:
        raise ParameterError(f"model must be local, shuffle or central; got {str(model)[:40]!r}")
    kind = _OF_MODEL[Model(model)]
    own: dict[str, Any] = {"delta": delta, "n_min": n_min, "n_max": n_max, "width": width, "neighbours": neighbours}
    own = {name: value for name, value in own.items() if value is not None}
    taken = {each.name for each in fields(kind)}
    unused = [name for name in own if name not in taken]
    if unused:
        raise ParameterError(f"model={str(kind.model)!r} does not use {', '.join(unused)}")
    if kind is ShuffleProtocol:
        if delta is None or n_min is None:
            raise ParameterError("model='shuffle' needs delta (1e-6) and n_min, the honest clients expected at least")
        own.setdefault("n_max", 10 * n_min)
    shared: dict[str, Any] = {"task": task, "min_records": min_records, "max_records": max_records, "beta": beta}
    shared |= {"seed": seed, "analyzer": analyzer}
    own |= {name: value for name, value in shared.items() if value is not None}
    made: Protocol = kind(rule, features, rational(epsilon, "epsilon"), label, **own)
    return made


_OF_MODEL: dict[Model, type[Any]] = {each.model: each for each in (LocalProtocol, ShuffleProtocol, CentralProtocol)}
