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

from privpac.data import Categories, Dates, Floats, Grid, Integers
from privpac.device.canonical import CanonicalWeights, PackedLists, canonical_list
from privpac.device.correlated_sampling import rate
from privpac.device.items import LinearRule
from privpac.device.keys import seal
from privpac.device.manifest import told
from privpac.device.tasks import Task
from privpac.device.wire import bundle, pack_item, pack_report, pack_shuffled
from privpac.protocols import AnalyzerKey, CentralProtocol, Client, CoordinatorKey, LocalProtocol, ShuffleProtocol
from privpac.protocols import fingerprint as fingerprint_of
from privpac.protocols.domains import column_of
from privpac.protocols.files import write_shuffled
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


ORDER = (1 << 252) + 27742317777372353535851937790883648493
"""Of the group in which signatures are made."""


def signatures() -> list[dict[str, Any]]:
    """A signed manifest, and what must be refused: every change of the manifest, of the signature and of the key."""
    ages = {"age": Integers(0, 99)}
    key, other = (CoordinatorKey(hashlib.sha256(f"coordinator {name}".encode()).digest()) for name in "ab")
    given: dict[str, Any] = {"label": "ill", "seed": SEED, "min_records": 20, "analyzer": _key("local").public}
    manifest = LocalProtocol("threshold", ages, 1, **given).manifest
    swapped = LocalProtocol("threshold", ages, 1, **{**given, "analyzer": _key("eve").public}).manifest
    good = json.loads(manifest.signed(key).published())
    sign = good["signature"]
    high = (int.from_bytes(bytes.fromhex(sign[64:]), "little") + ORDER).to_bytes(32, "little").hex()
    # With a key of small order, R = the neutral point and S = 0 fit any text, or one in eight.
    neutral = (1).to_bytes(32, "little").hex()
    small = [
        bytes(32).hex(),
        neutral,
        ((1 << 255) - 20).to_bytes(32, "little").hex(),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        (1 + (1 << 255)).to_bytes(32, "little").hex(),
        ((1 << 255) - 19).to_bytes(32, "little").hex(),
        ((1 << 255) - 18).to_bytes(32, "little").hex(),
        "ff" * 32,
    ]
    text = manifest.signed(key).published().decode()
    cases: dict[str, Any] = {
        "signed": text,
        "another layout": json.dumps(dict(reversed(good.items())), indent=2),
        "swapped analyzer": {**good, "manifest": json.loads(swapped.write())},
        "signature of another run": {**good, "signature": json.loads(swapped.signed(key).published())["signature"]},
        "signature of another coordinator": {**good, "signature": other.sign(manifest.write()).value.hex()},
        "another coordinator's key": {**good, "coordinator": other.public.hex()},
        "lookalike label": {**good, "manifest": {**good["manifest"], "label": "\u0456ll"}},
        "lookalike key of the manifest": text.replace('"label"', '"l\u0430bel"'),
        "lookalike key beside it": text.replace('"signature"', '"s\u0456gnature"'),
        "wide digits": {**good, "signature": "\uff10" + sign[1:]},
        "truncated signature": {**good, "signature": sign[:-2]},
        "half a signature": {**good, "signature": sign[:64]},
        "empty signature": {**good, "signature": ""},
        "longer signature": {**good, "signature": sign + "00"},
        "capital digits": {**good, "signature": sign.upper()},
        "zero signature": {**good, "signature": "00" * 64},
        "S beyond the order": {**good, "signature": sign[:64] + high},
        "one bit of R": {**good, "signature": f"{int(sign[0], 16) ^ 1:x}" + sign[1:]},
        "no signature": {name: value for name, value in good.items() if name != "signature"},
        "no coordinator": {name: value for name, value in good.items() if name != "coordinator"},
        "no manifest": {name: value for name, value in good.items() if name != "manifest"},
        "something more": {**good, "note": "x"},
        "a manifest as text": {**good, "manifest": manifest.write().decode()},
        "signed twice": {**good, "manifest": good},
        "a key beside the manifest's own": {**good["manifest"], "signature": sign},
        "two signatures": text[:-1] + f',"signature":"{sign}"}}',
        "two manifests": text[:-1] + ',"manifest":{}}',
        "two labels": text.replace('"label":"ill"', '"label":"ill","label":"ill"'),
        "two labels, one escaped": text.replace('"label":"ill"', '"label":"ill","\\u006cabel":"ill"'),
    }
    for number, point in enumerate(small):
        cases[f"key of small order {number}"] = {**good, "coordinator": point, "signature": neutral + "00" * 32}
    out = []
    for name, case in cases.items():
        published = case if isinstance(case, str) else json.dumps(case)
        out.append({"name": name, "published": published, "accepted": name in ("signed", "another layout")})
    shown = {"private": key.private.hex(), "public": key.public.hex(), "fingerprint": fingerprint_of(key.public)}
    return [{**case, **shown, "run_id": manifest.run.hex()} if case["accepted"] else case for case in out]


