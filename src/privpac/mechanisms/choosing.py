"""The choosing mechanism: name a popular candidate out of any universe, or abstain.

One unit adds 0 or 1 to the counts of at most ``growth = k`` candidates.  Only candidates with votes are touched, so the
size of the universe does not matter.

``delta0 = delta/(k (1 - delta))``, weight ``w(q) = delta0 (r**q - 1)/(r - 1)`` for a
candidate with ``q`` votes, weight 1 for ``BOTTOM``; ``k delta0 <= r - 1`` is required.

**Guarantee.** ``(epsilon, delta)``, with ``r = base(epsilon)`` under add-remove and ``base(epsilon/2)`` under replace.
*Proof.* Note ``w(q+1) = r w(q) + delta0``.  A replacement lowers at most ``k`` counts by one and raises a set ``K`` of
at most ``k``, so ``Z' - Z <= sum over K of ((r-1) w + delta0) <= (r-1)(Z-1) + k delta0 <= (r-1) Z``; hence ``Z' <= r
Z``, and ``Z <= r Z'`` by symmetry. A raised candidate has ``P' = w(q+1)/Z' <= r**2 P + delta0/Z'``, every other outcome
``P' <= r P``; over an event the excess is at most ``k delta0/Z' <= k delta0/(1 + k delta0) = delta``.  Adding a unit
gives ``Z' >= Z``, so ``P' <= r P + delta0/Z'``; removing one gives ``P' <= (Z/Z') P <= r P``, and a candidate that
drops to 0 had at most ``delta0/Z``.

It needs about half as many votes as a test followed by a selection
(:mod:`privpac.papers.two_stage_choosing`).
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from attrs import field, frozen
from flint import arb

from privpac.bisection import least_from
from privpac.errors import InfeasibleError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, as_arb, dyadic_base, precision, rational
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law.blocks import BOTTOM, FiniteLaw
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.law.sampling import invert
from privpac.mechanisms.votes import by_count, law_of_counts
from privpac.parameters import named, privacy, probability, protected_unit, relation, whole
from privpac.rng import Rng, secret_rng


def _read(base: Rational, delta: Rational, growth: int) -> tuple[Fraction, Fraction]:
    """``r`` and ``delta0``."""
    r, d = rational(base, "base", above=1), probability(delta, "delta")
    k = positive_int(growth, "growth")
    delta0 = d / (k * (1 - d))
    if k * delta0 > r - 1:
        raise InfeasibleError(
            f"delta too large for epsilon: delta/(1 - delta) must be at most base - 1; take delta <= {1 - 1 / r}"
        )
    return r, delta0


def choosing_law(votes: object, base: Rational, delta: Rational, growth: int = 1) -> FiniteLaw:
    """The law with rational base, all probabilities rational; ``votes`` maps candidates to counts.

    >>> law = choosing_law({"a": 2, "b": 0}, 2, "1/2")
    >>> law.prob_exact("a"), law.prob_exact(BOTTOM)
    (Fraction(3, 4), Fraction(1, 4))
    """
    r, delta0 = _read(base, delta, growth)
    groups = by_count(votes)
    weights = {q: delta0 * (r**q - 1) / (r - 1) for q in groups}
    z = Denominator(ExpSum.of(1 + sum((weights[q] * len(held) for q, held in groups.items()), Fraction(0))))
    numbers: dict[int, Number] = {q: Quotient.of(w, z) for q, w in weights.items()}
    return law_of_counts(groups, numbers, Quotient.of(1, z))


def choosing_sample(
    votes: object, base: Rational, delta: Rational, growth: int = 1, rng: Rng | None = None
) -> Hashable:
    """One exact draw from :func:`choosing_law` by lazy-precision inversion, without writing out the large rationals."""
    r, delta0 = _read(base, delta, growth)
    groups = by_count(votes)
    if not groups:
        return BOTTOM
    source = secret_rng(rng)
    u, bits = source.bits(64), 64
    while True:
        with precision(bits + 64):
            cumulative = _cumulative(groups, r, delta0)
            level = invert(cumulative, cumulative[-1], u, bits)
        if level is not None:
            break
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a draw was not decided")
        u = (u << 64) | source.bits(64)
    if level == len(groups):
        return BOTTOM
    held = list(groups.values())[level]
    return held[source.below(len(held))]


def _cumulative(groups: dict[int, list[Hashable]], r: Fraction, delta0: Fraction) -> list[arb]:
    """Balls of the cumulative weights, largest count first, ``BOTTOM`` last."""
    log_r, scale = as_arb(r).log(), as_arb(delta0 / (r - 1))
    total, out = arb(0), []
    for q, held in groups.items():
        total += (log_r * q).expm1() * scale * len(held)
        out.append(total)
    return [*out, total + 1]


@frozen(slots=False, field_transformer=named)
class ChoosingMechanism:
    """Choose a candidate with many votes, or ``BOTTOM``.

    >>> choose = ChoosingMechanism(1, "1e-6", 1, "add-remove", unit="user")
    >>> choose.votes_needed("0.01")
    19
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(converter=probability)
    growth: int = field(converter=whole)
    neighbours: Neighbours = field(converter=relation)
    unit: Unit = field(kw_only=True, converter=protected_unit)

    def __attrs_post_init__(self) -> None:
        _read(self.base, self.delta, self.growth)

    # Public numbers

    @property
    def step(self) -> Fraction:
        """What one added or removed unit may lose: all of epsilon, or half of it under replace."""
        return self.epsilon / 2 if self.neighbours is Neighbours.REPLACE else self.epsilon

    @property
    def base(self) -> Fraction:
        """``r``: ``e**step``, rounded down to a dyadic rational."""
        return dyadic_base(self.step)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    # Law and draws

    def law(self, votes: object) -> FiniteLaw:
        """The law over candidates and ``BOTTOM``; ``votes`` is a mapping to counts, or an array of counts by index."""
        return choosing_law(votes, self.base, self.delta, self.growth)

    def sample(self, votes: object, rng: Rng | None = None) -> Hashable:
        """One exact draw from :meth:`law`."""
        return choosing_sample(votes, self.base, self.delta, self.growth, rng)

    # Accuracy

    def votes_needed(self, beta: Rational) -> int:
        """The least count at which the only candidate with votes is named, except with probability ``beta``."""
        failure = probability(beta, "beta")
        r, delta0 = _read(self.base, self.delta, self.growth)
        # 1/(1 + w(q)) <= beta, solved for r**q.
        goal = 1 + (1 / failure - 1) * (r - 1) / delta0
        return least_from(lambda q: _reaches(r, q, goal), 1)


def _reaches(r: Fraction, q: int, goal: Fraction) -> bool:
    """``r**q >= goal``: balls first, the large rational only where they cannot tell."""
    for bits in (64, 256, 1024):
        with precision(bits):
            power, bound = as_arb(r) ** q, as_arb(goal)
            if power > bound or power < bound:
                return bool(power > bound)
    return r**q >= goal
