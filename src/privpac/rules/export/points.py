"""Scorecards as lines: a table to print, and CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple


class PointLine(NamedTuple):
    """The points of an answer (``points``), or what a sum is compared with (``threshold``)."""

    kind: str
    label: str
    column: str
    answer: str
    points: str


def comma_separated(lines: Sequence[PointLine]) -> str:
    """CSV with a header."""
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows([PointLine._fields, *lines])
    return out.getvalue()


def printed(lines: Sequence[PointLine]) -> str:
    """Columns of text, label by label; of a column's answers the first that fits counts.

    >>> print(printed([PointLine("points", "ill", "age", "any", "3"), PointLine("threshold", "ill", "", "above", "2")]))
    ill
      age  any    3
           above  2
    """
    shown = [PointLine(*(_one_line(part) for part in line)) for line in lines]
    wide = max((len(line.column) for line in shown), default=0)
    answers = max((len(line.answer) for line in shown), default=0)
    numbers = max((len(line.points) for line in shown), default=0)
    out, label, column = [], None, None
    for line in shown:
        if line.label != label:
            out.append(line.label)
        name = "" if (line.label, line.column) == (label, column) else line.column
        out.append(f"  {name:<{wide}}  {line.answer:<{answers}}  {line.points:>{numbers}}")
        label, column = line.label, line.column
    return "\n".join(out)


def _one_line(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)