def made() -> dict[str, Any]:
    """One run of every rule and learner, and of every way to send."""
    ages = {"age": Integers(0, 99)}
    bits = {"smokes": Categories(["no", "yes"]), "sport": Integers(0, 1), "old": Integers(0, 1)}
    mixed = {"dose": Grid("0", "1", "0.1"), "ward": Categories(["north", "south", "west"]), "sport": Integers(0, 1)}
    graded = {**mixed, "ward": Categories(["north", "south", "west"], ordered=True)}
    given: dict[str, Any] = {"label": "ill", "seed": SEED, "min_records": 20}

    def local(rule: str, columns: dict[str, Any], epsilon: int = 1, **task: Any) -> LocalProtocol:
        return LocalProtocol(rule, columns, epsilon, task=task, **given)

    slow = {"Gamma": rate(20)}
    shuffled = {"delta": "1e-6", "n_min": 500, "n_max": 1000, **given}
    return {
        "local threshold": local("threshold", ages, **slow),
        "local threshold, indexed": local("threshold", ages, race="indexed", **slow),
        "local threshold below": local("threshold-below", ages, **slow),
        "local threshold, lists": local("threshold", {"hour": Integers(0, 7)}, learner="lists", alpha="1", parts=3),
        "local threshold, chunks": local("threshold", {"age": Floats()}, **slow),
        "local point": local("point", ages, **slow),
        "local hashed point": local("hashed-point", ages, coins=SEED[::-1].hex(), **slow),
        "local interval": local("interval", ages, cells=30, **slow),
        "local stump, dates": local("stump", {"day": Dates("2020-01-01", "2020-12-31"), **ages}, 2, **slow),
        "local parity": local("parity", bits),
        "local parity, solved": local("parity", bits, learner="solve"),
        "local conjunction": local("conjunction", bits),
        "local disjunction": local("disjunction", bits, keep_at_most=1, grid=30),
        "local decision list": local("decision-list", bits),
        "local decision list, pairs": local("decision-list", bits, k=2, stages=3, weight=3),
        "local decision list, queries": local("decision-list", bits, learner="queries"),
        "local decision list, proved pairs": local("decision-list", bits, learner="queries", k=2, alpha="1/2"),
        "local halfspace": local("halfspace", bits),
        "local halfspace, any columns": local("halfspace", graded, stages=3, ridge="1/10", grid=8),
        "local halfspace, large columns": local("halfspace", {**graded, "income": Integers(0, 100_000)}),
        "local halfspace, queries": local("halfspace", graded, learner="queries"),
        "local halfspace, proved queries": local("halfspace", ages, learner="queries", alpha="1/2"),
        "local naive Bayes": local("naive-bayes", bits),
        "local naive Bayes, any columns": local("naive-bayes", mixed, grid=30),
        "shuffle threshold": ShuffleProtocol("threshold", ages, 1, task=slow, **shuffled),
        "shuffle decision list, chunks": ShuffleProtocol("decision-list", bits, 1, width=6, **shuffled),
        "shuffle point, under": ShuffleProtocol("point", {"hour": Integers(0, 7)}, 2, direction="under", **shuffled),
        "central threshold": CentralProtocol("threshold", ages, 1, delta="1e-6", task=slow, **given),
        "central, sealed": CentralProtocol(
            "decision-list", bits, 1, delta="1e-6", analyzer=_key("central").public, **given
        ),
    }


def records_of(features: dict[str, Any], noise: bool = True) -> list[dict[str, Any]]:
    """Sixty records: labels follow the last column (but for some), and some values are none of the domain's."""
    records: list[dict[str, Any]] = []
    for i in range(60):
        row: dict[str, Any] = {}
        for place, (column, domain) in enumerate(features.items()):
            code = (7 * i + (3 * place + 1) * (i * i // 5)) % min(domain.size, 100)
            text = isinstance(domain, (Categories, Dates, Grid))
            row[column] = str(domain.text(code)) if text else code
        high = min(domain.size, 100) // 2 + (1 if domain.size > 2 else 0)
        row["ill"] = int(code >= high) ^ int(noise and i % 11 == 3)
        if i % 17 == 5:
            row[column] = "none"
        if i % 19 == 7:
            row["ill"] = "unknown"
        records.append(row)
    return records


def runs() -> list[dict[str, Any]]:
    """Whole clients: manifest, records, item, and the plain messages that the words give."""
    out = []
    for name, protocol in made().items():
        clear = name.endswith((", lists", ", solved"))  # these say nothing where labels are wrong
        manifest, records = protocol.manifest, records_of(protocol.features, not clear)
        client = Client(manifest)
        item, words = client.item(records), _words(name, 4000)
        with insecure_randomness():
            sources = WordRng(words), WordRng(words)
            plain, silent = client._plain(item, sources[0]), client._plain(None, sources[1])
        out.append(
            {
                "name": name,
                "manifest": manifest.write().decode(),
                "run_id": manifest.run.hex(),
                "told": told(manifest),
                "records": records,
                "item": (item or b"").hex(),
                "number": str(manifest.task.learner.universe.number(item)) if item else "",
                "universe": str(manifest.task.learner.universe.size),
                "words": [str(word) for word in words[: max(source.used for source in sources)]],
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
        (
            Dates("2020-01-01", "2020-12-31"),
            [
                "2020-01-01",
                "2020-12-31",
                "2021-01-01",
                "2020-02-30",
                "20200301",
                " 2020-03-01T00:00:00Z ",
                "2020-03-01 12:00",
            ],
        ),
        (Categories(["no", "yes"]), ["no", "yes", "Yes", ""]),
        (Categories(["low", "mid", "high"], ordered=True), ["high", "mid", "Low", ""]),
        (Integers(0, (1 << 64) - 1), ["18446744073709551615", "18446744073709551616", "1e19", "-0", "+3."]),
        (Floats(), ["0", "-0.0", "1.5", "-1.5", "1e300", "1e999", "5e-324", "0.1", "nan", "inf", 0.5, -7]),
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
        "signatures": signatures(),
        "runs": runs(),
        "columns": columns(),
        "forms": forms(),
        "files": files(),
        "keep": keeps(),
    }
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def written(found: dict[str, Any]) -> str:
    """One case a line."""
    sections = []
    for name, value in found.items():
        lines = [json.dumps(case) for case in value] if isinstance(value, list) else None
        text = "[\n" + ",\n".join(lines) + "\n]" if lines else json.dumps(value)
        sections.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


if __name__ == "__main__":
    PLACE.write_text(written(cases()))
