"""Rules in SQL, Python, JavaScript and R say what ``predict`` says: by DuckDB, SQLite, Python, Node and R."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Domain
from privpac.errors import NoReleaseError, ParameterError
from privpac.guarantee import Guarantee
from privpac.result import NoRelease, Released
from privpac.rules.base import Rule
from privpac.rules.cuts import Threshold
from privpac.rules.export.code import function
from privpac.rules.export.expression import CodeTimes, SumExceeds
from privpac.rules.export.sql import sqlite_real
from privpac.rules.export.writer import RuleSource
from privpac.rules.hierarchies.base import TreeRule
from privpac.rules.points import Point
from privpac.rules.scorecards import CalibrationBin, Scorecard, ScorecardPerLabel
from privpac.rules.small_trees import SmallTrees
from privpac.rules.wide_columns import BinnedColumn, binned, read_cuts

AGE, DOSE, DAY, SEX = 'age"; DROP TABLE t; --', "dose '\\n`${x}", "day */ \\", "sex\n</script><!-- ü"
NAMES = ["f", "it's", 'a"b\\', "x\ny", "</script>*/--;", "ünï \u2028", "`${y}`"]
DOMAINS: dict[str, Domain] = {
    AGE: pp.Integers(-5, 60),
    DOSE: pp.Grid("-0.3", "2.1", "0.1"),
    "real": pp.Floats(),
    DAY: pp.Dates("2019-12-20", "2020-03-10"),
    SEX: pp.Categories(NAMES),
    "grade": pp.Categories(["low", "mid", "high"], ordered=True),
    "smoker": pp.Integers(0, 1),
    "flag": pp.Categories([False, True]),
}
CUTS = {"real": [-1.5, 0.0, 0.30000000000000004, 1e300]}
ROWS = 400
PROMISE = Guarantee(1, unit="user", neighbours="add-remove")


def values_of(name: str, rng: np.random.Generator) -> list[Any]:
    """Values inside, between, at and beyond the ends of a domain, and missing ones."""

    def one() -> Any:
        kind = rng.integers(12)
        if name == AGE:
            number = float(rng.integers(-9, 70))
            return (
                number
                if kind < 5
                else number / 2
                if kind < 10
                else -0.0
                if kind == 10
                else math.copysign(math.inf, number)
            )
        if name == DOSE:
            near = round(float(rng.integers(-6, 25)) / 10, 1)
            return [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf), near + 0.05, -math.inf][
                min(int(kind) // 2, 4)
            ]
        if name == "real":
            edge = float(rng.choice([*CUTS["real"], 5e-324, -5e-324, 2.0**53 + 2]))
            return [edge, math.nextafter(edge, math.inf), math.nextafter(edge, -math.inf), -0.0][int(kind) % 4]
        if name == DAY:
            return date(2019, 12, 1) + timedelta(days=int(rng.integers(0, 130)))
        domain = DOMAINS[name]
        if name == "smoker":
            return float(rng.integers(0, 2))
        if name == "flag":
            return bool(rng.integers(0, 2))
        return "not listed" if kind == 11 else domain.value(int(rng.integers(domain.size)))

    return [None if rng.random() < 0.02 else one() for _ in range(ROWS)]


TYPES = {AGE: pl.Float64, DOSE: pl.Float64, "real": pl.Float64, DAY: pl.Date, "smoker": pl.Float64, "flag": pl.Boolean}


def table(seed: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {name: values_of(name, rng) for name in DOMAINS}


def expected(rule: Rule, rows: Mapping[str, list[Any]]) -> list[Any]:
    """What predict says of each row, None where it refuses the row."""
    series = {name: pl.Series(rows[name], dtype=TYPES.get(name, pl.String)) for name in rule.reads}
    good = np.ones(ROWS, bool)
    for name in rule.reads:
        good &= rule.features[name].encode(series[name], on_invalid="clamp")[1]
    out: list[Any] = [None] * ROWS
    if good.any():
        answers = rule.predict({name: column.filter(pl.Series(good)) for name, column in series.items()})
        for row, answer in zip(np.flatnonzero(good).tolist(), answers.tolist()):
            out[row] = answer
    return out


def on_duckdb(rule: Rule, rows: Mapping[str, list[Any]]) -> list[Any]:
    import duckdb

    frame = pl.DataFrame({name: pl.Series(rows[name], dtype=TYPES.get(name, pl.String)) for name in rows})
    with duckdb.connect() as connection:
        connection.register("t", frame.to_arrow())
        return [row[0] for row in connection.execute(f"SELECT {rule.to_sql('duckdb')} FROM t").fetchall()]


def on_sqlite(rule: Rule, rows: Mapping[str, list[Any]]) -> list[Any]:
    stored = {n: [v.isoformat() if isinstance(v, date) else v for v in values] for n, values in rows.items()}
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in rows)
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE t ({names})")
    marks = ", ".join("?" * len(rows))
    connection.executemany(f"INSERT INTO t VALUES ({marks})", list(zip(*stored.values())))
    return [row[0] for row in connection.execute(f"SELECT {rule.to_sql('sqlite')} FROM t ORDER BY rowid")]


def on_python(rule: Rule, rows: Mapping[str, list[Any]]) -> list[Any]:
    space: dict[str, Any] = {}
    exec(compile(rule.to_code("python"), "rule.py", "exec"), space)
    out: list[Any] = []
    for values in zip(*rows.values()):
        try:
            out.append(space["predict"](dict(zip(rows, values))))
        except ValueError:
            out.append(None)
    return out


def on_node(rules: Sequence[Rule], rows: Mapping[str, list[Any]]) -> list[list[Any]]:
    listed = [dict(zip(rows, values)) for values in zip(*rows.values())]
    script = (
        f"const rows = {json.dumps(listed, default=lambda day: day.isoformat())};\n"
        f"const sources = {json.dumps([rule.to_code('javascript') for rule in rules])};\n"
        "const said = sources.map((source) => {\n"
        "  const module = {}; new Function('module', source)(module);\n"
        "  return rows.map((row) => { try { return module.exports.predict(row); } catch { return null; } });\n"
        "});\nconsole.log(JSON.stringify(said));\n"
    )
    run = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    found: list[list[Any]] = json.loads(run.stdout)
    return found


def in_r(value: Any) -> str:
    """A value of R, spelled in another way than rules spell theirs."""
    match value:
        case bool():
            return str(value).upper()
        case float():
            return f"readBin(as.raw(c({', '.join(map(str, np.float64(value).tobytes()))})), 'double')"
        case int():
            return str(value)
        case str():
            return f"intToUtf8(c({', '.join(map(str, map(ord, value)))}))"
        case date():
            return f"as.Date({(value - date(1970, 1, 1)).days}, origin = '1970-01-01')"
        case _:
            return "NULL"


def run_r(rules: Sequence[Rule], rows: str) -> list[list[Any]]:
    """What the functions of R say of a list of rows, None where they refuse one."""
    script = f"""
        options(warn = 2)
        rows <- {rows}
        for (file in commandArgs(TRUE)) {{
          space <- new.env()
          sys.source(file, space)
          stopifnot(identical(ls(space), "predict_row"))
          for (row in rows) {{
            said <- tryCatch(space$predict_row(row), error = conditionMessage)
            if (is.character(said)) said <- paste(utf8ToInt(said), collapse = " ")
            else said <- paste("number", said)
            writeLines(said)
          }}
          writeLines("end")
        }}
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{place}.R") for place in range(len(rules))]
        for file, rule in zip(files, rules):
            file.write_text(rule.to_code("r"), "ascii")
        main = Path(folder, "main.R")
        main.write_text(script, "ascii")
        words = ["Rscript", "--vanilla", str(main), *map(str, files)]
        run = subprocess.run(words, capture_output=True, text=True, check=True)

    def read(line: str) -> Any:
        if line.startswith("number "):
            return int(line.removeprefix("number "))
        text = "".join(chr(int(code)) for code in line.split())
        return None if text.endswith(": the value is missing or cannot be read") else text

    return [[read(line) for line in part.splitlines()] for part in run.stdout.split("end\n")[:-1]]


