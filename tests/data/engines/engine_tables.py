"""Tables and the ways to hold them, for the tests of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import privpac as pp
from privpac.data import Categories, Domain, Grid, Integers, Texts, UserData
from privpac.data.engines.stream import StreamedUsers
from privpac.data.engines.wire import pack, unpack
from privpac.data.users import Kernel
from privpac.guarantee import Unit

CODES = Integers(0, 9)
COLUMNS: dict[str, Domain] = {
    "x": CODES,
    "z": Grid(0, 1, 0.25),
    "kind": Categories(["a", "b", "c"]),
    "place": Texts(),
    "a": Integers(0, 1),
    "b": Integers(0, 1),
    "wide": Integers(-5, 5000),
}
PLACES = [f"{i}/{j}/{k}" for i in "pqr" for j in "st" for k in "uvw"] + ["p", "p/s", "q/t"]


def table(rows: int = 150, users: int = 30, seed: int = 11) -> pl.DataFrame:
    """Rows in no order; one user has a third of them."""
    rng = np.random.default_rng(seed)
    who = np.where(rng.random(rows) < 1 / 3, 7, rng.integers(0, users, rows))
    x = rng.integers(0, 10, rows)
    columns: dict[str, Any] = {
        "who": pl.Series([f"id {i}" for i in who.tolist()]),
        "x": x,
        "z": rng.integers(0, 5, rows) / 4,
        "kind": pl.Series(rng.choice(["a", "b", "c"], rows).tolist()),
        "place": pl.Series(rng.choice(PLACES, rows).tolist()),
        "a": rng.integers(0, 2, rows),
        "b": rng.integers(0, 2, rows),
        "y": ((x > 4) ^ (rng.random(rows) < 0.15)).astype(np.int8),
        "wide": x**2,
    }
    return pl.DataFrame(columns)


def schema(names: str, *, label: bool = True, user: bool = True) -> dict[str, Any]:
    """A declaration with the named columns."""
    features = {name: COLUMNS[name] for name in names.split()}
    return {"user": "who" if user else None, "features": features, "label": "y" if label else None}


def write(folder: Path, frame: pl.DataFrame, cuts: list[int], group: int) -> Path:
    """A table in several files (some empty), of small row groups; most users are split over files."""
    folder.mkdir(exist_ok=True)
    edges = [0, *sorted(min(cut, len(frame)) for cut in cuts), len(frame)]
    for i, (a, b) in enumerate(pairwise(edges)):
        pq.write_table(
            frame[a:b].to_arrow(compat_level=pl.CompatLevel.oldest()),
            folder / f"part-{i}.parquet",
            row_group_size=group,
        )
    return folder


class WiredUsers:
    """Streamed users whose kernels and partial results go the way that Spark would send them, without Spark."""

    def __init__(self, users: StreamedUsers) -> None:
        self._users = users

    @property
    def features(self) -> Mapping[str, Domain | None]:
        return self._users.features

    @property
    def unit(self) -> Unit:
        return self._users.unit

    @property
    def label_name(self) -> str | None:
        return self._users.label_name

    @property
    def labels(self) -> Any:
        return self._users.labels

    def bind(self, domains: Mapping[str, Domain], on_invalid: Any = None) -> WiredUsers:
        return WiredUsers(self._users.bind(domains, on_invalid))

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = b"privpac") -> WiredUsers:
        return WiredUsers(self._users.max_records(cap, rule, salt))

    def fold(self, kernel: Kernel[Any]) -> Any:
        return unpack(pack(self._users.fold(_Wired(_sent(kernel)))))


def _sent(kernel: Kernel[Any]) -> Kernel[Any]:
    """The kernel as a worker unpacks it; without PySpark, as it is."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        return kernel
    sent: Kernel[Any] = cloudpickle.loads(cloudpickle.dumps(kernel))
    return sent


class _Wired:
    def __init__(self, kernel: Kernel[Any]) -> None:
        self.kernel = kernel

    def zero(self) -> Any:
        return self.kernel.zero()

    def chunk(self, users: UserData) -> Any:
        return unpack(pack(self.kernel.chunk(users)))

    def merge(self, a: Any, b: Any) -> Any:
        return unpack(pack(self.kernel.merge(a, b)))


def held(way: str, frame: pl.DataFrame, folder: Path, declared: dict[str, Any]) -> Any:
    """The rows of a frame held one of several ways: always the same users."""
    if way == "memory":
        return UserData.from_frame(frame, **declared)
    stored = frame.sort("who", maintain_order=True) if way == "sorted" else frame
    path = write(folder / way, stored, [50, 110, 110], 25)
    streamed = pp.scan(path, chunk_rows=40, spill=folder, progress=False, **declared)
    return WiredUsers(streamed) if way == "wired" else streamed
