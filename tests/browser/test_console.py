"""The console in a real browser: what people see is what the ledger says, and nothing is loaded from elsewhere.

Run by ``make test-browser``: Debian's chromium, driven by playwright.  Where either is missing the tests are skipped by
name.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import polars as pl
import pytest
from attrs import define, field

from privpac.data import Categories, Floats, Integers, UserData
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.service_plan import plan_service
from privpac.methods.prediction.voters import VotePredictor
from privpac.rules import Stumps
from privpac.serve.app import create_app
from privpac.serve.keys import KeyStore, Role

uvicorn = pytest.importorskip("uvicorn")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make test-browser installs it"
)
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium")

QUERIES = 6
PHONE = {"width": 390, "height": 844}
expect = playwright.expect
expect.set_options(timeout=20_000)


@define(slots=False)
class Site:
    """A running service, its keys, and what its pages did."""

    url: str
    ledger: BudgetLedger
    store: KeyStore
    operator: str
    stop: Callable[[], None]
    noise: list[str] = field(factory=list)
    hosts: set[str] = field(factory=set)

    def used(self) -> int:
        (spend,) = self.ledger.history()
        return self.ledger.queries.used(spend.spend_id)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # Chromium's sandbox needs rights that root in a container does not have; the pages are our own.
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def material() -> tuple[VotePredictor, UserData]:
    rng = np.random.default_rng(3)
    x, ward = rng.normal(size=400), np.array(["north", "south"])[rng.integers(0, 2, size=400)]
    columns = {
        "x": x,
        "age": rng.integers(0, 90, size=400),
        "ward": ward,
        "who": np.arange(400) // 2,
        "late": (x > 0.2).astype(int),
    }
    features = {"x": Floats(), "age": Integers(0, 2**64 - 1), "ward": Categories(["north", "south"])}
    plan = plan_service(Stumps(features), epsilon=3, delta="1e-6", queries=QUERIES, public_n_users=200)
    return plan.predictor, UserData.from_frame(pl.DataFrame(columns), user="who", features=features, label="late")


@pytest.fixture
def site(tmp_path: Path, material: tuple[VotePredictor, UserData]) -> Iterator[Site]:
    predictor, data = material
    ledger = BudgetLedger.create(
        tmp_path / "b.db", Guarantee(4, "1e-4", unit="user", neighbours="add-remove"), dataset="d"
    )
    session = predictor.learn(data, ledger=ledger)
    store = KeyStore(tmp_path / "keys")
    _, operator = store.new("operator", Role.OPERATOR)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"host": "127.0.0.1", "port": port, "log_level": "critical", "access_log": False}
    server = uvicorn.Server(uvicorn.Config(create_app(session, ledger, store), **settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()

    def stop() -> None:
        server.should_exit = server.force_exit = True
        thread.join(30)

    while not server.started:
        time.sleep(0.01)
    yield Site(f"http://127.0.0.1:{port}", ledger, store, operator, stop)
    stop()
    ledger.close()


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = watched(context, site)
    opened.goto(site.url)
    expect(opened.locator("#promise")).to_contain_text(f"{QUERIES} answers")
    yield opened
    context.close()


def watched(context: Any, site: Site) -> Any:
    page = context.new_page()
    page.on(
        "console", lambda message: site.noise.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: site.noise.append(str(error)))
    page.on("request", lambda request: site.hosts.add(urlsplit(request.url).netloc))
    return page


def sign_in(page: Any, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def ask(page: Any, x: str, age: str = "30", ward: str = "south") -> None:
    page.get_by_label("x", exact=True).fill(x)
    page.get_by_label("age").fill(age)
    page.get_by_label("ward").select_option(ward)
    page.get_by_role("button", name="Ask").click()


def test_the_page_loads_without_errors_and_asks_no_other_host(page: Any, site: Site) -> None:
    sign_in(page, site.operator)
    expect(page.locator("#keys")).to_be_visible()
    assert page.title() == "privpac prediction service"
    for words in ("every person in the data", "What is not promised", "add-remove"):
        expect(page.locator("body")).to_contain_text(words)
    assert site.noise == []
    assert site.hosts == {urlsplit(site.url).netloc}


def test_injected_code_is_refused_by_the_policy(page: Any, site: Site) -> None:
    page.evaluate(
        "() => { const s = document.createElement('img'); s.src = 'https://example.org/x.png'; "
        "document.body.append(s); }"
    )
    page.evaluate("() => { try { document.body.innerHTML += '<b>x</b>' } catch (e) { console.error(String(e)) } }")
    expect(page.locator("#promise")).to_be_visible()
    page.wait_for_timeout(200)
    assert any("Content Security Policy" in text for text in site.noise)
    assert any("TrustedHTML" in text for text in site.noise)


def test_a_query_lowers_the_budget_and_a_repeat_is_free(page: Any, site: Site) -> None:
    sign_in(page, site.operator)
    expect(page.locator("#left")).to_have_text(str(QUERIES))
    ask(page, "0.75")
    expect(page.locator("#answer")).to_contain_text("late")
    expect(page.locator("#answer")).to_contain_text("cost one answer")
    first = page.locator("#answer strong").inner_text()
    expect(page.locator("#left")).to_have_text(str(QUERIES - 1))
    expect(page.locator("#chart path.line")).to_be_visible()
    expect(page.locator("#chart-caption")).to_contain_text(f"{QUERIES - 1} now")
    ask(page, "0.750")
    expect(page.locator("#answer")).to_contain_text("no cost")
    assert page.locator("#answer strong").inner_text() == first
    expect(page.locator("#left")).to_have_text(str(QUERIES - 1))
    assert site.used() == 1


def test_whole_numbers_beyond_two_to_the_53_are_different_queries(page: Any, site: Site) -> None:
    sign_in(page, site.operator)
    for age in ("18446744073709551614", "18446744073709551615"):
        ask(page, "1", age)
        expect(page.locator("#answer")).to_contain_text("cost one answer")
        page.get_by_label("age").fill("0")
    expect(page.locator("#left")).to_have_text(str(QUERIES - 2))


@pytest.mark.parametrize("key", ["wrong", "pp_000000000000_" + "A" * 43, "ключ"], ids=["word", "unknown", "letters"])
def test_a_wrong_key_is_refused_in_words(page: Any, site: Site, key: str) -> None:
    sign_in(page, key)
    expect(page.locator("#login-problem")).to_contain_text("not known")
    expect(page.locator("#budget")).to_be_hidden()
    sign_in(page, site.operator)
    expect(page.locator("#budget")).to_be_visible()


def test_keys_are_made_shown_once_and_revoked(page: Any, site: Site) -> None:
    sign_in(page, site.operator)
    page.get_by_label("Name", exact=True).fill("guest <b>")
    page.get_by_label("Share of the answers", exact=True).fill("2")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("#made-token")).to_contain_text("pp_")
    token = page.locator("#made-token").inner_text()
    assert site.store.check(token) is not None
    row = page.locator("#key-rows tr", has_text="guest <b>")
    expect(row).to_contain_text("works")
    page.get_by_role("button", name="Done").click()
    assert token not in page.content()
    row.get_by_role("button").click()
    assert site.store.check(token) is not None  # asked once more before it is done
    row.get_by_role("button", name="for good").click()
    expect(row).to_contain_text("revoked")
    assert site.store.check(token) is None
    assert site.noise == []


def test_an_analyst_sees_the_budget_and_no_keys(page: Any, site: Site) -> None:
    _, token = site.store.new("ann", share=1)
    sign_in(page, token)
    ask(page, "0.5")
    expect(page.locator("#answer")).to_be_visible()
    expect(page.locator("#exhausted")).to_contain_text("share of this key is used up")
    expect(page.locator("#keys")).to_be_hidden()
    assert site.noise == []
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#budget")).to_be_hidden()
    assert token not in page.content()


def test_a_revoked_key_is_signed_out(page: Any, site: Site) -> None:
    key, token = site.store.new("ann")
    sign_in(page, token)
    expect(page.locator("#ask")).to_be_visible()
    site.store.revoke(key.id)
    ask(page, "0.5")
    expect(page.locator("#login-problem")).to_contain_text("does not work any more")
    expect(page.locator("#budget")).to_be_hidden()


def test_an_exhausted_budget_is_said_clearly(page: Any, site: Site) -> None:
    records = [{"x": float(i), "age": 1, "ward": "north"} for i in range(QUERIES)]
    given = httpx.post(
        site.url + "/predict",
        headers={"Authorization": f"Bearer {site.operator}"},
        json={"records": records},
        timeout=30,
    )
    assert given.status_code == 200
    sign_in(page, site.operator)
    expect(page.locator("#exhausted")).to_contain_text("The budget is exhausted")
    expect(page.locator("#left")).to_have_text("0")
    ask(page, "99")
    expect(page.locator("#ask-problem")).to_contain_text("nothing was answered or counted")
    ask(page, "0", "1", "north")
    expect(page.locator("#answer")).to_contain_text("no cost")
    assert site.used() == QUERIES


def test_a_service_that_is_gone_is_said_in_words(page: Any, site: Site) -> None:
    sign_in(page, site.operator)
    expect(page.locator("#keys")).to_be_visible()
    site.stop()
    ask(page, "0.5")
    expect(page.locator("#ask-problem")).to_contain_text("cannot be reached")


def test_on_a_phone_nothing_scrolls_sideways(browser: Any, site: Site) -> None:
    context = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)
    page = watched(context, site)
    page.goto(site.url)
    expect(page.locator("#words")).to_be_visible()
    width = "() => document.documentElement.scrollWidth"
    assert page.evaluate(width) <= PHONE["width"]
    site.store.new("a-name-without-any-space-that-is-as-long-as-a-name-may-be-xx")
    sign_in(page, site.operator)
    ask(page, "0.5")
    expect(page.locator("#answer")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("guest")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("#made-token")).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate(width) <= PHONE["width"]
    context.close()


def test_the_keyboard_reaches_everything_and_everything_has_a_name(page: Any, site: Site) -> None:
    page.get_by_label("Key", exact=True).focus()
    page.keyboard.type(site.operator)
    page.keyboard.press("Enter")
    expect(page.locator("#keys")).to_be_visible()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id"))
    assert {"feature-0", "feature-1", "feature-2", "ask-button", "key-name", "key-share", "key-role"} <= set(reached)
    unnamed = (
        "() => [...document.querySelectorAll('input, select')].filter((e) => e.labels.length === 0).map((e) => e.id)"
    )
    assert page.evaluate(unnamed) == []
