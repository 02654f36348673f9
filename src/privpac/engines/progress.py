"""A bar with the rows read, on a terminal only: it is for the curator, and logs must not hold counts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import polars as pl

from privpac.data.users import UserData

__all__ = ["tracked"]

T = TypeVar("T", bound=pl.DataFrame | UserData)


def tracked(batches: Iterable[T], total: int, what: str, *, show: bool) -> Iterator[T]:
    """The same batches; the bar moves as they are taken."""
    if not show or not sys.stderr.isatty():
        yield from batches
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        for batch in batches:
            yield batch
            progress.advance(task, batch.n_records if isinstance(batch, UserData) else len(batch))
