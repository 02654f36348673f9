"""Sets of rules that stand in for a class, and how well each of them does *through* the class.

A rule ``h`` of a set H drawn without looking at data is scored by the best concept it stands for.  With ``mist_i(c)``
the mistakes of a concept on user i's records and ``dis_i(c, h)`` the number of those records on which the two disagree,

    sum:    min over partners c of  #{i : mist_i(c) > t(m_i)} + #{i : dis_i(c, h) > s(m_i)}
    union:  min over partners c of  #{i : mist_i(c) > t(m_i)  or  dis_i(c, h) > s(m_i)}

Partners are a public subset of the class, so only the class, not H, has to generalise (Li, Wang and Ye, *Improved
Bounds*, Theorem 3.4).

**Sensitivity.**  One user adds at most 2 (``sum``) or 1 (``union``) to the count of every pair, and a minimum over a
public set of such counts inherits the bound: :meth:`Hypotheses.step` is that number.  Where H lies in the class and no
disagreement is forgiven, both scores are the plain count of users with too many mistakes, and the step is 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.data.jit import jit
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.result import register, rule_from_dict, rule_to_dict
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.profile import Profile, dense_profile
from privpac.rules.statistics import Exceeds, Table

if TYPE_CHECKING:
    from privpac.data import UserData, Users

__all__ = [
    "MAX_PAIRS",
    "SCORES",
    "ClassHypotheses",
    "Hypotheses",
    "Majority",
    "MajorityHypotheses",
    "PairHypotheses",
    "Subset",
]

SCORES = ("union", "sum")
MAX_PAIRS = 1 << 22
"""The most (rule, partner) pairs that are counted one by one."""

_ROWS = 1 << 22
Codes = Mapping[str, NDArray[np.uint64]]
Bytes = NDArray[np.uint8]


def check_score(score: str) -> str:
    if score not in SCORES:
        raise ParameterError(f"score must be 'union' or 'sum', got {score!r}")
    return score


class Hypotheses(ABC):
    """A public set of rules with ids ``0..size-1``."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def on(self, concept: ConceptClass) -> Hypotheses:
        """The same set on the columns and domains of a bound class."""

    @abstractmethod
    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        """The rule with this id."""

    @abstractmethod
    def step(self, score: str) -> int:
        """The most that one user adds to any score."""

    @abstractmethod
    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        """Scores of bound users; ``tolerance`` is t, ``forgiven`` is s."""

    def require(self, score: str, forgiven: Table = 0) -> None:
        """Refuse what cannot be scored, from public numbers and before any data."""
        check_score(score)

    def table(self, codes: Codes) -> Bytes:
        """Predictions, records by rules; for small sets."""
        return np.stack([self.decode(h).predict_codes(codes) for h in range(self.size)], axis=1).astype(np.uint8)

    def checked(self, hypothesis: int) -> int:
        return positive_int(hypothesis, "hypothesis", minimum=0, maximum=self.size - 1)


@dataclass(frozen=True)
class ClassHypotheses(Hypotheses):
    """The class itself; every concept is its own only partner, so the score is the plain count."""

    concept: ConceptClass

    @property
    def size(self) -> int:
        return self.concept.size

    def on(self, concept: ConceptClass) -> ClassHypotheses:
        return ClassHypotheses(concept)

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        return self.concept.decode(hypothesis, label)

    def step(self, score: str) -> int:
        return 1

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        return users.fold(self.concept.kernel(Exceeds(tolerance)))


@dataclass(frozen=True)
class Subset(Hypotheses):
    """Some rules of the class, by id; with nothing forgiven the score through all of the class is the plain count."""

    concept: ConceptClass
    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) < len(self.ids):
            raise ParameterError("a subset needs at least one id, and each of them once")

    @property
    def size(self) -> int:
        return len(self.ids)

    def on(self, concept: ConceptClass) -> Subset:
        return Subset(concept, self.ids)

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        return self.concept.decode(self.ids[self.checked(hypothesis)], label)

    def step(self, score: str) -> int:
        return 1

    def require(self, score: str, forgiven: Table = 0) -> None:
        check_score(score)
        if forgiven != 0:
            raise ParameterError("a subset of the class forgives no disagreement; leave forgiven out")

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        self.require(score, forgiven)
        counts = users.fold(self.concept.kernel(Exceeds(tolerance)))
        return dense_profile(np.array([counts.score(h) for h in self.ids], dtype=np.int64))


# Any rules, against all concepts


@jit
def _count_pairs(
    offsets: Any, labels: Any, rules: Any, concepts: Any, tolerance: Any, forgiven: Any, union: bool, counts: Any
) -> None:
    """Add every user's contribution to ``counts`` (rules by concepts)."""
    for u in range(len(offsets) - 1):
        a, b = offsets[u], offsets[u + 1]
        for c in range(concepts.shape[1]):
            mistakes = 0
            for i in range(a, b):
                mistakes += labels[i] != concepts[i, c]
            bad = mistakes > tolerance[u]
            for h in range(rules.shape[1]):
                apart = 0
                for i in range(a, b):
                    apart += rules[i, h] != concepts[i, c]
                    if apart > forgiven[u]:
                        break
                far = apart > forgiven[u]
                # At most 1 per user and pair, or 2 for the sum: this is the sensitivity.
                if union:
                    counts[h, c] += bad or far
                else:
                    counts[h, c] += np.int64(bad) + np.int64(far)


