"""As much of numpy as a device needs, on lists of integers: the distribution's modules are those of privpac, and this
stands where numpy stands there.

Integers have any size, so nothing overflows; kinds are kept only where code asks for them.  Slower than numpy by two
orders of magnitude, which one person's records do not notice.  There are no views: an indexed array is a copy.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

# Kinds


class _Kind(type):
    kind: str

    def __eq__(cls, other: object) -> bool:
        return cls is other or (cls.kind == "O" and other is object)

    def __hash__(cls) -> int:
        return hash(cls.kind)

    def __call__(cls, value: Any) -> Any:
        return cls.read(value)  # type: ignore[attr-defined]


def _make(name: str, kind: str, read: Callable[[Any], Any]) -> Any:
    return _Kind(name, (), {"kind": kind, "read": staticmethod(read)})


int8, int64 = _make("int8", "i", int), _make("int64", "i", int)
uint8, uint64 = _make("uint8", "u", int), _make("uint64", "u", int)
bool_, float64 = _make("bool_", "b", bool), _make("float64", "f", float)
object_ = _make("object_", "O", lambda value: value)
integer, floating = int, float
dtype = Any


class NDArray:
    """For annotations."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def _kind(given: Any) -> Any:
    return object_ if given is object else int64 if given is int else uint64 if given == "<u8" else given


def _guess(values: list[Any]) -> Any:
    if not values:
        return float64
    if all(isinstance(value, bool) for value in values):
        return bool_
    if all(isinstance(value, int) for value in values):
        low, high = min(values), max(values)
        if low >= -(1 << 63) and high < 1 << 63:
            return int64
        return uint64 if low >= 0 and high < 1 << 64 else object_
    return object_


def _size(shape: Sequence[int]) -> int:
    return math.prod(shape)