def on_r(rules: Sequence[Rule], rows: Mapping[str, list[Any]]) -> list[list[Any]]:
    listed = (f"list({', '.join(map(in_r, values))})" for values in zip(*rows.values()))
    names = f"c({', '.join(map(in_r, rows))})"
    return run_r(rules, f"lapply(list({', '.join(listed)}), setNames, {names})")


def scorecard(columns: tuple[BinnedColumn, ...], rng: np.random.Generator, label: str = "ill") -> Scorecard:
    points = tuple(tuple(int(p) for p in rng.integers(0, 5, column.width)) for column in columns)
    card = Scorecard(columns, points, 0, 9, label)
    return Scorecard(columns, points, int(rng.integers(card.least, card.most + 1)), 9, label)


YES_NO = {name: DOMAINS[name] for name in ("smoker", "flag")}
LINED = {name: DOMAINS[name] for name in (AGE, DOSE, DAY)}
OWN = {name: pp.Missing(domain, "own") for name, domain in DOMAINS.items()}


def of_class(concept: Any) -> Callable[[np.random.Generator], Rule]:
    def build(rng: np.random.Generator) -> Rule:
        rule: Rule = concept.decode(int(rng.integers(min(concept.size, 1 << 62))), label="ill")
        return rule

    return build


def trees(columns: Mapping[str, Domain], classes: list[str] | None) -> Callable[[np.random.Generator], Rule]:
    concept = SmallTrees(dict(columns), cuts={**CUTS}, classes=classes, depth=2)
    return of_class(concept)


