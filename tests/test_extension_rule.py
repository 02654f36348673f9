"""A kind of rule outside the package, in one class each: what it says, how it is listed, saved and named.

Nothing else knows it, and it is learned, planned, audited, evaluated, saved, drawn and reported like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import field, frozen
from typer.testing import CliRunner

import privpac as pp
from privpac.arrays import Bytes
from privpac.cli.app import app
from privpac.cli.commands import load_commands
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.report import report_html
from privpac.rules import EnumeratedClass, Mean, NamedColumns, Rule
from privpac.rules.base import ColumnCodes, Predictions
from privpac.rules.enumerated import domains_or_none, frozen_columns
from privpac.rules.named import RULES, name_of, rule_class
from privpac.sklearn import PrivateRuleClassifier


@frozen(slots=False, repr=False)
class Near(Rule):
    """1 iff every column's code is within ``radius`` of the centre."""

    saved_as: ClassVar[str] = "near"

    columns: Mapping[str, Domain] = field(converter=frozen_columns)
    centre: tuple[int, ...]
    radius: int
    label: str = "1"

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        away = [np.abs(codes[name].astype(np.int64) - at) for name, at in zip(self.columns, self.centre)]
        said: Predictions = (np.max(away, axis=0) <= self.radius).astype(np.int8)
        return said

    def edges(self, column: str) -> tuple[int, ...]:
        at = self.centre[list(self.columns).index(column)]
        return max(at - self.radius, 0), at + self.radius + 1

    def condition(self) -> str:
        places = ", ".join(f"{name} {d.text(at)}" for (name, d), at in zip(self.columns.items(), self.centre))
        return f"it is within {self.radius} of {places}"


@frozen(slots=False)
class Balls(NamedColumns, EnumeratedClass):
    """All centres on a grid of every third code, each with the radii 1, 2 and 4."""

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"near": {}}
    radii: ClassVar[tuple[int, ...]] = (1, 2, 4)

    domains: Mapping[str, Domain | None] | None = field(default=None, converter=domains_or_none)

    @property
    def size(self) -> int:
        return prod(len(range(0, domain.size, 3)) for domain in self._columns.values()) * len(self.radii)

    @property
    def vc_dimension(self) -> int:
        return max(1, self.size.bit_length() - 1)

    def decode(self, hypothesis: int, label: str = "1") -> Near:
        centres = list(product(*(range(0, domain.size, 3) for domain in self._columns.values())))
        place, radius = divmod(self.checked(hypothesis), len(self.radii))
        return Near(self._columns, centres[place], self.radii[radius], label)

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        rules = [self.decode(h).predict_codes(codes) for h in range(first, last)]
        return np.stack(rules, axis=1).astype(np.uint8)


_BUILD = RULES.pop("near")  # other tests list the package's own rules


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    """The name is known while this file is tested."""
    RULES["near"] = _BUILD
    yield
    del RULES["near"]


AGE, DOSE = pp.Integers(0, 29), pp.Integers(0, 8)
FEATURES: dict[str, Any] = {"age": AGE, "dose": DOSE}
BEST = Near(FEATURES, (12, 3), 4)
"""What labels the people below."""


