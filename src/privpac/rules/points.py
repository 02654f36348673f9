"""One value of one column: "1 iff x = value".

Ids are codes 0..N-1; with ``zero=True`` the rule that never says 1 comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Codes
from privpac.data import Domain, Texts, UserData
from privpac.data.domains import in_one_line
from privpac.data.grouping import ranked
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.law.weights import Weights
from privpac.result import WideInt
from privpac.rules.base import (
    ByAgreement,
    ColumnCodes,
    FewValues,
    Labellings,
    Layout,
    OneColumnClass,
    Predictions,
    Rule,
)
from privpac.rules.cuts import Labelling, LineClass, refined
from privpac.rules.export.expression import Expression, codes_in
from privpac.rules.hierarchies.base import Column, Places, VC1Tree, as_text, code_of, lay_out
from privpac.rules.kernels.cuts import Line
from privpac.rules.priors import check_prior, prior_name, value_weights
from privpac.rules.profile import Profile


@frozen(slots=False, repr=False)
class Point(Rule):
    """1 iff ``code(x) = code``; ``code=None`` never says 1."""

    saved_as: ClassVar[str] = "point"
    feature: str
    domain: Domain
    code: WideInt | None
    label: str = "1"

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        if self.code is not None:
            positive_int(self.code, "code", minimum=0, maximum=self.domain.size - 1)

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        return point_predictions(codes[self.feature], self.code)

    def edges(self, column: str) -> tuple[int, ...]:
        return () if self.code is None else (self.code,)

    def expression(self) -> Expression:
        return False if self.code is None else codes_in(self.feature, self.code, self.code)

    def condition(self) -> str:
        if self.code is None:
            return "never"
        # Among the codes of floats are patterns that no value has.
        if int(self.domain.encode([self.domain.value(self.code)], on_invalid="clamp")[0][0]) != self.code:
            return "never"
        if self.domain.size == 1:
            return "always"
        return f"{self.feature} {'=' if self.domain.ordered else 'is'} {self.domain.text(self.code)}"


def point_predictions(codes: Codes, code: int | None) -> Predictions:
    return np.zeros(len(codes), dtype=np.int8) if code is None else (codes == np.uint64(code)).astype(np.int8)


def point_labellings(points: Codes, rules: int, profile: Profile, A: int, B: int) -> Labellings:
    """By ``rules`` single values, the zero rule among them if there is one."""
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    step = profile.steps[0]
    costs, mistakes = B * step.scores[np.searchsorted(step.starts, held, side="right") - 1], A * times.astype(np.int64)
    if rules > len(held):
        # Values that T does not hold: cut the held ones out of the step function.  A last code has nothing after it.
        after = held[held < np.uint64(step.end)] + np.uint64(1)
        starts, scores = refined(step, np.union1d(held, after))
        outside = scores[~np.isin(starts, held)]
        none = min(
            int(outside.min(initial=np.iinfo(np.int64).max)),
            *(int(s.scores[0]) for s in profile.steps[1:]),
            np.iinfo(np.int64).max,
        )
        costs, mistakes = np.append(costs, B * none), np.append(mistakes, 0)
    far = costs + mistakes
    order = np.argsort(far, kind="stable")[:2]
    least = np.full(len(far), far[order[0]])
    least[order[0]] = far[order[1]] if len(order) > 1 else np.iinfo(np.int64).max // 2
    scores_of = np.minimum(costs, mistakes + least)
    return Labellings(scores_of, lambda i: (rank == i).astype(np.uint8))


@frozen(slots=False)
class Points(LineClass, OneColumnClass):
    """One rule for each value of a column.

    Parameters
    ----------
    domain : Domain, optional
        The column's domain; None takes the one that the data declare.
    feature : str, optional
        The column's name; None takes the only one.
    zero : bool
        Whether the rule that says 0 everywhere belongs to the class.
    prior : {"auto", "scale-free", "uniform"}
        What hybrid selection does before it sees data: orders of magnitude around zero weigh alike, or all rules do.
        ``"auto"`` is scale-free for a domain of more than 2,000 values.  A declared typical range always weighs more.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Categories
    >>> print(Points(Categories(["red", "green"]), feature="colour").decode(1))
    1 when colour is green
    """

    domain: Domain | None = None
    feature: str | None = None
    zero: bool = False
    prior: str = field(default="auto", repr=False)

    rule_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {"point": {}}
    layout: ClassVar[Layout] = "values"

    def __attrs_post_init__(self) -> None:
        self.check_domain()
        check_prior(self.prior)
        if not isinstance(self.zero, bool):
            raise TypeError(f"zero must be True or False, got {type(self.zero).__name__}")

    @property
    def size(self) -> int:
        return self._points + self.zero

    @property
    def vc_dimension(self) -> int:
        return int(self.size > 1)

    @property
    def littlestone_dimension(self) -> int:
        return int(self.size > 1)

    # What is known

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def few_values(self) -> FewValues:
        return FewValues("points")

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("point", only_with="zero=False" if self.zero else "")

    @property
    def is_tree(self) -> bool:
        return True

    def as_tree(self) -> StarTree:
        return StarTree(self.known_domain, self.feature)

    def growth(self, n: int) -> int:
        return min(n + 1, self.size)

    @property
    def lines(self) -> Mapping[str, Line]:
        return {self.column: Line(self._points, cuts=False, zero=self.zero)}

    @property
    def prior_name(self) -> str:
        return prior_name([self.known_domain], self.prior)

    @cached_property
    def rule_weights(self) -> Weights | None:
        return value_weights(self.known_domain, self.zero, self.prior)

    @property
    def ways(self) -> tuple[str, ...]:
        return ("above",)

    # Rules

    def code(self, hypothesis: int) -> int | None:
        """The code of an id, None for the zero rule."""
        return hypothesis if self.checked(hypothesis) < self._points else None

    def decode(self, hypothesis: int, label: str = "1") -> Point:
        return Point(self.column, self.known_domain, self.code(hypothesis), label)

    def predictions(self, codes: ColumnCodes, hypothesis: int) -> Predictions:
        return point_predictions(codes[self.column], self.code(hypothesis))

    # Labellings

    def _labellings(self, codes: ColumnCodes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
        return point_labellings(codes[self.column], self.size, self.losses(rest, levels), A, B)

    def dichotomies(self, codes: ColumnCodes) -> Iterator[Labelling]:
        points = codes[self.column]
        held = [int(code) for code in np.unique(points).tolist()]
        for code in held:
            yield point_predictions(points, code), code, 1
        if self.size > len(held):
            # Ids are increasing, so the first one that is not held is where they and the positions part.
            first = next((i for i, code in enumerate(held) if i != code), len(held))
            yield point_predictions(points, None), first, self.size - len(held)


# Single values as a tree: a star


@frozen(slots=False)
class StarTree(VC1Tree):
    """Points: the concept of a node says 1 on that one value; the root's says 0 everywhere.

    Without a domain the values are any texts.  Nodes are ``(text,)``, or ``(code,)`` on a declared domain; the root is
    ``()``.

    Parameters
    ----------
    domain : Domain, optional
        A declared domain of the column; None means any texts.
    feature : str, optional
        The column to read; None takes the only one.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> str(StarTree(feature="url").rule(("/checkout",))), StarTree().level_width(1)
    ('1 when url = /checkout', None)
    """

    kind: ClassVar[str] = "star"
    lists_levels: ClassVar[bool] = True

    domain: Domain | None = None
    feature: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as Integers(0, 100), or None; got {type(self.domain).__name__}"
            )

    @property
    def _open(self) -> bool:
        return self.domain is None or self.domain.open

    @property
    def height(self) -> int:
        return 1

    def _level_node(self, z: int, i: int) -> tuple[int]:
        return (i,)

    @property
    def as_selection(self) -> str:
        return "Points(domain)"

    def node(self, x: object) -> tuple[str | int] | None:
        value = as_text(x) if self.domain is None or self._open else code_of(self.domain, x)
        return None if value is None else (value,)

    def level_width(self, z: int) -> int | None:
        if self._level(z) == 0:
            return 1
        return None if self.domain is None or self._open else self.domain.size

    def only_node(self, z: int) -> tuple[Any, ...]:
        if z == 1 and self.level_width(1) == 1:
            return (0,)
        super().only_node(z)
        return ()

    @property
    def n_nodes(self) -> int | None:
        width = self.level_width(1)
        return None if width is None else 1 + width

    def number(self, v: tuple[Any, ...]) -> int:
        return 1 + v[0] if v and not self._open else 0 if not v else super().number(v)

    def below(self, v: tuple[Any, ...]) -> int:
        return 1 if v else self.n_nodes or super().below(v)

    def numbered(self, i: int) -> tuple[int, ...]:
        return (i - 1,) if i else ()

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: Texts() if self.domain is None else self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> StarTree:
        ((feature, domain),) = columns.items()
        return StarTree(domain, feature)

    def rule(self, v: tuple[Any, ...], label: str = "1") -> Rule:
        if self.domain is None or self._open:
            return super().rule(v, label)
        self.unpack(self.pack(v))
        return Point(self.feature or "x", self.domain, v[0] if v else None, label)

    def describe(self, v: tuple[Any, ...]) -> str:
        if not v:
            return "nothing"
        return in_one_line(str(v[0])) if self.domain is None or self._open else self.domain.text(v[0])

    def condition(self, v: tuple[Any, ...]) -> str:
        return f"{self.feature or 'x'} = {self.describe(v)}" if v else "never"

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        if self._open:
            codes, words = column.texts()
            order = words.arg_sort().to_numpy().astype(np.int64)
            ones = np.ones(len(words), dtype=np.int64)
            at, firsts, depth, shared = lay_out(order, ones, np.zeros_like(ones))
            return Places(at[codes], None, depth, shared, lambda i: (words[int(firsts[i])],) if i else ())
        distinct, which = ranked(column.codes)
        depth = np.ones(len(distinct) + 1, dtype=np.int64)
        depth[0] = 0
        at = which + 1
        return Places(at, None, depth, np.zeros_like(depth), lambda i: (int(distinct[i - 1]),) if i else ())

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "domain": None if self.domain is None else self.domain.to_dict(),
            "feature": self.feature,
        }

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> StarTree:
        return cls(None if values["domain"] is None else Domain.from_dict(values["domain"]), values["feature"])

    def unpack(self, packed: Any) -> tuple[Any, ...]:
        v = tuple(packed)
        if len(v) > 1 or (v and self._open and not isinstance(v[0], str)):
            raise ParameterError("no point of this tree has that name")
        if v and self.domain is not None and not self._open:
            positive_int(v[0], "node", minimum=0, maximum=self.domain.size - 1)
        return v