KINDS: dict[str, Callable[[np.random.Generator], Rule]] = {
    **{f"above {name!a}": of_class(pp.Thresholds(DOMAINS[name], name)) for name in (AGE, DOSE, DAY, "grade")},
    "below": of_class(pp.Thresholds(DOMAINS[DOSE], DOSE, direction="both")),
    "above a float": lambda rng: Threshold(
        "real", pp.Floats(), pp.Floats().code(float(rng.choice(CUTS["real"]))) or 0, str(rng.choice(["above", "below"]))
    ),
    "a float": lambda rng: Point("real", pp.Floats(), pp.Floats().code(float(rng.choice(CUTS["real"])))),
    **{f"point {name!a}": of_class(pp.Points(DOMAINS[name], name)) for name in (AGE, DOSE, DAY, SEX)},
    "interval": of_class(pp.Intervals(DOMAINS[DOSE], DOSE)),
    "stump": of_class(pp.Stumps({n: d for n, d in DOMAINS.items() if n != "real"})),
    "box": of_class(pp.Rectangles({AGE: DOMAINS[AGE], DAY: DOMAINS[DAY], "grade": DOMAINS["grade"]}, cuts=4)),
    "conjunction": of_class(pp.Conjunctions(YES_NO)),
    "disjunction": of_class(pp.Disjunctions(YES_NO)),
    "list": of_class(pp.DecisionLists(YES_NO)),
    "parity": of_class(pp.Parities(YES_NO)),
    "halfspace": of_class(pp.Halfspaces(LINED, cuts=4)),
    **{
        f"binarized {over}": of_class(
            pp.Binarized(over, {AGE: DOMAINS[AGE], DOSE: DOMAINS[DOSE], "flag": DOMAINS["flag"]}, cuts=2)
        )
        for over in ("conjunction", "disjunction", "decision-list", "parity")
    },
    "tree": trees(DOMAINS, None),
    "tree with missing values": trees(OWN, None),
    "tree of labels": trees(OWN, NAMES[:4]),
    "scorecard": lambda rng: scorecard(binned(DOMAINS, read_cuts(CUTS)), rng),
    "scorecard with missing values": lambda rng: scorecard(binned(OWN, read_cuts(CUTS)), rng),
    "scorecards of labels": lambda rng: ScorecardPerLabel(
        tuple(scorecard(binned(OWN, read_cuts(CUTS)), rng, name) for name in NAMES[:3])
    ),
}

NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


R = pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not installed")


