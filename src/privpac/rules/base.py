"""What a concept class is.

A class is a finite list of *rules* over public domains, numbered ``0..size-1``.  It knows how to fold users into a
profile (one integer per rule, summed over users) for any per-user statistic of its mistakes.  Rules that predict alike
stay and count in ``size``.  Nothing here draws randomness or knows about privacy parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, log
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from attrs import evolve, has
from numpy.typing import NDArray

from privpac.display import Picture, Shown, front
from privpac.errors import SchemaError
from privpac.rules.labellings import NO_POINTS, Labellings, Loss, check_listed, dense_labellings, unit_labellings
from privpac.rules.profile import Profile, concatenate
from privpac.rules.rules import ClassOfRules, FewValues, Layout
from privpac.rules.statistics import Mean, Statistic

if TYPE_CHECKING:
    from privpac.data import Domain, UserData, Users
    from privpac.rules.kernels.coarse_pass import Survey

__all__ = ["ConceptClass", "Poll", "Rule", "columns_of", "relabelled", "sauer"]

Poll = Callable[[Mapping[str, NDArray[np.uint64]]], NDArray[np.int64]]
"""How many of some rules say 1, row by row."""

Codes = Mapping[str, NDArray[np.uint64]]


class Rule(Shown, ABC):
    """A hypothesis that can be published: predicts, prints in the user's units, saves as JSON.

    ``label`` names what a prediction of 1 means.  Concrete rules are frozen dataclasses registered with
    ``privpac.result.register``.
    """

    label: str

    @property
    @abstractmethod
    def features(self) -> Mapping[str, Domain]:
        """The columns of the rule's class, in declared order."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns that prediction needs; the others of ``features`` only give arrays their order."""
        return tuple(self.features)

    @abstractmethod
    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        """0/1 for encoded columns of equal length."""

    def encode(self, X: Any) -> dict[str, NDArray[np.uint64]]:
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

    def predict(self, X: Any) -> NDArray[np.int8]:
        """0/1 for a frame (by column name) or a 2-D array (columns in declared order).

        Values outside the domain are clamped; missing values are refused.
        """
        return self.predict_codes(self.encode(X))

    # What a report draws

    @property
    def picture(self) -> Literal["domain", "regions", "questions", "card", "none"]:
        """Where it says 1 over its columns, along the regions that hold each other, as questions in a row, as a card of
        points, or nothing."""
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
        questions, a card of points; where nothing can be drawn, its words.

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
        picture: Picture = front("drawn").plot(self)
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
    if hasattr(X, "columns") or hasattr(X, "column_names") or isinstance(X, Mapping):
        names = list(X) if isinstance(X, Mapping) else list(X.columns if hasattr(X, "columns") else X.column_names)
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


@dataclass(frozen=True)
class ClassKernel:
    """The kernel of a class and a statistic: partial profiles of disjoint users add up."""

    concept: ConceptClass
    statistic: Statistic
    columns: tuple[str, ...]

    def zero(self) -> Profile:
        voices = self.statistic.voices
        return concatenate([self.concept.empty_profile()] * voices, [self.concept.size] * voices)

    def chunk(self, users: UserData) -> Profile:
        return self.concept._fold(users, self.columns, self.statistic)

    def merge(self, a: Profile, b: Profile) -> Profile:
        return a + b


def relabelled(rule: Any, label: str) -> Any:
    """The same rule about a label of another name; rules of one's own may be dataclasses."""
    return evolve(rule, label=label) if has(type(rule)) else replace(rule, label=label)


class ConceptClass(ClassOfRules):
    """A finite class of rules over public domains.

    For a class of one's own :class:`~privpac.rules.enumerated.EnumeratedClass` is the shorter way.
    """

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
    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        """What one rule says on encoded columns."""

    def poll(self, hypotheses: Sequence[int]) -> Poll:
        """A function that counts, row by row, how many of these rules say 1; its work depends on how many there are,
        not on which."""

        def votes(codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
            total = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
            for hypothesis in hypotheses:
                total += self.predictions(codes, hypothesis)
            return total

        return votes

    def table(self, codes: Codes, first: int, last: int) -> NDArray[np.uint8]:
        """What the rules ``first..last - 1`` say (records by rules)."""
        return np.stack([self.predictions(codes, h) for h in range(first, last)], axis=1).astype(np.uint8)

    # Folding

    @abstractmethod
    def empty_profile(self) -> Profile:
        """All scores zero."""

    @abstractmethod
    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        """The profile of bound users, all voices of the statistic in one pass; a kernel without Python loops over
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

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Iterator[tuple[NDArray[np.int8], int, int]]:
        """Distinct labellings of the given points as ``(labels, first id, number of rules)``; overridden where it is
        fast."""
        seen: dict[bytes, list[Any]] = {}
        for hypothesis in range(self.size):
            labels = self.predictions(codes, hypothesis)
            entry = seen.setdefault(labels.tobytes(), [labels, hypothesis, 0])
            entry[2] += 1
        for labels, first, count in seen.values():
            yield labels, first, count

    def deciding_records(self, codes: Codes, labels: NDArray[np.uint8]) -> tuple[Codes, NDArray[np.uint8]]:
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

    def consistent(self, codes: Mapping[str, NDArray[np.uint64]], labels: NDArray[np.uint8]) -> int | None:
        """The least id that makes no mistake on the records, or None (deterministic)."""
        best: int | None = None
        for predicted, first, _ in self.dichotomies(codes):
            if bool((predicted == labels).all()) and (best is None or first < best):
                best = first
        return best

    # Relabelling: see ``privpac.rules.labellings``

    def losses(self, rest: UserData, levels: int) -> Profile:
        """``E_W`` of every rule: the sum over units of their losses."""
        return rest.fold(self.kernel(Loss(levels)))

    def labellings(
        self, codes: Codes, rest: UserData, A: int, B: int, levels: int = 1, offsets: NDArray[np.int64] | None = None
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

    def _labellings(self, codes: Codes, rest: UserData, A: int, B: int, levels: int) -> Labellings:
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
