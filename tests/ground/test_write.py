"""One way to write a file: whole, on disk, or not at all; nothing is left beside it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from privpac.errors import ModelFileError, ParameterError
from privpac.files import keep_once, write_durably, write_whole
from privpac.report.pages import write_page
from privpac.serve.keys import KeyStore
from privpac.serve.session_file import new_secret


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_written_with_its_mode_and_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one", 0o600)
    write_whole(tmp_path / "a", b"two", 0o600)
    assert (tmp_path / "a").read_bytes() == b"two"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"three", over=False)
    write_whole(tmp_path / "b", b"fresh", over=False)
    assert (tmp_path / "b").stat().st_nlink == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"two", "b": b"fresh"}


WRITERS = {
    "model": (ModelFileError, lambda path: write_durably(path, b"new")),
    "page": (ParameterError, lambda path: write_page("new", path)),
    "keys": (ModelFileError, lambda path: KeyStore(path).new("ann")),
    "secret": (ParameterError, new_secret),
    "messages": (OSError, lambda path: keep_once(path, b"new")),
}


@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
@pytest.mark.parametrize("name", list(WRITERS))
def test_where_the_system_refuses_nothing_is_left(
    name: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, write = WRITERS[name]
    monkeypatch.setattr(os, call, full)
    uses = "link" if name in ("secret", "messages") else "replace"
    if call in ("fsync", uses):
        with pytest.raises(error, match="No space left"):
            write(tmp_path / "file")
        assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []
    else:
        write(tmp_path / "file")
        assert (tmp_path / "file").exists()


def test_without_links_the_first_messages_are_still_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    assert keep_once(tmp_path / "kept", b"first") == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