def rules_of(kind: str, seed: int, count: int) -> list[Rule]:
    rng = np.random.default_rng(seed)
    return [KINDS[kind](rng) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_language_says_what_predict_says(kind: str) -> None:
    for seed, rule in enumerate(rules_of(kind, 1, 5)):
        rows = table(seed)
        says = expected(rule, rows)
        for run in (on_python, on_duckdb, on_sqlite):
            assert run(rule, rows) == says, (run.__name__, str(rule), rule.to_sql())


@NODE
@pytest.mark.parametrize("kind", KINDS)
def test_node_says_what_predict_says(kind: str) -> None:
    rules, rows = rules_of(kind, 2, 6), table(3)
    assert on_node(rules, rows) == [expected(rule, rows) for rule in rules]


@R
@pytest.mark.parametrize("kind", KINDS)
def test_r_says_what_predict_says(kind: str) -> None:
    rules, rows = rules_of(kind, 4, 4), table(5)
    assert on_r(rules, rows) == [expected(rule, rows) for rule in rules]


# Python and R read what a row may hold


@pytest.mark.parametrize("name", [AGE, DOSE, DAY, SEX, "flag", "real"])
def test_python_reads_every_type_of_value(name: str) -> None:
    values: dict[str, list[Any]] = {
        AGE: [
            True,
            3,
            2.5,
            Decimal("30.5"),
            "7",
            " 41.0 ",
            "1e1",
            "4_1",
            "٣",
            "",
            "nan",
            "inf",
            10**400,
            "x",
            [],
            2**70,
        ],
        DOSE: [
            0,
            1,
            True,
            Decimal("0.30"),
            Decimal("0.2999999999999999999"),
            "0.3",
            "0.29999999999999999999",
            0.3,
            "-inf",
        ],
        "real": [1, "0.1", 2**53 + 1, Decimal("0.1"), 0.30000000000000004, "0.30000000000000004", "1_0", "", True],
        DAY: [
            date(2020, 1, 5),
            datetime(2020, 1, 5, 23),
            "2020-01-05",
            " 2020-02-01T10:00 ",
            "2020-13-01",
            "",
            20200105,
        ],
        SEX: [*NAMES, "nobody", 7, 7.0, False, None],
        "flag": [True, "true", "True", "false", 0, None],
    }
    domain = DOMAINS[name]
    for cut in (5, 6, 20) if domain.size > 20 else range(1, domain.size):
        rule = (
            Threshold(name, domain, domain.code(0.30000000000000004) or 0)
            if name == "real"
            else Threshold(name, domain, cut)
            if domain.ordered
            else Point(name, domain, cut)
        )
        space: dict[str, Any] = {}
        exec(rule.to_code("python"), space)
        for value in [*values[name], None, math.nan]:
            good = bool(domain.encode([value], on_invalid="clamp")[1][0])
            if good:
                assert space["predict"]({name: value}) == rule.predict({name: [value]})[0], value
            else:
                with pytest.raises(ValueError, match=r"missing or cannot be read") as caught:
                    space["predict"]({name: value})
                assert caught.value.__context__ is None or "nobody" not in str(caught.value)


@R
@pytest.mark.parametrize(
    ("name", "values"),
    [
        (AGE, [True, False, 3, 2.5, -0.0, math.inf, -math.inf, 1e300]),
        (DOSE, [0, 1, True, 0.3, 0.1 + 0.2, -math.inf]),
        ("real", [1, True, 2.0**53 + 2, 0.1, 0.1 + 0.2, 5e-324, math.inf]),
        (DAY, [date(2020, 1, 5), date(1, 1, 1), date(9999, 12, 31), "2020-01-05", " 2020-02-01T10:00 "]),
        (DAY, ["2020-02-29 23:59:59.5", "2020-01-05T23:30:00-05:00", "2020-02-30", "2020-13-01", "", "0000-01-05"]),
        (DAY, ["2020-01-05T24:00", "2020-01-05T99", "2020-01-05 x", 7, "0001-01-01", "x"]),
        (SEX, [*NAMES, "nobody", 7, 7.0, False, ""]),
        ("flag", [True, False, "true", "True", "false", 0]),
        ("mixed", ["7", 7, 7.0, 7.5, "7.5", 0.1 + 0.2, 0.3, True, "TRUE", "NA", "", " 7", 2**31 - 1, math.inf]),
    ],
)
def test_r_reads_what_predict_reads(name: str, values: list[Any]) -> None:
    mixed = pp.Categories(["7", "7.5", "true", "0.30000000000000004", "", "NA", "2147483647", "Inf"])
    domain = DOMAINS.get(name, mixed)
    for own in (False, True):
        column = pp.Missing(domain, "own") if own else domain
        cuts = [domain.code(0.1 + 0.2) or 0] if name == "real" else range(1, min(domain.size, 40), 3)
        rules: list[Rule] = [Point(name, column, cut) for cut in cuts]
        rules += [Threshold(name, column, cut) for cut in cuts if column.ordered]
        asked = [*values, None, math.nan]
        good = [bool(column.encode([value], on_invalid="clamp")[1][0]) for value in asked]
        said = [
            [rule.predict({name: [value]})[0] if fine else None for value, fine in zip(asked, good)] for rule in rules
        ]
        assert on_r(rules, {name: asked}) == said


@R
def test_values_and_rows_of_r() -> None:
    """Factors, dates of half a day, whole numbers, frames and vectors are read; other objects are refused by name."""
    sex, day, age = Point("x", DOMAINS[SEX], 0), Threshold("x", DOMAINS[DAY], 9), Threshold("x", DOMAINS[AGE], 30)
    cut = DOMAINS[DAY].present.text(9)
    rows = (
        "list(list(x = factor('f')), data.frame(x = 'f'), c(x = 'f'), list(x = NA), list(x = c('f', 'f')),"
        f" list(x = as.Date('{cut}') + 0.5), list(x = as.Date('{cut}') - 0.5), list(x = as.Date(Inf, '1970-01-01')),"
        f" list(x = as.POSIXct('{cut}')), list(x = as.POSIXlt('{cut}')), list(x = NA_real_),"
        " c(x = 40), list(x = 40L), data.frame(x = 40), list(x = structure(40, class = 'integer64')), list(x = '40'),"
        " list(x = list(40)), list(x = NULL), list(y = 1, x = 40), list(y = 1), list(1))"
    )
    none, lost = None, "there is no column x"
    said = run_r([sex, day, age], rows)
    assert said[0] == [1, 1, 1, *[none] * 16, lost, lost]
    assert said[1] == [*[none] * 5, 1, 0, *[none] * 12, lost, lost]
    assert said[2] == [*[none] * 11, 1, 1, 1, *[none] * 4, 1, lost, lost]


@R
def test_wide_rules_of_r() -> None:
    """R reads at most 50 brackets inside each other."""
    names = [f"x{place}" for place in range(200)]
    rng = np.random.default_rng(6)
    rows = {name: [float(bit) for bit in rng.integers(0, 2, 30)] for name in names}
    twenty = pp.Parities({name: pp.Integers(0, 1) for name in names[:20]})
    columns = tuple(BinnedColumn(name, pp.Integers(0, 1), (1,)) for name in names)
    card = Scorecard(columns, tuple((0, int(p)) for p in rng.integers(0, 5, 200)), 200, 999, "ill")
    rules: list[Rule] = [twenty.decode(2**20 - 1), card]
    grids = {"x0": pp.Integers(0, 255), "x1": pp.Integers(0, 1)}
    listed = pp.FiniteClass(rng.integers(0, 2, (2, 512)).astype(np.uint8), grids)
    rows["x0"] = [float(value) for value in rng.integers(0, 256, 30)]
    rules.append(listed.decode(1))
    assert on_r(rules, rows) == [rule.predict({name: rows[name] for name in rule.reads}).tolist() for rule in rules]


def test_whole_numbers_beyond_doubles_stay_exact() -> None:
    domain, cut = pp.Integers(0, 2**64 - 1), 2**63 + 2**53 + 1
    rule = Threshold("id", domain, cut)
    values = [cut - 1, cut, cut + 1, 0, 2**64 - 1]
    said = [int(value >= cut) for value in values]
    assert rule.predict({"id": pl.Series(values, dtype=pl.UInt64)}).tolist() == said
    space: dict[str, Any] = {}
    exec(rule.to_code("python"), space)
    assert [space["predict"]({"id": value}) for value in values] == said
    assert f"{cut}n" in rule.to_code("javascript")
    import duckdb

    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE t (place INTEGER, "id" UBIGINT)')
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        found = connection.execute(f"SELECT {rule.to_sql('duckdb')} FROM t ORDER BY place").fetchall()
    assert [row[0] for row in found] == said
    assert f"NUMERIC '{cut}'" in rule.to_sql("bigquery")


@NODE
def test_big_integers_of_javascript() -> None:
    cut = 2**53 + 1
    source = Threshold("id", pp.Integers(0, 2**60), cut).to_code("javascript")
    values = f"[{cut - 1}n, {cut}n, {cut + 1}n, {cut + 1}]"
    script = f"{source}\nconsole.log(JSON.stringify({values}.map((id) => predict({{ id }}))));"
    run = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [0, 1, 1, 1]


# Names are text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
        min_size=2,
        max_size=4,
        unique=True,
    ),
)
def test_any_name_is_text(column: str, names: list[str]) -> None:
    rule = Point(column, pp.Categories(names), 1)
    space: dict[str, Any] = {}
    exec(rule.to_code("python"), space)
    assert [space["predict"]({column: name}) for name in names] == [0, 1, *[0] * (len(names) - 2)]
    connection = sqlite3.connect(":memory:")
    quoted = '"' + column.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE t ({quoted} TEXT)")
    connection.executemany("INSERT INTO t VALUES (?)", [(name,) for name in names])
    found = connection.execute(f"SELECT {rule.to_sql('sqlite')} FROM t ORDER BY rowid").fetchall()
    assert [row[0] for row in found] == [0, 1, *[0] * (len(names) - 2)]
    script = rule.to_code("javascript")
    assert script.isascii()
    assert "</" not in script
    assert "<!--" not in script


