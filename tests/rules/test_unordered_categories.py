"""Categories have no order unless it is declared: rules ask "is c" and never what is above c."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Categories, Domain, Floats, Integers, Missing
from privpac.data.domains import domain_text, parse_domain
from privpac.data.schema_file import Schema, parse_schema
from privpac.distributions.quantiles import QuantileLearner
from privpac.errors import ParameterError
from privpac.methods import HybridSelection, PrivateMedian
from privpac.methods.agreement.agreement_learner import AgreedRules
from privpac.methods.registry import default_rules
from privpac.protocols import LocalProtocol
from privpac.protocols.domains import column_of, declared_domain
from privpac.report.rule import class_of
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.hierarchies import BranchThresholds, PathTree, VC1Tree, graft
from privpac.rules.named import default_rule, rule_class
from privpac.rules.wide_columns import binned
from privpac.serve.session_file import _session
from privpac.testing import SeededRng, insecure_randomness

CARRIER = Categories(["B6", "9E", "AA", "DL"])
SIZE = Categories(["small", "middle", "large"], ordered=True)
SAYS_ORDER = ("<", ">", "≤", "above", "below")


def meant(domains: dict[str, Domain], directions: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The sentence and the meaning of every rule, from the definition alone; an order is asked of ordered columns."""
    rules: list[tuple[str, Any]] = []
    for j, (name, domain) in enumerate(domains.items()):
        n = domain.size
        for direction in directions:
            for u in range(n + 1):
                if domain.ordered:
                    above, word = direction == "above", ">" if direction == "above" else "<="
                    said = f"{name} {word} {domain.text(u - 1)}" if 0 < u < n else None
                    constant = (u == 0) == above
                    rules.append(
                        (said or ("always" if constant else "never"), lambda x, u=u, j=j, a=above: (x[j] >= u) == a)
                    )
                else:
                    yes = direction == "above"
                    said = f"{name} is {'' if yes else 'not '}{domain.text(u)}" if u < n > 1 else None
                    constant = (u == n) != yes
                    rules.append(
                        (said or ("always" if constant else "never"), lambda x, u=u, j=j, y=yes: (x[j] == u) == y)
                    )
    return rules


COLUMNS: list[dict[str, Domain]] = [
    {"k": CARRIER},
    {"k": Categories(["a"])},
    {"k": Categories(["a", "b"])},
    {"k": CARRIER, "n": Integers(0, 3), "l": Categories([7, 5, 6])},
    {"s": SIZE, "k": Categories(["a", "b", "c"])},
]


@pytest.mark.parametrize("direction", ["above", "below", "both"])
@pytest.mark.parametrize("columns", COLUMNS, ids=lambda columns: "-".join(f"{n}{d.size}" for n, d in columns.items()))
def test_every_rule_says_and_does_what_its_id_means(columns: dict[str, Domain], direction: str) -> None:
    stumps = pp.Stumps(columns, direction)
    rules = meant(columns, stumps.directions)
    points = list(itertools.product(*(range(domain.size) for domain in columns.values())))
    codes = {name: np.array([p[j] for p in points], dtype=np.uint64) for j, name in enumerate(columns)}
    frame = {name: [domain.value(p[j]) for p in points] for j, (name, domain) in enumerate(columns.items())}
    assert stumps.size == len(rules)
    polled = stumps.poll(range(stumps.size))(codes)
    assert polled.tolist() == [sum(bool(holds(p)) for _, holds in rules) for p in points]
    for h, (said, holds) in enumerate(rules):
        rule = stumps.decode(h, "late")
        assert rule.condition() == said
        expected = [int(bool(holds(p))) for p in points]
        assert stumps.predictions(codes, h).tolist() == expected
        assert rule.predict(frame).tolist() == expected
        again = rule_from_dict(json.loads(json.dumps(rule_to_dict(rule))))
        assert (again, str(again), again.predict(frame).tolist()) == (rule, str(rule), expected)
        if not rule.columns[rule.feature].ordered:
            assert not any(word in str(rule) for word in SAYS_ORDER)


def shatters(labellings: set[tuple[int, ...]], places: tuple[int, ...]) -> bool:
    return len({tuple(row[p] for p in places) for row in labellings}) == 1 << len(places)


