"""The choice of a method reads public quantities only, and every method can be reached by its name."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import privpac as pp
from privpac.api.learn import learner_for, resolve_method
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import rational
from privpac.methods.registry import METHODS
from privpac.planning import choose_method
from privpac.rules.populations import generated_population, public_population, sampled_population

CUTS = pp.Thresholds(pp.Integers(0, 1440))
PEOPLE = pp.UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": pp.Integers(0, 9)})


def test_nothing_declared_is_the_default() -> None:
    assert choose_method(CUTS, epsilon=1).method == "hybrid"
    assert choose_method(CUTS, epsilon=1, setting="realizable").method == "realizable"
    assert choose_method(CUTS, epsilon=1, public_n_users=100).method == "hybrid"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_where_the_mean_score_always_decides_the_mean_is_named(neighbours: str) -> None:
    """From 100 bits of the class per user of theta on the errors are the same and the certificate of the mean is
    better."""
    enough = 100 * CUTS.bits * (1 if neighbours == "add-remove" else 2)
    common: dict[str, Any] = {"epsilon": 1, "neighbours": neighbours}
    many = choose_method(CUTS, public_n_users=enough, **common)
    assert many.method == "mean"
    assert "certificate of the mean" in many.reason
    assert choose_method(CUTS, public_n_users=enough - 1, **common).method == "hybrid"
    assert choose_method(pp.Thresholds(), public_n_users=10**9, **common).method == "hybrid", (
        "a class without domains has no size"
    )


def test_no_parameter_of_the_choice_can_hold_data() -> None:
    hints = {name: str(parameter.annotation) for name, parameter in inspect.signature(choose_method).parameters.items()}
    assert not [
        name
        for name, hint in hints.items()
        if "UserData" in hint or "Users" in hint or "Any" in hint or "object" in hint
    ]
    assert hints["people"] == "str | None"
    with pytest.raises(ParameterError, match="people must be one of"):
        choose_method(CUTS, epsilon=1, people=PEOPLE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="population must come from"):
        choose_method(CUTS, epsilon=1, public_n_users=3, population=PEOPLE)  # type: ignore[arg-type]


class Touched(Exception):
    """Raised by the first look at the data."""


class Sealed:
    """Data of which only the public unit and the declared domains can be read."""

    unit = "user"
    features: ClassVar[dict[str, Any]] = {}

    def __init__(self, events: list[str]) -> None:
        object.__setattr__(self, "_events", events)

    def fold(self, kernel: Any) -> Any:
        """What tells people from a table; reading it is touching."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("unit", "features", "__class__"):
            return object.__getattribute__(self, name)
        object.__getattribute__(self, "_events").append("touched")
        raise Touched(name)


FACTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "numbers": {"public_n_users": 50, "records_per_user": 16},
    "differ": {"public_n_users": 50, "records_per_user": 16, "people": "differ"},
    "heavy": {"public_n_users": 50, "records_per_user": 16, "people": "heavy"},
    "population": {"public_n_users": 50, "population": generated_population("0.1", records_per_user=4, values=64)},
}


