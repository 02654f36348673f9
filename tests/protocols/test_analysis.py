"""Shuffler and analyzers: garbage, repeats and drop-outs are counted and change nothing; the answer is the one most
people gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import error_of, run

from privpac.data import Integers
from privpac.device.client import Client
from privpac.device.manifest import Manifest
from privpac.device.wire import pack_item, pack_report, pack_shuffled
from privpac.errors import ParameterError
from privpac.protocols import ShuffleProtocol, Shuffler, analyze_central, analyze_local, analyze_shuffled
from privpac.result import NoRelease, Released
from privpac.testing import SeededRng, insecure_randomness

LOCAL, SHUFFLE, CENTRAL = (run(model).manifest for model in ("local", "shuffle", "central"))
ITEM = LOCAL.task.learner.universe.item(41)
GARBAGE = st.one_of(
    st.binary(max_size=40), st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


def sent(
    manifest: Manifest, people: int, item: bytes | None = ITEM, start: int = 0
) -> Iterator[tuple[int, list[bytes]]]:
    client = Client(manifest)
    for i in range(start, start + people):
        yield i, client.send(item)


def cut_of(released: Released) -> int:
    return int.from_bytes(released.value.item, "little")


# Local


def test_local_reports_name_the_item() -> None:
    found = analyze_local(LOCAL, sent(LOCAL, 900))
    assert (found.received, found.dropped, found.released.outcome) == (900, 0, "released")
    assert cut_of(found.released) == 41
    assert str(found.released.guarantee) == "(1, 0)-DP per user, replace, local model"
    assert str(found.released.value) == "ill when age > 40"
    assert error_of(found.released) == 0
    again = Released.from_json(found.released.to_json())
    assert again.value == found.released.value


def test_first_message_of_a_client_counts_and_others_are_dropped() -> None:
    other = LOCAL.task.learner.universe.item(3)
    both = [*sent(LOCAL, 700), *sent(LOCAL, 700, other), *sent(LOCAL, 700, other)]
    found = analyze_local(LOCAL, both)
    assert (found.received, found.dropped) == (700, 1400)
    assert cut_of(found.released) == 41
    assert found.drop_rate == pytest.approx(2 / 3)


@pytest.mark.parametrize("people", [0, 1, 7])
def test_nobody_gives_the_default(people: int) -> None:
    found = analyze_local(LOCAL, sent(LOCAL, people, None))
    assert found.released.outcome in ("default", "released") if people else found.released.outcome == "default"
    assert found.received == people


def test_people_with_nothing_to_say_rarely_make_an_answer() -> None:
    """The test errs with probability at most 1/20 each: more than 15 of 60 have probability below 1e-6."""
    outcomes = [analyze_local(LOCAL, sent(LOCAL, 100, None)).released.outcome for _ in range(60)]
    assert outcomes.count("released") <= 15
    assert analyze_local(LOCAL, sent(LOCAL, 0)).released.value.condition() == "never"


def test_a_decoded_number_that_is_no_rule_gives_the_default() -> None:
    chunk = LOCAL.local
    assert chunk.chunks == 1
    number = 120  # of 128 strings only 101 are rules
    reports = [(i, [pack_report(LOCAL.run, 0, i % 128, 1 - ((i % 128) & number).bit_count() % 2)]) for i in range(1280)]
    assert chunk.decode([(0, i % 128, 1 - ((i % 128) & number).bit_count() % 2) for i in range(1280)]) == number
    assert analyze_local(LOCAL, reports).released.outcome == "default"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.lists(GARBAGE, max_size=4)), max_size=6))
def test_garbage_never_raises_and_is_counted(strange: list[tuple[int, list[Any]]]) -> None:
    for found in (analyze_local(LOCAL, strange), analyze_shuffled(SHUFFLE, [b"x" for _, m in strange for _ in m], 100)):
        assert (found.received, found.dropped) == (0, sum(len(messages) for _, messages in strange))
        assert found.released.outcome == "default"
    mixer = Shuffler(SHUFFLE)
    for name, messages in strange:
        assert not mixer.submit(name, messages)
    assert mixer.clients == 0


def test_impossible_reports_are_malformed() -> None:
    bad = [
        pack_report(LOCAL.run, 1, 0, 0),
        pack_report(LOCAL.run, 0, 128, 1),
        pack_shuffled(LOCAL.run, 1),
        pack_report(SHUFFLE.run, 0, 1, 1),
    ]
    found = analyze_local(LOCAL, list(enumerate([[message] for message in bad])))
    assert (found.received, found.dropped) == (0, 4)


# Shuffle


def mixed(people: int, item: bytes | None = ITEM) -> Shuffler:
    mixer = Shuffler(SHUFFLE)
    for name, messages in sent(SHUFFLE, people, item):
        assert mixer.submit(name, messages)
    return mixer


def test_shuffled_messages_name_the_item_and_a_run_is_closed_once_released() -> None:
    mixer = mixed(100)
    released = mixer.release()
    assert released is not None
    found = analyze_shuffled(SHUFFLE, released, mixer.clients)
    assert (cut_of(found.released), found.dropped) == (41, 0)
    assert str(found.released.guarantee) == "(1, 1e-06)-DP per user, replace, shuffle model"
    assert not mixer.submit("late", Client(SHUFFLE).send(ITEM))
    assert (mixer.dropped.late, mixer.clients) == (1, 100)
    assert mixer.release() == released
    found = analyze_shuffled(SHUFFLE, [pack_shuffled(SHUFFLE.run, bucket) for bucket in released], 100)
    assert cut_of(found.released) == 41


def test_too_few_clients_release_nothing() -> None:
    mixer = mixed(59)
    assert mixer.release() is None
    found = analyze_shuffled(SHUFFLE, [], 59)
    assert found.released.value is NoRelease
    assert found.released.outcome == "none"
    assert not found.released
    (late,) = sent(SHUFFLE, 1, start=59)
    assert mixer.submit(*late)
    assert mixer.release() is not None


def test_repeats_caps_and_limits_of_the_shuffler() -> None:
    mixer = mixed(3)
    cap = SHUFFLE.shuffle.cap
    assert not mixer.submit(0, Client(SHUFFLE).send(ITEM))
    assert not mixer.submit("greedy", [pack_shuffled(SHUFFLE.run, 3)] * (cap + 1))
    assert not mixer.submit("endless", iter(lambda: pack_shuffled(SHUFFLE.run, 3), None))
    assert mixer.submit("full", [pack_shuffled(SHUFFLE.run, 3)] * cap)
    assert mixer.submit(
        "odd", [pack_shuffled(SHUFFLE.run, 3), pack_shuffled(SHUFFLE.run, SHUFFLE.shuffle.buckets), b"", None]
    )
    assert (mixer.dropped.repeated, mixer.dropped.over_cap, mixer.dropped.malformed) == (1, 2, 3)
    assert mixer.dropped.total == 6
    few = run("shuffle", n_max=60).manifest
    crowd = Shuffler(few)
    taken = [crowd.submit(i, [pack_shuffled(few.run, 0)]) for i in range(62)]
    assert taken == [True] * 60 + [False] * 2
    assert crowd.dropped.too_many_clients == 2
    with pytest.raises(ParameterError):
        Shuffler(LOCAL)


def test_nothing_to_say_stays_within_the_noise() -> None:
    """The test errs with probability at most 1/20 each: more than 6 of 8 have probability below 1e-8."""
    outcomes = []
    for _ in range(8):
        mixer = mixed(60, None)
        outcomes.append(analyze_shuffled(SHUFFLE, mixer.release() or [], 60).released.outcome)
    assert outcomes.count("released") <= 6


def test_counting_what_is_missing_never_overestimates() -> None:
    made = ShuffleProtocol(
        "threshold", {"age": Integers(0, 9)}, 1, delta="1e-6", n_min=60, n_max=100, direction="under"
    ).manifest
    mixer, item = Shuffler(made), made.task.learner.universe.item(4)
    for i in range(100):
        mixer.submit(i, Client(made).send(item if i < 80 else None))
    messages = mixer.release()
    assert messages is not None
    counts = made.shuffle.counts(messages, 100)
    truth = [80 * (u == 4) for u in range(11)] + [20]
    assert all(count <= exact for count, exact in zip(counts, truth))
    assert made.shuffle.decode(counts) == 4
    assert analyze_shuffled(made, messages, 100).released.outcome in ("released", "default")


# Central


def test_central_items_are_selected_once_per_client() -> None:
    found = analyze_central(
        CENTRAL, [*sent(CENTRAL, 60), *sent(CENTRAL, 60), (99, [b"", None, pack_item(CENTRAL.run, b"\xff\xff")])]
    )
    assert (found.received, found.dropped, found.drop_rate) == (None, None, None)  # private under add-remove
    assert "private" in str(found)
    assert found.support is not None
    assert found.support.low <= 60 <= found.support.high
    counted = run("central", neighbours="replace").manifest
    shown = analyze_central(
        counted, [*sent(counted, 60), *sent(counted, 60), (99, [b"", None, pack_item(counted.run, b"\xff\xff")])]
    )
    assert (shown.received, shown.dropped) == (60, 63)
    assert shown.reasons == {"repeated": 60, "malformed": 2, "impossible": 1}
    assert cut_of(found.released) == 41
    assert str(found.released.guarantee) == "(1, 1e-06)-DP per user, add-remove"
    assert analyze_central(CENTRAL, []).released.outcome == "default"


def test_central_pure_selection_and_test_randomness() -> None:
    pure = run("central", delta=0).manifest
    with insecure_randomness():
        found = analyze_central(pure, sent(pure, 60), SeededRng(5))
    assert cut_of(found.released) == 41
    assert found.released.guarantee is None
    assert found.released.insecure


@given(st.binary(max_size=6))
def test_only_canonical_items_are_votes(item: bytes) -> None:
    counted = run("central", neighbours="replace").manifest
    found = analyze_central(counted, [("a", [pack_item(counted.run, item)])])
    good = not item or (len(item) == 1 and item[0] <= 100)  # empty: nothing to say
    assert (found.received, found.dropped) == ((1, 0) if good else (0, 1))


@pytest.mark.parametrize("beta", [0, 1, -1, "nan", 2])
def test_bad_parameters(beta: Any) -> None:
    with pytest.raises(ParameterError):
        analyze_local(LOCAL, [], beta=beta)
    with pytest.raises(ParameterError):
        analyze_shuffled(SHUFFLE, [], 0, beta=beta)


def test_each_analyzer_wants_its_own_model() -> None:
    for analyze in (
        lambda: analyze_local(SHUFFLE, []),
        lambda: analyze_shuffled(CENTRAL, [], 0),
        lambda: analyze_central(LOCAL, []),
    ):
        with pytest.raises(ParameterError, match="this run is"):
            analyze()
