"""What everybody knows about columns of some names: ranges that no table is needed for.

A column is looked up by the words of its name (``bodyTemp_c`` has the words body, temp, c).  The entry with the most
words that all occur wins; a name with a word of ``OTHER`` (a change, a code, a group) is not looked up, for its values
are something else.  Ranges are wide on purpose: they cost little, and a value outside them is a mistake.
"""

from __future__ import annotations

import re

__all__ = ["LABELS", "PEOPLE", "known_domain", "words_of"]

Entry = tuple[str, str, str]

_ENTRIES: tuple[Entry, ...] = (
    # people
    ("age", "0:120", "years; nobody is older than about 120"),
    ("weight", "0:400", "kilograms; the heaviest people are below 400 (in pounds write 0:900)"),
    ("height", "0:260", "centimetres; the tallest people are below 260 (in inches write 0:100)"),
    ("bmi", "5:100:0.1", "kg per square metre; people are between about 7 and 100"),
    ("birth year", "1900:2030", "somebody who lives was born after 1900"),
    # time
    ("year", "1900:2100", "calendar years; write the years that the records can come from"),
    ("month", "1:12", "months of a year"),
    ("week", "1:53", "weeks of a year"),
    ("quarter", "1:4", "quarters of a year"),
    ("weekday", "0:7", "days of a week, from 0 or from 1"),
    ("day", "1:31", "days of a month"),
    ("day week", "0:7", "days of a week, from 0 or from 1"),
    ("day year", "1:366", "days of a year"),
    ("dow", "0:7", "days of a week, from 0 or from 1"),
    ("hour", "0:23", "hours of a day"),
    ("minute", "0:59", "minutes of an hour; minutes of a day are 0:1439"),
    ("second", "0:59", "seconds of a minute"),
    # shares, marks and places
    ("percent", "0:100:0.1", "a percentage"),
    ("percentage", "0:100:0.1", "a percentage"),
    ("pct", "0:100:0.1", "a percentage"),
    ("percentile", "0:100:0.1", "a percentile"),
    ("probability", "0:1:0.001", "a probability"),
    ("prob", "0:1:0.001", "a probability"),
    ("proportion", "0:1:0.001", "a share of a whole"),
    ("fraction", "0:1:0.001", "a share of a whole"),
    ("rating", "1:5", "a rating of one to five; write 0:10 if yours goes to ten"),
    ("stars", "1:5", "one to five stars"),
    ("likert", "1:5", "a scale of one to five; write 1:7 if yours has seven points"),
    ("gpa", "0:4:0.01", "a grade point average of 0 to 4"),
    ("zip", "0:99999", "a US code as a number; its order says little about places"),
    ("zipcode", "0:99999", "a US code as a number; its order says little about places"),
    ("latitude", "-90:90:0.01", "degrees; a hundredth is about a kilometre"),
    ("lat", "-90:90:0.01", "degrees; a hundredth is about a kilometre"),
    ("longitude", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("lon", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("lng", "-180:180:0.01", "degrees; a hundredth is about a kilometre"),
    ("temperature", "-90:60:0.1", "degrees Celsius of the air (of a body write 30:45:0.1, Fahrenheit -130:140:0.1)"),
    ("temp", "-90:60:0.1", "degrees Celsius of the air (of a body write 30:45:0.1, Fahrenheit -130:140:0.1)"),
    ("humidity", "0:100", "per cent"),
    # vital signs
    ("body temperature", "30:45:0.1", "degrees Celsius of a living body"),
    ("body temp", "30:45:0.1", "degrees Celsius of a living body"),
    ("heart rate", "0:300", "beats per minute"),
    ("hr", "0:300", "beats per minute"),
    ("pulse", "0:300", "beats per minute"),
    ("respiratory rate", "0:100", "breaths per minute"),
    ("resp rate", "0:100", "breaths per minute"),
    ("systolic", "0:300", "mmHg"),
    ("sbp", "0:300", "mmHg"),
    ("diastolic", "0:200", "mmHg"),
    ("dbp", "0:200", "mmHg"),
    ("blood pressure", "0:300", "mmHg"),
    ("spo2", "0:100", "per cent"),
    ("oxygen saturation", "0:100", "per cent"),
    ("gcs", "3:15", "the Glasgow coma scale"),
    ("apgar", "0:10", "the Apgar score"),
    ("pain", "0:10", "a pain scale of 0 to 10"),
    ("gestation", "15:45", "weeks"),
    # laboratory
    ("bilirubin", "0:60:0.1", "mg/dl (in µmol/l write 0:1000)"),
    ("bili", "0:60:0.1", "mg/dl (in µmol/l write 0:1000)"),
    ("albumin", "0:10:0.01", "g/dl (in g/l write 0:100:0.1)"),
    ("glucose", "0:1500", "mg/dl (in mmol/l write 0:80:0.1)"),
    ("hba1c", "2:20:0.1", "per cent"),
    ("creatinine", "0:40:0.01", "mg/dl (in µmol/l write 0:3500)"),
    ("hemoglobin", "0:30:0.1", "g/dl (in g/l write 0:300)"),
    ("haemoglobin", "0:30:0.1", "g/dl (in g/l write 0:300)"),
    ("hematocrit", "0:80:0.1", "per cent"),
    ("cholesterol", "0:2000", "mg/dl (in mmol/l write 0:50:0.1)"),
    ("chol", "0:2000", "mg/dl (in mmol/l write 0:50:0.1)"),
    ("hdl", "0:300", "mg/dl (in mmol/l write 0:8:0.01)"),
    ("ldl", "0:1000", "mg/dl (in mmol/l write 0:30:0.01)"),
    ("triglycerides", "0:10000", "mg/dl (in mmol/l write 0:120:0.1)"),
    ("trig", "0:10000", "mg/dl (in mmol/l write 0:120:0.1)"),
    ("platelets", "0:3000", "thousands per microlitre"),
    ("platelet", "0:3000", "thousands per microlitre"),
    ("wbc", "0:1000:0.1", "thousands per microlitre"),
    ("sodium", "80:220", "mmol/l"),
    ("potassium", "0:15:0.1", "mmol/l"),
    ("calcium", "0:30:0.1", "mg/dl (in mmol/l write 0:8:0.01)"),
    ("crp", "0:1000:0.1", "mg/l"),
    ("inr", "0:30:0.1", "a ratio of clotting times"),
    ("protime", "0:150:0.1", "seconds"),
    ("prothrombin", "0:150:0.1", "seconds"),
    ("ast", "0:20000", "units per litre"),
    ("alt", "0:20000", "units per litre"),
    ("alk phos", "0:30000", "units per litre"),
    ("insulin", "0:3000", "µU/ml"),
    ("ph", "0:14:0.01", "acidity"),
)
_KNOWN = {frozenset(key.split()): (domain, reason) for key, domain, reason in _ENTRIES}

OTHER = frozenset(
    (
        *(
            "change",
            "diff",
            "difference",
            "delta",
            "ratio",
            "log",
            "code",
            "group",
            "category",
            "class",
            "type",
            "name",
        ),
        *("id", "number", "count", "total", "sum", "rank", "bin", "level", "since", "until", "from", "to", "text"),
        *("note", "date", "time", "zscore", "std", "sd", "var"),
    )
)
"""Words that make something else of the word beside them."""

PEOPLE = (
    *("person", "patient", "user", "subject", "student", "customer", "client", "member", "employee", "participant"),
    *("respondent", "individual", "citizen", "worker", "player", "caller", "driver", "rider", "borrower", "who"),
)
"""Words for whom a record belongs to, alone or with "id"."""

LABELS = (
    *("label", "target", "outcome", "event", "y", "died", "dead", "death", "churn", "default", "readmitted", "relapse"),
    *("late", "fraud", "status", "response", "converted", "survived", "passed", "diagnosis", "class"),
)
"""Words for what is predicted."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*[a-z]*|\d+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters; a plural is not another word.

    >>> words_of("bodyTemp_C"), words_of("alk.phos"), words_of("SBP"), words_of("spo2")
    (('body', 'temp', 'c'), ('alk', 'phos'), ('sbp',), ('spo2',))
    """
    return tuple(word.lower() for word in _WORD.findall(name[:200]))


def known_domain(name: str) -> tuple[str, str] | None:
    """Domain and reason for a name that everybody knows the range of.

    >>> known_domain("age_at_diagnosis"), known_domain("age_group")
    (('0:120', 'years; nobody is older than about 120'), None)
    """
    said = words_of(name)
    words = frozenset(said) | {word.removesuffix("s") for word in said if len(word) > 3}
    if words & OTHER:
        return None
    fitting = [key for key in _KNOWN if key <= words]
    return _KNOWN[max(fitting, key=lambda key: (len(key), max(map(len, key))))] if fitting else None
