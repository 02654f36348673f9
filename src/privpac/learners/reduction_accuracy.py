"""Whether the reduction's accuracy is certified for a public number of units; a function of public numbers only."""

from __future__ import annotations

from math import log
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.bounds.reduction_utility import InnerError, certify_reduction, selection_error
from privpac.concepts.base import ConceptClass
from privpac.concepts.labellings import growth_of
from privpac.errors import ParameterError
from privpac.exact import Rational
from privpac.guarantee import Guarantee
from privpac.learners.base import Selection
from privpac.learners.relabel import Relabelling

__all__ = ["accuracy_note"]


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
    if inner_error is None and not (isinstance(inner, Selection) and isinstance(concept, ConceptClass)):
        raise ParameterError("alpha needs inner_error(t, epsilon, failure): what the inner learner's error is on t records")
    error = selection_error(concept.log_size, probe.neighbours) if inner_error is None else inner_error

    def certified(users: int | None) -> Certificate:
        return certify_reduction(
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            log_growth=lambda t: log(growth_of(concept, t)),
            inner_error=error,
            inner_epsilons=(spent.epsilon,),
            inner_delta=spent.delta,
            labellings=probe.labellings,
            neighbours=probe.neighbours,
            n_users=users,
        )

    if certified(n).n_users is not None:
        return None
    enough = certified(None).n_users
    then = "no number of users certifies it" if enough is None else f"{enough} users certify it"
    return f"an excess error of {alpha} is not certified for {n} users; {then}. Privacy is not affected"
