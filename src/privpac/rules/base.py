"""What a concept class is.

A class is a finite list of *rules* over public domains, numbered ``0..size-1``.  It knows how to fold users into a
profile (one integer per rule, summed over users) for any per-user statistic of its mistakes.  Rules that predict alike
stay and count in ``size``.  Nothing here draws randomness or knows about privacy parameters.

A class is either a list of numbered rules (:class:`~privpac.rules.base.ConceptClass`) or a public tree whose nodes
are rules (:class:`~privpac.rules.hierarchies.base.VC1Tree`).  Learners, plans, audits and reports ask the class and
never its type: a fact that is not known has a default here ("no", 0, None), and everything works without it, only with
fewer methods, fewer lines in a plan, or more time.  Facts are public: nothing here sees data.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import comb, log
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Bytes, Codes, Ints
from privpac.data import Domain
from privpac.data.domains import own_code
from privpac.display import Picture, Shown, front
from privpac.errors import ParameterError, SchemaError, TooLargeError, did_you_mean
from privpac.exact import Rational
from privpac.guarantee import positive_int
from privpac.law.weights import Weights
from privpac.result import Saved, register, stores
from privpac.rules.chances import DEFAULT_BANDS, NO_CHANCES, Regions, chance_threshold, is_above, log_odds_from
from privpac.rules.export.expression import Expression, listed
from privpac.rules.profile import Mean, Profile, Statistic, concatenate

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.rules.export.points import PointLine
    from privpac.rules.export.writer import RuleSource
    from privpac.rules.hierarchies.base import VC1Tree
    from privpac.rules.kernels.coarse_pass import Survey

ColumnCodes = Mapping[str, Codes]
"""Encoded columns of equal length, by name."""
Predictions = NDArray[np.int8]
"""0/1, or the places of several labels."""

Layout = Literal["cuts", "values", "listed"]
"""How the ids of a class lie on its columns: *cuts* 0..N of every column, column by column and in each of its
``directions``; the *values* of one column by their codes, perhaps followed by the rule that never says 1; or *listed*,
with no order to be used."""


@frozen(slots=False)
class ByAgreement:
    """How agreement learns a class: the kind of its task, parameters that the class fixes, and what is missing."""

    kind: str
    parameters: Mapping[str, int | str] = field(factory=dict)
    only_with: str = ""
    """The option with which the class has exactly the rules of this kind; empty where it has."""


@frozen(slots=False)
class FewValues:
    """How a class falls into groups of rules that say the same on a few values of x.

    ``cuts``: cut-offs that say 1 from the cut on; ``points``: single values; ``stumps``: cut-offs of several columns in
    both directions, ``cuts`` of them in each.
    """

    shape: Literal["cuts", "points", "stumps"]
    cuts: tuple[int, ...] = ()


C = TypeVar("C", bound="ClassOfRules")


def binary(users: Users, who: str, takes_classes: bool = False) -> None:
    """Refuse data with more than two labels, before any spend, where two are all that is known."""
    declared = getattr(users, "classes", ())
    if len(declared) > 2 and not takes_classes:
        raise ParameterError(
            f"the data have {len(declared)} classes, and {who} knows two: use SmallTrees or Scorecards, or a "
            "label_map to 0 and 1"
        )


class ClassOfRules(ABC):
    """Rules over named public columns, and what is known of them."""

    noun: ClassVar[str] = "class"
    takes_texts: ClassVar[bool] = False
    """Whether a declared ``Texts()`` also means a column with a domain of its own, by the texts of its values."""
    takes_missing: ClassVar[bool] = False
    """Whether a missing value may be an answer of its own."""
    takes_classes: ClassVar[bool] = False
    """Whether its rules may name more than two labels."""
    own_method: ClassVar[str | None] = None
    """The one method that learns its rules, where there is one."""

    inherits: ClassVar[bool] = False
    """Whether a class without columns reads every column of the data."""

    # Columns

    @abstractmethod
    def declared(self) -> Mapping[str | None, Domain | None]:
        """Column name -> domain as declared; the name None means "the only feature", a domain None "take the
        data's"."""

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        """The same class on named columns with their domains."""

    def bind(self, users: Users) -> tuple[Self, Users]:
        """Encode the columns this class reads (schema errors here, before any spend).

        Returns the class with its columns and domains filled in, and the users bound to them.
        """
        declared, names = self.declared(), list(users.features)
        if self.inherits and not declared:
            every: dict[str, Any] = dict.fromkeys(names)
            return self.with_columns(every).bind(users)
        if getattr(users, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        binary(users, f"{self.noun} {type(self).__name__}", self.takes_classes)
        if None in declared and (len(declared) != 1 or len(names) != 1):
            raise ParameterError(
                f"name the features of the {self.noun} ({len(declared)}): the data have the columns {names}"
            )
        columns = {names[0] if name is None else name: domain for name, domain in declared.items()}
        unknown = [name for name in columns if name not in names]
        if unknown:
            near = did_you_mean(unknown[0], names)
            raise SchemaError(f"columns {unknown} are not among the features {names}{near}")
        own = {name: domain for name, domain in columns.items() if domain is not None}
        if self.takes_texts:
            own = {
                name: domain for name, domain in own.items() if not (domain.open and users.features[name] is not None)
            }
        bound = users.bind(own)
        filled = {name: domain for name in columns if (domain := bound.features[name]) is not None}
        without = [name for name in columns if name not in filled]
        if without:
            raise ParameterError(
                f"columns {without} have no domain: declare one in UserData or in the {self.noun}, such as "
                "Integers(0, 100)"
            )
        unlisted = [name for name, domain in filled.items() if domain.open]
        if unlisted and not self.takes_texts:
            raise ParameterError(
                f"columns {unlisted} hold texts that nobody listed, and {self.noun} {type(self).__name__} needs listed "
                'values; declare Categories([...]), such as ["f", "m"] (in words {f,m}), or learn a tree such as '
                "PrefixTree(8)"
            )
        owned = [name for name, domain in filled.items() if own_code(domain) is not None]
        if owned and not self.takes_missing:
            raise ParameterError(
                f"columns {owned} keep missing values, of which {self.noun} {type(self).__name__} knows nothing: "
                "declare them with 'drop' or 'raise' (in words 0:100,missing=drop), or learn a small tree or a "
                "scorecard"
            )
        return self.with_columns(filled), bound

    # What is known

    @property
    @abstractmethod
    def scored(self) -> bool:
        """Whether its rules can be scored one by one."""

    @abstractmethod
    def growth(self, n: int) -> int:
        """An upper bound on the number of ways ``n`` points can be labelled."""

    @property
    def cut_direction(self) -> str | None:
        """The rules are the cuts of one column: "above", "below" or "both"; None for other rules."""
        return None

    @property
    def by_agreement(self) -> ByAgreement | None:
        """How agreement learns the class; None where it does not."""
        return None

    @property
    def is_tree(self) -> bool:
        """Whether :meth:`as_tree` gives a tree once the class has its domain."""
        return False

    def as_tree(self) -> VC1Tree:
        """The class as a tree of VC dimension 1, if it ``is_tree``."""
        raise ParameterError(f"{type(self).__name__} is no tree of rules")

    # Relabelling

    @abstractmethod
    def check_labellings(self, *, units: int | None = None, split_size: int | None = None, whole: bool = False) -> None:
        """Refuse if labellings would be too much work, from public numbers only, before any data are touched.

        ``units`` and ``split_size`` where they are public (replace); ``whole``: several records per unit in T.
        """

    @abstractmethod
    def part_labellings(
        self, part: UserData, rest: UserData, A: int, B: int, levels: int = 1, whole: bool = False
    ) -> Labellings:
        """All labellings of the points of ``part`` (its labels are not read), scored with the units ``rest``;
        ``whole``: several records per unit in T.  See :mod:`privpac.rules.base`."""


def with_domains(concept: C, features: Mapping[str, Domain | None]) -> C:
    """A class whose one column left its domain to the data, with the domain declared there; any other as it is."""
    missing = [name for name, domain in concept.declared().items() if domain is None]
    if len(missing) != 1 or len(concept.declared()) != 1:
        return concept
    known = features if missing[0] is None else {missing[0]: features.get(missing[0])}
    found = {column: domain for column, domain in known.items() if domain is not None}
    return concept.with_columns(found) if len(known) == 1 and found else concept


# Labellings of some points by a class, scored by how well the class does elsewhere.
#
# The realizable-to-agnostic transformation gives a secret part T of the units new labels that some rule of the class
# would give.  With ``D_T(h, f)`` the positions of T where a labelling h and a rule f differ and ``E_W(f)`` the summed
# losses of the other units, the score is
#
#     Q(h) = min over rules f of  A * D_T(h, f) + B * E_W(f)          (an integer)
#
# over the *distinct* labellings h of T.  Since Q sees a rule only through its labels on T and its loss on W, rules are
# grouped by their labels on T and only ``M(c) = min of E_W`` over a group is kept.  Three properties carry the privacy
# proof:
#
# * every labelling that some rule gives is there **once**: a missing one breaks "each labelling of the rest extends",
#   one listed twice breaks "in at most two ways";
# * the score of a labelling never reads a representative rule on W;
# * the original labels of T are never read (they are not even passed).
#
# Classes list their own labellings (``ConceptClass.labellings``, ``part_labellings``); here is what they share.
# One unit's loss lies in ``0..levels`` (:class:`Loss`): this bound enters the guarantee.  Nothing here is private by
# itself.


MAX_LISTED = 1 << 12
"""The most rules of a class that is asked rule by rule."""

_MAX_RULES = 1 << 20
_MAX_WORK = 10**9
MAX_PAIRS = 1 << 30
"""Limits for enumerated classes: rules, rules times public units, pairs of labellings."""

_INSTEAD = (
    "use Thresholds, Points, Intervals, Stumps, a tree class, Rectangles with fewer cuts, or a FiniteClass of fewer "
    "rules"
)


@frozen(slots=False)
class Loss(Statistic):
    """A unit's share of mistakes in steps: ``floor(levels * mistakes / records)``, an integer in ``0..levels``."""

    levels: int = 1

    def __attrs_post_init__(self) -> None:
        positive_int(self.levels, "levels", maximum=1 << 31)

    @property
    def bound(self) -> int:
        return self.levels

    def cap_of(self, m: int) -> int:
        return m


@frozen(slots=False, eq=False, repr=False)
class Labellings:
    """The distinct labellings of T: ``scores[i]`` is Q of the i-th, ``labels(i)`` its bits in the order of T's
    records."""

    scores: Ints
    labels: Callable[[int], Bytes]

    @property
    def count(self) -> int:
        return len(self.scores)


NO_POINTS = Labellings(np.zeros(1, dtype=np.int64), lambda _: np.zeros(0, dtype=np.uint8))
"""No record in T: one labelling."""


def check_listed(size: int, what: str) -> None:
    """A class that is asked rule by rule."""
    if size > MAX_LISTED:
        raise TooLargeError(f"relabelling {what} lists at most {MAX_LISTED} rules, got {_shown(size)}; {_INSTEAD}")


def check_tabulated(size: int, units: int | None, most: int) -> None:
    """A class of so many rules that is tabulated on public ``units``, with at most ``most`` labellings of T."""
    if size > _MAX_RULES or (units is not None and size * units > _MAX_WORK):
        raise TooLargeError(
            f"relabelling with {_shown(size)} rules is too much work (at most {_MAX_RULES} rules, {_MAX_WORK} rules "
            f"times units); {_INSTEAD}"
        )
    if most**2 > MAX_PAIRS:
        raise TooLargeError(
            f"relabelling compares pairs of labellings, and {_shown(most)} of them are possible; {_INSTEAD}"
        )


def _shown(size: int) -> str:
    return str(size) if size < 10**15 else f"more than 10^{len(str(size)) - 1}"


# Shared by the classes


def dense_losses(profile: Profile) -> Ints:
    """The losses of ids 0, 1, 2, ... one by one."""
    parts: list[Any] = []
    for step in profile.steps:
        ends = np.concatenate([step.starts[1:].astype(np.int64), np.array([step.end + 1], dtype=np.int64)])
        parts.append(np.repeat(step.scores, ends - step.starts.astype(np.int64)))
    return np.concatenate(parts).astype(np.int64)


def distance_minimum(costs: Ints, place: Ints) -> Ints:
    """``min over j of |place[i] - place[j]| + costs[j]`` for increasing places: two running minima."""
    left = np.minimum.accumulate(costs - place) + place
    right = np.minimum.accumulate((costs + place)[::-1])[::-1] - place
    return np.minimum(left, right)


# Labellings by a class that is listed rule by rule.
#
# Rules are grouped by their packed bits on the distinct points of T, ``M`` is the least loss of a group, and the
# numbers of differing records between all pairs of labellings come from one product of matrices (exact in floating
# point: whole numbers of at most 24 or 53 bits).


_CELLS = 1 << 24


def dense_labellings(concept: ConceptClass, codes: ColumnCodes, profile: Profile, A: int, B: int) -> Labellings:
    place, times, points = _distinct_points(codes)
    table, least = _grouped(concept, points, profile)
    # Points that no labelling tells apart (one cell of a grid) count together.
    kinds = np.ascontiguousarray(np.packbits(table, axis=0).T)
    _, first_of, kind = np.unique(
        kinds.view(np.dtype((np.void, kinds.shape[1])))[:, 0], return_index=True, return_inverse=True
    )
    records = np.bincount(kind, weights=times)
    # Exact in either type: whole numbers, at most the number of records.
    number = np.float32 if records.sum() < 1 << 22 else np.float64
    bits = table[:, first_of].astype(number)
    weighted = bits * records.astype(number)
    counts, costs = weighted.sum(axis=1), B * least
    scores = np.empty(len(table), dtype=np.int64)
    block = max(1, _CELLS // len(table))
    for first in range(0, len(table), block):
        both = weighted[first : first + block] @ bits.T
        differ = (counts[first : first + block, None] + counts[None, :] - 2 * both).astype(np.int64)
        scores[first : first + block] = (A * differ + costs[None, :]).min(axis=1)
    return Labellings(scores, lambda i: table[i][place])


def unit_labellings(
    concept: ConceptClass, codes: ColumnCodes, offsets: Ints, profile: Profile, A: int, B: int
) -> Labellings:
    """Several records per unit: two labellings differ on a unit if they differ on any of its records."""
    table, least = _grouped(concept, codes, profile)
    costs = B * least
    units = offsets[:-1][np.diff(offsets) > 0]  # reduceat knows no empty ranges; a unit without records never differs
    scores = np.empty(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        differ = np.bitwise_or.reduceat(table ^ row, units, axis=1).sum(axis=1, dtype=np.int64)
        scores[i] = (A * differ + costs).min()
    return Labellings(scores, lambda i: table[i])


def _distinct_points(codes: ColumnCodes) -> tuple[Ints, NDArray[np.float64], ColumnCodes]:
    """For every record its distinct point, how many records each has, and the points."""
    columns = np.stack(list(codes.values()), axis=1)
    distinct, place, times = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    return (
        place.reshape(-1),
        times.astype(np.float64),
        {name: np.ascontiguousarray(distinct[:, i]) for i, name in enumerate(codes)},
    )


def _grouped(concept: ConceptClass, points: ColumnCodes, profile: Profile) -> tuple[Bytes, Ints]:
    """The distinct labellings of the points, and the least loss of the rules that give each."""
    size = len(next(iter(points.values())))
    keys = np.concatenate([np.packbits(table, axis=0).T for table in _tables(concept, points)])
    rows = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1])))[:, 0]
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    least = np.full(len(first), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, group, dense_losses(profile))
    return np.unpackbits(keys[first], axis=1, count=size), least


