"""The class of small trees over the columns of a wide table."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import Attribute, field, frozen
from numpy.typing import NDArray

from privpac.concepts.cells import Frozen, domains_of, domains_or_none
from privpac.concepts.small_trees.cells import CellsKernel, TreeCells, cells_of, pair_count
from privpac.concepts.small_trees.columns import (
    DEFAULT_CUTS,
    BinnedColumn,
    Cuts,
    Test,
    binned,
    read_cuts,
    read_missing,
)
from privpac.concepts.small_trees.shape import Side, TreeShape
from privpac.concepts.small_trees.tree import Branch, SmallTree, TreeQuestion
from privpac.concepts.small_trees.wide_class import WideClass, read_classes
from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError
from privpac.parameters import TREE_LEVELS, bounds, named, probability, whole

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["SmallTrees"]


def _depth(depth: Any) -> int:
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
    cuts : at most so many cuts of every number, spread evenly over its declared values; or a number or list of values
        for each column.  ``Floats()`` needs a list.
    missing : ``"own"`` (all columns) or a list of columns whose missing values are an answer of their own; None leaves
        it to the domains.
    split : prior chance that a side asks again.
    levels : steps of a user's vote.
    max_cells : most pairs of bins, and of tests.
    classes : the labels, where there are more than two.

    >>> from privpac.data import Integers
    >>> trees = SmallTrees({"age": Integers(0, 120), "dose": Integers(0, 9)})
    >>> trees.size, str(trees.decode(0, label="cured"))
    (230496, 'cured never')
    """

    columns: Frozen[Domain | None] | None = field(default=None, converter=domains_or_none)
    depth: int = field(default=2, converter=_depth)
    cuts: Cuts = field(default=DEFAULT_CUTS, converter=read_cuts)
    missing: str | tuple[str, ...] | None = field(default=None, converter=read_missing)
    split: Fraction = field(default=Fraction(7, 10), converter=probability)
    levels: int = field(default=TREE_LEVELS, converter=whole, metadata=bounds(maximum=1 << 31))
    max_cells: int = field(default=1 << 24, converter=whole, metadata=bounds(maximum=1 << 30))
    classes: tuple[str, ...] | None = field(default=None, converter=read_classes)

    @columns.validator
    def _known(self, attribute: Attribute[Any], columns: Frozen[Domain | None] | None) -> None:
        if columns is None and isinstance(self.missing, tuple):
            return
        if columns is not None and all(domain is not None for domain in columns.values()):
            self._check_size(binned(domains_of(columns), self.cuts, self.missing))

    def _check_size(self, columns: tuple[BinnedColumn, ...]) -> None:
        """From public numbers, before anything is spent."""
        pairs, tests = pair_count(columns), sum(len(column.tests) for column in columns)
        most = max(pairs, tests**2)
        if most > self.max_cells:
            raise TooLargeError(
                f"these columns make {most} cells, at most {self.max_cells} are counted; use fewer cuts or columns, or "
                "raise max_cells"
            )

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

    own_method: ClassVar[str | None] = "small-tree"

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
        return CellsKernel(self.binned, self.levels, self.labels)

    def cells(self, users: Users) -> TreeCells:
        """Where tests hold, summed over bound users: private."""
        return cells_of(self.binned, users.fold(self.cells_kernel()))
