"""Open vocabularies as something to plan for: the share of every value at once, also of those that are not shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.bounds.vocabulary import MAX_VALUES, certify_vocabulary
from privpac.data import Domain, Texts
from privpac.distributions.vocabulary.learner import VocabularyHistogram
from privpac.errors import ParameterError
from privpac.planning.targets.certified_runs import TABLE
from privpac.planning.targets.family_base import FamilyTarget
from privpac.planning.targets.target import PlannedMethod

__all__ = ["VocabularyTarget"]


@dataclass(frozen=True)
class VocabularyTarget(FamilyTarget):
    """Shares of the values of a column that nobody can list, each within ``alpha``."""

    max_values: int = MAX_VALUES

    family = "vocabulary"
    takes = ("max_values",)
    measure = "share of any value"
    usual_alpha = FamilyTarget.usual_alpha / 2

    def __post_init__(self) -> None:
        if self.delta == 0:
            raise ParameterError(
                "family 'vocabulary' needs delta above 0, such as 1e-6: without it no value may show that another "
                "table does not hold; declare the values (Categories) and plan a histogram for pure privacy"
            )

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        return [self._line("stable histogram", "stable", self.stable)]

    def stable(self, m: int) -> Certificate:
        learner = _stable(self)
        told: dict[str, Any] = {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta}
        return certify_vocabulary(
            learner.stable.threshold,
            neighbours=self.neighbours,
            max_values=self.max_values,
            levels=learner.levels,
            **told,
        )

    def learner(self, method: str, certificate: Certificate) -> VocabularyHistogram:
        return _stable(self)

    @property
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        return (("x", Texts()),)

    def _columns(self) -> list[str]:
        return ["--feature", "COLUMN=text"]

    def _command(self, method: str) -> list[str]:
        return ["distribution", *TABLE, *self._columns(), "--method", method, "--delta", str(self.delta)]

    @property
    def shown(self) -> dict[str, str]:
        return {"vocabulary": f"open, at most {self.max_values} values of a person count"}

    def _remarks(self) -> list[str]:
        needed = _stable(self).stable.threshold / _stable(self).levels
        return [
            "alpha is the largest error of any value's share, 0 being said of those not shown",
            f"a value shows from about {needed:.4g} people on who hold nothing else",
        ]


@lru_cache(maxsize=256)
def _stable(target: VocabularyTarget) -> VocabularyHistogram:
    return VocabularyHistogram(
        target.epsilon, delta=target.delta, neighbours=target.neighbours, max_values=target.max_values
    )
