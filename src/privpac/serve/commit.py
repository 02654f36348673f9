"""Group commit: one durable transaction for all requests that wait.

Syncing the disk takes as long for one answer as for a hundred.  Questions that come while a transaction runs are
collected and answered by the next one, so that a lone client waits for nobody and many clients share a sync.  **No
answer leaves before its transaction is on disk**; a crash in between has counted answers that nobody received, which a
repeated question gets free of charge.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from privpac.methods.prediction.session import PredictionSession, QueryBatch

_Answers = NDArray[np.int8]
Waiting = tuple[QueryBatch, "asyncio.Future[_Answers]"]

_MOST = 2000
"""Queries in one transaction, so that nobody waits long for the one before."""


class Committer:
    """Answers the questions of one process; at most one transaction at a time."""

    def __init__(self, session: PredictionSession) -> None:
        self._session = session
        self._waiting: deque[Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "privpac-commit")
        self._task: asyncio.Task[None] | None = None

    async def answer(self, question: QueryBatch) -> _Answers:
        """The answers, counted and on disk; ``BudgetExhausted`` or another error of the ledger if there are none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Answers] = loop.create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._commit())
        return await future

    async def _commit(self) -> None:
        while self._waiting:
            batch = self._take()
            found: Sequence[_Answers | Exception]
            try:
                found = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._session.predict_many, [question for question, _ in batch]
                )
            except Exception as error:
                found = [error] * len(batch)
            for (_, future), result in zip(batch, found):
                if future.done():  # its client has gone
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _take(self) -> list[Waiting]:
        batch: list[Waiting] = []
        rows = 0
        while self._waiting and (not batch or rows < _MOST):
            batch.append(self._waiting.popleft())
            rows += len(next(iter(batch[-1][0].codes.values())))
        return batch


class HealthProbe:
    """Whether something can be done at all: asked by many, tried by one at a time, and told within a second however
    long that takes."""

    def __init__(self, act: Callable[[], object], patience: float = 1.0) -> None:
        self._act, self._patience = act, patience
        self._thread = ThreadPoolExecutor(1, "privpac-health")
        self._attempt: asyncio.Future[object] | None = None

    async def healthy(self) -> bool:
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.get_running_loop().run_in_executor(self._thread, self._act)
        done, _ = await asyncio.wait({self._attempt}, timeout=self._patience)
        return bool(done) and self._attempt.exception() is None
