"""The class of small trees over the columns of a wide table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import log
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from attrs import Attribute, field, frozen
from flint import arb
from numpy.typing import NDArray

from privpac.arrays import Array, Ints
from privpac.data import Domain, UserData
from privpac.data.loops import jit, spread, user_spans
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, rational
from privpac.parameters import TREE_LEVELS, bounds, either, named, probability, whole
from privpac.rules.base import Frozen, Rule
from privpac.rules.chances import DEFAULT_BANDS, Regions, RegionSums, chances_of_regions
from privpac.rules.enumerated import domains_or_none
from privpac.rules.export.expression import Answer, Cases, Condition, Expression
from privpac.rules.wide_columns import (
    DEFAULT_CUTS,
    BinnedColumn,
    Cuts,
    Test,
    WideClass,
    read_classes,
    read_cuts,
    read_missing,
)

if TYPE_CHECKING:
    from privpac.data import Users

# Which small trees there are: ids, prior, price.  Public numbers alone.
#
# A tree of depth 2 asks test ``i`` and on each side has an *option*: ``0..c-1`` is a leaf with that label, and ``c +
# c*c*j + c*a + b`` asks test ``j`` and says ``a`` where it holds, ``b`` where not.  With ``O = c + c*c*K`` options the
# id is ``(i*O + o_yes)*O + o_no``; trees that compute the same function stay and count.  At depth 1 the options are the
# labels alone.
#
# The prior is rational: column uniform, test uniform within the column, each side asks again with probability
# ``split``, labels uniform.  A tree's *price* is ``ln(1/prior)`` in nats.


@frozen(slots=False)
class Side:
    """What a tree does on one side of its root: a label, or a test with a label where it holds and where not."""

    test: int | None
    labels: tuple[int, ...]


@frozen(slots=False)
class TreeShape:
    """Tests with their prior weights, the chance to ask again, the number of labels, and the depth."""

    prior: tuple[Fraction, ...]
    split: Fraction
    labels: int = 2
    depth: int = 2

    @property
    def tests(self) -> int:
        return len(self.prior)

    @cached_property
    def options(self) -> int:
        """Options of one side."""
        return self.labels + (self.labels**2 * self.tests if self.depth == 2 else 0)

    @cached_property
    def size(self) -> int:
        return self.tests * self.options**2

    # Ids

    def parts(self, tree: int) -> tuple[int, Side, Side]:
        """Root test and both sides of an id."""
        if not 0 <= tree < self.size:
            raise ParameterError(f"ids go from 0 to {self.size - 1}, got {tree}")
        rest, no = divmod(tree, self.options)
        root, yes = divmod(rest, self.options)
        return root, self.side(yes), self.side(no)

    def side(self, option: int) -> Side:
        c = self.labels
        if option < c:
            return Side(None, (option,))
        test, rest = divmod(option - c, c * c)
        return Side(test, divmod(rest, c))

    def option(self, side: Side) -> int:
        c = self.labels
        if side.test is None:
            return side.labels[0]
        return c + c * c * side.test + c * side.labels[0] + side.labels[1]

    def id(self, root: int, yes: Side, no: Side) -> int:
        return (root * self.options + self.option(yes)) * self.options + self.option(no)

    # Prior

    @property
    def leaf(self) -> Fraction:
        """The prior of a side that is one given label."""
        return (1 - self.split if self.depth == 2 else Fraction(1)) / self.labels

    @cached_property
    def asks(self) -> tuple[Fraction, ...]:
        """The prior of a side that asks a test and says two given labels; none at depth 1."""
        return tuple(self.split * p / self.labels**2 for p in self.prior) if self.depth == 2 else ()

    def of_side(self, side: Side) -> Fraction:
        return self.leaf if side.test is None else self.asks[side.test]

    def of_tree(self, tree: int) -> Fraction:
        """The prior of a tree."""
        root, yes, no = self.parts(tree)
        return self.prior[root] * self.of_side(yes) * self.of_side(no)

    @cached_property
    def least(self) -> Fraction:
        """The smallest prior of any tree: the highest price."""
        side = min((self.leaf, *self.asks))
        return min(self.prior) * side * side

    def power(self, s: Fraction) -> arb:
        """``sum over trees of prior**s`` at the working precision; 1 at s = 1."""
        exponent, c = as_arb(s), self.labels

        def powers(weights: tuple[Fraction, ...]) -> arb:
            counted: dict[Fraction, int] = {}
            for weight in weights:
                counted[weight] = counted.get(weight, 0) + 1
            return sum((as_arb(weight) ** exponent * n for weight, n in counted.items() if weight), arb(0))

        side = powers((self.leaf,)) * c + powers(self.asks) * c * c
        return powers(self.prior) * side * side


# The integers that a table is folded into: signed weights of every pair of bins.
#
# User ``i`` with ``m_i`` records gives each of them the weight ``a_i = floor(levels / m_i)``, so all of a user's
# records weigh at most ``levels`` together: **this line is the sensitivity**, whatever the number of records, users or
# bins.  For every two columns the weights are summed over records in the table of their bins, with the record's label
# for a sign; prefix sums over cuts then give ``both[i][j]``, the weight where two tests hold.  Integer sums: any order,
# chunks, threads and engines give the same cells.
#
# With two labels the sums are signed (label 1 plus, label 0 minus).  With ``c`` there is one sum per label, and the
# cells of label ``k`` are those of label ``k`` less those of label 0.


_BLOCK = 1 << 13
"""Rows in work at a time: their bins stay in the cache."""


@frozen(slots=False, eq=False, repr=False)
class PairSums:
    """Weight of every label, and the weights of pairs of bins: one signed table, or one for every label."""

    totals: Ints
    tables: Ints

    def __repr__(self) -> str:
        return "<PairSums>"


@frozen(slots=False, eq=False, repr=False)
class TreeCells:
    """``D`` of label ``k = 1..c-1`` (weight of label k less that of label 0): in all, where a test holds, where two do.

    ``others`` is the weight of all records that label 0 gets wrong: the score of "always label 0".
    """

    total: Ints
    single: Ints
    both: Ints
    others: int

    def same(self, other: TreeCells) -> bool:
        """Whether all cells are equal; trees then have the same law."""
        return all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip((self.total, self.single, self.both), (other.total, other.single, other.both))
        )

    def __repr__(self) -> str:
        return "<TreeCells>"


def pair_count(columns: tuple[BinnedColumn, ...]) -> int:
    """Pairs of bins of two columns, or of one with itself."""
    widths = [column.width for column in columns]
    return sum(width * sum(widths[j:]) for j, width in enumerate(widths))


def _places(columns: tuple[BinnedColumn, ...]) -> tuple[Ints, int]:
    """Where the table of columns ``j <= k`` begins (a column alone has one row), and the entries of all tables."""
    d, widths = len(columns), [column.width for column in columns]
    sizes = [[widths[k] if j == k else widths[j] * widths[k] if j < k else 0 for k in range(d)] for j in range(d)]
    ends = list(accumulate((size for row in sizes for size in row), initial=0))
    return np.array(ends[:-1], dtype=np.int64).reshape(d, d), ends[-1]


@jit
def _weigh(labels: Array, offsets: Array, first: int, last: int, levels: int, signed: bool, weights: Array) -> None:
    """The weight of every record of some users; a user's together are at most ``levels``."""
    start = offsets[first]
    for user in range(first, last):
        begin, end = offsets[user], offsets[user + 1]
        if end > begin:
            a = levels // (end - begin)
            for r in range(begin, end):
                weights[r - start] = -a if signed and labels[r] == 0 else a


