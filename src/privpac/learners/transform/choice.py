"""Which transformation when, from public numbers only.

*Group privacy* counts every record as a person (noise ``2L / (eps n)``), *clipping* cuts a user's comparison of two
rules at ``tau`` records (``4 tau L / (eps n m)``), *trimming* drops the extreme users of every rule and tests privately
that the rest agree (``2 w L / (eps_O (n - 2t) m)``), where ``L = ln|H| + ln(1/beta)``.  The smallest predicted excess
error wins.  Trimming may answer "nothing" and counts on exchangeable users, which no public number can show: it is
considered only with ``allow_bottom=True``.

The literal transformation of the paper is never chosen: :func:`literal_users` says what it would need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from privpac.bounds.certificate import Certificate, log_size_of, open_unit, positive
from privpac.bounds.transform import user_complexity, width_iid
from privpac.errors import InfeasibleError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import positive_int
from privpac.mechanisms.certificate import DEFAULT_FAILURE, smallest_K
from privpac.parameters import DEFAULT_BETA, read_epsilon

__all__ = ["TransformChoice", "TrimDesign", "choose_transform", "design_trim", "literal_users"]

SHARES = (Fraction(3, 20), Fraction(1, 4), Fraction(2, 5))
"""Parts of epsilon that the test may take."""

_SLACK = (2, 5, 10, 20, 40, 80, 160)
_RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Error rates whose widths predict the noise of trimming; a width that is *used* covers all of them
(``design_trim``)."""


@dataclass(frozen=True)
class TrimDesign:
    """Public parameters of a trimmed score: users trimmed on each side, ladder, width, and the test's part of
    epsilon."""

    trim: int
    ladder: int
    width: int
    share: Fraction
    noise: float
    """``2 w / (eps_O (n - 2t) m)``: predicted excess error for each nat of ``ln|H| + ln(1/beta)``."""


@lru_cache(maxsize=256)
def _ladder(epsilon: Fraction, delta: Fraction, failure: Fraction) -> int:
    return smallest_K(dyadic_base(epsilon), delta, failure)


def design_trim(
    n: int,
    m: int,
    epsilon: Rational,
    delta: Rational,
    H_eff: int,
    failure: Rational = DEFAULT_FAILURE,
    *,
    cuts: bool = False,
) -> TrimDesign:
    """The design with the least predicted noise that answers n independent users with m records each, but for
    ``failure``.

    One half of the failure is the test's, one half the width's, which covers every error rate.  ``H_eff`` bounds the
    number of rules; with ``cuts`` it counts cuts at the users' own values: whoever holds the value is then not
    independent of the rule, and is left out of the count.  Any public parameters are private; these are for accuracy.
    ``InfeasibleError`` if there are too few users.

    >>> design = design_trim(1000, 100, 1, "1e-6", 1000)
    >>> design.trim > design.ladder, design.width < 100
    (True, True)
    """
    half, held = rational(failure, "failure", above=0, below=1) / 2, int(cuts)

    def width(users: int, records: int, trim: int, ladder: int, size: int) -> int:
        # With one user set aside, trim - ladder - 1 others beyond the width must be rare.
        return records if trim - ladder <= held else width_iid(users - held, records, trim - held, ladder, size, half)

    return _design(n, m, epsilon, delta, H_eff, half, width)


Width = Callable[[int, int, int, int, int], int]
"""``(n, m, trim, ladder, rules) -> width``."""


