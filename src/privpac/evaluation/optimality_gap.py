"""How far from the best rule of its kind?  A certificate after the data.

An upper end ``U`` for the error of the released rule, measured on people it was not learned from
(:class:`~privpac.evaluation.Evaluation`), and a lower end ``l`` for the error of every rule of its class
(:class:`~privpac.evaluation.LeastErrorBound`): then the rule is wrong at most ``U - l`` more often than the best of its
kind, for people like these.  The size of the class does not enter, and people may differ in any way.

Two assumptions, both shown where the second is declared.  *Any people*: people are drawn independently from one law.
*Records of one law*: everybody holds the declared number of records, all drawn from one law; then records count, not
only people, and both ends are nearer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privpac.evaluation.best_error import LeastErrorBound
from privpac.evaluation.results import Evaluation, points, sure
from privpac.guarantee import positive_int
from privpac.result import register, rule_from_dict, rule_to_dict

__all__ = ["EvaluationCertificate", "excess_bound"]


def excess_bound(evaluation: Evaluation, least: LeastErrorBound, *, records_per_user: int = 1) -> float:
    """How much more often than the best rule of the class the evaluated one is wrong, at most, for people like these.

    The evaluation's upper end and the class's lower end take half of the doubt each.  The lower end holds for every
    rule at once, so it may come from the people the rule was learned from; the upper end must come from others.
    """
    doubt = (1 - min(evaluation.confidence, least.confidence)) / 2
    upper = evaluation.error_at_most(1 - doubt, records_per_user)
    return max(0.0, upper - least.lower(records_per_user, confidence=1 - doubt))


@register("certificate")
@dataclass(frozen=True)
class EvaluationCertificate:
    """Both ends, and what follows; ``records_per_user`` above 1 declares so many records of one law for everybody."""

    evaluation: Evaluation
    least: LeastErrorBound
    records_per_user: int = 1

    def __post_init__(self) -> None:
        positive_int(self.records_per_user, "records_per_user")

    @property
    def excess(self) -> float:
        """At most so much worse than the best, whoever the people are."""
        return excess_bound(self.evaluation, self.least)

    @property
    def excess_one_law(self) -> float | None:
        """The same if records follow one law; None where that was not declared."""
        if self.records_per_user == 1:
            return None
        return excess_bound(self.evaluation, self.least, records_per_user=self.records_per_user)

    def __str__(self) -> str:
        how = sure(min(self.evaluation.confidence, self.least.confidence))
        best, sharper = self.excess, self.excess_one_law
        if best >= 0.5 and (sharper is None or sharper >= 0.5):
            return "how far from the best rule of its kind cannot be said with so few people"
        said = f"at most {points(best)} worse than the best rule of its kind, for people like these ({how})"
        return said if sharper is None else f"{said}; {points(sharper)} if everybody's records follow one law"

    def to_dict(self) -> dict[str, Any]:
        return {
            "evaluation": rule_to_dict(self.evaluation),
            "least": rule_to_dict(self.least),
            "records_per_user": self.records_per_user,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EvaluationCertificate:
        evaluation, least = (rule_from_dict(values[name]) for name in ("evaluation", "least"))
        if not isinstance(evaluation, Evaluation) or not isinstance(least, LeastErrorBound):
            raise TypeError("a certificate holds an evaluation and a least error")
        return cls(evaluation, least, values["records_per_user"])
