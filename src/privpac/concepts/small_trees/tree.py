"""One small tree: predicts, prints as if and else, saves.

For display only a side whose labels agree, or whose test the root already decides, is shown as a leaf; the file keeps
the tree as it was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.cells import Frozen
from privpac.concepts.small_trees.columns import BinnedColumn
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["Branch", "TreeQuestion", "SmallTree"]


class TreeQuestion(NamedTuple):
    """A test: a column by its name, ``cut`` or ``is``, and the cut or bin."""

    column: str
    kind: Literal["cut", "is"]
    value: int


@dataclass(frozen=True)
class Branch:
    """What is done on one side: a label, or a question with a label where it holds and where not."""

    question: TreeQuestion | None
    labels: tuple[int, ...]


@register("small-tree")
@dataclass(frozen=True, repr=False)
class SmallTree(Rule):
    """A question, and on each side of it a label or one more question.

    ``names`` are what the labels mean where there are more than two.
    """

    columns: tuple[BinnedColumn, ...]
    root: TreeQuestion
    yes: Branch
    no: Branch
    depth: int
    id: int
    label: str = "1"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
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

    def predict(self, X: Any) -> Any:
        """0/1, or the names of the labels where there are more than two."""
        said = super().predict(X)
        return np.array(self.names)[said] if self.names else said

    # Words

    def _says(self, question: TreeQuestion) -> str:
        return self._column(question).says((question.kind, question.value))

    def label_text(self, label: int) -> str:
        return self.names[label] if self.names else ("no", "yes")[label]

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
        root, yes, no = self.drawn

        def words(side: tuple[str, ...]) -> str:
            return side[0] if len(side) == 1 else f"if {side[0]}: {side[1]} else: {side[2]}"

        if yes == no and len(yes) == 1:
            return yes[0] if self.names else {"yes": "always", "no": "never"}[yes[0]]
        inner = ("(", ")") if len(yes) > 1 else ("", "")
        return f"if {root}: {inner[0]}{words(yes)}{inner[1]} else: {words(no)}"

    def __str__(self) -> str:
        if not self.names:
            return super().__str__()
        return f"{self.label}: {self.condition()}"

    @property
    def picture(self) -> Literal["domain", "regions", "questions", "none"]:
        return "questions"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        def side(branch: Branch) -> dict[str, Any]:
            asked = None if branch.question is None else list(branch.question)
            return {"test": asked, "labels": list(branch.labels)}

        return {
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
        )
