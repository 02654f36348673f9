"""A bar with the rows read, on a terminal only: it is for the curator, and logs must not hold counts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import polars as pl

__all__ = ["tracked"]


def tracked(batches: Iterable[pl.DataFrame], total: int, what: str, *, show: bool) -> Iterator[pl.DataFrame]:
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
            progress.advance(task, len(batch))
