"""What several promises on the same people add up to.

All functions take guarantees with equal tags (:class:`~privpac.errors.IncompatibleGuarantees` otherwise) and round
outward.  They differ in what they assume about the mechanisms:

===================  ==========================================================================================
rule                 holds for
===================  ==========================================================================================
`compose_basic`      mechanisms *and* parameters chosen adaptively, one after the other
`compose_parallel`   mechanisms on disjoint sets of units
`compose_advanced`   mechanisms chosen adaptively, parameters fixed in advance
`compose_optimal`    the same; the least delta that follows from the parameters alone
`compose_zcdp`       the same; uses a sharper known `rho` where a mechanism has one
`zcdp_budget`        a total of `rho` at which to stop, parameters chosen adaptively, every delta zero
===================  ==========================================================================================

Theorems.  Every ``(e, d)`` mechanism is dominated by "with probability ``d`` tell everything, else answer by
randomised response with ratio ``e**e``"; the advanced bound (Kairouz, Oh, Viswanath) and the optimal one (Murtagh,
Vadhan) are tails of the sum of those privacy losses.  Pure ``e`` implies ``e**2 / 2`` zCDP, and ``rho`` adds up
(Bun, Steinke).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from flint import arb, arb_poly

from privpac.bisection import last_between
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, exp_ball, precision, rational, shown, up
from privpac.guarantee import Guarantee, Neighbours

_RHO_BITS = 16
_LEAST_POWER = -4000

_EXACT_DEGREE = 1 << 15  # the common grid of all epsilons is used up to this many steps in all
_ROUNDED_DEGREE = 1 << 14  # else so many, and at least _STEPS_PER_PART for each part
_STEPS_PER_PART = 16
_MAX_DEGREE = 1 << 16  # work limit; equal epsilons need no product of polynomials and may be 16 times as many


# One after the other


def compose_basic(gs: Iterable[Guarantee]) -> Guarantee:
    """``(sum of e, sum of d)``, exactly; valid whatever was chosen in view of earlier answers.

    >>> g = Guarantee("0.1", "1e-6", unit="user", neighbours="add-remove")
    >>> str(compose_basic([g, g, g]))
    '(0.3, 3e-06)-DP per user, add-remove'
    """
    parts = _parts(gs)
    return _composed(parts, "basic composition", _sum_epsilon(parts), _sum_delta(parts), rho=_joint_rho(parts))


def compose_advanced(gs: Iterable[Guarantee], slack: Rational) -> Guarantee:
    """Parameters fixed in advance: ``sum e tanh(e/2) + sqrt(2 L sum e**2)`` at ``1 - (1 - slack) prod (1 - d)``.

    ``L`` is the smaller of ``ln(1/slack)`` and ``ln(e + sqrt(sum e**2) / slack)``.  Where the plain sum of epsilons
    is smaller it is returned instead, and then the slack is not spent.
    """
    parts, slack = _parts(gs), rational(slack, "slack", above=0, below=1)
    counts = Counter(g.epsilon for g in parts)
    squares = sum((n * e * e for e, n in counts.items()), Fraction(0))

    def bound(second: bool) -> arb:
        root = as_arb(squares).sqrt()
        log = (arb(1).exp() + root / as_arb(slack)).log() if second else -as_arb(slack).log()
        drift = sum((n * as_arb(e) * (as_arb(e) / 2).tanh() for e, n in counts.items()), arb(0))
        return drift + root * (2 * log).sqrt()

    total = _sum_epsilon(parts)
    epsilon = min(up(lambda: bound(False)), up(lambda: bound(True))) if total else total
    deltas = [g.delta for g in parts]
    if total <= epsilon:
        return _composed(parts, "composition, slack unused", total, _joint_delta(deltas), rho=_joint_rho(parts))
    why = f"advanced composition, slack {shown(slack)}"
    return _composed(parts, why, epsilon, _joint_delta([slack, *deltas]), rho=_joint_rho(parts))


def compose_optimal(gs: Iterable[Guarantee], epsilon: Rational) -> Fraction:
    """The least ``delta`` at which all parts together are ``(epsilon, delta)``-DP, parameters fixed in advance.

    Rounded up; up to that rounding it is exact when the epsilons share a grid of at most 32768 steps.  Otherwise every
    epsilon is first raised to a multiple of a finer grid, which is again a valid promise, so the result is an upper
    bound.
    """
    parts, target = _parts(gs), rational(epsilon, "epsilon", minimum=0)
    broken = _joint_delta([g.delta for g in parts])
    if target >= _sum_epsilon(parts):
        return broken
    step, factors = _on_grid(Counter(g.epsilon for g in parts if g.epsilon))
    tail = min(up(lambda: _loss_tail(step, factors, target)), Fraction(1))
    # 1 - (1 - broken)(1 - tail): increasing in both, so upper bounds may be put in.
    return broken + (1 - broken) * tail


def _on_grid(counts: Counter[Fraction]) -> tuple[Fraction, dict[int, int]]:
    """A step, and how many parts have an epsilon of how many steps (raised to the grid where it does not divide)."""
    step = Fraction(gcd(*(e.numerator for e in counts)), lcm(*(e.denominator for e in counts)))
    size, total = sum(counts.values()), sum((n * e for e, n in counts.items()), Fraction(0))
    rounded = max(_ROUNDED_DEGREE, _STEPS_PER_PART * size)
    if total / step > max(_EXACT_DEGREE, rounded):
        step = total / rounded
    factors: Counter[int] = Counter()
    for e, n in counts.items():
        # (e, d) implies (e', d) for e' >= e, so raising an epsilon keeps the claim true.
        factors[-(-e // step)] += n
    degree, limit = sum(a * n for a, n in factors.items()), _MAX_DEGREE if len(factors) > 1 else 16 * _MAX_DEGREE
    if degree > limit:
        raise TooLargeError(
            f"optimal composition of {size} guarantees needs {degree} grid steps, at most {limit} are allowed; "
            "use compose_advanced or compose_zcdp"
        )
    return step, dict(factors)


def _loss_tail(step: Fraction, factors: dict[int, int], target: Fraction) -> arb:
    """``E[max(0, 1 - e**(target - loss))]`` for the summed loss of randomised responses.

    One response has loss ``+e`` with probability ``1 / (1 + e**-e)``, else ``-e``.  The coefficient of ``y**j`` in the
    product is the probability that the parts with positive loss have ``j`` steps together: loss ``(2 j - degree)
    step``.
    """
    polynomials = [_responses(a, a * step, n) for a, n in factors.items()]
    while len(polynomials) > 1:
        polynomials.sort(key=lambda p: int(p.degree()))
        polynomials = [p * q for p, q in zip(polynomials[::2], polynomials[1::2])] + polynomials[
            len(polynomials) & ~1 :
        ]
    degree = sum(a * n for a, n in factors.items())
    first = (target / step + degree) // 2 + 1  # the least j whose loss exceeds the target, decided on rationals
    mass = polynomials[0].coeffs()[first:]
    loss = as_arb(target - (2 * first - degree) * step)
    two_steps = as_arb(2 * step)
    return -sum((p * (loss - i * two_steps).expm1() for i, p in enumerate(mass)), arb(0))


def _responses(a: int, epsilon: Fraction, n: int) -> arb_poly:
    """``n`` responses with the same epsilon, ``a`` steps each: binomial weights, each from the one before it."""
    odds, weight = exp_ball(-epsilon), (1 + exp_ball(-epsilon)) ** -n
    weights = [arb(0)] * (a * n + 1)
    for j in range(n, -1, -1):
        weights[a * j] = weight
        weight = weight * odds * j / (n - j + 1)
    return arb_poly(weights)


# On disjoint units


def compose_parallel(gs: Iterable[Guarantee], split: str) -> Guarantee:
    """Each unit is seen by one part only: the largest ``e`` and the largest ``d``.

    ``split="public"``: by index or public coins, blind to the data.  ``split="data"``: any rule that looks at one
    unit's own data; then only add-remove parts compose, because a replaced unit may leave one part and enter
    another, and no replace guarantee covers a part whose number of units changes.
    """
    parts = _parts(gs)
    if not isinstance(split, str):
        raise TypeError(f"split must be 'public' or 'data', got {type(split).__name__}")
    if split not in ("public", "data"):
        raise ParameterError(f"split must be 'public' or 'data', got {split!r}")
    if split == "data" and parts[0].neighbours is Neighbours.REPLACE:
        raise IncompatibleGuarantees(
            "replace guarantees do not compose in parallel over a split that depends on the data: a replaced unit "
            "changes the size of two parts; use add-remove parts, or split by index"
        )
    rhos = _rhos(parts)
    why = f"parallel composition over a {'public' if split == 'public' else 'data-dependent'} split"
    return _composed(
        parts, why, max(g.epsilon for g in parts), max(g.delta for g in parts), rho=max(rhos) if rhos else None
    )


def parallel_replace(gs: Iterable[Guarantee], *, interchangeable: bool = False) -> Guarantee:
    """The replace guarantee of add-remove parts on disjoint units, for any per-unit split rule.

    A replaced unit that moves takes one step in each of two independent parts: ``(e_i + e_j, d_i + d_j)``.  One that
    stays takes two steps in its part, a removal and an addition: ``(2 e_i, (1 + e**e_i) d_i)``, which is the larger.
    ``interchangeable=True`` states that units of one part are alike to it (a histogram's cell sees only how many
    there are), so that staying changes nothing: the sum of the two largest ``e``, the sum of the two largest ``d``.
    """
    parts = _parts(gs)
    if not isinstance(interchangeable, bool):
        raise TypeError(f"interchangeable must be True or False, got {type(interchangeable).__name__}")
    if parts[0].neighbours is not Neighbours.ADD_REMOVE:
        raise IncompatibleGuarantees(
            "parallel_replace starts from add-remove parts; replace parts go through compose_parallel"
        )
    epsilons, deltas, rhos = [g.epsilon for g in parts], [g.delta for g in parts], _rhos(parts)
    if interchangeable:
        why = "a replaced unit takes one step in each of two parts"
        epsilon, delta, rho = _two_largest(epsilons), _two_largest(deltas), _two_largest(rhos) if rhos else None
    else:
        why = "a replaced unit takes two steps, in one part or in two"
        epsilon, delta = 2 * max(epsilons), max(g.to_replace().delta for g in parts)
        rho = 4 * max(rhos) if rhos else None
    return _composed(parts, f"parallel composition, {why}", epsilon, delta, rho=rho, neighbours=Neighbours.REPLACE)


def _two_largest(values: Sequence[Fraction]) -> Fraction:
    return sum(sorted(values)[-2:], Fraction(0))


# Zero-concentrated


def compose_zcdp(gs: Iterable[Guarantee], slack: Rational, form: str = "simple") -> Guarantee:
    """``rho`` adds up (``e**2 / 2`` where none is known) and is converted at ``slack``: delta is ``slack + sum of d``.

    Where the plain sum of epsilons is smaller it is returned instead, and then the slack is not spent.
    """
    parts, slack = _parts(gs), rational(slack, "slack", above=0, below=1)
    # With e**2/2 for a part of positive delta this is approximate zCDP, whose deltas add to the slack.
    rho = sum((_half_square(g) if g.rho is None else min(g.rho, _half_square(g)) for g in parts), Fraction(0))
    epsilon, total, deltas = zcdp_epsilon(rho, slack, form), _sum_epsilon(parts), _sum_delta(parts)
    known = _rhos(parts, stated=False)
    kept = sum(known, Fraction(0)) if known else None
    if total <= epsilon:
        return _composed(parts, "composition, slack unused", total, deltas, rho=kept)
    return _composed(
        parts, f"zCDP composition ({form} conversion), slack {shown(slack)}", epsilon, slack + deltas, rho=kept
    )


def zcdp_epsilon(rho: Rational, delta: Rational, form: str = "simple") -> Fraction:
    """An ``epsilon``, rounded up, such that every ``rho``-zCDP mechanism is ``(epsilon, delta)``-DP.

    ``simple`` is ``rho + 2 sqrt(rho ln(1/delta))``.  ``optimal`` is the least epsilon with
    ``exp((a - 1)(a rho - epsilon) + a ln(1 - 1/a)) / (a - 1) <= delta`` for some order ``a > 1``; never larger.
    """
    rho, delta = rational(rho, "rho", minimum=0), rational(delta, "delta", above=0, below=1)
    if not isinstance(form, str):
        raise TypeError(f"form must be 'simple' or 'optimal', got {type(form).__name__}")
    if form not in ("simple", "optimal"):
        raise ParameterError(f"form must be 'simple' or 'optimal', got {form!r}")
    if rho == 0:
        return Fraction(0)
    if form == "simple":
        return up(lambda: as_arb(rho) + 2 * (-as_arb(rho) * as_arb(delta).log()).sqrt())
    order = _best_order(rho, delta)

    def bound() -> arb:
        b = as_arb(order)
        return as_arb(rho) * (1 + b) + (b / (1 + b)).log() - (as_arb(delta).log() + b.log1p()) / b

    # Any order gives a valid bound; at the best one the error of its last bit is of second order.  Below 0 it rounds to
    # 0.
    return up(bound)


@lru_cache(maxsize=64)
def zcdp_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ``rho`` of 16 significant bits whose optimal conversion at ``delta`` is at most ``epsilon``.

    >>> zcdp_within(Fraction(1), Fraction(1, 10**6))
    Fraction(25539, 1048576)
    """

    def fits(rho: Fraction) -> bool:
        return zcdp_epsilon(rho, delta, "optimal") <= epsilon

    power, step = 0, 1
    if fits(Fraction(1)):
        while fits(Fraction(2) ** (power + 1)):
            power += 1
    else:
        while not fits(Fraction(2) ** (power - step)):
            step *= 2
            if step > -_LEAST_POWER:
                raise InfeasibleError(f"epsilon = {float(epsilon):g} at this delta leaves no budget; use a larger one")
        power = last_between(lambda k: fits(Fraction(2) ** k), power - step, power - step // 2)
    unit = Fraction(2) ** (power - _RHO_BITS + 1)
    return last_between(lambda k: fits(k * unit), 1 << (_RHO_BITS - 1), 1 << _RHO_BITS) * unit


def _best_order(rho: Fraction, delta: Fraction) -> Fraction:
    """``a - 1`` for the best order ``a``: the bound falls, then rises, where ``rho (a-1)**2 + ln a = ln(1/delta)``."""

    def small(b: Fraction) -> bool:
        x = as_arb(b)
        return bool((as_arb(rho) * x * x + x.log1p() + as_arb(delta).log()).mid() < 0)

    # b <= 1/delta, and b >= min(L/2, sqrt(L / (2 rho))) with L = ln(1/delta) >= 1 - delta.
    low = -(delta.denominator.bit_length() + rho.numerator.bit_length() + 4)
    high = delta.denominator.bit_length() + 1
    with precision(192):
        low = last_between(lambda power: small(Fraction(2) ** power), low, high)
        order, bit = Fraction(2) ** low, Fraction(2) ** low
        for _ in range(64):
            bit /= 2
            order += bit if small(order + bit) else 0
    return order


def zcdp_budget(epsilon: Rational, delta: Rational) -> Fraction:
    """The ``rho``, rounded down, whose simple conversion at ``delta`` is ``epsilon``: ``(sqrt(L + epsilon) -
    sqrt(L))**2``.

    A total of ``rho`` fixed at the start is a valid stopping rule for adaptively chosen parameters as long as every
    part has delta 0 (fully adaptive composition); with positive deltas use the basic rule.
    """
    epsilon, delta = rational(epsilon, "epsilon", minimum=0), rational(delta, "delta", above=0, below=1)
    if epsilon == 0:
        return Fraction(0)

    def inverse() -> arb:
        log = -as_arb(delta).log()
        return (((log + as_arb(epsilon)).sqrt() + log.sqrt()) / as_arb(epsilon)) ** 2

    return 1 / up(inverse)


# Shared steps


def _parts(gs: object) -> tuple[Guarantee, ...]:
    if isinstance(gs, (Guarantee, str, bytes)) or not isinstance(gs, Iterable):
        raise TypeError(f"a list of guarantees is needed, got {type(gs).__name__}")
    parts = tuple(gs)
    for g in parts:
        if not isinstance(g, Guarantee):
            raise TypeError(f"a list of guarantees is needed, got one that holds a {type(g).__name__}")
    if not parts:
        raise ParameterError("no guarantees to compose; a run that touches no data needs none")
    for g in parts[1:]:
        parts[0].require_same_tags(g)
    return parts


def _composed(
    parts: Sequence[Guarantee],
    why: str,
    epsilon: Fraction,
    delta: Fraction,
    *,
    rho: Fraction | None = None,
    neighbours: Neighbours | None = None,
) -> Guarantee:
    first = parts[0]
    if delta >= 1:
        raise InfeasibleError(
            f"{why} of {len(parts)} guarantees would need delta >= 1: no guarantee is left; start from smaller deltas"
        )
    earlier = tuple(dict.fromkeys(step for g in parts for step in g.derivation))
    return Guarantee(
        _tidy(epsilon),
        _tidy(delta),
        unit=first.unit,
        neighbours=neighbours or first.neighbours,
        model=first.model,
        rho=None if rho is None else _tidy(rho),
        derivation=(*earlier, f"{why} of {_listing(parts)}"),
    )


def _tidy(x: Fraction) -> Fraction:
    """Sums over thousands of unlike denominators are rounded up before they outgrow any use; everything else stays
    exact."""
    return x if x.denominator.bit_length() <= 4096 else up(lambda: as_arb(x))


def _listing(parts: Sequence[Guarantee]) -> str:
    counts = Counter(g.summary.partition("-DP")[0] for g in parts)
    shown = [f"{n} x {pair}" if n > 1 else pair for pair, n in counts.most_common(5)]
    rest = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {rest} other kinds" if rest else "")


def _sum_epsilon(parts: Sequence[Guarantee]) -> Fraction:
    return sum((g.epsilon for g in parts), Fraction(0))


def _sum_delta(parts: Sequence[Guarantee]) -> Fraction:
    return sum((g.delta for g in parts), Fraction(0))


def _joint_delta(deltas: Iterable[Fraction]) -> Fraction:
    """``1 - prod (1 - d)``: exact for at most one positive ``d``, else rounded up and never above the sum."""
    positive = Counter(d for d in deltas if d)
    total = sum((n * d for d, n in positive.items()), Fraction(0))
    if sum(positive.values()) < 2:
        return total
    return min(total, up(lambda: -sum((n * (-as_arb(d)).log1p() for d, n in positive.items()), arb(0)).expm1()))


def _half_square(g: Guarantee) -> Fraction:
    return g.epsilon * g.epsilon / 2


def _rhos(parts: Sequence[Guarantee], *, stated: bool = True) -> list[Fraction]:
    """A zCDP bound of every part, or nothing if one has none (positive delta) or, with ``stated``, if none states its
    own."""
    if any(g.rho is None and g.delta for g in parts) or (stated and all(g.rho is None for g in parts)):
        return []
    return [g.rho if g.rho is not None and (g.delta or g.rho < _half_square(g)) else _half_square(g) for g in parts]


def _joint_rho(parts: Sequence[Guarantee]) -> Fraction | None:
    rhos = _rhos(parts)
    return sum(rhos, Fraction(0)) if rhos else None
