"""Randomised response over ``k`` values: one unit's report, private before anyone collects it.

The true value has weight ``e**epsilon``, every other value 1.  With ``keep=p`` the true value is reported with the
rational probability ``p`` and every other one with ``(1 - p)/(k - 1)``.

**Guarantee.** ``(epsilon, 0)`` in the local model, for any two values of one unit: a report's probability is one of two
numbers whose ratio is ``e**epsilon`` (with ``keep``: ``p (k - 1)/(1 - p)``).  The report hides the value, not that a
report was sent, so the relation is ``replace``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from attrs import field, frozen

from privpac.errors import ParameterError
from privpac.exact import Rational, as_arb, precision, rational, up
from privpac.guarantee import Guarantee, Model, Neighbours
from privpac.law.blocks import Law
from privpac.mechanisms.exponential import Protected
from privpac.mechanisms.truncated_laplace import factor_within
from privpac.parameters import bounds, fraction_or_none, named, read_epsilon, whole
from privpac.rng import Rng


def keep_probability(epsilon: Rational) -> Fraction:
    """``floor(2**32 e**eps/(1 + e**eps))/2**32``: a rational chance of telling the truth about one bit that loses at
    most epsilon.

    >>> float(keep_probability(1))
    0.7310585784725845
    """
    loss = read_epsilon(epsilon)
    with precision(128 + 2 * int(loss)):
        x = as_arb(loss).exp()
        scaled = (x / (1 + x) * (1 << 32)).floor().unique_fmpz()
    if scaled is None or not 1 << 31 < int(scaled) < 1 << 32:
        raise ParameterError("epsilon must lie between 2**-30 and 20 for reports of 32 bits")
    return Fraction(int(scaled), 1 << 32)


def _read_loss(epsilon: Rational | None) -> Fraction | None:
    return None if epsilon is None else read_epsilon(epsilon, zero=True)


@frozen(slots=False, field_transformer=named)
class RandomizedResponse(Protected):
    """Report one of ``0..k-1``; give ``epsilon``, or ``keep``, or both (then ``keep`` is checked against ``epsilon``).

    >>> answer = RandomizedResponse(None, 3, keep="1/2", unit="user", neighbours="replace")
    >>> answer.law(1).prob_exact(1), answer.law(1).prob_exact(0)
    (Fraction(1, 2), Fraction(1, 4))
    >>> str(RandomizedResponse(1, 2, unit="user", neighbours="replace").guarantee)
    '(1, 0)-DP per user, replace, local model'
    """

    _epsilon: Fraction | None = field(converter=_read_loss)
    k: int = field(converter=whole, metadata=bounds(minimum=2))
    keep: Fraction | None = field(kw_only=True, default=None, converter=fraction_or_none, metadata=bounds(below=1))

    def __attrs_post_init__(self) -> None:
        if self.neighbours is not Neighbours.REPLACE:
            raise ParameterError(
                "randomised response hides the value of a report, not that it was sent: neighbours must be 'replace'"
            )
        if self.keep is not None:
            rational(self.keep, "keep", minimum=Fraction(1, self.k))
        _ = self.epsilon

    @cached_property
    def epsilon(self) -> Fraction:
        """What a report loses: as claimed, or what ``keep`` loses."""
        keep, loss = self.keep, self._epsilon
        if keep is None:
            if loss is None:
                raise ParameterError("give epsilon, or keep")
            return loss
        ratio = keep * (self.k - 1) / (1 - keep)
        if loss is None:
            return read_epsilon(up(lambda: as_arb(ratio).log()), "the loss of keep", zero=True)
        if not factor_within(ratio, loss):
            raise ParameterError(
                f"keep = {keep} loses more than epsilon = {loss}; at most e**epsilon / (e**epsilon + k - 1) is allowed"
            )
        return loss

    @property
    def guarantee(self) -> Guarantee:
        rho = self.epsilon**2 / 2
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, model=Model.LOCAL, rho=rho)

    def law(self, value: int) -> Law:
        """The law of the report of one value in ``0..k-1``."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"the value must be an integer in 0..{self.k - 1}, got {type(value).__name__}")
        true = int(value.__index__())
        if not 0 <= true < self.k:  # the unit's own value is private, so an error never repeats it
            raise ParameterError(f"the value must be in 0..{self.k - 1}; encode it over its declared domain first")
        others = [range(a, b) for a, b in ((0, true), (true + 1, self.k)) if a < b]
        if self.keep is not None:
            other = (1 - self.keep) / (self.k - 1)
            return Law.from_weights([(true, self.keep), *((cell, other) for cell in others)])
        cells = [(range(true, true + 1), 0), *((cell, 1) for cell in others)]
        lo, hi, score = [c.start for c, _ in cells], [c.stop - 1 for c, _ in cells], [s for _, s in cells]
        return Law.from_blocks(lo, hi, score, self.epsilon, domain=(0, self.k - 1))

    def sample(self, value: int, rng: Rng | None = None) -> int:
        """One exact report."""
        return int(self.law(value).sample(rng))
