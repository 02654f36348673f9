"""A private table of how often a fixed predictor is right.

**Guarantee.**  Pure epsilon per user.  ``T = sum over users + noise``, the noises independent discrete Laplaces of rate
``epsilon/R``; the ratio of the laws at L1 distance ``d`` is at most ``e**(epsilon d/R)``, and one user more or less
moves what is released by at most ``R`` in L1 (:attr:`Evaluator.reach`):

* the *sums* of the cells by at most ``levels`` (:class:`TableKernel`);
* the *products* of every two of ``k`` cells, with ``moments``, by at most ``levels (1 - 1/k)/4``: with ``x = t/levels``
  they are ``floor(levels x_c x_d / 2)``, and ``sum over pairs of x_c x_d = ((sum x)**2 - sum x**2)/2 <= (1 - 1/k)/2``.
  So ``R = 19 levels/16`` with four cells and ``9 levels/8`` with two.

A replaced user moves them by at most twice that.  With ``cells="error"`` under replace the number of people is public,
so only ``wrong`` and its product are released; both stay within ``0..levels`` and ``0..levels/8``, so a replaced user
moves them by no more: ``R`` is not doubled.  There somebody without records counts as wrong, since leaving them out
would make the number of the others a secret again.  "Fixed": the predictor was chosen without these people, or
privately from them and paid for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import polars as pl
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.arrays import Bytes, Ints
from privpac.bisection import least_from
from privpac.data import Domain, Integers, UserData
from privpac.data.columns import moments
from privpac.data.grouping import ranked
from privpac.data.users import check_users
from privpac.errors import InfeasibleError, NoReleaseError, ParameterError, SchemaError
from privpac.evaluation.results import (
    CELLS,
    LEAST_NOISE,
    PRODUCT_WEIGHT,
    CellKind,
    Evaluation,
    Weight,
    percent,
    sure,
)
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import Learner, count_users
from privpac.parameters import (
    EVALUATION_LEVELS,
    bounds,
    either,
    named,
    one_word_of,
    privacy,
    probability,
    protected_unit,
    relation,
    truth,
    whole,
    whole_or_none,
)
from privpac.result import NoRelease, Released
from privpac.rules.base import Rule, binary
from privpac.rules.chances import BANDS, DEFAULT_BANDS, Regions
from privpac.rules.kernels.shares import user_moments, user_tables

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

# What can be evaluated: a released rule, any function of columns, a fitted classifier, a column of predictions.
#
# **What the promise needs**: what one person adds is a function of that person's records alone.  Rules are integer
# comparisons, record by record, and are asked about a whole table at once.  A function or a model may answer
# differently about a record when it is asked about others in the same call (products of matrices are rounded block by
# block; one bad record makes the whole call fail), so it is asked about one person at a time, and about one record at a
# time where that fails; ``rowwise=True`` declares that it does not do that.  A record about which it raises, or says
# anything but the two labels, counts as wrong: nothing is raised after the spend.  Columns have the type of their
# domain; that of a column without one is the table's own and counts as public; columns of Python objects have none and
# are refused.


_WRONG = 2
"""Neither label."""
_TRIED = 4096
"""Values of a domain that are tried on another one; of a larger domain the two ends."""


class Predictor(Protocol):
    """Says 0 or 1 of every record, or 2 for neither."""

    @property
    def reads(self) -> tuple[str, ...]: ...

    def predictions(self, users: UserData) -> Bytes: ...


@frozen(slots=False)
class RuleOf:
    """A rule of this library."""

    rule: Any

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(self.rule.reads)

    def regions(self, bands: int) -> Regions | None:
        """The regions of the rule where these are more than what it predicts."""
        if hasattr(self.rule, "predict_users") or getattr(self.rule, "names", None):
            return None
        found: Regions | None = self.rule.regions(bands) if hasattr(self.rule, "regions") else None
        return None if found is None or (found[1:3] == ((0, 1), (0, 1)) and not found.chances) else found

    def region_codes(self, users: UserData, bands: int) -> Bytes:
        """The region of every record."""
        features: Mapping[str, Domain] = self.rule.features
        if all(users.features.get(name) == features[name] for name in self.rule.reads):
            codes = {name: users.codes[name] for name in self.rule.reads}
        else:
            codes = self.rule.encode({name: column_values(users, name) for name in self.rule.reads})
        return np.asarray(self.rule.region_codes(codes, bands), np.uint8)

    def predictions(self, users: UserData) -> Bytes:
        features: Mapping[str, Domain] = self.rule.features
        if all(users.features.get(name) == features[name] for name in self.rule.reads):
            if hasattr(self.rule, "predict_users"):  # of a hierarchy, whose columns may be texts
                return np.asarray(self.rule.predict_users(users), np.uint8)
            return np.asarray(self.rule.predict_codes({name: users.codes[name] for name in self.rule.reads}), np.uint8)
        return np.asarray(self.rule.predict({name: column_values(users, name) for name in self.rule.reads}), np.uint8)


@frozen(slots=False)
class PredictionColumn:
    """Predictions that stand in the table."""

    name: str
    labels: tuple[object, object]

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    def predictions(self, users: UserData) -> Bytes:
        values = column_values(users, self.name)
        if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):  # a day beyond the calendar is no label
            values = pl.select(pl.when(pl.Series(~moments(values)[1])).then(values)).to_series()
        return _read(values.to_list(), self.labels)


@frozen(slots=False)
class CalledModel:
    """A function of columns, or something with ``predict``."""

    predict: Callable[[Any], object]
    columns: tuple[str, ...]
    labels: tuple[object, object]
    rowwise: bool
    arrays: bool

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def predictions(self, users: UserData) -> Bytes:
        columns = {name: column_values(users, name) for name in self.columns}
        # The codes of categories follow everybody's values; a function sees the texts.
        plain = {name: v.cast(pl.String) if isinstance(v.dtype, pl.Categorical) else v for name, v in columns.items()}
        table = pl.DataFrame(plain)
        out = np.full(len(table), _WRONG, np.uint8)
        if self.rowwise:
            for rows in _alike(table):
                answers = out[rows]
                self._ask(table[rows], answers, 0, len(rows), [len(rows), 1])
                out[rows] = answers
            return out
        for a, b in zip(users.offsets[:-1].tolist(), users.offsets[1:].tolist()):
            self._ask(table, out, a, b, [b - a, 1])
        return out

    def _ask(self, table: pl.DataFrame, out: Bytes, a: int, b: int, sizes: list[int]) -> None:
        size = max(1, sizes[0])
        for start in range(a, b, size):
            stop = min(start + size, b)
            answers = self._call(table[start:stop])
            if answers is not None:
                out[start:stop] = answers
            elif len(sizes) > 1 and size > 1:
                self._ask(table, out, start, stop, sizes[1:])

    def _call(self, rows: pl.DataFrame) -> Bytes | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answers = list(np.asarray(self.predict(self._form(rows))).reshape(-1).tolist())
            except Exception:  # whatever it says depends on the data
                return None
        return _read(answers, self.labels) if len(answers) == len(rows) else None

    def _form(self, rows: pl.DataFrame) -> object:
        """Rows as the model reads them: an array, or a table of pandas where that is installed."""
        if self.arrays:
            return rows.to_numpy()
        try:
            return rows.to_pandas()
        except ImportError:
            return rows


def _alike(table: pl.DataFrame) -> list[NDArray[np.intp]]:
    """Places of the rows in which the same values are missing: a missing whole number would make fractions of a whole
    column, other people's among them."""
    gone = table.select(pl.all().is_null()).to_numpy()
    if not gone.any():
        return [np.arange(len(table))]
    _, kinds = np.unique(gone, axis=0, return_inverse=True)
    return [np.flatnonzero(kinds.reshape(-1) == kind) for kind in range(int(kinds.max()) + 1)]


