"""How much a device has to compute for a task, from public numbers alone: a run that asks for more is refused.

Counted in steps of an interpreter (10^7 a second on a laptop, 10^6 on an old telephone), vectorised ones as a 64th.
``fixed`` whatever the records, ``each`` for every record.  Races over 2^64 rules are cheap; what grows quickly is
elimination on long integers (a separator of D columns: D^4) and the proved queries, whose number is a polynomial of
high degree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from privpac.device.canonical import CanonicalLists, CanonicalWeights
from privpac.device.decision_lists import KDecisionList, StagewiseDecisionList
from privpac.device.ellipsoid import SQEllipsoid
from privpac.device.littlestone import BUDGET, ReductionList, SmallClassLists, TableLists
from privpac.device.parity import ParitySolver
from privpac.device.representation import RaceLearner
from privpac.device.separator import RoundedSeparator
from privpac.device.statistical_queries import QueryLearner
from privpac.device.tasks import Task
from privpac.errors import TooLargeError

__all__ = ["MOST_EACH", "MOST_FIXED", "Work", "check_work", "work_of"]

MOST_FIXED = 1 << 26
MOST_EACH = 1 << 13
_VECTOR = 64


class Work(NamedTuple):
    """Steps whatever the records, and for each record."""

    fixed: int
    each: int


def work_of(task: Task) -> Work:
    """An estimate of the steps of one client.

    >>> work_of(Task("threshold", (1 << 64,))).fixed < 10_000
    True
    """
    return _of(task.learner)


def _of(learner: Any) -> Work:
    if isinstance(learner, (CanonicalLists, CanonicalWeights)):
        inner = _of(learner.inner)
        return Work(inner.fixed + (1 << 21), inner.each)
    if isinstance(learner, RoundedSeparator):
        D = learner.d + 1
        return Work(learner.stages * D**4, learner.stages * D * D // _VECTOR + 1)
    if isinstance(learner, SQEllipsoid):
        D = learner.d + 1
        return Work(learner.steps * D**3, learner.steps * D * D)
    if isinstance(learner, KDecisionList):
        return Work(8 * learner.queries, learner.queries // _VECTOR + 1)
    if isinstance(learner, StagewiseDecisionList):
        tests = learner.tests
        return Work(64 * tests * learner.stages, tests * learner.stages // _VECTOR + 1)
    if isinstance(learner, QueryLearner):
        return Work(8 * learner.queries, learner.queries // _VECTOR + 1)
    if isinstance(learner, RaceLearner):
        components = len(learner.scores.sizes)
        size = learner.universe.size
        # Parities are transformed as a whole; cuts and points are searched from the best node on.
        listed = size * size.bit_length() // _VECTOR if size <= 1 << 22 and components == 1 else 0
        return Work(4096 + 256 * components + listed, 8 * components)
    if isinstance(learner, ParitySolver):
        return Work(4 * learner.width**2, 2 * learner.width)
    if isinstance(learner, SmallClassLists):
        lists = learner.learner
        rows = lists.rows if isinstance(lists, TableLists) else None
        table = 0 if rows is None else rows.size * rows.points
        search = 0 if rows is None or not isinstance(lists, ReductionList) else BUDGET * rows.points
        return Work(4096 + table + learner.parts * (table + search), 64)
    return Work(0, 0)


def check_work(task: Task) -> None:
    """Raises if a client would have to compute too long."""
    work = work_of(task)
    if work.fixed > MOST_FIXED or work.each > MOST_EACH:
        raise TooLargeError(
            f"a client would compute too long for {task.kind} on {len(task.sizes)} columns: {work.fixed:.1g} steps "
            f"and {work.each} for each record, at most {MOST_FIXED:.1g} and {MOST_EACH}; take fewer columns or tests, "
            "or a learner without a certificate"
        )
