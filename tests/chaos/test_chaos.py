"""Kills, other names, full disks, hostile files and hostile HTTP: nothing unpaid leaves, nothing paid for is lost,
nothing crashes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hostile_files
import hostile_http
import httpx
import pytest
import service_site
import test_collector_limits as limited
from attrs import asdict
from harness import Counts

import privpac

SEED = 20
ATTACKED = {
    "killing": {
        "spending": 120,
        "checkpoints": 60,
        "tails": 400,
        "readers": 20,
        "making": 100,
        "answering": 80,
        "keys": 80,
        "saving": 60,
        "commands": 6,
        "sessions": 60,
    }
    | {"messages": 60, "streaming": 6},
    "naming": {"ledgers": 8, "key_files": 60, "results": 40, "stores": 15, "sessions": 16},
    "filling": {"spends": 40, "files": 48, "commands": 3},
}
MUTANTS, PARQUET, ATTACKS = 2400, 120, 1500
Record = Callable[[str, object], None]


def program(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(privpac.__file__).parent.parent), "RUST_BACKTRACE": "0"}
    command = [sys.executable, "-W", "ignore", name, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def judged(record_property: Record, kind: str, counts: Counts) -> None:
    """Count for the table, and fail here as well."""
    record_property("chaos", json.dumps({**asdict(counts), "kind": kind}))
    assert (counts.unpaid, counts.lost, counts.torn, counts.crashes) == (0, 0, 0, 0), counts.notes
    assert counts.tries


@pytest.mark.parametrize(
    ("name", "kind", "tries"),
    [(name, kind, tries) for name, kinds in ATTACKED.items() for kind, tries in kinds.items()],
)
def test_processes_are_killed_names_change_and_disks_fill_up(
    name: str, kind: str, tries: int, tmp_path: Path, record_property: Record
) -> None:
    done = program(str(Path(__file__).with_name(f"{name}.py")), kind, tmp_path, SEED, tries)
    counts = _read(done)
    judged(record_property, f"{name}: {kind}", counts)


def _read(done: subprocess.CompletedProcess[str]) -> Counts:
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        return Counts(tries=1, crashes=1, notes=[f"exit {done.returncode}: {done.stderr[-800:]}"])
    found = json.loads(lines[0])
    return Counts(**{name: value for name, value in found.items() if name != "kind"})


def test_slow_sockets_do_not_stop_a_collector(tmp_path: Path, record_property: Record) -> None:
    """Ten times the places of an address, a byte now and then, no token: every person with one is still served."""
    counts = Counts(tries=10 * limited.QUICK.per_address)
    with limited.collecting(tmp_path) as server, limited.Slow(server, counts.tries):
        served = limited.everyone_submits(server)
    counts.check(served == len(limited.TOKENS) == len(list(tmp_path.iterdir())), "lost", f"{served} were served")
    judged(record_property, "slow sockets at a collector", counts)


# Hostile files


def test_files_with_other_bytes_are_refused_or_right(tmp_path: Path, record_property: Record) -> None:
    done = program(str(Path(__file__).with_name("fuzzing.py")), tmp_path, SEED, MUTANTS)
    judged(record_property, "hostile: files", _read(done))


def test_tables_that_lie_are_refused_or_read_right(record_property: Record) -> None:
    first = 10_000 * SEED
    done = program(hostile_files.__file__, first, first + PARQUET)
    judgements = [line for line in done.stdout.splitlines() if "|" in line]
    counts = Counts(tries=len(judgements))
    counts.check(
        done.returncode == 0 and len(judgements) == PARQUET,
        "crashes",
        f"seed {first + len(judgements)}: {done.stderr[-300:]}",
    )
    judged(record_property, "hostile: tables", counts)


# The service


@pytest.fixture
def site(tmp_path: Path) -> Iterator[service_site.Site]:
    made = service_site.prepare(tmp_path, 3000)
    service_site.start(made, workers=2)
    yield made
    if made.process is not None and made.process.poll() is None:
        service_site.stop(made)


def test_the_service_is_killed_while_it_answers(site: service_site.Site, record_property: Record) -> None:
    """Workers, once the master alone, and once everything, are killed whenever so many more answers have arrived; every
    answer that arrived stays what it was."""
    counts, chance = Counts(), random.Random(SEED)
    answers: dict[int, int] = {}
    lock, over = threading.Lock(), threading.Event()

    def ask(first: int) -> None:
        number = first
        while not over.is_set():
            try:
                response = site.ask(number)
            except httpx.TransportError:
                continue  # killed under it: asked again
            if response.status_code == 200:
                with lock:
                    answers[number] = response.json()["answers"][0]
                number += 4
            elif response.status_code not in (502, 503):
                counts.bad("crashes", f"status {response.status_code}")
                return

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    waiting = threading.Event()
    for kill in range(10):
        enough = len(answers) + chance.randrange(5, 30)
        for _ in range(6000):
            if len(answers) >= enough:
                break
            waiting.wait(0.01)
        counts.check(len(answers) >= enough, "crashes", f"no answers after kill {kill}")
        counts.tries += 1
        if kill == 9:
            service_site.stop(site)
        elif kill == 4:
            orphans = service_site.children(site)
            assert site.process is not None
            site.process.kill()
            site.process.wait(60)
            for _ in range(100):
                if not any(service_site.running(pid) for pid in orphans):
                    break
                waiting.wait(0.1)
            else:
                counts.bad("unpaid", "workers go on without their master")
            service_site.start(site, workers=2)
        else:
            alive = service_site.children(site)
            if alive:
                os.kill(chance.choice(alive), signal.SIGKILL)
    over.set()
    for thread in threads:
        thread.join()
    used = site.used()
    counts.check(len(answers) <= used <= 3000, "unpaid", f"{len(answers)} answers arrived, {used} are recorded")
    service_site.start(site, workers=1)
    asked = sorted(answers)
    for at in range(0, len(asked), 50):
        again = site.ask(*asked[at : at + 50]).json()["answers"]
        counts.check(again == [answers[n] for n in asked[at : at + 50]], "lost", f"answers from {at} on changed")
    counts.check(site.used() == used, "unpaid", "repeated questions were counted")
    counts.check("Traceback" not in site.log.read_text(), "crashes", "a traceback in the log")
    judged(record_property, "killing: service", counts)


def test_hostile_requests_get_whole_answers_that_are_all_paid_for(
    site: service_site.Site, record_property: Record
) -> None:
    counts, given = Counts(), list[tuple[bytes, bytes]]()

    def one(raw: bytes) -> None:
        try:
            said = hostile_http.exchange(site.address, raw)
            found = hostile_http.responses(said)
        except Exception as error:
            counts.bad("crashes", f"{type(error).__name__}: {str(error)[:100]} after {raw[:80]!r}")
            return
        counts.check(all(response.status != 500 for response in found), "crashes", f"500 after {raw[:80]!r}")
        given.extend(
            (raw, response.body) for response in found if response.status == 200 and b'"answers"' in response.body
        )

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(one, hostile_http.attacks(SEED, ATTACKS, site.analyst)):
            counts.tries += 1
    used = site.used()
    counts.check(bool(given) and used >= 1, "lost", "no request was answered")
    counts.check(used <= 60, "unpaid", f"{used} answers are recorded for at most some 45 different questions")
    before = site.ask(*range(40))
    after = site.ask(*range(40))
    counts.check(
        before.status_code == after.status_code == 200 and before.content == after.content,
        "lost",
        "the service answers no more",
    )
    answers = {b'"answers": [%d]' % answer for answer in (0, 1)}
    counts.check(
        all(any(text in body for text in answers) or b'"answers"' in body for _, body in given), "torn", "a body"
    )
    counts.check("Traceback" not in site.log.read_text(), "crashes", "a traceback in the log")
    judged(record_property, "hostile: http", counts)