@pytest.mark.parametrize("facts", FACTS)
def test_the_choice_is_made_before_the_data_are_touched(
    facts: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events: list[str] = []

    def chosen(*given: Any, **named: Any) -> Any:
        assert not any(type(value) is Sealed for value in (*given, *named.values()))
        found = resolve_method(*given, **named)
        events.append("chosen")
        return found

    monkeypatch.setattr("privpac.api.learn.resolve_method", chosen)
    sealed: Any = Sealed(events)
    ledger = pp.BudgetLedger(
        tmp_path / "people.ledger", pp.Guarantee(5, unit="user", neighbours="add-remove"), dataset="people"
    )
    before = str(ledger.remaining())
    with pytest.raises(Touched):
        pp.learn(sealed, pp.Thresholds(pp.Integers(0, 63), "x"), epsilon=1, ledger=ledger, **FACTS[facts])
    assert events[0] == "chosen"
    assert events.count("chosen") == 1
    assert str(ledger.remaining()) == before


def test_other_data_do_not_change_the_choice() -> None:
    others = pp.UserData.from_users([[(0, 1)] * 40, [(9, 0)] * 30, []], features={"x": pp.Integers(0, 9)})
    for facts in ("numbers", "differ", "heavy"):
        said = [
            pp.learn(data, pp.Thresholds(), epsilon=1, **FACTS[facts]).parameters["chosen because"]
            for data in (PEOPLE, others)
        ]
        assert said[0] == said[1]


# What is declared about the people


@pytest.mark.parametrize(
    ("users", "method"), [(None, "hybrid"), ("alike", "hybrid"), ("differ", "mean"), ("heavy", "mean")], ids=str
)
def test_the_mean_is_chosen_where_the_declared_people_call_for_it(users: str | None, method: str) -> None:
    choice = choose_method(CUTS, epsilon="1/2", public_n_users=100, records_per_user=16, people=users)
    assert choice.method == method
    compared = r"hybrid \d\.\d{4}, regret \d\.\d{4}, mean \d\.\d{4} \(.*x uniform on 1441 values.*; 100 users\)"
    assert re.search(compared, choice.reason)


def test_with_many_people_who_differ_hybrid_selection_does_as_well_as_the_mean() -> None:
    choice = choose_method(CUTS, epsilon="1/2", public_n_users=400, records_per_user=16, people="differ")
    assert choice.method == "hybrid"
    assert "mean is not clearly better" in choice.reason


@pytest.mark.parametrize(
    "concept",
    [
        pp.Thresholds(pp.Floats()),
        pp.Thresholds(pp.Integers(0, 99), direction="both"),
        pp.Intervals(pp.Integers(0, 63)),
        pp.Conjunctions({name: pp.Integers(0, 1) for name in "abcd"}),
        pp.Halfspaces({"x": pp.Integers(0, 9), "z": pp.Integers(0, 9)}, weights=1),
    ],
    ids=lambda concept: f"{type(concept).__name__}-{getattr(concept, 'direction', '')}",
)
def test_declarations_are_predicted_on_for_other_classes_too(concept: Any) -> None:
    common: dict[str, Any] = {"epsilon": 1, "public_n_users": 30, "records_per_user": 36}
    assert choose_method(concept, **common).method in ("hybrid", "regret")
    differ = choose_method(concept, **common, people="differ")
    assert differ.method != "regret"
    assert "3/4 of the people keep one label" in differ.reason
    assert "predicted excess error" in choose_method(concept, **common, people="heavy").reason


def test_where_methods_score_alike_the_default_stays() -> None:
    many = choose_method(CUTS, epsilon=4, public_n_users=5000, records_per_user=4, people="differ")
    assert many.method == "hybrid"
    assert choose_method(CUTS, epsilon=1, public_n_users=100, records_per_user=1, people="differ").method == "hybrid"


def test_a_declaration_without_a_model_of_the_class_falls_back_on_averages() -> None:
    choice = choose_method(
        pp.Points(pp.Integers(0, 9)), epsilon=1, public_n_users=100, records_per_user=4, people="heavy"
    )
    assert choice.method == "mean"
    assert "no prediction for this class" in choice.reason


def test_a_class_too_large_to_predict_shows_certified_users() -> None:
    wide = pp.Rectangles({"x": pp.Integers(0, 99), "z": pp.Integers(0, 99)}, cuts=32)
    choice = choose_method(wide, epsilon=1, public_n_users=100, records_per_user=4)
    assert choice.method == "hybrid"
    assert "certified users: hybrid" in choice.reason


def test_a_class_that_waits_for_its_columns_gets_the_default() -> None:
    assert choose_method(pp.Stumps(), epsilon=1, public_n_users=100, records_per_user=4).method == "hybrid"
    people = pp.UserData.from_users([[(3, 0), (8, 1)], [(2, 0)]], features={"x": pp.Integers(0, 9)})
    assert pp.learn(people, pp.Stumps(), epsilon=1, public_n_users=2, records_per_user=2)


def test_a_class_that_cannot_be_hashed_is_predicted_too() -> None:
    class Odd(pp.Thresholds):
        __hash__ = None  # type: ignore[assignment]

    choice = choose_method(Odd(pp.Integers(0, 99)), epsilon=1, public_n_users=30, records_per_user=16, people="differ")
    assert choice.method == "mean"


def test_what_is_simulated_of_huge_declarations_is_said() -> None:
    boxes = pp.Rectangles({"x": pp.Integers(0, 15), "z": pp.Integers(0, 15)})
    assert re.search(
        r"; 1814 users\)", choose_method(boxes, epsilon=1, public_n_users=10**9, records_per_user=10**9).reason
    )


def test_learn_runs_what_was_declared() -> None:
    released = pp.learn(PEOPLE, pp.Thresholds(), epsilon="1/2", public_n_users=60, records_per_user=16, people="differ")
    assert released.parameters["statistic"] == "mean"
    assert "keep one label" in str(released.parameters["chosen because"])
    learner: Any = learner_for(CUTS, epsilon="1/2", public_n_users=100, records_per_user=16, people="heavy")
    assert learner.statistic == "mean"
    assert learner_for(CUTS, epsilon=1, method="realizable", people="heavy").guarantee.epsilon == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"people": "clock"}, "'alike' .*'differ' .*'heavy'"),
        ({"people": ""}, "people must be one of"),
        ({"people": 3}, "got 3"),
        ({"people": "differ", "setting": "realizable"}, "exclude each other"),
        ({"people": "differ", "public_n_users": None}, "declare public_n_users and records_per_user"),
        ({"people": "heavy", "records_per_user": None}, "declare public_n_users and records_per_user"),
        ({"records_per_user": 0}, "records_per_user"),
        ({"public_n_users": -1}, "public_n_users"),
        ({"noise": "0.5"}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"neighbours": "near"}, "neighbours"),
    ],
    ids=str,
)
def test_bad_declarations_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        choose_method(CUTS, **{"epsilon": 1, "public_n_users": 100, "records_per_user": 16, **change})


