"""Simulated devices in one call: three trust models side by side with a learner that holds the table.

The people are made up (ages 0..99, ill from 41 on, one label in twenty wrong), so votes may be shown next to what each
party saw.  Everything else is real: manifests, clients, sealed messages, shuffler and analyzers, with the system's
randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import frozen

from privpac.arrays import Bools, Ints
from privpac.data import Integers, UserData
from privpac.device.client import Client
from privpac.device.correlated_sampling import rate
from privpac.device.keys import AnalyzerKey
from privpac.device.manifest import Manifest
from privpac.device.wire import parse
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.mechanisms.votes import StableHistogram
from privpac.methods import HybridSelection
from privpac.methods.agreement.plurality import CLEAR, users_histogram, users_local, users_shuffle
from privpac.protocols.protocol import CentralProtocol, LocalProtocol, Protocol, ShuffleProtocol
from privpac.protocols.shuffler import Shuffler
from privpac.result import Released
from privpac.rng import PublicCoins
from privpac.rules import Thresholds

CUT, WRONG, GAMMA, DELTA = 41, 20, 20, Fraction(1, 10**6)
_AGES = {"age": Integers(0, 99)}
_BETA = "0.1"


@frozen(slots=False)
class DemoRow:
    """One way to learn the rule: what came out, what was sent and who saw what."""

    model: str
    guarantee: str
    outcome: str
    rule: str
    error: float
    needed: int | None
    messages: int
    bytes_per_person: int
    support: str
    saw: str
    seen: tuple[float, ...]
    """What the analyzer saw of every rule: counts or estimates; empty where it saw none."""


@frozen(slots=False)
class Demo:
    """All rows on the same people, and the votes behind them."""

    people: int
    records: int
    epsilon: Fraction
    votes: tuple[int, ...]
    rows: tuple[DemoRow, ...]


def demo(people: int = 500, records: int = 200, epsilon: Rational = 1, seed: int = 7) -> Demo:
    """Run the demonstration.

    Parameters
    ----------
    people
        Simulated devices.
    records
        Records on each of them.
    epsilon
        Of every run; delta is 1e-6 where a model has one.
    seed
        Of the made-up people; the mechanisms use the system's randomness.
    """
    n, m = positive_int(people, "people", maximum=20_000), positive_int(records, "records", maximum=10_000)
    price = rational(epsilon, "epsilon", above=0)
    words = PublicCoins(positive_int(seed, "seed", minimum=0).to_bytes(32, "little"), "demo").words(2 * n * m)
    age = (words[: n * m] % np.uint64(100)).astype(np.int64).reshape(n, m)
    ill = (age >= CUT) ^ (words[n * m :] % np.uint64(WRONG) == 0).reshape(n, m)
    key = AnalyzerKey.new()
    given: dict[str, Any] = {"task": {"Gamma": rate(GAMMA)}, "label": "ill", "analyzer": key.public}
    local = LocalProtocol("threshold", _AGES, price, **given)
    assert local.seed is not None
    given["seed"] = local.seed
    client = Client(local.manifest)
    items = [client.item_of_codes(age[i][:, None], ill[i].astype(np.int64)) for i in range(n)]
    shuffled = ShuffleProtocol("threshold", _AGES, price, delta=DELTA, n_min=max(2, n * 9 // 10), n_max=n, **given)
    central = CentralProtocol("threshold", _AGES, price, delta=DELTA, **given)
    votes = Counter(int.from_bytes(item, "little") for item in items if item is not None)
    rows = [_run(protocol, items, key) for protocol in (local, shuffled, central)]
    rows.append(_table(age, ill, price))
    return Demo(n, m, price, tuple(votes[u] for u in range(101)), tuple(rows))


def _error(released: Released) -> float:
    ages = np.arange(100)
    return float(np.mean(released.predict(ages[:, None]) != (ages >= CUT)))


def _run(protocol: Protocol, items: list[bytes | None], key: AnalyzerKey) -> DemoRow:
    made = protocol.manifest
    client, mixer = Client(made), Shuffler(made)
    sent = [client.send(item) for item in items]
    for i, messages in enumerate(sent):
        mixer.submit(f"person {i}", messages)
    mixed, total = mixer.release() or [], sum(map(len, sent))
    seen: tuple[float, ...] = ()
    n, size = len(items), made.task.learner.universe.size
    if isinstance(protocol, ShuffleProtocol):
        found = protocol.analyze(mixed, mixer.clients, key)
        select = made.shuffle
        counts = select.counts([fields[0] for fields in _opened(key, made, mixed)], n)
        seen = tuple(float(count) for count in counts[:size])
        needed = users_shuffle(select.r, select.p, size + 1, beta=_BETA, clear=CLEAR).n_users
        saw = f"shuffler: {n} names and {total} sealed messages; analyzer: {total} messages without names, mostly noise"
    elif isinstance(protocol, LocalProtocol):
        found = protocol.analyze([(i, [message]) for i, message in enumerate(mixed)], key)
        (estimates,) = made.local.estimates(_opened(key, made, mixed))
        seen = tuple(float(value) for value in estimates[:size])
        needed = users_local(made.local.keep, size, beta=_BETA, clear=CLEAR).n_users
        saw = f"collector: {n} names and sealed messages; analyzer: {n} noisy bits without names"
    else:
        assert isinstance(protocol, CentralProtocol)
        found = protocol.analyze([(i, [message]) for i, message in enumerate(mixed)], key=key)
        K = StableHistogram(protocol.epsilon, delta=protocol.delta, neighbours=protocol.neighbours, named=2).K
        needed = users_histogram(K, beta=_BETA, named=2).n_users
        saw = f"collector: {n} names and sealed messages; analyzer: everybody's own rule, without names"
    released = found.released
    rule = released.value.condition() if released else "nothing"
    error = _error(released) if released else 1.0
    support = "" if found.support is None else str(found.support.among(n))  # made-up people: their number is no secret
    size_of = total * made.message_bytes // n
    summary = protocol.guarantee.summary
    return DemoRow(made.protocol, summary, released.outcome, rule, error, needed, total, size_of, support, saw, seen)


def _opened(key: AnalyzerKey, made: Manifest, messages: Sequence[object]) -> list[Any]:
    texts = (key.open(made.run, made.kind, message) for message in messages)
    return [fields for text in texts if (fields := parse(made.run, text, made.kind)) is not None]


def _table(age: Ints, ill: Bools, epsilon: Fraction) -> DemoRow:
    """The learner that holds all records."""
    n, m = age.shape
    people, labels = np.repeat(np.arange(n), m), ill.reshape(-1).astype(np.int64)
    data = UserData.from_arrays(age.reshape(-1, 1), labels, people, features=_AGES)
    learner = HybridSelection(Thresholds(_AGES["age"]), epsilon=epsilon)
    released = learner.learn(data)
    said, summary = released.value.condition(), learner.guarantee.summary
    saw = f"curator: all {n * m} records"
    return DemoRow("one table", summary, released.outcome, said, _error(released), None, 0, 0, "", saw, ())
