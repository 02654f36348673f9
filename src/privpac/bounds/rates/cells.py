"""A table of rates: what a paper's table says, cell by cell, with a certificate where there are explicit constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Neighbours

__all__ = ["Compute", "RateNumbers", "RateCell", "RateRow", "RateTable", "NOTHING", "cell_of", "largest"]

Compute = Callable[[], Certificate]


@dataclass(frozen=True)
class RateCell:
    """A rate, where it is from, and the users it means at the table's numbers (``certificate`` None: order only)."""

    rate: str
    source: str
    certificate: Certificate | None = None
    note: str = ""

    @property
    def users(self) -> int | None:
        return None if self.certificate is None else self.certificate.n_users

    def words(self) -> str:
        if self.rate == "-":
            return "-"
        if self.certificate is None:
            return self.note or "order only"
        return "not certified" if self.users is None else f"{self.users:,} user{'' if self.users == 1 else 's'}"

    def to_dict(self) -> dict[str, Any]:
        made = None if self.certificate is None else self.certificate.to_dict()
        return {"rate": self.rate, "source": self.source, "users": self.users, "certificate": made, "note": self.note}


@dataclass(frozen=True)
class RateRow:
    """One problem, one cell for each column."""

    problem: str
    cells: tuple[RateCell, ...]


@dataclass(frozen=True)
class RateTable:
    """One table of one paper; ``numbers`` are the public numbers that its certificates are for."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[RateRow, ...]
    numbers: tuple[tuple[str, Any], ...]
    notes: tuple[str, ...] = ()

    def cell(self, problem: str, column: str) -> RateCell:
        for row in self.rows:
            if row.problem == problem and column in self.columns:
                return row.cells[self.columns.index(column)]
        known = "; ".join(row.problem for row in self.rows)
        raise ParameterError(f"no such cell: rows are {known}; columns are {', '.join(self.columns)}")

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {"problem": row.problem} | {name: cell.to_dict() for name, cell in zip(self.columns, row.cells)}
            for row in self.rows
        ]
        numbers = {name: str(value) if isinstance(value, Fraction) else value for name, value in self.numbers}
        return {"table": self.name, "title": self.title, "numbers": numbers, "rows": rows, "notes": list(self.notes)}

    def table(self) -> Any:
        """A rich table for the terminal."""
        from rich.table import Table
        from rich.text import Text

        caption = ", ".join(
            f"{name} {float(value):g}" if isinstance(value, Fraction) else f"{name} {value}"
            for name, value in self.numbers
        )
        out = Table(title=self.title, title_justify="left", caption=caption, caption_justify="left", show_lines=True)
        for name in ("", *self.columns):
            out.add_column(name, overflow="fold")
        for row in self.rows:
            out.add_row(Text(row.problem), *(_shown(cell) for cell in row.cells))
        return out

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=150, force_terminal=False)
        console.print(self.table())
        for line in self.notes:
            console.print(line, markup=False, highlight=False)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def _shown(cell: RateCell) -> Any:
    from rich.text import Text

    if cell.rate == "-":
        return Text("-")
    return Text.assemble(cell.rate, "\n", (cell.words(), "bold" if cell.users else "dim"), f"  {cell.source}")


# Numbers


@dataclass(frozen=True)
class RateNumbers:
    """Public numbers, read and checked."""

    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    m: int
    size: int
    vc: int
    k: int
    d: int
    radius: Fraction
    spread: Fraction
    neighbours: Neighbours
    ladder: int | None

    @property
    def log_size(self) -> float:
        return math.log(self.size)

    @property
    def ldim(self) -> int:
        """``floor(log2 size)``: exactly that of cut-offs; no class of this size has more."""
        return self.size.bit_length() - 1

    @property
    def goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    @property
    def success(self) -> Fraction:
        return 1 - self.beta


def cell_of(rate: str, source: str, compute: Compute | None = None, note: str = "") -> RateCell:
    """A cell; a bound that says nothing at these numbers says so instead of stopping the table."""
    if compute is None:
        return RateCell(rate, source, None, note)
    try:
        return RateCell(rate, source, compute(), note)
    except (ParameterError, TooLargeError) as error:
        return RateCell(rate, source, None, f"no constants at these numbers: {error}")


NOTHING = RateCell("-", "")


def largest(*computes: Compute) -> Compute:
    """The strongest of several lower bounds; those that do not apply at these numbers are left out."""

    def strongest() -> Certificate:
        found: list[Certificate] = []
        refused: list[ParameterError] = []
        for compute in computes:
            try:
                found.append(compute())
            except ParameterError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return max(found, key=lambda certificate: certificate.n_users or 0)

    return strongest
