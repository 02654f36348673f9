"""Cut-offs on one column: "1 iff x > value", "1 iff x <= value", or both directions.

``cut`` u in 0..N over a domain of N codes: the rule says 1 iff ``code(x) >= u`` (``direction="above"``) or iff
``code(x) < u`` (``"below"``).  Domains of 2**64 values cost as many blocks as there are distinct points.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Bytes, Codes, Ints
from privpac.data import Domain, Integers, Texts, UserData, Users
from privpac.data.grouping import ranked
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.law.weights import Weights
from privpac.result import WideInt
from privpac.rules.base import (
    ByAgreement,
    ColumnCodes,
    ConceptClass,
    FewValues,
    Labellings,
    Layout,
    OneColumnClass,
    Poll,
    Predictions,
    Rule,
    distance_minimum,
)
from privpac.rules.export.expression import Condition, Expression, Negated, codes_in
from privpac.rules.hierarchies.base import MAX_BITS, Column, Depths, Places, VC1Tree, as_text, code_of
from privpac.rules.kernels.coarse_pass import CutColumn, Survey, survey, worthwhile
from privpac.rules.kernels.cuts import Line, fold_lines, zero_profile
from privpac.rules.priors import check_prior, column_weights, prior_name
from privpac.rules.profile import Profile, Statistic, Step

DIRECTIONS = ("above", "below")
VALUE_DIRECTIONS = ("is", "is not")
"""What stands for a cut's directions on a column without an order."""


def need_order(
    feature: str | None, domain: Domain | None, instead: str = "use Points/Stumps (the rules 'point' and 'stump')"
) -> None:
    """Refuse a column whose values have no order, for rules that ask what is above what."""
    if domain is not None and not domain.ordered:
        column = "the column" if feature is None else f"column {feature!r}"
        raise ParameterError(
            f"{column} has unordered categories; write Categories([...], ordered=True) if their order means something "
            f"(in words {{a<b<c}}), or {instead}"
        )


def stored_in_order(values: Mapping[str, Any]) -> Domain:
    """A stored domain of rules that need an order; files older than the field ``ordered`` do not say that there is
    one."""
    if "inner" in values:
        return Domain.from_dict({**values, "inner": stored_in_order(values["inner"]).to_dict()})
    return Domain.from_dict({"ordered": True, **values} if values.get("kind") == "categories" else values)


def listed_condition(feature: str, domain: Domain, first: int, last: int) -> str:
    """Codes ``first..last`` of a column without an order, by name: ``is a``, ``is not a``, ``is one of a, b``.

    Rules learned before categories were unordered, and boxes, hold such runs.
    """
    inside, rest = range(first, last + 1), [*range(first), *range(last + 1, domain.size)]
    if not rest or not inside:
        return "always" if inside else "never"
    listed, word = (inside, "is") if len(inside) <= len(rest) else (rest, "is not")
    return f"{feature} {word} {'one of ' * (len(listed) > 1)}{', '.join(map(domain.text, listed))}"


def cut_condition(feature: str, domain: Domain, cut: int, direction: str) -> str:
    """A cut in the user's units; cuts beyond the ends, or among codes that are no values, print as always / never."""
    if direction in VALUE_DIRECTIONS:
        if cut == domain.size or domain.size == 1:
            return "never" if (cut == domain.size) == (direction == "is") else "always"
        return f"{feature} {direction} {domain.text(cut)}"
    if not domain.ordered:
        return listed_condition(feature, domain, *((cut, domain.size - 1) if direction == "above" else (0, cut - 1)))
    lowest, highest = domain.value_range()
    if cut <= lowest:
        return "always" if direction == "above" else "never"
    if cut > highest:
        return "never" if direction == "above" else "always"
    return f"{feature} {'>' if direction == 'above' else '<='} {domain.text(cut - 1)}"