def column_values(users: UserData, name: str) -> pl.Series:
    """A column as the user wrote it: values of its domain, or the raw ones while it has none."""
    domain = users.features[name]
    if domain is None:
        return users.unbound[name]
    vocabulary = users.vocabulary(name)
    if vocabulary is not None:
        return vocabulary.gather(users.codes[name])
    codes, places = ranked(users.codes[name])
    return _series(domain, codes.tolist(), name).gather(places)


def _series(domain: Domain, codes: Iterable[int], name: str = "") -> pl.Series:
    kind, values = domain.column_type, [domain.value(code) for code in codes]
    if kind == pl.String:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, kind, strict=False)


def _read(answers: list[object], labels: tuple[object, object]) -> Bytes:
    known = {label: code for code, label in enumerate(labels)}
    out = np.full(len(answers), _WRONG, np.uint8)
    for i, value in enumerate(answers):
        try:
            out[i] = known.get(value, _WRONG)
        except TypeError:  # not hashable, so no label
            continue
    return out


def check_reads(predictor: Predictor, users: Users) -> None:
    """Refuse, before the spend, columns that a cap on records left out."""
    gone = [name for name in predictor.reads if name not in users.features]
    if gone:
        raise SchemaError(f"max_records reads declared columns only, and {gone} have no domain; declare them")


