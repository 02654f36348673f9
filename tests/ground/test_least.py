"""One search for the least number with a property: right wherever the property begins, and the only one there is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import privpac
from privpac.bisection import half_way, halved, last_between, least, least_about, least_between, narrow

ROOT = Path(privpac.__file__).parent
NUMBERS = st.integers(-1000, 1000)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_least_and_the_last_number_are_found_wherever_the_property_begins(a: int, b: int, c: int) -> None:
    low, first, high = sorted((a, b, c))
    tried: list[int] = []

    def holds(n: int) -> bool:
        tried.append(n)
        return n >= first

    if low < first:
        assert least_between(holds, low, high) == first
        assert last_between(lambda n: not holds(n), low, high) == first - 1
    assert all(low < n < high for n in tried), "ends that are known are not tried"
    assert len(tried) <= 2 * 11


@given(st.integers(1, 50), st.integers(0, 5000), st.integers(1, 5000))
def test_doubling_finds_the_first_number_from_the_start_on_or_says_that_there_is_none(
    start: int, first: int, limit: int
) -> None:
    found = least(lambda n: n >= first, start=start, limit=limit)
    right = max(start, first)
    assert found == right or (found is None and right > limit // 2)
    assert least(lambda n: n >= first, start=start) == right
    assert least(lambda n: False, limit=limit) is None


@given(st.integers(1, 300), st.integers(1, 400), st.integers(1, 500), st.integers(1, 64))
def test_about_the_least_number_is_one_at_which_it_holds_and_not_much_more(
    first: int, start: int, most: int, fine: int
) -> None:
    found = least_about(lambda n: n >= first, start=start, most=most, fine=fine)
    if first > most:
        assert found is None
    else:
        assert found is not None
        assert first <= found <= most
        assert found - first < max(1, found // fine)


def test_reals_are_narrowed_to_a_width_or_for_so_many_steps() -> None:
    low, high = narrow(lambda x: x * x >= 2, 0.0, 2.0, middle=half_way, wide=lambda low, high: high - low > 1e-9)
    assert low * low < 2 <= high * high
    assert high - low <= 1e-9
    assert narrow(lambda x: x >= 5, 0, 16, middle=halved, steps=2) == (4, 8)
    assert narrow(lambda x: True, 0.0, 1.0, middle=half_way, steps=0) == (0.0, 1.0)


# The only one


def pairs(node: ast.AST) -> bool:
    return isinstance(node, ast.Tuple) and len(node.elts) == 2


def halvings(tree: ast.AST) -> Iterator[int]:
    """Lines in loops that move one of two ends, by whether something holds between them."""
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.While, ast.For)):
            for node in ast.walk(loop):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
                    chosen = node.value
                    if pairs(node.targets[0]) and pairs(chosen.body) and pairs(chosen.orelse):
                        yield node.lineno


def test_a_halving_by_hand_is_seen() -> None:
    for text in (
        "while b - a > 1:\n    c = (a + b) // 2\n    a, b = (a, c) if f(c) else (c, b)",
        "for _ in range(60):\n    c = (a + b) / 2\n    a, b = (c, b) if f(c) else (a, c)",
    ):
        assert [*halvings(ast.parse(text))]


OTHERS = {
    "device/littlestone.py",  # runs on devices, which have no ground
    "distributions/selection/kernels.py",  # compiled
    "papers/pure_agnostic/minimum_error.py",  # a private search: every step is drawn
    "papers/pure_agnostic/search.py",  # a private search: three ways
    "bisection.py",
}


def test_no_interval_is_halved_by_hand() -> None:
    paths = sorted(ROOT.rglob("*.py"))
    assert {str(path.relative_to(ROOT)) for path in paths if [*halvings(ast.parse(path.read_text()))]} == OTHERS
