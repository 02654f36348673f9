"""Every certificate that a plan can print, as a claim to refute, or the reason why it is not tried.

One entry of :data:`ROWS` for each kind of row: how to make a claim of its certificate, or a reason (a text) where these
numbers cannot be afforded.  A row without an entry is an error: no certificate is left out silently.

>>> from privpac.planning.families import family_target
>>> claims, left = plan_claims(family_target("histogram", epsilon=1, k=4), 2)
>>> [claim.name for claim in claims], left
(['averaged histogram', 'clipped histogram, one stage'], {})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privpac.auditing.family_laws import (
    candidates_claim,
    histogram_claim,
    masses_claim,
    mean_claim,
    normal_claim,
    products_claim,
    vocabulary_claim,
)
from privpac.auditing.refutation import Claim
from privpac.auditing.rule_laws import (
    LEARNERS,
    estimating_claim,
    reduction_claim,
    rule_claim,
    search_claim,
    selection_claim,
    service_claim,
    surrogate_claim,
    tree_claim,
)
from privpac.auditing.vote_laws import agreement_claim, median_claim, quantile_claim, stability_claim
from privpac.errors import ParameterError, TooLargeError
from privpac.planning.target import PlannedMethod, Target
from privpac.sample_size import Certificate

__all__ = ["ROWS", "plan_claims"]

Maker = Callable[[Any, PlannedMethod, Certificate, int], "Claim | str"]


def _selection(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """Selection by sums over users, or by an estimate and sums."""
    make = estimating_claim if found.parameters.get("estimator") else rule_claim
    return make(target, method, found, records_per_user)


def untried_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> str:
    """Why a method of which no hard laws are known is not tried."""
    return "no family of hard laws is known for this method"


ROWS: dict[str, Maker] = {
    **dict.fromkeys(LEARNERS, _selection),
    "search": search_claim,
    "reduction": reduction_claim,
    "service": service_claim,
    "surrogate": surrogate_claim,
    "tree": tree_claim,
    "all rules": selection_claim,
    "average": histogram_claim,
    "counts": histogram_claim,
    "coarse-to-fine": mean_claim,
    "cover of masses": masses_claim,
    "cover of products": products_claim,
    "cover of normal laws": normal_claim,
    "selection": candidates_claim,
    "stable": vocabulary_claim,
    "agreement proved": stability_claim,
    "agreement measured": agreement_claim,
    "median": median_claim,
    "quantile": quantile_claim,
    "small-tree": untried_claim,
}
"""How to try the certificate of a method, by its key."""


def plan_claims(
    target: Target, records_per_user: int, setting: str | None = None
) -> tuple[list[Claim], dict[str, str]]:
    """The claims of all certified rows of a plan's target, and for the rows that are not tried the reasons.

    Raises ``LookupError`` for a certificate that nobody wrote an attack for.
    """
    claims, left = [], {}
    for method in target.methods(setting):
        if method.kind != "certified":
            continue
        name, make = method.name, ROWS.get(method.key)
        if make is None:
            raise LookupError(f"nobody attacks the certificate of {name!r}: add {method.key!r} to ROWS, with hard laws")
        try:
            found = method.certify(records_per_user)
            made = (
                "no number of users is certified"
                if found.n_users is None
                else make(target, method, found, records_per_user)
            )
        except (ParameterError, TooLargeError) as error:
            made = str(error)
        if isinstance(made, str):
            left[name] = made
        else:
            claims.append(made)
    return claims, left