def bind_predictor(
    predictor: object, users: Users, *, labels: tuple[object, object] | None = None, rowwise: bool = False
) -> tuple[Predictor, Users]:
    """The predictor and the users with the columns it reads; errors here come before any spend."""
    if isinstance(predictor, Released):
        if predictor.value is NoRelease:
            raise NoReleaseError("nothing was released, so there is nothing to evaluate")
        predictor = predictor.value
    if isinstance(predictor, Rule) or hasattr(predictor, "predict_codes"):
        return RuleOf(predictor), _bind_rule(predictor, users)
    pair = _labels(labels, predictor)
    if isinstance(predictor, str):
        if predictor not in users.features:
            raise SchemaError(f"the data have no column {predictor!r} of predictions; add it to features=") from None
        if users.features[predictor] is None and pair == (0, 1):
            users = users.bind({predictor: Integers(0, 1)})
        if isinstance(users, UserData):
            users.check_typed([predictor])
        return PredictionColumn(predictor, pair), users
    predict = getattr(predictor, "predict", predictor)
    if isinstance(predictor, type) or not callable(predict):
        raise TypeError(
            "predictor must be a released rule, a function of a table, a fitted classifier or the name of a column, "
            f"got {type(predictor).__name__}"
        )
    wanted = getattr(predictor, "feature_names_in_", None)
    columns = tuple(map(str, wanted)) if wanted is not None else tuple(users.features)
    missing = [name for name in columns if name not in users.features]
    if missing:
        raise SchemaError(f"the model was fitted on columns {missing}, which are not among {list(users.features)}")
    if isinstance(users, UserData):  # the other engines read files, which have a schema
        users.check_typed(columns)
    arrays = hasattr(predictor, "predict") and wanted is None
    return CalledModel(predict, columns, pair, rowwise, arrays), users


def _bind_rule(rule: Any, users: Users) -> Users:
    missing = [name for name in rule.reads if name not in users.features]
    if missing:
        raise SchemaError(f"columns {missing} are missing; the rule reads {list(rule.reads)}")
    for name in rule.reads:
        declared = users.features[name]
        if declared is not None and declared != rule.features[name] and not _readable(declared, rule.features[name]):
            raise ParameterError(
                f"column {name!r} is declared as {declared.describe()}, which the rule cannot read: it was learned on "
                f"{rule.features[name].describe()}"
            )
    return users.bind({name: rule.features[name] for name in rule.reads if users.features[name] is None})


