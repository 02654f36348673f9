"""Parquet files that lie, made from a seed.

A file is written well, then spoilt: its footer is taken apart, changed and put together again (order, extremes, counts,
offsets, types), its pages are changed byte by byte, it is cut, or it holds what no table should.  A reader may refuse
such a file with a ``PrivpacError`` or give the right answer; it may not raise anything else, end the process, or let a
value outside the domain pass.

``python hostile_files.py FIRST LAST`` judges a range of seeds in this process, in memory and streamed, and prints one
line for each.
"""

from __future__ import annotations

import random
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

import privpac as pp
from privpac.data import Integers, UserData
from privpac.errors import PrivpacError

DOMAIN = Integers(0, 99)
SCHEMA: dict[str, Any] = {"user": "u", "features": {"x": DOMAIN}, "label": "y"}
Users = list[list[tuple[int, ...]]]


# Thrift's compact protocol, as far as footers need it: a struct is a list of [field, kind, value], a list is [kind,
# values]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    def value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            n = self.varint()
            return (n >> 1) ^ -(n & 1)
        if kind == 7:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind in (9, 10):
            head = self.byte()
            size, inner = head >> 4, head & 15
            size = self.varint() if size == 15 else size
            return [inner, [self.byte() == 1 if inner in (1, 2) else self.value(inner) for _ in range(size)]]
        assert kind == 12
        fields, last = [], 0
        while head := self.byte():
            delta, inner = head >> 4, head & 15
            last = last + delta if delta else self.value(4)
            fields.append([last, inner, self.value(inner)])
        return fields


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value: int) -> bytes:
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _write(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value & 255])
    if kind in (4, 5, 6):
        return _zigzag(value)
    if kind == 7:
        return struct.pack("<d", value)
    if kind == 8:
        return _varint(len(value)) + bytes(value)
    if kind in (9, 10):
        inner, values = value
        head = bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner]) + _varint(len(values))
        return head + b"".join(bytes([1 if v else 2]) if inner in (1, 2) else _write(inner, v) for v in values)
    out, last = b"", 0
    for field, inner, item in value:
        inner = (1 if item else 2) if inner in (1, 2) else inner
        out += bytes([(field - last) << 4 | inner]) if 0 < field - last < 16 else bytes([inner]) + _zigzag(field)
        out, last = out + _write(inner, item), field
    return out + b"\0"


def footer(data: bytes) -> Any:
    """The footer of a Parquet file as a tree."""
    size = int.from_bytes(data[-8:-4], "little")
    return _Reader(data[-8 - size : -8]).value(12)


def with_footer(data: bytes, tree: Any) -> bytes:
    """The same pages under another footer."""
    size = int.from_bytes(data[-8:-4], "little")
    written = _write(12, tree)
    return data[: -8 - size] + written + len(written).to_bytes(4, "little") + b"PAR1"


def field(struct_: Any, number: int) -> Any:
    """The entry of a struct's field, to be changed in place."""
    return next((entry for entry in struct_ if entry[0] == number), None)


def put(struct_: Any, number: int, kind: int, value: Any) -> None:
    """Set a field of a struct, also one that was not there."""
    found = field(struct_, number)
    if found is None:
        struct_.append([number, kind, value])
        struct_.sort(key=lambda entry: entry[0])
    else:
        found[1:] = kind, value


def groups(tree: Any) -> list[Any]:
    """The row groups."""
    return field(tree, 4)[2][1]  # type: ignore[no-any-return]


def chunks(tree: Any) -> list[Any]:
    """The metadata of all column chunks."""
    return [field(column, 3)[2] for group in groups(tree) for column in field(group, 1)[2][1]]


# Well-written tables


@frozen(slots=False)
class Case:
    """A file, what was done to it, and the users that it holds: ``None`` if values are outside the domain, or nobody
    can say."""

    path: Path
    what: str
    truth: Users | None
    known: bool = False
    """Whether the truth is known, so that no other answer will do."""
    needless: bool = False
    """Whether only things are spoilt that no reader needs, so that good rows may not be refused."""


