"""Small runs and people for the tests of the protocols."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.device.correlated_sampling import rate
from privpac.protocols import CentralProtocol, CoordinatorKey, Device, LocalProtocol, ShuffleProtocol
from privpac.protocols.protocol import Protocol

AGES = {"age": Integers(0, 99)}
SEED = bytes(range(32))
CUT = 41
Records = list[dict[str, Any]]
COORDINATOR = CoordinatorKey(bytes(range(1, 33)))


@cache
def run(model: str, epsilon: int | str = 1, seed: bytes = SEED, **more: Any) -> Protocol:
    """Thresholds on ages 0..99 at gamma 20."""
    given: dict[str, Any] = {"task": {"Gamma": rate(20)}, "seed": seed, "label": "ill", **more}
    if model == "local":
        return LocalProtocol("threshold", AGES, epsilon, **given)
    if model == "shuffle":
        return ShuffleProtocol("threshold", AGES, epsilon, **{"delta": "1e-6", "n_min": 60, "n_max": 4000, **given})
    return CentralProtocol("threshold", AGES, epsilon, **{"delta": "1e-6", **given})


def store(folder: Path, person: str, *total: Any, **more: Any) -> Device:
    """A store that trusts the coordinator of these tests."""
    return Device.new(folder, person, *total, coordinators=[COORDINATOR.public], **more)


def people(users: int, records: int, seed: int = 1) -> UserData:
    """Ill from ``CUT`` on."""
    age = np.random.default_rng(seed).integers(0, 100, (users, records))
    return UserData.from_users([[(int(a), int(a >= CUT)) for a in row] for row in age], features=AGES)


def records_of(rows: list[tuple[int, ...]]) -> Records:
    return [{"age": age, "ill": ill} for age, ill in rows]


def error_of(rule: Any) -> float:
    """Of a rule on uniform ages."""
    age = np.arange(100)
    return float(np.mean(rule.predict(age[:, None]) != (age >= CUT)))
