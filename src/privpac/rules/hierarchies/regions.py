"""Prefix trees: regions named by how they are reached.

* :class:`PrefixTree` with a separator: ``usr/lib/python3`` lies in ``usr/lib``, which lies in ``usr``;
* with cuts: ``E119`` lies in ``E11`` lies in ``E`` for the cuts (1, 3, 4); geohashes and phone prefixes have a cut per
  character;
* :class:`AddressTree`: networks in CIDR notation, one bit a level.

A record is (region, "does it contain the target?").  The concept of node ``v`` says 1 on ``v`` and on everything that
contains it.  The root, the region of everything, contains every target: its base label is 1.
"""

from __future__ import annotations

import csv
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Array, Ints, Words
from privpac.data import Domain, Texts, Users, parse_domain
from privpac.data.columns import buffers
from privpac.data.domains import in_one_line
from privpac.data.loops import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.cuts import PathTree, check_direction, cut_condition, need_order, steps, stored_in_order
from privpac.rules.hierarchies.base import Column, Places, VC1Tree, as_text, code_of, lay_out
from privpac.rules.points import StarTree

# Texts in preorder, with the depths of their common prefixes; loops over bytes, never over Python strings.
#
# A path is written as its components joined by the byte 0, which sorts below everything else: then a path is followed
# by the paths below it, and they by everything else.  Bytes 0 and 1 inside a component are escaped (1 1 and 1 2), in
# order, so that sorting the bytes sorts the tuples of components.


def split(joined: str) -> tuple[str, ...]:
    """The components of a path written as above."""
    if not joined:
        return ()
    return tuple(c.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in c else c for c in joined.split("\0"))


# Paths


def path_texts(words: pl.Series, separator: str, max_depth: int) -> pl.Series:
    """Each text as a path: split at the separator, empty components left out, at most ``max_depth`` of them."""
    if bool(words.str.contains("[\\x00\\x01]").any()):
        words = words.str.replace_all("\1", "\1\2", literal=True).str.replace_all("\0", "\1\1", literal=True)
    parts = words.str.split(separator).list.eval(pl.element().filter(pl.element() != ""))
    return parts.list.head(max_depth).list.join("\0").alias("")


def path_depths(ordered: pl.Series) -> tuple[Ints, Ints]:
    """Of sorted paths: their depths, and the number of components each shares with the one before."""
    depth, shared = _path_depths(*buffers(ordered))
    return depth, shared


@jit
def _path_depths(ends: Array, data: Array) -> tuple[Any, Any]:
    n = len(ends) - 1
    depth, shared = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for i in range(n):
        a, b = ends[i], ends[i + 1]
        for j in range(a, b):
            depth[i] += int(data[j] == 0)
        depth[i] += int(b > a)
        if i == 0:
            continue
        c = ends[i - 1]
        length, k = min(b - a, a - c), 0
        while k < length and data[a + k] == data[c + k]:
            shared[i] += int(data[a + k] == 0)
            k += 1
        # A component counts when it ends in both.
        if k > 0 and (a + k == b or data[a + k] == 0) and (c + k == a or data[c + k] == 0):
            shared[i] += 1
    return depth, shared


# Codes cut at fixed places


def cut_texts(words: pl.Series, cuts: Ints, ignore: str) -> pl.Series:
    """Each text up to the last cut it reaches, after the ignored characters are gone."""
    for character in ignore:
        words = words.str.replace_all(character, "", literal=True)
    lengths = words.str.len_chars().to_numpy()
    reached = np.concatenate([np.zeros(1, dtype=np.int64), cuts])[np.searchsorted(cuts, lengths, side="right")]
    return pl.DataFrame({"w": words, "n": reached}).select(pl.col("w").str.head(pl.col("n"))).to_series()


def cut_depths(ordered: pl.Series, cuts: Ints) -> tuple[Ints, Ints]:
    """Of sorted codes: how many cuts each reaches, and how many of them it shares with the one before."""
    length, common = _characters(*buffers(ordered))
    return np.searchsorted(cuts, length, side="right").astype(np.int64), np.searchsorted(
        cuts, common, side="right"
    ).astype(np.int64)