@jit
def _add(bins: Array, weights: Array, bases: Array, places: Array, widths: Array, out: Array) -> None:
    """Add the weights of some records to the tables of all pairs of columns."""
    d, n = bins.shape
    for j in range(d):
        own = bins[j]
        at = places[j, j]
        for r in range(n):
            out[bases[r] + at + own[r]] += weights[r]
        for k in range(j + 1, d):
            other, width, at = bins[k], widths[k], places[j, k]
            for r in range(n):
                out[bases[r] + at + own[r] * width + other[r]] += weights[r]


@frozen(slots=False)
class CellsKernel:
    """Folds whole users into pair sums."""

    columns: tuple[BinnedColumn, ...]
    levels: int
    labels: int = 2

    @property
    def _tables(self) -> int:
        return 1 if self.labels == 2 else self.labels

    def zero(self) -> PairSums:
        _, size = _places(self.columns)
        return PairSums(np.zeros(self.labels, dtype=np.int64), np.zeros((self._tables, size), dtype=np.int64))

    def merge(self, a: PairSums, b: PairSums) -> PairSums:
        return PairSums(a.totals + b.totals, a.tables + b.tables)

    def chunk(self, users: UserData) -> PairSums:
        assert users.labels is not None
        found = self.zero()
        for part in spread(lambda first, last: self._span(users, first, last), user_spans(users.offsets)):
            found = self.merge(found, part)
        return found

    def _span(self, users: UserData, first: int, last: int) -> PairSums:
        """The sums of the users ``first..last - 1``."""
        assert users.labels is not None
        found = self.zero()
        places, size = _places(self.columns)
        widths = np.array([column.width for column in self.columns], dtype=np.int64)
        begin, end = int(users.offsets[first]), int(users.offsets[last])
        signed, flat = self.labels == 2, found.tables.reshape(-1)
        weights = np.zeros(end - begin, dtype=np.int64)
        _weigh(users.labels, users.offsets, first, last, self.levels, signed, weights)
        bins = np.empty((len(self.columns), _BLOCK), dtype=np.uint16)
        bases = np.zeros(_BLOCK, dtype=np.int64)
        for at in range(begin, end, _BLOCK):
            stop = min(at + _BLOCK, end)
            n, labels, part = stop - at, users.labels[at:stop], weights[at - begin : stop - begin]
            for row, column in zip(bins, self.columns):
                column.bin_codes(users.codes[column.name][at:stop], row[:n])
            if not signed:
                np.multiply(labels, size, out=bases[:n], dtype=np.int64)
            _add(bins[:, :n], part, bases[:n], places, widths, flat)
            for label in range(self.labels):
                found.totals[label] += np.abs(part[labels == label]).sum()
        return found


