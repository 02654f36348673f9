"""Representations by name: the small public set that stands in for a class, with its size and its certificate.

============  ======================================================  =================================================
name          what is drawn                                            for
============  ======================================================  =================================================
``class``     nothing: the class stands for itself                     any class; the price is the logarithm of its size
``hashed``    buckets of hash functions                                single values of a column of any size
``learned``   draws of a pure learner without data                     classes of a few rules
``boosted``   majorities of coarse hashed buckets                      single values; for planning, mostly
``auto``      ``class`` up to 2**22 rules, ``hashed`` for values of    never silently the whole of a larger class
              a larger column; anything else is refused by name
============  ======================================================  =================================================

An ``(alpha, beta)`` representation holds, for every rule of the class and every law of the data, a rule that disagrees
with it on mass at most ``alpha``, except with probability ``beta`` over the public coins.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from privpac.concepts.base import ConceptClass
from privpac.concepts.represent.representations import (
    MAX_RULES,
    BoostedRepresentation,
    HashedPoints,
    LearnerRepresentation,
    ProbabilisticRepresentation,
)
from privpac.data import Domain
from privpac.errors import ParameterError, TooLargeError
from privpac.learners.selection.realizable import RealizableSelection

__all__ = ["REPRESENTATIONS", "check_named", "named_representation", "said_of"]

REPRESENTATIONS = ("auto", "class", "hashed", "learned", "boosted")
_COARSE = Fraction(1, 4)
_INNER = Fraction(1, 16)
"""Epsilon of the learner whose draws represent a class; a smaller one would hardly save draws."""


def check_named(name: str) -> None:
    """Refuse what is no name of a representation."""
    if name not in REPRESENTATIONS:
        raise ParameterError(f"representation must be one of {', '.join(REPRESENTATIONS)}, got {str(name)[:40]!r}")


def named_representation(
    name: str, concept: ConceptClass, alpha: Fraction, beta: Fraction
) -> ProbabilisticRepresentation | None:
    """The representation with a name; None where the class stands for itself.

    >>> from privpac.concepts import Points
    >>> from privpac.data import Integers
    >>> few = named_representation("auto", Points(Integers(0, 2**60)), Fraction(1, 20), Fraction(1, 20))
    >>> said_of(few)
    'hashed: 165 rules; within 0.05 of every rule except with probability 0.05'
    """
    check_named(name)
    values = concept.layout == "values"
    if name == "auto":
        if concept.size <= MAX_RULES:
            return None
        if not values:
            raise TooLargeError(
                f"{type(concept).__name__} has about 2^{concept.size.bit_length() - 1} rules and no small set to stand "
                f"in for them is known: name representation='class' to select among all of them (their number costs "
                f"accuracy), or use method='voices'"
            )
        name = "hashed"
    if name == "class":
        return None
    if name == "learned":
        return _learned(concept, alpha, beta)
    if not values:
        raise ParameterError(
            f"representation {name!r} is for single values of one column (Points), not {type(concept).__name__}; use "
            "'class' or 'learned'"
        )
    domain = _domain(concept)
    zero = concept.size > domain.size
    if name == "hashed":
        return HashedPoints(domain, alpha, beta, zero)
    return BoostedRepresentation(HashedPoints(domain, _COARSE, _COARSE, zero), concept, alpha, beta)


def _domain(concept: ConceptClass) -> Domain:
    (domain,) = concept.declared().values()
    if domain is None:
        raise ParameterError("a representation needs the domain of its column: declare it in the class")
    return domain


def _learned(concept: ConceptClass, alpha: Fraction, beta: Fraction) -> LearnerRepresentation:
    """Draws of the exponential law over the class without data.

    Of ``n`` records labelled by a rule of the class, one that is wrong on mass above ``alpha`` has an expected weight
    of at most ``(1 - alpha (1 - e**-epsilon))**n``, and the right one weighs 1: all wrong ones together are drawn with
    probability at most ``|C| exp(-n alpha (1 - e**-epsilon)) <= 1/2``, so some dataset of ``n`` records does as well.
    """
    needed = (concept.log_size + 0.7) / (float(alpha) * -math.expm1(-float(_INNER))) + 1  # ln 2 < 0.7
    learner = RealizableSelection(concept, _INNER)
    return LearnerRepresentation.of(learner, n_records=int(needed), alpha=alpha, beta=beta, beta0=Fraction(1, 2))


def said_of(representation: Any) -> str:
    """Size and certificate in a line, from public numbers."""
    if representation is None:
        return "class: every rule stands for itself"
    kinds: tuple[tuple[type[Any], str], ...] = (
        (HashedPoints, "hashed"),
        (LearnerRepresentation, "learned"),
        (BoostedRepresentation, "boosted"),
    )
    kind = next((name for one, name in kinds if isinstance(representation, one)), type(representation).__name__)
    size = f"{round(math.exp(representation.log_size)):,}" if representation.log_size < 40 else "too many"
    return (
        f"{kind}: {size} rules; within {float(representation.alpha):.3g} of every rule except with probability "
        f"{float(representation.beta):.3g}"
    )