@dataclass(frozen=True)
class _PairKernel:
    """Counts for every pair (rule, concept); partial counts of disjoint users add up."""

    hypotheses: Hypotheses
    concept: ConceptClass
    score: str
    tolerance: Table
    forgiven: Table

    def zero(self) -> NDArray[np.int64]:
        return np.zeros((self.hypotheses.size, self.concept.size), dtype=np.int64)

    def chunk(self, users: UserData) -> NDArray[np.int64]:
        counts = self.zero()
        assert users.labels is not None
        t, _ = Exceeds(self.tolerance).shape(users.sizes)
        s, _ = Exceeds(self.forgiven).shape(users.sizes)
        for first, last in self._batches(users.offsets):
            a, b = int(users.offsets[first]), int(users.offsets[last])
            codes = {name: column[a:b] for name, column in users.codes.items()}
            concepts = np.stack([self.concept.predictions(codes, c) for c in range(self.concept.size)], axis=1).astype(
                np.uint8
            )
            offsets, labels = users.offsets[first : last + 1] - a, users.labels[a:b]
            _count_pairs(
                offsets,
                labels,
                self.hypotheses.table(codes),
                concepts,
                t[first:last],
                s[first:last],
                self.score == "union",
                counts,
            )
        return counts

    def _batches(self, offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Runs of users whose tables of predictions stay small; a single user may exceed that."""
        rows, first = max(1, _ROWS // (self.hypotheses.size + self.concept.size)), 0
        while first < len(offsets) - 1:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1)
            yield first, last
            first = last

    def merge(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        return a + b


class PairHypotheses(Hypotheses):
    """Rules that need not lie in the class; all concepts are partners of each."""

    @property
    @abstractmethod
    def partners(self) -> ConceptClass:
        """The class."""

    def step(self, score: str) -> int:
        return 1 if check_score(score) == "union" else 2

    def require(self, score: str, forgiven: Table = 0) -> None:
        check_score(score)
        if self.size * self.partners.size > MAX_PAIRS:
            raise TooLargeError(
                f"{self.size} rules against {self.partners.size} concepts are more than {MAX_PAIRS} pairs; use a "
                "smaller representation"
            )

    def profile(self, users: Users, score: str, tolerance: Table, forgiven: Table = 0) -> Profile:
        self.require(score, forgiven)
        counts = users.fold(_PairKernel(self, self.partners, score, tolerance, forgiven))
        return dense_profile(counts.min(axis=1))


# Majorities


@register("majority")
@dataclass(frozen=True, repr=False)
class Majority(Rule):
    """1 iff more than half of the rules say 1; a tie is 0."""

    rules: tuple[Rule, ...]
    label: str = "1"

    def __post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise ParameterError("a majority needs at least one rule")

    @property
    def features(self) -> Mapping[str, Domain]:
        return {name: domain for rule in self.rules for name, domain in rule.features.items()}

    def predict_codes(self, codes: Codes) -> NDArray[np.int8]:
        votes = sum(rule.predict_codes(codes).astype(np.int64) for rule in self.rules)
        return (2 * np.asarray(votes) > len(self.rules)).astype(np.int8)

    def condition(self) -> str:
        if len(self.rules) == 1:
            return self.rules[0].condition()
        return f"most of ({'; '.join(rule.condition() for rule in self.rules)})"

    def to_dict(self) -> dict[str, Any]:
        return {"rules": [rule_to_dict(rule) for rule in self.rules], "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(rule_from_dict(rule) for rule in values["rules"]), values["label"])


@dataclass(frozen=True)
class MajorityHypotheses(PairHypotheses):
    """One rule from each round; a round is the union of several sets.  Ids count the last round fastest."""

    concept: ConceptClass
    rounds: tuple[tuple[Hypotheses, ...], ...]

    @property
    def partners(self) -> ConceptClass:
        return self.concept

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sum(part.size for part in parts) for parts in self.rounds)

    @property
    def size(self) -> int:
        return prod(self.sizes)

    def on(self, concept: ConceptClass) -> MajorityHypotheses:
        return replace(
            self, concept=concept, rounds=tuple(tuple(part.on(concept) for part in parts) for parts in self.rounds)
        )

    def decode(self, hypothesis: int, label: str = "1") -> Majority:
        rest, chosen = self.checked(hypothesis), []
        for parts, size in zip(reversed(self.rounds), reversed(self.sizes)):
            rest, place = divmod(rest, size)
            for part in parts:
                if place < part.size:
                    chosen.append(part.decode(place, label))
                    break
                place -= part.size
        return Majority(tuple(reversed(chosen)), label)

    def table(self, codes: Codes) -> Bytes:
        votes: NDArray[np.int64] | None = None
        for parts in self.rounds:
            said = np.concatenate([part.table(codes) for part in parts], axis=1).astype(np.int64)
            votes = (
                said
                if votes is None
                else (votes[:, :, None] + said[:, None, :]).reshape(len(said), votes.shape[1] * said.shape[1])
            )
        return (2 * np.asarray(votes) > len(self.rounds)).astype(np.uint8)
