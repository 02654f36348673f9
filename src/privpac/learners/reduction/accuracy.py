"""What the reduction promises about its error for a public number of units; functions of public numbers only."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log
from typing import Any

from privpac.bounds.certificate import Certificate, open_unit
from privpac.bounds.reduction.accuracy import InnerError, certify_reduction, excess_objective, selection_error
from privpac.bounds.reduction.improper import improper_objective
from privpac.bounds.reduction.plan import Objective
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Guarantee
from privpac.learners.base import Selection
from privpac.learners.reduction.relabel import Relabelling

__all__ = ["accuracy_note", "is_proper", "promised_excess"]


def _own_error(inner: Any, concept: Any, given: InnerError | None, probe: Relabelling) -> InnerError | None:
    """The inner learner's error on clean labels: declared, known for a selection from the class, else ``None``."""
    if given is not None:
        return given
    if isinstance(inner, Selection) and isinstance(concept, ConceptClass) and is_proper(inner):
        return selection_error(concept.log_size, probe.neighbours)
    return None


def is_proper(inner: Any) -> bool:
    """Whether an inner learner releases rules of the class only: unless it says otherwise (``proper = False``)."""
    return bool(getattr(inner, "proper", True))


def promised_excess(
    inner: Any, concept: Any, beta: Rational, inner_error: InnerError | None, probe: Relabelling
) -> Callable[[Fraction], Objective]:
    """What the constants are chosen for: the least promised excess, without the inner learner's part where nothing is
    known of it."""
    error = _own_error(inner, concept, inner_error, probe) or (lambda t, epsilon, failure: 0.0)
    told: dict[str, Any] = {"inner_error": error, "neighbours": probe.neighbours, "levels": probe.rounded_levels}
    told |= {"beta": open_unit(beta, "beta"), "log_growth": lambda t: log(concept.growth(t))}
    if is_proper(inner):
        return excess_objective(**told)
    leak = float(inner.guarantee.delta)
    return improper_objective(**told, inner_delta=leak, labellings=probe.labellings)


def accuracy_note(
    inner: Any,
    concept: Any,
    alpha: Rational,
    beta: Rational,
    inner_error: InnerError | None,
    epsilon: Rational,
    delta: Rational,
    spent: Guarantee,
    probe: Relabelling,
    n: int,
) -> str | None:
    """What to say when the error wanted is not certified for ``n`` units; ``None`` if it is."""
    error = _own_error(inner, concept, inner_error, probe)
    if error is None:
        raise ParameterError(
            "alpha needs inner_error(t, epsilon, failure): what the inner learner's error is on t records"
        )

    def certified(users: int | None) -> Certificate:
        return certify_reduction(
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            log_growth=lambda t: log(concept.growth(t)),
            inner_error=error,
            inner_epsilons=(spent.epsilon,),
            inner_delta=spent.delta,
            labellings=probe.labellings,
            levels=probe.rounded_levels,
            neighbours=probe.neighbours,
            n_users=users,
            objective=None if is_proper(inner) else promised_excess(inner, concept, beta, inner_error, probe),
        )

    if certified(n).n_users is not None:
        return None
    levels, target = probe.rounded_levels, open_unit(alpha, "alpha")
    if levels is not None and levels * target <= 1:
        return (
            f"an excess error of {alpha} is not certified for any number of users: losses in {levels} steps are "
            "rounded by up to "
            f"{1 / levels:.3g}; raise levels. Privacy is not affected"
        )
    enough = certified(None).n_users
    then = "no number of users certifies it" if enough is None else f"{enough} users certify it"
    return f"an excess error of {alpha} is not certified for {n} users; {then}. Privacy is not affected"
