"""Which small trees there are: ids, prior, price.  Public numbers alone.

A tree of depth 2 asks test ``i`` and on each side has an *option*: ``0..c-1`` is a leaf with that label, and
``c + c*c*j + c*a + b`` asks test ``j`` and says ``a`` where it holds, ``b`` where not.  With ``O = c + c*c*K`` options
the id is ``(i*O + o_yes)*O + o_no``; trees that compute the same function stay and count.  At depth 1 the options are
the labels alone.

The prior is rational: column uniform, test uniform within the column, each side asks again with probability ``split``,
labels uniform.  A tree's *price* is ``ln(1/prior)`` in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from privpac.errors import ParameterError
from privpac.exact import as_arb

__all__ = ["Side", "TreeShape"]


@dataclass(frozen=True)
class Side:
    """What a tree does on one side of its root: a label, or a test with a label where it holds and where not."""

    test: int | None
    labels: tuple[int, ...]


@dataclass(frozen=True)
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
