"""Reading and forging the lines of a ledger, for tests of what it notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privpac.ledger.file import START, Seal, as_line


def entries(path: Path) -> list[Any]:
    """What the lines say."""
    return [json.loads(line[65:]) for line in path.read_bytes()[START:].splitlines()]


def forge(path: Path, lines: list[Any]) -> None:
    """Other lines with right hashes and a right seal: what somebody could write who knows the format."""
    head, data = "0" * 64, b""
    for entry in lines:
        head, line = as_line(head, entry)
        data += line
    path.write_bytes(bytes(Seal(len(lines), START + len(data), head)) + data)
