"""What all attacks share: counters, and children that are killed at a chosen instruction.

A run of attacks is a program of its own: it imports what it attacks, starts no thread, and forks a child for every try.
The child counts its own steps (lines, or single instructions of the interpreter) in some files of the library and kills
itself with SIGKILL at a step that a seed chose; nothing it holds is closed, flushed or removed.  The parent then looks
at what is on disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from attrs import asdict, define, field

import privpac
from privpac.errors import PrivpacError, PrivpacWarning

warnings.simplefilter("ignore", PrivpacWarning)  # budgets of attacks promise little
ROOT = str(Path(privpac.__file__).parent)
FAULT, REFUSED = 70, 71
"""Exit codes of a child: something else than a ``PrivpacError`` came up; a ``PrivpacError`` did."""


@define(slots=False)
class Counts:
    """What one kind of attack saw; all but the first must stay 0."""

    tries: int = 0
    unpaid: int = 0
    """Results that left and that no ledger recorded, or spends beyond the budget."""
    lost: int = 0
    """Acknowledged spends, answers, keys or results that are gone."""
    torn: int = 0
    """Files that are neither old nor whole, or left over after the next start."""
    crashes: int = 0
    """Anything but a ``PrivpacError`` or a right answer."""
    notes: list[str] = field(factory=list)

    def bad(self, what: str, note: str) -> None:
        setattr(self, what, getattr(self, what) + 1)
        self.notes = [*self.notes, f"{what}: {note}"][:20]

    def check(self, good: object, what: str, note: str) -> None:
        if not good:
            self.bad(what, note)

    @contextmanager
    def no_crash(self, note: str, allowed: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Whatever comes up in the block is a crash, unless it is ``allowed``."""
        try:
            yield
        except allowed:
            pass
        except Exception as error:
            self.bad("crashes", f"{note}: {type(error).__name__}: {str(error)[:200]}")


def publish(kind: str, counts: Counts) -> None:
    """One line of JSON for whoever started the attacks."""
    print(json.dumps({"kind": kind, **asdict(counts)}), flush=True)


# Children


def forked(action: Callable[[], object]) -> int:
    """The exit code of ``action`` in a child: 0 if it returned, minus the signal that ended it."""
    return waited(launched(action))


def waited(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def launched(action: Callable[[], object]) -> int:
    """The process id of a child that runs ``action``."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = FAULT
    try:
        action()
        code = 0
    except PrivpacError:
        code = REFUSED
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def _watched(inside: tuple[str, ...], instructions: bool, reached: Callable[[], None]) -> Callable[..., Any]:
    places = tuple(os.path.join(ROOT, *name.split("/")) for name in inside)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(places):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = instructions, not instructions
        if event in ("line", "opcode"):
            reached()
        return trace

    return trace


def killed_at(
    step: int, action: Callable[[], object], inside: tuple[str, ...], *, instructions: bool = False
) -> Callable[[], None]:
    """``action``, killed when it comes to its ``step``-th step in files whose names begin like ``inside``."""

    def child() -> None:
        left = [step]

        def reached() -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.settrace(_watched(inside, instructions, reached))
        try:
            action()
        finally:
            sys.settrace(None)

    return child


def length(action: Callable[[], object], inside: tuple[str, ...], *, instructions: bool = False) -> int:
    """How many steps ``action`` makes, counted in a child that is not killed."""
    read, write = os.pipe()

    def child() -> None:
        steps = [0]

        def reached() -> None:
            steps[0] += 1

        sys.settrace(_watched(inside, instructions, reached))
        try:
            action()
        except SystemExit:
            pass
        finally:
            sys.settrace(None)
            os.write(write, str(steps[0]).encode())

    code = forked(child)
    os.close(write)
    with open(read, "rb") as file:
        found = int(file.read() or b"0")
    assert code == 0, f"the child ended with {code}"
    assert found, f"no step in {inside}"
    return found


def picks(seed: object, total: int, count: int) -> list[int]:
    """Steps from the whole range: every stretch is met once, at a place of its own."""
    chance = random.Random(str(seed))
    return [(i * total + chance.randrange(total)) // count for i in range(count)]


def quiet(place: Path) -> None:
    """In a child: what it says goes to a file."""
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)


def command(*words: object) -> None:
    """In a child: ``privpac`` with these words, as people call it."""
    from privpac.cli.app import main

    sys.argv = ["privpac", *map(str, words)]
    main()


def drafts(folder: Path) -> list[str]:
    """Passing names that something left behind."""
    return sorted(name for name in os.listdir(folder) if name.endswith((".new", ".part")))