class ndarray:
    """Entries one after another, the last axis fastest."""

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, data: list[Any], shape: tuple[int, ...], kind: Any) -> None:
        self.data, self.shape, self.dtype = data, shape, kind

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def T(self) -> ndarray:
        rows, columns = self.shape
        turned = [self.data[i * columns + j] for j in range(columns) for i in range(rows)]
        return ndarray(turned, (columns, rows), self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        (value,) = self.data
        return bool(value)

    def astype(self, kind: Any) -> ndarray:
        wanted = _kind(kind)
        return ndarray([wanted.read(value) for value in self.data], self.shape, wanted)

    def copy(self) -> ndarray:
        return ndarray(list(self.data), self.shape, self.dtype)

    def reshape(self, *shape: Any) -> ndarray:
        wanted = list(shape[0] if isinstance(shape[0], tuple) else shape)
        if -1 in wanted:
            known = -_size(wanted)
            wanted[wanted.index(-1)] = len(self.data) // known if known else 0
        if _size(wanted) != len(self.data):
            raise ValueError("the shape does not fit")
        return ndarray(list(self.data), tuple(wanted), self.dtype)

    def ravel(self) -> ndarray:
        return self.reshape(len(self.data))

    def tolist(self) -> Any:
        if self.ndim == 1:
            return list(self.data)
        return [part.tolist() for part in self]

    def tobytes(self) -> bytes:
        width = 8 if self.dtype in (int64, uint64) else 1
        return b"".join(int(value).to_bytes(width, "little", signed=self.dtype is int64) for value in self.data)

    # Indexing: one list of places for every axis

    def _places(self, key: Any) -> tuple[list[Sequence[int]], list[int]]:
        """Places on every axis, and the shape of what is found."""
        parts = list(key) if isinstance(key, tuple) else [key]
        parts += [slice(None)] * (self.ndim - sum(part is not None for part in parts))
        places: list[Sequence[int]] = []
        shape: list[int] = []
        for part in parts:
            if part is None:
                shape.append(1)
                continue
            length = self.shape[len(places)]
            if isinstance(part, slice):
                places.append(range(length)[part])
            elif isinstance(part, (ndarray, list)):
                listed = part.data if isinstance(part, ndarray) else part
                marks = bool(listed) and isinstance(listed[0], bool)
                if marks and len(listed) != length:
                    raise IndexError("a mask has one mark for every entry")
                places.append([i for i, mark in enumerate(listed) if mark] if marks else [int(i) for i in listed])
            else:
                places.append([range(length)[part]])
                continue
            shape.append(len(places[-1]))
        return places, shape

    def _offsets(self, places: list[Sequence[int]]) -> list[int]:
        found = list(places[0])
        for axis in range(1, self.ndim):
            width = self.shape[axis]
            found = [base * width + place for base in found for place in places[axis]]
        return found

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and self.ndim == 1:
            return self.data[key]
        places, shape = self._places(key)
        found = [self.data[i] for i in self._offsets(places)]
        return ndarray(found, tuple(shape), self.dtype) if shape else found[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        places, shape = self._places(key)
        offsets = self._offsets(places)
        values = _spread(asarray(value), tuple(shape)) if isinstance(value, (ndarray, list)) else [value] * len(offsets)
        for offset, each in zip(offsets, values):
            self.data[offset] = self.dtype.read(each)

    # Reductions

    def _over(self, work: Callable[[list[Any]], Any], axis: int | None, kind: Any) -> Any:
        if axis is None:
            return work(self.data)
        before, length, after = _size(self.shape[:axis]), self.shape[axis], _size(self.shape[axis + 1 :])
        found = [
            work([self.data[(i * length + j) * after + k] for j in range(length)])
            for i in range(before)
            for k in range(after)
        ]
        return ndarray(found, self.shape[:axis] + self.shape[axis + 1 :], kind)

    def sum(self, axis: int | None = None) -> Any:
        return self._over(sum, axis, object_ if self.dtype is object_ else int64)

    def any(self, axis: int | None = None) -> Any:
        return self._over(any, axis, bool_)

    def all(self, axis: int | None = None) -> Any:
        return self._over(all, axis, bool_)

    def max(self, axis: int | None = None) -> Any:
        return self._over(max, axis, self.dtype)

    def min(self, axis: int | None = None) -> Any:
        return self._over(min, axis, self.dtype)

    def __matmul__(self, other: Any) -> Any:
        right = asarray(other)
        rows = [self.data] if self.ndim == 1 else [self.data[i : i + self.shape[1]] for i in _starts(self)]
        columns = [right.data] if right.ndim == 1 else right.T.tolist()
        found = [sum(map(operator.mul, row, column)) for row in rows for column in columns]
        shape = (self.shape[:-1] if self.ndim == 2 else ()) + ((right.shape[1],) if right.ndim == 2 else ())
        return ndarray(found, shape, _mixed(self, right)) if shape else found[0]

    def __invert__(self) -> ndarray:
        flip = operator.not_ if self.dtype is bool_ else operator.invert
        return ndarray([flip(value) for value in self.data], self.shape, self.dtype)

    def __neg__(self) -> ndarray:
        return ndarray([-value for value in self.data], self.shape, self.dtype)

    def __hash__(self) -> int:
        raise TypeError("an array is not hashable")


def _starts(table: ndarray) -> range:
    return range(0, len(table.data), table.shape[1]) if table.shape[1] else range(0)


def _spread(array: ndarray, shape: tuple[int, ...]) -> list[Any]:
    """The entries repeated along axes of length 1, so that the shape is this one."""
    if array.shape == shape:
        return array.data
    own = (1,) * (len(shape) - array.ndim) + array.shape
    if any(have not in (1, want) for have, want in zip(own, shape)):
        raise ValueError("the shapes do not fit")
    offsets = [0]
    for have, want in zip(own, shape):
        steps = range(have) if have == want else [0] * want
        offsets = [base * have + step for base in offsets for step in steps]
    return [array.data[i] for i in offsets]


def _mixed(left: ndarray, right: ndarray) -> Any:
    kinds = left.dtype.kind + right.dtype.kind
    return object_ if "O" in kinds else float64 if "f" in kinds else uint64 if "u" in kinds else int64


def _binary(name: str, compares: bool) -> None:
    work = getattr(operator, name if name not in ("and", "or") else f"{name}_")
    logical = name in ("and", "or", "xor")

    def combine(a: Any, b: Any) -> ndarray:
        left, right = asarray(a), asarray(b)
        kind = bool_ if compares or (logical and left.dtype is right.dtype is bool_) else _mixed(left, right)
        if left.shape == right.shape:
            return ndarray(list(map(work, left.data, right.data)), left.shape, kind)
        length = max(left.ndim, right.ndim)
        pairs = zip(*((1,) * (length - side.ndim) + side.shape for side in (left, right)))
        shape = tuple(b if a == 1 else a for a, b in pairs)
        return ndarray(list(map(work, _spread(left, shape), _spread(right, shape))), shape, kind)

    setattr(ndarray, f"__{name}__", lambda self, other: combine(self, other))
    if not compares:
        setattr(ndarray, f"__r{name}__", lambda self, other: combine(other, self))


for _name in ("add", "sub", "mul", "floordiv", "lshift", "rshift", "and", "or", "xor"):
    _binary(_name, compares=False)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _binary(_name, compares=True)


# Making arrays


def _nested(values: Any) -> tuple[list[Any], tuple[int, ...]]:
    if isinstance(values, ndarray):
        return list(values.data), values.shape
    if not isinstance(values, (list, tuple, range)):
        return [values], ()
    if not any(isinstance(value, (list, tuple, range, ndarray)) for value in values):
        return list(values), (len(values),)
    parts = [_nested(value) for value in values]
    if len({shape for _, shape in parts}) != 1:
        raise ValueError("the rows differ in length")
    return [value for data, _ in parts for value in data], (len(parts), *parts[0][1])


def array(values: Any, dtype: Any = None) -> ndarray:
    data, shape = _nested(values)
    if dtype is None:
        return ndarray(data, shape, values.dtype if isinstance(values, ndarray) else _guess(data))
    kind = _kind(dtype)
    return ndarray([kind.read(value) for value in data], shape, kind)


def asarray(values: Any, dtype: Any = None) -> ndarray:
    if isinstance(values, ndarray) and (dtype is None or values.dtype is _kind(dtype)):
        return values
    return array(values, dtype)


ascontiguousarray = asarray


def full(shape: Any, value: Any, dtype: Any = None) -> ndarray:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return ndarray([value] * _size(sizes), sizes, _guess([value]) if dtype is None else _kind(dtype))


def zeros(shape: Any, dtype: Any = float64) -> ndarray:
    return full(shape, _kind(dtype).read(0), dtype)


def ones(shape: Any, dtype: Any = float64) -> ndarray:
    return full(shape, _kind(dtype).read(1), dtype)


empty = zeros


def arange(*ends: int) -> ndarray:
    return array(range(*ends), int64)


def frombuffer(data: bytes, dtype: Any) -> ndarray:
    width = 1 if dtype is uint8 else 8
    words = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    return ndarray(words, (len(words),), _kind(dtype))


def concatenate(parts: Sequence[Any], axis: int = 0) -> ndarray:
    listed = [asarray(part) for part in parts]
    outer = _size(listed[0].shape[:axis])
    data: list[Any] = []
    for i in range(outer):
        for part in listed:
            block = _size(part.shape[axis:])
            data += part.data[i * block : (i + 1) * block]
    length = sum(part.shape[axis] for part in listed)
    return ndarray(data, (*listed[0].shape[:axis], length, *listed[0].shape[axis + 1 :]), _joined(listed))


def _joined(parts: list[ndarray]) -> Any:
    kinds = {part.dtype for part in parts if part.size} or {parts[0].dtype}
    return kinds.pop() if len(kinds) == 1 else reduce(lambda a, b: _mixed(_empty(a), _empty(b)), kinds)


def _empty(kind: Any) -> ndarray:
    return ndarray([], (0,), kind)


def stack(parts: Sequence[Any], axis: int = 0) -> ndarray:
    listed = [asarray(part) for part in parts]
    shape = listed[0].shape
    return concatenate([part.reshape((*shape[:axis], 1, *shape[axis:])) for part in listed], axis)


def column_stack(parts: Sequence[ndarray]) -> ndarray:
    return concatenate([part if part.ndim == 2 else part[:, None] for part in parts], 1)


def append(values: ndarray, more: Any) -> ndarray:
    return concatenate([asarray(values).ravel(), array(more).ravel()])


def meshgrid(*axes: ndarray, indexing: str) -> list[ndarray]:
    sizes = tuple(len(axis) for axis in axes)
    points = list(product(*(axis.data for axis in axes)))
    return [ndarray([point[j] for point in points], sizes, axes[j].dtype) for j in range(len(axes))]


# Working on them


def unique(values: ndarray, axis: int | None = None, return_inverse: bool = False, return_counts: bool = False) -> Any:
    keys = list(values.data) if axis is None else [tuple(row.data) for row in values]
    found: dict[Any, int] = {}
    for key in keys:
        found[key] = found.get(key, 0) + 1
    order = sorted(found)
    data = order if axis is None else [value for key in order for value in key]
    shape = (len(order),) if axis is None else (len(order), *values.shape[1:])
    out: list[Any] = [ndarray(data, shape, values.dtype)]
    if return_inverse:
        place = {key: i for i, key in enumerate(order)}
        out.append(array([place[key] for key in keys], int64))
    if return_counts:
        out.append(array([found[key] for key in order], int64))
    return tuple(out) if len(out) > 1 else out[0]


def argsort(values: ndarray, kind: str = "stable") -> ndarray:
    return array(sorted(range(len(values)), key=values.data.__getitem__), int64)


def lexsort(keys: Sequence[ndarray]) -> ndarray:
    return array(sorted(range(len(keys[0])), key=lambda i: [key.data[i] for key in reversed(keys)]), int64)


def searchsorted(values: ndarray, wanted: Any, side: str = "left") -> Any:
    find = bisect_right if side == "right" else bisect_left
    if isinstance(wanted, ndarray):
        return array([find(values.data, value) for value in wanted.data], int64)
    return find(values.data, wanted)


def cumsum(values: Any) -> ndarray:
    total, out = 0, []
    for value in asarray(values).data:
        total += value
        out.append(total)
    return array(out, int64)


def diff(values: ndarray) -> ndarray:
    return values[1:] - values[:-1]


def repeat(values: ndarray, counts: ndarray) -> ndarray:
    return array([value for value, count in zip(values.data, counts.data) for _ in range(count)], values.dtype)


def bincount(values: ndarray, minlength: int = 0) -> ndarray:
    out = [0] * max(minlength, max(values.data, default=-1) + 1)
    for value in values.data:
        out[value] += 1
    return array(out, int64)


def where(marks: ndarray, yes: Any, no: Any) -> ndarray:
    first, second = asarray(yes), asarray(no)
    chosen = zip(marks.data, _spread(first, marks.shape), _spread(second, marks.shape))
    return ndarray([a if mark else b for mark, a, b in chosen], marks.shape, first.dtype)


def minimum(a: Any, b: Any) -> ndarray:
    left = asarray(a)
    other = _spread(asarray(b), left.shape)
    return ndarray(list(map(min, left.data, other)), left.shape, left.dtype)


def abs(values: ndarray) -> ndarray:
    return ndarray([-value if value < 0 else value for value in values.data], values.shape, values.dtype)


def any(values: Iterable[Any]) -> bool:
    return bool(sum(1 for value in (values.data if isinstance(values, ndarray) else values) if value))


def all(values: Iterable[Any]) -> bool:
    return not sum(1 for value in (values.data if isinstance(values, ndarray) else values) if not value)


def flatnonzero(values: ndarray) -> ndarray:
    return array([i for i, value in enumerate(values.data) if value], int64)


def count_nonzero(values: ndarray) -> int:
    return sum(1 for value in values.data if value)


def argmax(values: ndarray) -> int:
    return max(range(len(values)), key=lambda i: (values.data[i], -i))


def triu_indices(size: int) -> tuple[ndarray, ndarray]:
    pairs = [(i, j) for i in range(size) for j in range(i, size)]
    return array([i for i, _ in pairs], int64), array([j for _, j in pairs], int64)


def unravel_index(places: ndarray, sizes: Sequence[int]) -> tuple[ndarray, ...]:
    out, rest = [], list(places.data)
    for size in reversed(sizes):
        out.append(array([value % size for value in rest], int64))
        rest = [value // size for value in rest]
    return tuple(reversed(out))


def ravel_multi_index(columns: Sequence[ndarray], sizes: Sequence[int]) -> ndarray:
    out = [0] * len(columns[0])
    for column, size in zip(columns, sizes):
        out = [base * size + value for base, value in zip(out, column.data)]
    return array(out, int64)


def packbits(bits: ndarray, bitorder: str = "little") -> ndarray:
    data = bits.data
    packed = [sum(bool(bit) << j for j, bit in enumerate(data[i : i + 8])) for i in range(0, len(data), 8)]
    return ndarray(packed, (len(packed),), uint8)


def unpackbits(packed: ndarray, bitorder: str = "little") -> ndarray:
    return array([value >> j & 1 for value in packed.data for j in range(8)], uint8)


isfinite, floor = math.isfinite, math.floor


class add:
    """``np.add.at``."""

    @staticmethod
    def at(target: ndarray, places: ndarray, values: ndarray) -> None:
        for place, value in zip(places.data, _spread(asarray(values), places.shape)):
            target.data[place] += value
