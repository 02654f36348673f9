"""An engine defined outside the package, in one class, gives learners the same users as a table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import duckdb
import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.data import TableSpec, Users
from privpac.data.engines.files import whole_users
from privpac.data.engines.lazy_plan import ChunkedUsers
from privpac.errors import SchemaError

ROWS = 500


class DuckUsers(ChunkedUsers):
    """Users of a relation of DuckDB, which sorts and reads a few hundred rows at a time."""

    TYPES: ClassVar = {"BIGINT": pl.Int64, "DOUBLE": pl.Float64, "VARCHAR": pl.String}

    def __init__(self, relation: duckdb.DuckDBPyRelation, spec: TableSpec) -> None:
        self._relation = relation
        types = {name: self.TYPES[str(kind)] for name, kind in zip(relation.columns, relation.types)}
        super().__init__(*self.start(spec, types))
        self.judge()

    def batches(self, names: Sequence[str], order: str | None = None) -> Iterator[pl.DataFrame]:
        rows = self._relation.project(", ".join(f'"{name}"' for name in names))
        for batch in (rows if order is None else rows.order(f'"{order}"')).to_arrow_reader(ROWS):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame

    def chunks(self) -> Iterator[pl.DataFrame]:
        spec = self._recipe.spec
        if spec.user is None:
            return self.batches(spec.wanted)
        return whole_users(self.batches(spec.wanted, spec.user), spec.user, ROWS, ascending=True)


RNG = np.random.default_rng(3)
AGES = RNG.integers(0, 100, 6000)
TABLE = pl.DataFrame({"who": RNG.integers(0, 900, 6000), "age": AGES, "ill": (AGES > 60).astype(int)})
SPEC = TableSpec("who", {"age": pp.Integers(0, 99)}, "ill")


def stored(table: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    link = duckdb.connect()
    link.execute("CREATE TABLE visits (who BIGINT, age BIGINT, ill BIGINT)")
    link.executemany("INSERT INTO visits VALUES (?, ?, ?)", table.rows())
    return link.table("visits")


@pytest.fixture(scope="module")
def people() -> DuckUsers:
    return DuckUsers(stored(TABLE), SPEC)


def test_laws_are_those_of_the_table_in_memory(people: DuckUsers) -> None:
    memory = pp.UserData.from_frame(TABLE, SPEC)
    learner = pp.RealizableSelection(pp.Thresholds(pp.Integers(0, 99)), 1)

    def same_law(one: Users, other: Users) -> bool:
        here, there = learner.law(one), learner.law(other)
        return here.satisfies(there, 0) and there.satisfies(here, 0)

    assert same_law(people, memory)
    assert same_law(people.max_records(2), memory.max_records(2))
    parts, key = {"learn": "4/5", "evaluate": "1/5"}, bytes(range(32))
    assert same_law(people.split(parts, key=key)["learn"], memory.split(parts, key=key)["learn"])


def test_it_learns_evaluates_and_plans(people: DuckUsers) -> None:
    rule = pp.learn(people, epsilon=8, evaluate="1/5")
    assert abs(float(str(rule).split("age > ")[1].split()[0]) - 60) <= 3
    assert rule.evaluation.error.value < 0.1
    assert pp.evaluate(rule, people, epsilon=4, same_people=True).value.error.value < 0.1
    assert "people" in str(pp.plan("threshold", features=people.features, epsilon=1))
    unbound = DuckUsers(people._relation, TableSpec("who", ["age"], "ill"))
    assert pp.learn(unbound, pp.Thresholds(pp.Integers(0, 99)), epsilon=8).guarantee.summary == rule.guarantee.summary


def test_checks_and_errors_are_those_of_the_table_in_memory() -> None:
    odd = pl.DataFrame({"who": [1, 1, 2, None, 3], "age": [30, None, 200, 5, 40], "ill": [1, 0, 0, 1, 1]})
    relation = stored(odd)
    with pytest.raises(SchemaError) as here:
        DuckUsers(relation, SPEC)
    with pytest.raises(SchemaError) as memory:
        pp.UserData.from_frame(odd, SPEC)
    assert str(here.value) == str(memory.value)
    lenient = TableSpec("who", {"age": pp.Integers(0, 99)}, "ill", on_invalid="drop")
    found = pp.check(DuckUsers(relation, lenient))
    assert str(found) == str(pp.check(pp.UserData.from_frame(odd, lenient)))
    assert found.records_kept == 2