@R
def test_any_name_is_text_in_r() -> None:
    rng = np.random.default_rng(9)
    letters = [
        *map(chr, range(1, 256)),
        *'"""\\\\\\\'\'`\n\r%#{}u',
        "\u2028",
        "\ufeff",
        "\uffff",
        "\U0001f600",
        "\U0010ffff",
    ]
    found = ["".join(rng.choice(letters, 6)) for _ in range(80)] + ["\\", '\\"', "\\u0041", "NA", "x1"]
    names = [*dict.fromkeys(found)]
    domain = pp.Categories([*names, ""])
    rules: list[Rule] = [Point(column, domain, code) for code, column in enumerate(names)]
    rows = {column: list(domain.values) for column in names}
    assert on_r(rules, rows) == [[int(place == code) for place in range(domain.size)] for code in range(len(names))]
    assert all(rule.to_code("r").isascii() for rule in rules)


@R
def test_r_reads_every_double_exactly() -> None:
    drawn = np.random.default_rng(10).integers(0, 2**64, 60, dtype=np.uint64).view(np.float64)
    cuts = [float(x) for x in drawn if math.isfinite(x)]
    cuts += [5e-324, -5e-324, 2.2250738585072014e-308, 0.1, 0.1 + 0.2, 1.7976931348623157e308, 2.0**53 + 2]
    asked = [x for cut in cuts for x in (cut, math.nextafter(cut, math.inf), math.nextafter(cut, -math.inf))]
    domain = pp.Floats()
    rules: list[Rule] = [Threshold("x", domain, domain.code(cut) or 0) for cut in cuts]
    assert on_r(rules, {"x": asked}) == [rule.predict({"x": asked}).tolist() for rule in rules]


