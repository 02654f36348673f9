"""Trimming and agreement through every door, and "nothing was released" as an ordinary result."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.agreement.tasks import KINDS, Task
from privpac.errors import NoReleaseError, ParameterError
from privpac.learners.agreement.classes import AgreedRules
from privpac.sklearn import PrivateRuleClassifier

RNG = np.random.default_rng(4)


def _agreeing(users: int = 80, records: int = 200) -> tuple[pl.DataFrame, np.ndarray]:  # type: ignore[type-arg]
    n = users * records
    frame = pl.DataFrame({"a": RNG.integers(0, 2, n), "b": RNG.integers(0, 2, n), "c": RNG.integers(0, 2, n)})
    frame = frame.with_columns(
        y=((pl.col("a") == 1) & (pl.col("b") == 0)).cast(pl.Int64), who=pl.Series(np.repeat(np.arange(users), records))
    )
    return frame, frame["y"].to_numpy()


@pytest.mark.parametrize("rule", ["conjunction", "decision-list", "halfspace", "naive-bayes", "stump"])
def test_agreement_learns_every_kind_through_the_estimator(rule: str) -> None:
    frame, y = _agreeing()
    bits = {name: pp.Integers(0, 1) for name in "abc"}
    model = PrivateRuleClassifier(rule=rule, method="agreement", epsilon=8, delta="1e-6", domains=bits)
    model.fit(frame.select("a", "b", "c"), y, groups=frame["who"])
    assert str(model.guarantee_) == "(8, 1e-06)-DP per user, add-remove"
    right = float(np.mean(model.predict(frame.select("a", "b", "c")) == y))
    # A conjunction of two columns: every kind but one cut says it exactly; one cut is right on three quarters.  Naive
    # Bayes makes no promise (its item holds all counts, so people seldom agree): what it may not do is leave its class
    # or its default.
    if rule != "naive-bayes":
        assert model.released_.outcome == "released"
        assert right >= (0.7 if rule == "stump" else 0.95)
    elif model.released_.outcome == "default":
        assert not model.predict(frame.select("a", "b", "c")).any()


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_default_says_never_where_the_class_can(kind: str, columns: int) -> None:
    sizes = (
        (5,)
        if kind in ("threshold", "threshold-below", "point")
        else (3, 2, 4)[:columns]
        if kind == "naive-bayes"
        else (2,) * columns
    )
    task = Task(kind, sizes)
    rule = task.learner.decode(task.default)
    assert rule is not None
    said = rule.predict(np.array(list(product(*map(range, sizes)))))
    assert said.sum() == (1 if kind == "point" else 0)


def test_agreement_by_name_and_its_limits() -> None:
    frame, _ = _agreeing(20, 50)
    data = pp.UserData.from_frame(frame, user="who", features={name: pp.Integers(0, 1) for name in "abc"}, label="y")
    released = pp.learn(data, AgreedRules("naive-bayes", ["a", "b", "c"]), epsilon=4, delta="1e-6", method="agreement")
    assert pp.Released.from_json(released.to_json()).hypothesis == released.hypothesis
    with pytest.raises(ParameterError, match="not AgreedRules; use the method 'agreement'"):
        pp.learn(data, AgreedRules("naive-bayes", ["a", "b", "c"]), epsilon=1)
    with pytest.raises(pp.errors.TooLargeError, match="agreement"):
        pp.RegretSelection(AgreedRules("naive-bayes", ["a", "b", "c"]), epsilon=1)
    with pytest.raises(ParameterError, match=r"'agreement' learns .* not Rectangles; use one of"):
        pp.learn(data, pp.Rectangles({name: pp.Integers(0, 1) for name in "abc"}), epsilon=1, method="agreement")


def _differing(users: int = 400) -> pl.DataFrame:
    """Half of the users follow one cut, half another: the trimmed test almost surely refuses."""
    x = np.tile(np.repeat(np.arange(10), 20), users)
    who = np.repeat(np.arange(users), 200)
    return pl.DataFrame({"who": who, "x": x, "y": (x > np.where(who % 2, 1, 8)).astype(int)})


def test_nothing_is_an_ordinary_result_of_the_estimator() -> None:
    frame = _differing()
    model = PrivateRuleClassifier(
        rule="threshold",
        method="trimmed",
        epsilon=1,
        delta="1e-9",
        neighbours="replace",
        records_per_user=200,
        domains=[pp.Integers(0, 9)],
    )
    model.fit(frame.select("x"), frame["y"], groups=frame["who"])
    assert model.released_.outcome == "none"
    with pytest.raises(NoReleaseError):
        model.predict(frame.select("x"))


def test_nothing_has_its_exit_code_and_a_report(tmp_path: Path, command: Command) -> None:
    table, report = tmp_path / "t.parquet", tmp_path / "r.html"
    _differing().write_parquet(table)
    words = [
        "learn",
        str(table),
        "--user",
        "who",
        "--label",
        "y",
        "--feature",
        "x=0:9",
        "--epsilon",
        "1",
        "--method",
        "trimmed",
    ]
    words += ["--delta", "1e-9", "--neighbours", "replace", "-m", "200", "--json", "--report", str(report)]
    done = command(*words)
    assert done.code == 3
    assert json.loads(done.out)["outcome"] == "none"
    assert "No rule was released" in report.read_text()


def test_a_missing_delta_is_said_before_the_file_is_read(tmp_path: Path, command: Command) -> None:
    words = [
        "learn",
        str(tmp_path / "none.csv"),
        "--user",
        "who",
        "--label",
        "y",
        "--feature",
        "x=0:9",
        "--epsilon",
        "1",
    ]
    done = command(*words, "--method", "trimmed", "--neighbours", "replace", "-m", "10")
    assert done.code == 2
    assert "needs delta" in done.err
    with pytest.raises(ParameterError, match="delta"):
        PrivateRuleClassifier(delta="1e-6").fit([[1.0], [2.0]], [0, 1], groups=[1, 2])
