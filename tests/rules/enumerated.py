"""Brute force for classes that are enumerated rule by rule: rules predict on plain values, users one by one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from privpac.data import Domain, UserData
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Exceeds, Mean, Regret, Statistic, root_clip

STATISTICS: list[Statistic] = [
    Exceeds(0),
    Exceeds(1),
    Exceeds(2),
    Exceeds({0: 0, 3: 1}),
    Mean(),
    Mean(7),
    Regret(1),
    Regret(2, levels=5),
    Regret(root_clip(1)),
]

Columns = Mapping[str, Domain]
Users = list[list[tuple[Any, ...]]]


def values(domain: Domain) -> list[Any]:
    return [domain.value(code) for code in range(domain.size)]


def users_of(columns: Columns, *, most: int = 5) -> st.SearchStrategy[Users]:
    """A few users with a few records each, from few enough values that records and users repeat."""
    record = st.tuples(*(st.sampled_from(values(domain)) for domain in columns.values()), st.integers(0, 1))
    return st.lists(st.lists(record, max_size=6), max_size=most)


def data_of(columns: Columns, users: Users, *, bound: bool = True) -> UserData:
    return UserData.from_users(users, features=dict(columns) if bound else list(columns))


def frame(columns: Columns, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {name: [row[j] for row in rows] for j, name in enumerate(columns)}


def grid(columns: Columns) -> list[tuple[Any, ...]]:
    return list(itertools.product(*(values(domain) for domain in columns.values())))


def brute_profile(concept: ConceptClass, columns: Columns, users: Users, statistic: Statistic) -> list[int]:
    rules = [concept.decode(h) for h in range(concept.size)]
    totals = [0] * concept.size
    for records in users:
        if records:
            truth = [record[-1] for record in records]
            said = [rule.predict(frame(columns, records)).tolist() for rule in rules]
            mistakes = [sum(a != b for a, b in zip(answers, truth)) for answers in said]
            for h, e in enumerate(mistakes):
                totals[h] += statistic.value(e, min(mistakes), len(records))
    return totals


def scores(concept: ConceptClass, data: UserData, statistic: Statistic) -> list[int]:
    profile = concept.profile(data, statistic)
    out = [score for first, last, score in profile.blocks() for _ in range(first, last + 1)]
    assert len(out) == concept.size
    return out


def check_profile(concept: ConceptClass, columns: Columns, users: Users, statistic: Statistic) -> None:
    got = scores(concept, data_of(columns, users), statistic)
    assert got == brute_profile(concept, columns, users, statistic)
    assert got == scores(concept, data_of(columns, users, bound=False), statistic)


def check_addition(concept: ConceptClass, columns: Columns, some: Users, others: Users, statistic: Statistic) -> None:
    parts = concept.profile(data_of(columns, some), statistic) + concept.profile(data_of(columns, others), statistic)
    whole = concept.profile(data_of(columns, some + others), statistic)
    assert (concept.empty_profile() + parts).blocks() == whole.blocks()


def check_rules(concept: ConceptClass, columns: Columns) -> None:
    """Predictions of ids, of rules, and of rules read back from JSON agree on the whole domain."""
    points = grid(columns)
    codes = {name: domain.encode([point[j] for point in points])[0] for j, (name, domain) in enumerate(columns.items())}
    for h in range(concept.size):
        rule = concept.decode(h, label="late")
        said = concept.predictions(codes, h).tolist()
        again = rule_from_dict(json.loads(json.dumps(rule_to_dict(rule))))
        assert again == rule
        assert str(again) == str(rule)
        assert rule.predict(frame(columns, points)).tolist() == said
        assert again.predict_codes(codes).tolist() == said
        needed = {name: column for name, column in frame(columns, points).items() if name in rule.reads}
        assert rule.predict(needed).tolist() == said
        if rule.condition() in ("always", "never"):
            assert set(said) == {int(rule.condition() == "always")}
            assert str(rule) == f"late {rule.condition()}"
        else:
            assert set(said) == {0, 1}


def check_labellings(concept: ConceptClass, columns: Columns, records: Sequence[tuple[Any, ...]]) -> None:
    codes = {
        name: domain.encode([record[j] for record in records])[0] for j, (name, domain) in enumerate(columns.items())
    }
    labels = np.array([record[-1] for record in records], dtype=np.uint8)
    said = [tuple(concept.predictions(codes, h).tolist()) for h in range(concept.size)]
    got = [(tuple(answers.tolist()), first, count) for answers, first, count in concept.dichotomies(codes)]
    assert got == [(answers, said.index(answers), said.count(answers)) for answers in dict.fromkeys(said)]
    assert len(got) <= concept.growth(len(set(zip(*codes.values()))))
    exact = [h for h, answers in enumerate(said) if answers == tuple(labels.tolist())]
    assert concept.consistent(codes, labels) == (exact[0] if exact else None)


def brute_dimension(concept: ConceptClass, columns: Columns) -> int:
    """The largest set of points of the domain on which all labellings occur."""
    points = grid(columns)
    said = np.array([concept.decode(h).predict(frame(columns, points)) for h in range(concept.size)])
    said = np.unique(said, axis=0)
    d = 0
    while d < len(points) and 2 ** (d + 1) <= len(said):
        subsets = itertools.combinations(range(len(points)), d + 1)
        if not any(len(np.unique(said[:, list(subset)], axis=0)) == 2 ** (d + 1) for subset in subsets):
            break
        d += 1
    return d


def readable(condition: str, columns: Columns, point: Sequence[Any]) -> bool:
    """What the printed words say about a point: the condition as a Python expression."""
    if condition in ("always", "never"):
        return condition == "always"
    return bool(eval(condition.replace(" = ", " == "), {}, dict(zip(columns, point))))