def _design(
    n: int, m: int, epsilon: Rational, delta: Rational, H_eff: int, failure: Fraction, width_of: Width
) -> TrimDesign:
    users, records, size = positive_int(n, "n", minimum=0), positive_int(m, "m"), positive_int(H_eff, "H_eff")
    eps, d = read_epsilon(epsilon), rational(delta, "delta", above=0, below=1)
    best: TrimDesign | None = None
    least_ladder = None
    for share in SHARES:
        try:
            ladder = _ladder(share * eps, d, failure)
        except InfeasibleError:
            continue
        least_ladder = ladder if least_ladder is None else min(ladder, least_ladder)
        for slack in dict.fromkeys((*_SLACK, users // 10, users // 5)):
            trim = ladder + slack
            if slack < 1 or 2 * trim >= 0.8 * users:
                continue
            width = max(1, width_of(users, records, trim, ladder, size))
            noise = 2 * width / (float((1 - share) * eps) * (users - 2 * trim) * records)
            if best is None or noise < best.noise:
                best = TrimDesign(trim, ladder, width, share, noise)
    if best is None:
        need = (
            "a larger epsilon or delta"
            if least_ladder is None
            else f"n > 2(K+2)/0.8 = {2 * (least_ladder + 2) / 0.8:g}"
        )
        raise InfeasibleError(f"too few users: need {need}, got n = {users}")
    return best


@dataclass(frozen=True)
class TransformChoice:
    """``choice`` is "group", "clip" or "trim"; ``predicted`` the excess error of each (``inf``: out of reach)."""

    choice: str
    predicted: Mapping[str, float]
    tau: int
    design: TrimDesign | None = None

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {'out of reach' if math.isinf(value) else f'{value:.4f}'}"
            for name, value in self.predicted.items()
        )
        return f"{self.choice}: predicted excess error {shown}"


def choose_transform(
    n: int,
    m: int,
    epsilon: Rational,
    delta: Rational,
    log_size: Rational,
    H_eff: int,
    alpha: Rational = 0.05,
    beta: Rational = DEFAULT_BETA,
    allow_bottom: bool = False,
    failure: Rational = DEFAULT_FAILURE,
) -> TransformChoice:
    """The transformation with the smallest predicted excess error; ties go to group, then clip, then trim.

    ``m`` is a public cap on records, ``H_eff`` about how many rules differ on the data.  ``allow_bottom=True`` states
    that users are exchangeable and that "no answer" is acceptable.

    >>> print(choose_transform(500, 100, 1, "1e-6", 44, 1000))
    clip: predicted excess error group 0.1880, clip 0.0677, trim out of reach
    """
    users, records = positive_int(n, "n"), positive_int(m, "m")
    eps, d = positive(epsilon, "epsilon"), float(rational(delta, "delta", minimum=0, below=1))
    near, size = open_unit(alpha, "alpha"), log_size_of(log_size) + math.log(1 / open_unit(beta, "beta"))
    if not isinstance(allow_bottom, bool):
        raise TypeError(f"allow_bottom must be True or False, got {type(allow_bottom).__name__}")
    tau = min(records, math.ceil(near * records + math.sqrt(records * math.log(1 / near) / 2)))
    predicted = {
        "group": 2 * size / (eps * users) if eps * users / 2 >= size else math.inf,
        "clip": 4 * tau * size / (eps * users * records) if eps * users / 4 >= size else math.inf,
        "trim": math.inf,
    }
    design, fail = None, rational(failure, "failure", above=0, below=1)
    if allow_bottom and d > 0:
        try:

            def usual_width(n: int, m: int, trim: int, ladder: int, rules: int) -> int:
                return width_iid(n, m, trim, ladder, rules, fail, _RATES)

            usual = _design(users, records, epsilon, delta, H_eff, fail, usual_width)
            design = design_trim(users, records, epsilon, delta, H_eff, fail)
            predicted["trim"] = usual.noise * size
        except InfeasibleError:
            design = None
    choice = min(predicted, key=lambda name: predicted[name])
    if math.isinf(predicted[choice]):
        need = math.ceil(2 * size / eps)
        raise InfeasibleError(
            f"too few users for a class of this size: {users}, and ln|H| + ln(1/beta) = {size:.1f} needs about {need}"
        )
    return TransformChoice(choice, MappingProxyType(predicted), tau, design)


def literal_users(
    n1: Callable[[float], float],
    *,
    epsilon: Rational,
    delta: Rational,
    records_per_user: int,
    beta: Rational = DEFAULT_BETA,
    failure: Rational = DEFAULT_FAILURE,
    subsample: bool = False,
) -> Certificate:
    """Users that the paper's transformation needs of an algorithm with ``n1(eps')`` records: see
    ``bounds.user_complexity``."""
    eps, d = read_epsilon(epsilon), rational(delta, "delta", above=0, below=1)
    ladder = _ladder(eps / 3, d / 2, rational(failure, "failure", above=0, below=1))
    return user_complexity(
        n1, epsilon=eps, delta=d, records_per_user=records_per_user, ladder=ladder, beta=beta, subsample=subsample
    )
