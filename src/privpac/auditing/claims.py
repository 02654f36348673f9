"""Every certificate that a plan can print, as a claim to refute, or the reason why it is not tried.

Each certified line of a plan names its hard laws (``PlannedMethod.hard_laws``, or those of its method's record): how to
make a claim of its certificate, or a reason (a text) where these numbers cannot be afforded.  A line without them is an
error: no certificate is left out silently.

>>> from privpac.distributions.family_plan import family_target
>>> claims, left = plan_claims(family_target("histogram", epsilon=1, k=4), 2)
>>> [claim.name for claim in claims], left
(['averaged histogram', 'clipped histogram, one stage'], {})
"""

from __future__ import annotations

from privpac.auditing.refutation import Claim
from privpac.errors import ParameterError, TooLargeError
from privpac.methods.planned import Target
from privpac.methods.registry import PlannedMethod, resolve
from privpac.sample_size import Certificate


def untried_claim(target: Target, method: PlannedMethod, found: Certificate, records_per_user: int) -> str:
    """Why a method of which no hard laws are known is not tried."""
    return "no family of hard laws is known for this method"


def plan_claims(
    target: Target, records_per_user: int, setting: str | None = None
) -> tuple[list[Claim], dict[str, str]]:
    """The claims of all certified rows of a plan's target, and for the rows that are not tried the reasons.

    Raises ``LookupError`` for a certificate that nobody wrote an attack for.
    """
    claims, left = [], {}
    for line in target.methods(setting):
        if line.kind != "certified":
            continue
        if not line.hard_laws:
            raise LookupError(
                f"nobody attacks the certificate of {line.name!r}: name the hard_laws of the method {line.key!r}"
            )
        try:
            found = line.certify(records_per_user)
            made: Claim | str = "no number of users is certified"
            if found.n_users is not None:
                made = resolve(line.hard_laws)(target, line, found, records_per_user)
        except (ParameterError, TooLargeError) as error:
            made = str(error)
        if isinstance(made, str):
            left[line.name] = made
        else:
            claims.append(made)
    return claims, left
