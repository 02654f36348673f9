"""Loops compiled ahead of time: the same answers as numba's own call, memory that lives as long as somebody holds it,
and nothing stale."""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from privpac.data import loops

ROOT = Path(__file__).parents[2]
SOURCE = '''
"""Loops for a test."""
import numpy as np
from privpac.data.loops import jit
from privpac.shared import SHIFT, unused
import not_installed_anywhere

LIST: dict[str, int] = not_installed_anywhere.thing()
_TWICE = 2 * SHIFT


@jit
def inner(value: "Whatever") -> int:
    return value + _TWICE


@jit
def mixed(a, b, yes, share, small, codes, wide, room):
    first, second = room
    for i in range(codes.size):
        first[i] = inner(np.int64(codes[i])) + small
    for i in range(wide.shape[0]):
        for j in range(wide.shape[1]):
            second[i, j] = wide[i, j] * share if yes else 0.0
    return a, b + np.uint64(1), yes, share


@jit
def made(n):
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = i * i
    table = np.zeros((n // 2, 2))
    for i in range(2 * (n // 2)):
        table[i // 2, i % 2] = out[i]
    return out, table, n


@jit
def part(values, k):
    return values[k:]


@jit
def every_other(values):
    total = 0
    for i in range(values.size):
        total += values[i]
    return total


@jit
def divided(a, b):
    return a // b
'''
SIGNATURES = {
    "privpac.loops:mixed": ["i8,u8,b1,f8,i4,u8[1C],f8[2C],(i8[1C],f8[2C])"],
    "privpac.loops:made": ["i8"],
    "privpac.loops:part": ["i8[1C],i8"],
    "privpac.loops:every_other": ["i8[1A]", "i8[1C]"],
    "privpac.loops:divided": ["i8,i8"],
}


def _compiler() -> ModuleType:
    spec = importlib.util.spec_from_file_location("privpac_kernels", ROOT / "kernels" / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built") / "privpac"
    (root / "data").mkdir(parents=True)
    (root / "loops.py").write_text(SOURCE)
    (root / "shared.py").write_text("import also_not_installed\nSHIFT = 20\n")
    listed = root.parent / "signatures.json"
    listed.write_text(json.dumps(SIGNATURES))
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'kernels')!r}); import compile; from pathlib import Path\n"
        f"compile.SIGNATURES = Path({str(listed)!r}); compile.build(Path({str(root)!r}))"
    )
    import subprocess  # numba's processor is chosen once per process

    subprocess.run([sys.executable, "-c", code], check=True)
    return root


@pytest.fixture
def built(package: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for cached in (loops._index, loops._library, loops._unchanged):
        cached.cache_clear()
    monkeypatch.setattr(loops, "HERE", package / "data")
    yield lambda name: loops.entries("privpac.loops", name)
    for cached in (loops._index, loops._library, loops._unchanged):
        cached.cache_clear()


def call(entries: dict[str, loops.CompiledLoop], *arguments: Any) -> Any:
    return entries[",".join(map(loops.argument_kind, arguments))](arguments)


@pytest.mark.slow
def test_arguments_of_every_kind_arrive_and_results_come_back(built: Any) -> None:
    codes, wide = np.array([1, 2**40, 7], np.uint64), np.arange(6.0).reshape(2, 3)
    room = np.zeros(3, np.int64), np.zeros((2, 3))
    given = (-5, np.uint64(2**64 - 2), True, 0.25, np.int32(-3), codes, wide, room)
    assert call(built("mixed"), *given) == (-5, 2**64 - 1, True, 0.25)
    assert room[0].tolist() == [38, 2**40 + 37, 44]
    assert np.array_equal(room[1], wide / 4)


@pytest.mark.slow
def test_what_a_loop_allocates_lives_as_long_as_it_is_held(built: Any) -> None:
    kept = []
    for n in [2, 10, 10_000] * 20:
        squares, table, size = call(built("made"), n)
        assert size == n
        assert table.shape == (n // 2, 2)
        kept.append((squares[: n // 2], table[-1]))
        del squares, table
        gc.collect()
    for squares, last in kept:
        assert np.array_equal(squares, np.arange(len(squares)) ** 2)
        assert last[1] == (2 * len(squares) - 1) ** 2
    assert call(built("made"), 0)[0].size == 0


@pytest.mark.slow
def test_a_part_of_an_argument_keeps_it_alive(built: Any) -> None:
    found = call(built("part"), np.arange(1000), 10)
    gc.collect()
    np.full(1000, -1)
    assert np.array_equal(found, np.arange(10, 1000))


@pytest.mark.slow
def test_any_layout_is_read_right_and_read_only_arrays_are_taken(built: Any) -> None:
    values = np.arange(100)
    values.flags.writeable = False
    assert loops.argument_kind(values[::7]) == "i8[1A]"
    assert call(built("every_other"), values[::7]) == values[::7].sum()
    assert call(built("every_other"), values) == values.sum()
    assert loops.argument_kind(values.astype(">i8")) not in built("every_other")


@pytest.mark.slow
def test_errors_inside_a_loop_are_errors_here(built: Any) -> None:
    assert call(built("divided"), 7, -2) == -4
    with pytest.raises(RuntimeError, match="stopped with code"):
        call(built("divided"), 7, 0)
    with pytest.raises(MemoryError):
        call(built("made"), 1 << 50)


@pytest.mark.slow
def test_a_changed_file_is_never_answered_by_old_code(built: Any, package: Path) -> None:
    assert built("divided")
    for name in ("loops.py", "shared.py"):
        text = (package / name).read_text()
        (package / name).write_text(text + "\n# changed\n")
        loops._unchanged.cache_clear()
        assert not built("mixed")
        assert not built("divided")  # a module is all new or all old
        (package / name).write_text(text)
        loops._unchanged.cache_clear()
    assert built("mixed")


def test_the_list_names_every_loop_that_python_calls_and_no_other() -> None:
    compiler = _compiler()
    listed = json.loads((ROOT / "kernels" / "signatures.json").read_text())
    wanted = compiler.called_from_python(ROOT / "src" / "privpac")
    assert sorted(listed) == sorted(wanted), "kernels/signatures.json: add or leave out these loops"
    assert all(calls for calls in listed.values())
    stale = [place for place, calls in listed.items() for call in calls if not compiler.fits(place, call)]
    assert not stale, "these loops have other arguments now: make signatures"


@pytest.mark.slow
def test_arrays_with_gaps_are_packed_where_only_the_form_without_is_compiled(
    built: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "MODE", "")
    monkeypatch.setattr(loops, "need", lambda *_: pytest.fail("numba was asked for"))

    def mixed(*_: Any) -> None: ...

    loop = loops.Loop(mixed, built("mixed"))
    codes, wide = np.arange(6, dtype=np.uint64)[::2], np.arange(12.0).reshape(2, 6)[:, ::2]
    codes.flags.writeable = False
    room = np.zeros(3, np.int64), np.zeros((2, 3))
    assert loop(-5, np.uint64(1), True, 0.5, np.int32(0), codes, wide, room) == (-5, 2, True, 0.5)
    assert room[0].tolist() == [40, 42, 44]
    assert np.array_equal(room[1], wide / 2)
