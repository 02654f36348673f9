"""The page that asks a person before anything is sent, in a real browser, with a collector on another origin."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from privpac.data import Integers
from privpac.protocols import (
    AnalyzerKey,
    CentralProtocol,
    CoordinatorKey,
    LocalProtocol,
    Manifest,
    ShuffleProtocol,
    fingerprint,
)
from privpac.protocols.collect import Collector
from privpac.protocols.files import read_folder

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make test-browser installs it"
)
BROWSER = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
HOME = Path(__file__).parents[2] / "clients" / "js"
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium"),
    pytest.mark.skipif(
        not (HOME / "node_modules" / "@noble").is_dir(),
        reason="the packages of clients/js are not installed: make test-clients installs them",
    ),
]
expect = playwright.expect
KEY = AnalyzerKey(bytes(range(1, 33)))
COORDINATOR = CoordinatorKey(bytes(range(2, 34)))
AGES = {"age": Integers(0, 99)}
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
TOKEN = "a-token-of-anns-own"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _pages(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page_server() -> Iterator[str]:
    with _pages(HOME) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield launched
        launched.close()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("age,ill\n" + "".join(f"{i % 100},{int(i % 100 >= 42)}\n" for i in range(200)))
    return path


class Run:
    """A collector, and a page that asks for it."""

    def __init__(self, protocol: Any, folder: Path, page_server: str) -> None:
        self.protocol, self.folder = protocol, folder
        more = {"origin": page_server, "tokens": {"ann": TOKEN}}
        self.collector = Collector(protocol.manifest.signed(COORDINATOR), folder, 0, **more)
        threading.Thread(target=self.collector.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.collector.server_port}"
        mark = fingerprint(COORDINATOR.public).replace(" ", "")
        self.url = f"{page_server}/consent.html?collector={self.address}&name=ann#token={TOKEN}&coordinator={mark}"

    def close(self) -> None:
        self.collector.shutdown()
        self.collector.server_close()

    def sent(self) -> dict[str, list[bytes]]:
        return dict(read_folder(self.protocol.manifest, self.folder))


@pytest.fixture
def serve(page_server: str, tmp_path: Path) -> Iterator[Callable[[Any], Run]]:
    runs: list[Run] = []

    def start(protocol: Any) -> Run:
        runs.append(Run(protocol, tmp_path / f"run{len(runs)}", page_server))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def _local(epsilon: int = 1) -> LocalProtocol:
    return LocalProtocol("threshold", AGES, epsilon, label="ill", min_records=20, analyzer=KEY.public)


def _open(browser: Any, url: str, size: str = "desktop", confirm: bool = True) -> tuple[Any, list[str], list[str]]:
    page = browser.new_context(viewport=SIZES[size], has_touch=size == "phone").new_page()
    noise: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    page.goto(url)
    page.wait_for_selector("html[data-ready=yes]", timeout=20_000)
    if confirm:
        page.click("#confirm")
        expect(page.locator("#asked")).to_contain_text(fingerprint(COORDINATOR.public))
    return page, noise, asked


@pytest.mark.parametrize("size", list(SIZES))
def test_a_person_sees_what_is_sent_before_it_is_sent(
    browser: Any, serve: Any, page_server: str, records: Path, size: str
) -> None:
    run = serve(_local())
    page, noise, asked = _open(browser, run.url, size)
    expect(page.locator("#odds")).to_contain_text("at most 73.1 of 100")
    expect(page.locator("#sent")).to_contain_text("One message of 81 bytes")
    expect(page.locator("#told")).to_contain_text("sealed to the analyzer")
    expect(page.locator("#send")).to_be_disabled()
    assert TOKEN not in page.url
    page.fill("#total", "3/2")
    page.click("#make")
    page.set_input_files("#records", str(records))
    expect(page.locator("#rule")).to_contain_text("ill is 1 when age is at least")
    expect(page.locator("#spent")).to_contain_text("0 of your total ε = 3/2 is spent; this run takes 1")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= SIZES[size]["width"], "the page is wider than the screen"
    if os.environ.get("PRIVPAC_SHOTS"):
        page.screenshot(path=str(Path(os.environ["PRIVPAC_SHOTS"]) / f"consent-{size}.png"), full_page=True)
    assert not run.sent()
    assert not any("/submit/" in line or "/receipt/" in line for line in asked)

    page.click("#send")
    expect(page.locator("#said")).to_contain_text("Sent. The collector has confirmed it.")
    (message,) = run.sent()["ann"]
    assert page.locator("#bytes").inner_text() == message.hex()
    opened = KEY.open(run.protocol.manifest.run, 2, message)
    assert opened is not None
    assert len(opened) == 20
    expect(page.locator("#spent")).to_contain_text("you took part in this run already")

    # The same bytes after a reload, whatever file is chosen, at no cost.
    page.reload()
    expect(page.locator("#spent")).to_contain_text("1 of your total ε = 3/2 is spent")
    page.fill("#token", TOKEN)
    page.click("#send")
    expect(page.locator("#said")).to_contain_text("Sent.")
    assert page.locator("#bytes").inner_text() == message.hex()
    assert len(run.sent()) == 1
    assert not noise
    assert {line.split("/")[2] for line in asked} == {page_server.split("/")[2], run.address.split("/")[2]}
    if os.environ.get("PRIVPAC_SHOTS"):
        page.screenshot(path=str(Path(os.environ["PRIVPAC_SHOTS"]) / f"consent-sent-{size}.png"), full_page=True)


def test_shown_first_and_not_sent(browser: Any, serve: Any, records: Path) -> None:
    run = serve(_local())
    page, _, asked = _open(browser, run.url)
    page.click("#make")
    page.set_input_files("#records", str(records))
    page.click("#show")
    expect(page.locator("#said")).to_contain_text("Nothing was sent yet")
    shown = page.locator("#bytes").inner_text()
    page.click("#leave")
    expect(page.locator("#trouble")).to_contain_text("You do not take part")
    expect(page.locator("#decide")).to_be_hidden()
    assert len(shown) == 162
    assert not run.sent()
    assert not any("/submit/" in line for line in asked)


def test_the_total_of_all_runs_holds_in_a_browser(browser: Any, serve: Any, records: Path) -> None:
    first, second = (serve(_local()) for _ in range(2))
    page, _, _ = _open(browser, first.url)
    page.fill("#total", "1")
    page.click("#make")
    page.set_input_files("#records", str(records))
    page.click("#send")
    expect(page.locator("#said")).to_contain_text("Sent.")
    page.goto(second.url)
    expect(page.locator("#trouble")).to_contain_text("1 of your total 1 are spent. Nothing was sent")
    expect(page.locator("#send")).to_be_disabled()
    assert not second.sent()


def test_a_store_belongs_to_one_person(browser: Any, serve: Any, records: Path) -> None:
    """Bob's link on Ann's device sends nothing."""
    run = serve(_local())
    page, _, _ = _open(browser, run.url)
    page.click("#make")
    expect(page.locator("#spent")).to_contain_text("ann, 0 of your total")
    page.goto(run.url.replace("name=ann", "name=bob"))
    expect(page.locator("#trouble")).to_contain_text("the store belongs to 'ann', not to 'bob'")
    expect(page.locator("#send")).to_be_disabled()
    assert not run.sent()


def test_shuffled_and_central_runs(browser: Any, serve: Any, records: Path) -> None:
    small = {"label": "ill", "min_records": 20, "analyzer": KEY.public}
    mixed = ShuffleProtocol("threshold", AGES, 1, delta="1e-6", n_min=500, n_max=1000, **small)
    run = serve(mixed)
    page, noise, _ = _open(browser, run.url)
    expect(page.locator("#small")).to_contain_text("1 in 1,000,000")
    page.click("#make")
    page.set_input_files("#records", str(records))
    page.click("#send")
    expect(page.locator("#said")).to_contain_text("left the device")
    assert {len(message) for message in run.sent()["ann"]} == {78}

    central = serve(CentralProtocol("threshold", AGES, 1, delta="1e-6", **small))
    page.goto(central.url)
    expect(page.locator("#trouble")).to_contain_text("a central run and the device accepts local, shuffle")
    assert not central.sent()
    assert not noise


def test_a_false_promise_is_refused_on_the_page(browser: Any, serve: Any) -> None:
    run = serve(_local(2))
    weak = run.protocol.manifest.write().replace(b'"epsilon":"2"', b'"epsilon":"1"')
    signature = COORDINATOR.sign(weak).value.hex().encode()
    head = b'{"coordinator":"' + COORDINATOR.public.hex().encode() + b'","manifest":'
    false = head + weak + b',"signature":"' + signature + b'"}'
    page = browser.new_context().new_page()
    page.route("**/manifest", lambda route: route.fulfill(body=false, headers={"Access-Control-Allow-Origin": "*"}))
    page.goto(run.url)
    expect(page.locator("#trouble")).to_contain_text("the reports lose more than the guarantee claims")
    expect(page.locator("#decide")).to_be_hidden()


def test_a_collector_that_is_none(browser: Any, page_server: str) -> None:
    page, _, _ = _open(browser, f"{page_server}/consent.html?collector={page_server}", confirm=False)
    expect(page.locator("#trouble")).to_contain_text("not that of a collector")


def _served(browser: Any, run: Run, body: bytes, url: str | None = None) -> tuple[Any, list[str]]:
    """The page, whose collector hands out something else."""
    page = browser.new_context().new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/manifest", lambda route: route.fulfill(body=body, headers={"Access-Control-Allow-Origin": "*"}))
    page.goto(url or run.url)
    page.wait_for_selector("html[data-ready=yes]", timeout=20_000)
    return page, asked


def test_a_collector_cannot_put_in_a_manifest_of_its_own(browser: Any, serve: Any) -> None:
    """Unsigned, changed, or signed by the collector itself: the person sees why, and nothing is asked or kept."""
    run, eve = serve(_local()), CoordinatorKey(bytes(range(3, 35)))
    good = run.protocol.manifest
    swapped = Manifest({**good.values, "analyzer": AnalyzerKey(bytes(range(9, 41))).public.hex()})
    changed = good.signed(COORDINATOR).published().replace(KEY.public.hex().encode(), swapped.analyzer.hex().encode())
    for body, said in ((good.write(), "not signed"), (changed, "not what its coordinator signed")):
        page, asked = _served(browser, run, body)
        expect(page.locator("#trouble")).to_contain_text(said)
        expect(page.locator("#whose")).to_be_hidden()
        expect(page.locator("#decide")).to_be_hidden()
    page, asked = _served(browser, run, swapped.signed(eve).published())
    page.click("#confirm")
    expect(page.locator("#trouble")).to_contain_text("was not signed by those who invited you")
    expect(page.locator("#decide")).to_be_hidden()
    assert fingerprint(eve.public) not in page.content()  # so that nobody copies it from the page
    assert not any("/receipt/" in url or "/submit/" in url for url in asked)
    assert page.evaluate("indexedDB.databases().then((all) => all.length)") == 0


def test_a_fingerprint_is_typed_where_the_link_has_none(browser: Any, serve: Any) -> None:
    run = serve(_local())
    page, _, _ = _open(browser, run.url.partition("#")[0], "phone", confirm=False)
    expect(page.locator("#linked")).to_be_hidden()
    if os.environ.get("PRIVPAC_SHOTS"):
        page.screenshot(path=str(Path(os.environ["PRIVPAC_SHOTS"]) / "consent-whose.png"), full_page=True)
    for wrong, said in (("", "32 letters and digits"), ("0000 " * 8, "was not signed by those who invited you")):
        page.fill("#mark", wrong)
        page.click("#confirm")
        expect(page.locator("#trouble")).to_contain_text(said)
        expect(page.locator("#decide")).to_be_hidden()
    page.fill("#mark", f" {fingerprint(COORDINATOR.public).upper()} ")
    page.click("#confirm")
    expect(page.locator("#decide")).to_be_visible()
    page.click("#make")
    expect(page.locator("#spent")).to_contain_text("ann, 0 of your total")
    page.reload()  # confirmed before, on this device
    expect(page.locator("#decide")).to_be_visible()
    expect(page.locator("#whose")).to_be_hidden()


def test_a_page_that_vouches_for_its_coordinator(browser: Any, tmp_path: Path) -> None:
    html = (HOME / "consent.html").read_text()
    for key, right in ((COORDINATOR.public, True), (CoordinatorKey(bytes(32)).public, False)):
        folder = tmp_path / str(right)
        folder.mkdir()
        for name in ("consent.js", "consent.css", "src", "node_modules"):
            (folder / name).symlink_to(HOME / name)
        vouching = html.replace('coordinator" content=""', f'coordinator" content="{key.hex()}"')
        assert vouching != html
        (folder / "consent.html").write_text(vouching)
        with _pages(folder) as address:
            run = Run(_local(), folder / "in", address)
            page, _, _ = _open(browser, run.url.partition("#")[0], confirm=False)
            expect(page.locator("#decide")).to_be_visible(visible=right)
            expect(page.locator("#whose")).to_be_hidden()
            if not right:
                expect(page.locator("#trouble")).to_contain_text("not signed by those who serve this page")
            run.close()


@pytest.mark.parametrize("emptied", ["database", "entry"])
def test_an_emptied_store_is_no_new_beginning(browser: Any, serve: Any, records: Path, emptied: str) -> None:
    run = serve(_local())
    page, _, _ = _open(browser, run.url)
    page.click("#make")
    page.set_input_files("#records", str(records))
    page.click("#show")
    expect(page.locator("#said")).to_contain_text("Nothing was sent yet")
    page.evaluate(
        "() => new Promise((done) => { indexedDB.deleteDatabase('privpac-device').onsuccess = done; })"
        if emptied == "database"
        else """() => new Promise((done) => { indexedDB.open('privpac-device').onsuccess = (event) => {
            const book = event.target.result, step = book.transaction('store', 'readwrite');
            step.objectStore('store').clear(); step.oncomplete = () => { book.close(); done(); }; }; })"""
    )
    page.goto(run.url)
    page.reload()
    expect(page.locator("#trouble")).to_contain_text("the store was emptied or damaged")
    expect(page.locator("#decide")).to_be_hidden()
    assert not run.sent()
