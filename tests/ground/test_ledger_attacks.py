"""A ledger may be copied, linked, mounted, moved and killed at any instruction: no acknowledged spend is lost, none is
above the budget.

Workers are processes of their own that do what they are told through a pipe and say what happened, so that every order
of events is the same in every run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from privpac.errors import BudgetExhausted, LedgerBusy, LedgerError, LedgerUnavailable
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.ledger.file import reader_in_the_way, try_lock

ONE = Guarantee(1, unit="user", neighbours="add-remove")
WORKER = """
import os, shutil, sys
from privpac.errors import PrivpacError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
book = BudgetLedger.open(sys.argv[1], timeout=60)
print("ready", flush=True)
for line in sys.stdin:
    word, *more = line.split()
    try:
        if word == "spend":
            book.spend(Guarantee(1, unit="user", neighbours="add-remove"), "x", *more).use()
            print("paid", flush=True)
        elif word == "copy":  # opens and closes a descriptor of the ledger in this very process
            shutil.copy(sys.argv[1], more[0])
            print("copied", flush=True)
        else:
            print(book.remaining().epsilon, flush=True)
    except PrivpacError as error:
        print(type(error).__name__, flush=True)
"""


class Worker:
    """A process with the ledger open."""

    def __init__(self, path: Path) -> None:
        self._run = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORKER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._listen() == "ready"

    def _listen(self) -> str:
        assert self._run.stdout is not None
        return self._run.stdout.readline().strip()

    def tell(self, *words: object) -> str:
        assert self._run.stdin is not None
        self._run.stdin.write(" ".join(map(str, words)) + "\n")
        self._run.stdin.flush()
        return self._listen()

    def kill(self) -> None:
        self._run.send_signal(signal.SIGKILL)
        self._run.communicate()

    def leave(self) -> None:
        self._run.communicate()


def made(path: Path, budget: int) -> Path:
    BudgetLedger.create(path, Guarantee(budget, unit="user", neighbours="add-remove"), dataset="attacked").close()
    return path


def spent(path: Path) -> int:
    with BudgetLedger.open(path) as book:
        book.verify()
        return int(book.budget.epsilon - book.remaining().epsilon)


# Copies, links, mounts, renames


def test_a_copy_made_in_the_process_drops_no_lock_and_loses_no_spend(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 2)
    first = Worker(path)
    assert first.tell("copy", tmp_path / "copy") == "copied"
    passing = Worker(path)
    # with the lock of the first one dropped, this used to tidy away the log that the first one writes to
    passing.leave()
    paid = [first.tell("spend"), first.tell("spend")]
    second = Worker(path)
    paid += [second.tell("spend"), second.tell("spend")]
    first.kill()
    second.leave()
    assert paid == ["paid", "paid", "BudgetExhausted", "BudgetExhausted"]
    assert spent(path) == 2


def test_a_hard_link_pays_nothing_twice(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 3)
    first = Worker(path)
    paid = [first.tell("spend")]
    os.link(path, tmp_path / "link.db")
    second = Worker(tmp_path / "link.db")
    for _ in range(3):
        paid += [first.tell("spend"), second.tell("spend")]
    assert paid == ["paid"] + ["LedgerUnavailable"] * 6
    assert second.tell("left") == "2"  # reading harms nobody
    os.unlink(tmp_path / "link.db")
    assert [first.tell("spend") for _ in range(3)] == ["paid", "paid", "BudgetExhausted"]
    first.kill()
    second.kill()
    assert spent(path) == 3


def test_the_message_about_a_hard_link_says_what_to_do(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 3)
    with BudgetLedger.open(path) as book:
        os.link(path, tmp_path / "link.db")
        with pytest.raises(LedgerUnavailable, match=r"'budget\.db' has 2 names \(hard links\); keep one"):
            book.spend(ONE, "x")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[Path, Path], None]]:
    """Mount one file under another name; skipped where the system refuses it."""
    places: list[Path] = []

    def mount(source: Path, target: Path) -> None:
        target.touch()
        done = subprocess.run(["mount", "--bind", str(source), str(target)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mount --bind is refused here")
        places.append(target)

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_file_mounted_under_another_name_is_the_same_ledger(
    tmp_path: Path, mounted: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path, other = made(tmp_path / "budget.db", 4), tmp_path / "elsewhere" / "budget.db"
    mounted(path, other)
    first, second = Worker(path), Worker(other)
    paid = [worker.tell("spend") for worker in (first, second, first)]
    first.kill()
    paid += [second.tell("spend"), second.tell("spend")]
    second.kill()
    assert paid == ["paid"] * 4 + ["BudgetExhausted"]
    assert spent(path) == spent(other) == 4


@pytest.mark.parametrize("how", ["copy", "move"])
def test_the_file_alone_takes_every_spend_along_after_a_kill(tmp_path: Path, how: str) -> None:
    path = made(tmp_path / "budget.db", 3)
    worker = Worker(path)
    assert [worker.tell("spend") for _ in range(2)] == ["paid", "paid"]
    worker.kill()
    (shutil.copy if how == "copy" else shutil.move)(path, tmp_path / "alone.db")
    assert spent(tmp_path / "alone.db") == 2
    assert {name for name in os.listdir(tmp_path) if name != "budget.db"} == {
        "alone.db"
    }  # there is nothing else to take along


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_moved_away_under_a_process_is_not_written_to(tmp_path: Path, replaced: bool) -> None:
    path = made(tmp_path / "budget.db", 3)
    worker = Worker(path)
    assert worker.tell("spend") == "paid"
    os.rename(path, tmp_path / "moved.db")
    if replaced:
        made(path, 3)
    assert worker.tell("spend") == "LedgerUnavailable"
    assert worker.tell("left") == "LedgerUnavailable"
    os.rename(tmp_path / "moved.db", path)
    assert [worker.tell("spend") for _ in range(3)] == ["paid", "paid", "BudgetExhausted"]
    worker.kill()
    assert spent(path) == 3


def test_a_symbolic_link_is_another_name_of_the_same_ledger(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 3)
    os.symlink(path, tmp_path / "link.db")
    first, second = Worker(path), Worker(tmp_path / "link.db")
    assert [first.tell("spend"), second.tell("spend"), first.tell("spend"), second.tell("spend")] == ["paid"] * 3 + [
        "BudgetExhausted"
    ]
    first.kill()
    second.kill()
    assert spent(path) == 3
    os.symlink(tmp_path / "nothing", tmp_path / "dangling.db")
    with pytest.raises(LedgerUnavailable):
        BudgetLedger.open(tmp_path / "dangling.db")
    with pytest.raises(LedgerUnavailable):
        BudgetLedger.create(tmp_path / "dangling.db", ONE, dataset="d")


def test_a_file_swapped_while_it_is_written_to_gives_no_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpac.ledger import file

    path = made(tmp_path / "budget.db", 3)
    with BudgetLedger.open(path) as book:
        sync = file._sync

        def swap(handle: int) -> None:
            sync(handle)
            shutil.copy(path, tmp_path / "copy.db")
            os.rename(tmp_path / "copy.db", path)

        with monkeypatch.context() as patch:
            patch.setattr(file, "_sync", swap)
            with pytest.raises(LedgerUnavailable):
                book.spend(ONE, "x")
    assert spent(path) == 1  # here the copy came after the line, so it is spent as well; nothing was released on it


# Kills at every instruction


def in_fork(action: Callable[[], None]) -> int:
    """The exit code of ``action`` in a forked child: 0 if it returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(step: int, action: Callable[[], None]) -> int:
    """Run ``action`` in a child that is killed when it comes to its ``step``-th line of the ledger's code."""

    def child() -> None:
        left = step

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if os.sep + "ledger" + os.sep not in frame.f_code.co_filename:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        action()
        sys.settrace(None)

    return in_fork(child)


