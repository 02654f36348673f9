"""How many named the rule: intervals hold as often as they say, and certain ones always; the demonstration runs."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run

from privpac.data import Integers
from privpac.protocols import LocalProtocol, ShuffleProtocol, analyze_central, analyze_local, analyze_shuffled
from privpac.protocols.analyzer import CONFIDENCE, support_central, support_local, support_shuffled
from privpac.protocols.demo import demo
from privpac.report.compare import demo_html, write_demo_report
from privpac.testing import SeededRng, insecure_randomness

TRIES, MOST = 60, 14
"""Each interval fails with probability at most 1/20: more than 14 of 60 have probability below 1e-6."""


def _local(protocol: Any, agree: int, people: int, coins: int) -> Any:
    client, universe = protocol.client(), protocol.manifest.task.learner.universe
    with insecure_randomness():
        rng = SeededRng(coins)
        sent = [(i, client.send(universe.item(41) if i < agree else None, rng)) for i in range(people)]
    return analyze_local(protocol.manifest, sent)


@pytest.mark.parametrize("width", [None, 4])
def test_local_intervals_hold(width: int | None) -> None:
    protocol = LocalProtocol("threshold", {"age": Integers(0, 99)}, 3, label="ill", width=width)
    wrong = released = 0
    for coins in range(TRIES):
        found = _local(protocol, 560, 700, coins)
        if found.support is not None:
            released += 1
            wrong += not found.support.low <= 560 <= found.support.high
            assert found.support.share is not None
            assert found.support.people == 700
    assert released > TRIES / 2
    assert wrong <= MOST


@pytest.mark.parametrize("width", [0, 4])
def test_shuffled_intervals_hold(width: int) -> None:
    protocol = ShuffleProtocol(
        "threshold", {"age": Integers(0, 99)}, 2, label="ill", delta="1e-6", n_min=300, n_max=300, width=width
    )
    made, client = protocol.manifest, protocol.client()
    universe = made.task.learner.universe
    wrong = released = 0
    with insecure_randomness():
        rng = SeededRng(3)
        for _ in range(TRIES // 2):
            mixed = [m for i in range(300) for m in client.send(universe.item(41) if i < 240 else None, rng)]
            found = analyze_shuffled(made, mixed, 300)
            if found.support is not None:
                released += 1
                wrong += not found.support.low <= 240 <= found.support.high
    assert released > TRIES / 4
    assert wrong <= MOST


def test_central_intervals_are_certain_and_pure_runs_have_none() -> None:
    for neighbours, people in (("add-remove", None), ("replace", 70)):
        made = run("central", neighbours=neighbours).manifest
        client = run("central", neighbours=neighbours).client()
        item = made.task.learner.universe.item(41)
        for _ in range(10):
            found = analyze_central(made, [(i, client.send(item if i < 60 else None)) for i in range(70)])
            if found.support is not None:
                assert found.support.low <= 60 <= found.support.high
                assert (found.support.confidence, found.support.people) == (1, people)
    pure = run("central", delta=0)
    assert pure.analyze([(i, pure.client().send(None)) for i in range(5)]).support is None


@given(st.integers(0, 5000), st.integers(1, 2000), st.integers(1, 60))
def test_ends_are_in_order_and_within_the_people(noisy: int, people: int, K: int) -> None:
    found = support_central(noisy, K, people)
    assert 0 <= found.low <= found.estimate <= found.high <= people
    assert found.low == min(people, max(0, noisy - K))
    assert support_central(noisy, K, None).among(people) == found
    select = run("shuffle").manifest.shuffle
    shuffled = support_shuffled(select, [noisy], max(people, 60))
    assert 0 <= shuffled.low <= shuffled.estimate <= shuffled.high <= max(people, 60)
    local = run("local").manifest.local
    assert 0 <= support_local(local, [min(noisy, people)], [people]).low <= people
    assert Fraction(19, 20) == CONFIDENCE


# The demonstration


def test_a_demonstration_and_its_page(tmp_path: Path) -> None:
    found = demo(120, 100, 2, seed=3)
    assert [row.model for row in found.rows] == ["local", "shuffle", "central", "one table"]
    assert sum(found.votes) == 120
    local, shuffled, central, table = found.rows
    assert (local.messages, central.messages) == (120, 120)
    assert shuffled.messages >= 120
    for row in found.rows:  # no interval goes beyond the 120 people there are
        assert not row.support or row.support.endswith("of 120")
        assert not row.support or int(row.support.partition(" to ")[2].partition(",")[0]) <= 120
    assert local.bytes_per_person == 81
    assert table.error <= 0.1
    assert local.needed is not None
    assert shuffled.needed is not None
    assert local.needed > shuffled.needed
    assert len(shuffled.seen) == len(found.votes) == 101
    text = demo_html(found)
    assert text.count("<svg") == 3
    assert "120 devices" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert write_demo_report(found, tmp_path / "demo.html").read_text() == text
    json.dumps([row.saw for row in found.rows])
