"""Internet addresses: networks in CIDR notation as a binary tree, one bit a level."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

import numpy as np
import polars as pl
from attrs import frozen
from numpy.typing import NDArray

from privpac.data import Domain, Texts
from privpac.data.columns import buffers
from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.hierarchies.base import Places, lay_out, register_tree
from privpac.rules.hierarchies.columns import Column
from privpac.rules.hierarchies.prefixes import Region

__all__ = [
    "AddressTree",
    "read_networks",
]


# Internet addresses read from bytes: the texts that ``inet_pton`` accepts, with an optional prefix length.
#
# IPv4 is four decimal numbers 0..255 without leading zeros; IPv6 is up to eight groups of one to four hexadecimal
# digits, one ``::`` for a run of zero groups, and perhaps an IPv4 address in place of the last two groups.


Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def read_networks(texts: pl.Series, bits: int) -> tuple[Words, Words, Ints]:
    """The upper and lower 64 bits of each address, left-aligned in 128, and the prefix length (-1: not an address)."""
    high, low, size = _read_all(*buffers(texts), bits)
    return high, low, size


@jit
def _read_all(ends: Any, data: Any, bits: int) -> tuple[Any, Any, Any]:
    n = len(ends) - 1
    high, low = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    size = np.full(n, -1, dtype=np.int64)
    groups = np.zeros(8, dtype=np.uint64)
    for i in range(n):
        a, b = ends[i], ends[i + 1]
        slash = b
        for j in range(a, min(b, a + 64)):  # no address is longer
            if data[j] == 47:
                slash = j
                break
        length = bits
        if slash < b:
            length = _length(data, slash + 1, b, bits)
        if length < 0 or slash - a > 64:
            continue
        if bits == 32:
            number = _quad(data, a, slash)
            if number >= 0:
                high[i], size[i] = np.uint64(number) << np.uint64(32), length
        elif _groups(data, a, slash, groups):
            for k in range(4):
                high[i] = (high[i] << np.uint64(16)) | groups[k]
                low[i] = (low[i] << np.uint64(16)) | groups[k + 4]
            size[i] = length
    return high, low, size


@jit
def _length(data: Any, a: int, b: int, most: int) -> int:
    if b == a or b - a > 3:
        return -1
    out = 0
    for j in range(a, b):
        if data[j] < 48 or data[j] > 57:
            return -1
        out = 10 * out + data[j] - 48
    return out if out <= most else -1


@jit
def _quad(data: Any, a: int, b: int) -> int:
    """Four decimal numbers as one, or -1."""
    out, part, digits, dots = 0, 0, 0, 0
    for j in range(a, b):
        c = int(data[j])
        if c == 46:
            if digits == 0 or dots == 3:
                return -1
            out, part, digits, dots = out * 256 + part, 0, 0, dots + 1
        elif c >= 48 and c <= 57:
            if digits > 0 and part == 0:
                return -1
            part, digits = 10 * part + c - 48, digits + 1
            if part > 255:
                return -1
        else:
            return -1
    return out * 256 + part if dots == 3 and digits > 0 else -1


@jit
def _groups(data: Any, a: int, b: int, out: Any) -> bool:
    """Eight groups of an IPv6 address; false if the bytes are none."""
    out[:] = 0
    count, gap, j = 0, -1, a
    if b - a >= 2 and data[a] == 58 and data[a + 1] == 58:
        gap, j = 0, a + 2
    while j < b:
        value, digits, start = np.uint64(0), 0, j
        while j < b and data[j] != 58 and data[j] != 46:
            c = int(data[j])
            digit = (
                c - 48
                if c >= 48 and c <= 57
                else c - 55
                if c >= 65 and c <= 70
                else c - 87
                if c >= 97 and c <= 102
                else -1
            )
            if digit < 0 or digits == 4:
                return False
            value, digits, j = (value << np.uint64(4)) | np.uint64(digit), digits + 1, j + 1
        if j < b and data[j] == 46:
            number = _quad(data, start, b)
            if number < 0 or count > 6:
                return False
            out[count], out[count + 1] = np.uint64(number >> 16), np.uint64(number & 0xFFFF)
            count, j = count + 2, b
            break
        if digits == 0 or count == 8:
            return False
        out[count] = value
        count += 1
        if j < b:
            j += 1
            if j == b:
                return False  # a single colon at the end
            if data[j] == 58:
                if gap >= 0:
                    return False
                gap, j = count, j + 1
    if gap < 0:
        return count == 8
    if count == 8:
        return False  # the run must stand for a group
    moved = count - gap
    for k in range(moved):
        out[7 - k] = out[count - 1 - k]
    for k in range(gap, 8 - moved):
        out[k] = 0
    return True


Network = tuple[int, int]


_BITS = {4: 32, 6: 128}


@register_tree
@frozen(slots=False, init=False)
class AddressTree(Region):
    """Networks such as ``10.0.0.0/8`` and addresses (networks of one), IPv4 or IPv6; levels are bits.

    Bits beyond the prefix are cleared (``10.1.2.3/8`` is ``10.0.0.0/8``), and networks smaller than ``max_depth`` bits
    count as the one that holds them there.  Nodes are (first address as a number, prefix length).

    >>> tree = AddressTree(4)
    >>> tree.node("10.1.2.3/8"), tree.describe(tree.node("10.1.2.3")), tree.node("10.1.2"), tree.level_width(8)
    ((167772160, 8), '10.1.2.3/32', None, 256)
    """

    kind: ClassVar[str] = "addresses"
    version: int
    max_depth: int
    feature: str | None
    domain: Domain

    def __init__(
        self,
        version: int = 4,
        max_depth: int | None = None,
        feature: str | None = None,
        domain: Domain | None = None,
    ) -> None:
        if version not in (4, 6):
            raise ParameterError(f"version must be 4 or 6, got {version!r}")
        bits = _BITS[version]
        depth = positive_int(bits if max_depth is None else max_depth, "max_depth", minimum=0, maximum=bits)
        self.__attrs_init__(version, depth, feature, Texts() if domain is None else domain)

    @property
    def bits(self) -> int:
        return _BITS[self.version]

    # Shape

    @property
    def height(self) -> int:
        assert self.max_depth is not None
        return self.max_depth

    @property
    def root(self) -> Network:
        return (0, 0)

    def node(self, x: Any) -> Network | None:
        if isinstance(x, (IPv4Network, IPv6Network)):
            x = str(x)
        return self._parse(x) if isinstance(x, str) else None

    def _parse(self, shown: str) -> Network | None:
        address, slash, length = shown.partition("/")
        try:
            number = int.from_bytes(
                socket.inet_pton(socket.AF_INET if self.version == 4 else socket.AF_INET6, address), "big"
            )
        except (OSError, ValueError):
            return None
        size = self.bits
        if slash:
            if not (length.isascii() and length.isdigit() and len(length) <= 3 and int(length) <= size):
                return None
            size = int(length)
        return self._cut(number, min(size, self.height))

    def _cut(self, number: int, size: int) -> Network:
        spare = self.bits - size
        return number >> spare << spare, size

    def depth(self, v: Network) -> int:
        return v[1]

    def ancestor(self, v: Network, z: int) -> Network:
        if not 0 <= z <= v[1]:
            raise ParameterError(f"a network of {v[1]} bits has no ancestor of {z} bits")
        return self._cut(v[0], z)

    def is_ancestor(self, a: Network, v: Network) -> bool:
        return a[1] <= v[1] and self._cut(v[0], a[1]) == a

    @property
    def lists_levels(self) -> bool:
        return True

    def _level_node(self, z: int, i: int) -> tuple[int, int]:
        return (i << (self.bits - z), z)

    def level_width(self, z: int) -> int:
        return 1 << self._level(z)

    def order_key(self, v: Network) -> Network:
        return v

    @property
    def n_nodes(self) -> int:
        return (2 << self.height) - 1

    def number(self, v: Network) -> int:
        # The i-th bit passes its parent, and if it is 1 also the 2**(height - i + 1) - 1 nodes on the other side.
        number, length = v
        prefix = number >> (self.bits - length)
        return length + (prefix << (self.height - length + 1)) - prefix.bit_count()

    def below(self, v: Network) -> int:
        return (2 << (self.height - v[1])) - 1

    def numbered(self, i: int) -> Network:
        prefix = length = 0
        while i:
            side = (2 << (self.height - length - 1)) - 1
            bit = int(i > side)
            i -= 1 + bit * side
            prefix, length = 2 * prefix + bit, length + 1
        return (prefix << (self.bits - length), length)

    def describe(self, v: Network) -> str:
        return str((IPv4Network if self.version == 4 else IPv6Network)(v))

    # Parts

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        codes, words = column.texts()
        high, low, size = read_networks(words, self.bits)
        known = np.flatnonzero(size >= 0)
        size = np.minimum(size[known], self.height)
        high, low = high[known] & _mask(size), low[known] & _mask(size - 64)
        order = np.lexsort((size, low, high))
        depth, shared = size[order], _common_bits(high[order], low[order], size[order])
        node, firsts, depth, shared = lay_out(order, depth, shared)
        at = np.full(len(words), -1, dtype=np.int64)
        at[known] = node

        def name(i: int) -> Network:
            value = firsts[i]
            return ((int(high[value]) << 64 | int(low[value])) >> 128 - self.bits, int(depth[i])) if i else (0, 0)

        return Places(at[codes], (at == 0).astype(np.uint8)[codes], depth, shared, name)

    # Storage

    def to_dict(self) -> dict[str, Any]:
        own = {"version": self.version, "max_depth": self.max_depth}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> AddressTree:
        return cls(values["version"], values["max_depth"], values["feature"], Domain.from_dict(values["domain"]))

    def pack(self, v: Network) -> str:
        number, length = v
        if not (0 <= length <= self.height and number >> self.bits == 0 and self._cut(number, length) == v):
            raise ParameterError("no network of this tree has that number and length")
        return self.describe(v)

    def unpack(self, packed: Any) -> Network:
        v = self.node(packed)
        if v is None or self.describe(v) != packed:
            raise ParameterError("no network of this tree has that name")
        return v


def _mask(bits: Ints) -> NDArray[np.uint64]:
    """Words whose first bits are set."""
    kept = np.clip(bits, 0, 64)
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    return np.where(kept == 0, np.uint64(0), ones << (64 - np.maximum(kept, 1)).astype(np.uint64))


@jit
def _common_bits(high: NDArray[np.uint64], low: NDArray[np.uint64], size: Ints) -> Ints:
    """Leading bits that each network shares with the one before, at most the shorter of the two."""
    out = np.zeros(len(size), dtype=np.int64)
    for i in range(1, len(size)):
        same = 0
        for a, b in ((high[i], high[i - 1]), (low[i], low[i - 1])):
            differing = a ^ b
            if differing == 0:
                same += 64
                continue
            while differing >> np.uint64(63) == 0:
                differing <<= np.uint64(1)
                same += 1
            break
        out[i] = min(same, size[i], size[i - 1])
    return out
