"""The prediction service as a web application.

``POST /predict`` gives noisy majorities (:mod:`privpac.methods.prediction.session`), each of them counted in the
ledger, on disk, before the response is made; ``GET /budget`` says what is left, ``GET /guarantee`` what is promised and
which features a query has, ``GET /healthz`` whether the ledger can be used.  ``/`` is the operator's console; its
addresses under ``/console/api`` need the operator's key.  The API is described at ``/openapi.json``; nothing is loaded
from elsewhere.

Any number of worker processes may run this on one session file and one ledger: the count is the ledger's.  Responses
depend on the private data through the answers alone: no vote, margin, confidence or hypothesis is ever part of one,
errors have fixed bodies, and the work for a query does not depend on how the votes fall.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import threading
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated, Any

from attrs import asdict, frozen
from fastapi import Depends, FastAPI, Path
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request

from privpac.connections import KEY
from privpac.errors import BudgetExhausted, LedgerError, ModelFileError, ParameterError, PrivpacError
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.session import PredictionSession, QueryBatch
from privpac.report import pages
from privpac.serve.auth import AuthMiddleware
from privpac.serve.commit import Committer, HealthProbe
from privpac.serve.keys import ApiKey, KeyStore
from privpac.serve.responses import Refusal, problem
from privpac.serve.schema import (
    Answers,
    Budget,
    Exhausted,
    Health,
    History,
    KeyInfo,
    KeyList,
    NewKey,
    NewKeyMade,
    Problem,
    Promise,
    Queries,
    Span,
    columns,
    promise,
)
from privpac.serve.session_file import load_session, operator_secret
from privpac.serve.warm import warm_up

CONFIGURATION = "PRIVPAC_SERVE"
_log = logging.getLogger("privpac.serve")
_STATIC = files("privpac.serve") / "static"
_PARTS = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STEPS, _MAX_SPANS = {"minute": 16, "hour": 13, "day": 10}, 500  # characters of a time that name its span


@frozen(slots=False)
class Configuration:
    """Where a worker finds its files; passed on through the environment, without secrets."""

    session: str
    ledger: str
    keys: str
    key_file: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_environment() -> Any:
    """The application of one worker; named to the server as ``privpac.serve.app:from_environment``."""
    _end_with_parent()
    try:
        configuration = Configuration(**json.loads(os.environ[CONFIGURATION]))
    except (KeyError, TypeError, ValueError):
        raise ParameterError(f"{CONFIGURATION} does not describe a service; start it with: privpac serve run") from None
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    # Every request is a line of the log; what the line does not say need not be found out.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    ledger = BudgetLedger.open(configuration.ledger)
    session = load_session(configuration.session, operator_secret(configuration.key_file), ledger)
    app = create_app(session, ledger, KeyStore(configuration.keys))
    gc.collect()
    gc.freeze()  # what is loaded now stays; looking through it again and again took a fifth of the work for an answer
    return app


def _end_with_parent() -> None:
    """A worker ends at once when the process that started it is gone, however that ended.

    Otherwise nobody could stop the worker, and it would keep the port.  What it was writing is in the ledger or is not;
    what it had not answered stays unanswered.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()  # the other end of a pipe that only the parent holds: closed by the system when it dies
            os._exit(1)

        threading.Thread(target=wait, name="privpac-parent", daemon=True).start()


def create_app(session: PredictionSession, ledger: BudgetLedger, keys: KeyStore) -> Any:
    """An ASGI application around a session that the ledger counts."""
    if not session.durable:
        raise ParameterError("a service needs a session that a ledger counts; learn it with ledger=")
    warm_up(session)  # a worker listens only after this
    app = FastAPI(
        title="privpac prediction service", version="1", openapi_url=None, debug=False, redirect_slashes=False
    )
    app.router.route_class = _OneMeaning
    _add_errors(app)
    _add_predictions(app, session)
    _add_console(app, session, ledger, keys)
    described = app.openapi()
    described["components"]["securitySchemes"] = _SCHEMES
    text = json.dumps(described)

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        return Response(text, media_type="application/json")

    return AuthMiddleware(app, keys)


# Bodies


class _JsonRequest(Request):
    """A request whose body has one meaning: of two equal names in it, two readers could take different ones for what is
    charged."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            if len(self.headers.getlist("content-type")) != 1:
                raise ValueError
            return _decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
        except (ValueError, RecursionError):
            raise json.JSONDecodeError("not one meaning", "", 0) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


_decoder = json.JSONDecoder(object_pairs_hook=_once)


class _OneMeaning(APIRoute):
    """A route that reads its body as :class:`_JsonRequest` does."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return read


# Errors: fixed bodies, nothing echoed