@jit
def _characters(ends: Array, data: Array) -> tuple[Any, Any]:
    """Lengths in characters, and of the common prefix with the text before."""
    n = len(ends) - 1
    length, common = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for i in range(n):
        a, b = ends[i], ends[i + 1]
        for j in range(a, b):
            length[i] += int(data[j] & 0xC0 != 0x80)  # bytes 10xxxxxx continue a character
        if i == 0:
            continue
        c, k = ends[i - 1], 0
        while k < min(b - a, a - c) and data[a + k] == data[c + k]:
            common[i] += int(data[a + k] & 0xC0 != 0x80)
            k += 1
        # A character of which only the first bytes agree does not count.
        if (a + k < b and data[a + k] & 0xC0 == 0x80) or (c + k < a and data[c + k] & 0xC0 == 0x80):
            common[i] -= 1
    return length, common


Components = tuple[str, ...]


class Region(VC1Tree):
    """What trees of regions share: a column of texts, and a root that contains everything."""

    domain: Domain
    regions: ClassVar[bool] = True

    def base_label(self, x: object) -> int:
        return int(self.node(x) == self.root)


@frozen(slots=False, init=False)
class PrefixTree(Region):
    """Paths split at ``separator``, or codes cut after the given numbers of characters.

    ``max_depth`` caps the height; deeper regions count as their ancestor there.  Empty components are left out
    (``/usr//lib/`` is ``usr/lib``), and a code that ends between two cuts counts as its longest cut prefix.  Characters
    in ``ignore`` are removed from codes first (the dot of ``E11.9``).  Nodes are tuples of components.

    Parameters
    ----------
    max_depth : int, optional
        The public cap on the height, which paths need; as many as there are cuts if left out.
    separator : str
        What the components of a path stand between.
    cuts : iterable of int, optional
        Numbers of characters after which a code is cut, instead of a separator.
    ignore : str
        Characters that are removed from codes first.
    feature : str, optional
        The column to read; None takes the only one.
    domain : Domain, optional
        A declared domain of the column; None means any texts.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> tree = PrefixTree(8)
    >>> tree.node("/usr/lib/python3"), tree.describe(("usr", "lib")), str(tree.rule(("usr", "lib")))
    (('usr', 'lib', 'python3'), 'usr/lib', '1 when x is usr/lib or contains it')
    >>> PrefixTree(cuts=(1, 3, 4), ignore=".").node("E11.9")
    ('E', '11', '9')
    """

    kind: ClassVar[str] = "prefix"

    max_depth: int
    separator: str
    cuts: tuple[int, ...] | None
    ignore: str
    feature: str | None
    domain: Domain

    def __init__(
        self,
        max_depth: int | None = None,
        separator: str = "/",
        cuts: Iterable[int] | None = None,
        ignore: str = "",
        feature: str | None = None,
        domain: Domain | None = None,
    ) -> None:
        if not isinstance(separator, str) or not isinstance(ignore, str):
            raise TypeError("separator and ignore must be texts")
        if not separator or set(separator) & {"\0", "\1"}:
            raise ParameterError("separator must be a text that is not empty and has no control characters 0 and 1")
        after = None if cuts is None else tuple(positive_int(cut, "cut") for cut in cuts)
        if after is None:
            if max_depth is None:
                raise ParameterError("a tree of paths needs max_depth, the public cap on its height: PrefixTree(32)")
            if ignore:
                raise ParameterError("ignore goes with cuts; paths keep every character")
        elif not after or any(a >= b for a, b in pairwise(after)):
            raise ParameterError("cuts must be increasing positive numbers of characters, such as (1, 3, 4)")
        depth = len(after or ()) if max_depth is None else max_depth
        depth = positive_int(depth, "max_depth", minimum=0, maximum=1 << 31)
        self.__attrs_init__(depth, separator, after, ignore, feature, Texts() if domain is None else domain)

    @property
    def _cuts(self) -> tuple[int, ...]:
        return (self.cuts or ())[: self.max_depth]

    # Shape

    @property
    def height(self) -> int:
        return self.max_depth if self.cuts is None else len(self._cuts)

    def node(self, x: object) -> Components | None:
        """The node of a text, or of a tuple of components."""
        if isinstance(x, tuple) and self.cuts is None:
            components = [as_text(c) for c in x]
            if any(c is None or self.separator in c for c in components):
                return None
            return tuple(c for c in components if c)[: self.max_depth]
        shown = as_text(x)
        if shown is None:
            return None
        if self.cuts is None:
            return tuple([c for c in shown.split(self.separator) if c][: self.max_depth])
        for character in self.ignore:
            shown = shown.replace(character, "")
        return self._pieces(shown)

    def _pieces(self, code: str) -> Components:
        return tuple(code[a:b] for a, b in zip((0, *self._cuts), self._cuts) if b <= len(code))

    def some_node(self, z: int) -> tuple[str, ...]:
        return ("a",) * z

    def level_width(self, z: int) -> int | None:
        return 1 if self._level(z) == 0 else None

    def describe(self, v: Components) -> str:
        return in_one_line((self.separator if self.cuts is None else "").join(v)) if v else "everything"

    # Parts

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        codes, words = column.texts()
        cuts = np.array(self._cuts, dtype=np.int64)
        paths = (
            path_texts(words, self.separator, self.height) if self.cuts is None else cut_texts(words, cuts, self.ignore)
        )
        order = paths.arg_sort().to_numpy().astype(np.int64)
        ordered = paths.gather(pl.Series(order))
        depth, shared = path_depths(ordered) if self.cuts is None else cut_depths(ordered, cuts)
        at, firsts, depth, shared = lay_out(order, depth, shared)

        def name(i: int) -> Components:
            if i == 0:
                return ()
            return split(paths[int(firsts[i])]) if self.cuts is None else self._pieces(paths[int(firsts[i])])

        return Places(at[codes], (at == 0).astype(np.uint8)[codes], depth, shared, name)

    # Storage

    def to_dict(self) -> dict[str, Any]:
        cuts = None if self.cuts is None else list(self.cuts)
        own = {"max_depth": self.max_depth, "separator": self.separator, "cuts": cuts, "ignore": self.ignore}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> PrefixTree:
        cuts = None if values["cuts"] is None else tuple(values["cuts"])
        domain = Domain.from_dict(values["domain"])
        return cls(values["max_depth"], values["separator"], cuts, values["ignore"], values["feature"], domain)

    def unpack(self, packed: Any) -> Components:
        v = tuple(packed)
        whole = all(isinstance(c, str) and c for c in v) and len(v) <= self.height
        if not whole or (self.node(v) if self.cuts is None else self._pieces("".join(v))) != v:
            raise ParameterError("no region of this tree has that name")
        return v


