"""``POST /predict``: from the bytes of a request to answers that are counted, without the framework in between.

The framework describes this address in ``/openapi.json`` and serves the others.  Here it would cost more than reading,
counting, drawing and writing together, and of two equal names in a body it would take the last.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from privpac.errors import BudgetExhausted, LedgerError
from privpac.methods.prediction.session import PredictionSession, QueryBatch
from privpac.serve.commit import Committer
from privpac.serve.keys import ApiKey
from privpac.serve.limits import KEY, Receive, Refusal, Scope, Send
from privpac.serve.schema import Queries, columns

_log = logging.getLogger("privpac.serve")


def read_json(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Any:
    """What a body says.  One in which a name occurs twice is refused: two readers could take different ones for what is
    charged."""
    kinds = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
    if len(kinds) != 1 or not (kinds[0] == b"application/json" or kinds[0].endswith(b"+json")):
        raise Refusal(422)
    try:
        return _decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError):
        raise Refusal(422) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


_decoder = json.JSONDecoder(object_pairs_hook=_once)


class Predict:
    """The address as an ASGI application, behind the wall."""

    path = "/predict"

    def __init__(self, session: PredictionSession) -> None:
        self._session, self._committer = session, Committer(session)
        self._label = json.dumps(session.label)

    def serves(self, scope: Scope) -> bool:
        return (scope["type"], scope.get("method"), scope.get("path")) == ("http", "POST", self.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        key: ApiKey = scope[KEY]
        sent = read_json(scope["headers"], await _whole(receive))
        try:
            codes = columns(self._session, Queries.model_validate(sent).records)
        except Exception:  # whatever is wrong here is wrong with the query, and looks at nothing else
            raise Refusal(422) from None
        try:
            answers = await self._committer.answer(QueryBatch(codes, key.id, key.share))
        except BudgetExhausted as error:
            raise Refusal(429, remaining=max(0, error.remaining) if isinstance(error.remaining, int) else 0) from None
        except LedgerError as error:
            _log.error("unavailable: %s", type(error).__name__)
            raise Refusal(503) from None
        body = (
            f'{{"answers": {answers.tolist()}, "label": {self._label}}}'.encode()
        )  # integers look alike in both languages
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(400)  # the client has gone
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
