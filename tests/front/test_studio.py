"""The studio: who may come in, what is shown before a release, and that its commands are what they say."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from commands import Command

from privpac.data import Schema
from privpac.data.suggest import suggest_domains
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.base import ITEM_LEVEL
from privpac.studio import words
from privpac.studio.app import create_studio
from privpac.studio.desk import Busy, Desk
from privpac.studio.guard import KEY, MAX_BODY, Locks
from privpac.studio.words import Ran, TextFormat

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
N = 240
BILI = np.arange(N) % 60 / 10
PEOPLE = pl.DataFrame(
    {
        "patient": [f"p{i // 2}" for i in range(N)],
        "age": np.arange(N) % 90,
        "bili": BILI,
        "ward": ["north", "south"] * (N // 2),
        "status": np.where(BILI > 3, "dead", "alive"),
    }
)
SAID = {
    "table": "visits.parquet",
    "columns": {"bili": "0:60:0.1", "ward": "{north,south}"},
    "unit": "user",
    "user": "patient",
    "label": "status",
    "labels": "value",
    "positive": "dead",
    "missing": "drop",
    "on_invalid": "clamp",
}
PLAN = {"table": "visits.parquet", "rule": None, "epsilon": "1", "alpha": "0.05", "people": None, "records": 4}


class Client:
    """Requests to an application in this process, with a jar of cookies."""

    def __init__(self, app: Any) -> None:
        self.app, self.cookies = app, httpx.Cookies()

    def get(self, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._ask("GET", path, **more))

    def post(self, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._ask("POST", path, **more))

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url=HOME, cookies=self.cookies) as client:
            answer = await client.request(method, path, **more)
        self.cookies.update(client.cookies)
        return answer


class Page:
    """A browser that was let in."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.folder, self.locks = desk, folder, Locks()
        self.client = Client(create_studio(desk, self.locks, PORT))
        self.token = self.locks.token
        self.key = self.locks.key

    def enter(self) -> Page:
        assert self.client.get(f"/?token={self.token}").status_code == 200
        return self

    def headers(self, **more: str) -> dict[str, str]:
        return {KEY: self.key, "origin": HOME, **more}

    def ask(self, path: str, body: Any = None) -> Any:
        answer = (
            self.client.get(path, headers=self.headers())
            if body is None
            else self.client.post(path, json=body, headers=self.headers())
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, body: Any) -> str:
        answer = self.client.post(path, json=body, headers=self.headers())
        assert answer.status_code in (409, 422)
        return str(answer.json()["error"])


@pytest.fixture
def page(
    command: Command, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """A studio in this process; its commands are run here, by the same words."""

    def here(line: Sequence[str]) -> Ran:
        run = command(*line)
        return Ran(run.code, run.out.strip(), run.err.strip().removeprefix("privpac: "))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("private")))
    PEOPLE.write_parquet(tmp_path / "visits.parquet")
    desk = Desk(tmp_path, start=Path(tmp_path).resolve())
    desk.run = here
    yield Page(desk, tmp_path)
    desk.close()


# Who may come in


def test_the_link_works_once_and_leaves_a_strict_cookie(page: Page) -> None:
    for wrong in ("", "?token=", "?token=x", f"?token={page.token}x", f"?token={page.token}&token={page.token}"):
        assert page.client.get(f"/{wrong}").status_code == 403
    assert page.client.post(f"/?token={page.token}").status_code == 403
    first = page.client.get(f"/?token={page.token}")
    assert first.status_code == 200
    assert re.fullmatch(
        rf"privpac_studio_{PORT}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict", first.headers["set-cookie"]
    )
    assert f"url=/#{page.key}" in first.text
    assert page.client.get(f"/?token={page.token}").status_code == 403  # used
    assert page.client.get("/").status_code == 200
    assert page.key not in page.client.get("/").text
    page.client.cookies.clear()
    assert page.client.get("/").status_code == 403
    assert page.client.get("/static/studio.js").status_code == 403