def _readable(declared: Domain, wanted: Domain) -> bool:
    """Whether values of one domain can be read on another; asked of public values, before any spend."""
    if declared.open or wanted.open:
        return wanted.open and (declared.open or declared.listed)
    low, high = declared.value_range()
    codes = range(low, high + 1) if high - low < _TRIED else (low, high)
    try:
        return bool(np.all(wanted.encode(_series(declared, codes), on_invalid="clamp")[1]))
    except Exception:
        return False


def _labels(labels: Iterable[object] | None, predictor: object) -> tuple[object, object]:
    if labels is None:
        classes = getattr(predictor, "classes_", None)
        if classes is None or (len(classes) == 2 and set(np.asarray(classes).tolist()) == {0, 1}):
            return (0, 1)
        raise ParameterError(f"the model says {len(classes)} classes: which of them mean 0 and 1? labels=(no, yes)")
    pair = tuple(labels)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ParameterError("labels must be two different values: what a prediction says for 0 and for 1")
    return (pair[0], pair[1])


MAX_VOTE_LEVELS = 1 << 26


# The 2x2 table of a predictor, person by person: what everybody adds has the same size.
#
# A person with ``c`` records in each of ``k`` cells adds, with weight ``"user"``, the largest-remainder rounding of
# ``levels * c / m`` to integers (ties to the earlier cell): non-negative integers that sum to ``levels`` exactly.  With
# weight ``"record"`` the counts themselves, of at most ``levels`` records.  Somebody without records adds nothing.  So
# one person more or less moves the sums by at most ``levels`` in L1, whatever their records are.


