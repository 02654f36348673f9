"""Reference for any concept class: every id predicts on every user, one at a time, with nothing but ``predictions``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpac.data import Domain, Floats, UserData
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.base import ConceptClass
from privpac.rules.profile import ClipRule, Exceeds, Mean, Profile, Regret, Statistic, root_clip

Columns = Mapping[str, Domain]
Record = tuple[tuple[int, ...], int]
"""The codes of one record, and its label."""
Users = list[list[Record]]

STATISTICS: list[Statistic] = [
    Exceeds(0),
    Exceeds(1),
    Exceeds(2),
    Exceeds({0: 0, 2: 1, 5: 2}),
    Exceeds(lambda m: m // 3),
    Mean(),
    Mean(1),
    Mean(5),
    Mean((1 << 31) - 1),
    Mean(1 << 31),
    Regret(1),
    Regret(2),
    Regret(3, levels=64),
    Regret({0: 1, 3: 2}, levels=7),
    Regret(root_clip(1)),
    Regret(ClipRule(1, 20, 6)),
    Regret(1000, levels=1 << 31),
]


def records(columns: Columns) -> st.SearchStrategy[Record]:
    """Codes at both ends of every domain, few enough in between that they repeat; labels."""

    def codes(domain: Domain) -> st.SearchStrategy[int]:
        low, high = (0x0010000000000000, 0xFFEFFFFFFFFFFFFF) if isinstance(domain, Floats) else (0, domain.size - 1)
        near = sorted({low + k for k in range(4) if low + k <= high} | {high - k for k in range(4) if high - k >= low})
        return st.one_of(
            st.sampled_from(near),
            st.integers(low, high).filter(lambda c: not (isinstance(domain, Floats) and c == (1 << 63) - 1)),
        )

    return st.tuples(st.tuples(*(codes(domain) for domain in columns.values())), st.integers(0, 1))


def tables(columns: Columns, most: int = 6) -> st.SearchStrategy[Users]:
    """No users, users without records, and users with a few."""
    return st.lists(st.lists(records(columns), max_size=8), max_size=most)


def data(columns: Columns, users: Users, *, bound: bool = True) -> UserData:
    values = [[(*(d.value(c) for c, d in zip(codes, columns.values())), y) for codes, y in user] for user in users]
    return UserData.from_users(values, features=dict(columns) if bound else list(columns))


def columns_of(columns: Columns, points: Iterable[Sequence[int]]) -> dict[str, NDArray[np.uint64]]:
    listed = list(points)
    return {name: np.array([point[j] for point in listed], dtype=np.uint64) for j, name in enumerate(columns)}


def grid(columns: Columns) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(domain.size) for domain in columns.values())))


def scores(
    concept: ConceptClass, columns: Columns, users: Users, statistic: Statistic, ids: Sequence[int] | None = None
) -> dict[int, int]:
    """The score of every id; for classes too large to enumerate, of ids among which every behaviour on the data
    occurs."""
    listed = list(range(concept.size)) if ids is None else list(ids)
    totals = dict.fromkeys(listed, 0)
    for user in users:
        codes, labels = columns_of(columns, [point for point, _ in user]), np.array([y for _, y in user], dtype=np.int8)
        mistakes = {h: int((concept.predictions(codes, h) != labels).sum()) for h in listed}
        least = min(mistakes.values())
        for h in listed:
            totals[h] += statistic.value(mistakes[h], least, len(user))
    return totals


def check_profile(
    concept: ConceptClass, columns: Columns, users: Users, statistic: Statistic, ids: Sequence[int] | None = None
) -> Profile:
    expected = scores(concept, columns, users, statistic, ids)
    profile = concept.profile(data(columns, users), statistic)
    assert {h: profile.score(h) for h in expected} == expected
    blocks = profile.blocks()
    assert blocks[0][0] == 0
    assert blocks[-1][1] == concept.size - 1
    assert all(a[1] + 1 == b[0] and a[0] <= a[1] for a, b in itertools.pairwise(blocks))
    assert profile.least == min(expected.values())
    assert profile.score(profile.argmin()) == profile.least
    if ids is None:
        assert profile.argmin() == min(expected, key=lambda h: (expected[h], h))
        assert [score for first, last, score in blocks for _ in range(first, last + 1)] == list(expected.values())
    return profile


def check_addition(concept: ConceptClass, columns: Columns, some: Users, others: Users, statistic: Statistic) -> None:
    parts = [concept.profile(data(columns, users), statistic) for users in (some, others)]
    whole = concept.profile(data(columns, some + others), statistic)
    assert (parts[0] + parts[1]).blocks() == whole.blocks()
    bound = concept.bind(data(columns, some))[0]
    assert (bound.empty_profile() + whole).blocks() == whole.blocks()


def check_rules(concept: ConceptClass, columns: Columns, ids: Iterable[int], points: Sequence[Sequence[int]]) -> None:
    """Ids, rules, rules read back from JSON, frames and arrays say the same; always and never are true words."""
    codes = columns_of(columns, points)
    frame = {name: [domain.value(int(c)) for c in codes[name]] for name, domain in columns.items()}
    array = np.array(list(frame.values()), dtype=object).T
    for h in ids:
        rule = concept.decode(h, label="late")
        said = concept.predictions(codes, h).tolist()
        again = rule_from_dict(json.loads(json.dumps(rule_to_dict(rule))))
        assert again == rule
        assert hash(again) == hash(rule)
        assert str(again) == str(rule)
        assert list(rule.features) == list(columns)
        assert rule.predict_codes(codes).tolist() == said
        assert rule.predict(frame).tolist() == said
        assert again.predict({name: frame[name] for name in rule.reads}).tolist() == said
        if points:
            assert rule.predict(array).tolist() == said
        condition = rule.condition()
        if condition in ("always", "never"):
            assert set(said) <= {int(condition == "always")}
            assert str(rule) == f"late {condition}"
        else:
            assert str(rule) == f"late when {condition}"


def check_labellings(concept: ConceptClass, columns: Columns, user: list[Record]) -> None:
    codes, labels = columns_of(columns, [point for point, _ in user]), np.array([y for _, y in user], dtype=np.uint8)
    said = [tuple(concept.predictions(codes, h).tolist()) for h in range(concept.size)]
    got = {tuple(answers.tolist()): (first, count) for answers, first, count in concept.dichotomies(codes)}
    assert len(got) == len(list(concept.dichotomies(codes)))
    assert got == {answers: (said.index(answers), said.count(answers)) for answers in said}
    assert len(got) <= concept.growth(len(user))
    right = [h for h, answers in enumerate(said) if answers == tuple(labels.tolist())]
    assert concept.consistent(codes, labels) == (right[0] if right else None)


def check_erm(concept: ConceptClass, columns: Columns, users: Users) -> None:
    """Steps of 2**-20 a user: the released id is among the best up to that, and the first of its score."""
    expected = scores(concept, columns, users, Mean(1 << 20))
    assert concept.erm(data(columns, users)) == min(expected, key=lambda h: (expected[h], h))
    errors = dict.fromkeys(expected, 0.0)
    for user in filter(None, users):
        codes, labels = columns_of(columns, [point for point, _ in user]), np.array([y for _, y in user], dtype=np.int8)
        for h in errors:
            errors[h] += float((concept.predictions(codes, h) != labels).mean())
    assert errors[concept.erm(data(columns, users))] <= min(errors.values()) + (len(users) + 1) / (1 << 20)


def matrix(concept: ConceptClass, columns: Columns) -> NDArray[np.int8]:
    """Rules by points of the whole domain."""
    codes = columns_of(columns, grid(columns))
    return np.array([concept.predictions(codes, h) for h in range(concept.size)])


def growth(said: NDArray[np.int8], n: int) -> int:
    """The most labellings of n points (with repeats, so of at most n different ones)."""
    points = min(n, said.shape[1])
    return max(
        len(np.unique(said[:, list(chosen)], axis=0)) for chosen in itertools.combinations(range(said.shape[1]), points)
    )


def vc_dimension(said: NDArray[np.int8]) -> int:
    return max(n for n in range(said.shape[1] + 1) if growth(said, n) == 1 << n)