def cells_of(columns: tuple[BinnedColumn, ...], sums: PairSums) -> TreeCells:
    """Where tests hold, from the sums of bins: one square of all bins, whose rows and then columns become tests."""
    places, _ = _places(columns)
    tables = sums.tables if len(sums.totals) == 2 else sums.tables[1:] - sums.tables[0]
    bins = _spans(column.width for column in columns)
    tests = _spans(len(column.tests) for column in columns)
    c, width, k = len(tables), bins[-1].stop, tests[-1].stop
    pairs = np.zeros((c, width, width), dtype=np.int64)
    single = np.zeros((c, k), dtype=np.int64)
    for j, first in enumerate(columns):
        own = tables[:, places[j, j] : places[j, j] + first.width]
        single[:, tests[j]] = first.of_tests(own, 1)
        pairs[:, np.arange(bins[j].start, bins[j].stop), np.arange(bins[j].start, bins[j].stop)] = own
        for other in range(j + 1, len(columns)):
            size = first.width * columns[other].width
            found = tables[:, places[j, other] : places[j, other] + size].reshape(c, first.width, -1)
            pairs[:, bins[j], bins[other]] = found
            pairs[:, bins[other], bins[j]] = found.transpose(0, 2, 1)
    rows, both = np.zeros((c, k, width), dtype=np.int64), np.zeros((c, k, k), dtype=np.int64)
    for column, span, held in zip(columns, bins, tests):
        rows[:, held] = column.of_tests(pairs[:, span], 1)
    for column, span, held in zip(columns, bins, tests):
        both[:, :, held] = column.of_tests(rows[:, :, span], 2)
    totals = sums.totals
    return TreeCells(totals[1:] - totals[0], single, both, int(totals[1:].sum()))


def _spans(sizes: Iterable[int]) -> list[slice]:
    """Ranges of these sizes, one after the other."""
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


# One small tree: predicts, prints as if and else, saves.
#
# For display only a side whose labels agree, or whose test the root already decides, is shown as a leaf; the file keeps
# the tree as it was drawn.


class TreeQuestion(NamedTuple):
    """A test: a column by its name, ``cut`` or ``is``, and the cut or bin."""

    column: str
    kind: Literal["cut", "is"]
    value: int


