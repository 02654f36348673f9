"""Declared parameters: fields say how they are read, parts are held whole, and nothing patches a frozen value."""

from __future__ import annotations

import ast
import inspect
import re
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest
from attrs import evolve, field, frozen

import privpac
from privpac.errors import ParameterError
from privpac.methods.base import Learner
from privpac.methods.registry import METHODS, learner_options
from privpac.parameters import (
    MAX_EPSILON,
    Composed,
    Parameter,
    bounds,
    declared,
    either,
    fraction,
    fraction_or_none,
    named,
    one_word_of,
    part,
    privacy,
    privacy_or_none,
    privacy_or_zero,
    probability,
    probability_or_none,
    probability_or_zero,
    protected_unit,
    relation,
    truth,
    whole,
    whole_or_none,
)

ROOT = Path(privpac.__file__).parent
ROOMS = ("mechanisms", "methods", "distributions", "rules", "papers")
MOST_FIELDS = 10

# The house


PATCHED = {
    "device": "devices have no attrs",
    "protocols": "a manifest is read on devices; what a protocol plans follows from several parameters at once",
    "data/engines/wire.py": "makes values without their constructor",
    "data/schema_file.py": "labels are checked as they were given, and kept as texts",
    "data/users.py": "copied with attrs.evolve by whoever holds one",
    "papers/correlated_sampling.py": "a table of rules, as on a device",
    "guarantee.py": "the readers of parameters are built on it",
    "result.py": "copied with attrs.evolve by whoever holds one",
}


def test_nothing_patches_a_frozen_value() -> None:
    """Fields declare how they are read; where that cannot be, the reason is above."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        names = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        if "object.__setattr__" in names:
            place = path.relative_to(ROOT)
            found.add(place.parts[0] if place.parts[0] in PATCHED else place.as_posix())
    assert found == set(PATCHED)


def test_no_property_hides_a_field() -> None:
    """attrs takes a field's default off the class, where a property of a base would then answer for it."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT.parent).with_suffix("")
        module = import_module(".".join(place.parts).removesuffix(".__init__"))
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and attrs.has(kind):
                hidden = [each for each in attrs.fields(kind) if isinstance(getattr(kind, each.name, None), property)]
                found += [f"{kind.__qualname__}.{each.name}" for each in hidden]
    assert found == []


def concrete(kind: type[Any]) -> set[type[Any]]:
    below = {each for other in kind.__subclasses__() for each in concrete(other)}
    return below if inspect.isabstract(kind) else {kind} | below


def all_learners() -> list[type[Any]]:
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"))
    rooms = {("privpac", room) for room in ROOMS}
    ours = {kind for kind in concrete(Learner) if tuple(kind.__module__.split(".")[:2]) in rooms}
    assert len(ours) > 20
    return sorted(ours, key=lambda kind: kind.__qualname__)


PARAMETER = re.compile(r"([\w, ]+?)(?: : .*)?")


def documented(kind: type[Any]) -> set[str]:
    """The words of the parameter list in the docstring of a class."""
    said = re.split(r"Parameters\n-{4,}\n", inspect.cleandoc(kind.__doc__ or ""))
    lines = [] if len(said) < 2 else said[1].split("\n\n")[0].splitlines()
    found = [PARAMETER.fullmatch(line) for line in lines if not line.startswith(" ")]
    return {name.strip() for match in found if match for name in match[1].split(",")}


@pytest.mark.parametrize("kind", all_learners(), ids=lambda kind: kind.__name__)
def test_a_learner_has_few_fields_and_documents_each(kind: type[Any]) -> None:
    listed = attrs.fields(kind)
    own = [each.alias for each in listed if not each.inherited]
    assert len(own) <= MOST_FIELDS, own
    words = {name for base in kind.__mro__ for name in documented(base)}
    assert {each.alias for each in listed} <= words


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_parameters_of_a_part_are_those_of_the_method(method: str) -> None:
    words = learner_options(method, {})
    assert words
    assert not [name for name in words if name.startswith("_")]
    kind = METHODS[method].load()
    parts = {each.alias for each in attrs.fields(kind) if "part" in each.metadata}
    assert not parts & set(words)


# Converters


@frozen(slots=False, field_transformer=named)
class Everything:
    epsilon: Fraction = field(default=1, converter=privacy)
    least: Fraction = field(default=0, converter=privacy_or_zero)
    maybe: Fraction | None = field(default=None, converter=privacy_or_none)
    theta: Fraction = field(default="2/3", converter=fraction, metadata=bounds(above="1/2", below=1))
    radius: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(minimum=0))
    beta: Fraction = field(default=0.05, converter=probability)
    delta: Fraction = field(default=0, converter=probability_or_zero)
    alpha: Fraction | None = field(default=None, converter=probability_or_none)
    levels: int = field(default=1, converter=whole, metadata=bounds(maximum=8))
    _planned: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    unit: Any = field(default="user", converter=protected_unit)
    neighbours: Any = field(default="replace", converter=relation)
    word: str = field(default="a", validator=one_word_of(("a", "b", "c")))
    way: str = field(default="up", validator=either("up", "down"))
    sure: bool = field(default=False, validator=truth)

    @property
    def planned(self) -> int:
        return 7 if self._planned is None else self._planned


