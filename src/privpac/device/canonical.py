"""An item is a function, not its bytes: equal rules written differently are one item.

People whose records lead to the same function must name the same bytes, or the vote splits: of 45 people some 3 % name
the same naive Bayes counts and 70 % the same function.  Each form below is a deterministic map of one person's item, in
integers, so privacy is untouched; the universe is then packed, which is what local and shuffled messages pay for.

*Lists of single literals.*  Rules that can never fire, or repeat a test, go; the rest is sorted in each run of equal
labels (such rules commute); a last run of one rule, ``l: b, otherwise 1-b``, is ``not l: 1-b, otherwise b`` and joins
the run before it.  Two lists are the same function iff they end in the same bytes: where something is left over, the
tests on which the function is constant are exactly those of the first run, so the form can be read off the function.

*Weights* (separators, naive Bayes) over a domain of at most ``2**16`` points: a vector that depends on the function
alone (its correlations with the columns, mended by a perceptron in a fixed order) is divided by as much as keeps the
function; the constant is the largest score of a point that the rule rejects, negated.  Where no vector with weights up
to ``most`` is found that way, or the domain is larger, the direction of the weights is rounded to ``-most..most``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from privpac.device.correlated_sampling import Ints, integer
from privpac.device.items import (
    Hypothesis,
    ItemUniverse,
    LinearRule,
    ListRules,
    Marks,
    NumberedItems,
    StableLearner,
    clean,
)
from privpac.device.statistical_queries import BayesRule
from privpac.errors import ParameterError, TooLargeError

MAX_LISTED_POINTS = 1 << 16
_WORK = 1 << 20
_ROUNDS = 60
_START = 64


# Lists of single literals


def canonical_list(d: int, rules: ListRules, default: int) -> tuple[ListRules, int]:
    """The one way to write a list over ``d`` columns; a rule is (literal, label), ``2 d`` stands for TRUE.

    >>> canonical_list(2, [(0, 1), (2, 0), (1, 1)], 1)
    ([(0, 1)], 0)
    >>> canonical_list(2, [(2, 0), (1, 0)], 1) == canonical_list(2, [(1, 0), (2, 0), (0, 1)], 0)
    True
    """
    live, fixed = ListRules(), set[int]()
    for literal, label in rules:
        opposite = (literal + d) % (2 * d)
        if literal == 2 * d or opposite in fixed:  # always true here: the rest is dead
            default = label
            break
        if literal not in fixed:  # else never true here
            live.append((literal, label))
            fixed.add(literal)
    while live and live[-1][1] == default:
        live.pop()
    runs: list[ListRules] = []
    for literal, label in live:
        if runs and runs[-1][-1][1] == label:
            runs[-1].append((literal, label))
        else:
            runs.append([(literal, label)])
    if runs and len(runs[-1]) == 1:
        ((literal, label),) = runs[-1]
        opposite = (literal + d) % (2 * d)
        if len(runs) > 1:
            runs.pop()
            runs[-1].append((opposite, 1 - label))
            default = label
        elif literal >= d:
            runs, default = [[(opposite, 1 - label)]], label
    return [rule for each in runs for rule in sorted(each)], default


def _shortened(tests: int, rules: ListRules, default: int) -> tuple[ListRules, int]:
    """Without repeated tests, what follows TRUE (the last test), and last rules that say the default: for tests of
    several literals, where more would take the whole domain."""
    live, seen = ListRules(), set[int]()
    for test, label in rules:
        if test == tests - 1:
            default = label
            break
        if test not in seen:
            live.append((test, label))
            seen.add(test)
    while live and live[-1][1] == default:
        live.pop()
    return live, default


@dataclass(frozen=True)
class PackedLists:
    """Lists of at most ``rules`` rules over ``tests`` tests, numbered: the default, then one digit for every rule.

    An item is (test u16, label u8)*, default u8; a number that is no list has the empty item.
    """

    tests: int
    rules: int

    @property
    def size(self) -> int:
        return int(2 * (2 * self.tests + 1) ** self.rules)

    @property
    def bits(self) -> int:
        return (self.size - 1).bit_length()

    @property
    def longest(self) -> int:
        """Bytes of the longest item."""
        return 3 * self.rules + 1

    def number(self, item: bytes) -> int:
        count, spare = divmod(len(item), 3)
        if spare != 1 or count > self.rules:
            raise ParameterError("this item is no list of so many rules")
        number = 0
        for i in reversed(range(count)):
            test, label = int.from_bytes(item[3 * i : 3 * i + 2], "little"), item[3 * i + 2]
            integer("a test", test, 0, self.tests - 1)
            number = number * (2 * self.tests + 1) + 1 + 2 * test + integer("a label", label, 0, 1)
        return 2 * number + integer("a label", item[-1], 0, 1)

    def item(self, number: int) -> bytes:
        rest, default = divmod(integer("the number of an item", number, 0, self.size - 1), 2)
        out = b""
        while rest:
            rest, digit = divmod(rest, 2 * self.tests + 1)
            if digit == 0:
                return b""
            out += ((digit - 1) // 2).to_bytes(2, "little") + bytes(((digit - 1) % 2,))
        return out + bytes((default,))


@dataclass(frozen=True)
class CanonicalLists:
    """A learner of lists of single literals whose items are functions.

    ``rules`` at most, over ``tests`` tests: single literals of ``d`` columns and TRUE, or conjunctions, of which only
    the dead ends are cut.  The form is never longer than the list.
    """

    inner: StableLearner
    d: int
    rules: int
    tests: int

    @property
    def Gamma(self) -> int:
        """The rate of the inner race, if it is one."""
        return int(getattr(self.inner, "Gamma", 0))

    @property
    def universe(self) -> ItemUniverse:
        return PackedLists(self.tests, self.rules)

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        found = self.inner.item(x, y, seed)
        return None if found is None else self.form(found)

    def form(self, item: bytes) -> bytes:
        """The item of the same function."""
        listed = [(int.from_bytes(item[i : i + 2], "little"), item[i + 2]) for i in range(0, len(item) - 1, 3)]
        if self.tests == 2 * self.d + 1:
            rules, default = canonical_list(self.d, listed, item[-1])
        else:
            rules, default = _shortened(self.tests, listed, item[-1])
        return b"".join(test.to_bytes(2, "little") + bytes((label,)) for test, label in rules) + bytes((default,))

    def decode(self, item: bytes) -> Hypothesis | None:
        return self.inner.decode(item) if item else None


# Weights


@lru_cache(maxsize=8)
def _domain(sizes: tuple[int, ...], indicators: bool) -> Ints | None:
    """Every point of the domain (codes, or an indicator of every value but the first), if there are few."""
    width = sum(size - 1 for size in sizes) if indicators else len(sizes)
    if prod(sizes) > MAX_LISTED_POINTS or prod(sizes) * (width + 1) > _WORK:
        return None
    codes = np.stack([axis.ravel() for axis in np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij")], axis=1)
    if not indicators:
        return codes.astype(np.int64)
    return np.concatenate(
        [(codes[:, [j]] == np.arange(1, n)[None, :]).astype(np.int64) for j, n in enumerate(sizes)], axis=1
    )


def _constant(points: Ints, weights: Ints, truth: Marks) -> int | None:
    """The constant with which these weights are the function; ``None`` if there is none."""
    scores = points @ weights
    if truth.all():
        return 1 - int(scores.min())
    top = int(scores[~truth].max())
    return -top if not truth.any() or int(scores[truth].min()) > top else None


def _separator(points: Ints, truth: Marks) -> Ints | None:
    """Weights of the function that depend on nothing else, perhaps large."""
    high = points.max(axis=0)
    centred = np.concatenate([2 * points - high, np.ones((len(points), 1), dtype=np.int64)], axis=1)
    signed = centred * (2 * truth.astype(np.int64) - 1)[:, None]
    w = signed.sum(axis=0)
    w = w * _START // max(int(np.abs(w).max()), 1)
    for _ in range(_ROUNDS):
        if _constant(points, w[:-1], truth) is not None:
            return np.asarray(w[:-1])
        wrong = signed @ w <= 0
        step = signed[wrong].sum(axis=0)
        w = w + (8 * step + int(wrong.sum()) // 2) // max(int(wrong.sum()), 1)
    return None


def canonical_weights(points: Ints, truth: Marks, most: int) -> tuple[tuple[int, ...], int] | None:
    """Weights up to ``most`` and a constant of a linear function given by its values; ``None`` if none were found."""
    if truth.all() or not truth.any():
        return (0,) * points.shape[1], int(truth.all())
    found = _separator(points, truth)
    if found is None:
        return None
    large = int(np.abs(found).max())
    for scale in range(1, most + 1):
        rounded = (2 * found * scale + large) // (2 * large)
        constant = _constant(points, rounded, truth)
        if constant is not None:
            return tuple(int(w) for w in rounded), constant
    return None


@dataclass(frozen=True)
class CanonicalWeights:
    """A learner of linear rules whose items are functions, packed: a digit for every weight and one for the constant.

    ``bayes``: the inner rule is naive Bayes, with one weight for every value but the first of a column.
    """

    inner: StableLearner
    sizes: tuple[int, ...]
    most: int = 15
    bayes: bool = False

    def __post_init__(self) -> None:
        integer("scale", self.most, 1, 1 << 20)
        # An item has fewer than 2**16 bytes; known before the universe is counted, which could take forever.
        if self._width * (2 * self.most).bit_length() >= 1 << 19:
            raise TooLargeError(
                f"{self._width} weights up to {self.most} are more than an item holds; take fewer values, or a smaller "
                "scale"
            )

    @property
    def _width(self) -> int:
        return sum(size - 1 for size in self.sizes) if self.bayes else len(self.sizes)

    @cached_property
    def _edge(self) -> int:
        """No score is beyond it."""
        return self.most * (len(self.sizes) if self.bayes else sum(size - 1 for size in self.sizes))

    @cached_property
    def universe(self) -> NumberedItems:
        return NumberedItems((2 * self.most + 1) ** self._width * (2 * self._edge + 2))

    @property
    def never(self) -> bytes:
        """The item of the rule that always says 0."""
        return self.pack((0,) * self._width, 0)

    def item(self, x: object, y: object, seed: bytes) -> bytes | None:
        # The inner learner takes one range for all columns, negative numbers too: what is outside its own column's
        # values, and the code of an invalid value, is dropped here.
        valid = clean(x, y, tuple((0, size - 1) for size in self.sizes))
        found = self.inner.item(valid.x, valid.y, seed)
        rule = None if found is None else self.inner.decode(found)
        return None if rule is None else self.pack(*self.form(rule))

    def form(self, rule: Hypothesis) -> tuple[tuple[int, ...], int]:
        """Weights and constant of the same function, or of its direction."""
        if isinstance(rule, BayesRule):
            weights = tuple(w - column[0] for column in rule.weights for w in column[1:])
            constant = sum(column[0] for column in rule.weights) - (len(rule.weights) - 1) * rule.prior
        else:
            assert isinstance(rule, LinearRule)
            weights, constant = rule.weights[:-1], rule.weights[-1]
        points = _domain(self.sizes, self.bayes)
        if points is not None:
            truth = np.asarray(points.astype(object) @ np.array(weights, dtype=object) + constant > 0, dtype=np.bool_)
            found = canonical_weights(points, truth, self.most)
            if found is not None:
                return found
        # Rounded so that the largest weight is ``most``.
        large = max((abs(w) for w in weights), default=0)
        if large == 0:
            return (0,) * len(weights), int(constant > 0)
        rounded = [(2 * w * self.most + large) // (2 * large) for w in (*weights, constant)]
        return tuple(rounded[:-1]), rounded[-1]

    def pack(self, weights: tuple[int, ...], constant: int) -> bytes:
        number = max(-self._edge, min(self._edge + 1, constant)) + self._edge
        for weight in reversed(weights):
            number = number * (2 * self.most + 1) + weight + self.most
        return self.universe.item(number)

    def decode(self, item: bytes) -> Hypothesis | None:
        if len(item) != self.universe.width:
            return self.inner.decode(item)  # the learner's own bytes, in files of earlier versions
        number, weights = int.from_bytes(item, "little"), []
        if number >= self.universe.size:
            return None
        for _ in range(self._width):
            number, digit = divmod(number, 2 * self.most + 1)
            weights.append(digit - self.most)
        constant = number - self._edge
        if not self.bayes:
            return LinearRule((*weights, constant))
        # The constant goes with the first column; there is no prior to pay back.
        columns = []
        for size in self.sizes:
            columns.append((constant, *(constant + w for w in weights[: size - 1])))
            weights, constant = weights[size - 1 :], 0
        return BayesRule(0, tuple(columns))
