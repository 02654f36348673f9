"""Drawn representations: single values among 2^64 with few rules, and how far people agree before a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Integers
from privpac.device.correlated_sampling import rate
from privpac.device.items import clean
from privpac.device.scores import HashedPointScores, dense, read_coins
from privpac.device.tasks import Task
from privpac.errors import ParameterError
from privpac.methods.agreement.plurality import CLEAR, users_local, users_local_chunks
from privpac.protocols import Client, LocalProtocol
from privpac.result import Released

WIDE = Integers(0, (1 << 64) - 1)
COINS = bytes(range(32))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1)), min_size=1, max_size=30), st.integers(2, 9))
def test_errors_are_those_of_the_rules(rows: list[tuple[int, int]], buckets: int) -> None:
    scores = HashedPointScores(51, 2, buckets, COINS)
    x, y = np.array([[v] for v, _ in rows]), np.array([b for _, b in rows])
    (part,) = scores.components(clean(x, y, scores.columns))
    found = dense(part).tolist()
    for number in range(scores.sizes[0]):
        assert found[number] == int((scores.rule(number).predict(x) != y).sum())
    assert scores.rule(scores.sizes[0] - 1).bucket is None


def test_792_people_or_fewer_instead_of_4658_over_2_to_the_64() -> None:
    learner = Task("hashed-point", (1 << 64,)).learner
    assert learner.universe.size == 193
    made = LocalProtocol("hashed-point", {"code": WIDE}, 1, label="hit", task={"Gamma": rate(20)})
    n = users_local(made.manifest.local.keep, 193, beta="0.1", clear=CLEAR).n_users
    assert n is not None
    assert n <= 792
    before = users_local_chunks(made.manifest.local.keep, 64, 16, beta="0.1").n_users
    assert before == 4658
    rng = np.random.default_rng(3)
    target = 12345678901234567890
    client, sent = Client(made.manifest), []
    for i in range(n):
        x = rng.integers(0, 1 << 63, 60).astype(object)
        x[rng.random(60) < 0.4] = target
        rows = [{"code": int(v), "hit": int(v == target)} for v in x]
        sent.append((i, client.messages(rows)))
    found = made.analyze(sent).released
    assert found.outcome == "released"  # with probability above 1 - 1e-6: nearly all name one of the right buckets
    assert Released.from_json(found.to_json()).predict([[target]]).tolist() == [1]
    others = rng.integers(0, 1 << 63, 2000).astype(np.uint64)
    assert float(np.mean(found.predict(others[:, None]))) < 0.06  # one bucket in 64


def test_coins_are_fresh_in_every_run_and_public() -> None:
    first, second = (LocalProtocol("hashed-point", {"code": WIDE}, 1).manifest for _ in range(2))
    assert first.values["parameters"]["coins"] != second.values["parameters"]["coins"]
    given_ = LocalProtocol("hashed-point", {"code": WIDE}, 1, task={"coins": COINS.hex()}).manifest
    assert given_.values["parameters"]["coins"] == COINS.hex()
    for bad in ("", "zz" * 32, "AA" * 32, "00" * 31):
        with pytest.raises(ParameterError, match="64 small"):
            read_coins(bad)
    with pytest.raises(ParameterError):
        Task("hashed-point", (9,), (("buckets", 1),))


# Before a run


def test_simulated_agreement_grows_with_records_and_is_for_public_people_only() -> None:
    rng = np.random.default_rng(0)

    def people(m: int) -> pp.UserData:
        age = rng.integers(0, 100, (20, m))
        return pp.UserData.from_users(
            [[(int(a), int(a >= 41)) for a in row] for row in age], features={"age": Integers(0, 99)}
        )

    few, many = (
        pp.simulate_agreement(pp.Thresholds(), people(m), task={"Gamma": rate(20)}, seeds=6, public=True)
        for m in (20, 800)
    )
    assert few.share < many.share
    assert many.error < 0.1
    assert many.bits == 7
    assert "of 20 people name one rule" in str(many)
    named = pp.simulate_agreement("threshold", people(50), seeds=2, min_records=60, public=True)
    assert (named.silent, named.share) == (1, 0)
    with pytest.raises(ParameterError, match="public=True"):
        pp.simulate_agreement(pp.Thresholds(), people(20))