def _add_errors(app: FastAPI) -> None:
    def respond(status: int, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse(problem(status), status_code=status, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return respond(422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        allowed = {
            name: value
            for name, value in (error.headers or {}).items()
            if name.lower() in ("allow", "www-authenticate")
        }
        return respond(error.status_code, allowed)

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return respond(error.status)

    @app.exception_handler(Exception)  # the middleware around the application says which class it was
    async def failed(request: Request, error: Exception) -> Response:
        return respond(500, {"connection": "close"})

    @app.exception_handler(BudgetExhausted)
    async def exhausted(request: Request, error: BudgetExhausted) -> Response:
        remaining = max(0, error.remaining) if isinstance(error.remaining, int) else 0
        return JSONResponse(problem(429) | {"remaining": remaining}, status_code=429)

    @app.exception_handler(LedgerError)
    @app.exception_handler(ModelFileError)
    async def unavailable(request: Request, error: PrivpacError) -> Response:
        _log.error("unavailable: %s", type(error).__name__)
        return respond(503)


_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": problem(status)["error"]} for status in (400, 401, 413, 422, 503)
}
_FORBIDDEN: dict[int | str, dict[str, Any]] = {403: {"model": Problem, "description": problem(403)["error"]}}
_EXHAUSTED: dict[int | str, dict[str, Any]] = {429: {"model": Exhausted, "description": problem(429)["error"]}}
_MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": problem(404)["error"]}}


def _checked(request: Request) -> ApiKey:
    """The key that the middleware has checked."""
    key: ApiKey | None = request.scope.get(KEY)
    if key is None:  # a path that the middleware did not take for this one
        raise Refusal(401)
    return key


_WITH_KEY: dict[str, Any] = {"security": [{"key": []}]}
_SCHEMES = {"key": {"type": "http", "scheme": "bearer", "description": "A key made with: privpac serve keys new"}}


# What analysts use


def _add_predictions(app: FastAPI, session: PredictionSession) -> None:
    shown, probe, committer = promise(session).model_dump_json(), HealthProbe(session.used), Committer(session)

    @app.post("/predict", response_model=Answers, responses=_RESPONSES | _EXHAUSTED, openapi_extra=_WITH_KEY)
    async def predict(queries: Queries, request: Request) -> Response:
        """Answer up to 1000 queries, all of them or none; queries answered before are free."""
        key = _checked(request)
        try:
            codes = columns(session, queries.records)
        except Exception:  # whatever is wrong here is wrong with the query, and looks at nothing else
            raise Refusal(422) from None
        answers = await committer.answer(QueryBatch(codes, key.id, key.share))
        return JSONResponse({"answers": answers.tolist(), "label": session.label})

    @app.get("/budget", responses=_RESPONSES, openapi_extra=_WITH_KEY)
    def budget(request: Request) -> Budget:
        """What is left of the session, and of this key's share."""
        key = _checked(request)
        used, mine = session.used(), session.used(key.id)
        left = max(0, session.queries - used)
        own = left if key.share is None else max(0, min(left, key.share - mine))
        told: dict[str, Any] = {
            "key": key.name,
            "role": key.role,
            "share": key.share,
            "key_used": mine,
            "key_remaining": own,
        }
        return Budget(queries=session.queries, used=used, remaining=left, **told)

    @app.get("/guarantee", response_model=Promise)
    async def guarantee() -> Response:
        """What is promised about all answers together, and what a query looks like."""
        return Response(shown, media_type="application/json")

    @app.get("/healthz", responses={503: _RESPONSES[503]})
    async def healthz() -> Health:
        """Whether the ledger can be read, said within a second."""
        if not await probe.healthy():
            raise HTTPException(503)
        return Health(status="ok")


# The operator's console


def _add_console(app: FastAPI, session: PredictionSession, ledger: BudgetLedger, keys: KeyStore) -> None:
    page = pages.page("console.html")
    parts = {name: ((_STATIC / name).read_bytes(), kind) for name, kind in _PARTS.items()}
    parts["style.css"] = (pages.stylesheet(), "text/css")
    guarded: dict[str, Any] = {"responses": _RESPONSES | _FORBIDDEN, "openapi_extra": _WITH_KEY}
    guarded["dependencies"] = [Depends(_checked)]

    @app.get("/", include_in_schema=False)
    async def console() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404)
        return Response(parts[name][0], media_type=parts[name][1])

    @app.get("/console/api/history", **guarded)
    def history() -> History:
        """Answers counted, by minute; by hour or by day where there would be too many."""
        read = ((step, ledger.queries.history(session.session_id, width)) for step, width in _STEPS.items())
        step, spans = next(found for found in read if len(found[1]) <= _MAX_SPANS or found[0] == "day")
        return History(
            queries=session.queries, step=step, answers=[Span(start=start, answers=count) for start, count in spans]
        )

    @app.get("/console/api/keys", **guarded)
    def list_keys() -> KeyList:
        """All keys, with what each has used; secrets are not kept."""
        return KeyList(keys=[_info(session, listed) for listed in keys.all()])

    @app.post("/console/api/keys", status_code=201, **guarded)
    def make_key(wanted: NewKey) -> NewKeyMade:
        """Make a key; its secret is in this response and nowhere else."""
        try:
            made, token = keys.new(wanted.name, wanted.role, wanted.share)
        except ParameterError:
            raise HTTPException(422) from None
        return NewKeyMade(**_info(session, made).model_dump(), token=token)

    @app.delete("/console/api/keys/{identity}", **guarded | {"responses": guarded["responses"] | _MISSING})
    def revoke_key(identity: Annotated[str, Path(max_length=40)]) -> KeyInfo:
        """Stop a key from working, for good."""
        try:
            return _info(session, keys.revoke(identity))
        except ParameterError:
            raise HTTPException(404) from None


def _info(session: PredictionSession, key: ApiKey) -> KeyInfo:
    return KeyInfo(**key.public(), used=session.used(key.id))
