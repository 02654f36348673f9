"""A type of column defined outside the package, in one class, works wherever a column is declared, read or shown."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from attrs import frozen
from typer.testing import CliRunner

import privpac as pp
from privpac.data import Domain, TableSpec
from privpac.data.domains import domain_text, parse_domain, parse_feature
from privpac.data.encode import Ladder, by_distinct_text, on_ladder
from privpac.data.schema import Encoded, Verdict
from privpac.errors import ParameterError


@frozen(slots=False)
class Currency(Domain):
    """Amounts of money from ``lo`` to ``hi`` cents, written ``€ 12.50``."""

    lo: int
    hi: int
    sign: str = "€"
    kind: ClassVar[str] = "currency"
    syntax: ClassVar[str] = "€lo:hi (amounts)"
    numeric: ClassVar[bool] = True
    _off: ClassVar[str] = "fractions of a cent"
    _unread: ClassVar[str] = "not an amount"

    @property
    def size(self) -> int:
        return self.hi - self.lo + 1

    @property
    def line(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.lo, 100), Fraction(1, 100)

    def describe(self) -> str:
        return f"amounts {self.text(0)}..{self.text(self.size - 1)}"

    def value(self, code: int) -> Decimal:
        return Decimal(self.lo + self._check(code)).scaleb(-2)

    def text(self, code: int) -> str:
        return f"{self.sign} {self.value(code):.2f}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lo": self.lo, "hi": self.hi, "sign": self.sign}

    @classmethod
    def from_text(cls, body: str) -> Currency | None:
        found = re.fullmatch(r"([€$£])(\d+):(\d+)", body)
        return None if found is None else cls(100 * int(found[2]), 100 * int(found[3]), found[1])

    def to_text(self) -> str:
        return f"{self.sign}{self.lo // 100}:{self.hi // 100}"

    @classmethod
    def suggest(cls, name: str, stored: pl.DataType | None) -> tuple[Domain, str] | None:
        return (cls(0, 100_000), "an amount, by its name") if name.endswith("_eur") else None

    @classmethod
    def spanning(cls, values: pl.Series) -> Currency | None:
        if values.dtype != pl.String or not values.str.contains(r"^€ \d+\.\d\d$").all():
            return None
        cents = sorted(int(text.removeprefix("€ ").replace(".", "")) for text in values.to_list())
        return cls(cents[0], cents[-1])

    def read_typed(self, series: pl.Series, name: str) -> Encoded:
        ladder = Ladder(self.lo, 1, 2, self.size)
        if series.dtype != pl.String:
            return on_ladder(series, ladder, name)

        def read(text: str) -> tuple[int, Verdict]:
            found = re.fullmatch(rf"{re.escape(self.sign)}?\s?(-?\d+(\.\d+)?)", text.strip())
            return (0, Verdict.UNREAD) if found is None else ladder.place(Fraction(found[1]))

        return by_distinct_text(series, read)


PRICE = Currency(0, 5000)
RNG = np.random.default_rng(7)
CENTS = RNG.integers(0, 5001, 4000)
TABLE = pl.DataFrame(
    {
        "who": np.repeat(np.arange(1000), 4),
        "price_eur": [f"€ {cents / 100:.2f}" for cents in CENTS],
        "returned": (CENTS > 3000).astype(int),
    }
)
SPEC = TableSpec("who", {"price_eur": PRICE}, "returned")
PEOPLE = pp.UserData.from_frame(TABLE, SPEC)
RULE = pp.learn(PEOPLE, epsilon=8)


def threshold(rule: Any) -> Decimal:
    found = re.search(r"price_eur (?:>=?|<=?) € (\d+\.\d\d)", str(rule))
    assert found is not None, str(rule)
    return Decimal(found[1])


def command(*words: object) -> str:
    from privpac.cli.app import app
    from privpac.cli.commands import load_commands

    load_commands([str(words[0])])
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


def test_values_are_read_as_texts_and_as_numbers_from_frames_and_files(tmp_path: Path) -> None:
    assert PEOPLE.codes["price_eur"].tolist() == CENTS.tolist()
    TABLE.write_csv(tmp_path / "t.csv")
    TABLE.write_parquet(tmp_path / "t.parquet")
    TABLE.with_columns(price_eur=pl.Series(CENTS / 100)).write_parquet(tmp_path / "numbers.parquet")
    for name in ("t.csv", "t.parquet", "numbers.parquet"):
        assert pp.UserData.read(tmp_path / name, SPEC).to_lists() == PEOPLE.to_lists(), name
    streamed = pp.scan(tmp_path / "t.parquet", SPEC, chunk_rows=500)
    assert streamed.check().records_kept == len(CENTS)
    mixed = pp.UserData.from_users([[("€ 1.50", 0), (Decimal("2.25"), 1), (3, 1)]], features={"p": PRICE})
    assert mixed.codes["p"].tolist() == [150, 225, 300]


def test_bad_values_are_counted_and_repaired_as_in_other_columns() -> None:
    odd = pl.DataFrame({"who": [1, 2, 3, 4], "price_eur": ["€ 1.00", "€ 70.00", "€ 1.005", "cheap"], "returned": 0})
    found = pp.check(odd, SPEC)
    assert [(fault.reason, fault.records) for fault in found.columns] == [
        ("outside amounts € 0.00..€ 50.00", 1),
        ("fractions of a cent", 1),
        ("not an amount", 1),
    ]
    clamped = pp.UserData.from_frame(
        odd, user="who", features={"price_eur": PRICE}, label="returned", on_invalid="clamp"
    )
    assert clamped.codes["price_eur"].tolist() == [100, 5000, 100]
    own = pp.Missing(PRICE, "own")
    assert own.encode(["€ 0.10", None])[0].tolist() == [10, 5001]


def test_rules_are_learned_saved_evaluated_and_reported_in_the_column_s_own_words(tmp_path: Path) -> None:
    assert abs(threshold(RULE) - 30) <= 1
    RULE.save(tmp_path / "rule.json")
    kept = pp.load(tmp_path / "rule.json")
    assert kept.value == RULE.value
    assert kept.predict(pl.DataFrame({"price_eur": ["€ 10.00", "€ 45.00"]})).tolist() == [0, 1]
    measured = pp.evaluate(kept, PEOPLE, epsilon=4, same_people=True)
    assert measured.value.error.value < 0.1
    RULE.report(tmp_path / "rule.html")
    assert f"€ {threshold(RULE):.2f}" in (tmp_path / "rule.html").read_text()
    tree = pp.learn(PEOPLE, pp.SmallTrees({"price_eur": PRICE}), epsilon=8)
    assert "€" in str(tree)
    assert pp.learn(PEOPLE, pp.Halfspaces({"price_eur": PRICE}, weights=(0, 1)), epsilon=1).guarantee.epsilon == 1


def test_plans_and_distributions_know_its_numbers() -> None:
    planned = pp.plan("threshold", features={"price_eur": PRICE}, epsilon=1)
    assert "people" in str(planned)
    middle = pp.quantile(PEOPLE, "price_eur", epsilon=4)
    assert str(middle.value.values[0]).startswith(("24", "25", "26"))
    mean = pp.learn_distribution(PEOPLE, "mean", epsilon=4)
    assert abs(float(mean.value.values[0]) - 25) < 2
    bins = pp.learn_distribution(PEOPLE, "histogram", epsilon=4, bins=[0, 10, 20, 30, 40, 50.01])
    assert "price_eur" in str(bins)


def test_it_is_declared_on_the_command_line_and_in_schema_files(tmp_path: Path) -> None:
    assert parse_feature("price_eur=€0:50") == ("price_eur", PRICE)
    assert domain_text(PRICE) == "=€0:50"
    assert parse_domain("€0:50,missing=own") == pp.Missing(PRICE, "own")
    with pytest.raises(ParameterError, match=re.escape("€lo:hi (amounts)")):
        parse_domain("zero to fifty")
    schema = pp.Schema({"price_eur": PRICE}, user="who", label="returned")
    schema.save(tmp_path / "t.toml")
    assert 'price_eur = "€0:50"' in (tmp_path / "t.toml").read_text()
    assert pp.Schema.read(tmp_path / "t.toml") == schema
    TABLE.write_parquet(tmp_path / "t.parquet")
    table, out = tmp_path / "t.parquet", tmp_path / "out.json"
    words = ("--user", "who", "--label", "returned", "--feature", "price_eur=€0:50")
    assert "€" in command("learn", table, *words, "--epsilon", 8, "--out", out, "--report", tmp_path / "out.html")
    assert pp.load(out).value.features["price_eur"] == PRICE
    assert "€" in command("learn", table, "--schema", tmp_path / "t.toml", "--epsilon", 8)
    assert "records" in command("check", table, "--schema", tmp_path / "t.toml")
    assert "people" in command("plan", "threshold", "--feature", "price_eur=€0:50", "--epsilon", 1)
    assert "€" in command("evaluate", out, table, *words[:4], "--epsilon", 4)


def test_it_is_suggested_by_name_and_by_public_values() -> None:
    assert pp.suggest_domains(["who_id", "price_eur", "died"]).columns["price_eur"] == Currency(0, 100_000)
    found = pp.suggest_domains(TABLE, user="who", label="returned", ranges_are_public=True)
    assert found.columns["price_eur"] == Currency(int(CENTS.min()), int(CENTS.max()))


def test_estimators_take_it_as_a_domain() -> None:
    from privpac.sklearn import PrivateRuleClassifier

    model = PrivateRuleClassifier(epsilon=8, domains={"price_eur": PRICE}, classes=[0, 1])
    model.fit(TABLE.select("price_eur").to_pandas(), TABLE["returned"].to_numpy(), groups=TABLE["who"].to_numpy())
    assert abs(threshold(model.rule_) - 30) <= 1
    assert model.predict(pl.DataFrame({"price_eur": ["€ 1.00", "€ 49.00"]}).to_pandas()).tolist() == [0, 1]


def test_audits_and_devices_read_it() -> None:
    learner = pp.RealizableSelection(pp.Thresholds(Currency(100, 102)), 1)
    assert pp.audit(learner, n_users=2, records=1).verdict == "consistent with the claim"
    from privpac.protocols.domains import column_of

    column = column_of("price_eur", PRICE)
    assert [column.code(value) for value in ("12.50", 50, "60")] == [1250, 5000, -1]
