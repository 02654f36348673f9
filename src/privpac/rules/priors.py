"""Public weights of rules: which cut-offs a method takes where the data hardly say.

In a range that is declared much too wide nearly every cut-off is a constant, and a law that treats all rules alike pays
for each of them.  ``prior="scale-free"`` gives half of all weight to all cuts alike and half to shells around zero that
are twice as wide each and weigh the same together: an order of magnitude costs what another one does.

Cuts ``u = 0..N`` of ``N`` codes, the *anchor* ``a`` the cut at zero, in integers:

    d = |u - a|      j(u) = bit length of d + 1, less 1      J = that of the farthest cut      s(u) = 2**(J - j(u))
    one column       w(u) = A + s(u)             A = ceil(S / (N + 1)),  S the sum of s
    several columns  w(f, u) = A + c_f s_f(u)    c_f = floor(2**32 max S / S_f),  A = ceil(sum c_f S_f / sum (N_f + 1))

Both directions have the same weights.  Dates and categories have no zero: ``s = 1``, and alone all rules weigh 1.
Floats count exponents instead (``Domain.octaves``).  An interval weighs the product of its ends, the empty one the
square of the heaviest cut; single values weigh as cuts over the values do.  A typical range ``[low, high]`` adds ``T =
ceil(sum of w / cuts inside)`` to each cut inside it.

**Privacy.**  The weights are functions of the declared domains, hence public and the same for neighbouring data: in
``P(h) ~ w(h) e**(-eta score(h))`` they cancel in ``ln(P(h)/P'(h)) = eta (change of the score) + constant``, and the
range rule of ``methods.base`` holds word for word.  They do not cancel if they follow the data.

**Accuracy.**  With ``pi(h) = w(h) / sum of w`` a union bound over the rules has ``sum pi(h)/pi(h*) <= 1/pi(h*)`` where
it had ``|H|``: at worst all weight over the least.  For cuts that is at most ``2 |H|``, since ``A |H|`` is at least the
weight of the shells, and ``5 |H|`` with a typical range: its ``T * inside`` is at most ``sum of w + inside``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.law.weights import Weights

PRIORS = ("auto", "scale-free", "uniform")
WIDE = 2000
"""A domain of more values has a scale-free prior unless another one is asked for."""

Runs = list[tuple[int, int]]
"""``(first cut, weight)``, in order."""


def check_prior(prior: str) -> None:
    """One of the three priors."""
    if prior not in PRIORS:
        raise ParameterError(f"prior must be {', '.join(map(repr, PRIORS[:-1]))} or {PRIORS[-1]!r}, got {prior!r}")


def scale_free(domains: Sequence[Domain], prior: str) -> bool:
    """Whether orders of magnitude weigh alike: by ``"auto"`` if any of the domains has many values."""
    if prior == "uniform" or (prior == "auto" and all(domain.size <= WIDE for domain in domains)):
        return False
    return len(domains) > 1 or _has_scale(domains[0])  # without a zero a column's rules weigh alike


def prior_name(domains: Sequence[Domain], prior: str) -> str:
    """What results show; empty where all rules weigh alike."""
    shown = ["scale-free"] * scale_free(domains, prior) + ["typical range"] * any(map(_typical, domains))
    return ", ".join(shown)


def line_weights(domains: Sequence[Domain], prior: str, *, values: bool = False) -> tuple[list[Runs], int] | None:
    """The weights of the cuts (with ``values``: of the single values) of each column, and the weight of a rule that
    counts as the one at zero; None where all rules weigh alike."""
    if not prior_name(domains, prior):
        return None
    counts = [domain.size + (not values) for domain in domains]
    if scale_free(domains, prior):
        shells = [_shells(domain, count) for domain, count in zip(domains, counts)]
        weighed, top = _mixed(shells, counts)
    else:
        weighed, top = [[(0, 1)] for _ in domains], 1
    return [_with_typical(runs, domain, count, values) for runs, domain, count in zip(weighed, domains, counts)], top


def _has_scale(domain: Domain) -> bool:
    return domain.ordered and (domain.anchor_cut() is not None or domain.octaves() is not None)


def _typical(domain: Domain) -> tuple[int, int] | None:
    return domain.typical_codes() if domain.ordered else None


def _shells(domain: Domain, count: int) -> Runs:
    """``s`` of one column: halves of weight in shells of double width around the cut (or value) at zero."""
    octaves, zero = domain.octaves(), domain.anchor_cut()
    if not _has_scale(domain):
        return [(0, 1)]
    if octaves is not None:
        return [(start, weight) for start, weight in octaves if start < count]
    assert zero is not None
    zero = min(zero, count - 1)
    last = (max(zero, count - 1 - zero) + 1).bit_length() - 1
    below = [(max(zero - (1 << j + 1) + 2, 0), 1 << last - j) for j in range((zero + 1).bit_length())]
    above = [(zero + (1 << j) - 1, 1 << last - j) for j in range((count - zero).bit_length())]
    return [*reversed(below[1:]), *above]


def total(runs: Runs, count: int) -> int:
    """The weight of all cuts."""
    return sum((stop - start) * weight for (start, weight), stop in zip(runs, [*(a for a, _ in runs[1:]), count]))


def _mixed(shells: list[Runs], counts: list[int]) -> tuple[list[Runs], int]:
    """Half of all weight for every rule alike, half for the shells, each column the same."""
    sums = [total(runs, count) for runs, count in zip(shells, counts)]
    scales = column_scales(sums)
    uniform = -(-sum(map(int.__mul__, scales, sums)) // sum(counts))
    weighed = [[(start, uniform + c * s) for start, s in runs] for runs, c in zip(shells, scales)]
    return weighed, uniform + max(weight for _, weight in shells[0])


def column_scales(sums: list[int]) -> list[int]:
    """``c_f``: what makes the shells of all columns weigh the same."""
    return [1] if len(sums) == 1 else [(max(sums) << 32) // own for own in sums]


def _with_typical(runs: Runs, domain: Domain, count: int, values: bool) -> Runs:
    """More weight for the cuts at or between the ends of the typical range: as much again as all have together."""
    typical = _typical(domain)
    if typical is None:
        return runs
    first, last = typical[0], typical[1] + (not values)
    more = -(-total(runs, count) // (last + 1 - first))
    edges = sorted({*(start for start, _ in runs), first, last + 1} - {count})
    out, at = [], 0
    for edge in edges:
        while at + 1 < len(runs) and runs[at + 1][0] <= edge:
            at += 1
        out.append((edge, runs[at][1] + more * (first <= edge <= last)))
    return out


def column_weights(domains: Sequence[Domain], directions: int, prior: str) -> Weights | None:
    """Of cuts, ids by column, then direction, then cut."""
    found = line_weights(domains, prior)
    if found is None:
        return None

    def runs() -> Iterator[tuple[int, int]]:
        base = 0
        for domain, line in zip(domains, found[0]):
            for _ in range(directions):
                yield from ((base + start, weight) for start, weight in line)
                base += domain.size + 1

    return Weights.of(runs(), directions * sum(domain.size + 1 for domain in domains))


def value_weights(domain: Domain, zero: bool, prior: str) -> Weights | None:
    """Of single values, then of the rule that says no to all."""
    found = line_weights([domain], prior, values=True)
    if found is None:
        return None
    (runs,), never = found
    return Weights.of([*runs, (domain.size, never)] if zero else runs, domain.size + zero)


def pair_weights(domain: Domain, prior: str) -> Weights | None:
    """Of ranges between two cuts, the empty one first, then by the lower end and the upper one."""
    found = line_weights([domain], prior)
    if found is None:
        return None
    (runs,), n = found[0], domain.size
    stops = [*(start for start, _ in runs[1:]), n + 1]

    def pairs() -> Iterator[tuple[int, int]]:
        yield 0, max(weight for _, weight in runs) ** 2
        for (start, weight), stop in zip(runs, stops):
            for low in range(start, min(stop, n)):
                first = 1 + low * n - low * (low - 1) // 2 - low - 1  # of the range up to cut 0, were there one
                for (upper, other), above in zip(runs, stops):
                    if above > low + 1:
                        yield first + max(upper, low + 1), weight * other

    return Weights.of(pairs(), n * (n + 1) // 2 + 1)


def laid_out(runs: Runs, count: int) -> Iterator[tuple[int, int, int]]:
    """First cut, last cut, weight; neighbours of equal weight as one."""
    found = Weights.of(runs, count)
    for (start, stop), weight in zip(pairwise([*found.starts, count]), found.values):
        yield start, stop - 1, weight