def test_quotes_of_other_dialects() -> None:
    rule = Point("a`\\\"'", pp.Categories(["x'\\`\n", "y"]), 0)
    assert "`a\\`\\\\\"'`" in rule.to_sql("bigquery")
    assert "'x\\'\\\\`\\U0000000a'" in rule.to_sql("bigquery")
    assert "E'x''\\\\`\n'" in rule.to_sql("postgres")
    with pytest.raises(ParameterError, match="null character"):
        Point("a\0", pp.Integers(0, 3), 1).to_sql()


# What is refused, tables, and the command


def test_what_cannot_be_written_says_what_to_do() -> None:
    star = pp.StarTree(feature="word", domain=pp.Texts())
    with pytest.raises(ParameterError, match="open vocabulary; use predict"):
        TreeRule(star, star.root).to_sql()
    with pytest.raises(ParameterError, match="dialect must be one of"):
        Threshold("x", pp.Integers(0, 9), 3).to_sql("oracle")
    with pytest.raises(ParameterError, match="language must be one of"):
        Threshold("x", pp.Integers(0, 9), 3).to_code("cobol")
    with pytest.raises(ParameterError, match="beyond 2\\^53, where numbers of this language"):
        Threshold("x", pp.Integers(0, 2**60), 2**53 + 1).to_code("r")
    far = RuleSource(SumExceeds([CodeTimes("a", 10)], 3), {"a": pp.Integers(0, 10**15)}, ["a"], [], "far")
    for language in ("javascript", "r"):
        with pytest.raises(ParameterError, match="beyond 2\\^53, where numbers of this language"):
            function(far, language)
    for name in ("a\0", "a\ud800"):
        with pytest.raises(ParameterError, match="R has no texts that hold a null character"):
            Point("x", pp.Categories([name, "b"]), 0).to_code("r")
    with pytest.raises(ParameterError, match="no points to list"):
        Threshold("x", pp.Integers(0, 9), 3).to_csv()
    with pytest.raises(NoReleaseError, match="nothing was released"):
        Released(NoRelease, PROMISE, outcome="none").to_sql()
    with pytest.raises(TypeError, match="not a rule"):
        Released(3, PROMISE).to_code("python")
    days = pp.Halfspaces({"d": DOMAINS[DAY]}, cuts=4)
    with pytest.raises(ParameterError, match="does not count days"):
        days.decode(days.size - 1).to_sql("ansi")


