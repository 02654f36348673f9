"""Texts in preorder, with the depths of their common prefixes; loops over bytes, never over Python strings.

A path is written as its components joined by the byte 0, which sorts below everything else: then a path is followed by
the paths below it, and they by everything else.  Bytes 0 and 1 inside a component are escaped (1 1 and 1 2), in order,
so that sorting the bytes sorts the tuples of components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data.columns import buffers
from privpac.data.jit import jit

__all__ = ["cut_depths", "cut_texts", "path_depths", "path_texts", "split"]

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
