"""The papers' tables: numbers are those of the certified bounds, orders stay orders, and bad numbers are refused."""

from __future__ import annotations

import json
from fractions import Fraction
from math import log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.distributions.selection.accuracy import plan_pairwise
from privpac.errors import ParameterError
from privpac.exact import dyadic_base
from privpac.mechanisms.release_test import smallest_K
from privpac.mechanisms.votes import PureSelection, StableHistogram
from privpac.methods.agreement.plurality import CLEAR, users_plurality
from privpac.methods.realizable import plan_realizable
from privpac.papers.rates import TABLES, table

NAMES = sorted(TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_a_cell_for_every_column_and_can_be_saved(name: str) -> None:
    found = pp.bounds.table(name)
    assert isinstance(found, pp.bounds.RateTable)
    assert all(len(row.cells) == len(found.columns) for row in found.rows)
    saved = json.loads(json.dumps(found.to_dict()))
    assert [row["problem"] for row in saved["rows"]] == [row.problem for row in found.rows]
    text = str(found)
    for row in found.rows:
        assert row.problem.split()[0] in text
    with pytest.raises(AttributeError):
        found.name = "x"


def test_numbers_are_those_of_the_certified_bounds() -> None:
    found = table("002-1", epsilon="0.5", alpha="0.2", beta="0.1", size=1000, records_per_user=8, neighbours="replace")
    goal: dict[str, Any] = {"log_size": log(1000), "epsilon": "0.5", "beta": "0.1", "neighbours": "replace"}
    cell = found.cell("PAC learning", "user level, the paper")
    assert cell.users == plan_realizable(alpha="0.2", records_per_user=8, **goal).n_users
    assert (
        found.cell("PAC learning", "item level (m = 1)").users
        == plan_realizable(alpha="0.2", records_per_user=1, **goal).n_users
    )
    cell = found.cell("agnostic PAC learning", "user level, the paper")
    assert cell.users == plan_pairwise(alpha1="0.2", records_per_user=8, **goal).n_users


@pytest.mark.parametrize(("neighbours", "plural", "stable"), [("add-remove", 18, 47), ("replace", 32, 81)])
def test_agreement_needs_the_users_of_its_own_mechanisms(neighbours: str, plural: int, stable: int) -> None:
    found = table("004-1", epsilon=1, delta="1e-6", beta="0.1", size=1024, neighbours=neighbours)
    assert found.cell("ε-DP, central", "users").users == plural
    assert found.cell("(ε, δ)-DP, central", "users").users == stable
    assert found.cell("ε-DP, local", "users").users == 886
    # The selectors' own rational bases give the same numbers.
    base = 1 / PureSelection(1, universe=1024, neighbours=neighbours).q
    assert users_plurality(base, 1024, beta="0.1", clear=CLEAR).n_users == plural
    from privpac.methods.agreement.plurality import users_histogram

    assert (
        users_histogram(StableHistogram(1, delta="1e-6", neighbours=neighbours).K, beta="0.1", named=2).n_users
        == stable
    )


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["000-1", "002-1", "004-1"]),
    st.sampled_from(["1/4", "1", "3"]),
    st.sampled_from(["0.05", "0.2"]),
    st.sampled_from([1, 4, 64]),
    st.sampled_from([2, 100, 2**40]),
    st.sampled_from(["add-remove", "replace"]),
)
def test_no_lower_bound_exceeds_an_upper_bound(
    name: str, epsilon: str, alpha: str, m: int, size: int, neighbours: str
) -> None:
    found = table(name, epsilon=epsilon, alpha=alpha, records_per_user=m, size=size, neighbours=neighbours)
    top = "users" if name == "004-1" else found.columns[2]
    for row in found.rows:
        low, high = found.cell(row.problem, "lower bound").users, found.cell(row.problem, top).users
        assert low is None or high is None or low <= high, row.problem
    if name == "000-1":
        item = found.cell("any class, item level", "the paper").users
        assert item is not None
        assert (found.cell("any class, item level", "lower bound").users or 0) <= item


def test_what_has_no_constants_is_order_only() -> None:
    found = table("002-2")
    cell = found.cell("discrete distribution", "user level, the paper")
    assert cell.users is None
    assert "order only" in cell.words()
    ladder = smallest_K(dyadic_base(Fraction(1, 3)), Fraction(1, 2 * 10**6))
    numbered = table("002-2", ladder=ladder).cell("discrete distribution", "user level, the paper")
    assert numbered.users is not None
    assert "literal" in numbered.source
    assert found.cell("PAC learning", "item level").words() == "order only"


def test_a_row_that_needs_delta_says_so() -> None:
    cell = table("004-1", delta=0).cell("(ε, δ)-DP, central", "users")
    assert cell.certificate is None
    assert "delta" in cell.words()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": "003-1"}, ParameterError),
        ({"name": 3}, ParameterError),
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": float("nan")}, ParameterError),
        ({"epsilon": "1e9"}, ParameterError),
        ({"delta": 1}, ParameterError),
        ({"alpha": "1/2"}, ParameterError),
        ({"beta": -1}, ParameterError),
        ({"records_per_user": 0}, ParameterError),
        ({"records_per_user": 1.5}, TypeError),
        ({"size": 1}, ParameterError),
        ({"size": 1 << 600}, ParameterError),
        ({"vc": 0}, ParameterError),
        ({"categories": 1}, ParameterError),
        ({"dimension": True}, TypeError),
        ({"spread": "1/2"}, ParameterError),
        ({"neighbours": "swap"}, ParameterError),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__,
)
def test_bad_numbers_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        table(**{"name": "002-1", **change})


def test_unknown_cells_are_refused() -> None:
    found = table("004-1")
    with pytest.raises(ParameterError, match="no such cell"):
        found.cell("halfspaces", "users")
    with pytest.raises(ParameterError, match="no such cell"):
        found.cell("ε-DP, local", "price")