def cut_expression(feature: str, domain: Domain, cut: int, direction: str) -> Condition:
    """A cut, or one value, as a question about codes; a cut of the size is above all codes."""
    if direction in VALUE_DIRECTIONS:
        one = codes_in(feature, cut, cut)
        return one if direction == "is" else Negated(one)
    return codes_in(feature, cut, domain.size - 1) if direction == "above" else codes_in(feature, 0, cut - 1)


def check_cut(domain: Domain, cut: int, direction: str, directions: tuple[str, ...] = DIRECTIONS) -> None:
    """A cut and a direction that make a rule on the domain; for "is" and "is not" the cut is a code, or the number of
    codes for a value that nobody holds."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    positive_int(cut, "cut", minimum=0, maximum=domain.size)
    if direction not in directions:
        raise ParameterError(f"direction must be {' or '.join(map(repr, directions))}, got {direction!r}")


@frozen(slots=False, repr=False)
class Threshold(Rule):
    """1 iff ``code(x) >= cut`` (above) or ``code(x) < cut`` (below)."""

    saved_as: ClassVar[str] = "threshold"
    feature: str
    domain: Domain
    cut: WideInt
    direction: str = "above"
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        check_cut(self.domain, self.cut, self.direction)

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        return cut_predictions(codes[self.feature], self.cut, self.direction)

    def edges(self, column: str) -> tuple[int, ...]:
        return (self.cut,)

    def condition(self) -> str:
        return cut_condition(self.feature, self.domain, self.cut, self.direction)

    def expression(self) -> Expression:
        return cut_expression(self.feature, self.domain, self.cut, self.direction)


def cut_predictions(codes: Codes, cut: int, direction: str) -> Predictions:
    """Codes against a cut that may be 2**64, or against one code."""
    if cut >= 1 << 64:
        over = np.zeros(len(codes), dtype=bool)
    else:
        over = codes == np.uint64(cut) if direction in VALUE_DIRECTIONS else codes >= np.uint64(cut)
    return (over if direction in ("above", "is") else ~over).astype(np.int8)


# Labellings by cuts and by single values of one column; only order and equality of values matter, so domains of 2**64
# cost nothing.
#
# *Cuts.*  With distinct values ``p_1 < ... < p_u`` in T, the labelling "the i smallest are on the low side" is given by
# the cuts of gap i, and ``M(i)`` is the least loss over that gap.  Two such labellings differ on the records between
# them, so Q is a one-dimensional distance transform.  With both directions a labelling of the other direction differs
# on all *other* records: ``t - |x| = min(t - x, t + x)``.
#
# *Single values.*  ``{x}`` and ``{y}`` differ on the records at x and at y; the two smallest ``A * records + B * M``
# decide all scores.  No record is labelled 1 iff the class has the zero rule, or a value that T does not hold.


def refined(step: Step, places: Codes) -> tuple[Codes, Ints]:
    """The step function with the given places among its starts."""
    starts = np.union1d(step.starts, places)
    return starts, step.scores[np.searchsorted(step.starts, starts, side="right") - 1]


def gap_minima(cut0: Step, cuts: Step, held: Codes) -> Ints:
    """The least loss over the cuts of every gap: ``0..p_1``, ``p_1 + 1..p_2``, ..., ``p_u + 1..N``.

    ``cuts`` starts at cut 1, so that its local id ``c`` is the cut ``c + 1``, the first one beyond the code ``c``.
    """
    starts, scores = refined(cuts, held)
    where = np.searchsorted(starts, held)
    out = np.empty(len(held) + 1, dtype=np.int64)
    out[1:] = np.minimum.reduceat(scores, where)
    out[0] = min(int(cut0.scores[0]), int(scores[: where[0]].min(initial=np.iinfo(np.int64).max)))
    return out


def threshold_labellings(points: Codes, directions: tuple[str, ...], profile: Profile, A: int, B: int) -> Labellings:
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    place = A * np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)])  # A times the records below gap i
    costs = [B * gap_minima(profile.steps[2 * d], profile.steps[2 * d + 1], held) for d in range(len(directions))]
    own = [distance_minimum(cost, place) for cost in costs]
    total = int(place[-1])
    if len(own) == 2:
        for d in (0, 1):
            other = costs[1 - d]
            opposite = np.minimum(
                total - place + int((other + place).min()), total + place + int((other - place).min())
            )
            own[d] = np.minimum(own[d], opposite)
        # Both directions give the two constants: the second direction keeps its inner gaps only.
        own[1] = own[1][1:-1]
    first = len(own[0])
    above = directions[0] == "above"

    def labels(i: int) -> Bytes:
        gap, up = (i, above) if i < first else (i - first + 1, False)
        return (rank >= gap if up else rank < gap).astype(np.uint8)

    return Labellings(np.concatenate(own), labels)


_POLLED = 1 << 18  # votes counted at once


def cut_poll(rules: Sequence[tuple[str, int, str]], columns: Sequence[str]) -> Poll:
    """``ConceptClass.poll`` for rules about one column (feature, cut or code, direction): many of them at once."""
    which = np.array([columns.index(feature) for feature, _, _ in rules], dtype=np.intp)
    cuts = np.array([[min(cut, (1 << 64) - 1)] for _, cut, _ in rules], dtype=np.uint64)
    reached = np.array([[cut < 1 << 64] for _, cut, _ in rules], dtype=bool)
    below = np.array([[direction in ("below", "is not")] for _, _, direction in rules], dtype=bool)
    value = np.array([[direction in VALUE_DIRECTIONS] for _, _, direction in rules], dtype=bool)

    def votes(codes: ColumnCodes) -> Ints:
        read = np.stack([codes[name] for name in columns])
        total = np.zeros(read.shape[1], dtype=np.int64)
        step = max(1, _POLLED // max(1, len(total)))
        for at in (slice(start, start + step) for start in range(0, len(rules), step)):
            codes_read = read[which[at]]
            over = np.where(value[at], codes_read == cuts[at], codes_read >= cuts[at]) & reached[at]
            total += np.add.reduce(over ^ below[at], axis=0, dtype=np.int64)
        return total

    return votes


class LineClass(ConceptClass):
    """Rules that each read one of its columns: cuts of it, or single values."""

    rule_by_rule: ClassVar[bool] = False

    @property
    @abstractmethod
    def lines(self) -> Mapping[str, Line]:
        """Its columns, as they are folded."""

    @property
    def ways(self) -> tuple[str, ...]:
        return self.directions

    def empty_profile(self) -> Profile:
        return zero_profile(self.lines.values(), len(self.ways))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        return fold_lines(users, self.lines, self.ways, statistic, self.size)

    def survey(self, users: Users, statistic: Statistic) -> Survey | None:
        lines = self.lines
        if self.layout != "cuts" or not isinstance(users, UserData) or users.labels is None:
            return None
        if not worthwhile(users, [line.size for line in lines.values()]):
            return None
        columns = [CutColumn(users.codes[name], line.size, line.base) for name, line in lines.items()]
        return survey(columns, users.labels, users.offsets, self.ways, statistic, self.size)


@frozen(slots=False)
class Thresholds(LineClass, OneColumnClass):
    """All cuts of one column; ids are cuts 0..N, with ``direction="both"`` the cuts above and then those below.

    Parameters
    ----------
    domain : Domain, optional
        The column's domain; None takes the one that the data declare.
    feature : str, optional
        The column's name; None takes the only one.
    direction : {"above", "below", "both"}
        On which sides of a cut a rule may say 1.
    prior : {"auto", "scale-free", "uniform"}
        What hybrid selection does before it sees data: orders of magnitude around zero weigh alike, or all rules do.
        ``"auto"`` is scale-free for a domain of more than 2,000 values.  A declared typical range always weighs more.

    Raises
    ------
    ParameterError
        The domain has no order.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> Thresholds(Integers(0, 1440), feature="minute").decode(1034, label="late").__str__()
    'late when minute > 1033'
    """

    domain: Domain | None = None
    feature: str | None = None
    direction: str = "above"
    prior: str = field(default="auto", repr=False)

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "threshold": {},
        "threshold-below": {"direction": "below"},
        "threshold-both": {"direction": "both"},
    }
    layout: ClassVar[Layout] = "cuts"

    def __attrs_post_init__(self) -> None:
        check_directions(self.direction)
        check_prior(self.prior)
        self.check_domain()
        need_order(self.feature, self.domain)

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    @property
    def size(self) -> int:
        return len(self.directions) * (self._points + 1)

    @property
    def vc_dimension(self) -> int:
        return 2 if self.direction == "both" and self._points > 1 else 1

    def growth(self, n: int) -> int:
        distinct = min(n, self._points)
        return (2 * distinct if self.direction == "both" else distinct + 1) if distinct else 1

    @property
    def littlestone_dimension(self) -> int:
        if self.direction == "both":
            raise ParameterError("ask for the Littlestone dimension of one direction")
        return cut_mistakes(self._points)

    # What is known

    @property
    def cut_direction(self) -> str:
        return self.direction

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def mistake_tree_depth(self) -> int:
        return cut_mistakes(self._points)

    @property
    def few_values(self) -> FewValues | None:
        return FewValues("cuts") if self.direction == "above" else None

    @property
    def by_agreement(self) -> ByAgreement | None:
        return {"above": ByAgreement("threshold"), "below": ByAgreement("threshold-below")}.get(self.direction)

    @property
    def is_tree(self) -> bool:
        return self.direction != "both"

    def as_tree(self) -> PathTree:
        return PathTree(self.known_domain, self.feature, self.direction)

    @property
    def lines(self) -> Mapping[str, Line]:
        return {self.column: Line(self._points)}

    @property
    def prior_name(self) -> str:
        return prior_name([self.known_domain], self.prior)

    @cached_property
    def rule_weights(self) -> Weights | None:
        return column_weights([self.known_domain], len(self.directions), self.prior)

    # Rules

    def split(self, hypothesis: int) -> tuple[int, str]:
        """Cut and direction of an id."""
        which, cut = divmod(self.checked(hypothesis), self._points + 1)
        return cut, self.directions[which]

    def decode(self, hypothesis: int, label: str = "1") -> Threshold:
        return Threshold(self.column, self.known_domain, *self.split(hypothesis), label)

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        return cut_predictions(codes[self.column], *self.split(hypothesis))

    def poll(self, hypotheses: Sequence[int]) -> Poll:
        return cut_poll([(self.column, *self.split(hypothesis)) for hypothesis in hypotheses], [self.column])

    # Labellings

    def _labellings(self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
        return threshold_labellings(codes[self.column], self.directions, self.losses(rest, levels), A, B)

    def dichotomies(self, codes: ColumnCodes) -> Iterator[Labelling]:
        return merged(cut_labellings(codes[self.column], self._points, self.directions))


def check_directions(direction: str) -> None:
    """One direction of a cut, or both."""
    if direction not in (*DIRECTIONS, "both"):
        raise ParameterError(f"direction must be 'above', 'below' or 'both', got {direction!r}")


Labelling = tuple[Predictions, int, int]


def cut_labellings(points: Codes, size: int, directions: Sequence[str], base: int = 0) -> Iterator[Labelling]:
    """``(labels, first id, number of rules)`` in order of ids; directions may repeat labels."""
    edges = [0, *(int(c) + 1 for c in np.unique(points).tolist()), size + 1]
    for i, direction in enumerate(directions):
        for a, b in pairwise(edges):
            if a < b:
                yield cut_predictions(points, a, direction), base + i * (size + 1) + a, b - a


def value_labellings(points: Codes, size: int, directions: Sequence[str], base: int = 0) -> Iterator[Labelling]:
    """The same for the rules "is v" and "is not v" of ``size`` values and one that nobody holds."""
    held = [int(code) for code in np.unique(points).tolist()]
    # Ids are increasing, so the first one that is not held is where they and the positions part.
    other = next((i for i, code in enumerate(held) if i != code), len(held))
    for i, direction in enumerate(directions):
        for code in sorted([*held, other]):
            labels = cut_predictions(points, code, VALUE_DIRECTIONS[DIRECTIONS.index(direction)])
            yield labels, base + i * (size + 1) + code, size + 1 - len(held) if code == other else 1


def merged(labellings: Iterable[Labelling]) -> Iterator[Labelling]:
    """Every labelling once, with the first of its ids and all its rules; ids come in increasing order."""
    seen: dict[bytes, list[Any]] = {}
    for labels, first, count in labellings:
        entry = seen.setdefault(labels.tobytes(), [labels, first, 0])
        entry[2] += count
    for labels, first, count in seen.values():
        yield labels, first, count


def cut_mistakes(points: int) -> int:
    """The depth of the mistake tree of all cuts between so many points: bisection."""
    return (points + 1).bit_length() - 1


# Cuts as a tree: a path


_MOST = (1 << 64) - 1  # the largest end of Integers


def _whole(shown: str, most: int) -> int | None:
    """A whole number 1..most in decimal digits."""
    digits = shown.removeprefix("+").lstrip("0")
    # The number of digits decides first: a number with a hundred thousand of them is not worth reading.
    if (
        not digits
        or not (digits.isascii() and digits.isdigit())
        or len(digits) > most.bit_length() * 30103 // 100000 + 1
    ):
        return None
    number = int(digits)
    return number if number <= most else None


def steps(codes: Any, size: int, direction: str) -> Depths:
    """Depths 1..size of codes 0..size-1; from the top down if the rule says 1 above."""
    if size >= 1 << 63:
        return np.array([c + 1 if direction == "below" else size - c for c in codes.tolist()], dtype=object)
    depth: Ints = codes.astype(np.int64)
    return depth + np.int64(1) if direction == "below" else np.int64(size) - depth


def check_direction(direction: str) -> None:
    if direction not in DIRECTIONS:
        raise ParameterError(f"direction must be 'below' or 'above', got {direction!r}")


@frozen(slots=False, init=False)
class PathTree(VC1Tree):
    """Thresholds: the points 1..d in a row, the concept of node v says 1 iff x <= v (``direction="below"``).

    ``PathTree(d)`` for whole numbers 1..d of any size, ``PathTree(domain)`` for any ordered domain; with
    ``direction="above"`` the concept of node v says 1 on the v highest values.  Nodes are 0..d, their own depths.

    Parameters
    ----------
    size : int or Domain
        The number of points, or their ordered domain.
    feature : str, optional
        The column to read; None takes the only one.
    direction : {"below", "above"}
        On which side of a cut the concept says 1.
    domain : Domain, optional
        The declared domain, where ``size`` is a number.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> str(PathTree(Integers(0, 99), feature="age").rule(18)), PathTree(2**1000).height.bit_length()
    ('1 when age <= 17', 1001)
    """

    kind: ClassVar[str] = "path"
    is_path: ClassVar[bool] = True
    lists_levels: ClassVar[bool] = True

    size: int
    domain: Domain
    feature: str | None
    direction: str

    def __init__(
        self, size: int | Domain, feature: str | None = None, direction: str = "below", domain: Domain | None = None
    ) -> None:
        check_direction(direction)
        if isinstance(size, Domain):
            need_order(feature, size)
            given, count = size, size.size
        else:
            count = positive_int(size, "size")
            if count.bit_length() > MAX_BITS:
                raise ParameterError(f"size must have at most {MAX_BITS} bits, got {count.bit_length()}")
            given = Integers(1, count) if count <= _MOST else Texts()
        self.__attrs_init__(count, domain or given, feature, direction)

    @property
    def _coded(self) -> bool:
        """Whether points are codes of the domain; else they are the numbers 1..size themselves, read from text."""
        return not self.domain.open and self.domain.size == self.size

    @property
    def height(self) -> int:
        return self.size

    @property
    def widest(self) -> int:
        return 1

    def _level_node(self, z: int, i: int) -> int:
        return z

    @property
    def as_selection(self) -> str:
        return f"Thresholds(domain, direction={self.direction!r})" if self.size <= 1 << 64 else ""

    @property
    def root(self) -> int:
        return 0

    def node(self, x: object) -> int | None:
        if not self._coded:
            shown = as_text(x)
            number = None if shown is None else _whole(shown, self.size)
            return number if number is None or self.direction == "below" else self.size + 1 - number
        code = code_of(self.domain, x)
        return None if code is None else code + 1 if self.direction == "below" else self.size - code

    def nodes(self, values: Sequence[object]) -> list[Any]:
        if not self._coded:
            return [self.node(x) for x in values]
        codes, good = self.domain.encode(list(values), on_invalid="drop")
        return [
            int(d) if ok else None for d, ok in zip(steps(codes, self.size, self.direction).tolist(), good.tolist())
        ]

    def depth(self, v: int) -> int:
        return v

    def ancestor(self, v: int, z: int) -> int:
        self._check_above(v, z)
        return z

    def is_ancestor(self, a: int, v: int) -> bool:
        return a <= v

    def level_width(self, z: int) -> int:
        self._level(z)
        return 1

    def only_node(self, z: int) -> int:
        return self._level(z)

    @property
    def n_nodes(self) -> int:
        return self.size + 1

    def number(self, v: int) -> int:
        return v

    def below(self, v: int) -> int:
        return self.size + 1 - v

    def numbered(self, i: int) -> int:
        return i

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        return places.depth.tolist(), [self.size] * len(places.depth)

    def with_columns(self, columns: Mapping[str, Domain]) -> PathTree:
        ((feature, domain),) = columns.items()
        need_order(feature, domain)
        return PathTree(self.size, feature, self.direction, domain)

    def rule(self, v: int, label: str = "1") -> Rule:
        v = self.unpack(str(v))
        if not self._coded:
            return super().rule(v, label)
        cut = v if self.direction == "below" else self.size - v
        return Threshold(self.feature or "x", self.domain, cut, self.direction, label)

    def describe(self, v: int) -> str:
        return self.condition(v)

    def condition(self, v: int) -> str:
        feature, below = self.feature or "x", self.direction == "below"
        if self._coded:
            return cut_condition(feature, self.domain, v if below else self.size - v, self.direction)
        if v in (0, self.size):
            return "always" if v else "never"
        return f"{feature} <= {v}" if below else f"{feature} > {self.size - v}"

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        if self._coded:
            distinct, which = ranked(column.codes)
            depth = steps(distinct, self.size, self.direction)
            at = which + 1
            if self.direction == "above":
                depth, at = depth[::-1], len(distinct) + 1 - at
        else:
            codes, words = column.texts()
            found = self.nodes(words.to_list())
            held = sorted({v for v in found if v is not None})
            place = {v: i for i, v in enumerate(held, 1)}
            depth = np.array(held, dtype=object if self.size >= 1 << 63 else np.int64)
            at = np.array([-1 if v is None else place[v] for v in found], dtype=np.int64)[codes]
        depth = np.concatenate([np.zeros(1, dtype=depth.dtype), depth])
        rank = np.arange(len(depth), dtype=np.int64)
        ranks = (rank, np.maximum(rank - 1, 0))  # each node lies right below the one before
        return Places(at, None, depth, np.concatenate([depth[:1], depth[:-1]]), lambda i: int(depth[i]), None, ranks)

    def to_dict(self) -> dict[str, Any]:
        own = {"size": str(self.size), "direction": self.direction}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> PathTree:
        return cls(int(values["size"]), values["feature"], values["direction"], stored_in_order(values["domain"]))

    def pack(self, v: int) -> str:
        return str(v)

    def unpack(self, packed: Any) -> int:
        return positive_int(int(packed), "node", minimum=0, maximum=self.size)