# Internet addresses: networks in CIDR notation as a binary tree, one bit a level.


# Internet addresses read from bytes: the texts that ``inet_pton`` accepts, with an optional prefix length.
#
# IPv4 is four decimal numbers 0..255 without leading zeros; IPv6 is up to eight groups of one to four hexadecimal
# digits, one ``::`` for a run of zero groups, and perhaps an IPv4 address in place of the last two groups.


def read_networks(texts: pl.Series, bits: int) -> tuple[Words, Words, Ints]:
    """The upper and lower 64 bits of each address, left-aligned in 128, and the prefix length (-1: not an address)."""
    high, low, size = _read_all(*buffers(texts), bits)
    return high, low, size


@jit
def _read_all(ends: Array, data: Array, bits: int) -> tuple[Any, Any, Any]:
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
def _length(data: Array, a: int, b: int, most: int) -> int:
    if b == a or b - a > 3:
        return -1
    out = 0
    for j in range(a, b):
        if data[j] < 48 or data[j] > 57:
            return -1
        out = 10 * out + data[j] - 48
    return out if out <= most else -1


@jit
def _quad(data: Array, a: int, b: int) -> int:
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
def _groups(data: Array, a: int, b: int, out: Array) -> bool:
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


@frozen(slots=False, init=False)
class AddressTree(Region):
    """Networks such as ``10.0.0.0/8`` and addresses (networks of one), IPv4 or IPv6; levels are bits.

    Bits beyond the prefix are cleared (``10.1.2.3/8`` is ``10.0.0.0/8``), and networks smaller than ``max_depth`` bits
    count as the one that holds them there.  Nodes are (first address as a number, prefix length).

    Parameters
    ----------
    version : {4, 6}
        IPv4 or IPv6.
    max_depth : int, optional
        Bits of the smallest network; all of them if left out.
    feature : str, optional
        The column to read; None takes the only one.
    domain : Domain, optional
        A declared domain of the column; None means any texts.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> tree = AddressTree(4)
    >>> tree.node("10.1.2.3/8"), tree.describe(tree.node("10.1.2.3")), tree.node("10.1.2"), tree.level_width(8)
    ((167772160, 8), '10.1.2.3/32', None, 256)
    """

    kind: ClassVar[str] = "addresses"
    lists_levels: ClassVar[bool] = True

    version: int
    max_depth: int
    feature: str | None
    domain: Domain

    def __init__(
        self, version: int = 4, max_depth: int | None = None, feature: str | None = None, domain: Domain | None = None
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
        return self.max_depth

    @property
    def root(self) -> Network:
        return (0, 0)

    def node(self, x: object) -> Network | None:
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

    def _level_node(self, z: int, i: int) -> tuple[int, int]:
        return (i << (self.bits - z), z)

    def level_width(self, z: int) -> int:
        return 1 << self._level(z)

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

    def unpack(self, packed: object) -> Network:
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


# A hierarchy given as a list of names with their parents.


# Preorder of a tree given by its parents.


@frozen(slots=False, eq=False, repr=False)
class RegionLayout:
    """``tin[v]``: the position of node v in preorder (children by number), ``tout[v]``: one past its last descendant,
    ``depth[v]``, and ``order[i]``: the node at position i.  Nodes that the root does not reach have ``tin`` -1."""

    tin: Ints
    tout: Ints
    depth: Ints
    order: Ints

    @cached_property
    def _by_level(self) -> tuple[Ints, Ints]:
        """Positions by depth, and where each depth starts."""
        at = self.depth[self.order]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(at), dtype=np.int64)])
        return np.argsort(at, kind="stable"), starts

    def widths(self) -> Ints:
        """How many nodes each depth has."""
        return np.diff(self._by_level[1])

    def ancestors(self, v: Any, z: int) -> Any:
        """The ancestors at depth z of nodes at least that deep: in preorder, the last node of depth z up to each."""
        positions, starts = self._by_level
        level = positions[starts[z] : starts[z + 1]]
        return self.order[level[np.searchsorted(level, self.tin[v], side="right") - 1]]


