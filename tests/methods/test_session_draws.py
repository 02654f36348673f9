"""How a session draws: one word for an answer with exactly the law's probability, votes counted together, keyed hashes
unchanged."""

from __future__ import annotations

import hmac
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from privpac.data import Categories, Floats, Integers
from privpac.methods.prediction.session import Coin, PredictionSession, vote_law
from privpac.rng import Rng
from privpac.rules import Intervals, Stumps, Thresholds
from privpac.rules import cuts as cuts
from privpac.rules.base import ConceptClass


class Words(Rng):
    """The words it was given, one after the other."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def word(self) -> int:
        return self.left.pop(0)


RATES: list[dict[str, Any]] = [
    {"gamma": Fraction(1, 20)},
    {"gamma": Fraction(7, 3)},
    {"gamma": Fraction(40)},
    {"base": 3},
]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("voters", [1, 2, 5, 8])
def test_a_coin_is_the_law_inverted(voters: int, rate: dict[str, Any]) -> None:
    rng = random.Random(voters)
    for ones in range(voters + 1):
        law = vote_law(ones, voters, **rate)
        coin, exact, zero = Coin(law), law.as_finite(), law.prob(0)
        # Every word below the first end lies wholly below Pr[0], every one from the second on wholly above; at most two
        # are left.
        assert coin._low <= zero.lo * 2**64 <= zero.hi * 2**64 <= coin._high <= min(coin._low + 2, 2**64)
        near = {end + step for end in (coin._low, coin._high) for step in (-2, -1, 0, 1)} | {
            0,
            2**64 - 1,
            rng.getrandbits(64),
        }
        for word in (word for word in near if 0 <= word < 2**64):
            rest = [rng.getrandbits(64) for _ in range(3)]
            assert coin.toss(word, Words(*rest)) == exact.sample(Words(word, *rest))


def test_the_word_between_the_ends_is_decided_by_further_bits() -> None:
    law = vote_law(3, 8, Fraction(1, 20))
    coin, zero = Coin(law), law.prob(0)
    assert coin._high == coin._low + 1
    second = int((zero.lo * 2**64 - coin._low) * 2**64)  # the next 64 bits of Pr[0]
    assert coin.toss(coin._low, Words(second - 1, 0)) == 0
    assert coin.toss(coin._low, Words(second + 1, 0)) == 1


def test_every_answer_costs_one_word_whatever_the_votes() -> None:
    for ones in range(9):
        coin = Coin(vote_law(ones, 8, Fraction(1, 20)))
        assert coin.toss(0, Words()) == 0
        assert coin.toss(2**64 - 1, Words()) == 1


CLASSES: list[ConceptClass] = [
    Thresholds(Floats(), "x"),
    Thresholds(Integers(-3, 9), "x", "below"),
    Thresholds(Integers(0, 2**64 - 1), "x", "both"),
    Stumps({"a": Integers(0, 3), "b": Floats(), "c": Categories(["u", "v"])}),
    Intervals(Integers(0, 9), "x"),
]


@pytest.mark.parametrize("concept", CLASSES, ids=lambda concept: type(concept).__name__)
@pytest.mark.parametrize("together", [1 << 18, 50, 1])
def test_votes_counted_together_are_those_of_every_rule(
    concept: ConceptClass, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "_POLLED", together)
    rng = random.Random(together)
    rules = [rng.randrange(concept.size) for _ in range(40)] + [0, concept.size - 1]
    domains = {str(name): domain for name, domain in concept.declared().items()}
    for rows in (1, 7):
        codes = {
            name: np.array(
                [rng.choice([0, domain.size - 1, rng.randrange(domain.size)]) for _ in range(rows)], dtype=np.uint64
            )
            for name, domain in domains.items()
            if domain is not None
        }
        one_by_one = sum(concept.predictions(codes, rule).astype(np.int64) for rule in rules)
        assert concept.poll(rules)(codes).tolist() == np.asarray(one_by_one).tolist()


@pytest.mark.parametrize("length", [1, 32, 64, 65, 200])
def test_hashes_are_hmac_sha256_under_the_secret(length: int) -> None:
    """Ledgers that were written before are read with the same names and masks."""
    secret = random.Random(length).randbytes(length)
    session = PredictionSession(
        Thresholds(Floats(), "x"),
        "1",
        None,
        {},
        1,
        Fraction(1),
        "s",
        True,
        secret=secret,
        log=PredictionSession.in_memory(1),
    )
    for held in (session, evolve(session, secret=secret[::-1])):
        digest = hmac.digest(held._secret, b"privpac.query" + b"abc", "sha256").hex()
        assert held._digest(b"abc") == held._digest(b"abc") == digest
        assert held._mask(digest) == hmac.digest(held._secret, b"privpac.answer" + digest.encode(), "sha256")[0] & 1
