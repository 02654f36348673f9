"""Work per client is bounded from public numbers, and a manifest that asks for more is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privpac.data import Integers
from privpac.device.tasks import KINDS, MOST_EACH, MOST_FIXED, Task, check_work, work_of
from privpac.errors import ManifestError, ParameterError, TooLargeError
from privpac.protocols import LocalProtocol, Manifest


def columns(count: int) -> dict[str, Integers]:
    return {f"c{i}": Integers(0, 1) for i in range(count)}


def test_a_halfspace_of_127_columns_is_refused_by_protocol_and_client() -> None:
    """It took over 90 s on a device."""
    with pytest.raises(ParameterError, match="compute too long"):
        LocalProtocol("halfspace", columns(127), 1)
    small = LocalProtocol("halfspace", columns(5), 1).manifest
    values: dict[str, Any] = json.loads(small.write())
    values["features"] = [{"name": f"c{i}", "lo": 0, "hi": 1} for i in range(127)]
    values["default"] = ""
    with pytest.raises(ManifestError, match="compute too long"):
        Manifest(values)


def test_certified_queries_are_refused_where_no_device_could_ask_them() -> None:
    with pytest.raises(TooLargeError, match="without a certificate"):
        check_work(Task("halfspace", (2,) * 8, (("alpha", "1/10"), ("learner", "queries"))))
    check_work(Task("decision-list", (2,) * 8, (("alpha", "1/10"), ("learner", "queries"))))


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_tasks_are_far_below_the_limits(kind: str) -> None:
    one = kind in ("threshold", "threshold-below", "point", "hashed-point")
    sizes = (1 << 64,) if one else (1 << 53,) if kind == "interval" else (2,) * 10
    work = work_of(Task(kind, sizes).learner)
    assert 0 < work.fixed <= MOST_FIXED / 8
    assert 0 < work.each <= MOST_EACH / 8


def test_work_grows_with_columns() -> None:
    for kind in ("halfspace", "decision-list", "naive-bayes", "stump"):
        found = [work_of(Task(kind, (2,) * d).learner) for d in (2, 8, 32)]
        assert found == sorted(found)
