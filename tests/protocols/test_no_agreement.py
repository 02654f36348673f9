"""Where no two people agree nothing is released, in any trust model, but with the published probability; where they do,
a rule is.

500 people name 500 different rules.  What can be computed is: central laws exactly, a shuffled count by the law of its
noise.  Local reports, and runs as a whole, are drawn with fixed seeds: 100 runs that err with probability 1/20 err more
than 22 times with probability below 1e-8.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from runs import AGES, run
from scipy.stats import nbinom

from privpac.data import Integers, UserData
from privpac.device.manifest import Manifest
from privpac.device.randomizers import ChunkedHadamard, ShuffleSelection
from privpac.errors import ManifestError, ParameterError
from privpac.law import BOTTOM
from privpac.mechanisms.votes import PureSelection, StableHistogram, vote_decay
from privpac.methods.agreement.agreement_learner import AgreementLearner, pure_selection
from privpac.methods.agreement.plurality import CLEAR, shuffle_edge, silent_votes
from privpac.protocols import CentralProtocol, LocalProtocol, ShuffleProtocol, analyze_shuffled
from privpac.protocols.agreement_plan import local_winner, shuffle_winner, shuffled_selection
from privpac.protocols.analyzer import decode_counts
from privpac.protocols.protocol import Protocol
from privpac.rules import Thresholds
from privpac.testing import SeededRng, insecure_randomness

MANY = {"x": Integers(0, 998)}
PEOPLE, RUNS, MOST = 500, 100, 22


def made(model: str, beta: str = "1/20") -> Protocol:
    if model == "local":
        return LocalProtocol("threshold", MANY, Fraction(1), beta=Fraction(beta))
    if model == "shuffle":
        return ShuffleProtocol(
            "threshold", MANY, Fraction(1), delta=Fraction("1e-6"), n_min=PEOPLE, n_max=1000, beta=Fraction(beta)
        )
    delta = Fraction(0) if model == "pure" else Fraction("1e-4")
    return CentralProtocol("threshold", MANY, Fraction(1), delta=delta, beta=Fraction(beta))


@pytest.mark.parametrize("model", ["local", "shuffle", "pure", "central"])
def test_500_people_with_500_rules_release_nothing_and_500_who_agree_release_theirs(model: str) -> None:
    """Whole runs of all clients, with fixed coins."""
    protocol = made(model, "1/1000")
    client, universe = protocol.client(), protocol.manifest.task.learner.universe
    with insecure_randomness():
        rng = SeededRng(5)
        for items, expected in ([2 * i for i in range(PEOPLE)], "default"), ([417] * PEOPLE, "released"):
            sent = [(i, client.send(universe.item(item), rng)) for i, item in enumerate(items)]
            released = protocol._run(sent, rng).released
            assert released.outcome == expected
            assert released.parameters["beta"] == "1/1000"


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("universe", [1, 2, 1000, 2**64])
def test_a_pure_plurality_abstains_as_often_as_published_however_many_people_differ(
    universe: int, relation: str
) -> None:
    for beta in (Fraction(1, 20), Fraction(1, 3), Fraction(9, 10)):
        base = 1 / vote_decay(1, relation)
        votes = silent_votes(base, universe, beta)
        assert base**votes >= universe * base * (1 - beta) / beta
        assert votes == 1 or base ** (votes - 1) < universe * base * (1 - beta) / beta
        select = PureSelection(1, universe=universe, neighbours=relation, abstain=votes)
        for n in {0, 1, min(3, universe), min(PEOPLE, universe)}:
            law = select.law(dict.fromkeys(range(n), 1))
            assert law.prob(BOTTOM).lo >= 1 - beta


def test_a_block_of_items_with_as_many_votes_as_silence_stays_apart_from_it() -> None:
    select = pure_selection(1, made("pure").manifest.task, CLEAR, "add-remove")
    assert select.abstain is not None
    last = select.universe - 1
    law = select.law({last: select.abstain})
    assert law.prob_exact(last) == law.prob_exact(BOTTOM) > Fraction(1, 3)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_stable_histogram_never_releases_what_one_person_named(relation: str) -> None:
    """The probability was n d(K): with a delta of 1/50 and ten people about 1/6."""
    old, new = (StableHistogram(1, delta="1/50", neighbours=relation, named=named) for named in (1, 2))
    alone = dict.fromkeys(range(10), 1)
    assert old.law(alone).prob_exact(BOTTOM) < Fraction(95, 100)
    assert new.law(alone).prob_exact(BOTTOM) == 1
    assert all(new.sample(alone) is BOTTOM for _ in range(20))
    for c in range(new.majority_needed(9), 30):
        assert new.law({3: c, 5: 1}).prob_exact(BOTTOM) == 0


def test_learners_abstain_like_the_protocol() -> None:
    users = UserData.from_users([[(x, 0), (x + 1, 1)] * 40 for x in range(90)], features=AGES)
    for delta in (0, "1/50"):
        learner = AgreementLearner(Thresholds(), 1, delta=delta, seed=bytes(32), task={"Gamma": 10**15})
        assert len(learner._votes(learner.bind(users))) == 90
        assert learner.law(users).prob(BOTTOM).lo >= 1 - learner.beta
        assert learner.learn(users).parameters["beta"] == "1/20"


# Counts and reports


@pytest.mark.parametrize(("r", "p", "buckets"), [(45.1, 0.449, 1025), (3.0, 0.3, 3), (600.0, 0.8, 65536)])
def test_shuffled_counts_of_one_vote_each_pass_the_edge_as_rarely_as_published(
    r: float, p: float, buckets: int
) -> None:
    for beta in (0.001, 0.05, 0.5):
        edge = shuffle_edge(r, p, buckets, beta, speak=PEOPLE)
        one = float(nbinom.sf(edge - 1, r, 1 - p))
        assert -np.expm1(buckets * np.log1p(-one)) <= beta
        assert float(nbinom.sf(edge - 2, r, 1 - p)) * buckets > beta  # no wider than that


def test_an_undercount_releases_only_what_two_people_named() -> None:
    select = ShuffleSelection(9, Fraction(20), Fraction(1, 2), 60, 10**6, 0, "under")
    assert decode_counts(select, [1] * 9 + [51], 60, 0.05) is None
    assert decode_counts(select, [2] + [1] * 8 + [50], 60, 0.05) == 0


def different(bits: int) -> dict[str, Any]:
    """Numbers of which no two are equal: in a row, spread out, and sharing one half of their bits with all or half of
    the others."""
    half, n = bits // 2, PEOPLE
    cross = [i << half for i in range(1, n // 2 + 1)] + list(range(1, n // 2 + 1))
    rng = np.random.default_rng(3)
    return {
        "row": np.arange(n),
        "high": np.arange(n) << half,
        "spread": np.unique(rng.integers(0, 1 << bits, 2 * n))[:n],
        "cross": np.array(cross),
    }


def rarely(winner: Any) -> None:
    released = sum(winner(np.random.default_rng([4, i])) is not None for i in range(RUNS))
    assert released <= MOST


@pytest.mark.parametrize("kind", ["row", "high", "spread", "cross"])
@pytest.mark.parametrize("bits", [18, 20])
def test_chunks_of_different_items_are_not_put_together(kind: str, bits: int) -> None:
    """Half of the people share one chunk and half the other: an item nobody named has the most votes in both."""
    items = different(bits)[kind].astype(np.int64)
    assert len(set(items.tolist())) == PEOPLE
    local = ChunkedHadamard(bits, Fraction(95, 100), bits // 2)
    rarely(lambda rng: local_winner(local, items, rng))
    shuffled = shuffled_selection(Fraction(2), Fraction("1e-6"), 1 << bits, bits, PEOPLE)
    assert shuffled.chunks > 1
    if shuffled.chunks == 2 or kind != "cross":
        rarely(lambda rng: shuffle_winner(shuffled, items, rng))


def test_chunks_of_people_who_agree_are() -> None:
    items = np.full(PEOPLE, 123456, np.int64)
    local = ChunkedHadamard(20, Fraction(95, 100), 10)
    shuffled = shuffled_selection(Fraction(2), Fraction("1e-6"), 1 << 20, 20, PEOPLE)
    for i in range(5):
        assert local_winner(local, items, np.random.default_rng(i)) == 123456
        assert shuffle_winner(shuffled, items, np.random.default_rng(i)) == 123456
    # Who has nothing to say does not count against those who have.
    silent = np.where(np.arange(PEOPLE) < 300, items, -1)
    assert shuffle_winner(shuffled, silent, np.random.default_rng(1)) == 123456


def test_one_chunk_of_reports_and_of_messages() -> None:
    items = np.arange(PEOPLE)
    rarely(lambda rng: local_winner(ChunkedHadamard(10, Fraction(95, 100), 10), items, rng))
    shuffled = shuffled_selection(Fraction(1), Fraction("1e-6"), 1000, 10, PEOPLE)
    rarely(lambda rng: shuffle_winner(shuffled, items, rng))


# Declared


def test_beta_is_published_checked_and_used() -> None:
    manifest = run("shuffle").manifest
    assert (manifest.beta, manifest.values["beta"]) == (CLEAR, "1/20")
    for wrong in ("0", "1", "-1/2", "nan", 5):
        with pytest.raises(ManifestError):
            Manifest.read(json.dumps({**manifest.values, "beta": wrong}))
    with pytest.raises(ManifestError):
        Manifest({name: value for name, value in manifest.values.items() if name != "beta"})
    with pytest.raises(ParameterError):
        LocalProtocol("threshold", AGES, Fraction(1), beta=Fraction(1))
    # A count just beyond the edge at 1/20 is within it at 1e-9.
    select, n = manifest.shuffle, 60
    edge = shuffle_edge(float(select.share * n), float(select.p), select.buckets, 0.05, speak=n)
    buckets = [7] * (edge + 1)
    assert analyze_shuffled(manifest, buckets, n).released.outcome == "released"
    assert analyze_shuffled(manifest, buckets, n, beta="1e-9").released.outcome == "default"
    assert analyze_shuffled(manifest, buckets[1:], n).released.outcome == "default"
