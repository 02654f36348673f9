"""Transcripts of tiny services, enumerated exactly, stay within the guarantee; accounting query by query does not."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log

import pytest

from privpac.data import Integers, UserData
from privpac.exact import as_arb, dyadic_base, up
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.methods.prediction.reduction_privacy import theorem_a
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.session import vote_law
from privpac.methods.prediction.voters import service_spend, transcript_law, vote_epsilon
from privpac.rules import Intervals, Points, Thresholds
from privpac.rules.base import ConceptClass

DOMAIN = Integers(0, 2)
RECORDS = [(x, y) for x in range(3) for y in (0, 1)]
CLASSES = {"thresholds": Thresholds(DOMAIN), "points": Points(DOMAIN, zero=True), "intervals": Intervals(DOMAIN)}
BASE, VOTES = Fraction(9, 8), Fraction(2)
Dataset = tuple[tuple[int, int], ...]


def log_up(x: Fraction) -> Fraction:
    return up(lambda: as_arb(x).log())


def users(dataset: Dataset) -> UserData:
    return UserData.from_users([[record] for record in dataset], features={"x": DOMAIN})


def adaptive(texts: Law) -> Law:
    """Three answers (x1, then x2 after a 0, x3 after a 1) as what an adaptive analyst with two queries sees."""
    return texts.map(lambda text: text[0] + (text[2] if text[0] == "1" else text[1]))


def replace_pairs(n: int) -> Iterator[tuple[Dataset, Dataset]]:
    for rest in combinations_with_replacement(RECORDS, n - 1):
        for i, one in enumerate(RECORDS):
            for other in RECORDS[i + 1 :]:
                yield tuple(sorted((*rest, one))), tuple(sorted((*rest, other)))


def check(
    pairs: list[tuple[Dataset, Dataset]], relabelling: Relabelling, voters: int, queries: list[int], k: int
) -> None:
    """Every pair within the service's guarantee, both ways, in rational arithmetic."""
    laws: dict[Dataset, dict[str, Fraction]] = {}
    split = {"neighbours": relabelling.neighbours, "q": relabelling.share, "a": relabelling.a, "b": relabelling.b}
    epsilon, delta = service_spend(k, log_up(VOTES), voters, **split)  # type: ignore[arg-type]
    assert delta == 0
    most = dyadic_base(epsilon)  # just below e**epsilon
    for pair in pairs:
        for dataset in pair:
            if dataset not in laws:
                law = transcript_law(relabelling, users(dataset), queries, voters=voters, base=VOTES)
                law = law if k == len(queries) else adaptive(law)
                laws[dataset] = {text: law.prob_exact(text) for text in map("".join, product("01", repeat=k))}
                assert sum(laws[dataset].values()) == 1
        one, other = (laws[dataset] for dataset in pair)
        assert all(one[text] <= most * other[text] and other[text] <= most * one[text] for text in one)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", CLASSES)
def test_replace_transcripts_are_within_theorem_a(name: str, size: int) -> None:
    relabelling = Relabelling(
        CLASSES[name], 2, 1, base=BASE, split_size=size, public_n_users=3, neighbours=Neighbours.REPLACE, users="one"
    )
    check(list(replace_pairs(3)), relabelling, 2, [1, 0, 2], 2)


@pytest.mark.parametrize(("name", "largest"), [("thresholds", 3), ("points", 2), ("intervals", 2)])
def test_add_remove_transcripts_are_within_theorem_b(name: str, largest: int) -> None:
    relabelling = Relabelling(CLASSES[name], 1, 2, base=BASE, split_rate=Fraction(1, 3), users="one")
    pairs = [
        (rest, tuple(sorted((*rest, one))))
        for n in range(largest)
        for rest in combinations_with_replacement(RECORDS, n)
        for one in RECORDS
    ]
    check(pairs, relabelling, 2, [1, 2], 2)


