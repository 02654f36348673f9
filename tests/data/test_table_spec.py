"""A declaration cannot be changed after it was checked, and nobody takes the place of a type of column."""

from __future__ import annotations

import copy
import pickle

import polars as pl
import pytest

import privpac as pp
from privpac.data import Domain, Integers, TableSpec
from privpac.errors import ParameterError

FRAME = pl.DataFrame({"who": [1, 2, 3], "age": [30, 40, 50], "ill": ["no", "yes", "no"]})


def spec(**more: object) -> TableSpec:
    return TableSpec(user="who", features={"age": Integers(0, 99)}, label="ill", **more)  # type: ignore[arg-type]


def test_what_was_checked_is_what_is_read() -> None:
    meaning = {"yes": 1, "no": 0}
    declared = spec(label_map=meaning)
    meaning["no"] = 200  # the caller's own dictionary: a label outside 0/1 would index past a kernel's table
    people = pp.UserData.from_frame(FRAME, declared)
    assert people.labels is not None
    assert sorted(people.labels.tolist()) == [0, 0, 1]


@pytest.mark.parametrize("field", ["features", "label_map", "shown"])
def test_its_mappings_refuse_changes(field: str) -> None:
    held = getattr(spec(label_map={"yes": 1, "no": 0}, shown={"age": "the age"}), field)
    for change in (
        lambda: held.__setitem__("ill", None),
        lambda: held.update(ill=None),
        held.clear,
        held.popitem,
        lambda: held.pop(next(iter(held))),
        lambda: held.setdefault("ill", None),
    ):
        with pytest.raises(TypeError, match="make another TableSpec"):
            change()


def test_it_is_hashed_copied_and_pickled() -> None:
    declared = spec(positive="yes")
    for twin in (copy.deepcopy(declared), pickle.loads(pickle.dumps(declared))):
        assert twin == declared
        assert hash(twin) == hash(declared)


@pytest.mark.parametrize("odd", [0, False, ""])
def test_policies_are_words(odd: object) -> None:
    with pytest.raises((ParameterError, TypeError)):
        spec(on_invalid=odd)


def test_no_class_takes_the_place_of_another_type_of_column() -> None:
    with pytest.raises(ParameterError, match="there is a type of column 'integers' already"):
        type("Half", (Integers,), {"kind": "integers"})
    with pytest.raises(TypeError, match="a word for its files"):
        type("Odd", (Integers,), {"kind": 5})
    assert Domain.from_dict(Integers(0, 9).to_dict()) == Integers(0, 9)
