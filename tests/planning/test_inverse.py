"""Inverse plans agree with plans: what is promised is certified, a little less is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from privpac.concepts import Thresholds
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.planning import plan
from privpac.planning.inverse import InversePlan, least_alpha, least_epsilon

CUTS = Thresholds(Integers(0, 1000))


@pytest.mark.parametrize("records", [1, 16])
def test_the_promised_alpha_is_certified_and_a_smaller_one_is_not(records: int) -> None:
    found = least_alpha(CUTS, n_users=800, epsilon=1, records_per_user=records)
    for row in found.rows:
        (value,) = row.values
        assert value is not None
        here = plan(CUTS, epsilon=1, alpha=value, records_per_user=records).row(row.method).n_users[0]
        below = plan(CUTS, epsilon=1, alpha=value * Fraction(9, 10), records_per_user=records).row(row.method).n_users[0]
        if row.kind == "certified":
            assert here is not None
            assert here <= 800
            assert below is None or below > 800
        else:  # a lower bound: at smaller values 800 users are excluded
            assert below is None or below > 800


def test_the_promised_epsilon_is_certified() -> None:
    found = least_epsilon(CUTS, n_users=3000, alpha="0.1", records_per_user=4, setting="realizable")
    (value,) = found.row("realizable selection").values
    assert value is not None
    assert plan(CUTS, epsilon=value, alpha="0.1", records_per_user=4).row("realizable selection").n_users[0] <= 3000


def test_more_users_promise_more() -> None:
    few, many = (least_alpha(CUTS, n_users=n, epsilon=1, records_per_user=4, setting="realizable").rows[0].values[0] for n in (200, 2000))
    assert few is not None
    assert many is not None
    assert many < few


def test_one_function_asks_both_ways() -> None:
    assert isinstance(plan(CUTS, n_users=500, epsilon=1, records_per_user=4, setting="realizable"), InversePlan)
    found = plan(CUTS, n_users=500, alpha="0.1", records_per_user=4, setting="realizable")
    assert isinstance(found, InversePlan)
    assert found.quantity == "epsilon"
    assert "least epsilon" in str(found)
    assert found.to_dict()["rows"][0]["values"][0] > 0
    for wrong in ({"n_users": 500}, {"n_users": 500, "epsilon": 1, "alpha": "0.1"}, {"n_users": 0, "epsilon": 1}, {}):
        with pytest.raises(ParameterError):
            plan(CUTS, **wrong)
    with pytest.raises(ParameterError, match="no method"):
        found.row("magic")


def test_nothing_is_promised_to_nobody() -> None:
    found = least_alpha(Thresholds(Integers(0, 2**60)), n_users=1, epsilon="0.01", records_per_user=1, setting="realizable")
    assert found.rows[0].values == (None,)