def test_a_cookie_alone_opens_nothing_but_the_empty_page(page: Page) -> None:
    """Browsers send cookies to every port of a host: whoever listens on another one has it."""
    page.enter()
    assert page.client.get("/api/state").status_code == 403
    for key in ("", "x", page.key[:-1], page.token or "", page.locks.cookie):
        assert page.client.get("/api/state", headers={KEY: key}).status_code == 403
    assert (
        page.client.post("/api/columns", json={"table": "visits.parquet"}, headers={"origin": HOME}).status_code == 403
    )
    assert "visits" not in page.client.get("/").text
    assert page.client.get("/api/state", headers={KEY: page.key}).status_code == 200
    page.client.cookies.clear()
    assert page.client.get("/api/state", headers={KEY: page.key}).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", "localhost", f"127.0.0.1.evil:{PORT}", ""],
)
def test_other_hosts_are_refused_before_anything_else(page: Page, host: str) -> None:
    """A foreign name that was made to point here does not pass, not even with the right token, cookie and key."""
    assert page.client.get(f"/?token={page.token}", headers={"host": host}).status_code == 421
    page.enter()  # the token was not used up
    for path in ("/", "/api/state", "/static/studio.js"):
        assert page.client.get(path, headers=page.headers(host=host)).status_code == 421
    twice = [("host", f"127.0.0.1:{PORT}"), ("host", "evil.example"), (KEY, page.key)]
    assert page.client.get("/api/state", headers=twice).status_code == 421
    local = page.headers(host=f"localhost:{PORT}", cookie=f"privpac_studio_{PORT}={page.locks.cookie}")
    assert page.client.get("/api/state", headers=local).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        f"http://localhost:{PORT}",
        "http://127.0.0.1:9",
        f"https://127.0.0.1:{PORT}",
    ],
)
def test_only_pages_of_this_address_may_do_anything(page: Page, origin: str | None) -> None:
    page.enter()
    headers = {KEY: page.key} | ({} if origin is None else {"origin": origin})
    assert page.client.post("/api/schema", json=SAID, headers=headers).status_code == 403
    assert not (page.folder / "visits.toml").exists()


def test_further_refusals_have_fixed_bodies(page: Page) -> None:
    page.enter()
    post = page.client.post
    assert post("/api/schema", content="a=b", headers=page.headers(**{"content-type": "text/plain"})).status_code == 415
    form = page.headers(**{"content-type": "application/x-www-form-urlencoded"})
    assert post("/api/schema", content="a=b", headers=form).status_code == 415
    for site in ("cross-site", "same-site"):
        assert page.client.get("/api/state", headers=page.headers(**{"sec-fetch-site": site})).status_code == 403
    large = post(
        "/api/schema", content=b"x" * (MAX_BODY + 1), headers=page.headers(**{"content-type": "application/json"})
    )
    assert large.status_code == 413
    marker = "<script>secret marker"
    for body in ({"table": marker, "more": 1}, {"table": 3}, [marker], {"table": "visits.parquet", "columns": marker}):
        answer = post("/api/columns", json=body, headers=page.headers())
        assert answer.status_code == 422
        assert marker not in answer.text
    assert page.client.get("/static/..%2fapp.py", headers=page.headers()).status_code == 404
    assert page.client.get("/report/x").status_code == 404
    for path in ("/", "/api/state", "/report/x", "/static/studio.css"):
        headers = page.client.get(path, headers=page.headers()).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in page.client.get("/").headers["content-security-policy"]


