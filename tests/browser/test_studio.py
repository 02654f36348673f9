"""The studio in a real browser, on a desk and on a phone: from a table to a report, as somebody does it who does not
program.

Run by ``make test-browser``: Debian's chromium, driven by playwright.  Where either is missing the tests are skipped by
name.  The studio runs as people start it, in a process of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import numpy as np
import polars as pl
import pytest

from privpac.ledger import BudgetLedger
from privpac.studio.words import started

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make test-browser installs it"
)
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium")
expect = playwright.expect
expect.set_options(timeout=60_000)
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
N = 400
BILI = np.arange(N) % 60 / 10


def write_table(path: Path) -> None:
    pl.DataFrame(
        {
            "patient": [f"p{i // 2}" for i in range(N)],
            "age": np.arange(N) % 90,
            "bili": BILI,
            "ward": ["secretname", "south"] * (N // 2),
            "status": np.where(BILI > 3, "dead", "alive"),
        }
    ).write_csv(path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # Chromium's sandbox needs rights that root in a container does not have; the pages are our own.
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield launched
        launched.close()


@contextmanager
def studio(folder: Path) -> Iterator[str]:
    """``privpac studio`` as people start it; its link."""
    process = subprocess.Popen(started(["studio", "--no-browser"]), cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(3))
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)
        assert found is not None, said
        yield found.group()
    finally:
        process.terminate()
        process.communicate(timeout=30)


class Watched:
    """A page, what it complained of and whom it asked."""

    def __init__(self, browser: Any, size: dict[str, int], **more: Any) -> None:
        self.noise: list[str] = []
        self.hosts: set[str] = set()
        self.context = browser.new_context(viewport=size, **more)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on(
            "console", lambda said: self.noise.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.noise.append(str(error)))
        self.page.on("request", lambda asked: self.hosts.add(urlsplit(asked.url).netloc))

    def fits(self) -> bool:
        """Nothing hangs over the edge."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_column_may_say_where_most_values_lie(browser: Any, tmp_path: Path, size: dict[str, int]) -> None:
    """What everybody knows of a height is filled in; what is typical may be changed, or left out."""
    rows = "".join(f"{i},{150 + i % 40},{i % 30},{i % 2}\n" for i in range(60))
    (tmp_path / "people.csv").write_text("patient,height,score,ill\n" + rows)
    with studio(tmp_path) as link:
        watched = Watched(browser, size, has_touch=size is PHONE)
        page = watched.page
        page.goto(link)
        page.get_by_label("What is to be predicted?").select_option("ill")
        for field, value in (("from", "0"), ("to", "260"), ("usually from", "140"), ("usually to", "200")):
            expect(page.get_by_label(f"height, {field}", exact=True)).to_have_value(value)
        page.get_by_label("height, usually to", exact=True).fill("210")
        page.get_by_label("score holds").select_option("whole")
        page.get_by_label("score, from", exact=True).fill("0")
        page.get_by_label("score, to", exact=True).fill("50")
        page.get_by_label("Its values are").select_option("binary")
        assert watched.fits()
        page.get_by_role("button", name="Save the declaration").click()
        expect(page.locator("#declare-done")).to_be_visible()
        written = (tmp_path / "people.toml").read_text()
        assert 'height = "0:260~140:210"' in written
        assert 'score = "0:50"' in written
        assert watched.noise == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_from_a_table_to_a_report(browser: Any, tmp_path: Path, size: dict[str, int]) -> None:
    write_table(tmp_path / "visits.csv")
    with studio(tmp_path) as link:
        watched = Watched(browser, size, has_touch=size is PHONE)
        page = watched.page
        page.goto(link)
        expect(page).to_have_url(re.compile(r"/$"))  # neither token nor key stays in the address
        # The only table is chosen, roles are guessed, the known column is filled in, the unknown is left open.
        expect(page.get_by_label("Whose record is it?")).to_have_value("patient")
        expect(page.get_by_label("What is to be predicted?")).to_have_value("status")
        expect(page.get_by_label("age, from")).to_have_value("0")
        expect(page.get_by_label("ward holds")).to_have_value("open")
        assert watched.fits()
        save, problem = page.get_by_role("button", name="Save the declaration"), page.locator("#declare-problem")
        save.click()  # of a text file nobody knows what its labels are
        expect(problem).to_have_text(re.compile("Say what the values of status are"))
        expect(page.get_by_label("Which value of it?")).to_be_hidden()
        page.get_by_label("Its values are").select_option("value")
        save.click()
        expect(problem).to_have_text("Write which value of status is to be predicted.")
        page.get_by_label("Which value of it?").fill("dead")
        save.click()
        expect(problem).to_have_text("Say what ward may hold, or that rules may not read it.")
        page.get_by_label("ward holds").select_option("out")
        page.get_by_label("age holds").select_option("out")
        page.get_by_role("button", name="Save the declaration").click()
        expect(page.locator("#declare-done")).to_have_text("Written to visits.toml")
        # The plan follows epsilon, in words that fit it.
        expect(page.locator("#plan-words")).to_contain_text("people are enough")
        expect(page.locator("#plan-command code")).to_contain_text("privpac plan threshold --schema visits.toml")
        expect(page.locator("#odds")).to_contain_text("73 % sure")
        page.get_by_label("Privacy loss ε =").fill("8")
        expect(page.locator("#epsilon-value")).to_have_text("3")
        expect(page.locator("#odds")).to_have_class(re.compile("alarming"))
        page.get_by_label("People, if publicly known").fill("200")
        expect(page.locator("#plan-words")).to_contain_text("With 200 people")
        assert "secretname" not in page.content()
        # Nothing is spent before it is confirmed.
        expect(page.locator("#budget-form")).to_be_visible()
        page.get_by_label("Total privacy loss ε").fill("8")
        page.get_by_role("button", name="Make the budget").click()
        expect(page.locator("#left")).to_have_text("8")
        page.get_by_role("button", name="Learn a rule").click()
        expect(page.locator("#after")).to_have_text("5")
        shown = page.locator("#confirm-command code").inner_text()
        assert watched.fits()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#left")).to_have_text("8")
        page.get_by_role("button", name="Learn a rule").click()
        page.get_by_role("button", name="Spend and go on").click()
        expect(page.locator(".result .rule")).to_contain_text("dead", timeout=180_000)
        expect(page.locator("#left")).to_have_text("5")
        expect(page.locator("#rules .command code")).to_have_text(shown)
        expect(page.locator("#rules .lines")).to_contain_text("wrong for")
        # The report is read here, and saved.
        page.get_by_role("button", name="Read the report").click()
        frame = page.frame_locator("#report")
        expect(frame.get_by_text("A rule learned with differential privacy")).to_be_visible()
        with page.expect_download() as saving:
            page.get_by_role("link", name="Save a copy").click()
        assert saving.value.suggested_filename == "visits-rule-1.html"
        assert watched.fits()
        # Reloading loses nothing; the key is in the browser, not in the address.
        page.reload()
        expect(page.locator(".result .rule")).to_contain_text("dead")
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / f"studio-{size['width']}.png", full_page=True)
        assert watched.noise == []
        assert watched.hosts == {urlsplit(link).netloc}
        watched.context.close()
    with BudgetLedger.open(tmp_path / "visits.budget.db") as book:
        assert [str(spend.eps) for spend in book.history()] == ["3"]
    assert (tmp_path / "visits-rule-1.html").exists()
    if size is DESK:  # and pasted into a terminal
        run = subprocess.run(started(shlex.split(shown)[1:]), cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 2  # what was agreed to once is not spent twice
        assert "was spent from since" in run.stderr


class Evil(BaseHTTPRequestHandler):
    """Somebody else's program on this machine, on a port of its own; it keeps the cookies that browsers send."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Evil.seen.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title>")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def test_nobody_else_comes_in(browser: Any, tmp_path: Path) -> None:
    """Another browser, the used link, and a page of another port, to which the browser sends the cookie."""
    write_table(tmp_path / "visits.csv")
    with studio(tmp_path) as link, ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        evil = f"http://127.0.0.1:{server.server_port}"
        home = f"http://{urlsplit(link).netloc}"
        first, second = Watched(browser, DESK), Watched(browser, DESK)
        first.page.goto(link)
        expect(first.page.locator("#tables")).to_have_value("visits.csv")
        assert second.page.goto(link).status == 403
        assert second.page.goto(home).status == 403
        other = first.context.new_page()
        assert other.goto(home.replace("127.0.0.1", "localhost")).status == 403
        other.goto(evil)
        stolen = Evil.seen[-1]
        assert "privpac_studio_" in stolen  # browsers make no difference between ports
        assert httpx.get(f"{home}/api/state", headers={"cookie": stolen}).status_code == 403  # and it is worth nothing
        assert other.evaluate("localStorage.getItem('privpac-key')") is None
        how = "{method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}'}"
        assert other.evaluate(f"fetch({home + '/api/budget'!r}, {how}).then(r => r.type, () => 'no')") == "no"
        framed = (
            "const f = document.createElement('iframe'); f.onload = () => r(1); f.src = %r; document.body.append(f)"
        )
        other.evaluate(f"new Promise(r => {{ {framed % f'{home}/'} }})")
        assert not any("studio" in frame.content() for frame in other.frames[1:])
        assert not list(tmp_path.glob("*.db"))
        first.context.close()
        second.context.close()
        server.shutdown()


def test_a_table_is_handed_in_and_mistakes_are_said(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_table(tmp_path / "mine.csv")
    with studio(tmp_path / "empty") as link:
        watched = Watched(browser, PHONE, color_scheme="dark")
        page = watched.page
        page.goto(link)
        expect(page.locator("#tables")).to_contain_text("no .csv or .parquet file in this folder yet")
        page.locator("#file").set_input_files(tmp_path / "mine.csv")
        expect(page.get_by_label("Whose record is it?")).to_have_value("patient")
        page.get_by_label("Its values are").select_option("value")
        page.get_by_label("Which value of it?").fill("dead")
        page.get_by_label("ward holds").select_option("names")
        page.get_by_label("age, from").fill("130")
        page.get_by_role("button", name="Save the declaration").click()
        expect(page.locator("#declare-problem")).to_contain_text("age: Integers needs lo <= hi")
        assert watched.fits()
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / "studio-dark.png", full_page=True)
        watched.context.close()


CHECKED = {
    "records_read": 400,
    "records_kept": 284,
    "people_read": 200,
    "people_kept": 171,
    "columns": [
        {"column": "bili", "reason": "missing", "records": 100, "what": "dropped"},
        {"column": "age", "reason": "above 120", "records": 16, "what": "counted as 120"},
    ],
    "labels": [{"label": "dead", "records": 184}, {"label": "alive", "records": 100}],
    "records_per_person": {"min": 1, "q1": 1, "median": 2, "q3": 2, "max": 2},
    "warnings": ["116 of 400 records (29 %) and 29 of 200 people (15 %) are lost: look at bili"],
    "notice": "These are exact counts of private data, for the curator only.",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_records_of_nobody_known_are_amber_and_the_check_is_for_one_pair_of_eyes(
    browser: Any, tmp_path: Path, size: dict[str, int], scheme: str
) -> None:
    """An id column that no name tells: a person chooses; a promise per record is amber on plan, price and result."""
    write_table(tmp_path / "visits.csv")
    pl.read_csv(tmp_path / "visits.csv").rename({"patient": "tailnum"}).write_csv(tmp_path / "visits.csv")
    with studio(tmp_path) as link:
        watched = Watched(browser, size, color_scheme=scheme)
        page = watched.page
        page.route("**/api/check", lambda route: route.fulfill(json={"found": CHECKED, "command": "privpac check"}))
        page.goto(link)
        user = page.get_by_label("Whose record is it?")
        expect(user).to_have_value("")
        expect(page.locator("#user option:checked")).to_have_text("choose …")
        for name in ("tailnum", "age", "ward"):
            page.get_by_label(f"{name} holds").select_option("out")
        page.get_by_label("Its values are").select_option("value")
        page.get_by_label("Which value of it?").fill("dead")
        page.get_by_role("button", name="Save the declaration").click()
        expect(page.locator("#declare-problem")).to_contain_text("Say whose record it is")
        assert not (tmp_path / "visits.toml").exists()
        user.select_option(label="every record is a person of its own")
        expect(page.locator("#unit-note")).to_contain_text("single records are protected, not people")
        page.get_by_role("button", name="Save the declaration").click()
        expect(page.locator("#plan-records")).to_contain_text("single records are protected")
        expect(page.locator("#odds")).to_have_class(re.compile("records"))
        # The check: nothing until it is asked for, red where something is lost, gone when it is closed.
        assert "284" not in page.content().replace(str(tmp_path), "")  # a folder may be called anything
        page.get_by_text("Only you see this").click()
        page.get_by_role("button", name="Check the table").click()
        expect(page.locator("#check-found .alarm")).to_contain_text("29 %")
        expect(page.locator("#check-found")).to_contain_text("284")
        expect(page.locator("#check-found")).to_contain_text("counted as 120")
        assert watched.fits()
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / f"studio-check-{size['width']}-{scheme}.png", full_page=True)
        page.get_by_text("Only you see this").click()
        expect(page.locator("#check-found")).to_be_empty()
        assert "284" not in page.content().replace(str(tmp_path), "")  # a folder may be called anything
        page.get_by_role("button", name="Make the budget").click()
        page.get_by_role("button", name="Learn a rule").click()
        expect(page.locator("#confirm-records")).to_contain_text("single records are protected")
        assert watched.fits()
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / f"studio-price-{size['width']}-{scheme}.png")
        page.get_by_role("button", name="Spend and go on").click()
        expect(page.locator(".result .records-only")).to_contain_text("single records", timeout=180_000)
        expect(page.locator(".result .promise")).to_have_class(re.compile("records"))
        page.get_by_role("button", name="Read the report").click()
        frame = page.frame_locator("#report")
        expect(frame.locator(".warn").first).to_contain_text("single records are protected")
        assert watched.fits()
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / f"studio-item-{size['width']}-{scheme}.png", full_page=True)
        assert watched.noise == []
        watched.context.close()


def test_a_file_that_is_written_otherwise(browser: Any, tmp_path: Path) -> None:
    """What the reader refuses is shown, and how the file is written can be said; it is sent only if it is."""
    (tmp_path / "first.csv").write_bytes(b"\xff\xfe\x00\n")
    write_table(tmp_path / "visits.csv")
    with studio(tmp_path) as link:
        watched = Watched(browser, PHONE)
        page = watched.page
        asked: list[Any] = []
        page.on(
            "request", lambda sent: asked.append(sent.post_data_json) if sent.url.endswith("/api/columns") else None
        )
        page.goto(link)
        page.get_by_label("Table", exact=True).select_option("first.csv")
        expect(page.locator("#trouble")).to_contain_text("first.csv")
        expect(page.get_by_label("Fields are separated by")).to_be_visible()
        assert watched.fits()
        if picture := os.environ.get("PRIVPAC_PICTURES"):
            page.screenshot(path=Path(picture) / "studio-reading-390.png")
        page.get_by_label("The first line is a record").check()
        page.get_by_role("button", name="Read it like this").click()
        expect(page.locator("#trouble")).to_contain_text("Write the names of all columns")
        page.get_by_label("Fields are separated by").select_option(";")
        page.get_by_label("Names of all columns").fill("patient, age, status")
        page.get_by_role("button", name="Read it like this").click()
        page.get_by_label("Table", exact=True).select_option("visits.csv")  # nothing is carried over to another table
        expect(page.get_by_label("What is to be predicted?")).to_have_value("status")
        assert asked == [
            {"table": "first.csv"},
            {"table": "first.csv", "separator": ";", "names": "patient, age, status"},
            {"table": "visits.csv"},
        ]
        watched.context.close()
