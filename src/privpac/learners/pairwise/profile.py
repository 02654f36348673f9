"""Users' records into the pairwise score of every rule.

Comparisons of two rules are clipped per user, and their maximum does not add up over parts of the users, so the records
of the columns read are brought together first (O(records)); then cuts and points are swept and other classes tabulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.profile import Profile, Step
from privpac.concepts.statistics import Table, read_table
from privpac.data.group import ranked
from privpac.learners.pairwise.sweep import Ints, Pieces, gains_of, line_pieces, point_pieces, sweep_scores
from privpac.learners.pairwise.table import table_of, table_scores

if TYPE_CHECKING:
    from privpac.data import Domain, UserData

__all__ = ["Gather", "joined", "pairwise_profile"]

Part = tuple[Ints, tuple[NDArray[np.uint64], ...], NDArray[np.uint8]]


@dataclass(frozen=True)
class Gather:
    """All records of the columns read, users kept together."""

    columns: tuple[str, ...]

    def zero(self) -> list[Part]:
        return []

    def chunk(self, users: UserData) -> list[Part]:
        assert users.labels is not None
        return [(users.offsets, tuple(users.codes[name] for name in self.columns), users.labels)]

    def merge(self, a: list[Part], b: list[Part]) -> list[Part]:
        return a + b


def joined(
    parts: list[Part], columns: tuple[str, ...]
) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.uint8], Ints]:
    if len(parts) != 1:
        sizes = [np.empty(0, dtype=np.int64), *(np.diff(offsets) for offsets, _, _ in parts)]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))])
        none = np.empty(0, dtype=np.uint64)
        codes = tuple(np.concatenate([none, *(part[1][j] for part in parts)]) for j in range(len(columns)))
        parts = [(offsets, codes, np.concatenate([np.empty(0, dtype=np.uint8), *(part[2] for part in parts)]))]
    ((offsets, codes, labels),) = parts
    return dict(zip(columns, codes)), labels, offsets


# Scores


def pairwise_profile(
    concept: ConceptClass,
    codes: Mapping[str, NDArray[np.uint64]],
    labels: NDArray[np.uint8],
    offsets: Ints,
    *,
    clip: Table,
    levels: int | None,
    method: str | None = None,
) -> Profile:
    """The worst comparison of every rule of a bound class."""
    sizes = np.unique(np.diff(offsets))
    clips = {m: read_table(clip, m, name="tau", minimum=1) for m in sizes.tolist() if m}
    clipped = levels is not None or any(tau < m for m, tau in clips.items())
    if concept.layout == "listed":
        table = table_of(concept, codes, labels, offsets)
        found = table_scores(table, gains_of(table.groups.sizes, clips, levels), clipped=clipped, levels=levels)
        return table.profile(found)

    def scores(pieces: Pieces) -> Ints:
        return sweep_scores(pieces, gains_of(pieces.sizes, clips, levels), clipped=clipped, method=method)

    domains = [domain for domain in concept.declared().values() if domain is not None]
    ranks = {name: ranked(column) for name, column in codes.items()}
    if concept.layout == "values":
        ((held, rank),) = ranks.values()
        rest = concept.size - len(held)
        single = np.append(np.ones(len(held), dtype=bool), [rest == 1] if rest else [])
        found = scores(point_pieces(rank, single.astype(bool), labels, offsets))
        return _point_profile(found, held, concept.size, domains[0].size)
    marks = [_single_cuts(held, domain) for (held, _), domain in zip(ranks.values(), domains)]
    found = scores(line_pieces([rank for _, rank in ranks.values()], marks, labels, offsets, concept.directions))
    return _cut_profile(found, [held for held, _ in ranks.values()], domains, len(concept.directions))


def _single_cuts(held: NDArray[np.uint64], domain: Domain) -> NDArray[np.bool_]:
    """Which of the runs of cuts below, between and above the held codes are one cut only."""
    if not len(held):
        return np.zeros(1, dtype=bool)
    between = np.diff(held) == 1
    return np.concatenate([[held[0] == 0], between, [int(held[-1]) == domain.size - 1]])


def _cut_profile(scores: Ints, held: list[NDArray[np.uint64]], domains: list[Domain], directions: int) -> Profile:
    """Two steps (cut 0; cuts 1..N) per data column and direction, as the classes of cuts lay out their ids."""
    steps: list[Step] = []
    base = used = 0
    for codes, domain in zip(held, domains):
        for _ in range(directions):
            part = scores[used : used + len(codes) + 1]
            first = int(part[0])
            steps += [
                Step(base, np.zeros(1, dtype=np.uint64), 0, part[:1]),
                _step(base + 1, domain.size - 1, first, codes, part[1:]),
            ]
            base, used = base + domain.size + 1, used + len(codes) + 1
    return Profile(tuple(steps))


def _point_profile(scores: Ints, held: NDArray[np.uint64], size: int, codes: int) -> Profile:
    """One score per held value, and the last one for all the other rules."""
    # After a held value comes another one, the end, or a run of values that nobody holds.
    gap = np.append(np.diff(held) != 1, [int(held[-1]) != codes - 1] if len(held) else [])
    kept = np.stack([np.ones(len(held), dtype=bool), gap.astype(bool)], axis=1).ravel()
    starts = np.stack([held, held + np.uint64(1)], axis=1).ravel()[kept]
    values = np.stack([scores[: len(held)], np.full(len(held), scores[-1])], axis=1).ravel()[kept]
    steps = [_step(0, codes - 1, int(scores[-1]), starts, values)]
    if size > codes:
        steps.append(Step(codes, np.zeros(1, dtype=np.uint64), 0, scores[-1:]))
    return Profile(tuple(steps))


def _step(offset: int, end: int, first: int, starts: NDArray[np.uint64], scores: Ints) -> Step:
    """``scores[i]`` from ``offset + starts[i]`` on, ``first`` before that."""
    if not len(starts) or starts[0] != 0:
        starts = np.concatenate([np.zeros(1, dtype=np.uint64), starts])
        scores = np.concatenate([np.array([first], dtype=np.int64), scores])
    return Step(offset, starts, end, scores)