@pytest.mark.parametrize("direction", ["above", "below", "both"])
@pytest.mark.parametrize("sizes", [(1,), (2,), (3,), (5,), (2, 2), (3, 2), (3, 3), (-3, 3), (-2, 2, 3), (-4, 4)])
def test_dimensions_against_enumeration(sizes: tuple[int, ...], direction: str) -> None:
    """A negative size is an ordered column."""
    columns = {f"c{j}": Categories(range(abs(n)), ordered=n < 0) for j, n in enumerate(sizes)}
    stumps = pp.Stumps(columns, direction)
    points = list(itertools.product(*(range(abs(n)) for n in sizes)))
    rules = {tuple(int(bool(holds(p))) for p in points) for _, holds in meant(columns, stumps.directions)}
    subsets = {n: list(itertools.combinations(range(len(points)), n)) for n in range(min(5, len(points) + 1))}
    exact = max(n for n, listed in subsets.items() if any(shatters(rules, places) for places in listed))
    assert stumps.shattered_points <= exact <= stumps.vc_dimension
    if len(sizes) == 1 and direction == "both":
        assert stumps.shattered_points == exact == stumps.vc_dimension
    for n, listed in subsets.items():
        assert max(len({tuple(row[p] for p in places) for row in rules}) for places in listed) <= stumps.growth(n)


# What needs an order

NEEDS: dict[str, Any] = {
    "thresholds": lambda domain: pp.Thresholds(domain, "carrier"),
    "thresholds later": lambda domain: pp.Thresholds(feature="carrier").with_columns({"carrier": domain}),
    "intervals": lambda domain: pp.Intervals(domain, "carrier"),
    "boxes": lambda domain: pp.Rectangles({"n": Integers(0, 3), "carrier": domain}),
    "path": lambda domain: PathTree(domain, "carrier"),
    "path later": lambda domain: PathTree(domain.size).with_columns({"carrier": domain}),
    "branches": lambda domain: BranchThresholds(domain, features=("line", "carrier")),
    "median": lambda domain: PrivateMedian(pp.Thresholds(domain, "carrier"), 1),
    "by name": lambda domain: rule_class("threshold", {"carrier": domain}),
    "stumps by agreement": lambda domain: AgreedRules("stump", {"carrier": domain}),
    "cuts on devices": lambda domain: LocalProtocol("threshold", {"carrier": domain}, 1),
    "weights on devices": lambda domain: LocalProtocol("halfspace", {"carrier": domain, "n": Integers(0, 3)}, 1),
    "cuts of a tree": lambda domain: pp.SmallTrees({"carrier": domain}, cuts={"carrier": [domain.value(1)]}),
}
ORDERED = Categories(CARRIER.values, ordered=True)


@pytest.mark.parametrize("name", NEEDS)
def test_classes_that_need_an_order_ask_for_it(name: str) -> None:
    NEEDS[name](ORDERED)
    with pytest.raises(
        ParameterError, match=r"column 'carrier' has unordered categories.*Categories\(\[\.\.\.\], ordered=True\)"
    ):
        NEEDS[name](CARRIER)


def people(domain: Domain, values: Any = ("B6", "DL"), n: int = 60) -> pp.UserData:
    rows = {"who": list(range(n)), "carrier": [values[i % 2] for i in range(n)], "late": [i % 2 for i in range(n)]}
    return pp.UserData.from_frame(pl.DataFrame(rows), user="who", label="late", features={"carrier": domain})


@pytest.mark.parametrize("wrapped", [False, True])
def test_unordered_categories_have_no_median(wrapped: bool) -> None:
    domain = Missing(CARRIER, "drop") if wrapped else CARRIER
    with pytest.raises(ParameterError, match=r"'carrier' has unordered categories, so it has no median.*ordered=True"):
        pp.quantile(people(domain), "carrier", epsilon=1)
    with insecure_randomness():
        released = QuantileLearner(epsilon=1).learn(people(ORDERED), rng=SeededRng(1))
    assert released.value.values[0] in CARRIER.values


# Defaults


def test_the_default_of_one_column_asks_for_categories() -> None:
    found = default_rules({"carrier": CARRIER}, epsilon=1)
    assert (found.concept, found.method) == (pp.Stumps({"carrier": CARRIER}), "auto")
    assert "cut" not in found.reason
    assert default_rules({"carrier": CARRIER}, epsilon=1, method="tree").concept == pp.Points(CARRIER, "carrier")
    assert isinstance(default_rules({"carrier": ORDERED}, epsilon=1).concept, pp.Thresholds)
    assert [default_rule({"c": domain}) for domain in (CARRIER, ORDERED, Integers(0, 9))] == ["stump"] + [
        "threshold"
    ] * 2
    assert "cut or category" in default_rules({"c": CARRIER, "n": Integers(0, 9)}, epsilon=1).reason


def test_what_is_learned_by_default_reads_as_a_category() -> None:
    table = people(CARRIER, values=("B6", "9E"), n=400)
    with insecure_randomness():
        said = {str(pp.learn(table, epsilon=20).value) for _ in range(3)}
    assert said <= {"late when carrier is 9E", "late when carrier is not B6"}