def test_users_with_several_records_are_within_theorem_a() -> None:
    """One record of each user in T, a loss of all records in W: a whole user may change."""
    people = [((0, 0),), ((2, 1), (0, 1)), ((1, 1), (1, 0), (2, 0))]
    concept: ConceptClass = CLASSES["thresholds"]
    relabelling = Relabelling(
        concept,
        1,
        1,
        base=BASE,
        split_size=1,
        public_n_users=3,
        neighbours=Neighbours.REPLACE,
        users="hybrid",
        levels=2,
    )
    laws = {}
    for one in people:
        data = UserData.from_users([people[0], people[1], one], features={"x": DOMAIN})
        laws[one] = transcript_law(relabelling, data, [1, 2], voters=1, base=VOTES)
    epsilon, _ = service_spend(
        2, log_up(VOTES), 1, neighbours="replace", q=relabelling.share, a=relabelling.a, b=relabelling.b
    )
    for one in people:
        for other in people:
            assert laws[one].satisfies(laws[other], epsilon)


def test_the_check_can_fail() -> None:
    """A transcript of two answers sold for less than even its votes cost."""
    relabelling = Relabelling(
        CLASSES["thresholds"],
        2,
        1,
        base=BASE,
        split_size=2,
        public_n_users=3,
        neighbours=Neighbours.REPLACE,
        users="one",
    )
    laws = [
        transcript_law(relabelling, users(d), [1, 1], voters=1, base=VOTES)
        for d in (((0, 0),) * 3, ((0, 0), (0, 0), (2, 0)))
    ]
    assert not laws[0].satisfies(laws[1], Fraction(1, 1000))


@pytest.mark.parametrize("voters", [1, 2, 3, 6])
def test_the_cost_of_one_vote_is_attained(voters: int) -> None:
    laws = [vote_law(ones, voters, base=VOTES) for ones in range(voters + 1)]
    epsilon = vote_epsilon(log_up(VOTES), voters)
    for ones in range(voters):
        assert laws[ones].satisfies(laws[ones + 1], epsilon)
        assert laws[ones + 1].satisfies(laws[ones], epsilon)
    worst = max(laws[j].prob_exact(bit) / laws[j + 1].prob_exact(bit) for j in range(voters) for bit in (0, 1))
    assert log(worst) == pytest.approx(float(epsilon), rel=1e-12)


# Accounting query by query is wrong


def repeated(data: UserData, relabelling: Relabelling, query: int, k: int, bit: int, g: Fraction) -> Fraction:
    """The probability of ``k`` answers ``bit`` to one repeated query, each drawn anew, with one voter."""
    p = g / (1 + g)
    one = transcript_law(relabelling, data, [query], voters=1, base=g).prob_exact("1")
    vote = (one - (1 - p)) / (2 * p - 1)  # how often the voter says 1
    right, wrong = (p, 1 - p) if bit else (1 - p, p)
    return vote * right**k + (1 - vote) * wrong**k


@pytest.mark.parametrize("k", [10, 50])
def test_k_times_the_price_of_one_query_is_false_and_the_transcript_price_holds(k: int) -> None:
    """n = 100, one record in T, one voter: amplification by sampling is paid for once per split, not once per query."""
    g, concept = Fraction(3), Thresholds(Integers(0, 1))
    relabelling = Relabelling(
        concept,
        1,
        1,
        eta=Fraction(1, 100),
        split_size=1,
        public_n_users=100,
        neighbours=Neighbours.REPLACE,
        users="one",
    )
    exact = Relabelling(
        concept,
        1,
        1,
        base=Fraction(101, 100),
        split_size=1,
        public_n_users=100,
        neighbours=Neighbours.REPLACE,
        users="one",
    )
    all_low = UserData.from_users([[(0, 0)]] * 100, features={"x": Integers(0, 1)})
    one_high = UserData.from_users([[(0, 0)]] * 99 + [[(1, 0)]], features={"x": Integers(0, 1)})
    # A record at 0 makes the voter say 1 at 1, whatever its label; the one record at 1 may make it say 0.
    true = log(repeated(one_high, exact, 1, k, 0, g) / repeated(all_low, exact, 1, k, 0, g))
    single = theorem_a(relabelling.share, relabelling.a, relabelling.b, log_up(g))[0]
    priced = theorem_a(relabelling.share, relabelling.a, relabelling.b, k * log_up(g))[0]
    assert true > 4 * float(k * single)
    assert true <= float(priced)
    expected = {10: (5.69, 1.26, 7.81), 50: (49.6, 6.3, 51.8)}[k]
    assert (true, float(k * single), float(priced)) == pytest.approx(expected, rel=0.01)
