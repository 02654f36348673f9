"""Results: what they carry, what they print, and files that are read back exactly or refused in one line."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from attrs.exceptions import FrozenInstanceError
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import ModelFileError, NoReleaseError, ParameterError
from privpac.guarantee import Guarantee
from privpac.result import NoRelease, Released, register, rule_from_dict, rule_to_dict

G = Guarantee(1, unit="user", neighbours="add-remove")


@register("test-cut")
@frozen(slots=False)
class Cut:
    """A rule for these tests."""

    at: int
    weight: Fraction = Fraction(1, 3)

    def __str__(self) -> str:
        return f"late when minute > {self.at}"

    def predict(self, X: Any) -> Any:
        return (np.asarray(X)[:, 0] > self.at).astype(int)

    def to_dict(self) -> dict[str, Any]:
        return {"at": self.at, "weight": self.weight}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Cut:
        if values.keys() != {"at", "weight"} or not isinstance(values["at"], int):
            raise ParameterError("a cut has at and weight")
        return cls(values["at"], values["weight"])


RULE = Released(
    Cut(1033), G, {"levels": 16, "tau": Fraction(1, 4)}, warnings=("few users declared",), learner="RegretSelection"
)


def edited(**changes: Any) -> str:
    return json.dumps(json.loads(RULE.to_json()) | changes)


# Words


def test_print_shows_the_rule_the_promise_and_what_is_left() -> None:
    paid = evolve(RULE, parameters={**RULE.parameters, "budget left": "ε = 2 of 3"})
    first, second, third, fourth = str(paid).split("\n")
    assert first == "late when minute > 1033"
    assert second == f"ε = 1 for each person: {G.odds}"
    assert third == "budget left: ε = 2 of 3"
    assert fourth == "warning: few users declared"


def test_a_value_that_is_no_rule_shows_its_method_and_numbers() -> None:
    assert str(Released(17, G, {"levels": 16}, learner="M")).split("\n")[2] == "M, levels = 16"
    long = "x" * 500
    assert long in str(Released(17, G, {"chosen because": long})), "nothing is cut off"


def test_replace_guarantees_imply_nothing_more() -> None:
    assert Released(1, Guarantee(1, unit="user", neighbours="replace")).exact_promise == (
        "(1, 0)-DP per user, replace",
    )
    assert Released(1, G).exact_promise == ("(1, 0)-DP per user, add-remove", "hence (2, 0)-DP per user, replace")


def test_printing_raises_no_warning_and_no_error_for_weak_guarantees(recwarn: pytest.WarningsRecorder) -> None:
    weak = Guarantee(9, Fraction(9, 10**4), unit="user", neighbours="add-remove")
    assert "replace" not in repr(Released(1, weak))  # delta would exceed 1: nothing follows
    assert "(18, 0)-DP per user, replace" in repr(Released(1, evolve(weak, delta=Fraction(0))))
    assert "a weak promise" in str(Released(1, weak))
    assert not recwarn.list


@pytest.mark.parametrize("show", [str, repr, Released.to_json])
def test_insecure_results_say_so_everywhere(show: Callable[[Released], str]) -> None:
    insecure = evolve(RULE, guarantee=None, insecure=True)
    assert "INSECURE RANDOMNESS: no guarantee" in show(insecure)
    assert "INSECURE" not in show(RULE)
    assert "DP per" not in show(insecure)


def test_the_default_outcome_is_named() -> None:
    assert "public default" in str(Released(Cut(0), G, outcome="default"))


# Outcomes


def test_nothing_released_is_false_and_does_not_predict() -> None:
    nothing = Released(NoRelease, G, outcome="none")
    assert not nothing
    assert RULE
    assert Released(Cut(0), G, outcome="default")
    assert Released(0, G)
    with pytest.raises(NoReleaseError, match="fallback"):
        nothing.predict([[1]])
    assert str(nothing).startswith("nothing was released")


def test_no_release_is_one_object() -> None:
    assert type(NoRelease)() is NoRelease
    assert pickle.loads(pickle.dumps(NoRelease)) is NoRelease
    assert copy.deepcopy(NoRelease) is NoRelease
    assert not NoRelease


def test_predict_asks_the_rule() -> None:
    assert RULE.predict(np.array([[1033], [1034]])).tolist() == [0, 1]
    with pytest.raises(TypeError, match="not a rule"):
        Released(5, G).predict([[1]])


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "none"},
        {"value": NoRelease},
        {"outcome": "maybe"},
        {"outcome": None},
        {"insecure": True},
        {"parameters": {"x": float("nan")}},
        {"parameters": {"x": [1, {"y": float("inf")}]}},
        {"parameters": {"$text": "1"}},
        {"parameters": {1: 2}},
        {"parameters": {"x": 1 << 20_000}},
        {"parameters": {"x": Fraction(1, 3**20_000)}},
    ],
    ids=lambda changes: "-".join(map(str, changes)),
)
def test_contradictory_results_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        evolve(RULE, **changes)


def test_endless_parameters_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ParameterError, match="nested"):
        Released(1, G, {"loop": loop})


@pytest.mark.parametrize(
    "changes",
    [
        {"guarantee": "1"},
        {"insecure": 1},
        {"learner": None},
        {"warnings": "text"},
        {"warnings": (1,)},
        {"parameters": [1]},
        {"parameters": {"x": object()}},
        {"parameters": {"x": np.zeros(3)}},
        {"parameters": {"x": {1, 2}}},
    ],
    ids=lambda changes: "-".join(map(str, changes)),
)
def test_wrong_types_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        evolve(RULE, **changes)


def test_results_are_frozen_through_and_through() -> None:
    given_list = [1, 2]
    result = Released(1, G, {"sizes": given_list, "more": {"a": [1]}})
    given_list.append(3)
    assert result.parameters["sizes"] == (1, 2)
    with pytest.raises(FrozenInstanceError):
        result.insecure = True  # type: ignore[misc]
    with pytest.raises(TypeError):
        result.parameters["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        result.parameters["more"]["a"] = 1
    hash(result)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy])
def test_results_can_be_copied_for_estimators_and_workers(clone: Callable[[Released], Released]) -> None:
    result = Released(5, G, {"a": {"b": [1, Fraction(1, 2)]}}, warnings=("w",), learner="M")
    assert clone(result) == result
    assert pickle.loads(pickle.dumps(result)) == result


# Files

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.fractions()
    | st.text(max_size=8)
    | st.from_regex(r"-?[0-9]{1,3}/[0-9]{1,3}", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5).filter(lambda k: not k.startswith("$")), inner, max_size=4)
    ),
    max_leaves=12,
)


def types(value: Any) -> Any:
    """The value with its types, so that 1, True and 1.0 differ."""
    if isinstance(value, (list, tuple)):
        return [types(item) for item in value]
    if hasattr(value, "items"):
        return {key: types(item) for key, item in value.items()}
    return (type(value).__name__, repr(value))


@given(st.dictionaries(st.text(max_size=6).filter(lambda k: not k.startswith("$")), PLAIN, max_size=4))
@settings(max_examples=200)
def test_parameters_come_back_with_their_values_and_types(parameters: dict[str, Any]) -> None:
    result = Released(1, G, parameters)
    again = Released.from_json(result.to_json())
    assert again == result
    assert types(again.parameters) == types(parameters)


@given(PLAIN.filter(lambda value: not isinstance(value, dict)))
def test_plain_hypotheses_come_back(value: Any) -> None:
    again = Released.from_json(Released(value, G).to_json()).value
    assert types(again) == types(value)


@pytest.mark.parametrize(
    "result",
    [
        RULE,
        evolve(RULE, guarantee=None, insecure=True),
        evolve(RULE, guarantee=None),
        Released(NoRelease, G, outcome="none"),
        Released(None, G),
        Released(Cut(3), G.to_replace(), outcome="default"),
        Released(
            1,
            Guarantee(
                "1/3", "1e-9", unit="item", neighbours="replace", model="shuffle", rho="1/18", derivation=("why",)
            ),
        ),
        Released(
            1,
            G,
            {"size": 2**64 + 1, "rate": np.float64(0.5), "count": np.int64(3), "flag": np.bool_(True), "unit": G.unit},
        ),
    ],
    ids=["rule", "insecure", "unpromised", "none", "null", "default", "all-tags", "numpy"],
)
def test_saved_results_are_loaded_equal(result: Released, tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    result.save(path)
    again = Released.load(path)
    assert again == result
    assert again.to_json() == result.to_json()
    assert os.listdir(tmp_path) == ["rule.json"]


def test_files_are_versioned_json_with_rationals_as_text() -> None:
    body = json.loads(RULE.to_json())
    assert (body["format"], body["version"]) == ("privpac.result", 1)
    assert body["parameters"]["tau"] == "1/4"
    assert body["value"] == {"kind": "test-cut", "at": 1033, "weight": "1/3"}
    assert body["guarantee"]["epsilon"] == "1"
    assert "notice" not in body


def test_saving_replaces_whole_files_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rule.json"
    RULE.save(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ModelFileError, match="No space left"):
        evolve(RULE, learner="Other").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["rule.json"]


def test_unwritable_and_missing_places_are_named_in_one_line(tmp_path: Path) -> None:
    for act in (
        lambda: RULE.save(tmp_path / "no" / "x.json"),
        lambda: Released.load(tmp_path / "none.json"),
        lambda: Released.load(tmp_path),
    ):
        with pytest.raises(ModelFileError) as caught:
            act()
        assert "\n" not in str(caught.value)


def test_unregistered_rules_cannot_be_saved() -> None:
    @frozen(slots=False)
    class Unknown:
        def predict(self, X: Any) -> Any:
            return X

    for rule in (Unknown(), {"kind": "test-cut", "at": 1}, object()):
        with pytest.raises(TypeError):
            Released(rule, G).to_json()


HOSTILE = {
    "empty": "",
    "not-json": "late when x > 3",
    "list": "[]",
    "number": "3",
    "deep": "[" * 200_000,
    "deep-closed": '{"format": "privpac.result", "version": ' + "[" * 5000 + "]" * 5000 + "}",
    "huge-int": '{"format": "privpac.result", "version": ' + "9" * 100_000 + "}",
    "nan": edited(value=1).replace('"value": 1', '"value": NaN'),
    "infinity": edited(value=1).replace('"value": 1', '"value": 1e999'),
    "twice": '{"format": "privpac.result", "format": "privpac.result"}',
    "format": edited(format="pickle"),
    "version-3": edited(version=3),
    "version-text": edited(version="1"),
    "version-true": edited(version=True),
    "extra-field": edited(code="import os"),
    "missing-field": '{"format": "privpac.result", "version": 1}',
    "unknown-kind": edited(value={"kind": "os.system", "at": 1}),
    "kind-list": edited(value={"kind": ["test-cut"]}),
    "no-kind": edited(value={"at": 1}),
    "kind-values": edited(value={"kind": "test-cut"}),
    "kind-types": edited(value={"kind": "test-cut", "at": "x", "weight": "1/3"}),
    "zero-denominator": edited(parameters={"x": "1/0"}),
    "huge-rational": edited(parameters={"x": "1/" + "7" * 50_000}),
    "dollar-key": edited(parameters={"$text": 3}),
    "parameters-list": edited(parameters=[1]),
    "parameters-deep": edited(parameters={"x": json.loads("[" * 100 + "]" * 100)}),
    "outcome": edited(outcome="maybe"),
    "outcome-list": edited(outcome=["none"]),
    "outcome-none-with-rule": edited(outcome="none"),
    "warnings-text": edited(warnings="abc"),
    "warnings-numbers": edited(warnings=[1]),
    "learner": edited(learner=7),
    "insecure-text": edited(insecure="yes"),
    "insecure-guaranteed": edited(insecure=True, notice="INSECURE RANDOMNESS: no guarantee"),
    "insecure-silent": edited(insecure=True, guarantee=None),
    "guarantee-text": edited(guarantee="1"),
    "guarantee-empty": edited(guarantee={}),
    "guarantee-float": edited(guarantee=G.to_dict() | {"epsilon": 0.5}),
    "guarantee-exponent": edited(guarantee=G.to_dict() | {"epsilon": "1e999999999"}),
    "guarantee-negative": edited(guarantee=G.to_dict() | {"epsilon": "-1"}),
    "guarantee-delta": edited(guarantee=G.to_dict() | {"delta": "3/2"}),
    "guarantee-unit": edited(guarantee=G.to_dict() | {"unit": "household"}),
    "guarantee-steps": edited(guarantee=G.to_dict() | {"derivation": "abc"}),
    "guarantee-extra": edited(guarantee=G.to_dict() | {"alpha": "1"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    path.write_text(HOSTILE[name])
    readers: list[Callable[[], Released]] = [lambda: Released.from_json(HOSTILE[name]), lambda: Released.load(path)]
    for read in readers:
        with pytest.raises(ModelFileError) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert 0 < len(str(caught.value)) < 300


def test_binary_and_oversized_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rule.json"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError, match="UTF-8"):
        Released.load(path)
    monkeypatch.setattr("privpac.result._MAX_FILE", 100)
    RULE.save(path)
    with pytest.raises(ModelFileError, match="larger"):
        Released.load(path)


@pytest.mark.parametrize("bad", [None, b"{}", 3, {}])
def test_from_json_takes_text_only(bad: Any) -> None:
    with pytest.raises(TypeError, match="text"):
        Released.from_json(bad)


@given(st.data())
@settings(max_examples=150)
def test_damaged_files_are_read_or_refused_in_one_line(data: st.DataObject) -> None:
    text = RULE.to_json()
    i = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 12))
    mangled = text[:i] + data.draw(st.text(max_size=3)) + text[i + cut :]
    try:
        message = str(Released.from_json(mangled).guarantee)
    except ModelFileError as error:
        message = str(error)
    assert "\n" not in message


# The registry


@pytest.mark.parametrize("bad", ["", "Upper", "a b", "a.b", "x" * 61, "9", None, 3])
def test_kinds_have_plain_names(bad: Any) -> None:
    with pytest.raises(ParameterError, match="kind"):
        register(bad)


def test_a_kind_belongs_to_one_class_that_can_be_stored() -> None:
    class Other:
        def to_dict(self) -> dict[str, Any]:
            return {}

        @classmethod
        def from_dict(cls, values: dict[str, Any]) -> Other:
            return cls()

    with pytest.raises(ParameterError, match="taken by Cut"):
        register("test-cut")(Other)
    assert register("test-cut")(Cut) is Cut
    with pytest.raises(TypeError, match="from_dict"):
        register("test-unstorable")(int)


def test_rules_made_of_rules_use_the_same_registry() -> None:
    inner = rule_to_dict(Cut(3))
    assert inner["kind"] == "test-cut"
    assert rule_from_dict(inner) == Cut(3)
    assert rule_from_dict(17) == 17


def test_a_reader_that_returns_something_else_is_refused() -> None:
    @register("test-liar")
    class Liar:
        def to_dict(self) -> dict[str, Any]:
            return {"kind": "x"}

        @classmethod
        def from_dict(cls, values: dict[str, Any]) -> Any:
            return 3

    with pytest.raises(ModelFileError, match="damaged"):
        rule_from_dict({"kind": "test-liar"})
    with pytest.raises(ParameterError, match="'kind' itself"):
        rule_to_dict(Liar())


def test_a_file_of_before_says_what_it_is() -> None:
    body = json.loads(edited())
    body["hypothesis"] = body.pop("value")
    with pytest.raises(ModelFileError, match="written by an earlier privpac"):
        Released.from_json(json.dumps(body))