# A population of one's own


LINE = pp.Thresholds(pp.Integers(0, 63), "x")


def keepers(n: int, rng: np.random.Generator) -> pp.UserData:
    """Nine people in ten keep one label."""
    x = rng.integers(0, 64, (n, 9))
    keeps, says = rng.random((n, 1)) < 0.9, rng.random((n, 1)) < 0.5
    y = np.where(keeps, says, x >= 32)
    return pp.UserData.from_arrays(
        x.reshape(-1, 1), y.ravel(), np.repeat(np.arange(n), 9), features={"x": pp.Integers(0, 63)}
    )


def test_a_population_decides_by_prediction_on_it() -> None:
    alike = generated_population("0.1", records_per_user=16, values=64)
    steady = sampled_population(keepers, LINE, name="keepers")
    said = {
        people.name: choose_method(LINE, epsilon="1/2", public_n_users=60, population=people)
        for people in (alike, steady)
    }
    assert said[alike.name].method == "hybrid"
    assert said["keepers"].method == "mean"
    assert "(keepers; 60 users)" in said["keepers"].reason
    assert "agnostic 0." in said["keepers"].reason
    with_m = choose_method(LINE, epsilon="1/2", public_n_users=200, records_per_user=9, population=steady)
    assert "pairwise 0." in with_m.reason


def test_what_is_chosen_on_a_population_runs() -> None:
    people = sampled_population(keepers, LINE, name="keepers")
    released = pp.learn(PEOPLE_64, LINE, epsilon="1/2", public_n_users=60, population=people)
    assert released.parameters["statistic"] == "mean"
    assert "keepers" in str(released.parameters["chosen because"])


PEOPLE_64 = pp.UserData.from_users([[(3, 0), (50, 1)], [(2, 0)]], features={"x": pp.Integers(0, 63)})


