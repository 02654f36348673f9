"""Stable histograms: sums by brute force, draws that follow the law, results, certificates, and the front."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Categories, Integers, Texts, UserData
from privpac.distributions import VocabularyDistribution, VocabularyHistogram
from privpac.distributions.vocabulary import HeldShares, certify_vocabulary
from privpac.errors import InfeasibleError, NoReleaseError, ParameterError, TooLargeError
from privpac.mechanisms import StableWeights
from privpac.parameters import COUNT_LEVELS
from privpac.report.distribution import distribution_html
from privpac.result import Released
from privpac.rng import PublicCoins
from privpac.testing import SeededRng, insecure_randomness

WORDS = ["", "a", "B", "ä", "zz", "a b"]
TOLD: dict[str, Any] = {"unit": "user", "neighbours": "add-remove"}


def texts(users: list[list[str]]) -> UserData:
    return UserData.from_users(users, features={"word": Texts()}, labelled=False)


def literal(user: list[Any], levels: int, values: int) -> Counter[Any]:
    counts = Counter(user)
    kept = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:values])
    total, upto, out = sum(kept.values()), 0, Counter()
    for word in sorted(kept):
        before = levels * upto // total
        upto += kept[word]
        out[word] = levels * upto // total - before
    return +out


def order(word: str) -> bytes:
    return word.encode()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=9), max_size=6),
    st.integers(1, 50),
    st.integers(1, 6),
    st.integers(0, 6),
)
def test_sums_equal_the_literal_ones_in_one_piece_or_two(
    users: list[list[str]], levels: int, values: int, cut: int
) -> None:
    kernel = HeldShares("word", levels, values, open=True)
    expected: Counter[str] = Counter()
    for user in users:
        expected += literal(user, levels, values)
    whole = texts(users).fold(kernel)
    split = kernel.merge(kernel.chunk(texts(users[:cut])), kernel.chunk(texts([u[::-1] for u in users[cut:]])))
    for found in (whole, split, kernel.merge(kernel.zero(), whole)):
        assert found.texts == sorted(found.texts, key=order)
        assert dict(zip(found.texts, found.weights.tolist())) == dict(expected)
        assert found.people == sum(bool(user) for user in users)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**63), max_size=6), max_size=5), st.integers(1, 9), st.integers(1, 4))
def test_codes_of_any_size_are_values(users: list[list[int]], levels: int, values: int) -> None:
    data = UserData.from_users(users, features={"x": Integers(0, 2**63)}, labelled=False)
    found = data.fold(HeldShares("x", levels, values, open=False))
    expected: Counter[int] = Counter()
    for user in users:
        expected += literal(user, levels, values)
    assert dict(zip(found.codes.tolist(), found.weights.tolist())) == dict(expected)
    assert found.codes.tolist() == sorted(expected)


def test_nobody_adds_more_than_their_steps_and_huge_users_do_not_overflow() -> None:
    many = pl.DataFrame({"who": np.zeros(2_000_000, np.int64), "word": np.arange(2_000_000) % 3})
    data = UserData.from_frame(many, user="who", features={"word": Integers(0, 2)})
    found = data.fold(HeldShares("word", 1 << 30, 2, open=False))
    assert found.weights.sum() == 1 << 30
    assert found.codes.tolist() == [0, 1]


# Drawing


def test_draws_follow_the_law() -> None:
    """4000 draws; a chi-square beyond its 1 - 1e-7 quantile would be a false alarm."""
    mechanism = StableWeights(2, "1/20", levels=2, values=2, **TOLD)
    weights, most = {"a": 1, "b": 3, "c": mechanism.threshold, "d": mechanism.threshold + 2}, mechanism.threshold + 3
    law = mechanism.law(weights, most)
    with insecure_randomness():
        rng = SeededRng(5)
        drawn: Counter[Any] = Counter()
        for _ in range(4000):
            places, values = mechanism.sample(np.array(list(weights.values())), rng)
            drawn[tuple(("abcd"[at], min(value, most)) for at, value in zip(places.tolist(), values))] += 1
    expected = {shown: 4000 * float(law.prob(shown).hi) for shown in law.values()}
    assert set(drawn) <= set(expected)
    large = {shown for shown, count in expected.items() if count >= 5}
    terms = [(drawn[shown] - expected[shown]) ** 2 / expected[shown] for shown in large]
    rest = sum(count for shown, count in expected.items() if shown not in large)
    terms.append((sum(count for shown, count in drawn.items() if shown not in large) - rest) ** 2 / max(rest, 1))
    degrees = len(terms)
    assert sum(terms) < degrees + 2 * math.sqrt(degrees * 16.2) + 2 * 16.2  # Laurent and Massart


class Words:
    """Given words, then zeros."""

    def __init__(self, first: list[int], more: list[int]) -> None:
        self.first, self.more = first, more

    def words(self, size: int) -> Any:
        return np.array(self.first[:size], np.uint64)

    def bits(self, k: int) -> int:
        return self.more.pop(0) if self.more else 0


def test_more_bits_are_drawn_where_the_first_do_not_decide() -> None:
    mechanism = StableWeights(2, "1/20", levels=2, values=2, **TOLD)
    eta, t = float(mechanism.eta), 3
    edge = math.exp(-eta * t) / (1 + math.exp(-eta))
    # The 64 bits in which the probability itself lies: all further bits decide.
    from privpac.exact import as_arb, precision

    with precision(400):
        exact = (-as_arb(mechanism.eta * t)).exp() / (1 + (-as_arb(mechanism.eta)).exp())
        place = int((exact * 2**64).floor().unique_fmpz())
        following = int((exact * 2**128).floor().unique_fmpz()) - (place << 64)
    assert place == pytest.approx(edge * 2**64, rel=1e-9)
    assert mechanism._below_tail(t, place - 1, Words([], []))  # type: ignore[arg-type]
    assert not mechanism._below_tail(t, place + 1, Words([], []))  # type: ignore[arg-type]
    assert mechanism._below_tail(t, place, Words([], [following - 1]))  # type: ignore[arg-type]
    assert not mechanism._below_tail(t, place, Words([], [following + 1]))  # type: ignore[arg-type]


def test_the_filter_leaves_nothing_out_that_could_be_shown() -> None:
    mechanism = StableWeights("1/2", "1/20", levels=7, values=2, **TOLD)
    weights = np.arange(1, mechanism.threshold, dtype=np.int64)
    edges = [math.exp(-float(mechanism.eta) * (mechanism.threshold - int(w))) for w in weights]
    words = [int(edge / (1 + math.exp(-float(mechanism.eta))) * 2**64 * (1 - 1e-12)) for edge in edges]

    class Planned(SeededRng):
        planned = True

        def words(self, size: int) -> Any:
            if self.planned:
                self.planned = False
                return np.array(words, np.uint64)
            return super().words(size)

    with insecure_randomness():
        places, values = mechanism.sample(weights, Planned(1))
    assert places.tolist() == list(range(len(weights)))
    assert min(values) >= mechanism.threshold


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_threshold_is_the_least_that_the_formula_allows(neighbours: str) -> None:
    for epsilon, delta, levels, values in (
        (1, "1e-6", 1, 1),
        (1, "1e-6", 64, 8),
        ("1/10", "1e-9", 1000, 30),
        (9, "1/3", 5, 5),
    ):
        one = StableWeights(epsilon, delta, levels=levels, values=values, unit="user", neighbours=neighbours)
        assert one._enough(one.threshold)
        assert one.threshold == levels + 1 or not one._enough(one.threshold - 1)
        # Every way to split a person's steps, by brute force over partitions into at most ``values`` parts.
        x, worst = math.exp(-float(one.eta)), 0.0
        p = [x ** (one.threshold - v) / (1 + x) for v in range(levels + 1)]
        if levels <= 64:
            table = np.full((values + 1, levels + 1), -np.inf)
            table[0, 0] = 0.0
            for k in range(1, values + 1):
                for total in range(1, levels + 1):
                    table[k, total] = max(table[k - 1, total - v] - math.log1p(-p[v]) for v in range(1, total + 1))
            worst = -math.expm1(-float(table[:, levels].max()))
            assert worst <= float(Fraction(delta)) * (1 + 1e-9)
            assert all(1 - x**v >= p[v] * (1 - 1e-9) for v in range(1, levels + 1))


def test_out_of_reach_is_said_before_any_data() -> None:
    with pytest.raises(ParameterError, match="do not reach 3 values"):
        StableWeights(1, "1e-6", levels=2, values=3, **TOLD)
    with pytest.raises((InfeasibleError, ParameterError)):
        StableWeights("1e-30", "1e-300", levels=1 << 30, values=1, **TOLD)
    mechanism = StableWeights(1, "1e-6", levels=1, values=1, **TOLD)
    with pytest.raises(TooLargeError, match="too many outcomes"):
        mechanism.law(dict.fromkeys(range(40), 1), mechanism.threshold + 9)
    with pytest.raises(ParameterError, match="at least the threshold"):
        mechanism.law({1: 1}, 2)


# The learner and its result


def searches(n: int = 900) -> UserData:
    return texts([["tea", "tea", "mate"], ["tea"], ["milk", f"secret {0}"]] * (n // 3))


def test_what_many_hold_is_found_and_what_one_holds_is_not() -> None:
    users = [["tea"], ["mate", "tea"]] * 300 + [[f"own {i}"] for i in range(200)]
    with insecure_randomness():
        released = VocabularyHistogram(1, delta="1e-9").learn(texts(users), rng=SeededRng(3))
    found = released.value
    assert set(found.values) == {"tea", "mate"}
    assert found.pmf(["tea", "mate", "own 7"]) == pytest.approx([450 / 800, 150 / 800, 0], abs=0.05)
    assert found.rest == pytest.approx(0.25, abs=0.07)
    assert "all others" in str(found)
    assert released.parameters["shown from"].endswith("people on")


def test_nobody_and_empty_people_give_nothing_and_no_error() -> None:
    for users in ([], [[]], [[]] * 5, [["x"]]):
        found = VocabularyHistogram(1, delta="1e-9").learn(texts(users)).value
        assert found.values == ()
        assert found.pmf(["x"]).tolist() == [0.0]
        assert str(found) == "word: all others 1"
        with pytest.raises(NoReleaseError, match="no value was shown"):
            found.sample(1)
        assert found.sample(0).size == 0


def test_results_are_saved_and_read_and_drawn_from(tmp_path: Path) -> None:
    released = VocabularyHistogram(2, delta="1e-6").learn(searches())
    released.save(tmp_path / "words.json")
    again = pp.load(tmp_path / "words.json")
    assert again.value == released.value
    drawn = again.value.sample(50, PublicCoins(bytes(32)))
    assert set(drawn.tolist()) <= set(again.value.values)
    assert again.value.score_samples(["nobody's"]).tolist() == [-math.inf]
    assert isinstance(again, Released)
    page = distribution_html(released)
    assert "all others" in page
    codes = UserData.from_users([[7], [2**62]] * 300, features={"code": Integers(0, 2**62)}, labelled=False)
    one = pp.learn_distribution(codes, epsilon=2, method="stable", delta="1e-6")
    one.save(tmp_path / "codes.json")
    assert pp.load(tmp_path / "codes.json").value == one.value
    assert one.value.pmf([7, 8, 2**62]) == pytest.approx([0.5, 0, 0.5], abs=0.1)
    assert set(one.value.sample(20).tolist()) <= {7, 2**62}


@pytest.mark.parametrize(
    "bad",
    [
        {"values": ("a", "a"), "weights": (1, 1)},
        {"values": ("a",), "weights": (1, 1)},
        {"values": (1,), "weights": (1,)},
        {"values": ("a",), "weights": (0,)},
        {"values": ("a",), "weights": (1,), "levels": 0},
    ],
)
def test_bad_results_are_refused(bad: dict[str, Any]) -> None:
    told = {"feature": "word", "domain": Texts(), "levels": 1, "people": 3} | bad
    with pytest.raises(ParameterError):
        VocabularyDistribution(**told)


def test_shares_beyond_one_are_scaled_down() -> None:
    found = VocabularyDistribution("word", Texts(), ("a", "b"), (30, 30), 1, 40)
    assert found.shares.tolist() == [0.75, 0.75]
    assert found.probabilities.tolist() == [0.5, 0.5]
    assert found.rest == 0


# Certificates


def test_certified_people_find_every_large_value() -> None:
    """Shares of all values within alpha in 60 draws of 60; at beta = 1/20 more than 15 misses come with probability
    below 1e-7."""
    learner = VocabularyHistogram(2, delta="1e-6", max_values=2)
    n = certify_vocabulary(learner.stable.threshold, epsilon=2, alpha="0.15", beta="0.05", max_values=2).n_users
    assert n is not None
    true = {"a": 0.4, "b": 0.2, "c": 0.1} | {f"w{i}": 0.3 / 3000 for i in range(3000)}
    names, misses = list(true), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        drawn = rng.choice(len(names), size=(n, 2), p=list(true.values()))
        with insecure_randomness():
            found = learner.learn(texts([[names[i] for i in row] for row in drawn]), rng=SeededRng(seed)).value
        said = dict(zip(found.values, found.shares.tolist()))
        misses += max(abs(said.get(word, 0.0) - share) for word, share in true.items()) > 0.15
    assert misses == 0


def test_certificates_move_the_right_way() -> None:
    base: dict[str, Any] = {"epsilon": 1, "alpha": "0.1", "beta": "0.05"}
    n = certify_vocabulary(20 * COUNT_LEVELS, **base).n_users
    assert n is not None
    for harder in (
        {"epsilon": "1/2"},
        {"alpha": "0.05"},
        {"beta": "0.01"},
        {"neighbours": "replace"},
        {"max_values": 99},
    ):
        assert certify_vocabulary(20 * COUNT_LEVELS, **base | harder).n_users > n
    assert certify_vocabulary(60 * COUNT_LEVELS, **base).n_users > n
    assert certify_vocabulary(5, epsilon=1, alpha="0.1", beta="0.05", levels=2, max_values=1).n_users is None


# The front


def test_open_columns_choose_it_and_ask_for_delta() -> None:
    released = pp.learn_distribution(searches(), epsilon=1, delta="1e-6")
    assert released.learner == "stable histogram"
    assert released.guarantee is not None
    assert released.guarantee.delta == Fraction(1, 10**6)
    with pytest.raises(ParameterError, match="an open column needs delta"):
        pp.learn_distribution(searches(), epsilon=1)
    with pytest.raises(ParameterError, match="method 'stable' needs delta"):
        pp.learn_distribution(searches(), epsilon=1, method="stable")
    with pytest.raises(ParameterError, match="no option delta"):
        pp.learn_distribution(
            UserData.from_users([["a"]], features={"k": Categories(["a"])}, labelled=False), epsilon=1, delta="1e-6"
        )
    two = UserData.from_users([[("a", 1)]], features={"word": Texts(), "x": Integers(0, 9)}, labelled=False)
    with pytest.raises(ParameterError, match="one column"):
        pp.learn_distribution(two, epsilon=1, delta="1e-6")
    named = pp.learn_distribution(two, epsilon=1, delta="1e-6", features="word")
    assert named.value.columns == ("word",)
    assert pp.learn_distribution(two, epsilon=1, features="x").value.columns == ("x",)
    with pytest.raises(TooLargeError, match="method='stable'"):
        pp.learn_distribution(UserData.from_users([[1]], features={"x": Integers(0, 2**60)}, labelled=False), epsilon=1)


def test_plans_say_how_many_people_and_how_to_run_it() -> None:
    plan = pp.plan("vocabulary", epsilon=1, delta="1e-6", alpha="0.05", max_values=4)
    learner = plan.learner("stable histogram")
    assert isinstance(learner, VocabularyHistogram)
    assert learner.max_values == 4
    assert "--method stable" in plan.command("stable histogram")
    assert "--max-values 4" in plan.command("stable histogram")
    with pytest.raises(ParameterError, match="needs delta"):
        pp.plan("vocabulary", epsilon=1, alpha="0.05")


@pytest.mark.parametrize("held", ["\x1b[2J\x07", "tea\nbudget left: 100", "\u202egnp.exe", "long" * 1000, ""])
def test_texts_of_people_command_no_terminal_and_forge_no_line(held: str) -> None:
    found = VocabularyDistribution("word", Texts(), (held, "mate"), (60, 30), 1, 100)
    assert str(found).isprintable()
    assert len(str(found)) < 200
    assert "word:  " not in str(found)
    assert found.values[0] == held
    assert found.pmf([held]).tolist() == [0.6]
