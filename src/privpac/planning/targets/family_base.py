"""What all families of distributions share as something to plan for: the goal, the learners of covers and of counts,
and their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.bounds.counts import certify_averages, certify_counts
from privpac.data import Domain
from privpac.distributions.base import DistributionLearner
from privpac.distributions.covers.base import Cover
from privpac.distributions.covers.learner import CoverLearner
from privpac.distributions.families import Family
from privpac.guarantee import Neighbours
from privpac.planning.targets.certified_runs import CertifiedRun

__all__ = ["FamilyTarget", "Method", "family_cover"]

Method = tuple[str, Callable[[int], Certificate], str, str]


@lru_cache(maxsize=64)
def family_cover(family: Family, domains: tuple[tuple[str, Domain], ...], alpha: Fraction) -> Cover:
    """The learner's own cover: it depends on neither epsilon nor the records."""
    return CoverLearner(family, 1, alpha=alpha, records_per_user=1).cover(dict(domains))


@dataclass(frozen=True)
class FamilyTarget(ABC):
    """What is wanted of a learned law: total variation at most ``alpha`` with probability ``1 - beta``."""

    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    delta: Fraction

    family: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def methods(self, setting: str | None = None) -> list[Method]:
        """Name, users certified for a number of records per user, what else is assumed, and the kind of number."""

    @property
    @abstractmethod
    def shown(self) -> dict[str, str]:
        """The family in words, for a title."""

    @property
    def note(self) -> str:
        """What is left out of the plan, and why."""
        if self.delta > 0:
            return (
                "all methods are pure (delta is not used); the lower bounds are proved for delta = 0 only, so none is "
                "shown"
            )
        return ""

    @property
    @abstractmethod
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        """Columns as far as the plan knows them."""

    @abstractmethod
    def learner(self, row: str, certificate: Certificate) -> DistributionLearner:
        """The learner of a certified row, with the parameters of its certificate."""

    def run(self, row: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
        """The learner that a certified row speaks of, and its command."""
        from privpac.planning.targets.family_runs import family_run

        return family_run(self, row, certificate)

    def cover_learner(self, family: Family, told: dict[str, Any]) -> CoverLearner:
        return CoverLearner(family, self.epsilon, neighbours=self.neighbours, **told)

    def _cover(self, family: Family, m: int) -> Certificate:
        """Of the learner for people with ``m`` records."""
        told = {"alpha": self.alpha, "beta": self.beta, "records_per_user": m}
        learner = self.cover_learner(family, told)
        found = learner.plan(family_cover(family, self.domains, self.alpha)).certificate
        assert found is not None
        return found.run_with(**told, cover_radius=learner.cover_radius)

    @property
    def _goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    @property
    def _hard(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "success": 1 - self.beta, "neighbours": self.neighbours}

    def _with_lower(self, rows: list[Method], name: str, lower: Callable[[int], Certificate]) -> list[Method]:
        return rows if self.delta > 0 else [*rows, (name, lower, "", "lower bound")]

    def _counts(self, sizes: tuple[int, ...]) -> list[Method]:
        return [
            ("averaged histogram", lambda m: certify_averages(sizes, **self._goal), "", "certified"),
            (
                "clipped histogram, one stage",
                lambda m: certify_counts(sizes, records_per_user=m, **self._goal),
                "",
                "certified",
            ),
        ]
