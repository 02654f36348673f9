"""Plans are pure functions of public numbers; they fall with records per user, rise with the class, and refuse bad
numbers clearly."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import privpac as pp
from privpac.bounds import certify_regret_agnostic
from privpac.errors import ParameterError
from privpac.planning import Plan, plan
from privpac.rules.profile import DEFAULT_LEVELS, ClipRule

CLASS = pp.Thresholds(pp.Integers(0, 1023))


@pytest.fixture(scope="module")
def default() -> Plan:
    return plan(CLASS, epsilon=1)


def numbers(planned: Plan, method: str) -> list[int]:
    found = planned.row(method).n_users
    assert all(n is not None for n in found)
    return [n for n in found if n is not None]


def test_standard_scenarios_are_planned_for_when_none_is_declared(default: Plan) -> None:
    assert default.records_per_user == (1, 4, 16, 64, 256)
    assert default.target == {"epsilon": "1", "alpha": "0.05", "beta": "0.05", "neighbours": "add-remove"}


def test_users_needed_fall_with_records_per_user(default: Plan) -> None:
    for row in default.rows:
        found = numbers(default, row.method)
        assert found[0] > found[-1]
    assert numbers(default, "realizable selection") == sorted(numbers(default, "realizable selection"), reverse=True)


def test_no_certified_number_is_below_the_lower_bound(default: Plan) -> None:
    for row in default.rows:
        if row.kind == "certified":
            who = "realizable" if row.method == "realizable selection" else "agnostic"
            assert all(
                n >= low for n, low in zip(numbers(default, row.method), numbers(default, f"any private {who} learner"))
            )
    assert {row.method for row in default.rows if row.kind == "lower bound"} == {
        f"any private {who} learner" for who in ("realizable", "agnostic")
    }


def test_larger_classes_smaller_epsilon_and_replace_need_more_users(default: Plan) -> None:
    for harder in (
        plan(pp.Thresholds(pp.Floats()), epsilon=1, records_per_user=16),
        plan(CLASS, epsilon="1/10", records_per_user=16),
        plan(CLASS, epsilon=1, records_per_user=16, alpha="0.02"),
        plan(CLASS, epsilon=1, records_per_user=16, beta="0.001"),
        plan(CLASS, epsilon=1, records_per_user=16, neighbours="replace"),
    ):
        for method in ("realizable selection", "regret selection", "per-user mean"):
            assert numbers(harder, method)[0] > numbers(default, method)[2]


def test_a_larger_epsilon_never_certifies_nothing_where_a_smaller_one_did() -> None:
    """The certificate of a smaller rate holds for the larger one too."""
    weak, strong = (
        numbers(plan(CLASS, epsilon=eps, records_per_user=(1, 4), setting="agnostic"), "per-user mean")
        for eps in (1, 40)
    )
    assert all(b <= a for a, b in zip(weak, strong))


def test_the_planned_number_certifies_the_clip_that_the_learner_itself_uses(default: Plan) -> None:
    for m, n in zip(default.records_per_user, numbers(default, "regret selection")):
        tau = ClipRule(Fraction(1), n, CLASS.bits)(m)
        certificate = certify_regret_agnostic(
            records_per_user=m,
            tau=tau,
            theta=1,
            log_size=CLASS.log_size,
            alpha="0.05",
            beta="0.05",
            levels=DEFAULT_LEVELS,
        )
        assert certificate.n_users is not None
        assert certificate.n_users <= n
    assert "public_n_users" in default.row("regret selection").assumption


def test_bounded_noise_certifies_fewer_users_on_a_line_only() -> None:
    line = plan(CLASS, epsilon=1, records_per_user=16, noise="0.1", setting="agnostic")
    assert numbers(line, "regret selection, bounded noise")[0] < numbers(line, "regret selection")[0]
    assert line.target["noise"] == "0.1"
    points = plan(pp.Points(pp.Integers(0, 9)), epsilon=1, records_per_user=16, noise="0.1", setting="agnostic")
    with pytest.raises(ParameterError, match="no method"):
        points.row("regret selection, bounded noise")


def test_setting_restricts_the_rows() -> None:
    rows = plan(CLASS, epsilon=1, records_per_user=4, setting="realizable").rows
    assert [row.method for row in rows] == ["realizable selection", "any private realizable learner"]
    agnostic = plan(CLASS, epsilon=1, records_per_user=4, setting="agnostic")
    assert not any("realizable" in row.method for row in agnostic.rows)


def test_a_bound_out_of_reach_leaves_its_row_open_and_says_why() -> None:
    far = plan(CLASS, epsilon="1e-9", records_per_user=(1, 10**6), every_method=True)
    least = far.row("any private agnostic learner")
    assert min(c.n_users for c in least.certificates if c and c.n_users) > 10**8  # one of the bounds is always there
    realizable = far.row("realizable selection")
    assert realizable.certificates[0] is not None
    assert realizable.certificates[0].n_users is not None
    assert realizable.certificates[1] is None
    assert "not computed for 1000000 records" in realizable.words()
    assert "assumes" in realizable.words()
    # A number that nobody has is not printed: the row says so, in every form.
    reason = 'not within 10^9 people with 1 record each; why: docs/choosing.md, "Numbers that nobody has"'
    assert realizable.n_users == (None, None)
    assert realizable.cells() == ["> 10^9", "-"]
    assert realizable.reason == reason
    assert reason in realizable.words()
    assert reason in " ".join(str(far).split())
    shown = next(row for row in far.to_dict(predict=False)["rows"] if row["method"] == "realizable selection")
    assert (shown["n_users"], shown["reason"]) == ([None, None], reason)
    assert "reason" not in plan(CLASS, epsilon=1, records_per_user=1).rows[0].to_dict()


def test_plan_reads_well_and_survives_json(default: Plan) -> None:
    text = str(plan(CLASS, epsilon=1, every_method=True))
    assert "users needed: epsilon 1" in text
    assert "realizable selection: assumes users with at least the declared number of records" in text
    assert all(line == line.rstrip() for line in (text + str(default)).splitlines())
    back = json.loads(json.dumps(default.to_dict()))
    assert back["rows"][0]["n_users"] == list(default.rows[0].n_users)
    assert back["records_per_user"] == [1, 4, 16, 64, 256]


def test_a_plan_begins_with_one_sentence_and_shows_at_most_four_rows(default: Plan) -> None:
    text = str(default)
    certified, lower = (
        default.row("hybrid selection").n_users[2],
        default.row("any private agnostic learner").n_users[2],
    )
    typical = next(row for row in default.predicted if row.method == "hybrid selection").n_users[2]
    answer = default.answer()
    assert " ".join(text.split()).startswith(answer)
    assert answer == (
        f"About {typical} people with 16 records each are typical; {certified:,} are certain, whatever they are like "
        f"under the assumption below; with fewer than {lower} no method can be certain. Enough means excess error at "
        "most 0.05; certain means with probability 0.95."
    )
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert [line.split("│")[1].strip() for line in rows] == [
        "typical, hybrid selection",
        "certified, hybrid selection",
        "certified, per-user mean",
        "with fewer, no method is certain",
    ]
    assert "hybrid selection: assumes users with the same law" in text
    assert "--all, or every_method=True" in text
    assert default.to_dict()["answer"] == answer
    # The same numbers stand in the table of all rows.
    full = plan(CLASS, epsilon=1, every_method=True)
    assert "realizable selection" in str(full)
    assert "realizable selection" not in text
    assert full.row("hybrid selection") == default.row("hybrid selection")


def test_the_answer_follows_the_question() -> None:
    least = plan(CLASS, epsilon=1, n_users=500, records_per_user=1)
    assert least.answer(predict=False) == (
        "500 people with 1 record each: excess error at most 0.198 is certain, whatever they are like under the "
        "assumption below; no method can be certain of less than 0.0734. Certain means with probability 0.95."
    )
    clean = plan(CLASS, epsilon=1, records_per_user=1, setting="realizable").answer(predict=False)
    assert "are certain, if some rule is always right" in clean
    nothing = plan(CLASS, epsilon="1e-9", records_per_user=1)
    assert nothing.answer(predict=False).startswith("No number of people is certified")
    assert "certified, " not in str(nothing.table(predict=False).columns[0]._cells)  # no row that nobody can meet


def test_a_plan_takes_what_learn_takes_and_reads_the_declaration_alone() -> None:
    class Sealed:
        """A table that cannot be read."""

        columns = ("who", "x", "late")

        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"the table was read: {name}")

    told: dict[str, Any] = {"epsilon": 1, "records_per_user": 16}
    declared = told | {"user": "who", "label": "late", "features": {"x": pp.Integers(0, 1023)}}
    both = plan(pp.Thresholds(pp.Integers(0, 1023), direction="both"), **told)  # what learn takes for one column
    people = pp.UserData.from_users([[(3, 0), (8, 1)]], features={"x": pp.Integers(0, 1023)})
    for table in (Sealed(), "nowhere.csv", Path("nowhere.parquet")):
        assert plan(table, **declared).rows == both.rows
        assert plan(table, "threshold", **declared).rows == plan(CLASS, **told).rows
    assert plan(people, **told).rows == both.rows
    assert plan(people, pp.Thresholds(), **told).rows == plan(CLASS, **told).rows
    wide = plan("nowhere.csv", **declared | {"features": {f"x{i}": pp.Integers(0, 9) for i in range(6)}})
    assert "small tree" in {row.method for row in wide.rows}
    refused: tuple[tuple[tuple[tuple[Any, ...], dict[str, Any]], str], ...] = (
        ((("nowhere.csv",), told), "declare its columns"),
        (((people,), declared), "their columns already"),
        (((CLASS,), told | {"user": "who"}), "go with a table"),
        ((("threshhold",), told | {"features": {"x": pp.Integers(0, 9)}}), "rule must be one of"),
        ((("nowhere.csv",), declared | {"label": "x"}), "two roles"),
    )
    for bad, said in refused:
        with pytest.raises(ParameterError, match=said):
            plan(*bad[0], **bad[1])


def test_every_class_by_name_has_a_realizable_plan() -> None:
    from privpac.rules.named import RULES, rule_class

    yes_no = {"a": pp.Integers(0, 1), "b": pp.Categories(["no", "yes"], ordered=True)}
    for name in set(RULES) - {"scorecard"}:  # a scorecard is measured, not certified
        single = name.startswith("threshold") or name in ("point", "interval")
        columns: dict[str, Any] = {"x": pp.Integers(0, 20)} if single else yes_no
        if name == "halfspace":
            columns = {"a": pp.Integers(0, 9), "b": pp.Grid(0, 1, "0.1")}
        planned = plan(rule_class(name, columns), epsilon=1, records_per_user=8, setting="realizable")
        row = "small tree, some tree is right" if name == "small-tree" else "realizable selection"
        assert 1 <= numbers(planned, row)[0] < 1000, name


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": -1}, ParameterError),
        ({"epsilon": "nan"}, ParameterError),
        ({"epsilon": "one"}, ParameterError),
        ({"epsilon": 201}, ParameterError),
        ({"epsilon": None}, ParameterError),
        ({"alpha": 0}, ParameterError),
        ({"alpha": 1}, ParameterError),
        ({"beta": 0}, ParameterError),
        ({"beta": "2"}, ParameterError),
        ({"noise": "0.5"}, ParameterError),
        ({"noise": -1}, ParameterError),
        ({"records_per_user": 0}, ParameterError),
        ({"records_per_user": []}, ParameterError),
        ({"records_per_user": 1.5}, TypeError),
        ({"records_per_user": "16"}, TypeError),
        ({"records_per_user": True}, TypeError),
        ({"neighbours": "swap"}, ParameterError),
        ({"setting": "easy"}, ParameterError),
        ({"concept": pp.Thresholds()}, ParameterError),
        ({"concept": "threshold"}, ParameterError),
        ({"concept": 7}, TypeError),
        ({"delta": "1e-6"}, ParameterError),
        ({"k": 10}, ParameterError),
        ({"users": "strange"}, ParameterError),
        ({"population": "people"}, TypeError),
        ({"model_noise": "0.5"}, ParameterError),
        ({"model": "cloud"}, ParameterError),
        ({"model": "local", "noise": "0.1"}, ParameterError),
    ],
)
def test_bad_numbers_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"concept": CLASS, "epsilon": 1, "records_per_user": 4} | change
    with pytest.raises(error):
        plan(given.pop("concept"), **given)


def test_shapes_have_names_and_letters() -> None:
    by_name = pp.plan("histogram", bins=12, epsilon=1, records_per_user=4).rows
    assert by_name == pp.plan("histogram", k=12, epsilon=1, records_per_user=4).rows
    with pytest.raises(ParameterError, match="two names"):
        pp.plan("histogram", k=12, bins=12, epsilon=1)
