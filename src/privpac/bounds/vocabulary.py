"""Users that a stable histogram over an open vocabulary needs: every value's share at once, listed or not.

People are independent and alike or not, each with at least one record and at most ``max_values`` values; ``w`` is the
mean of their own distributions.  What is shown of a value is its noisy weight over the noisy number of people, and 0 if
it is not shown.

*Luck.*  ``n`` people's shares of all values are independent vectors in the simplex, so the largest deviation ``D`` of a
mean share from ``w`` has mean at most ``sqrt(sum of variances) <= 1/sqrt(n)`` and moves by at most ``1/n`` with one
person (McDiarmid): ``D <= (1 + sqrt(ln(1/b)/2))/sqrt(n)`` but for ``b``, however many values there are.

*Noise.*  At most ``n max_values`` values are held, so all noises of weights are at most ``t = ln(2 n
max_values/b)/eta`` but for ``b``, and the noise of the number of people is at most ``c = ln(2/b)/(epsilon/8)``.

A value that is shown is off by at most ``D + 1/L + (t/L + c)/(n - c)``; one that is not weighs less than ``threshold +
t``, so its share is at most ``(threshold + t)/(n L) + D + 1/L``.  Both fall with ``n >= 2``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from privpac.bounds.certificate import LIMIT, SLACK, Certificate, open_unit, positive, relation
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.least import least
from privpac.parameters import COUNT_LEVELS

__all__ = ["COUNT_SHARE", "MAX_VALUES", "certify_vocabulary"]

MAX_VALUES = 8
"""Values of one person that count, unless declared."""
COUNT_SHARE = Fraction(1, 8)
"""Of epsilon, for the number of people."""


def certify_vocabulary(
    threshold: int,
    *,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    max_values: int = MAX_VALUES,
    levels: int = COUNT_LEVELS,
) -> Certificate:
    """Users for which all shares are within ``alpha`` with probability ``1 - beta``, those not shown counting as 0.

    ``threshold`` is that of the learner, in steps; it grows with ``1/delta``.

    >>> certify_vocabulary(16 << 20, epsilon=1, alpha="0.05", beta="0.05").n_users
    4287
    """
    steps, values = positive_int(levels, "levels"), positive_int(max_values, "max_values")
    target, failure = open_unit(alpha, "alpha"), float(rational(beta, "beta", minimum="1e-9", below=1))
    eps, least_shown = positive(epsilon, "epsilon"), positive_int(threshold, "threshold") / steps
    moved = 1 if relation(neighbours) is Neighbours.ADD_REMOVE else 2
    eta = (1 - float(COUNT_SHARE)) * eps / moved  # per person: weights in units of a person
    luck = 1 + math.sqrt(math.log(2 / failure) / 2)  # half of beta
    count = (math.log(8 / failure) / (float(COUNT_SHARE) * eps)) + 1  # a quarter

    def enough(n: int) -> bool:
        if n <= count:
            return False
        noise = math.log(8 * n * values / failure) / eta + 1 / steps  # a quarter
        off = max((noise + count) / (n - count), (least_shown + noise) / n)
        return (luck / math.sqrt(n) + 1 / steps + off) * (1 + SLACK) <= target

    found = least(enough, start=2, limit=LIMIT)
    assumption = (
        f"people drawn independently, alike or not, each with at least one record and at most {values} different "
        "values; the mean of their own distributions is learned"
    )
    return Certificate.upper(found, "stable histogram", assumption).run_with(max_values=values, levels=steps)