def rows(n: int = 300) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two columns, a label and who it is, five records each."""
    rng = np.random.default_rng(3)
    X = np.stack([rng.integers(0, 30, 5 * n), rng.integers(0, 9, 5 * n)], axis=1)
    return X, BEST.predict(X), np.repeat(np.arange(n), 5)


def people(n: int = 300) -> pp.UserData:
    return pp.UserData.from_arrays(*rows(n), features=FEATURES)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    X, y, ids = rows()
    lines = [f"{who},{age},{dose},{label}" for (age, dose), label, who in zip(X.tolist(), y, ids)]
    path = tmp_path / "people.csv"
    path.write_text("who,age,dose,ill\n" + "\n".join(lines) + "\n")
    return path


WORDS = ("-f", "age=0:29", "-f", "dose=0:8")


def run(*words: object) -> str:
    load_commands([str(word) for word in words])
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_it_is_folded_as_defined() -> None:
    concept, users = Balls(FEATURES), people(40)
    profile = concept.profile(users, Mean(60))
    assert users.labels is not None
    wrong = np.add.reduceat(concept.table(users.codes, 0, concept.size) != users.labels[:, None], users.offsets[:-1])
    scores = (60 * (wrong - wrong.min(axis=1, keepdims=True)) // users.sizes[:, None]).sum(axis=0)
    assert [profile.score(h) for h in range(concept.size)] == scores.tolist()
    assert concept.decode(concept.erm(users)) == BEST


def test_it_is_learned_by_class_and_by_name() -> None:
    users = people()
    for rule in (Balls(), Balls(FEATURES), rule_class("near", FEATURES)):
        released = pp.learn(users, rule, epsilon=60)
        assert str(released.value) == "1 when it is within 4 of age 12, dose 3"
        assert released.guarantee is not None
    assert name_of(Balls(FEATURES)) == "near"


def test_it_is_planned() -> None:
    plan = pp.plan(Balls(FEATURES), epsilon=1, alpha="0.1", records_per_user=5)
    assert [row for row in plan.rows if row.kind == "certified"]
    assert str(plan) == str(pp.plan("near", features=FEATURES, epsilon=1, alpha="0.1", records_per_user=5))


def test_it_is_evaluated() -> None:
    users = people()
    assert pp.evaluate(BEST, users, epsilon=5).value.error.sample.hi < 0.05
    found = pp.evaluate(pp.learn(users, Balls(), epsilon=60), users, epsilon=5, same_people=True)
    assert found.value.error.sample.hi < 0.05


def test_it_is_audited() -> None:
    small = Balls({"age": pp.Integers(0, 3), "dose": pp.Integers(0, 1)})
    audit = pp.audit(pp.RegretSelection(small, 1, statistic="mean"), n_users=1, records=1)
    assert audit.holds
    assert not pp.audit(pp.RegretSelection(small, 1, statistic="mean"), n_users=1, records=1, epsilon="0.01").holds


def test_it_is_saved_loaded_drawn_and_reported(tmp_path: Path) -> None:
    released = pp.learn(people(), Balls(), epsilon=60)
    released.save(tmp_path / "rule.json")
    again = pp.load(tmp_path / "rule.json")
    assert again.value == released.value == BEST
    assert again.value.predict([[12, 3], [0, 0]]).tolist() == [1, 0]
    again.value.plot().save(tmp_path / "rule.svg")
    assert "<svg" in (tmp_path / "rule.svg").read_text()
    page = report_html(again, Balls(FEATURES))
    assert "within 4 of age 12, dose 3" in page
    assert "<svg" in page
    assert "certified" in page


def test_the_estimator_takes_it() -> None:
    X, y, ids = rows()
    model = PrivateRuleClassifier(rule="near", epsilon=60, domains=[AGE, DOSE]).fit(X, y, groups=ids)
    assert model.predict(np.array([[12, 3], [29, 8]])).tolist() == [1, 0]


def test_the_command_line_takes_it(table: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "rule.json", tmp_path / "rule.html"
    declared = (table, "--user", "who", "--label", "ill", *WORDS)
    said = run("learn", *declared, "--rule", "near", "-e", 60, "--out", out, "--report", page)
    assert "ill when it is within 4 of age 12, dose 3" in said
    assert pp.load(out).value == Near(FEATURES, (12, 3), 4, "ill")
    assert "<svg" in page.read_text()
    planned = json.loads(run("plan", "near", *WORDS, "-e", 1, "--alpha", "0.1", "-m", 5, "--json"))
    assert planned["rows"]
    measured = json.loads(run("evaluate", out, *declared[:5], "-e", 5, "--same-people", "--json"))
    assert measured
    small = ("-f", "age=0:2", "-f", "dose=0:1")
    assert "Decided exactly" in run("audit", "--rule", "near", *small, "-e", 1, "--people", 1, "--records", 1)


def test_a_name_is_given_to_one_class() -> None:
    with pytest.raises(ParameterError, match="taken"):

        class Others(EnumeratedClass):
            rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"near": {}}

    assert RULES["near"](FEATURES) == Balls(FEATURES)
