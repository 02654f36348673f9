"""Pictures of ``privpac studio`` for the documentation: a real run in headless chromium.

    python examples/studio_pictures.py docs/img

Writes ``studio-desktop.png`` and ``studio-phone.png``.  People are generated; the rule is drawn from the system's
randomness, so that it may differ a little from run to run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright

from privpac.studio.words import started

PEOPLE, VISITS = 1_500, 3


def write_visits(path: Path) -> None:
    """Patients with a laboratory value that matters, and missing ones."""
    rng = np.random.default_rng(7)
    n = PEOPLE * VISITS
    bili = rng.exponential(2.5, n).round(1)
    dead = (bili > 3) ^ (rng.random(n) < 0.12)
    pl.DataFrame(
        {
            "patient": np.repeat(np.arange(PEOPLE), VISITS),
            "age": rng.integers(25, 90, n),
            "bili": [None if gone else value for gone, value in zip(rng.random(n) < 0.05, bili.tolist())],
            "albumin": rng.normal(3.5, 0.5, n).round(2),
            "ward": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
            "status": np.where(dead, "dead", "alive"),
        }
    ).write_parquet(path)


def work(page: Any, link: str) -> None:
    """From a table to a report."""
    page.set_default_timeout(120_000)
    page.goto(link)
    page.locator("#declare").wait_for()
    page.get_by_label("Which value of it?").fill("dead")
    page.get_by_label("ward holds").select_option("names")
    page.get_by_label("ward, a, b, c").fill("north, south, west")
    page.get_by_role("button", name="Save the declaration").click()
    page.locator("#plan-words").get_by_text("people are enough").wait_for()
    page.get_by_role("button", name="Make the budget").click()
    page.locator("#budget-there").wait_for()
    page.get_by_role("button", name="Learn a rule").click()
    page.get_by_role("button", name="Spend and go on").click()
    page.locator(".result .rule").wait_for(timeout=180_000)


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for name, size in (("desktop", (1280, 900)), ("phone", (390, 844))):
            place = Path(folder) / name
            place.mkdir()
            write_visits(place / "visits.parquet")
            command = started(["studio", "--no-browser"])
            studio = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True)
            assert studio.stdout is not None
            try:
                said = "".join(studio.stdout.readline() for _ in range(3))
                found = re.search(r"http://\S+", said)
                assert found is not None, said
                viewport = {"width": size[0], "height": size[1]}
                page = browser.new_page(viewport=viewport, color_scheme="light", reduced_motion="reduce")
                work(page, found.group())
                page.screenshot(path=target / f"studio-{name}.png", full_page=True)
                page.get_by_role("button", name="Read the report").click()
                page.wait_for_timeout(1_500)
                if os.environ.get("STUDIO_REPORT"):
                    page.screenshot(path=target / f"studio-{name}-report.png")
                page.close()
            finally:
                studio.terminate()
                studio.wait(20)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img"))