def test_values_are_read_exactly_and_once() -> None:
    seen = Everything(0.1, beta="1/20", radius=0, levels=8, planned=0)
    assert (seen.epsilon, seen.beta, seen.radius, seen.levels) == (Fraction(1, 10), Fraction(1, 20), 0, 8)
    assert type(seen.radius) is Fraction
    assert seen.planned == 0
    assert Everything().planned == 7
    assert evolve(seen, epsilon=2, planned=None).planned == 7
    assert Everything(epsilon="1/10") == Everything(epsilon=0.1)
    with pytest.raises(AttributeError):
        seen.epsilon = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("epsilon", 0, "epsilon must be > 0, got 0"),
        ("epsilon", MAX_EPSILON + 1, f"epsilon must be <= {MAX_EPSILON}"),
        ("epsilon", "nan", "epsilon must be a finite number"),
        ("least", -1, "least must be >= 0"),
        ("maybe", 0, "maybe must be > 0"),
        ("theta", "1/2", "theta must be > 1/2, got 1/2"),
        ("theta", 1, "theta must be < 1"),
        ("radius", -1, "radius must be >= 0"),
        ("beta", 0, "beta must be > 0"),
        ("delta", 1, "delta must be < 1"),
        ("alpha", 2, "alpha must be < 1"),
        ("levels", 0, "levels must be at least 1 and at most 8, got 0"),
        ("levels", 9, "levels must be at least 1 and at most 8, got 9"),
        ("planned", -1, "planned must be at least 0, got -1"),
        ("unit", "person", "unit must be one of 'user', 'item'"),
        ("neighbours", "swap", "neighbours must be one of 'add-remove', 'replace'"),
        ("word", "d", "word must be one of a, b, c, got 'd'"),
        ("way", "left", "way must be 'up' or 'down', got 'left'"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(name: str, value: Any, error: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Everything(**{name: value})
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", None), ("epsilon", True), ("levels", 1.0), ("levels", True), ("levels", None), ("sure", 1)],
)
def test_a_value_of_another_kind_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be"):
        Everything(**{name: value})


# Parts


@frozen(slots=False, field_transformer=named)
class Engine:
    power: int = field(converter=whole)
    _gears: int | None = field(default=None, converter=whole_or_none)


@frozen(slots=False, init=False, field_transformer=named)
class Car(Composed):
    name: str
    engine: Engine = part(Engine)
    doors: int = field(default=4, kw_only=True, converter=whole)


def test_a_whole_is_given_the_parameters_of_its_parts() -> None:
    car = Car("one", power=3, gears=5)
    assert car.engine == Engine(3, 5)
    assert car.power == 3  # type: ignore[attr-defined]
    assert car == Car("one", engine=Engine(3, 5))
    assert Car("one", engine=Engine(3, 5), power=4).engine == Engine(4, 5)
    assert declared(Car) == {
        "name": Parameter("str", True),
        "power": Parameter("int", True),
        "gears": Parameter("int | None", False),
        "doors": Parameter("int", False),
    }


def test_a_copy_keeps_its_parts_and_changes_what_is_named() -> None:
    car = Car("one", power=3)
    assert evolve(car, doors=2).engine is not None
    assert evolve(car, doors=2).engine == car.engine
    assert evolve(car, power=5).engine == Engine(5)
    with pytest.raises(ParameterError, match="power must be at least 1"):
        evolve(car, power=0)


@pytest.mark.parametrize("given", [{}, {"power": 1, "wings": 2}])
def test_missing_and_unknown_parameters_are_type_errors(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Car("one", **given)


# What checkers and editors read of a constructor

PUBLIC = [getattr(privpac, name) for name in privpac.__all__]
LEARNERS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Learner) and attrs.has(kind)]


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_the_constructor_that_checkers_read_is_the_one_that_runs(kind: type[Any]) -> None:
    """attrs makes it from the fields, which checkers and editors know; one that holds a part is written out."""
    shown = inspect.signature(kind).parameters.values()
    expected = {name: word.required for name, word in declared(kind).items()}
    if kind is not privpac.AgnosticReduction:
        assert not issubclass(kind, Composed)
        assert "TYPE_CHECKING" not in inspect.getsource(kind)
        assert {each.name: each.default is each.empty for each in shown} == expected
        return
    expected["concept"] = False  # that of the inner learner
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    (typed,) = (each.body[0] for each in body.body if isinstance(each, ast.If))
    assert isinstance(typed, ast.FunctionDef)
    listed, defaults = [each.arg for each in typed.args.args[1:]], len(typed.args.defaults)
    needed = {name: place < len(listed) - defaults for place, name in enumerate(listed)}
    needed |= {each.arg: default is None for each, default in zip(typed.args.kwonlyargs, typed.args.kw_defaults)}
    assert needed == expected
