"""Rows that are certainly good, counted by Spark itself.

Moving every row to Python only to hear that nothing is wrong costs about as much as a group-by.  Most columns are
integers in a declared range, 0/1 labels and ids that are there, and Spark can see that in the pass that counts the
rows.  The tests here are *sufficient*: a row that passes is good by the rules of :mod:`privpac.data`.  Columns of other
types, and tables with a row that fails a test, are judged in Python by the code that serves tables in memory, which
also finds the words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privpac.data.build import Declared
from privpac.data.domains import Domain, Floats, Integers
from privpac.data.texts import Texts

__all__ = ["quoted", "survey"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_EXACT = 1 << 53


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def survey(frame: Any, declared: Declared, user: str | None = None) -> tuple[int, Declared | None, bool]:
    """The number of rows, the declaration of the columns still to be judged (``None``: all rows are good), and whether
    ids are ASCII.

    The number of rows may be what the files say; it only divides the work.
    """
    from pyspark.sql import functions as sql

    kinds = dict(frame.dtypes)
    tests: dict[str, Any] = {}
    if declared.user is not None:
        tests[declared.user] = _id_test(sql, kinds[declared.user], declared.user)
    for name, domain in declared.features.items():
        if domain is not None:
            tests[name] = _value_test(sql, kinds[name], name, domain)
    if declared.label is not None:
        named = declared.label_map is not None or declared.positive is not None
        tests[declared.label] = None if named else _label_test(sql, kinds[declared.label], declared.label)
    passed = sql.lit(True)
    for test in tests.values():
        passed = (
            passed if test is None else passed & sql.coalesce(test, sql.lit(False))
        )  # a missing value passes no test
    foreign = sql.lit(False)
    if user is not None and kinds[user].startswith("string"):
        foreign = sql.expr(f"octet_length({quoted(user)}) != char_length({quoted(user)})")
    rows, good, odd = frame.agg(sql.count(sql.lit(1)), sql.count_if(passed), sql.count_if(foreign)).collect()[0]
    if good < rows:
        return int(rows), declared, not odd
    open_ = {name for name, test in tests.items() if test is None}
    if not open_:
        return int(rows), None, not odd
    left: dict[str, Any] = {"user": declared.user, "label": declared.label}
    left = {role: name if name in open_ else None for role, name in left.items()}
    return (
        int(rows),
        replace(declared, features={n: d for n, d in declared.features.items() if n in open_}, **left),
        not odd,
    )


def _id_test(sql: Any, kind: str, name: str) -> Any:
    column = sql.col(quoted(name))
    if kind in _INTEGERS:
        return column.isNotNull()
    return column != "" if kind == "string" else None


def _value_test(sql: Any, kind: str, name: str, domain: Domain) -> Any:
    column = sql.col(quoted(name))
    if isinstance(domain, Integers) and kind in _INTEGERS:
        return column.between(sql.lit(max(domain.lo, _LEAST)), sql.lit(min(domain.hi, _MOST)))
    if isinstance(domain, Floats):
        if kind in _INTEGERS:
            return column.between(sql.lit(-_EXACT), sql.lit(_EXACT))
        if kind in ("float", "double"):  # NaN is above everything
            return (column > float("-inf")) & (column < float("inf"))
    return column.isNotNull() if isinstance(domain, Texts) and kind == "string" else None


def _label_test(sql: Any, kind: str, name: str) -> Any:
    column = sql.col(quoted(name))
    if kind == "boolean":
        return column.isNotNull()
    return column.isin(0, 1) if kind in _INTEGERS else None
