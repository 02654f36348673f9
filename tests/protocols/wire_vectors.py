"""The vectors beside ``docs/wire.md``: ``python tests/protocols/wire_vectors.py`` writes them anew.

Everything is a function of the inputs listed with it; random draws are given as 64-bit words in the order of their use.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.agreement.canonical import CanonicalWeights, PackedLists, canonical_list
from privpac.agreement.races.words import rate
from privpac.agreement.rules import LinearRule
from privpac.agreement.tasks import Task
from privpac.data import Categories, Dates, Floats, Grid, Integers
from privpac.protocols import AnalyzerKey, CentralProtocol, Client, LocalProtocol, ShuffleProtocol
from privpac.protocols.bundle import bundle
from privpac.protocols.domains import column_of
from privpac.protocols.files import write_shuffled
from privpac.protocols.seal import seal
from privpac.protocols.wire import pack_item, pack_report, pack_shuffled
from privpac.testing import WordRng, insecure_randomness

PLACE = Path(__file__).parents[2] / "docs" / "wire-vectors.json"
SEED = bytes(range(32))


def _key(name: str) -> AnalyzerKey:
    return AnalyzerKey(hashlib.sha256(f"analyzer {name}".encode()).digest())


def _words(name: str, count: int) -> list[int]:
    data = hashlib.shake_256(name.encode()).digest(8 * count)
    return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count)]


def seals() -> list[dict[str, Any]]:
    out = []
    packs: dict[str, Any] = {
        "local": (2, lambda run: pack_report(run, 0, 37, 1)),
        "shuffle": (3, lambda run: pack_shuffled(run, 41)),
        "central": (1, lambda run: pack_item(run, b"\x29", 4)),
        "central nothing to say": (1, lambda run: pack_item(run, b"", 4)),
    }
    for name, (kind, pack) in packs.items():
        run = hashlib.blake2b(name.encode(), digest_size=32).digest()
        key, one_time = _key(name), hashlib.sha256(f"ephemeral {name}".encode()).digest()
        out.append(
            {
                "name": name,
                "kind": kind,
                "run_id": run.hex(),
                "analyzer_private": key.private.hex(),
                "analyzer_public": key.public.hex(),
                "ephemeral_private": one_time.hex(),
                "message": pack(run).hex(),
                "sealed": seal(run, kind, key.public, pack(run), ephemeral=one_time).hex(),
            }
        )
    return out


def runs() -> list[dict[str, Any]]:
    """Whole clients: manifest, records, item, and the plain messages that the words give."""
    ages = {"age": Integers(0, 99)}
    bits = {"smokes": Categories(["no", "yes"]), "sport": Integers(0, 1), "old": Integers(0, 1)}
    given: dict[str, Any] = {"label": "ill", "seed": SEED, "min_records": 20}
    made: dict[str, Any] = {
        "local threshold": LocalProtocol("threshold", ages, 1, task={"Gamma": rate(20)}, **given),
        "local point": LocalProtocol("point", ages, 1, task={"Gamma": rate(20)}, **given),
        "local hashed point": LocalProtocol(
            "hashed-point", ages, 1, task={"Gamma": rate(20), "coins": SEED[::-1].hex()}, **given
        ),
        "local stump, dates": LocalProtocol(
            "stump", {"day": Dates("2020-01-01", "2020-12-31"), **ages}, 2, task={"Gamma": rate(20)}, **given
        ),
        "local threshold, chunks": LocalProtocol("threshold", {"age": Floats()}, 1, task={"Gamma": rate(20)}, **given),
        "local parity": LocalProtocol("parity", bits, 1, **given),
        "local conjunction": LocalProtocol("conjunction", bits, 1, **given),
        "local decision list": LocalProtocol("decision-list", bits, 1, **given),
        "local decision list, queries": LocalProtocol("decision-list", bits, 1, task={"learner": "queries"}, **given),
        "local halfspace": LocalProtocol("halfspace", bits, 1, **given),
        "local naive Bayes": LocalProtocol("naive-bayes", bits, 1, **given),
        "shuffle threshold": ShuffleProtocol(
            "threshold", ages, 1, delta="1e-6", n_min=500, n_max=1000, task={"Gamma": rate(20)}, **given
        ),
        "central threshold": CentralProtocol("threshold", ages, 1, delta="1e-6", task={"Gamma": rate(20)}, **given),
        "central, sealed": CentralProtocol(
            "decision-list", bits, 1, delta="1e-6", analyzer=_key("central").public, **given
        ),
    }
    out = []
    for name, protocol in made.items():
        manifest = protocol.manifest
        records: list[dict[str, Any]] = []
        for i in range(60):
            row: dict[str, Any] = {}
            for column, domain in protocol.features.items():
                code = (7 * i + 3 * len(column)) % min(domain.size, 100)
                row[column] = domain.text(code) if isinstance(domain, (Categories, Dates)) else code
            values = list(row.values())
            row["ill"] = int(values[-1] >= 41 if "age" in row else values[1] == 1 and (i % 4) != 0)
            records.append(row)
        client = Client(manifest)
        item, words = client.item(records), _words(name, 400)
        with insecure_randomness():
            plain = client._plain(item, WordRng(words))
            silent = client._plain(None, WordRng(words))
        out.append(
            {
                "name": name,
                "manifest": manifest.write().decode(),
                "run_id": manifest.run.hex(),
                "records": records,
                "item": (item or b"").hex(),
                "number": str(manifest.task.learner.universe.number(item)) if item else "",
                "universe": str(manifest.task.learner.universe.size),
                "words": [str(word) for word in words],
                "messages": [message.hex() for message in plain],
                "messages_of_nothing_to_say": [message.hex() for message in silent],
                "message_bytes_on_the_wire": manifest.message_bytes,
            }
        )
    return out


def columns() -> list[dict[str, Any]]:
    cases: list[tuple[Any, list[Any]]] = [
        (Integers(-5, 10), ["-5", "0", "10", "11", "1.0", "1.5", "1e1", " 7 ", "", "x", 3]),
        (Grid("0", "1", "0.1"), ["0", "0.3", "0.30", "0.35", "1", "3e-1"]),
        (Dates("2020-01-01", "2020-12-31"), ["2020-01-01", "2020-12-31", "2021-01-01", "2020-02-30"]),
        (Categories(["no", "yes"]), ["no", "yes", "Yes", ""]),
        (Floats(), ["0", "-0.0", "1.5", "-1.5", "1e300", "nan", "inf"]),
    ]
    out = []
    for domain, values in cases:
        column = column_of("x", domain)
        codes = [str(column.code(value)) for value in values]
        out.append({"column": column.write(), "size": str(column.size), "values": values, "codes": codes})
    return out


def forms() -> dict[str, Any]:
    lists = []
    for rules in ([(0, 1), (2, 0), (1, 1)], [(3, 0), (0, 0), (4, 1)], [(1, 1), (1, 0), (4, 0)], [], [(6, 1), (0, 0)]):
        for default in (0, 1):
            form = canonical_list(3, rules, default)
            item = b"".join(test.to_bytes(2, "little") + bytes((label,)) for test, label in form[0]) + bytes((form[1],))
            number = str(PackedLists(7, 4).number(item))
            lists.append({"columns": 3, "rules": rules, "default": default, "form": form, "number_of_4_rules": number})
    weights = []
    for sizes in ((2, 2), (2, 2, 2, 2, 2), (4, 3), (1441, 100)):
        learner = Task("halfspace", sizes).learner
        assert isinstance(learner, CanonicalWeights)
        for numbers in itertools.islice(itertools.product((-3, 1, 7), repeat=len(sizes) + 1), 5, 200, 37):
            form = learner.form(LinearRule(numbers))
            weights.append(
                {
                    "sizes": sizes,
                    "scale": learner.most,
                    "weights": numbers,
                    "form": [*form[0], form[1]],
                    "item": learner.pack(*form).hex(),
                }
            )
    return {"lists": lists, "weights": weights}


def files() -> dict[str, Any]:
    manifest = LocalProtocol("threshold", {"age": Integers(0, 9)}, 1, seed=SEED, label="ill").manifest
    messages = [pack_report(manifest.run, 0, j, j % 2) for j in range(3)]
    return {
        "run_id": manifest.run.hex(),
        "messages": [message.hex() for message in messages],
        "bundle": bundle(messages).hex(),
        "shuffled_of_2_clients": write_shuffled(manifest, messages, 2).hex(),
    }


def keeps() -> list[dict[str, str]]:
    out = []
    for epsilon in ("1/10", "1/2", "1", "2", "5"):
        made = LocalProtocol("threshold", {"age": Integers(0, 9)}, Fraction(epsilon), seed=SEED)
        out.append({"epsilon": epsilon, "keep": str(made.manifest.local.keep)})
    return out


def cases() -> dict[str, Any]:
    """All vectors, as they are written."""
    made = {
        "about": "Vectors of docs/wire.md. Bytes are hexadecimal digits, integers beyond 2^53 and words are texts.",
        "seal": seals(),
        "runs": runs(),
        "columns": columns(),
        "forms": forms(),
        "files": files(),
        "keep": keeps(),
    }
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


if __name__ == "__main__":
    PLACE.write_text(json.dumps(cases(), indent=1) + "\n")
