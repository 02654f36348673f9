"""Cutting a stream of rows between users.

:func:`whole_users` takes batches in which the rows of a user stand together and gives chunks of whole users; with
``ascending`` it does not trust the order but checks every row against the one before.  Either way ids that are missing
or spoilt belong to nobody and are left out (or were refused before).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from privpac.data.group import ascends
from privpac.data.ids import as_ids
from privpac.errors import SchemaError

__all__ = ["Order", "identified", "whole_users"]


def identified(frame: pl.DataFrame, user: str) -> tuple[pl.DataFrame, pl.Series]:
    """The rows that belong to somebody, and their ids as integers or text."""
    ids, absent, spoilt = as_ids(frame.get_column(user), user)
    masks = [mask for mask in (absent, spoilt) if mask is not None and mask.any()]
    if not masks:
        return frame, ids
    good = pl.Series(~np.logical_or.reduce(masks))
    return frame.filter(good), ids.filter(good)


class Order:
    """Whether ids never descend, over any number of batches."""

    def __init__(self) -> None:
        self._last: object = None

    def holds(self, ids: pl.Series) -> bool:
        """Look at the next batch."""
        if not len(ids):
            return True
        if self._last is not None and ids[0] < self._last:
            return False
        self._last = ids[-1]
        if ids.dtype == pl.String:
            return bool(
                (ids.slice(1) >= ids.slice(0, len(ids) - 1)).all()
            )  # every row, unlike is_sorted() of what is said to be
        return bool(ascends(ids.to_numpy()))


def whole_users(batches: Iterable[pl.DataFrame], user: str, rows: int, *, ascending: bool) -> Iterator[pl.DataFrame]:
    """Chunks of about ``rows`` rows, or of one user if that user has more.

    A user on the border of a large batch is a chunk alone: to join the others, all of them would have to be copied.
    """
    waiting: list[tuple[pl.DataFrame, pl.Series]] = []
    order, count = Order(), 0
    for batch in batches:
        frame, ids = identified(batch, user)
        if not len(frame):
            continue
        if ascending and not order.holds(ids):
            raise SchemaError(
                f"column {user!r} was sorted when it was checked and is not any more; start again from files that stay "
                "as they are"
            ) from None
        if waiting and len(frame) >= rows and (end := _end_of(waiting[-1][1][-1], ids)) < len(ids):
            yield pl.concat([*(part for part, _ in waiting), frame[:end]])
            waiting, count, frame, ids = [], 0, frame[end:], ids[end:]
        waiting.append((frame, ids))
        count += len(frame)
        if count >= rows:
            done, waiting = _cut(waiting)
            if done:
                yield pl.concat(done)
            count = sum(len(part) for part, _ in waiting)
    if waiting:
        yield pl.concat([part for part, _ in waiting])


def _cut(
    waiting: list[tuple[pl.DataFrame, pl.Series]],
) -> tuple[list[pl.DataFrame], list[tuple[pl.DataFrame, pl.Series]]]:
    """Everything before the last user, and the rows of the last user, who may go on in the next batch."""
    last = waiting[-1][1][-1]
    for place in range(len(waiting) - 1, -1, -1):
        frame, ids = waiting[place]
        if ids[0] == last:
            continue  # the last user may begin in an earlier batch
        start = _start_of(last, ids)
        done = [part for part, _ in waiting[:place]] + [frame[:start]]
        rest = [(frame[start:], ids[start:])] if start < len(frame) else []
        return done, rest + waiting[place + 1 :]
    return [], waiting


def _end_of(first: object, ids: pl.Series) -> int:
    """How many rows at the beginning belong to this user."""
    size = 1
    while (head := ids[:size])[-1] == first and size < len(ids):
        size *= 2
    others = np.flatnonzero((head != first).to_numpy())
    return int(others[0]) if len(others) else len(head)


def _start_of(last: object, ids: pl.Series) -> int:
    """Where the run of the last user begins, at the end if these rows are of others; the first row is."""
    size = 1
    while (tail := ids[-min(size, len(ids)) :])[0] == last:
        size *= 2
    return len(ids) - len(tail) + int(np.flatnonzero((tail != last).to_numpy())[-1]) + 1
