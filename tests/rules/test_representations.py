"""Representations: exact hashes, sizes as planned, scores equal to their definition, public coins bit by bit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Floats, Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.methods.realizable import RealizableSelection
from privpac.papers.pure_agnostic.counting import boosting_size, points_representation
from privpac.papers.pure_agnostic.representations import (
    MERSENNE,
    BoostedRepresentation,
    BucketRule,
    ClassHypotheses,
    FiniteRepresentation,
    HashedPoints,
    HashedPointSet,
    Hypotheses,
    LearnerRepresentation,
    Majority,
    MajorityHypotheses,
    ProbabilisticRepresentation,
    Subset,
    bucket_of,
    check_hash,
    prime_for,
)
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rng import PublicCoins, SystemRng, derive, word_indexed
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.points import Points

WORDS = st.integers(0, 2**64 - 1)


# Hash functions


@given(st.sampled_from(sorted(MERSENNE)), st.data(), st.lists(WORDS, max_size=20), st.integers(1, 2**31 - 1))
def test_large_hashes_equal_python_integers(prime: int, data: Any, codes: list[int], buckets: int) -> None:
    a, b = data.draw(st.integers(1, prime - 1)), data.draw(st.integers(0, prime - 1))
    codes = [*codes, 0, 2**64 - 1, 2**32 - 1]
    found = bucket_of(np.array(codes, dtype=np.uint64), a, b, prime, buckets).tolist()
    assert found == [((a * (code + 1) + b) % prime) % buckets for code in codes]


def test_a_multiple_of_the_prime_hashes_to_zero() -> None:
    # x = 1 and a + b = P: the limbs are all ones before the last reduction.
    for prime in MERSENNE:
        assert bucket_of(np.array([0], dtype=np.uint64), prime - 5, 5, prime, 7).tolist() == [0]


@given(
    st.sampled_from([2, 3, 11, 101, 65537, 2**31 - 1]),
    st.data(),
    st.lists(st.integers(0, 2**31 - 3), max_size=20),
    st.integers(1, 50),
)
def test_small_hashes_equal_python_integers(prime: int, data: Any, codes: list[int], buckets: int) -> None:
    a, b = data.draw(st.integers(1, prime - 1)), data.draw(st.integers(0, prime - 1))
    found = bucket_of(np.array(codes, dtype=np.uint64), a, b, prime, buckets).tolist()
    assert found == [((a * (code + 1) + b) % prime) % buckets for code in codes]


@pytest.mark.parametrize("size", [1, 2**61 - 2, 2**61 - 1, 2**64])
def test_the_prime_exceeds_the_domain(size: int) -> None:
    assert prime_for(size) >= size + 1
    assert prime_for(size) in MERSENNE


@pytest.mark.parametrize(
    "bad",
    [(0, 0, 11, 3, 5), (11, 0, 11, 3, 5), (1, 11, 11, 3, 5), (1, -1, 11, 3, 5), (1, 0, 9, 3, 5), (1, 0, 11, 0, 5)],
)
def test_bad_hashes_are_refused(bad: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(ParameterError):
        check_hash(*bad)
    with pytest.raises(ParameterError, match="must exceed"):
        check_hash(1, 0, 11, 3, 11)


# Hashed points


@pytest.mark.parametrize(("alpha", "beta"), [("0.02", "0.01"), ("0.1", "0.05"), ("1/3", "1/1000"), ("0.5", "0.9")])
def test_hashed_points_have_the_planned_size(alpha: str, beta: str) -> None:
    few = HashedPoints(Integers(0, 2**64 - 1), alpha=Fraction(alpha), beta=Fraction(beta))
    plan = points_representation(alpha, beta)
    assert few.copies * few.buckets == plan.size
    assert (1 / (few.buckets * Fraction(alpha))) ** few.copies <= Fraction(beta)
    assert few.log_size == math.log(plan.size)


def test_hashed_points_read_public_coins_bit_by_bit() -> None:
    seed, prime = bytes(range(32)), 2**89 - 1
    key, at = derive(seed, "H"), 0

    def below(n: int) -> int:
        nonlocal at
        bits = (n - 1).bit_length()
        while True:
            words = [word_indexed(key, at + i) for i in range(-(-bits // 64))]
            at += len(words)
            value = int.from_bytes(b"".join(word.to_bytes(8, "big") for word in words), "big") >> (
                64 * len(words) - bits
            )
            if value < n:
                return value

    few = HashedPoints(Floats(), alpha=Fraction(1, 10), beta=Fraction(1, 100))
    expected = []
    for _ in range(few.copies):
        a = 1 + below(prime - 1)
        expected.append((a, below(prime)))
    assert few.sample(PublicCoins(seed)).hashes == tuple(expected)  # type: ignore[attr-defined]


def test_a_representation_takes_public_coins_only() -> None:
    few = HashedPoints(Integers(0, 9), alpha=Fraction(1, 10), beta=Fraction(1, 10))
    with pytest.raises(TypeError, match="PublicCoins"):
        few.sample(SystemRng())  # type: ignore[arg-type]


def test_hashed_points_hold_every_value_with_little_else() -> None:
    """The representation property itself, on a uniform distribution over 2000 values: failures at most beta, up to
    chance."""
    domain, alpha, beta = Integers(0, 1999), Fraction(1, 10), Fraction(1, 5)
    few, failures, runs = HashedPoints(domain, alpha=alpha, beta=beta), 0, 400
    codes = np.arange(2000, dtype=np.uint64)
    for i in range(runs):
        rules = few.sample(PublicCoins(i.to_bytes(32, "big")))
        assert isinstance(rules, HashedPointSet)
        value = 5 * i % 2000
        shares = [
            np.mean(rules.bucket(k, codes) == rules.bucket(k, codes[value : value + 1])) for k in range(few.copies)
        ]
        failures += min(shares) > alpha
    # Hoeffding: beyond beta + 0.13 with probability below 1e-6.
    assert failures <= (float(beta) + 0.13) * runs


def _mistakes(user: list[tuple[int, int]], positives: set[int]) -> int:
    return sum((x in positives) != y for x, y in user)


def _apart(user: list[tuple[int, int]], first: set[int], second: set[int]) -> int:
    return sum((x in first) != (x in second) for x, _ in user)


def _score(
    users: list[list[tuple[int, int]]], h: set[int], partners: list[set[int]], t: list[int], s: int, kind: str
) -> int:
    best = []
    for c in partners:
        total = 0
        for user in users:
            bad, far = _mistakes(user, c) > t[len(user)], _apart(user, c, h) > s
            total += (bad or far) if kind == "union" else bad + far
        best.append(total)
    return min(best)


HASHES = st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), min_size=1, max_size=3)
USERS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=4), max_size=6)


@settings(deadline=None)
@given(
    USERS,
    st.sampled_from(["union", "sum"]),
    st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), min_size=1, max_size=3),
    st.data(),
)
def test_hashed_scores_equal_their_definition(
    users: list[Any], kind: str, hashes: list[tuple[int, int]], data: Any
) -> None:
    size, buckets = data.draw(st.integers(5, 7)), data.draw(st.integers(1, 4))
    t = [0] + [data.draw(st.integers(0, m)) for m in range(1, 5)]
    domain = Integers(0, size - 1)
    rules = HashedPointSet(domain, tuple(hashes), buckets, 11, zero=True, feature="x")
    people = UserData.from_users(users, features={"x": domain})
    found = rules.profile(people, kind, dict(enumerate(t)))
    scores = [found.score(h) for h in range(rules.size)]
    expected = []
    for k, j in rules.members:
        a, b = hashes[k]
        inside = {x for x in range(size) if ((a * (x + 1) + b) % 11) % buckets == j}
        expected.append(_score(users, inside, [{u} for u in inside], t, 0, kind))
    expected.append(_score(users, set(), [set()], t, 0, kind))
    assert scores == expected


@settings(deadline=None)
@given(USERS, USERS, st.sampled_from(["union", "sum"]))
def test_hashed_counts_of_two_groups_add_up(first: list[Any], second: list[Any], kind: str) -> None:
    from privpac.papers.pure_agnostic.representations import _Kernel

    domain = Integers(0, 4)
    rules = HashedPointSet(domain, ((3, 3), (1, 9)), 3, 11, feature="x")
    kernel = _Kernel(rules, "x", kind, 1)

    def of(users: list[Any]) -> Any:
        return kernel.chunk(UserData.from_users(users, features={"x": domain}))

    together, merged = of(first + second), kernel.merge(kernel.merge(kernel.zero(), of(first)), of(second))
    assert rules._scores(together) == rules._scores(merged)
    assert together.zero_rule == merged.zero_rule


def test_hashed_points_on_all_of_64_bits() -> None:
    domain = Integers(0, 2**64 - 1)
    few = HashedPoints(domain, alpha=Fraction(1, 10), beta=Fraction(1, 20))
    rules = few.sample(PublicCoins(bytes(32))).on(Points(domain, "x"))
    people = UserData.from_users([[(0, 1)], [(2**64 - 1, 1)], [(2**64 - 1, 1), (5, 0)], []], features={"x": domain})
    scores = rules.profile(people, "union", 0)
    best = min(range(rules.size), key=scores.score)
    assert rules.decode(best).predict([2**64 - 1]).tolist() == [1]


def test_hashed_points_are_bound_to_their_own_domain() -> None:
    rules = HashedPointSet(Integers(0, 4), ((3, 3),), 3, 11)
    with pytest.raises(ParameterError, match="one column"):
        rules.on(Points(Integers(0, 5), "x"))
    with pytest.raises(ParameterError, match="forgive"):
        rules.profile(UserData.from_users([], features={"x": Integers(0, 4)}), "sum", 0, forgiven=1)


# The class, draws of a learner, majorities


def test_the_class_represents_itself() -> None:
    cuts = Thresholds(Integers(0, 2**64 - 1), "x")
    itself = FiniteRepresentation(cuts)
    assert (itself.alpha, itself.beta, itself.enumerable) == (0, 0, True)
    assert itself.log_size == math.log(2**64 + 1)
    assert itself.sample(PublicCoins(bytes(32))) == ClassHypotheses(cuts)


def _drawn(beta: str = "1/10") -> LearnerRepresentation:
    learner = RealizableSelection(Thresholds(Integers(0, 3), "x"), epsilon=1)
    return LearnerRepresentation.of(learner, n_records=3, alpha="1/4", beta=beta, beta0="1/2")


def test_a_learner_without_data_represents_its_class() -> None:
    few = _drawn()
    assert few.draws == math.ceil(math.e**3 * math.log(10) / 0.5)
    assert few.log_size == pytest.approx(3 + math.log(math.log(10)) - math.log(0.5))
    rules = few.sample(PublicCoins(bytes(32)))
    assert isinstance(rules, Subset)
    assert set(rules.ids) == set(range(5))
    assert rules == few.sample(PublicCoins(bytes(32)))


def test_a_subset_scores_like_the_class() -> None:
    cuts = Thresholds(Integers(0, 3), "x")
    people = UserData.from_users([[(0, 0), (2, 1)], [(3, 0)], []], features={"x": Integers(0, 3)})
    part = Subset(cuts, (4, 0, 2))
    found, whole = part.profile(people, "sum", 0), ClassHypotheses(cuts).profile(people, "sum", 0)
    assert [found.score(i) for i in range(3)] == [whole.score(4), whole.score(0), whole.score(2)]
    assert part.step("sum") == 1
    with pytest.raises(ParameterError):
        part.profile(people, "sum", 0, forgiven=1)
    with pytest.raises(ParameterError):
        Subset(cuts, (1, 1))


def test_too_many_draws_are_refused() -> None:
    learner = RealizableSelection(Thresholds(Integers(0, 3), "x"), epsilon=1)
    few = LearnerRepresentation.of(learner, n_records=40, alpha="1/4", beta="1/10", beta0="1/2")
    assert not few.enumerable
    with pytest.raises(TooLargeError):
        few.sample(PublicCoins(bytes(32)))
    replaced = RealizableSelection(Thresholds(Integers(0, 3), "x"), epsilon=1, neighbours="replace")
    with pytest.raises(ParameterError, match="public_data"):
        LearnerRepresentation.of(replaced, n_records=3, alpha="1/4", beta="1/10", beta0="1/2")


class _Coarse(ProbabilisticRepresentation):
    """A stand-in of given accuracy, for sizes."""

    def __init__(self, alpha: Fraction, beta: Fraction, rules: Hypotheses) -> None:
        self.alpha, self.beta, self.rules = alpha, beta, rules

    @property
    def log_size(self) -> float:
        return math.log(self.rules.size)

    def _draw(self, coins: PublicCoins) -> Hypotheses:
        return self.rules


@pytest.mark.parametrize(("alpha", "beta"), [("0.02", "0.01"), ("0.1", "0.05"), ("0.3", "0.2")])
def test_boosting_has_the_planned_rounds_and_copies(alpha: str, beta: str) -> None:
    cuts = Thresholds(Integers(0, 3), "x")
    base = _Coarse(Fraction(1, 4), Fraction(1, 4), Subset(cuts, (0, 2)))
    fine = BoostedRepresentation(base, cuts, Fraction(alpha), Fraction(beta))
    plan = boosting_size(alpha, beta)
    assert (fine.rounds, fine.copies) == (plan.rounds, plan.copies)
    assert fine.log_size == pytest.approx(plan.log_size(math.log(2)))


def test_boosting_that_cannot_be_enumerated_is_refused() -> None:
    base = HashedPoints(Integers(0, 99), alpha=Fraction(1, 4), beta=Fraction(1, 4))
    fine = BoostedRepresentation(base, Points(Integers(0, 99), "x"), Fraction(1, 50), Fraction(1, 100))
    assert not fine.enumerable
    with pytest.raises(TooLargeError):
        fine.sample(PublicCoins(bytes(32)))
    with pytest.raises(ParameterError, match="below 1/2"):
        BoostedRepresentation(
            _Coarse(Fraction(1, 2), Fraction(0), Subset(Thresholds(Integers(0, 3)), (0,))),
            Thresholds(),
            Fraction(1, 9),
            Fraction(1, 9),
        )


@settings(deadline=None)
@given(USERS, st.sampled_from(["union", "sum"]), st.integers(0, 2))
def test_majorities_score_through_the_whole_class(users: list[Any], kind: str, s: int) -> None:
    domain = Integers(0, 4)
    matrix = np.array([[1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    concepts = FiniteClass(matrix, domain, "x")
    pair = (Subset(concepts, (0, 1)), Subset(concepts, (2,)))
    rules = MajorityHypotheses(concepts, (pair, (Subset(concepts, (1, 2)),), (ClassHypotheses(concepts),)))
    assert rules.size == 3 * 2 * 3
    t = [0, 0, 1, 1, 2]
    found = rules.profile(UserData.from_users(users, features={"x": domain}), kind, dict(enumerate(t)), s)
    codes = {"x": np.arange(5, dtype=np.uint64)}
    table = rules.table(codes)
    partners = [set(np.flatnonzero(row).tolist()) for row in matrix]
    for h in range(rules.size):
        said = rules.decode(h).predict_codes(codes)
        assert said.tolist() == table[:, h].tolist()
        assert found.score(h) == _score(users, set(np.flatnonzero(said).tolist()), partners, t, s, kind)
    assert (rules.step("union"), rules.step("sum")) == (1, 2)


def test_too_many_pairs_are_refused() -> None:
    cuts = Thresholds(Integers(0, 4000), "x")
    rules = MajorityHypotheses(cuts, ((ClassHypotheses(cuts),),))
    with pytest.raises(TooLargeError, match="pairs"):
        rules.profile(UserData.from_users([], features={"x": Integers(0, 4000)}), "sum", 0)


def test_improper_rules_are_saved_and_printed() -> None:
    bucket = BucketRule("x", Integers(0, 4), 3, 3, 11, 3, 1, "late")
    assert str(bucket) == "late when x is in bucket 1 of 3 (public hash 3, 3)"
    most = Majority((bucket, bucket.__class__("x", Integers(0, 4), 3, 3, 11, 3, None, "late")), "late")
    assert str(most).startswith("late when most of (")
    for rule in (bucket, most):
        again = rule_from_dict(rule_to_dict(rule))
        assert again == rule
        assert again.predict([0, 1, 2]).tolist() == rule.predict([0, 1, 2]).tolist()
    with pytest.raises(ParameterError):
        BucketRule("x", Integers(0, 4), 3, 3, 11, 3, 3)
    with pytest.raises(ParameterError):
        Majority(())
