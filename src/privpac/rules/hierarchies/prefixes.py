"""Prefix trees: regions named by how they are reached.

* :class:`PrefixTree` with a separator: ``usr/lib/python3`` lies in ``usr/lib``, which lies in ``usr``;
* with cuts: ``E119`` lies in ``E11`` lies in ``E`` for the cuts (1, 3, 4); geohashes and phone prefixes have a cut per
  character;
* :class:`AddressTree`: networks in CIDR notation, one bit a level.

A record is (region, "does it contain the target?").  The concept of node ``v`` says 1 on ``v`` and on everything that
contains it.  The root, the region of everything, contains every target: its base label is 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from attrs import evolve, frozen
from numpy.typing import NDArray

from privpac.data import Domain, Texts
from privpac.data.columns import buffers
from privpac.data.domains import in_one_line
from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.hierarchies.base import Places, VC1Tree, lay_out, register_tree
from privpac.rules.hierarchies.columns import Column, as_text

__all__ = [
    "PrefixTree",
    "Region",
    "cut_depths",
    "cut_texts",
    "path_depths",
    "path_texts",
    "split",
]


# Texts in preorder, with the depths of their common prefixes; loops over bytes, never over Python strings.
#
# A path is written as its components joined by the byte 0, which sorts below everything else: then a path is followed
# by the paths below it, and they by everything else.  Bytes 0 and 1 inside a component are escaped (1 1 and 1 2), in
# order, so that sorting the bytes sorts the tuples of components.


Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


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
def _path_depths(ends: Any, data: Any) -> tuple[Any, Any]:
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
def _characters(ends: Any, data: Any) -> tuple[Any, Any]:
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


Path = tuple[str, ...]


class Region(VC1Tree):
    """What prefix trees share: a column of texts, and a root that contains everything."""

    feature: str | None
    domain: Domain

    def base_label(self, x: Any) -> int:
        return int(self.node(x) == self.root)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    @property
    def regions(self) -> bool:
        return True

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        ((feature, domain),) = columns.items()
        return evolve(self, feature=feature, domain=domain)  # type: ignore[misc]


@register_tree
@frozen(slots=False, init=False)
class PrefixTree(Region):
    """Paths split at ``separator``, or codes cut after the given numbers of characters.

    ``max_depth`` caps the height; deeper regions count as their ancestor there.  Empty components are left out
    (``/usr//lib/`` is ``usr/lib``), and a code that ends between two cuts counts as its longest cut prefix.  Characters
    in ``ignore`` are removed from codes first (the dot of ``E11.9``).  Nodes are tuples of components.

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
        assert self.max_depth is not None
        return self.max_depth if self.cuts is None else len(self._cuts)

    @property
    def root(self) -> Path:
        return ()

    def node(self, x: Any) -> Path | None:
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

    def _pieces(self, code: str) -> Path:
        return tuple(code[a:b] for a, b in zip((0, *self._cuts), self._cuts) if b <= len(code))

    def depth(self, v: Path) -> int:
        return len(v)

    def ancestor(self, v: Path, z: int) -> Path:
        if not 0 <= z <= len(v):
            raise ParameterError(f"a node of depth {len(v)} has no ancestor at depth {z}")
        return v[:z]

    def is_ancestor(self, a: Path, v: Path) -> bool:
        return v[: len(a)] == a

    def some_node(self, z: int) -> tuple[str, ...]:
        return ("a",) * z

    def level_width(self, z: int) -> int | None:
        return 1 if self._level(z) == 0 else None

    def order_key(self, v: Path) -> Path:
        return v

    def describe(self, v: Path) -> str:
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

        def name(i: int) -> Path:
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

    def pack(self, v: Path) -> list[str]:
        return list(v)

    def unpack(self, packed: Any) -> Path:
        v = tuple(packed)
        whole = all(isinstance(c, str) and c for c in v) and len(v) <= self.height
        if not whole or (self.node(v) if self.cuts is None else self._pieces("".join(v))) != v:
            raise ParameterError("no region of this tree has that name")
        return v
