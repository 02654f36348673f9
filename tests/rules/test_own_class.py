"""A class of rules that the package does not know: everything that learns, plans, audits, saves and reports takes it.

It is defined here as anyone would define it, in one place: a rule, a class, and one line each to save the one and to
name the other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from numpy.typing import NDArray

import privpac as pp
from privpac.auditing import audit_exact, datasets
from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError
from privpac.planning.choose import choose_method
from privpac.report import report_html
from privpac.result import register
from privpac.rules import EnumeratedClass, Mean, Rule, register_class
from privpac.rules.hierarchies import TreeNodes
from privpac.rules.named import RULES, rule_class
from privpac.sklearn import PrivateRuleClassifier

Codes = Mapping[str, NDArray[np.uint64]]


@register("test-multiple")
@frozen(slots=False)
class Multiple(Rule):
    """1 iff the whole number x is a multiple of ``k``."""

    feature: str
    domain: Domain
    k: int
    label: str = "1"

    @property
    def features(self) -> Mapping[str, Domain]:
        return {self.feature: self.domain}

    def predict_codes(self, codes: Codes) -> NDArray[np.int8]:
        return (codes[self.feature] % np.uint64(self.k) == 0).astype(np.int8)

    def condition(self) -> str:
        return "always" if self.k == 1 else f"{self.feature} is a multiple of {self.k}"

    def to_dict(self) -> dict[str, Any]:
        return {"feature": self.feature, "domain": self.domain.to_dict(), "k": self.k, "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Multiple:
        return cls(values["feature"], Domain.from_dict(values["domain"]), values["k"], values["label"])


@frozen(slots=False)
class Multiples(EnumeratedClass):
    """Multiples of 1, 2, ..., ``most``; the id h is the rule of h + 1."""

    domain: Domain | None = None
    feature: str | None = None
    most: int = 6

    @property
    def size(self) -> int:
        return self.most

    @property
    def vc_dimension(self) -> int:
        return self.most.bit_length() - 1

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Multiples:
        ((feature, domain),) = columns.items()
        return Multiples(domain, feature, self.most)

    def decode(self, hypothesis: int, label: str = "1") -> Multiple:
        assert self.domain is not None
        return Multiple(self.feature or "x", self.domain, self.checked(hypothesis) + 1, label)

    def table(self, codes: Codes, first: int, last: int) -> NDArray[np.uint8]:
        points = codes[self.feature or "x"]
        return (points[:, None] % np.arange(first + 1, last + 1, dtype=np.uint64) == 0).astype(np.uint8)


DOMAIN = pp.Integers(0, 59)
CLASS = Multiples(DOMAIN, "x")


def people(n: int = 400, right: int = 3) -> pp.UserData:
    rng = np.random.default_rng(7)
    return pp.UserData.from_users(
        [[(int(x), int(x % right == 0)) for x in rng.integers(0, 60, 6)] for _ in range(n)], features={"x": DOMAIN}
    )


def test_users_are_folded_as_defined() -> None:
    users = people(30)
    scores = [0] * CLASS.size
    for h in range(CLASS.size):
        for a, b in zip(users.offsets, users.offsets[1:]):
            wrong = (users.codes["x"][a:b] % np.uint64(h + 1) == 0) != users.labels[a:b]  # type: ignore[index]
            scores[h] += int(wrong.sum()) * 720 // int(b - a)
    profile = CLASS.profile(users, Mean(720))
    assert [profile.score(h) for h in range(CLASS.size)] == scores
    assert CLASS.erm(users) == 2


def test_columns_are_left_to_the_data() -> None:
    bound, _ = Multiples().bind(people(3))
    assert bound == CLASS


@pytest.mark.parametrize("method", ["auto", "mean", "realizable", "agnostic", "pairwise", "trimmed"])
def test_every_general_method_learns_it(method: str) -> None:
    options: dict[str, Any] = {"pairwise": {"records_per_user": 6}}.get(method, {})
    if method == "trimmed":
        options = {"delta": "1e-6", "neighbours": "replace", "records_per_user": 6}
    released = pp.learn(people(), CLASS, epsilon=20, method=method, **options)
    assert isinstance(released.value, Multiple)
    assert released.guarantee is not None
    assert released.guarantee.epsilon == 20


@pytest.mark.parametrize("method", ["direct", "search", "tree", "agreement"])
def test_methods_of_other_classes_refuse_it_before_anything_is_spent(method: str) -> None:
    with pytest.raises(ParameterError, match="not Multiples; use one of the methods"):
        pp.learn(people(3), CLASS, epsilon=1, method=method)


def test_the_realizable_case_is_certain_with_a_large_budget() -> None:
    assert str(pp.learn(people(), Multiples(), epsilon=80, setting="realizable").value) == (
        "1 when x is a multiple of 3"
    )


def test_it_is_planned_and_predicted() -> None:
    plan = pp.plan(CLASS, epsilon=1, alpha="0.1", records_per_user=6)
    assert plan.row("hybrid selection").kind == plan.row("realizable selection").kind == "certified"
    assert not [row for row in plan.rows if row.kind == "lower bound"]  # its dimensions are bounded from above only
    choice = choose_method(CLASS, epsilon=1, public_n_users=50, records_per_user=6)
    assert "predicted" in choice.reason


def test_facts_it_adds_are_used() -> None:
    class Known(Multiples):
        @property
        def shattered_points(self) -> int:
            return 1  # 1 is a multiple of 1 and not of 2

    plan = pp.plan(Known(DOMAIN, "x"), epsilon=1, alpha="0.1", records_per_user=6)
    assert [row.method for row in plan.rows if row.kind == "lower bound"]


def test_its_law_is_audited_exactly() -> None:
    small = Multiples(pp.Integers(0, 3), "x", 3)
    learner = pp.RegretSelection(small, 1, statistic="mean")

    def build(users: tuple[Any, ...]) -> pp.UserData:
        return pp.UserData.from_users([list(user) for user in users], features={"x": pp.Integers(0, 3)})

    kinds = [((x, y),) for x in range(3) for y in (0, 1)] + [((2, 1), (3, 0))]
    audit = audit_exact(learner, datasets(kinds, 2), build=build)
    assert audit.holds
    assert audit.epsilon > 0
    broken = audit_exact(learner, datasets(kinds, 2), build=build, neighbours="add-remove", epsilon="0.01")
    assert not broken.holds


def test_it_is_saved_loaded_and_reported(tmp_path: Path) -> None:
    released = pp.learn(people(), CLASS, epsilon=50, setting="realizable")
    file = tmp_path / "rule.json"
    released.save(file)
    again = pp.load(file)
    assert again.value == released.value
    assert again.value.predict([3, 4, 6]).tolist() == [1, 0, 1]
    page = report_html(again, CLASS)
    assert "x is a multiple of 3" in page
    assert "<svg" in page
    assert "certified" in page


def test_it_is_relabelled() -> None:
    users = people(5)
    points = {"x": np.array([1, 2, 3], dtype=np.uint64)}
    listed = CLASS.labellings(points, users, 2, 3)
    expected = {tuple(int(x % (h + 1) == 0) for x in (1, 2, 3)) for h in range(CLASS.size)}
    assert {tuple(listed.labels(i).tolist()) for i in range(listed.count)} == expected
    CLASS.check_labellings(units=1000)
    with pytest.raises(TooLargeError):
        Multiples(DOMAIN, "x", (1 << 20) + 1).check_labellings()


@pytest.fixture
def named() -> Iterator[str]:
    register_class("test-multiple", lambda features: Multiples(next(iter(features.values())), next(iter(features))))
    yield "test-multiple"
    del RULES["test-multiple"]


def test_the_estimator_takes_it_by_name(named: str) -> None:
    users = people()
    assert rule_class(named, {"x": DOMAIN}) == CLASS
    model = PrivateRuleClassifier(rule=named, epsilon=60, domains=[DOMAIN], setting="realizable")
    groups = np.repeat(np.arange(users.n_users), users.sizes)
    model.fit(users.codes["x"].astype(int)[:, None], users.labels, groups=groups)
    assert model.predict(np.array([[3], [4], [9]])).tolist() == [1, 0, 1]


def test_names_are_given_once(named: str) -> None:
    for name in ("stump", named, "Not A Name"):
        with pytest.raises(ParameterError, match="taken" if name != "Not A Name" else "lower-case"):
            register_class(name, lambda features: Multiples())


# Nobody else has to know the classes


ASKED = re.compile(
    r"isinstance\([^)]*\b(Thresholds|Points|Stumps|Intervals|Rectangles|Halfspaces|FiniteClass|Parities|Conjunctions|"
    r"Disjunctions|DecisionLists|EnumeratedClass|TreeNodes|Taxonomy|PrefixTree|AddressTree|StarTree|BranchThresholds|"
    r"ExplicitTree|PathTree|Combined|AgreedRules|TreeRule)\b"
)


def test_no_module_tells_classes_of_rules_apart() -> None:
    """A class compares itself with its like (``__eq__``); everybody else asks for facts."""
    source = Path(pp.__file__).parent
    lines = {
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if ASKED.search(line)
    }
    assert lines == {
        "rules/enumerated.py: if not isinstance(other, FiniteClass):",
        "rules/hierarchies/regions.py: if not isinstance(other, Taxonomy):",
    }


CONCRETE = {
    "thresholds": pp.Thresholds(DOMAIN, "x"),
    "both": pp.Thresholds(DOMAIN, "x", "both"),
    "points": pp.Points(DOMAIN, "x", zero=True),
    "stumps": pp.Stumps({"x": DOMAIN, "y": pp.Integers(0, 3)}),
    "intervals": pp.Intervals(DOMAIN, "x"),
    "rectangles": pp.Rectangles({"x": DOMAIN}, cuts=3),
    "conjunctions": pp.Conjunctions({"x": pp.Integers(0, 1), "y": pp.Integers(0, 1)}),
    "lists": pp.DecisionLists({"x": pp.Integers(0, 1), "y": pp.Integers(0, 1)}, length=2),
    "parities": pp.Parities({"x": pp.Integers(0, 1), "y": pp.Integers(0, 1)}),
    "halfspaces": pp.Halfspaces({"x": pp.Integers(0, 5), "y": pp.Integers(0, 5)}, weights=[-1, 0, 1]),
    "table": pp.FiniteClass([lambda d: d % 2, lambda d: d > 4], pp.Integers(0, 6), feature="x"),
    "nodes": TreeNodes(pp.PathTree(pp.Integers(0, 9), "x")),
    "own": CLASS,
}


@pytest.mark.parametrize("name", CONCRETE)
def test_facts_fit_each_other(name: str) -> None:
    concept = CONCRETE[name]
    assert 0 <= concept.shattered_points <= concept.vc_dimension
    assert max(concept.shattered_points, concept.mistake_tree_depth) <= concept.bits
    assert (concept.layout == "cuts") == bool(concept.directions)
    sizes = [domain.size for domain in concept.declared().values() if domain is not None]
    if concept.layout == "cuts":
        assert concept.size == len(concept.directions) * sum(size + 1 for size in sizes)
    if concept.layout == "values":
        assert concept.size - sizes[0] in (0, 1)
    assert (concept.cut_direction is not None) <= (concept.layout == "cuts" and len(sizes) == 1)
    small = concept.coarsened(8)
    assert small == concept or max(d.size for d in small.declared().values() if d is not None) <= 8
    if concept.is_tree:
        tree = concept.as_tree()
        assert {*tree.declared()} == {*concept.declared()}
        # A star has the rule that never says 1, and a path all its cuts.
        assert tree.n_rules is not None
        assert tree.n_rules in (concept.size, concept.size + 1)
    else:
        with pytest.raises(ParameterError, match=r"no tree|direction"):
            concept.as_tree()


@pytest.mark.parametrize("name", CONCRETE)
def test_tables_say_what_the_rules_say(name: str) -> None:
    concept, rng = CONCRETE[name], np.random.default_rng(3)
    codes = {
        column: rng.integers(0, domain.size, 20).astype(np.uint64)
        for column, domain in concept.declared().items()
        if column is not None and domain is not None
    }
    first, last = concept.size // 3, min(concept.size // 3 + 5, concept.size)
    said = concept.table(codes, first, last)
    assert said.shape == (20, last - first)
    for h in range(first, last):
        assert said[:, h - first].tolist() == concept.decode(h).predict_codes(codes).tolist()


def test_stored_trees_need_no_module_loaded() -> None:
    """Trees are saved by kind; the kinds of the package are known before their modules are."""
    stored = {tree.kind: tree.to_dict() for tree in (pp.PathTree(9), pp.Taxonomy({"b": "a"}), pp.PrefixTree(3))}
    code = (
        "import json, sys\nfrom privpac.rules.hierarchies.base import VC1Tree\n"
        "for kind, stored in json.loads(sys.argv[1]).items():\n    assert VC1Tree.from_dict(stored).kind == kind\n"
    )
    run = subprocess.run([sys.executable, "-c", code, json.dumps(stored)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