def rows_of(rng: random.Random) -> dict[str, list[Any]]:
    """A table; every third has values outside the domain, away from the ends where a believed order would look."""
    count = rng.choice([0, 1, 2, 7, 60, 300])
    x = [rng.randrange(100) for _ in range(count)]
    if rng.randrange(3) == 0 and count > 6:
        for _ in range(rng.randrange(1, 4)):
            x[rng.randrange(1, count - 1)] = rng.choice([100, 5000, -1, 1 << 40, -(1 << 62), (1 << 63) - 1])
        x[0], x[-1] = 0, 99
    ids = [rng.randrange(max(1, count // 3)) for _ in range(count)]
    if rng.randrange(3) == 0:
        ids = sorted(ids)
    return {"u": ids, "x": x, "y": [rng.randrange(2) for _ in range(count)]}


def users_of(rows: dict[str, list[Any]]) -> Users | None:
    """The users of a table, as sets of records; ``None`` if a value is outside the domain."""
    if any(not 0 <= x <= 99 for x in rows["x"]):
        return None
    found: dict[Any, list[tuple[int, ...]]] = {}
    for u, x, y in zip(rows["u"], rows["x"], rows["y"]):
        found.setdefault(u, []).append((x, y))
    return sorted(sorted(user) for user in found.values())


def write(rng: random.Random, path: Path, rows: dict[str, list[Any]]) -> None:
    """The table, in one of many honest ways."""
    ids = pa.array([f"p{u}" for u in rows["u"]]) if rng.randrange(2) else pa.array(rows["u"], pa.int64())
    columns = {"u": ids, "x": pa.array(rows["x"], pa.int64()), "y": pa.array(rows["y"], pa.int8())}
    if rng.randrange(4) == 0:
        columns["x"] = columns["x"].dictionary_encode()
    if rng.randrange(4) == 0 and pa.types.is_string(ids.type):
        columns["u"] = ids.dictionary_encode()
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=rng.choice([3, 50, 1000]),
        compression=rng.choice(["none", "snappy", "zstd"]),
        use_dictionary=bool(rng.randrange(2)),
        data_page_size=rng.choice([64, 1 << 20]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        write_page_index=bool(rng.randrange(2)),
    )


# Lies


def _order(rng: random.Random, tree: Any) -> None:
    """Every row group says that its columns are sorted."""
    for group in groups(tree):
        columns = rng.sample(range(3), rng.randrange(1, 4))
        put(
            group,
            4,
            9,
            [12, [[[1, 5, c], [2, 1, bool(rng.randrange(2))], [3, 1, bool(rng.randrange(2))]] for c in columns]],
        )


def _extremes(rng: random.Random, tree: Any) -> None:
    """Statistics claim other extremes, no nulls or nothing but nulls, one distinct value."""
    for chunk in chunks(tree):
        low, high = (rng.choice([0, 5, 99, 1 << 40, -7]).to_bytes(8, "little", signed=True) for _ in range(2))
        values = field(chunk, 5)[2]
        put(
            chunk,
            12,
            12,
            [
                [3, 6, rng.choice([0, values, 1 << 40])],
                [4, 6, 1],
                [5, 8, high],
                [6, 8, low],
                [7, 1, True],
                [8, 1, True],
            ],
        )


def _row_counts(rng: random.Random, tree: Any) -> None:
    """The file, or its row groups, have other numbers of rows."""
    lie = rng.choice([0, 1, 2, 10**6, 1 << 31, 1 << 40, (1 << 63) - 1, -1])
    if rng.randrange(2):
        put(tree, 3, 6, lie)
    else:
        for group in groups(tree):
            put(group, 3, 6, lie)


def _value_counts(rng: random.Random, tree: Any) -> None:
    """A column has other numbers of values than the rest."""
    found = chunks(tree)
    if found:
        put(rng.choice(found), 5, 6, rng.choice([0, 1, 10**6, 1 << 40, -1]))


def _anything(rng: random.Random, tree: Any) -> None:
    """Any number, text or list anywhere in the footer is something else."""
    places: list[Callable[[Any], None]] = []

    def visit(kind: int, value: Any, change: Callable[[Any], None]) -> None:
        if kind == 12:
            for entry in value:
                visit(entry[1], entry[2], lambda new, entry=entry: entry.__setitem__(2, new))  # type: ignore[misc]
        elif kind == 9:
            inner, items = value
            for i, item in enumerate(items):
                visit(inner, item, lambda new, items=items, i=i: items.__setitem__(i, new))  # type: ignore[misc]
            if items:
                places.append(lambda _, items=items: items.pop())  # type: ignore[misc]
        elif kind in (4, 5, 6):
            steps = [value + 1, value - 1, 0, -1, 1 << 31, (1 << 63) - 1, rng.getrandbits(16)]
            places.append(lambda _: change(rng.choice(steps)))
        elif kind == 8:
            places.append(lambda _: change(rng.choice([b"", value[:-1], value + b"\xff", b"u", rng.randbytes(9)])))

    visit(12, tree, lambda _: None)
    for place in rng.sample(places, min(len(places), rng.randrange(1, 4))):
        place(None)


_LIES: dict[str, Callable[[random.Random, Any], None]] = {
    "order": _order,
    "extremes": _extremes,
    "row counts": _row_counts,
    "value counts": _value_counts,
    "anything": _anything,
}
NEEDLESS = {"order", "extremes"}
KNOWN = {*NEEDLESS, "row counts", "value counts"}
"""Lies that leave the rows what they are."""


def _pages(rng: random.Random, data: bytes) -> bytes:
    body = bytearray(data)
    size = int.from_bytes(data[-8:-4], "little")
    for _ in range(rng.randrange(1, 6)):
        body[rng.randrange(4, max(5, len(data) - 8 - size))] = rng.getrandbits(8)
    return bytes(body)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    body = bytearray(data)
    for _ in range(rng.randrange(1, 9)):
        body[rng.randrange(len(body))] = rng.getrandbits(8)
    return bytes(body)


def _strange(rng: random.Random, path: Path, rows: dict[str, list[Any]]) -> str:
    """A sound file with columns that are no column of a table."""
    count = len(rows["u"])
    u, x, y = pa.array(rows["u"], pa.int64()), pa.array(rows["x"], pa.int64()), pa.array(rows["y"], pa.int8())
    far = pa.array([rng.choice([0, 3, (1 << 31) - 1, -(1 << 31)]) for _ in range(count)], pa.int32()).cast(pa.date32())
    bad_text = pa.Array.from_buffers(
        pa.string(),
        count,
        [
            None,
            pa.py_buffer(np.arange(0, 2 * count + 1, 2, dtype=np.int32).tobytes()),
            pa.py_buffer(b"\xff\xfe" * count),
        ],
    )
    kinds: dict[str, Callable[[], dict[str, pa.Array] | list[tuple[str, pa.Array]]]] = {
        "a name twice": lambda: [("u", u), ("x", x), ("x", x), ("y", y)],
        "lists": lambda: {
            "u": u,
            "x": pa.array([[v] * rng.randrange(50) for v in rows["x"]], pa.list_(pa.int64())),
            "y": y,
        },
        "structs": lambda: {
            "u": u,
            "x": pa.array([{"x": v, "u": {"y": v}} for v in rows["x"]]) if count else x,
            "y": y,
        },
        "struct ids": lambda: {"u": pa.array([{"a": v} for v in rows["u"]]) if count else u, "x": x, "y": y},
        "extension": lambda: {
            "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * count, pa.binary(16))),
            "x": x,
            "y": y,
        },
        "dates as ids": lambda: {"u": far, "x": x, "y": y},
        "times as ids": lambda: {
            "u": pa.array([rng.choice([0, (1 << 63) - 1, -(1 << 62)]) for _ in range(count)], pa.timestamp("us")),
            "x": x,
            "y": y,
        },
        "no text": lambda: {"u": bad_text, "x": x, "y": y},
        "nulls": lambda: {"u": pa.nulls(count), "x": x, "y": y},
        "half floats": lambda: {"u": pa.array(np.arange(count, dtype=np.float16) + np.float16(2040)), "x": x, "y": y},
        "times": lambda: {"u": u, "x": x.cast(pa.duration("ns")), "y": y},
        "maps": lambda: {"u": u, "x": x, "y": pa.array([[("a", 1)]] * count, pa.map_(pa.string(), pa.int8()))},
    }
    kind = rng.choice(list(kinds))
    columns = kinds[kind]()
    pairs = list(columns.items()) if isinstance(columns, dict) else columns
    pq.write_table(pa.Table.from_arrays([array for _, array in pairs], [name for name, _ in pairs]), path)
    return kind


def hostile(seed: int, folder: Path) -> Case:
    """One file; the same for the same seed."""
    rng = random.Random(seed)
    path = folder / f"{seed}.parquet"
    rows = rows_of(rng)
    truth, sort = users_of(rows), rng.randrange(10)
    if sort == 0:
        kind = _strange(rng, path, rows)
        return Case(path, kind, None)
    write(rng, path, rows)
    data = path.read_bytes()
    if sort == 1:
        what, data = "cut", data[: rng.randrange(len(data))]
    elif sort == 2:
        what, data = "pages", _pages(rng, data)
    elif sort == 3:
        what, data = "bytes", _bytes(rng, data)
    else:
        what = rng.choice(list(_LIES)) if sort < 9 else "order"
        tree = footer(data)
        _LIES[what](rng, tree)
        data = with_footer(data, tree)
    path.write_bytes(data)
    return Case(path, what, truth, known=what in KNOWN, needless=what in NEEDLESS)


# Judging


@frozen(slots=False)
class Collect:
    """The users themselves, and whether every code is in the domain."""

    def zero(self) -> Users:
        return []

    def chunk(self, users: UserData) -> Users:
        assert all(not len(codes) or int(codes.max()) < DOMAIN.size for codes in users.codes.values())
        assert users.labels is None or not len(users.labels) or int(users.labels.max()) <= 1
        return [sorted(user) for user in users.to_lists()]

    def merge(self, a: Users, b: Users) -> Users:
        return a + b


def in_memory(path: Path) -> Users:
    users: Users = UserData.read(path, **SCHEMA).fold(Collect())
    return sorted(users)


def streamed(path: Path) -> Users:
    return sorted(pp.scan(path, **SCHEMA, chunk_rows=40, progress=False, spill=path.parent).fold(Collect()))


def judge(case: Case, read: Callable[[Path], Users]) -> str:
    """``refused`` or ``answered``; anything wrong is an ``AssertionError``, or whatever came up."""
    found, told = None, ""
    try:
        found = read(case.path)
    except PrivpacError as error:
        told = str(error)
    if found is None:
        assert told, "an error without words"
        assert "\n" not in told
        assert not case.needless or case.truth is None, f"{case.what}: good rows were refused: {told}"
        return "refused"
    assert not case.known or found == case.truth, f"{case.what}: a wrong answer"
    return "answered"


def main(first: int, last: int) -> None:
    """Judge seeds in this process; a crash is seen by whoever started it."""
    with tempfile.TemporaryDirectory() as place:
        for seed in range(first, last):
            print(seed, end=" ", flush=True)
            case = hostile(seed, Path(place))
            print(case.what, *(judge(case, read) for read in (in_memory, streamed)), sep=" | ", flush=True)
            case.path.unlink()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