def lay_parents(parent: Ints) -> RegionLayout:
    """Lay a tree out; node 0 is the root and its own parent."""
    return RegionLayout(*_preorder(parent))


@jit
def _preorder(parent: Array) -> tuple[Any, Any, Any, Any]:
    n = len(parent)
    starts = np.zeros(n + 1, dtype=np.int64)
    for v in range(1, n):
        starts[parent[v] + 1] += 1
    for v in range(n):
        starts[v + 1] += starts[v]
    fill, children = starts.copy(), np.empty(max(n - 1, 0), dtype=np.int64)
    for v in range(1, n):
        children[fill[parent[v]]] = v
        fill[parent[v]] += 1
    tin, tout = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    depth, order = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    following, stack = starts.copy(), np.empty(n, dtype=np.int64)
    stack[0], top, clock = 0, 1, 1
    tin[0] = 0
    while top > 0:
        v = stack[top - 1]
        if following[v] < starts[v + 1]:
            w = children[following[v]]
            following[v] += 1
            tin[w], depth[w], order[clock] = clock, depth[v] + 1, w
            clock += 1
            stack[top] = w
            top += 1
        else:
            tout[v] = clock
            top -= 1
    return tin, tout, depth, order


def lifting(parent: Ints, height: int) -> Ints:
    """``up[k, v]``: the ancestor of v that is 2**k levels up, the root if there is none; enough rows for ``height``."""
    rows = [parent]
    for _ in range(max(height, 1).bit_length() - 1):
        rows.append(rows[-1][rows[-1]])
    return np.stack(rows)


TOP = ""