def test_a_scorecard_as_a_table_and_as_csv() -> None:
    columns = (
        BinnedColumn("age", pp.Integers(0, 99), (40, 60)),
        BinnedColumn('sex, "x"', pp.Categories(["f", "m"]), ()),
    )
    rates = (
        CalibrationBin(2, Fraction(1, 4), Fraction(0), Fraction(1, 2)),
        CalibrationBin(4, Fraction(1, 2), Fraction(0), Fraction(1)),
    )
    card = Scorecard(columns, ((0, 1, 3), (1, 0)), 2, 9, "ill", rates)
    rows = list(csv.DictReader(StringIO(card.to_csv())))
    assert [(row["column"], row["answer"], row["points"]) for row in rows if row["kind"] == "points"] == [
        ("age", "≤ 39", "0"),
        ("age", "≤ 59", "1"),
        ("age", "> 59", "3"),
        ('sex, "x"', "f", "1"),
        ('sex, "x"', "m", "0"),
    ]
    assert [row["points"] for row in rows if row["kind"] != "points"] == ["2", "0.2500", "0.5000"]
    assert card.to_table().splitlines()[:2] == ["ill", "  age       ≤ 39                0"]
    assert Released(card, PROMISE).to_table() == card.to_table()


def test_the_command_writes_what_the_library_writes(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rule = Threshold("age", pp.Integers(0, 99), 41, label="ill")
    Released(rule, Guarantee(1, unit="user", neighbours="add-remove")).save("rule.json")
    assert command("export", "rule.json", "--to", "sql", "--dialect", "sqlite").out.strip() == rule.to_sql("sqlite")
    assert command("export", "rule.json", "--to", "python").out.strip() == rule.to_code("python").strip()
    assert command("export", "rule.json", "--to", "r").out.strip() == rule.to_code("r").strip()
    assert command("export", "rule.json", "--to", "javascript", "--out", "rule.js").code == 0
    assert Path("rule.js").read_text() == rule.to_code("javascript")
    for asked, said in (
        (["--to", "cobol"], "--to must be one of"),
        (["--to", "python", "--dialect", "duckdb"], "--dialect goes with"),
        (["--to", "csv"], "no points"),
        (["--to", "sql", "--out", "rule.json"], "same file"),
    ):
        run = command("export", "rule.json", *asked)
        assert run.code == 2
        assert said in run.err


def test_other_tools_read_the_promise_from_the_file(tmp_path: Path) -> None:
    rule = Threshold("age", pp.Integers(0, 99), 41, label="ill")
    Released(rule, Guarantee("1/3", delta="1e-6", unit="user", neighbours="add-remove")).save(tmp_path / "rule.json")
    promise = json.loads((tmp_path / "rule.json").read_text())["guarantee"]
    assert Fraction(promise["epsilon"]) == Fraction(1, 3)
    assert Fraction(promise["delta"]) == Fraction(1, 10**6)
    assert (promise["unit"], promise["neighbours"]) == ("user", "add-remove")


# Rules without an expression of their own, other types of columns, and floats of SQLite


def test_a_rule_over_few_points_is_asked_point_by_point() -> None:
    columns = {"grade": DOMAINS["grade"], SEX: DOMAINS[SEX]}
    rng = np.random.default_rng(7)
    concept = pp.FiniteClass(rng.integers(0, 2, (6, 3 * len(NAMES))).astype(np.uint8), columns)
    rows = table(8)
    for place in range(6):
        rule = concept.decode(place)
        for run in (on_python, on_duckdb, on_sqlite):
            assert run(rule, rows) == expected(rule, rows)


def test_exact_columns_of_a_database() -> None:
    import duckdb

    numbers = [Decimal(k) / 100 for k in range(-60, 240)]
    days = [datetime(2019, 12, 1) + timedelta(hours=13 * k) for k in range(300)]
    rows: dict[str, list[Any]] = {DOSE: numbers, DAY: days, AGE: [k % 80 - 10 for k in range(300)]}
    frame = pl.DataFrame({DOSE: numbers, DAY: days, AGE: pl.Series(rows[AGE], dtype=pl.Int32)})
    concept = pp.Halfspaces(LINED, cuts=4)
    rng = np.random.default_rng(5)
    rules: list[Rule] = [concept.decode(int(rng.integers(concept.size))) for _ in range(10)]
    rules += [pp.Thresholds(DOMAINS[name], name).decode(9) for name in (DOSE, DAY, AGE)]
    with duckdb.connect() as connection:
        connection.register("t", frame.to_arrow())
        for rule in rules:
            found = connection.execute(f"SELECT {rule.to_sql('duckdb')} FROM t").fetchall()
            assert [row[0] for row in found] == rule.predict(frame).tolist(), rule.to_sql("duckdb")


def test_a_grid_finer_than_floats_can_tell() -> None:
    domain = pp.Grid("0", "1", "0.000000000000000001")
    rule = Threshold("x", domain, 3 * 10**17 + 1)
    near = [0.3, math.nextafter(0.3, 1), math.nextafter(0.3, 0), 0.5, None]
    said = [*rule.predict({"x": near[:-1]}).tolist(), None]
    rows = {"x": near}
    assert on_python(rule, rows) == on_sqlite(rule, rows) == said
    if shutil.which("node"):
        assert on_node([rule], rows) == [said]
    if shutil.which("Rscript"):
        assert on_r([rule], rows) == [said]


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_sqlite_reads_every_float_exactly(x: float) -> None:
    found = sqlite3.connect(":memory:").execute(f"SELECT {sqlite_real(x)} = ?, {sqlite_real(x)} + 0.0", (x,)).fetchone()
    assert found == (1, x)


def test_a_wrong_cut_is_noticed() -> None:
    """The comparison with predict can fail: the code one higher says something else somewhere."""
    rows = table(1)
    right, wrong = (Threshold(AGE, DOMAINS[AGE], cut) for cut in (20, 21))
    assert on_duckdb(wrong, rows) != expected(right, rows)
    assert on_python(wrong, rows) != expected(right, rows)