def test_columns_of_both_kinds_share_one_law() -> None:
    """The category in the middle of the list decides, which no cut can say."""
    rng = np.random.default_rng(5)
    kind, noise = rng.choice(CARRIER.values, 600), rng.integers(0, 10, 600)
    frame = pl.DataFrame({"who": np.arange(600) // 3, "k": kind, "n": noise, "y": (kind == "AA").astype(int)})
    table = pp.UserData.from_frame(frame, user="who", label="y", features={"n": Integers(0, 9), "k": CARRIER})
    bound, _ = pp.Stumps().bind(table)
    best = bound.erm(table)
    assert str(bound.decode(best, "y")) == "y when k is AA"
    assert HybridSelection(pp.Stumps(), 4).law(table).mode % bound.size == best


# Files, words


CUTS = [
    ({"cut": "0", "direction": "above"}, "always", [1, 1, 1, 1]),
    ({"cut": "1", "direction": "above"}, "k is not B6", [0, 1, 1, 1]),
    ({"cut": "2", "direction": "above"}, "k is one of AA, DL", [0, 0, 1, 1]),
    ({"cut": "2", "direction": "below"}, "k is one of B6, 9E", [1, 1, 0, 0]),
    ({"cut": "3", "direction": "above"}, "k is DL", [0, 0, 0, 1]),
    ({"cut": "4", "direction": "above"}, "never", [0, 0, 0, 0]),
]
STORED = {"kind": "categories", "values": ["B6", "9E", "AA", "DL"]}


@pytest.mark.parametrize(("cut", "said", "answers"), CUTS)
def test_rules_stored_with_cuts_of_categories_still_predict(cut: Any, said: str, answers: list[int]) -> None:
    """Files from before categories were unordered; they say nothing of an order."""
    rows = {"k": ["B6", "9E", "AA", "DL"]}
    stump = {"kind": "stump", "columns": [{"name": "k", "domain": STORED}], "feature": "k", **cut, "label": "y"}
    plain = {"kind": "threshold", "feature": "k", "domain": STORED, **cut, "label": "y"}
    for stored in (stump, plain):
        rule = rule_from_dict(stored)
        assert rule.condition() == said
        assert rule.predict(rows).tolist() == answers
        assert json.loads(json.dumps(rule_to_dict(rule)).replace(', "ordered": false', "")) == stored


def test_stored_intervals_boxes_and_trees_still_predict() -> None:
    rows = {"k": ["B6", "9E", "AA", "DL"]}
    run = rule_from_dict({"kind": "interval", "feature": "k", "domain": STORED, "low": 1, "high": 3, "label": "y"})
    assert (run.condition(), run.predict(rows).tolist()) == ("k is one of 9E, AA", [0, 1, 1, 0])
    columns = [{"name": "k", "domain": STORED}]
    box = rule_from_dict({"kind": "box", "columns": columns, "bounds": [["1", "2"]], "label": "y"})
    assert (box.condition(), box.predict(rows).tolist()) == ("k is one of 9E, AA", [0, 1, 1, 0])
    tree = pp.SmallTrees({"k": CARRIER}).decode(5)
    old = json.loads(json.dumps(rule_to_dict(tree)).replace(', "ordered": false', ""))
    assert "ordered" not in json.dumps(old)
    assert rule_from_dict(old) == tree
    path = PathTree(ORDERED, "k")
    for grown in (path, BranchThresholds(ORDERED, features=("line", "k")), graft(PathTree(2), 2, path)):
        old = json.loads(json.dumps(grown.to_dict()).replace(', "ordered": true', ""))
        assert VC1Tree.from_dict(old) == grown


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab<>={},\" '"), min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    st.booleans(),
)
def test_an_order_survives_every_way_of_writing_it(names: list[str], ordered: bool) -> None:
    domain = Categories(names, ordered=ordered)
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    assert parse_domain(domain_text(domain).removeprefix("=")) == domain
    assert declared_domain(column_of("x", domain)) == domain
    for kept in (domain, Missing(domain, "own")):
        assert parse_schema(Schema(columns={"x": kept}).to_toml()).columns["x"] == kept
        assert kept.ordered is ordered


@pytest.mark.parametrize(
    ("text", "names", "ordered"),
    [
        ("{a,b,c}", "abc", False),
        ("{a<b<c}", "abc", True),
        ("{ a < b }", "ab", True),
        ("{a,b},ordered=true", "ab", True),
        ('["a", "b"],ordered=true', "ab", True),
        ('["a", "b"],ordered=false', "ab", False),
        ("{<50K,>=50K}", ["<50K", ">=50K"], False),
    ],
)
def test_words_for_an_order(text: str, names: Any, ordered: bool) -> None:
    assert parse_domain(text) == Categories(list(names), ordered=ordered)


