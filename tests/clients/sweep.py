"""Every number of a manifest replaced by hostile ones, and what the client in ``privpac`` makes of each.

Run as a program it reads a JSON list of manifests on standard input and writes, for each, whether it is refused and how
many seconds that took; its memory is limited before the first one is read.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

MEMORY = 1 << 30
VALUES: list[Any] = [
    *(0, 1, -1, 2, 3, 7, 64, 65, 1 << 16, (1 << 20) + 1, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, (1 << 40) + 1),
    *(1 << 53, (1 << 53) + 1, (1 << 62) - 1, 1 << 62, 1 << 63, 1 << 64, 10**30, 10**390, 10**400, -(10**400)),
    *(1.0, 1.5, 1e300, True, False, None, [], {}, [1], "", "0", "1", "-1", "+1", " 1", "1 ", "1_0", "1\u00a0", "01"),
    *("\uff11", "\u0661", "1.0", ".5", "1.", "1e3", "1E-3", "1e400", "0x10", "inf", "nan", "1/2", "2/4", "1/0", "-1/2"),
    *("9007199254740992", "18446744073709551616", "9" * 400, "1/" + "9" * 400, "0." + "0" * 299 + "1", "9" * 401),
    *("1/9007199254740992", "9007199254740991/9007199254740992", "9007199254740993/9007199254740992"),
    *("00", "ff", "FF", "f f", "0" * 64, "f" * 64, "0 " * 32, "2020-01-01", "20200101", "2020-W01-1", "0001-01-01"),
    *("9999-12-31", "2020-02-30", "\u0662\u0660\u0662\u0660-01-01"),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a manifest that is a number, or a text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:1]):
            yield from places(inner, (*path, index))
    else:
        yield path


def changed(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The same manifest with another value in one place."""
    copy: dict[str, Any] = json.loads(json.dumps(manifest))
    at: Any = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def judged(texts: list[str]) -> list[dict[str, Any]]:
    from privpac.device.manifest import Manifest
    from privpac.errors import ManifestError

    out = []
    for text in texts:
        before = time.process_time()
        try:
            found: dict[str, Any] = {"run": Manifest.read(text).run.hex()}
        except ManifestError as error:
            found = {"refused": str(error)}
        out.append({**found, "seconds": time.process_time() - before})
    return out


def swept(texts: list[str]) -> list[dict[str, Any]]:
    """:func:`judged` in a process with little memory."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(texts), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    json.dump(judged(json.load(sys.stdin)), sys.stdout)