def test_a_kill_at_any_line_of_a_spend_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 1000)
    book = BudgetLedger.open(path)
    acknowledged = os.open(tmp_path / "acknowledged", os.O_CREAT | os.O_RDWR | os.O_APPEND)
    killed, finished, step = 0, False, 0

    def spend() -> None:
        book.spend(ONE, "x").use()
        os.write(acknowledged, b".")

    while not finished:
        book.remaining()  # so that a child need not read what its elders left
        finished = killed_at(step, spend) == 0
        killed += not finished
        step += 7
        said = os.fstat(acknowledged).st_size
        shutil.copy(path, tmp_path / "alone.db")
        kept = spent(tmp_path / "alone.db")
        assert said <= kept <= said + killed  # a kill wastes at most one spend
        assert spent(path) == kept
    assert killed > 20
    book.spend(ONE, "goes on")


# Threads, forks, rights


def test_threads_and_processes_stop_exactly_at_the_budget(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 40)
    workers = [Worker(path) for _ in range(2)]
    book, paid = BudgetLedger.open(path), list[str]()

    def drive(spend: Callable[[], str]) -> None:
        while (said := spend()) == "paid":
            paid.append(said)

    def here() -> str:
        try:
            book.spend(ONE, "x")
        except BudgetExhausted:
            return "gone"
        return "paid"

    def of(worker: Worker) -> Callable[[], str]:
        return lambda: worker.tell("spend")

    threads = [threading.Thread(target=drive, args=(spend,)) for spend in (here, here, *map(of, workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.kill()
    assert len(paid) == spent(path) == 40


def test_a_fork_in_the_middle_of_a_transaction_writes_nothing_and_keeps_the_lock_with_the_parent(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "budget.db", 3)
    with BudgetLedger.open(path) as book:
        book.spend(ONE, "session", "s")
        book.queries.open("s", 5)
        busy: list[str] = []

        def draw(i: int, number: int) -> str:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid:
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
                with pytest.raises(LedgerError):
                    BudgetLedger.open(path, timeout=0).spend(ONE, "while the parent holds the lock")
                busy.append("yes")
            return "1" if pid else "0"

        me = os.getpid()
        try:
            answers = book.queries.answer("s", ["ab" * 32], draw)
        except LedgerUnavailable:
            assert os.getpid() != me
            os._exit(7)
        finally:
            if os.getpid() != me:
                os._exit(1)
        assert ([a.answer for a in answers], busy, book.queries.used("s")) == (["1"], ["yes"], 1)
    assert spent(path) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_ledger_that_may_only_be_read_can_be_read(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 3)
    with BudgetLedger.open(path) as book:
        book.spend(ONE, "x")
    for place in (tmp_path, *tmp_path.parents[:-2]):
        place.chmod(0o755)
    path.chmod(0o444)

    def child() -> None:
        os.setuid(65534)
        with BudgetLedger.open(path) as book, open(path, "rb") as file:
            assert book.remaining().epsilon == 2
            book.verify()
            assert not reader_in_the_way(file.fileno())  # who may only read takes no lock
            with pytest.raises(LedgerUnavailable, match="cannot be opened"):
                book.spend(ONE, "x")

    assert in_fork(child) == 0
    assert spent(path) == 1
    whole = path.read_bytes()
    path.write_bytes(whole + b"0" * 30)  # a writer at work, or what a kill left: not for a reader to judge or tidy up
    assert in_fork(child) == 0
    assert path.read_bytes() == whole + b"0" * 30
    assert spent(path) == 1
    assert path.read_bytes() == whole


# Readers that would keep writers out

HOLDER = """
import fcntl, os, struct, sys
path, kind, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
if user:
    os.setuid(user)
handle = os.open(path, os.O_RDONLY)
if kind == "flock":
    fcntl.flock(handle, fcntl.LOCK_EX)
else:  # read locks need no more than the right to read
    command = {"posix": fcntl.F_SETLKW, "ofd": fcntl.F_OFD_SETLKW}[kind]
    fcntl.fcntl(handle, command, struct.pack("@hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held() -> Iterator[Callable[[Path, str], subprocess.Popen[str]]]:
    """Another process, of somebody who may only read, that holds a lock on the whole file."""
    running: list[subprocess.Popen[str]] = []

    def hold(path: Path, kind: str) -> subprocess.Popen[str]:
        for place in (path.parent, *path.parent.parents[:-2]):
            place.chmod(0o755)
        path.chmod(0o644)
        user = 65534 if os.geteuid() == 0 else 0
        run = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), kind, str(user)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert run.stdout is not None
        assert run.stdout.readline() == "held\n"
        running.append(run)
        return run

    yield hold
    for run in running:
        run.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="locks of open file descriptions")
@pytest.mark.parametrize("kind", ["flock", "posix", "ofd"])
def test_who_may_only_read_cannot_keep_writers_out(
    tmp_path: Path, held: Callable[[Path, str], subprocess.Popen[str]], kind: str
) -> None:
    path = made(tmp_path / "budget.db", 12)
    workers = [Worker(path), Worker(path)]
    assert workers[0].tell("spend") == "paid"
    holder = held(path, kind)
    assert [workers[i % 2].tell("spend") for i in range(4)] == ["paid"] * 4
    with BudgetLedger.open(path, timeout=5) as book:
        book.spend(ONE, "x")
        book.verify()
    holder.communicate()  # the lock is given back, and everybody still agrees
    assert [workers[i % 2].tell("spend") for i in range(8)] == ["paid"] * 6 + ["BudgetExhausted"] * 2
    for worker in workers:
        worker.kill()
    assert spent(path) == 12
    lock = tmp_path / ".budget.db.lock"
    assert lock.exists() == (kind != "flock")  # in ordinary life nothing stands beside the ledger
    assert kind == "flock" or lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="locks of open file descriptions")
def test_writers_that_pass_by_a_reader_still_take_turns(
    tmp_path: Path, held: Callable[[Path, str], subprocess.Popen[str]]
) -> None:
    path = made(tmp_path / "budget.db", 60)
    workers = [Worker(path) for _ in range(3)]
    paid: list[str] = []

    def drive(worker: Worker) -> None:
        while (said := worker.tell("spend")) == "paid":
            paid.append(said)

    threads = [threading.Thread(target=drive, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for kind in ("ofd", "posix", "flock", "ofd"):  # come and go while they spend
        held(path, kind).communicate()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.kill()
    assert len(paid) == spent(path) == 60


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="locks of open file descriptions")
def test_a_ledger_without_the_lock_file_it_was_given_is_not_written_to_and_a_copy_is(
    tmp_path: Path, held: Callable[[Path, str], subprocess.Popen[str]]
) -> None:
    path = made(tmp_path / "budget.db", 9)
    holder = held(path, "ofd")
    with BudgetLedger.open(path) as book:
        book.spend(ONE, "makes the lock file")
    holder.communicate()
    (tmp_path / "moved").mkdir()
    os.rename(path, tmp_path / "moved" / "budget.db")
    with BudgetLedger.open(tmp_path / "moved" / "budget.db") as book:
        assert book.remaining().epsilon == 8
        with pytest.raises(LedgerUnavailable, match=r"'\.budget\.db\.lock', is not beside it"):
            book.spend(ONE, "x")
    for copy in (shutil.copy, shutil.copy2):  # the second copies attributes, too
        copy(tmp_path / "moved" / "budget.db", tmp_path / "copy.db")
        with BudgetLedger.open(tmp_path / "copy.db") as book:
            book.spend(ONE, "x")
        holder = held(tmp_path / "copy.db", "ofd")
        with BudgetLedger.open(tmp_path / "copy.db", timeout=5) as book:
            book.spend(ONE, "x")
        holder.communicate()
        os.unlink(tmp_path / "copy.db")
    os.rename(tmp_path / "moved" / "budget.db", path)
    with BudgetLedger.open(path) as book:
        book.spend(ONE, "brought back")
    assert spent(path) == 2


def test_where_no_lock_file_can_be_made_the_message_says_who_is_in_the_way(
    tmp_path: Path, held: Callable[[Path, str], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "budget.db", 9)
    held(path, "ofd")

    def refuses(*_: Any) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "setxattr", refuses)
    with (
        BudgetLedger.open(path, timeout=0.05) as book,
        pytest.raises(LedgerBusy, match=r"only reads .*chmod 600"),
    ):
        book.spend(ONE, "x")


def test_decimals_of_many_spends_add_up_after_every_attack(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 1)
    with BudgetLedger.open(path) as book:
        for _ in range(10):
            book.spend(Guarantee("0.1", unit="user", neighbours="add-remove"), "x")
        assert book.remaining().epsilon == Fraction(0)


# What the chaos suite found


def test_a_maker_killed_between_the_two_names_of_a_new_ledger_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", 3)
    os.link(path, tmp_path / ".budget.db.abcd1234.new")
    with BudgetLedger.open(path) as book:
        book.spend(ONE, "x")
    assert os.listdir(tmp_path) == ["budget.db"]


def test_a_seal_seen_half_is_read_again_while_somebody_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for the lock could mean waiting for a thread of this process that waits for this one."""
    from privpac.ledger import file

    path = made(tmp_path / "budget.db", 3)
    read, calls = file.read_seal, list[int]()

    def half_once(data: bytes) -> file.Seal:
        calls.append(1)
        return read(data if len(calls) > 1 else data[:100])

    with BudgetLedger.open(path, timeout=0) as book, open(path, "r+b") as other:
        assert try_lock(other.fileno())
        monkeypatch.setattr(file, "read_seal", half_once)
        assert book.remaining().epsilon == 3
