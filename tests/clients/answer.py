"""Answers of an installed ``privpac_client``: cases on standard input, as for ``clients/js/test/answer.js``."""

import json
import sys

from privpac_client import Client, Manifest
from privpac_client.rng import Rng


class Words(Rng):
    def __init__(self, words: list[str]) -> None:
        self._left = iter(words)

    def word(self) -> int:
        return int(next(self._left))


def value(found: object) -> object:
    return int(found["integer"]) if isinstance(found, dict) else found


def answer(case: dict) -> dict:
    client = Client(Manifest.read(case["manifest"]))
    item = client.item([{name: value(found) for name, found in row.items()} for row in case["records"]])
    plain, silent = (client._plain(said, Words(case["words"])) for said in (item, None))
    return {
        "run": client.manifest.run.hex(),
        "item": None if item is None else item.hex(),
        "messages": [message.hex() for message in plain],
        "silent": [message.hex() for message in silent],
    }


found = [answer(case) for case in json.load(sys.stdin)]
assert "numpy" not in sys.modules
json.dump(found, sys.stdout)