@pytest.mark.parametrize(
    "text",
    ["{a<b,c}", "{a<}", "{<a}", "{a<<b}", "{a,b},ordered=yes", "0:9,ordered=true", "{a,b},ordered=true,ordered=true,x"],
)
def test_unclear_words_are_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        parse_domain(text)


def test_schema_files_know_an_order() -> None:
    written = (
        '[columns]\na = { values = ["x", "y"], ordered = true }\nb = "{x<y}"\nc = ["x", "y"]\nd = { values = ["x"] }\n'
    )
    columns = parse_schema(written).columns
    assert [domain.ordered for domain in columns.values() if domain is not None] == [True, True, False, False]
    assert Categories(["<1", ">=1"], ordered=True).to_schema() == {"values": ["<1", ">=1"], "ordered": True}
    for wrong in (
        '{ values = ["x"], ordered = "yes" }',
        '{ values = "x" }',
        "{ ordered = true }",
        '{ values = ["x"], order = true }',
    ):
        with pytest.raises(ParameterError, match="column 'a'"):
            parse_schema(f"[columns]\na = {wrong}\n")


@pytest.mark.parametrize("ordered", [1, "yes", None])
def test_ordered_is_true_or_false(ordered: Any) -> None:
    with pytest.raises(TypeError, match="ordered must be True or False"):
        Categories(["a"], ordered=ordered)


def test_the_order_is_part_of_the_declaration() -> None:
    assert CARRIER != ORDERED
    assert "ordered" in ORDERED.describe()
    assert all(domain.ordered for domain in (Integers(0, 1), Floats()))
    with pytest.raises(ParameterError, match="carrier"):
        pp.Points(ORDERED, "carrier").bind(people(CARRIER))


def test_trees_cards_and_questions_cut_ordered_categories_only() -> None:
    (plain,), (cut,) = binned({"k": CARRIER}), binned({"k": ORDERED})
    assert [plain.says(test) for test in plain.tests] == [f"k is {name}" for name in CARRIER.values]
    assert [cut.says(test) for test in cut.tests] == [f"k > {name}" for name in CARRIER.values[:-1]]
    for over in ("conjunction", "disjunction", "decision-list"):
        rules = rule_class(over, {"k": CARRIER, "n": Integers(0, 3)})
        said = [str(rules.decode(h)) for h in range(0, rules.size, 37)]
        assert not any(f"k {sign}" in text for text in said for sign in (">", "<"))
    cuts = rule_class("conjunction", {"k": ORDERED})
    assert any("k > B6" in str(cuts.decode(h)) for h in range(cuts.size))


def test_a_report_finds_the_class_and_pictures_name_the_categories(tmp_path: Any) -> None:
    released = pp.learn(people(CARRIER, n=40), epsilon=1)
    assert class_of(released) == pp.Stumps({"carrier": CARRIER})
    assert not any(sign in str(released).splitlines()[0] for sign in "<>")
    pp.Stumps({"carrier": CARRIER}).decode(1, "late").plot().save(tmp_path / "rule.svg")
    drawn = (tmp_path / "rule.svg").read_text()
    assert all(name in drawn for name in CARRIER.values)


@pytest.mark.slow
def test_reports_and_plans_say_nothing_of_an_order(tmp_path: Any) -> None:
    released = pp.learn(people(CARRIER, n=40), epsilon=1, evaluate="1/4")
    released.report(tmp_path / "rule.html")
    page = (tmp_path / "rule.html").read_text()
    assert not any(f"carrier {sign}" in page for sign in ("&lt;=", "&gt;", "<=", ">"))
    assert "cut" not in str(pp.plan("stump", features={"carrier": CARRIER}, epsilon=1, records_per_user=[4]))


def test_a_stored_session_keeps_the_meaning_of_its_numbers() -> None:
    """Voters are stored by number, so a session from before the field must rebuild the cuts that they name."""
    old = {"k": {"kind": "categories", "values": ["B6", "9E", "AA", "DL"]}}
    promise = pp.Guarantee(1, unit="user", neighbours="add-remove").to_dict()
    rest = {
        "label": "y",
        "guarantee": promise,
        "parameters": {},
        "queries": 1,
        "gamma": "1",
        "voters": [],
        "secret": "",
    }

    def rebuilt(rule: str, features: Any) -> Any:
        ledger = SimpleNamespace(queries=None)
        return _session({"session_id": "s"}, {"rule": rule, "features": features, **rest}, ledger).concept  # type: ignore[arg-type]

    assert rebuilt("stump", old) == pp.Stumps({"k": ORDERED})
    assert rebuilt("threshold", old) == pp.Thresholds(ORDERED, "k")
    assert rebuilt("point", old) == pp.Points(CARRIER, "k")
    for domain in (CARRIER, ORDERED):
        assert rebuilt("stump", {"k": domain.to_dict()}) == pp.Stumps({"k": domain})
