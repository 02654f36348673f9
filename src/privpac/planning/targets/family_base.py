"""What all families of distributions share as something to plan for: the goal, the learners of covers and of counts,
and the commands of their certified rows, ``privpac distribution`` and ``privpac select``.

A plan knows how many values or bins a column has, not which: where it cannot say, a word in capitals stands for the
reader's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.data import Domain
from privpac.distributions.base import DistributionLearner
from privpac.distributions.covers.learner import CoverLearner
from privpac.distributions.families import Family
from privpac.guarantee import Neighbours
from privpac.planning.models.cover_models import family_cover
from privpac.planning.targets.certified_runs import TABLE, CertifiedRun, feature_words, option_words, privacy_words
from privpac.planning.targets.target import Asked, PlannedMethod, Target

__all__ = ["FamilyTarget"]

_DEFAULTS = ("levels", "cover_radius")
"""Parameters that are certified as the learner's own defaults: no option changes them."""


@dataclass(frozen=True)
class FamilyTarget(Target):
    """What is wanted of a learned law: total variation at most ``alpha`` with probability ``1 - beta``."""

    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    delta: Fraction

    family: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]
    cover_key: ClassVar[str] = ""
    """By which claims know selection from a cover: what a cover holds decides how its certificate is tried."""

    measure = "total variation"
    usual_alpha = Fraction(1, 10)
    slow = True

    @property
    def covered(self) -> Family | None:
        """The laws among which a cover selects; None where none is planned."""
        return None

    @property
    def numbers_per_record(self) -> int:
        """How much a drawn record takes."""
        return 1

    @property
    def note(self) -> str:
        return "; ".join(self._remarks())

    def _remarks(self) -> list[str]:
        if self.delta > 0:
            return [
                "all methods are pure (delta is not used); the lower bounds are proved for delta = 0 only, so none is "
                "shown"
            ]
        return []

    @property
    @abstractmethod
    def domains(self) -> tuple[tuple[str, Domain], ...]:
        """Columns as far as the plan knows them."""

    @abstractmethod
    def learner(self, method: str, certificate: Certificate) -> DistributionLearner:
        """The learner of a method, with the parameters of its certificate."""

    def _run(self, method: str, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """The run of a certified row: its parameters are those of the certificate."""
        told = certificate.parameters
        options = self._ranges() | {name: value for name, value in told.items() if name not in _DEFAULTS}

        def words() -> list[str]:
            return [*self._command(method), *privacy_words(self.epsilon, self.neighbours), *option_words(options)]

        return CertifiedRun(method, certificate.n_users, told, lambda: self.learner(method, certificate), words)

    def _command(self, method: str) -> list[str]:
        return ["distribution", *TABLE, *self._columns(), "--family", self.family, "--method", method]

    def _columns(self) -> list[str]:
        return feature_words(dict(self.domains))

    def _ranges(self) -> dict[str, Any]:
        """Public bounds that a command says beside the certified parameters."""
        return {}

    def _line(self, name: str, method: str, certify: Callable[[int], Certificate], assumes: str = "") -> PlannedMethod:
        return PlannedMethod(name, certify, assumes, run=partial(self._run, method), key=method)

    def _cover_line(self, assumes: str = "") -> PlannedMethod:
        run = partial(self._run, "cover")
        return PlannedMethod("selection from a cover", self.cover, assumes, run=run, key=self.cover_key)

    def cover_learner(self, family: Family, told: dict[str, Any]) -> CoverLearner:
        return CoverLearner(family, self.epsilon, neighbours=self.neighbours, **told)

    def cover(self, m: int) -> Certificate:
        """Of the learner for people with ``m`` records."""
        family = self.covered
        assert family is not None
        told = {"alpha": self.alpha, "beta": self.beta, "records_per_user": m}
        learner = self.cover_learner(family, told)
        found = learner.plan(family_cover(family, self.domains, self.alpha)).certificate
        assert found is not None
        return found.run_with(**told, cover_radius=learner.cover_radius)

    @property
    def _hard(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "success": 1 - self.beta, "neighbours": self.neighbours}

    def _with_lower(
        self, lines: list[PlannedMethod], name: str, lower: Callable[[int], Certificate]
    ) -> list[PlannedMethod]:
        return lines if self.delta > 0 else [*lines, PlannedMethod(name, lower, kind="lower bound")]