def test_internal_errors_are_not_described(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.enter()
    monkeypatch.setattr(Desk, "tables", lambda self: 1 / 0)
    answer = page.client.get("/api/state", headers=page.headers())
    assert answer.status_code == 500
    assert "division" not in answer.text


# Which files


def test_no_other_file_of_the_machine_can_be_named(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    page.enter()
    outside = tmp_path_factory.mktemp("outside") / "other.parquet"
    PEOPLE.write_parquet(outside)
    (page.folder / "link.parquet").symlink_to(outside)
    (page.folder / ".hidden.csv").write_text("a\n1\n")
    assert page.ask("/api/state")["tables"] == ["visits.parquet"]
    for name in (
        str(outside),
        f"../{outside.parent.name}/other.parquet",
        "link.parquet",
        ".hidden.csv",
        "*.parquet",
        "",
    ):
        assert "there is no table" in page.refused("/api/columns", {"table": name})


def test_a_table_that_is_handed_in_goes_with_the_studio(page: Page) -> None:
    page.enter()
    put = lambda name: page.client.post(  # noqa: E731
        "/api/upload",
        params={"name": name},
        content=b"patient,age,died\na,3,1\n",
        headers=page.headers(**{"content-type": "application/octet-stream"}),
    )
    table = put("../../e vil;\n.csv").json()["table"]
    assert table.endswith("/e_vil_.csv")
    assert page.ask("/api/columns", {"table": table})["user"] == "patient"
    assert put("../../e vil;\n.csv").status_code == 422
    for bad in (".csv", "x.exe", "", "/", "..", "a.csv/.."):
        assert put(bad).status_code == 422
    assert Path(table).exists()
    assert Path(table).parent.stat().st_mode & 0o077 == 0
    page.desk.close()
    assert not Path(table).exists()


# What is shown before a release


def test_nothing_that_is_shown_before_a_release_depends_on_the_values(page: Page) -> None:
    """Names, types, declared facts: the same answers for another table of the same schema."""
    page.enter()

    def shown() -> list[Any]:
        told = [
            page.ask("/api/state"),
            page.ask("/api/columns", {"table": "visits.parquet"}),
            page.ask("/api/schema", SAID),
        ]
        told += [page.ask("/api/plan", PLAN), page.ask("/api/plan", PLAN | {"people": 500})]
        if not (page.folder / "visits.budget.db").exists():
            page.ask("/api/budget", {"table": "visits.parquet", "epsilon": "2", "dataset": "visits"})
        price = page.ask("/api/learn", {"table": "visits.parquet", "rule": None, "epsilon": "1", "evaluate": True})
        del price["offer"]
        return [*told, page.ask("/api/ledger", {"table": "visits.parquet"}), price]

    shown()
    before = shown()
    other = PEOPLE.head(7).with_columns(age=pl.lit(999), bili=pl.lit(None, pl.Float64), ward=pl.lit("secret"))
    other.select(PEOPLE.columns).cast(PEOPLE.schema).write_parquet(page.folder / "visits.parquet")
    assert shown() == before
    assert "secret" not in json.dumps(before)


# Commands


@pytest.mark.slow
def test_commands_are_what_they_say(page: Page, command: Command) -> None:
    """Pasted into a terminal they do what the page did: the same file, the same ledger, and nothing twice."""
    page.enter()
    declared = page.ask("/api/schema", SAID)
    written = (page.folder / "visits.toml").read_bytes()
    (page.folder / "visits.toml").unlink()
    assert pasted(command, declared["command"]).code == 0
    assert (page.folder / "visits.toml").read_bytes() == written
    assert Schema.read("visits.toml").features.keys() == {"bili", "ward"}
    plan = page.ask("/api/plan", PLAN | {"people": 500, "rule": "stump"})
    run = pasted(command, plan["command"] + " --no-predict")
    shown = next(row["number"] for row in plan["rows"] if row["method"] == "hybrid selection")
    assert shown in run.out
    made = page.ask("/api/budget", {"table": "visits.parquet", "epsilon": "3", "dataset": "visits"})
    Path("visits.budget.db").unlink()
    assert pasted(command, made["command"]).code == 0
    asked = {"table": "visits.parquet", "rule": "stump", "epsilon": "1", "evaluate": False}
    price = page.ask("/api/learn", asked)
    assert (price["epsilon"], price["left"], price["after"], price["enough"]) == ("1", "3", "2", True)
    learned = page.ask("/api/accept", {"offer": price["offer"]})
    assert learned["command"] == price["command"]
    assert learned["title"].startswith("dead ")
    assert "budget" not in " ".join(learned["lines"])
    assert page.ask("/api/ledger", {"table": "visits.parquet"})["left_shown"] == "2"
    again = pasted(command, learned["command"])
    assert (again.code, "was spent from since" in again.err) == (2, True)  # what was agreed to once is not spent twice
    assert page.ask("/api/ledger", {"table": "visits.parquet"})["left_shown"] == "2"
    price = page.ask("/api/learn", asked)
    assert pasted(command, price["command"]).code == 0  # instead of the button
    assert page.ask("/api/ledger", {"table": "visits.parquet"})["left_shown"] == "1"
    report = page.client.get(learned["report"])
    assert "A rule learned with differential privacy" in report.text
    assert report.headers["content-security-policy"].startswith("sandbox")
    saved = page.client.get(learned["report"] + "?save=true")
    assert "visits-rule-1.html" in saved.headers["content-disposition"]
    measured = {"table": "visits.parquet", "rule": learned["saved"], "epsilon": "0.5"}
    price = page.ask("/api/evaluate", measured)
    assert "--same-people" in price["command"]
    found = page.ask("/api/accept", {"offer": price["offer"]})
    assert "wrong for" in " ".join(found["lines"])
    with BudgetLedger.open("visits.budget.db") as book:
        assert len(book.history()) == 3
    price = page.ask("/api/learn", asked | {"epsilon": "5"})
    failed = page.ask("/api/accept", {"offer": price["offer"]})
    assert failed["code"] == 4
    assert "left" in failed["failed"]
    assert [kept["what"] for kept in page.ask("/api/state")["results"]] == ["rule", "evaluation"]


def pasted(command: Command, line: str) -> Any:
    first, *rest = shlex.split(line)
    assert first == "privpac"
    return command(*rest)


def ready(page: Page, epsilon: str = "2", **change: Any) -> dict[str, Any]:
    """A declared table with a budget; what is asked to learn from it."""
    page.enter()
    page.ask("/api/schema", SAID | {"columns": {"bili": "0:60:0.1"}} | change)
    page.ask("/api/budget", {"table": "visits.parquet", "epsilon": epsilon, "dataset": "visits"})
    return {"table": "visits.parquet", "rule": None, "epsilon": "1", "evaluate": False}


def test_nothing_is_spent_but_what_was_offered(page: Page) -> None:
    page.enter()
    page.ask("/api/schema", SAID)
    asked = {"table": "visits.parquet", "rule": None, "epsilon": "1", "evaluate": False}
    assert "make one first" in page.refused("/api/learn", asked)
    page.ask("/api/budget", {"table": "visits.parquet", "epsilon": "2", "dataset": "visits"})
    assert "exist" in page.refused("/api/budget", {"table": "visits.parquet", "epsilon": "2", "dataset": "visits"})
    price = page.ask("/api/learn", asked | {"epsilon": "5"})
    assert price["enough"] is False
    for offer in ("", "x", price["offer"] + "x"):
        assert "nothing was spent" in page.refused("/api/accept", {"offer": offer})
    assert "nothing was spent" in page.refused("/api/accept", {"offer": price["offer"]})  # a wrong guess ends an offer
    old, new = page.ask("/api/learn", asked), page.ask("/api/learn", asked)
    assert "nothing was spent" in page.refused("/api/accept", {"offer": old["offer"]})
    new = page.ask("/api/learn", asked)
    with page.desk._working, pytest.raises(Busy):
        page.desk.accept(new["offer"])
    (page.folder / "visits-rule-1.html").write_text("somebody else's")
    assert "written by somebody else" in page.refused("/api/accept", {"offer": new["offer"]})
    assert page.ask("/api/ledger", {"table": "visits.parquet"})["left_shown"] == "2"
    for epsilon in ("0", "-1", "x", "1/0"):
        page.refused("/api/learn", asked | {"epsilon": epsilon})


@pytest.mark.parametrize("moment", ["before the command", "while the command works"])
def test_a_spend_of_another_process_after_the_price_was_shown_refuses_the_release(
    page: Page, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment until the ledger's own lock is held: also when the command has opened the ledger and read the
    table."""
    asked = ready(page, "3")

    def spend_elsewhere() -> None:
        with BudgetLedger.open(page.folder / "visits.budget.db") as theirs:
            theirs.spend(Guarantee(1, unit="user", neighbours="add-remove"), "somebody else's")

    if moment == "before the command":
        run = page.desk.run
        monkeypatch.setattr(page.desk, "run", lambda line: (spend_elsewhere(), run(line))[1])
    else:
        learn = importlib.import_module("privpac.cli.learn")
        release = learn.release_prepared
        monkeypatch.setattr(learn, "release_prepared", lambda *a, **b: (spend_elsewhere(), release(*a, **b))[1])
    price = page.ask("/api/learn", asked)
    failed = page.ask("/api/accept", {"offer": price["offer"]})
    assert failed["code"] == 2
    assert "was spent from since" in failed["failed"]
    assert "nothing was spent now" in failed["failed"]
    with BudgetLedger.open(page.folder / "visits.budget.db") as book:
        assert [spend.label for spend in book.history()] == ["somebody else's"]
    assert not list(page.folder.glob("visits-rule-*"))
    assert page.ask("/api/state")["results"] == []


def test_declarations_are_checked_column_by_column(page: Page) -> None:
    page.enter()
    for change, said in (
        ({"columns": {"bili": "9:1"}}, "bili: Integers needs lo <= hi"),
        ({"columns": {"bili": ""}}, "bili: a feature must be"),
        ({"columns": {}}, "choose at least one column"),
        ({"columns": {"nose": "0:1"}}, "no column 'nose'"),
        ({"label": "nose"}, "no column 'nose' for label"),
        ({"positive": ""}, "write which value of status"),
        ({"labels": ""}, "say what the values of status are"),
        ({"labels": "file"}, "say what the values of status are"),
        ({"labels": "binary"}, "status holds text"),
        ({"label": ""}, "choose what is to be predicted"),
        ({"unit": ""}, "say whose record it is"),
        ({"unit": "item"}, "say whose record it is"),
        ({"user": ""}, "say whose record it is"),
        ({"missing": "keep"}, "missing must be"),
        ({"on_invalid": "keep"}, "on_invalid"),
    ):
        assert said in page.refused("/api/schema", SAID | change)
    assert not (page.folder / "visits.toml").exists()
    assert "declare the columns first" in page.refused("/api/plan", PLAN)
    alone = page.ask("/api/schema", SAID | {"unit": "item", "user": "", "columns": {"bili": "0:60:0.1"}})
    assert "--unit item" in alone["command"]
    assert Schema.read(page.folder / "visits.toml").user is None


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_that_nobody_named_cost_nothing(page: Page, kind: str) -> None:
    """Text labels with nothing said would be noise that was paid for; a schema that says nothing stops the release."""
    page.enter()
    table = f"visits.{kind}"
    PEOPLE.write_csv(page.folder / "visits.csv")
    columns = page.ask("/api/columns", {"table": table})
    assert (columns["labels"], columns["positive"]) == ("", "")
    unsaid = SAID | {"table": table, "positive": "", "labels": ""}
    assert "say what the values of status are" in page.refused("/api/schema", unsaid)
    assert "write which value of status" in page.refused("/api/schema", unsaid | {"labels": "value"})
    assert not (page.folder / "visits.toml").exists()
    page.ask("/api/schema", SAID | {"table": table})
    page.ask("/api/budget", {"table": table, "epsilon": "2", "dataset": "visits"})
    assert page.ask("/api/columns", {"table": table})["labels"] == "value"
    place = page.folder / "visits.toml"
    place.write_text(re.sub(r"positive = .*", "", place.read_text()))
    if kind == "parquet":  # by its type; of a text file the reader sees it
        asked = {"table": table, "rule": None, "epsilon": "1", "evaluate": False}
        assert "status holds text" in page.refused("/api/learn", asked)


def test_labels_of_zero_and_one_are_said_once(page: Page) -> None:
    page.enter()
    PEOPLE.with_columns(status=(pl.col("status") == "dead").cast(pl.Int8)).write_parquet(page.folder / "visits.parquet")
    done = page.ask("/api/schema", SAID | {"labels": "binary", "positive": "left over from before"})
    assert "--positive" not in done["command"]
    assert Schema.read(page.folder / "visits.toml").positive is None
    assert page.ask("/api/columns", {"table": "visits.parquet"})["labels"] == "binary"


def test_labels_that_only_the_file_names_are_kept(page: Page) -> None:
    page.enter()
    page.ask("/api/schema", SAID)
    place = page.folder / "visits.toml"
    place.write_text(re.sub(r"positive = .*", 'classes = ["dead", "alive", "lost"]', place.read_text()))
    found = page.ask("/api/columns", {"table": "visits.parquet"})
    assert (found["labels"], found["file_labels"]) == ("file", "the labels dead, alive, lost")
    done = page.ask("/api/schema", SAID | {"labels": "file", "positive": ""})
    assert "command" not in done
    assert Schema.read(place).classes == ("dead", "alive", "lost")
    assert Schema.read(place).positive is None


# Promises for single records


def test_whose_record_it_is_has_no_default(page: Page) -> None:
    """An id column that no name tells is not taken for one that is not there."""
    page.enter()
    PEOPLE.rename({"patient": "tailnum"}).write_parquet(page.folder / "visits.parquet")
    found = page.ask("/api/columns", {"table": "visits.parquet"})
    assert (found["user"], found["unit"]) == ("", "")
    alone = SAID | {"user": "", "unit": "", "columns": {"bili": "0:60:0.1"}}
    assert "say whose record it is" in page.refused("/api/schema", alone)
    page.ask("/api/schema", alone | {"unit": "item"})
    assert page.ask("/api/columns", {"table": "visits.parquet"})["unit"] == "item"


def test_a_promise_for_single_records_says_so_everywhere(page: Page) -> None:
    """On plan, price, result and report of a rule and of its evaluation; and never where people are protected."""
    asked = ready(page, "4", unit="item", user="")
    assert page.ask("/api/plan", PLAN)["per_record"] == ITEM_LEVEL
    price = page.ask("/api/learn", asked)
    assert price["per_record"] == ITEM_LEVEL
    learned = page.ask("/api/accept", {"offer": price["offer"]})
    price = page.ask("/api/evaluate", {"table": "visits.parquet", "rule": learned["saved"], "epsilon": "1"})
    measured = page.ask("/api/accept", {"offer": price["offer"]})
    for result in (learned, measured):
        assert result["per_record"] == ITEM_LEVEL
        assert ITEM_LEVEL not in (*result["lines"], *result["warnings"])  # once
        report = page.client.get(result["report"]).text
        assert f"<p class='warn'>{ITEM_LEVEL}</p>" in report
        assert "<span class='promise records'>" in report
    page.ask("/api/schema", SAID)
    assert page.ask("/api/plan", PLAN)["per_record"] is None


# The check


CHECKED = {
    "records_read": 240,
    "records_kept": 171,
    "people_read": 120,
    "people_kept": 99,
    "columns": [{"column": "bili", "reason": "above 60", "records": 69, "what": "dropped"}],
    "labels": [{"label": "dead", "records": 100}, {"label": "alive", "records": 71}],
    "records_per_person": {"min": 1, "q1": 1, "median": 2, "q3": 2, "max": 2},
    "warnings": ["69 of 240 records (29 %) are lost"],
    "notice": "for your eyes only",
}


def test_the_check_is_run_when_it_is_asked_for_and_kept_nowhere(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ready(page)
    PEOPLE.write_parquet(page.folder / "other.parquet")
    assert "declare the columns first" in page.refused("/api/check", {"table": "other.parquet"})
    run, lines = page.desk.run, []

    def watched(line: Sequence[str]) -> Ran:
        lines.append(list(line))
        return Ran(0, json.dumps(CHECKED), "") if line[0] == "check" else run(line)

    monkeypatch.setattr(page.desk, "run", watched)
    before = sorted(path.name for path in page.folder.rglob("*")), page.ask("/api/state")
    found = page.client.post("/api/check", json={"table": "visits.parquet"}, headers=page.headers())
    assert found.headers["cache-control"] == "no-store"
    assert found.json()["found"] == CHECKED
    assert found.json()["command"] == "privpac check visits.parquet --schema visits.toml --json"
    assert lines == [shlex.split(found.json()["command"])[1:]]
    assert (sorted(path.name for path in page.folder.rglob("*")), page.ask("/api/state")) == before
    price = page.ask("/api/learn", asked)
    learned = page.ask("/api/accept", {"offer": price["offer"]})
    assert [line[0] for line in lines] == ["check", "learn"]  # nothing runs it by the way
    kept = json.dumps([page.ask("/api/state"), learned]) + page.client.get(learned["report"]).text
    assert CHECKED["warnings"][0] not in kept
    assert CHECKED["notice"] not in kept
    monkeypatch.setattr(page.desk, "run", lambda line: Ran(2, "", "the table is empty"))
    assert page.ask("/api/check", {"table": "visits.parquet"})["failed"] == "the table is empty"


# Files that are written otherwise


def test_how_a_file_is_written_is_passed_on_only_if_it_is_said(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.enter()
    (page.folder / "visits.parquet").unlink()
    (page.folder / "visits.csv").write_text("p1;3;1\n")
    told: list[dict[str, Any]] = []

    def suggest(path: Any, *, separator: Any = None, header: Any = None, names: Any = None, **more: Any) -> Schema:
        told.append({"separator": separator, "header": header, "names": names})
        return suggest_domains(names or path, **more)

    monkeypatch.setattr("privpac.studio.desk.suggest_domains", suggest)
    assert "separator=" in page.refused("/api/columns", {"table": "visits.csv"})
    assert not told
    asked = {"table": "visits.csv", "separator": ";", "names": " patient, bili ,status"}
    found = page.ask("/api/columns", asked)
    said = {"separator": ";", "header": False, "names": ["patient", "bili", "status"]}
    assert {json.dumps(line) for line in told} == {json.dumps(said)}
    assert {row["name"] for row in found["columns"]} == {"patient", "bili", "status"}
    declared = page.ask("/api/schema", SAID | {"table": "visits.csv", "columns": {"bili": "0:60:0.1"}})
    written = "visits.csv --separator ';' --no-header --names patient,bili,status"
    assert declared["command"].startswith(f"privpac domains {written} ")
    page.ask("/api/budget", {"table": "visits.csv", "epsilon": "2", "dataset": "visits"})
    price = page.ask("/api/learn", {"table": "visits.csv", "rule": None, "epsilon": "1", "evaluate": False})
    assert price["command"].startswith(f"privpac learn {written} ")
    monkeypatch.setattr(page.desk, "run", lambda line: Ran(0, json.dumps(list(line)), ""))
    assert words.command_line(page.ask("/api/check", {"table": "visits.csv"})["found"]).startswith(
        f"privpac check {written} "
    )


def test_a_file_that_cannot_be_read_is_told_and_changes_nothing(page: Page) -> None:
    page.enter()
    (page.folder / "broken.csv").write_bytes(b"\xff\xfe\x00\x01,\x00\n")
    said = page.refused("/api/columns", {"table": "broken.csv"})
    assert "broken.csv" in said
    assert "\x00" not in said


def test_what_a_person_edited_is_shown_again(page: Page) -> None:
    page.enter()
    page.ask("/api/schema", SAID | {"columns": {"bili": "0:50:0.5"}})
    found = page.ask("/api/columns", {"table": "visits.parquet"})
    rows = {row["name"]: (row["domain"], row["read"]) for row in found["columns"]}
    assert rows["bili"] == ("0:50:0.5", True)
    assert rows["ward"] == (None, False)
    assert found["saved"]
    (page.folder / "visits.toml").write_text("nonsense")
    assert "not TOML" in page.ask("/api/columns", {"table": "visits.parquet"})["trouble"]


@pytest.mark.parametrize("held", ["[project]\nname = 'mine'\n", "nonsense", "\0"])
def test_a_file_that_is_no_schema_is_not_written_over(page: Page, held: str) -> None:
    page.enter()
    (page.folder / "visits.toml").write_text(held)
    assert "move it away" in page.refused("/api/schema", SAID)
    assert (page.folder / "visits.toml").read_text() == held


@pytest.mark.parametrize("name", ["-x", "--out", "a b'c", "ü=1", "$(touch x)"])
def test_names_are_words_and_never_options(name: str) -> None:
    line = words.domains_words(
        f"{name}.csv",
        {name: "-5:-1"},
        reading=TextFormat(),
        user=name,
        label=name,
        positive=name,
        missing="drop",
        on_invalid="clamp",
        out=name,
    )
    assert shlex.split(words.command_line(line)) == ["privpac", *line]
    assert sum(word.startswith("-") and word in (f"{name}.csv", name) for word in line) == (name == "--out")


def test_the_command_says_what_is_wrong(command: Command) -> None:
    assert "no folder" in command("studio", "nowhere").err
    shown = command("studio", "--help").out
    assert "--ledger" in shown
    assert "works once" in " ".join(shown.split())


def test_a_missing_extra_is_named_before_the_studio_opens(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privpac.cli.studio.find_spec", lambda name: None if name in ("uvicorn", "matplotlib") else 1)
    run = command("studio", "--no-browser")
    assert run.code == 2
    assert 'uvicorn, matplotlib, not installed; install with: pip install "privpac[serve,plots]"' in run.err