def _tables(concept: ConceptClass, points: ColumnCodes) -> Iterator[Bytes]:
    """What the rules say on the points (points by rules), some rules at a time."""
    size = len(next(iter(points.values())))
    block = max(1, _CELLS // size)
    for first in range(0, concept.size, block):
        yield concept.table(points, first, min(first + block, concept.size))


Poll = Callable[[ColumnCodes], Ints]
"""How many of some rules say 1, row by row."""


V = TypeVar("V")


@frozen(slots=False, repr=False)
class Frozen(Mapping[str, V], Generic[V]):
    """A mapping with an order that counts, hashable and equal only to the same names and values in the same order."""

    pairs: tuple[tuple[str, V], ...]

    def __getitem__(self, name: str) -> V:
        for known, value in self.pairs:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return repr(dict(self.pairs))


def columns_to_list(columns: Mapping[str, Domain]) -> list[dict[str, Any]]:
    """Named domains for JSON, in order."""
    return [{"name": name, "domain": domain.to_dict()} for name, domain in columns.items()]


def columns_from_list(values: Sequence[Mapping[str, Any]]) -> Frozen[Domain]:
    """The inverse of :func:`columns_to_list`."""
    return Frozen(tuple((value["name"], Domain.from_dict(value["domain"])) for value in values))


stores(Frozen, columns_to_list, columns_from_list)
stores(Mapping[str, Domain], columns_to_list, columns_from_list)


class Rule(Shown, Saved, ABC):
    """A hypothesis that can be published: predicts, prints in the user's units, saves as JSON.

    ``label`` names what a prediction of 1 means.  Concrete rules are frozen ``attrs`` classes; ``saved_as`` is the
    kind under which files name them, and files hold their fields (:class:`~privpac.result.Saved`).
    """

    saved_as: ClassVar[str]
    label: str
    names: tuple[str, ...] = ()
    """What the answers mean where there are more than two; empty where they are 0 and 1."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "saved_as" in cls.__dict__:
            register(cls.saved_as)(cls)

    @property
    def features(self) -> Mapping[str, Domain]:
        """The columns of the rule's class, in declared order: the field ``columns``, or ``feature`` and ``domain``."""
        columns: Mapping[str, Domain] | None = getattr(self, "columns", None)
        return {self.feature: self.domain} if columns is None else columns  # type: ignore[attr-defined]

    @property
    def reads(self) -> Sequence[str]:
        """The columns that prediction needs; the others of ``features`` only give arrays their order."""
        return tuple(self.features)

    @abstractmethod
    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        """0/1 for encoded columns of equal length."""

    def encode(self, X: object) -> dict[str, NDArray[np.uint64]]:
        """The codes of the columns that prediction needs; see :meth:`predict`."""
        codes = {}
        for name, (domain, column) in columns_of(X, self.features, self.reads).items():
            encoded, valid = domain.encode(column, on_invalid="clamp")
            if not bool(np.all(valid)):
                raise SchemaError(
                    f"column {name!r}: {int(np.sum(~valid))} missing or unreadable values; prediction needs a value in "
                    "every row"
                )
            codes[name] = encoded
        return codes

    def predict(self, X: object, threshold: Rational | None = None) -> Predictions:
        """0/1 for a frame (by column name) or a 2-D array (columns in declared order).

        Values outside the domain are clamped; missing values are refused.  With ``threshold`` a row is 1 iff its
        chance of 1 is above it; 1/2 gives what None gives.
        """
        if threshold is None:
            return self.predict_codes(self.encode(X))
        least = chance_threshold(threshold, len(self.names) or 2)
        return is_above(self.predict_proba(X), least)

    # Chances

    @property
    def has_chances(self) -> bool:
        """Whether the rule itself knows how likely each label is."""
        return False

    def chances_of(self, codes: ColumnCodes) -> NDArray[np.float64]:
        """The chance of every label for encoded columns, row by row, of a rule that has chances."""
        raise ParameterError(NO_CHANCES)

    def log_odds_of(self, codes: ColumnCodes) -> NDArray[np.float64]:
        """The log odds of 1 for encoded columns: above 0 iff the rule says 1."""
        return log_odds_from(self.chances_of(codes))

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """The chance of every label for each row, in the order of the labels; a row adds up to 1."""
        self._check_chances()
        return self.chances_of(self.encode(X))

    def decision_function(self, X: object) -> NDArray[np.float64]:
        """The log odds of 1 for each row, above 0 iff the rule says 1; of each label where there are more than two."""
        self._check_chances()
        return self.log_odds_of(self.encode(X))

    def regions(self, bands: int = DEFAULT_BANDS) -> Regions:
        """The regions in which chances are measured: what the rule predicts, unless it says more."""
        names = self.names or tuple(f"predicts {label}" for label in ("0", "1"))
        return Regions(tuple(names), tuple(range(len(names))), (0, 1) if len(names) == 2 else ())

    def region_codes(self, codes: ColumnCodes, bands: int = DEFAULT_BANDS) -> NDArray[np.uint8]:
        """The region of every record; a function of the record and the rule alone."""
        return np.asarray(self.predict_codes(codes), np.uint8)

    def _check_chances(self) -> None:
        if not self.has_chances:
            raise ParameterError(NO_CHANCES)

    # The rule in other languages

    def expression(self) -> Expression:
        """What the rule says, over the codes of its columns: what :meth:`to_sql` and :meth:`to_code` write.

        A rule that does not say it is asked on every point of its columns, if these are few.
        """
        found = listed({name: self.features[name] for name in self.reads}, self.predict_codes)
        if found is None:
            raise ParameterError(
                f"{type(self).__name__} is not written in other languages: its columns have too many values, or an "
                "open vocabulary; use predict, or the command privpac predict"
            )
        return found

    def _source(self) -> RuleSource:
        from privpac.rules.export.writer import RuleSource  # a rule that nobody takes away loads no writer

        return RuleSource(self.expression(), self.features, self.reads, tuple(self.names), str(self))

    def to_sql(self, dialect: str = "ansi") -> str:
        """The rule as one expression of SQL over columns of its names.

        It gives what :meth:`predict` gives, and NULL where predict refuses a value.

        Parameters
        ----------
        dialect : {"ansi", "duckdb", "postgres", "bigquery", "sqlite"}
            Which SQL.

        Returns
        -------
        str
            ``CASE ... END``, to be put into a SELECT.

        Raises
        ------
        ParameterError
            There is no such dialect, or the rule cannot be written in it.

        Examples
        --------
        >>> import privpac as pp
        >>> print(pp.Thresholds(pp.Integers(0, 9), "age").decode(4, label="ill").to_sql())
        CASE
          WHEN ("age" IS NULL OR "age" <> "age") THEN NULL
          WHEN "age" >= 4 THEN 1 ELSE 0
        END
        """
        from privpac.rules.export.sql import sql_case

        return sql_case(self._source(), dialect)

    def to_code(self, language: str) -> str:
        """The rule as a function ``predict(row)`` that needs nothing but its language; in R ``predict_row(row)``.

        It gives what :meth:`predict` gives for the row, and raises where predict refuses a value.

        Parameters
        ----------
        language : {"python", "javascript", "r"}
            Which language.

        Returns
        -------
        str
            The source of a module or script.

        Raises
        ------
        ParameterError
            There is no such language, or the rule cannot be written in it.

        Examples
        --------
        >>> import privpac as pp
        >>> source = pp.Thresholds(pp.Integers(0, 9), "age").decode(4, label="ill").to_code("python")
        >>> exec(source)
        >>> predict({"age": 7})
        1
        """
        from privpac.rules.export.code import function

        return function(self._source(), language)

    def to_table(self) -> str:
        """A scorecard as a table to print.

        Returns
        -------
        str
            Lines of text.

        Raises
        ------
        ParameterError
            The rule is no scorecard.
        """
        from privpac.rules.export.points import printed

        return printed(self._point_lines())

    def to_csv(self) -> str:
        """A scorecard as CSV: what a line is, the label, column, answer and points.

        Returns
        -------
        str
            The text of the file.

        Raises
        ------
        ParameterError
            The rule is no scorecard.
        """
        from privpac.rules.export.points import comma_separated

        return comma_separated(self._point_lines())

    def _point_lines(self) -> Sequence[PointLine]:
        raise ParameterError(f"{type(self).__name__} has no points to list; use to_sql or to_code")

    # What a report draws

    @property
    def picture(self) -> Literal["domain", "regions", "questions", "scorecard", "none"]:
        """Where it says 1 over its columns, along the regions that hold each other, as questions in a row, as a
        scorecard of points, or nothing."""
        return "domain"

    @property
    def pulls(self) -> Mapping[str, float]:
        """Of a weighted sum: how far each column it reads can move the sum, from the least to the greatest declared
        value; with a sign.  Empty for rules of another form."""
        return {}

    def edges(self, column: str) -> Sequence[int]:
        """Codes of a column at which the rule changes, so that a picture of a large domain shows them."""
        return ()

    def plot(self) -> Picture:
        """Where the rule says 1: a band for one column, a map for two, weights and slices for a weighted sum, a tree of
        questions, a scorecard of points; where nothing can be drawn, its words.

        Returns
        -------
        Picture
            A notebook shows it; ``save(path)`` writes it as ``.svg``, ``.png`` or ``.pdf``.

        Examples
        --------
        >>> import privpac as pp
        >>> pp.Thresholds(pp.Integers(0, 9), "age").decode(4, label="ill").plot()
        <Picture: ill when age > 3>
        """
        picture: Picture = front("rule").plot(self)
        return picture

    @abstractmethod
    def condition(self) -> str:
        """When the rule says 1, in the user's units: ``x > 5``, ``always``, ``never``."""

    def __str__(self) -> str:
        condition = self.condition()
        return f"{self.label} {condition}" if condition in ("always", "never") else f"{self.label} when {condition}"

    def __repr__(self) -> str:
        """The rule in the user's units; its fields hold codes."""
        return f"<{type(self).__name__}: {self}>"


def columns_of(
    X: Any, features: Mapping[str, Domain], reads: Sequence[str] | None = None
) -> dict[str, tuple[Domain, Any]]:
    """The columns to read (all of them unless ``reads`` names some) beside their domains; by name in a frame, by
    position in an array."""
    wanted = tuple(features) if reads is None else reads
    if type(X).__name__ == "LazyFrame":
        X = X.collect()
    arrow = hasattr(type(X), "column_names")  # whose columns are arrays without a name
    if arrow or hasattr(X, "columns") or isinstance(X, Mapping):
        names = list(X) if isinstance(X, Mapping) else list(X.column_names if arrow else X.columns)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise SchemaError(f"columns {missing} are missing; the rule reads {list(wanted)}")
        return {name: (features[name], X[name]) for name in wanted}
    array = np.asarray(X)
    if array.ndim == 1 and len(features) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(features):
        raise SchemaError(
            f"the rule reads {len(features)} columns {list(features)}; got an array of shape {array.shape}"
        )
    return {name: (domain, array[:, i]) for i, (name, domain) in enumerate(features.items()) if name in wanted}


@frozen(slots=False)
class ClassKernel:
    """The kernel of a class and a statistic: partial profiles of disjoint users add up."""

    concept: ConceptClass
    statistic: Statistic
    columns: tuple[str, ...]

    def zero(self) -> Profile:
        n_scores = self.statistic.n_scores
        return concatenate([self.concept.empty_profile()] * n_scores, [self.concept.size] * n_scores)

    def chunk(self, users: UserData) -> Profile:
        return self.concept._fold(users, self.columns, self.statistic)

    def merge(self, a: Profile, b: Profile) -> Profile:
        return a + b


def relabelled(rule: Any, label: str) -> Any:
    """The same rule about a label of another name."""
    return evolve(rule, label=label)


RULES: dict[str, Callable[[Mapping[str, Domain]], ConceptClass]] = {}
"""How classes are built from named columns with their domains, by the names people type."""


def register_class(name: str, build: Callable[[Mapping[str, Domain]], ConceptClass]) -> None:
    """Give a class of one's own a name that the command line, the estimator and ``rule_class`` know.

    ``build`` takes the named columns with their domains.  A class that says its ``rule_names`` needs no call.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,59}", name):
        raise ParameterError(f"a name is 1 to 60 lower-case letters, digits and hyphens, got {name!r}")
    if RULES.get(name, build) is not build:
        raise ParameterError(f"the name {name!r} is taken; choose another one")
    RULES[name] = build


class ConceptClass(ClassOfRules):
    """A finite class of rules over public domains.

    For a class of one's own :class:`~privpac.rules.enumerated.EnumeratedClass` is the shorter way.
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The names people type for it, each with the parameters it fixes."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name, fixed in cls.__dict__.get("rule_names", {}).items():
            known = getattr(RULES.get(name), "concept", None)
            if known and (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__):
                del RULES[name]  # the same class, defined again
            build = partial(cls.from_features, **fixed)
            build.concept = cls  # type: ignore[attr-defined]
            register_class(name, build)

    @classmethod
    def from_features(cls, features: Mapping[str, Domain], **fixed: object) -> ConceptClass:
        """The class over named columns with their domains, as its names build it."""
        return cls(dict(features), **fixed)  # type: ignore[call-arg]

    def checked(self, hypothesis: int) -> int:
        """An id, if a rule has it."""
        if not 0 <= hypothesis < self.size:
            raise ParameterError(f"ids go from 0 to {self.size - 1}, got {hypothesis}")
        return hypothesis

    # Size and shape

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of rules (a Python int; may exceed 2**64)."""

    @property
    def log_size(self) -> float:
        """Natural logarithm of ``size``."""
        return log(self.size)

    @property
    def bits(self) -> int:
        """``max(1, bit length of size - 1)``."""
        return max(1, (self.size - 1).bit_length())

    @property
    def rule_weights(self) -> Weights | None:
        """Public weights of the rules, where they do not weigh alike (``rules.priors``)."""
        return None

    @property
    def prior_name(self) -> str:
        """What results say about the weights; empty where all rules weigh alike."""
        return ""

    @property
    def effective_size(self) -> int:
        """One over the least share of a rule in all weight, rounded up: what stands for ``size`` in a certificate of a
        method that weighs rules."""
        weights = self.rule_weights
        return self.size if weights is None else -(-weights.total // weights.least)

    @property
    @abstractmethod
    def vc_dimension(self) -> int: ...

    def growth(self, n: int) -> int:
        return min(self.size, sauer(self.vc_dimension, n))

    # What is known

    layout: ClassVar[Layout] = "listed"
    rule_by_rule: ClassVar[bool] = True
    """Whether work grows with the number of rules, and not with the number of points only."""

    @property
    def scored(self) -> bool:
        return True

    def error_steps(self, levels: int) -> int | None:
        """In how many steps a person's error rate is counted where its least sum is found: the asked ones, or those of
        the class; None where it is not found."""
        return levels if self.scored else None

    @property
    def directions(self) -> tuple[str, ...]:
        """Of a class whose layout is cuts: "above", "below" or both, in the order of ids."""
        return ()

    @property
    def shattered_points(self) -> int:
        """So many points are shattered, surely (``vc_dimension`` may be an upper bound); 0 where nothing is known."""
        return 0

    @property
    def mistake_tree_depth(self) -> int:
        """The depth of a complete mistake tree that is surely there, beside those of shattered points; 0: not known."""
        return 0

    @property
    def few_values(self) -> FewValues | None:
        """How the class falls into groups on a few values of x, for attacks on certificates; None where not known."""
        return None

    def coarsened(self, points: int) -> Self:
        """A class of the same kind on at most so many values of each column, for simulations; itself if it has none."""
        return self

    # Rules

    @abstractmethod
    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        """The rule with this id; the class must be bound to columns with domains."""

    @abstractmethod
    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        """What one rule says on encoded columns."""

    def poll(self, hypotheses: Sequence[int]) -> Poll:
        """A function that counts, row by row, how many of these rules say 1; its work depends on how many there are,
        not on which."""

        def votes(codes: ColumnCodes) -> Ints:
            total = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
            for hypothesis in hypotheses:
                total += self.predictions(codes, hypothesis)
            return total

        return votes

    def table(self, codes: ColumnCodes, first: int, last: int) -> Bytes:
        """What the rules ``first..last - 1`` say (records by rules)."""
        return np.stack([self.predictions(codes, h) for h in range(first, last)], axis=1).astype(np.uint8)

    # Folding

    @abstractmethod
    def empty_profile(self) -> Profile:
        """All scores zero."""

    @abstractmethod
    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        """The profile of bound users, all scores of the statistic in one pass; a kernel without Python loops over
        users."""

    def kernel(self, statistic: Statistic) -> ClassKernel:
        return ClassKernel(self, statistic, tuple(name for name in self.declared() if name is not None))

    def survey(self, users: Users, statistic: Statistic) -> Survey | None:
        """A first look at bound users, from which the rules near the best one are found; None where the whole profile
        is as cheap."""
        return None

    def profile(self, users: Users, statistic: Statistic) -> Profile:
        """Integer score of every rule: the sum over users of the statistic of its mistakes."""
        concept, bound = self.bind(users)
        return bound.fold(concept.kernel(statistic))

    # Learning without privacy (references, planning, tests)

    def erm(self, users: Users) -> int:
        """The first id that minimises the users' mean error, taken in steps of 2**-20 for each user."""
        return self.profile(users, Mean(1 << 20)).argmin()

    def dichotomies(self, codes: ColumnCodes) -> Iterator[tuple[Predictions, int, int]]:
        """Distinct labellings of the given points as ``(labels, first id, number of rules)``; overridden where it is
        fast."""
        seen: dict[bytes, list[Any]] = {}
        for hypothesis in range(self.size):
            labels = self.predictions(codes, hypothesis)
            entry = seen.setdefault(labels.tobytes(), [labels, hypothesis, 0])
            entry[2] += 1
        for labels, first, count in seen.values():
            yield labels, first, count

    def deciding_records(self, codes: ColumnCodes, labels: Bytes) -> tuple[ColumnCodes, Bytes]:
        """Some of the records, with which the least id without a mistake is the same; a few, where they can be told.

        A cut fits iff it separates the extreme records of both labels in its column.
        """
        if self.layout != "cuts":
            return codes, labels
        keep: list[int] = []
        for points in codes.values():
            for label in (0, 1):
                rows = np.flatnonzero(labels == label)
                if len(rows):
                    keep += [int(rows[np.argmin(points[rows])]), int(rows[np.argmax(points[rows])])]
        chosen = np.unique(np.array(keep, dtype=np.int64))
        return {name: points[chosen] for name, points in codes.items()}, labels[chosen]

    def consistent(self, codes: ColumnCodes, labels: Bytes) -> int | None:
        """The least id that makes no mistake on the records, or None (deterministic)."""
        best: int | None = None
        for predicted, first, _ in self.dichotomies(codes):
            if bool((predicted == labels).all()) and (best is None or first < best):
                best = first
        return best

    # Relabelling: see ``privpac.rules.base``

    def losses(self, rest: UserData, levels: int) -> Profile:
        """``E_W`` of every rule: the sum over units of their losses."""
        return rest.fold(self.kernel(Loss(levels)))

    def labellings(
        self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int = 1, offsets: Ints | None = None
    ) -> Labellings:
        """All labellings of the points ``codes`` by a bound class, scored with the units ``rest``.

        ``offsets``: with several records per unit in T, where each unit's begin; ``D_T`` then counts units with any
        difference.
        """
        if len(next(iter(codes.values()))) == 0:
            return NO_POINTS
        if offsets is not None:
            return unit_labellings(self, codes, offsets, self.losses(rest, levels), A, B)
        return self._labellings(codes, rest, A, B, levels)

    def _labellings(self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
        """Of some points, each of a unit of its own; overridden where rules need not be listed."""
        return dense_labellings(self, codes, self.losses(rest, levels), A, B)

    def part_labellings(
        self, part: UserData, rest: UserData, A: int, B: int, levels: int = 1, whole: bool = False
    ) -> Labellings:
        codes = {name: part.codes[name] for name in self.declared() if name is not None}
        return self.labellings(codes, rest, A, B, levels, part.offsets if whole else None)

    def check_labellings(self, *, units: int | None = None, split_size: int | None = None, whole: bool = False) -> None:
        if whole or self.rule_by_rule:
            check_listed(self.size, "with several records per unit in T" if whole else f"for {type(self).__name__}")


def sauer(d: int, n: int) -> int:
    """``sum over i <= d of C(n, i)``."""
    return sum(comb(n, i) for i in range(min(d, n) + 1))


class OneColumnClass(ConceptClass):
    """Rules about one column; subclasses are frozen ``attrs`` classes that begin with these two fields."""

    domain: Domain | None
    feature: str | None

    @classmethod
    def from_features(cls, features: Mapping[str, Domain], **fixed: object) -> ConceptClass:
        if len(features) != 1:
            raise ParameterError(
                f"this rule reads one column, got {len(features)}: {', '.join(features)}; use the rule 'stump' for "
                "several"
            )
        ((feature, domain),) = features.items()
        return cls(domain, feature, **fixed)  # type: ignore[call-arg]

    def check_domain(self) -> None:
        """That what is declared is a domain."""
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")

    @property
    def column(self) -> str:
        return self.feature or "x"

    @cached_property
    def _points(self) -> int:
        return self.known_domain.size

    @property
    def known_domain(self) -> Domain:
        """The domain, once it is declared."""
        if self.domain is None:
            name = type(self).__name__
            raise ParameterError(f"this class has no domain yet: {name}(Integers(0, 100)), or declare it in UserData")
        return self.domain

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        ((feature, domain),) = columns.items()
        return evolve(self, domain=domain, feature=feature)  # type: ignore[misc]