@frozen(slots=False)
class Branch:
    """What is done on one side: a label, or a question with a label where it holds and where not."""

    question: TreeQuestion | None
    labels: tuple[int, ...]


@frozen(slots=False, repr=False)
class SmallTree(Rule):
    """A question, and on each side of it a label or one more question.

    ``names`` are what the labels mean where there are more than two; ``leaf_sums`` what was measured in its leaves on
    the people it was learned from, if that was asked for.
    """

    saved_as: ClassVar[str] = "small-tree"
    columns: tuple[BinnedColumn, ...]
    root: TreeQuestion
    yes: Branch
    no: Branch
    depth: int
    id: int
    label: str = "1"
    names: tuple[str, ...] = ()
    leaf_sums: RegionSums | None = None

    def __attrs_post_init__(self) -> None:
        known = {column.name: column.tests for column in self.columns}
        labels = len(self.names) or 2
        for asked in (self.root, self.yes.question, self.no.question):
            if asked is not None and (asked.kind, asked.value) not in known.get(asked.column, ()):
                raise ParameterError("a small tree asks tests of its own columns only")
        for branch in (self.yes, self.no):
            if len(branch.labels) != (1 if branch.question is None else 2) or not all(
                0 <= label < labels for label in branch.labels
            ):
                raise ParameterError(f"a side of a small tree names labels 0..{labels - 1}")
        if self.leaf_sums is not None and len(self.leaf_sums.sums) != labels * len(self._leaves):
            raise ParameterError("a small tree has sums for every leaf and label, or none")

    # Columns

    @property
    def features(self) -> Mapping[str, Domain]:
        return Frozen(tuple((column.name, column.domain) for column in self.columns))

    @property
    def reads(self) -> tuple[str, ...]:
        asked = [self.root, *(branch.question for branch in (self.yes, self.no) if branch.question is not None)]
        return tuple(name for name in self.features if name in {question.column for question in asked})

    def _column(self, question: TreeQuestion) -> BinnedColumn:
        return next(column for column in self.columns if column.name == question.column)

    # Predicting

    def _holds(self, question: TreeQuestion, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.bool_]:
        return self._column(question).holds((question.kind, question.value), codes[question.column])

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        def of(branch: Branch) -> Any:
            if branch.question is None:
                return np.int8(branch.labels[0])
            held = self._holds(branch.question, codes)
            return np.where(held, np.int8(branch.labels[0]), np.int8(branch.labels[1]))

        said: NDArray[np.int8] = np.where(self._holds(self.root, codes), of(self.yes), of(self.no)).astype(np.int8)
        return said

    def _asked(self, question: TreeQuestion) -> Condition:
        column = self._column(question)
        return column.expression(question.value, column.bins - 1 if question.kind == "cut" else question.value)

    def expression(self) -> Expression:
        def side(branch: Branch) -> Answer:
            if branch.question is None:
                return branch.labels[0]
            return Cases([(self._asked(branch.question), branch.labels[0])], branch.labels[1])

        return Cases([(self._asked(self.root), side(self.shown(self.yes, True)))], side(self.shown(self.no, False)))

    def predict(self, X: object, threshold: Rational | None = None) -> Any:
        """0/1, or the names of the labels where there are more than two."""
        said = super().predict(X, threshold)
        return np.array(self.names)[said] if self.names else said

    # Leaves: where the root holds and the inner test holds, where it does not; then the other side

    @cached_property
    def _leaves(self) -> tuple[tuple[bool, bool, int], ...]:
        """Answer of the root, answer of the inner test (True without one) and label of every leaf that some code of
        the declared columns can reach."""
        found = []
        for held, branch in ((True, self.yes), (False, self.no)):
            known = None
            if branch.question is not None and branch.question.column == self.root.column:
                known = self._column(self.root).decides(
                    (self.root.kind, self.root.value), held, (branch.question.kind, branch.question.value)
                )
            found += [(held, not i, label) for i, label in enumerate(branch.labels) if known in (None, not i)]
        return tuple(found)

    def regions(self, bands: int = DEFAULT_BANDS) -> Regions:
        own = tuple(label for _, _, label in self._leaves)
        names = tuple(map(self._leaf_name, self._leaves))
        if self.leaf_sums is None or self.names:
            return Regions(names, own)
        ones = [chances[1] for chances in self._leaf_chances]
        ranked = tuple(sorted(range(len(own)), key=lambda g: ones[g]))
        return Regions(names, own, ranked, tuple(map(float, ones)))

    def _leaf_name(self, leaf: tuple[bool, bool, int]) -> str:
        held, also, _ = leaf
        branch = self.yes if held else self.no
        asked = [(self.root, held), *([] if branch.question is None else [(branch.question, also)])]
        return " and ".join(("" if answer else "not ") + self._says(question) for question, answer in asked)

    def region_codes(self, codes: Mapping[str, NDArray[np.uint64]], bands: int = DEFAULT_BANDS) -> NDArray[np.uint8]:
        root = self._holds(self.root, codes)
        out = np.zeros(len(root), np.uint8)
        for g, (held, also, _) in enumerate(self._leaves):
            branch = self.yes if held else self.no
            inside = root == held
            if branch.question is not None:
                inside = inside & (self._holds(branch.question, codes) == also)
            out[inside] = g
        return out

    @cached_property
    def _leaf_chances(self) -> tuple[tuple[Fraction, ...], ...]:
        assert self.leaf_sums is not None
        own = [label for _, _, label in self._leaves]
        return chances_of_regions(self.leaf_sums.sums, own, self.leaf_sums.noise, len(self.names) or 2)

    @property
    def has_chances(self) -> bool:
        return self.leaf_sums is not None

    def chances_of(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        return np.array(self._leaf_chances, np.float64)[self.region_codes(codes)]

    # Words

    def _says(self, question: TreeQuestion) -> str:
        return self._column(question).says((question.kind, question.value))

    def label_text(self, label: int) -> str:
        if self.names:
            return self.names[label]
        return ("0", "1")[label] if self.label == "1" else ("not " * (not label)) + self.label

    def shown(self, branch: Branch, held: bool) -> Branch:
        """A side as it is shown: a leaf where its labels agree or the root decides its test."""
        if branch.question is None:
            return branch
        if branch.labels[0] == branch.labels[1]:
            return Branch(None, branch.labels[:1])
        if branch.question.column == self.root.column:
            known = self._column(self.root).decides(
                (self.root.kind, self.root.value), held, (branch.question.kind, branch.question.value)
            )
            if known is not None:
                return Branch(None, (branch.labels[0 if known else 1],))
        return branch

    @property
    def drawn(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The tree for a picture: the root's question, and of each side its label, or its question and two labels."""

        def side(branch: Branch) -> tuple[str, ...]:
            asked = () if branch.question is None else (self._says(branch.question),)
            return (*asked, *map(self.label_text, branch.labels))

        return self._says(self.root), side(self.shown(self.yes, True)), side(self.shown(self.no, False))

    def condition(self) -> str:
        """One line: ``a and b`` or ``a or b`` where these say it all, else ``if``, ``else`` and the labels."""
        if said := self._one_condition:
            return said
        root, *sides = self.drawn

        def words(side: tuple[str, ...]) -> str:
            return side[0] if len(side) == 1 else f"if {side[0]}: {side[1]} else: {side[2]}"

        inner = ("(", ")") if len(sides[0]) > 1 else ("", "")
        return f"if {root}: {inner[0]}{words(sides[0])}{inner[1]} else: {words(sides[1])}"

    @property
    def _one_condition(self) -> str:
        """A label, ``always``, ``a``, ``a and b`` or ``a or b`` of the questions as they stand; else empty."""
        sides = [self.shown(self.yes, True), self.shown(self.no, False)]
        asked = [self._says(self.root), *(self._says(side.question) for side in sides if side.question is not None)]
        match tuple(side.labels for side in sides):
            case ((one,), (other,)) if one == other:
                return self.names[one] if self.names else ("never", "always")[one]
            case ((1,), (0,)) if not self.names:
                return asked[0]
            case ((1, 0), (0,)) if not self.names:
                return " and ".join(asked)
            case ((1,), (1, 0)) if not self.names:
                return " or ".join(asked)
        return ""

    def __str__(self) -> str:
        """``late when a > 3 and b > 1``; what is no such condition stands indented, and its leaves say the label."""
        if said := self._one_condition:
            return f"{self.label}: {said}" if self.names else super().__str__()
        root, *sides = self.drawn
        lines = [f"{self.label}:"] if self.names else []
        for head, side in zip((f"if {root}:", "else:"), sides):
            if len(side) == 1:
                lines.append(f"{head} {side[0]}")
            else:
                lines += [head, f"    if {side[0]}: {side[1]}", f"    else: {side[2]}"]
        return "\n".join(lines)

    @property
    def picture(self) -> Literal["domain", "regions", "questions", "none"]:
        return "questions"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        def side(branch: Branch) -> dict[str, Any]:
            asked = None if branch.question is None else list(branch.question)
            return {"test": asked, "labels": list(branch.labels)}

        sums = self.leaf_sums
        own = {} if sums is None else {"chances": {"noise": sums.noise, "sums": list(sums.sums), "from": "calibrate"}}
        return own | {
            "columns": [column.to_dict() for column in self.columns],
            "depth": self.depth,
            "id": str(self.id),
            "root": list(self.root),
            "yes": side(self.yes),
            "no": side(self.no),
            "label": self.label,
            "names": list(self.names),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        def question(stored: Sequence[Any]) -> TreeQuestion:
            name, kind, value = stored
            return TreeQuestion(name, kind, int(value))

        def side(stored: Mapping[str, Any]) -> Branch:
            asked = stored["test"]
            return Branch(None if asked is None else question(asked), tuple(int(label) for label in stored["labels"]))

        return cls(
            tuple(BinnedColumn.from_dict(column) for column in values["columns"]),
            question(values["root"]),
            side(values["yes"]),
            side(values["no"]),
            int(values["depth"]),
            int(values["id"]),
            values["label"],
            tuple(str(name) for name in values["names"]),
            _leaf_sums(values.get("chances")),
        )


_MOST_PAIRS = 1 << 22
"""Pairs of tests up to which scale-free cuts are added: beyond them the law takes more than a second."""


def _leaf_sums(stored: Mapping[str, Any] | None) -> RegionSums | None:
    """What was measured in the leaves, of a file that has it."""
    if stored is None:
        return None
    if any(isinstance(value, bool) or not isinstance(value, int) for value in stored["sums"]):
        raise ParameterError("sums must be whole numbers")
    return RegionSums(tuple(stored["sums"]), rational(stored["noise"], "noise", above=0))


def _depth(depth: object) -> int:
    if depth not in (1, 2) or isinstance(depth, bool):
        raise ParameterError(f"depth must be 1 or 2, got {depth!r}; deeper trees have more cells than can be counted")
    return int(depth)


@frozen(slots=False, field_transformer=named)
class SmallTrees(WideClass):
    """Trees that ask at most three questions about public bins of the columns.

    Parameters
    ----------
    columns : mapping of names to domains, or names; None takes every feature of the data.
    depth : 2, or 1 for one question with a free label on each side.
    cuts : at most so many equal cuts of every number, within the typical range of a column that declares one; or a
        number or list of values for each column.  ``Floats()`` needs a list.
    spacing : "scale-free" adds ``steps`` cuts in every octave of the distance from zero, so that a range may be far too
        wide; "equal" adds none.  A list of cuts or a typical range goes before it.
    steps : halved, then 0, until the tests are few enough: at most ``max_cells`` and 2^22 pairs.
    missing : ``"own"`` (all columns) or a list of columns whose missing values are an answer of their own; None leaves
        it to the domains.
    split : prior chance that a side asks again.
    levels : steps of a user's vote.
    max_cells : most pairs of bins, and of tests.
    classes : the labels, where there are more than two.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> trees = SmallTrees({"age": Integers(0, 120), "dose": Integers(0, 9)})
    >>> len(trees.tests), str(trees.decode(0, label="cured"))
    (48, 'cured never')
    """

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"small-tree": {}}
    own_method: ClassVar[str | None] = "small-tree"

    columns: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)
    depth: int = field(default=2, converter=_depth)
    cuts: Cuts = field(default=DEFAULT_CUTS, converter=read_cuts)
    spacing: str = field(default="scale-free", validator=either("scale-free", "equal"), kw_only=True)
    steps: int = field(default=8, converter=whole, metadata=bounds(maximum=64), kw_only=True)
    missing: str | tuple[str, ...] | None = field(default=None, converter=read_missing)
    split: Fraction = field(default=Fraction(7, 10), converter=probability)
    levels: int = field(default=TREE_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))
    max_cells: int = field(default=1 << 24, converter=whole, metadata=bounds(maximum=1 << 30))
    classes: tuple[str, ...] | None = field(default=None, converter=read_classes)

    @columns.validator
    def _known(self, attribute: Attribute[object], columns: Frozen[Domain | None] | None) -> None:
        if columns is None and isinstance(self.missing, tuple):
            return
        if columns is not None and all(domain is not None for domain in columns.values()):
            _ = self.binned  # what is too wide is refused now

    @cached_property
    def _bins(self) -> tuple[tuple[BinnedColumn, ...], int]:
        """The columns with their bins and the steps that these took, from public numbers, before anything is spent."""
        steps = self.steps if self.spacing == "scale-free" else 0
        while True:
            columns = self._binned(steps)
            pairs, tests = pair_count(columns), sum(len(column.tests) for column in columns)
            most = max(pairs, tests**2)
            if most <= self.max_cells and (not steps or tests**2 <= _MOST_PAIRS):
                return columns, steps
            if not steps:
                raise TooLargeError(
                    f"these columns make {most} cells, at most {self.max_cells} are counted; use fewer cuts or "
                    "columns, or raise max_cells"
                )
            steps //= 2

    @cached_property
    def binned(self) -> tuple[BinnedColumn, ...]:
        return self._bins[0]

    @property
    def spacing_words(self) -> str:
        """How the columns are cut, for results and plans."""
        steps = self._bins[1]
        return f"scale-free, {steps} an octave" if steps else "equal"

    # What is known of the class

    def error_steps(self, levels: int) -> int | None:
        """Its own: scores come with the one law."""
        return self.levels

    @property
    def shattered_points(self) -> int:
        """Labels are free, so the leaves of one shape are shattered: the four corners of two columns; of one column
        that is cut, up to four of its bins; of one column of names three of them.  A missing value is one more bin."""
        if self.labels > 2 or self.depth == 1:
            return 0 if self.labels > 2 else 2
        if len(self.binned) > 1:
            return 4
        (column,) = self.binned
        return min(len(column.tests) + 1, 3 if column.is_category else 4)

    # Trees

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """All questions, in the order of ids."""
        return tuple(Test(j, kind, value) for j, column in enumerate(self.binned) for kind, value in column.tests)

    @cached_property
    def shape(self) -> TreeShape:
        """Ids and prior: column uniform, test uniform within the column."""
        d = len(self.binned)
        prior = tuple(Fraction(1, d * len(column.tests)) for column in self.binned for _ in column.tests)
        return TreeShape(prior, self.split, self.labels, self.depth)

    @property
    def size(self) -> int:
        return self.shape.size

    @property
    def vc_dimension(self) -> int:
        """An upper bound: a shattered set needs a tree for every labelling."""
        return max(1, self.size.bit_length() - 1)

    def price(self, hypothesis: int) -> float:
        """``ln(1/prior)`` of a tree, in nats."""
        prior = self.shape.of_tree(hypothesis)
        return log(prior.denominator) - log(prior.numerator)

    def _question(self, test: int) -> TreeQuestion:
        found = self.tests[test]
        return TreeQuestion(self.binned[found.column].name, found.kind, found.value)

    def _branch(self, side: Side) -> Branch:
        return Branch(None if side.test is None else self._question(side.test), side.labels)

    def decode(self, hypothesis: int, label: str = "1") -> SmallTree:
        root, yes, no = self.shape.parts(hypothesis)
        return SmallTree(
            self.binned,
            self._question(root),
            self._branch(yes),
            self._branch(no),
            self.depth,
            hypothesis,
            label,
            self.classes or (),
        )

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        return self.decode(hypothesis).predict_codes(codes)

    # Folding

    def cells_kernel(self) -> CellsKernel:
        """What one user adds to :meth:`cells`."""
        return CellsKernel(self.binned, self.levels, self.labels)

    def cells(self, users: Users) -> TreeCells:
        """Where tests hold, summed over bound users: private."""
        return cells_of(self.binned, users.fold(self.cells_kernel()))
