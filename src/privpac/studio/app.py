"""The studio as a web application: one page, its parts, and what its buttons ask for.

Whatever goes wrong in the house is said in one line, as on the command line; whatever else goes wrong is not described.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from privpac.errors import ParameterError, PrivpacError
from privpac.report import pages
from privpac.rules.base import RULES
from privpac.studio.desk import Busy, Declaration, Desk
from privpac.studio.guard import Guard, Locks
from privpac.studio.plans import STOPS, planned
from privpac.studio.words import TextFormat

_PARTS = {"studio.css": "text/css", "studio.js": "text/javascript"}
_SERVICE = {"icon.svg": "image/svg+xml"}
_KINDS = {
    "threshold": "a cut on one column",
    "stump": "the best cut, or category, on any column",
    "interval": "a range on one column",
    "conjunction": "several conditions at once",
    "small-tree": "a small tree of questions",
}
"""Rules that the page offers, in its words."""

Text = Annotated[str, Field(max_length=4_000)]
_Number = Annotated[str, Field(max_length=40)]


class _StudioBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AboutTable(_StudioBody):
    table: Text


class ReadTable(AboutTable):
    separator: Annotated[str, Field(max_length=1)] = ""
    names: Annotated[str, Field(max_length=100_000)] = ""


class DeclaredTable(AboutTable):
    columns: dict[Text, Annotated[str, Field(max_length=100_000)]]
    unit: Text
    user: Text
    label: Text
    labels: Text
    positive: Text
    missing: Text
    on_invalid: Text


class PlanAsked(AboutTable):
    rule: Text | None
    epsilon: _Number
    alpha: _Number
    people: Annotated[int, Field(ge=1, le=10**12)] | None
    records: Annotated[int, Field(ge=1, le=10**6)]


class BudgetAsked(AboutTable):
    epsilon: _Number
    dataset: Annotated[str, Field(min_length=1, max_length=200)]


class LearnAsked(AboutTable):
    rule: Text | None
    epsilon: _Number
    evaluate: bool


class MeasureAsked(AboutTable):
    rule: Text
    epsilon: _Number


class OfferAccepted(_StudioBody):
    offer: Text


def create_studio(desk: Desk, locks: Locks, port: int) -> Any:
    """An ASGI application around a desk, behind its guard."""
    app = FastAPI(title="privpac studio", openapi_url=None, debug=False, redirect_slashes=False)
    _add_errors(app)
    _add_page(app)
    _add_reading(app, desk)
    _add_doing(app, desk)
    return Guard(app, locks, port)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(PrivpacError)
    async def said(request: Request, error: PrivpacError) -> Response:
        return JSONResponse({"error": str(error)}, status_code=409 if isinstance(error, Busy) else 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": "something on the page is not filled in as it should be"}, status_code=422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": "There is nothing here."}, status_code=error.status_code)


def _add_page(app: FastAPI) -> None:
    kinds = {name: said for name, said in _KINDS.items() if name in RULES}
    page = pages.page("studio.html", kinds=kinds, stops=STOPS)
    parts = {name: ((files("privpac.studio") / "static" / name).read_bytes(), kind) for name, kind in _PARTS.items()}
    parts |= {name: ((files("privpac.serve") / "static" / name).read_bytes(), kind) for name, kind in _SERVICE.items()}
    parts["style.css"] = (pages.stylesheet(), "text/css")

    @app.get("/")
    async def home() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404)
        return Response(parts[name][0], media_type=parts[name][1])

    @app.get("/favicon.ico")  # browsers ask for it on behalf of pages that name no icon: reports
    async def icon() -> Response:
        return Response(parts["icon.svg"][0], media_type=parts["icon.svg"][1])


def _add_reading(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/state")
    def state() -> dict[str, Any]:
        """What can be chosen, and what was done."""
        return {"folder": str(desk.folder), "start": str(desk.start), "tables": desk.tables(), "results": desk.results}

    @app.post("/api/columns")
    def columns(asked: ReadTable) -> dict[str, Any]:
        """Names, types and suggestions."""
        names = tuple(name.strip() for name in asked.names.split(",")) if asked.names.strip() else ()
        return desk.columns(asked.table, TextFormat(asked.separator, names))

    @app.post("/api/check")
    def check(asked: AboutTable) -> dict[str, Any]:
        """What the table holds and loses, for the person at the page alone."""
        return desk.check(asked.table)

    @app.post("/api/ledger")
    def ledger(asked: AboutTable) -> dict[str, Any]:
        """What is left of the budget."""
        return desk.balance(asked.table)

    @app.post("/api/plan")
    def plan(asked: PlanAsked) -> dict[str, Any]:
        """What can be promised."""
        schema, place = desk.schema(asked.table), desk.shown(desk.schema_of(asked.table))
        told = asked.model_dump(exclude={"table"})
        return planned(schema, place, **told)

    @app.get("/report/{secret}")
    def report(secret: str, save: bool = False) -> Response:
        """A report, to read here or to save elsewhere."""
        path = desk.report(secret)
        if path is None or not path.exists():
            raise HTTPException(404)
        return FileResponse(path, media_type="text/html", filename=path.name if save else None)


def _add_doing(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/upload")
    async def upload(request: Request, name: str) -> dict[str, Any]:
        """Take a table in, for as long as the studio runs."""
        path = desk.keep(name)
        try:
            with path.open("xb") as file:
                async for chunk in request.stream():
                    file.write(chunk)
        except FileExistsError:
            raise ParameterError(f"a table {path.name!r} was handed in already; rename one of them") from None
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return {"table": desk.shown(path)}

    @app.post("/api/schema")
    def schema(asked: DeclaredTable) -> dict[str, Any]:
        """Write the schema file."""
        return desk.declare(Declaration(**asked.model_dump()))

    @app.post("/api/budget")
    def budget(asked: BudgetAsked) -> dict[str, Any]:
        """Make a ledger."""
        return desk.open_budget(asked.table, asked.epsilon, asked.dataset)

    @app.post("/api/learn")
    def learn(asked: LearnAsked) -> dict[str, Any]:
        """What learning would cost; nothing is spent."""
        return desk.offer_rule(asked.table, asked.epsilon, asked.rule, asked.evaluate)

    @app.post("/api/evaluate")
    def evaluate(asked: MeasureAsked) -> dict[str, Any]:
        """What measuring would cost; nothing is spent."""
        return desk.offer_evaluation(asked.table, asked.epsilon, asked.rule)

    @app.post("/api/accept")
    def accept(asked: OfferAccepted) -> dict[str, Any]:
        """Spend what was offered, and run it."""
        return desk.accept(asked.offer)