@frozen(slots=False)
class TableKernel:
    """The sums over users, folded on any engine; with ``moments`` the sums of the products of every two cells behind
    them."""

    predictor: Predictor
    cells: CellKind
    weight: Weight
    levels: int
    empty: int = -1
    moments: bool = False

    def zero(self) -> Ints:
        size = len(CELLS[self.cells])
        return np.zeros(size + (size * (size - 1) // 2 if self.moments else 0), np.int64)

    def chunk(self, users: UserData) -> Ints:
        predicted, labels = self.predictor.predictions(users), users.labels
        assert labels is not None
        # A prediction that is neither label is wrong, whatever the label is.
        answers = np.where(predicted <= 1, predicted, 1 - labels).astype(np.uint8)
        cells = (2 * labels + answers if self.cells == "table" else answers != labels).astype(np.uint8)
        size = len(CELLS[self.cells])
        if self.moments:
            divisor = int(self.levels / PRODUCT_WEIGHT)
            return user_moments(users.offsets, cells, np.arange(size), size, self.levels, divisor, self.empty)
        return user_tables(users.offsets, cells, size, self.levels, self.weight == "user", self.empty)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


@frozen(slots=False)
class RegionKernel:
    """The sums of the cells (region, label), region by region; with ``moments`` behind them those of the products of
    the four cells that the rule's own labels make of them.

    What one person adds to the cells sums to ``levels`` for any number of regions, and the four cells are totals of
    some of them, so the bounds of :class:`TableKernel` hold: finer cells cost nothing.
    """

    predictor: RuleOf
    regions: Regions
    bands: int
    weight: Weight
    levels: int
    moments: bool = False

    def zero(self) -> Ints:
        return np.zeros(2 * len(self.regions.own) + (6 if self.moments else 0), np.int64)

    def chunk(self, users: UserData) -> Ints:
        labels = users.labels
        assert labels is not None
        cells = (2 * self.predictor.region_codes(users, self.bands) + labels).astype(np.uint8)
        size = 2 * len(self.regions.own)
        if self.moments:
            groups = np.array([2 * label + own for own in self.regions.own for label in (0, 1)], np.int64)
            return user_moments(users.offsets, cells, groups, 4, self.levels, int(self.levels / PRODUCT_WEIGHT), -1)
        return user_tables(users.offsets, cells, size, self.levels, self.weight == "user", -1)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


def _one_of_bands(_: object, __: object, value: object) -> None:
    if isinstance(value, bool) or value not in BANDS:
        raise ParameterError(f"bands must be 2, 4, 8 or 16, got {value!r}")


def how_many_bands(n_users: int | None, share: Fraction, theta: Fraction) -> int:
    """Bands of a scorecard's points, from a public number of people: 4 where none is known.

    >>> how_many_bands(None, Fraction(1, 5), Fraction(1)), how_many_bands(100_000, Fraction(1, 5), Fraction(1))
    (4, 16)
    """
    if n_users is None:
        return 4
    told = n_users * share * theta
    return next((bands for bands, below in ((2, 60), (4, 300), (8, 3000)) if told < below), 16)


@frozen(slots=False)
class _BoundPredictor:
    predictor: Predictor
    users: Users


@frozen(slots=False, field_transformer=named)
class Evaluator(Learner):
    """Evaluate one predictor.

    ``cells="regions"`` releases the cells (region, label) of a small tree or scorecard, at the price of the 2x2 table
    that they add up to, and of other predictors that table; ``"table"`` releases it always, ``"error"`` only right and
    wrong, with less noise.  ``bands`` are those of a scorecard's points: 2, 4, 8 or 16.  ``weight="user"``:
    every person counts the same; ``"record"``: every record, of at most ``max_records`` per person.  ``moments``
    releases products of cells as well, which say how alike people are: intervals for new people are narrower where
    people have several records, and a little wider where they have one.  ``same_people`` declares that the predictor
    was learned from these people: then nothing is said about others.

    >>> import privpac as pp
    >>> people = pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)]] * 400, features={"age": pp.Integers(0, 99)})
    >>> found = Evaluator(lambda table: table["age"] > 50, 1).learn(people).value
    >>> found.error.value < 0.05, found.better_than_constant
    (True, True)
    """

    predictor: object
    epsilon: Fraction = field(converter=privacy)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    cells: Literal["regions", "table", "error"] = field(
        default="regions", kw_only=True, validator=one_word_of(("regions", "table", "error"))
    )
    weight: Weight = field(default="user", kw_only=True, validator=either("user", "record"))
    max_records: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=MAX_VOTE_LEVELS)
    )
    levels: int = field(
        default=EVALUATION_LEVELS, kw_only=True, converter=whole, metadata=bounds(maximum=MAX_VOTE_LEVELS)
    )
    moments: bool = field(default=True, kw_only=True, validator=truth)
    confidence: Fraction = field(default=Fraction(19, 20), kw_only=True, converter=probability)
    labels: tuple[object, object] | None = field(default=None, kw_only=True)
    rowwise: bool = field(default=False, kw_only=True, validator=truth)
    same_people: bool = field(default=False, kw_only=True, validator=truth)
    bands: int = field(default=DEFAULT_BANDS, kw_only=True, validator=_one_of_bands)

    def __attrs_post_init__(self) -> None:
        if self.weight == "record" and self.unit is Unit.USER and self.max_records is None:
            raise ParameterError("weight='record' needs max_records=: how many records of one person may count")
        if self.noise < LEAST_NOISE:
            raise ParameterError(f"epsilon must be at least {float(2 * self.reach * LEAST_NOISE):.1g} to say anything")

    @property
    def kind(self) -> CellKind:
        """The cells of which the released ones are parts."""
        return "error" if self.cells == "error" else "table"

    @property
    def steps(self) -> int:
        """What one person adds at most: ``levels``, or with weight ``"record"`` the records that count."""
        return (self.max_records or 1) if self.weight == "record" else self.levels

    @property
    def knows_people(self) -> bool:
        return self.cells == "error" and self.weight == "user" and self.neighbours is Neighbours.REPLACE

    @property
    def has_products(self) -> bool:
        """Whether products are released: not where nobody's are above 0, nor where nothing is said about others."""
        several = self.unit is Unit.USER and self.max_records != 1
        return self.moments and several and self.weight == "user" and not self.same_people

    @property
    def reach(self) -> Fraction:
        """What one person more or less moves the release by at most, in L1."""
        pairs = (1 - Fraction(1, len(CELLS[self.kind]))) / 2
        return self.steps * (1 + PRODUCT_WEIGHT * pairs if self.has_products else Fraction(1))

    @property
    def noise(self) -> Fraction:
        """The rate of the noise on every number."""
        twice = self.neighbours is Neighbours.REPLACE and not self.knows_people
        return self.epsilon / (2 * self.reach if twice else self.reach)

    @property
    def guarantee(self) -> Guarantee:
        epsilon = self.epsilon
        how = ("noisy sums of the people's own tables, which have the same size for everybody",)
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=epsilon**2 / 2, derivation=how)

    def bind(self, data: Users) -> _BoundPredictor:
        check_users(data, self.unit)
        binary(data, "an evaluation")
        if getattr(data, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        predictor, users = bind_predictor(self.predictor, data, labels=self.labels, rowwise=self.rowwise)
        if self.max_records is not None:
            users = users.max_records(self.max_records)
            check_reads(predictor, users)
        return _BoundPredictor(predictor, users)

    def draw(self, bound: _BoundPredictor, rng: Rng) -> Released:
        regions = self._regions(bound.predictor)
        exact = bound.users.fold(self._kernel(bound.predictor, regions)).tolist()[1 if self.knows_people else 0 :]
        people = count_users(bound.users) if self.knows_people else None
        noisy = tuple(value + discrete_laplace(self.noise, rng) for value in exact)
        cells = 1 if self.knows_people else len(CELLS[self.kind]) if regions is None else 2 * len(regions.own)
        found = Evaluation(
            noisy[:cells],
            self.kind,
            self.weight,
            self.steps,
            self.noise,
            self.neighbours,
            self.confidence,
            people,
            self.same_people,
            self.unit,
            noisy[cells:] if self.has_products else None,
            PRODUCT_WEIGHT if self.has_products else None,
            regions,
        )
        return Released(found, self.guarantee, warnings=found.notes(), learner="evaluation")

    def _regions(self, predictor: Predictor) -> Regions | None:
        """The regions of a rule that has more of them than predictions: a function of the rule alone."""
        return predictor.regions(self.bands) if self.cells == "regions" and isinstance(predictor, RuleOf) else None

    def _kernel(self, predictor: Predictor, regions: Regions | None) -> TableKernel | RegionKernel:
        if regions is not None and isinstance(predictor, RuleOf):
            return RegionKernel(predictor, regions, self.bands, self.weight, self.steps, self.has_products)
        empty = CELLS["error"].index("wrong") if self.knows_people else -1
        return TableKernel(predictor, self.kind, self.weight, self.steps, empty, self.has_products)


# How many people does an evaluation need?  Half-widths of its intervals, before any data.
#
# Not a promise but a formula: what the intervals of :class:`~privpac.evaluation.Evaluation` are when the noise is 0 and
# the error is what is expected; noise moves their middle, hardly their width.


_MOST = 1 << 40


@frozen(slots=False)
class EvaluationPlan:
    """Half-widths of the error's two intervals with ``n_users`` people."""

    n_users: int
    epsilon: Fraction
    error: Fraction
    confidence: Fraction
    sample: float
    population: float
    cells: CellKind
    neighbours: Neighbours

    def to_dict(self) -> dict[str, object]:
        """Everything as JSON: exact numbers as text."""
        numbers = {name: getattr(self, name) for name in ("n_users", "sample", "population", "cells")}
        return numbers | {name: str(getattr(self, name)) for name in ("epsilon", "error", "confidence", "neighbours")}

    def __str__(self) -> str:
        return (
            f"{self.n_users:,} people, epsilon {float(self.epsilon):g}, {self.neighbours}: an error of "
            f"{percent(float(self.error))} is known to {100 * self.sample:.2g} points for the people measured, to "
            f"{100 * self.population:.2g} points for new people from the same population ({sure(self.confidence)})"
        )


def plan_evaluation(
    n_users: int | None = None,
    *,
    epsilon: Rational,
    half_width: Rational | None = None,
    error: Rational = "0.1",
    confidence: Rational = "0.95",
    cells: CellKind = "table",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    sample: bool = False,
) -> EvaluationPlan:
    """The half-widths with so many people, or the least number of people for a half-width.

    Parameters
    ----------
    n_users : int, optional
        How many people will be evaluated (public).  Give this or ``half_width``.
    epsilon : rational
        Budget of the evaluation.
    half_width : rational, optional
        Half-width wanted of the interval for new people from the same population (``sample=True``: for the people
        measured).
    error : rational
        The error that is expected; a guess, used for the width only.
    sample : bool
        Whether ``half_width`` is that of the interval for the people measured.
    confidence, cells, neighbours
        As in :func:`privpac.evaluate`.

    Returns
    -------
    EvaluationPlan
        ``n_users`` and the half-widths; ``print`` shows a sentence.

    Raises
    ------
    ParameterError
        Neither or both of ``n_users`` and ``half_width``, or one outside its range.

    Examples
    --------
    >>> print(plan_evaluation(2000, epsilon=1))
    2,000 people, epsilon 1, add-remove: an error of 10 % is known to 0.29 points for the people measured, \
to 1.9 points for new people from the same population (95 % sure)
    >>> plan_evaluation(epsilon=1, half_width="0.02").n_users
    1916
    """
    if (n_users is None) == (half_width is None):
        raise ParameterError("give n_users= (how wide will the interval be?) or half_width= (how many people?)")
    wanted = rational(error, "error", minimum=0, maximum=1)
    relation = one_of(Neighbours, neighbours, "neighbours")
    learner = Evaluator(lambda table: table, epsilon, relation, cells=cells, confidence=confidence)

    def planned(n: int) -> EvaluationPlan:
        rate = _expected(learner, n, wanted).error
        assert rate.population is not None
        here, there = ((interval.hi - interval.lo) / 2 for interval in (rate.sample, rate.population))
        return EvaluationPlan(n, rational(epsilon), wanted, rational(confidence), here, there, cells, relation)

    if n_users is not None:
        return planned(positive_int(n_users, "n_users", maximum=_MOST))
    target = float(rational(half_width or 0, "half_width", above=0, maximum=1))

    def enough(n: int) -> bool:
        plan = planned(n)
        return n > _MOST or (plan.sample if sample else plan.population) <= target

    least = least_from(enough, 1)
    if least > _MOST:
        raise InfeasibleError(f"no number of people up to {_MOST:,} gives a half-width of {target:g}")
    return planned(least)


def _expected(learner: Evaluator, n: int, error: Fraction) -> Evaluation:
    """The evaluation of ``n`` people with this error, without noise; labels are balanced, and people have one record
    each (products 0), which is the worst that can be."""
    whole = n * learner.levels
    wrong = int(error * whole)
    right = whole - wrong
    sums: tuple[int, ...] = ((right + 1) // 2, wrong // 2, wrong - wrong // 2, right // 2)
    if learner.cells == "error":
        sums = (wrong,) if learner.knows_people else (right, wrong)
    return Evaluation(
        sums,
        learner.kind,
        "user",
        learner.levels,
        learner.noise,
        learner.neighbours,
        learner.confidence,
        n if learner.knows_people else None,
        products=(0,) * (6 if learner.kind == "table" else 1) if learner.has_products else None,
        product_weight=PRODUCT_WEIGHT if learner.has_products else None,
    )