def test_a_public_table_stands_for_more_users_than_it_has() -> None:
    table = public_population(keepers(40, np.random.default_rng(0)), LINE, name="a table")
    assert "(a table; 40 users)" in choose_method(LINE, epsilon=1, public_n_users=10**6, population=table).reason


def test_clean_labels_declared_are_compared_on_a_population() -> None:
    clean = generated_population(0, records_per_user=16, values=64)
    choice = choose_method(LINE, epsilon=1, public_n_users=60, setting="realizable", population=clean)
    assert choice.method == "realizable"
    assert "regret 0." in choice.reason
    assert "agnostic" not in choice.reason


def test_a_population_must_fit_the_question() -> None:
    people = generated_population("0.1", records_per_user=4, values=64)
    with pytest.raises(ParameterError, match="declare public_n_users"):
        choose_method(LINE, epsilon=1, population=people)
    with pytest.raises(ParameterError, match="either people or population"):
        choose_method(LINE, epsilon=1, public_n_users=10, people="differ", population=people)
    with pytest.raises(ParameterError, match="rules of Thresholds, asked for are Points"):
        choose_method(pp.Points(pp.Integers(0, 63)), epsilon=1, public_n_users=10, population=people)


# The result and the methods


def test_the_result_says_why() -> None:
    released = pp.learn(PEOPLE, pp.Thresholds(), epsilon=1, public_n_users=20, records_per_user=4)
    assert "predicted excess error" in str(released.parameters["chosen because"])
    assert "chosen because" not in pp.learn(PEOPLE, pp.Thresholds(), epsilon=1).parameters


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"trimmed", "reduction", "small-tree", "scorecard"}))
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_every_method_releases_a_rule_with_the_guarantee_asked_for(method: str, neighbours: str) -> None:
    released = pp.learn(
        PEOPLE,
        pp.Thresholds(),
        epsilon="1/2",
        method=method,
        neighbours=neighbours,
        records_per_user=2,
        public_n_users=3,
    )
    assert released.guarantee == pp.Guarantee("1/2", unit="user", neighbours=neighbours, rho=released.guarantee.rho)  # type: ignore[union-attr]
    assert set(released.predict([[0], [9]]).tolist()) <= {0, 1}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_reduction_promises_at_most_what_was_asked_for_and_needs_a_few_people(neighbours: str) -> None:
    """Rates are rounded down to short ones.  Where nothing can be promised of accuracy the least noise is taken."""
    people = pp.UserData.from_users([[(i, i % 2)] for i in range(8)], features={"x": pp.Integers(0, 9)})
    told: dict[str, Any] = {"epsilon": "1/2", "method": "reduction", "neighbours": neighbours}
    released = pp.learn(people, pp.Thresholds(), public_n_users=8, **told)
    assert released.guarantee is not None
    assert (released.guarantee.unit, released.guarantee.neighbours) == ("user", neighbours)
    assert 0 < released.guarantee.epsilon <= rational("1/2")
    with pytest.raises(InfeasibleError, match="users"):
        pp.learn(PEOPLE, CUTS, public_n_users=2, **told)


def test_trimmed_needs_a_delta_and_says_so() -> None:
    with pytest.raises(ParameterError, match="'trimmed' needs delta"):
        learner_for(CUTS, epsilon=1, method="trimmed", neighbours="replace", records_per_user=2)
    with pytest.raises(ParameterError, match="slots"):
        learner_for(CUTS, epsilon=1, method="trimmed", delta="1e-6", records_per_user=2)
    learner = learner_for(CUTS, epsilon=1, method="trimmed", delta="1e-6", neighbours="replace", records_per_user=2)
    assert learner.guarantee.summary == "(1, 1e-06)-DP per user, replace"


def test_unknown_methods_and_options_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="'auto' or one of agnostic"):
        learner_for(CUTS, epsilon=1, method="magic")
    with pytest.raises(ParameterError, match="unknown option 'branch'"):
        learner_for(CUTS, epsilon=1, method="regret", branch="em")
