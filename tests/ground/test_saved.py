"""Values by their fields: what files hold follows from the declared types, and nothing else is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, NamedTuple

import pytest
from attrs import evolve, frozen

from privpac.data import Domain, Integers, Missing
from privpac.errors import ModelFileError
from privpac.result import Released, Saved, WideInt, register, rule_to_dict


class Pair(NamedTuple):
    name: str
    code: WideInt


@frozen(slots=False)
class Inner:
    share: Fraction
    sides: tuple[Pair, ...]


@register("test-saved-leaf")
@frozen(slots=False)
class Leaf(Saved):
    size: int


@register("test-saved-tree")
@frozen(slots=False)
class Tree(Saved):
    yes: bool
    count: int
    rate: float
    way: Literal["up", "down"]
    wide: tuple[tuple[WideInt, WideInt], ...] | None
    inner: Inner
    domain: Domain
    leaves: tuple[Leaf, ...]
    plain: tuple  # type: ignore[type-arg]
    _own: str | None = None


TREE = Tree(
    True,
    3,
    0.5,
    "up",
    ((1 << 70, 2),),
    Inner(Fraction(1, 3), (Pair("a", 1 << 60), Pair("1/2", 0))),
    Missing(Integers(0, 9)),
    (Leaf(1), Leaf(2)),
    (1, "x"),
    "mine",
)
FILED = {
    "yes": True,
    "count": 3,
    "rate": 0.5,
    "way": "up",
    "wide": [[str(1 << 70), "2"]],
    "inner": {"share": Fraction(1, 3), "sides": [["a", str(1 << 60)], ["1/2", "0"]]},
    "domain": {"kind": "missing", "inner": {"kind": "integers", "lo": 0, "hi": 9}, "rule": "own"},
    "leaves": [{"kind": "test-saved-leaf", "size": 1}, {"kind": "test-saved-leaf", "size": 2}],
    "plain": [1, "x"],
    "_own": "mine",
}


def test_a_file_holds_the_fields_in_order_each_as_its_type_says() -> None:
    assert TREE.to_dict() == FILED
    assert list(TREE.to_dict()) == list(FILED)
    assert rule_to_dict(TREE) == {"kind": "test-saved-tree"} | FILED


@pytest.mark.parametrize("tree", [TREE, evolve(TREE, wide=None, own=None, leaves=())])
def test_what_was_saved_is_read_again(tree: Tree) -> None:
    assert Released.from_json(Released(tree, None).to_json()).value == tree


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("yes", 1),
        ("count", True),
        ("count", "3"),
        ("count", 3.0),
        ("rate", "0.5"),
        ("rate", True),
        ("way", "left"),
        ("wide", "12"),
        ("wide", [["1", "2", "3"]]),
        ("wide", [["1", "b"]]),
        ("inner", {"share": Fraction(1, 3)}),
        ("inner", {"share": 0.5, "sides": []}),
        ("inner", {"share": 1, "sides": [["a"]]}),
        ("domain", {"kind": "none"}),
        ("leaves", [{"size": 1}]),
        ("leaves", [{"kind": "test-saved-tree", "size": 1}]),
        ("plain", 3),
        ("_own", 3),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ModelFileError, match=r"damaged|unknown kind"):
        Released.from_json(Released(Raw({**FILED, name: value}), None).to_json().replace("test-saved-raw", KIND))


@pytest.mark.parametrize("name", FILED)
def test_a_missing_field_is_refused(name: str) -> None:
    left = {each: value for each, value in FILED.items() if each != name}
    with pytest.raises(ModelFileError, match="damaged"):
        Released.from_json(Released(Raw(left), None).to_json().replace("test-saved-raw", KIND))


KIND = "test-saved-tree"


@register("test-saved-raw")
class Raw:
    """Writes what it is given."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def to_dict(self) -> dict[str, Any]:
        return self.values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Raw:
        return cls(values)


def test_the_unchanged_file_is_read() -> None:
    assert Released.from_json(Released(Raw(FILED), None).to_json().replace("test-saved-raw", KIND)).value == TREE