@frozen(slots=False, init=False, eq=False, repr=False)
class Taxonomy(Region):
    """Name -> parent; a name whose parent is ``None``, or that occurs only as a parent, is at the top.

    A single top name is the root, the region of everything, with base label 1; several have a root above them, written
    ``""``. Names deeper than ``max_depth`` count as their ancestor there.  Nodes are names.

    Parameters
    ----------
    parents : mapping of names to names or None
        The name above each name.
    max_depth : int, optional
        The most levels; all of them if left out.
    feature : str, optional
        The column to read; None takes the only one.
    domain : Domain, optional
        A declared domain of the column; None means any texts.

    Raises
    ------
    ParameterError
        The names go round in a circle, or two are the same text.

    Examples
    --------
    >>> tree = Taxonomy({"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal"})
    >>> tree.root, tree.depth("dog"), tree.ancestor("dog", 1), tree.level_width(1), str(tree.rule("dog"))
    ('animal', 2, 'mammal', 2, '1 when x is dog or contains it')
    """

    kind: ClassVar[str] = "taxonomy"
    lists_levels: ClassVar[bool] = True

    names: tuple[str, ...]
    parents: Ints
    cap: int | None
    feature: str | None
    domain: Domain

    def __init__(
        self,
        parents: Mapping[Any, object],
        max_depth: int | None = None,
        feature: str | None = None,
        domain: Domain | None = None,
    ) -> None:
        if not isinstance(parents, Mapping):
            raise TypeError(f"a taxonomy is a mapping from names to parents, got {type(parents).__name__}")
        above = {
            _name(child): None if parent is None or parent == TOP else _name(parent)
            for child, parent in parents.items()
        }
        if len(above) < len(parents):
            raise ParameterError("two names of the taxonomy are the same text")
        names = dict.fromkeys([*above, *(parent for parent in above.values() if parent is not None)])
        tops = [name for name in names if above.get(name) is None]
        root = tops[0] if len(tops) == 1 else TOP
        listed = (root, *(name for name in names if name != root))
        number = {name: i for i, name in enumerate(listed)}
        up = np.array([0 if (parent := above.get(name)) is None else number[parent] for name in listed], dtype=np.int64)
        self.__attrs_init__(listed, up, max_depth, feature, Texts() if domain is None else domain)

    def __attrs_post_init__(self) -> None:
        self.parents.setflags(write=False)
        lost = np.flatnonzero(self.layout.tin < 0)
        if len(lost):
            raise ParameterError(
                f"the taxonomy has a cycle: {' -> '.join(self._cycle(int(lost[0])))}; a name cannot lie below itself"
            )
        if self.cap is not None:
            positive_int(self.cap, "max_depth", minimum=0)

    @property
    def max_depth(self) -> int:
        full = int(self.layout.depth.max())
        return full if self.cap is None else min(full, self.cap)

    def _cycle(self, v: int) -> list[str]:
        seen: list[int] = []
        place: dict[int, int] = {}
        while v not in place:
            place[v] = len(seen)
            seen.append(v)
            v = int(self.parents[v])
        loop = [self.names[i] for i in seen[place[v] :]]
        shown = [repr(name[:40]) for name in loop[:5]]
        return [*shown, *(["..."] if len(loop) > 5 else []), shown[0]]

    @cached_property
    def layout(self) -> RegionLayout:
        return lay_parents(self.parents)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _capped(self) -> Ints:
        """Each name's ancestor within ``max_depth``."""
        capped = np.arange(len(self.names))
        deep = np.flatnonzero(self.layout.depth > self.max_depth)
        capped[deep] = self.layout.ancestors(deep, self.max_depth)
        return capped

    # Shape

    @property
    def height(self) -> int:
        return self.max_depth

    @property
    def root(self) -> str:
        return self.names[0]

    def node(self, x: object) -> str | None:
        shown = as_text(x)
        number = None if shown is None or shown == TOP else self._number.get(shown)
        return None if number is None else self.names[self._capped[number]]

    def depth(self, v: str) -> int:
        return int(self.layout.depth[self._number[v]])

    def ancestor(self, v: str, z: int) -> str:
        self._check_above(v, z, "name")
        return self.names[int(self.layout.ancestors(self._number[v], z))]

    def is_ancestor(self, a: str, v: str) -> bool:
        i, j = self._number[a], self._number[v]
        return bool(self.layout.tin[i] <= self.layout.tin[j] < self.layout.tout[i])

    def _level_node(self, z: int, i: int) -> str:
        return self.names[int(np.flatnonzero(self.layout.depth == z)[i])]

    def level_width(self, z: int) -> int:
        return int(self.layout.widths()[self._level(z)])

    def only_node(self, z: int) -> str:
        if self.level_width(z) != 1:
            return str(super().only_node(z))
        return self.names[int(np.flatnonzero(self.layout.depth == z)[0])]

    def order_key(self, v: str) -> int:
        return int(self.layout.tin[self._number[v]])

    @cached_property
    def _kept(self) -> Ints:
        """How many nodes within ``max_depth`` come before each position in preorder, and before the end."""
        kept = np.zeros(len(self.names) + 1, dtype=np.int64)
        np.cumsum(self.layout.depth[self.layout.order] <= self.max_depth, out=kept[1:])
        return kept

    @property
    def n_nodes(self) -> int:
        return int(self._kept[-1])

    def number(self, v: str) -> int:
        return int(self._kept[self.layout.tin[self._number[v]]])

    def below(self, v: str) -> int:
        i = self._number[v]
        return int(self._kept[self.layout.tout[i]] - self._kept[self.layout.tin[i]])

    def numbered(self, i: int) -> str:
        return self.names[int(self.layout.order[int(np.searchsorted(self._kept, i, side="right")) - 1])]

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        # Places are the positions in preorder.
        return self._kept[:-1].tolist(), (self._kept[self.layout.tout[self.layout.order]] - 1).tolist()

    def describe(self, v: str) -> str:
        return v if v != TOP else "everything"

    # Columns and parts

    def with_columns(self, columns: Mapping[str, Domain]) -> Taxonomy:
        ((feature, domain),) = columns.items()
        other = object.__new__(Taxonomy)
        for name in ("layout", "_number", "_capped"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        other.__attrs_init__(self.names, self.parents, self.max_depth, feature, domain)
        return other

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        codes, words = column.texts()
        number = self._number
        found = np.array([number.get(word, -1) if word != TOP else -1 for word in words.to_list()], dtype=np.int64)
        at = np.where(found < 0, -1, self.layout.tin[self._capped[found]])
        order, depth = self.layout.order, self.layout.depth[self.layout.order]
        names = self.names
        base = (at == 0).astype(np.uint8)
        return Places(at[codes], base[codes], depth, np.maximum(depth - 1, 0), lambda i: names[order[i]])

    # Storage

    def to_dict(self) -> dict[str, Any]:
        own = {"names": list(self.names), "parents": self.parents.tolist(), "max_depth": self.max_depth}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> Taxonomy:
        names, parents = tuple(values["names"]), np.array(values["parents"], dtype=np.int64)
        sound = len(names) == len(parents) > 0 and not parents[0] and parents.min() >= 0 and parents.max() < len(names)
        if not sound or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise ParameterError("the stored taxonomy is damaged")
        tree = object.__new__(cls)
        tree.__attrs_init__(names, parents, values["max_depth"], values["feature"], Domain.from_dict(values["domain"]))
        return tree

    def unpack(self, packed: object) -> str:
        if not isinstance(packed, str) or packed not in self._number or self.depth(packed) > self.height:
            raise ParameterError("the taxonomy has no such name")
        return packed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        mine, theirs = ((t.names, t.max_depth, t.feature, t.domain) for t in (self, other))
        return mine == theirs and np.array_equal(self.parents, other.parents)

    def __hash__(self) -> int:
        return hash((self.names[:100], len(self.names), self.max_depth, self.feature))

    def __repr__(self) -> str:
        return f"Taxonomy(names={len(self.names)}, height={self.height})"


def _name(given: object) -> str:
    shown = as_text(given)
    if not shown:
        raise ParameterError(
            f"a name of a taxonomy is a text that is not empty, or an integer; got {type(given).__name__}"
        )
    return shown


# Thresholds on branches: a spider, one path for each branch.


def _two_names(features: Iterable[str] | None) -> tuple[str, str] | None:
    if features is None:
        return None
    names = tuple(features)
    if len(names) != 2 or len(set(names)) != 2 or not all(isinstance(name, str) for name in names):
        raise ParameterError("features must name two columns: the branch and the position")
    return names


@frozen(slots=False)
class BranchThresholds(VC1Tree):
    """Which branch, and up to which position: the concept of (b, p) says 1 iff branch = b and position <= p.

    ``branches`` is a domain, or ``None`` for any texts; ``positions`` is an ordered domain.  ``features`` names the two
    columns. Nodes are (branch, 1..d) with the branch as a text, or as a code of its domain; the root is ``()``.  With
    ``direction="above"`` the node (b, p) says 1 on the p highest positions of the branch.

    Parameters
    ----------
    positions : Domain
        The ordered domain of the positions.
    branches : Domain, optional
        The domain of the branches; None means any texts.
    features : pair of str, optional
        The columns of branch and position.
    direction : {"below", "above"}
        On which side of a position the concept says 1.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> str(BranchThresholds(Integers(1, 500), features=("line", "build")).rule(("beta", 17)))
    '1 when line = beta and build <= 17'
    """

    kind: ClassVar[str] = "branches"
    lists_levels: ClassVar[bool] = True

    positions: Domain
    branches: Domain | None = None
    features: tuple[str, str] | None = field(default=None, converter=_two_names)
    direction: str = "below"

    def __attrs_post_init__(self) -> None:
        check_direction(self.direction)
        if not isinstance(self.positions, Domain):
            raise TypeError(
                f"positions must be an ordered Domain such as Integers(0, 100), got {type(self.positions).__name__}"
            )
        need_order(self._names[1], self.positions)
        positive_int(self.positions.size, "the number of positions")

    @property
    def _star(self) -> StarTree:
        return StarTree(self.branches, self._names[0])

    @property
    def _names(self) -> tuple[str, str]:
        return ("branch", "position") if self.features is None else self.features

    @property
    def height(self) -> int:
        return self.positions.size

    def node(self, x: object) -> tuple[Any, ...] | None:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            return None
        branch, code = self._star.node(x[0]), code_of(self.positions, x[1])
        if branch is None or code is None:
            return None
        return (*branch, code + 1 if self.direction == "below" else self.height - code)

    def depth(self, v: tuple[Any, ...]) -> int:
        return v[1] if v else 0

    def ancestor(self, v: tuple[Any, ...], z: int) -> tuple[Any, ...]:
        self._check_above(v, z)
        return (v[0], z) if z else ()

    def is_ancestor(self, a: tuple[Any, ...], v: tuple[Any, ...]) -> bool:
        return not a or (bool(v) and a[0] == v[0] and a[1] <= v[1])

    @property
    def widest(self) -> int | None:
        return self.level_width(1)

    def _level_node(self, z: int, i: int) -> tuple[int, int]:
        return (i, z)

    def level_width(self, z: int) -> int | None:
        return self._star.level_width(min(self._level(z), 1))

    def only_node(self, z: int) -> tuple[Any, ...]:
        return (*self._star.only_node(1), z) if self._level(z) else ()

    @property
    def n_nodes(self) -> int | None:
        branches = self._star.level_width(1)
        return None if branches is None else 1 + branches * self.height

    def number(self, v: tuple[Any, ...]) -> int:
        return (self._star.number(v[:1]) - 1) * self.height + v[1] if v else 0

    def below(self, v: tuple[Any, ...]) -> int:
        return self.height + 1 - v[1] if v else self.n_nodes or super().below(v)

    def numbered(self, i: int) -> tuple[int, ...]:
        return ((i - 1) // self.height, (i - 1) % self.height + 1) if i else ()

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self._names[0]: Texts() if self.branches is None else self.branches, self._names[1]: self.positions}

    def with_columns(self, columns: Mapping[str, Domain]) -> BranchThresholds:
        branch, position = self._names
        return evolve(self, branches=columns[branch], positions=columns[position], features=self._names)

    def named(self, names: Sequence[str], domains: Mapping[str, Domain]) -> BranchThresholds:
        branch, position = names
        return evolve(self, branches=domains[branch], positions=domains[position], features=(branch, position))

    def bind(self, users: Users) -> tuple[BranchThresholds, Users]:
        """Unless they are named, the columns are the data's two features, in order."""
        if self.features is None and len(users.features) == 2:
            first, second = users.features
            return evolve(self, features=(first, second)).bind(users)
        return super().bind(users)

    def describe(self, v: tuple[Any, ...]) -> str:
        return self.condition(v)

    def condition(self, v: tuple[Any, ...]) -> str:
        if not v:
            return "never"
        cut = v[1] if self.direction == "below" else self.height - v[1]
        limit = cut_condition(self._names[1], self.positions, cut, self.direction)
        branch = self._star.condition(v[:1])
        return branch if limit == "always" else "never" if limit == "never" else f"{branch} and {limit}"

    def places(self, columns: Mapping[str, Column]) -> Places:
        branch, position = (columns[name] for name in self._names)
        star = self._star.places({self._names[0]: branch})
        moved = position.codes if self.direction == "below" else np.uint64(self.height - 1) - position.codes
        order: Ints = np.lexsort((moved, star.at))
        depth = steps(moved[order], self.height, "below")
        shared = np.concatenate([np.zeros(1, dtype=depth.dtype), depth[:-1]])[: len(depth)]
        shared[np.flatnonzero(np.diff(star.at[order])) + 1] = 0
        at, firsts, depth, shared = lay_out(order, depth, shared)

        def name(i: int) -> tuple[Any, ...]:
            within: Any = star.name(int(star.at[firsts[i]])) if i else ()
            return (*within, int(depth[i])) if i else ()

        return Places(at, None, depth, shared, name)

    def to_dict(self) -> dict[str, Any]:
        own = {
            "positions": self.positions.to_dict(),
            "branches": None if self.branches is None else self.branches.to_dict(),
        }
        return {"kind": self.kind, **own, "features": list(self._names), "direction": self.direction}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> BranchThresholds:
        branches = None if values["branches"] is None else Domain.from_dict(values["branches"])
        return cls(stored_in_order(values["positions"]), branches, tuple(values["features"]), values["direction"])

    def pack(self, v: tuple[Any, ...]) -> list[Any]:
        return [v[0], str(v[1])] if v else []

    def unpack(self, packed: Any) -> tuple[Any, ...]:
        v = tuple(packed)
        if len(v) not in (0, 2):
            raise ParameterError("a node is a branch and a position")
        if not v:
            return ()
        return (*self._star.unpack(v[:1]), positive_int(int(v[1]), "position", maximum=self.height))


PATH_DEPTH = 32
_FORMS = "path:/, prefix:1,3,4, chars:6, ip, ip6, points, thresholds:lo:hi, taxonomy:file.csv or branch:lo:hi"


def _digits(text: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ParameterError(f"{what} must be a whole number, got {text[:40]!r}")
    return int(text)


def _path(rest: str) -> VC1Tree:
    found = re.fullmatch(r"(.+?)(?::([0-9]+))?", rest, re.DOTALL)
    if found is None:
        raise ParameterError("path needs its separator, such as path:/ or path:/:16")
    return PrefixTree(PATH_DEPTH if found[2] is None else _digits(found[2], "the depth of path"), found[1])


def _prefix(rest: str) -> VC1Tree:
    cuts, _, ignore = rest.partition(":")
    return PrefixTree(cuts=tuple(_digits(cut.strip(), "a cut of prefix") for cut in cuts.split(",")), ignore=ignore)


def _chars(rest: str) -> VC1Tree:
    return PrefixTree(cuts=tuple(range(1, _digits(rest, "the depth of chars") + 1)))


def _addresses(version: int) -> Callable[[str], VC1Tree]:
    return lambda rest: AddressTree(version, _digits(rest, "the length of ip") if rest else None)


def _points(rest: str) -> VC1Tree:
    return StarTree(parse_domain(rest) if rest else None)


def _needs_domain(rest: str, what: str) -> str:
    if not rest:
        raise ParameterError(f"{what} needs its domain, such as {what}:0:100")
    return rest


_TREES: dict[str, Callable[[str], VC1Tree]] = {
    "path": _path,
    "prefix": _prefix,
    "chars": _chars,
    "ip": _addresses(4),
    "ip6": _addresses(6),
    "points": _points,
    "thresholds": lambda rest: PathTree(parse_domain(_needs_domain(rest, "thresholds"))),
    "taxonomy": lambda rest: read_taxonomy(rest),
    "branch": lambda rest: BranchThresholds(parse_domain(_needs_domain(rest, "branch"))),
}


def parse_tree(text: str) -> VC1Tree:
    """Read a tree's name.

    Parameters
    ----------
    text : str
        ``path:/`` or ``path:/:16``, ``prefix:1,3,4``, ``chars:6``, ``ip``, ``ip6``, ``points``, ``thresholds:lo:hi``,
        ``branch:lo:hi`` or ``taxonomy:file.csv``, as for ``privpac learn --tree``.

    Returns
    -------
    VC1Tree

    Raises
    ------
    ParameterError
        The text names no tree.

    Examples
    --------
    >>> parse_tree("path:/").height, parse_tree("prefix:1,3,4").height, parse_tree("ip6").level_width(1)
    (32, 3, 2)
    """
    if not isinstance(text, str):
        raise TypeError(f"a tree is named by text, got {type(text).__name__}")
    kind, _, rest = text.strip().partition(":")
    if kind not in _TREES:
        raise ParameterError(f"a tree must be {_FORMS}; got {text[:60]!r}")
    return _TREES[kind](rest)


def read_taxonomy(path: str) -> Taxonomy:
    """A public CSV file with the columns ``child`` and ``parent``; an empty parent means the top."""
    if not path:
        raise ParameterError("taxonomy needs its file, such as taxonomy:tree.csv")
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            if rows.fieldnames is None or not {"child", "parent"} <= set(rows.fieldnames):
                raise ParameterError(f"{path!r} must have the columns child and parent")
            pairs = [(row["child"], row["parent"]) for row in rows]
    except OSError as error:
        raise ParameterError(f"cannot read {path!r}: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError):
        raise ParameterError(f"{path!r} is not a readable CSV file in UTF-8") from None
    if not pairs:
        raise ParameterError(f"{path!r} lists no names")
    parents = {child: parent or None for child, parent in pairs}
    if len(parents) < len(pairs):
        raise ParameterError(f"{path!r} gives a name two parents; a taxonomy is a tree")
    return Taxonomy(parents)
