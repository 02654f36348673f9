"""What an epsilon means, in words that grow less reassuring as it grows.

Someone who holds odds of a to b for a fact about one person ends up, after seeing the output of an epsilon-private
mechanism, with odds of at most ``a * e**epsilon`` to b: Bayes' rule multiplies odds by the ratio of the two
likelihoods, which is what epsilon bounds.  From even odds (1 in 2) that is a probability of at most
``e**epsilon / (1 + e**epsilon)``.  Delta is said apart: but for a part of probability delta, such a
pair of laws has likelihood ratios of at most ``e**epsilon`` (Kairouz, Oh and Viswanath, "The composition theorem for
differential privacy").

=============  ==========  =============================================================
epsilon        strength    said
=============  ==========  =============================================================
at most 1/10   strong      learns almost nothing
up to 1        strong      learns little
below 3        moderate    may learn something
3 to 10        weak        may learn a lot; shown in red
above 10       empty       no reassuring words; shown in red
=============  ==========  =============================================================
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from attrs import evolve, field, frozen

from privpac.display import Shown
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, WeakGuaranteeWarning
from privpac.exact import Rational, as_arb, exp_ball, rational, shown, up
from privpac.exact import one_of as one_of
from privpac.exact import positive_int as positive_int

RED_FROM, EMPTY_ABOVE = 3, 10
_LARGE_DELTA = Fraction(1, 100)


class Strength(StrEnum):
    """How much a promise is worth, from its numbers alone."""

    STRONG = "strong"
    MODERATE = "moderate"
    WEAK = "weak"
    EMPTY = "empty"

    @property
    def alarming(self) -> bool:
        """Whether it is shown in red."""
        return self in (Strength.WEAK, Strength.EMPTY)


def strength(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Strength:
    """By epsilon; a delta above 1 in 100 is weak at best.

    >>> [str(strength(Fraction(e))) for e in (1, 2, 3, 10, 11)]
    ['strong', 'moderate', 'weak', 'weak', 'empty']
    """
    if epsilon > EMPTY_ABOVE:
        return Strength.EMPTY
    if epsilon >= RED_FROM or delta > _LARGE_DELTA:
        return Strength.WEAK
    return Strength.STRONG if epsilon <= 1 else Strength.MODERATE


def learned(epsilon: Fraction, delta: Fraction = Fraction(0)) -> str:
    """What whoever sees the result may learn about one person, as a verb phrase."""
    found = strength(epsilon, delta)
    if found is Strength.EMPTY:
        return "may learn practically everything there is to learn"
    if found is Strength.WEAK:
        return "may learn a lot"
    if found is Strength.MODERATE:
        return "may learn something"
    return "learns almost nothing" if epsilon <= Fraction(1, 10) else "learns little"


def certainty(epsilon: Fraction) -> str:
    """How sure someone may become who was 50 % sure, to the nearest digit that tells it from certainty.

    >>> [certainty(Fraction(e)) for e in ("0", "0.1", "1", "3", "10", "100")]
    ['50 %', '52 %', '73 %', '95 %', '99.995 %', 'certainty']
    """
    if epsilon > 30:
        return "certainty"
    doubt = 1 / (1 + math.exp(float(epsilon)))
    digits = 0
    while round(doubt * 10 ** (digits + 2)) < 1:
        digits += 1
    scale = 10 ** (digits + 2)
    return f"{Decimal(scale - round(doubt * scale)).scaleb(-digits):f} %"


# What a promise is.
#
# ``Guarantee(epsilon, delta, unit, neighbours, model)`` means: for all neighbouring inputs ``x, x'`` and all events
# ``E``, ``Pr[M(x) in E] <= e**epsilon * Pr[M(x') in E] + delta``, in both orders.
#
# * ``unit``: whose data may change, a whole ``user`` or a single ``item``.
# * ``neighbours``: ``replace`` keeps the number of units (public) and changes one unit's data arbitrarily, the number
#   of its records included; ``add-remove`` lets one unit be present or absent, so **the number of units is private**.
# * ``model``: ``central`` (a curator sees the data), ``shuffle`` (the analyst sees a shuffled multiset of messages),
#   ``local`` (the report of one unit).
#
# Guarantees with different tags are never mixed silently, and nothing is ever rounded down.


class Unit(StrEnum):
    """Whose data are protected."""

    USER = "user"
    ITEM = "item"


class Neighbours(StrEnum):
    """Which datasets must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


class Model(StrEnum):
    """Who sees what."""

    CENTRAL = "central"
    SHUFFLE = "shuffle"
    LOCAL = "local"


@frozen(slots=False, init=False)
class Guarantee(Shown):
    """An (epsilon, delta) promise with its unit, neighbouring relation and model.

    Parameters
    ----------
    epsilon, delta : number
        The promise; a float means its shortest decimal.
    unit : {"user", "item"}
        Whose data are protected: people, or single records.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart.
    model : {"central", "local", "shuffle"}
        Who has to be trusted.
    rho : number, optional
        A zCDP parameter that is known to hold as well, where it says more.
    derivation : tuple of str
        How the promise was derived, a sentence for each step.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> g = Guarantee("0.5", unit="user", neighbours="add-remove")
    >>> str(g)
    '(0.5, 0)-DP per user, add-remove'
    >>> str(g.to_replace())
    '(1, 0)-DP per user, replace'
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    unit: Unit = field(kw_only=True)
    neighbours: Neighbours = field(kw_only=True)
    model: Model = field(kw_only=True, default=Model.CENTRAL)
    rho: Fraction | None = field(kw_only=True, default=None)
    derivation: tuple[str, ...] = field(kw_only=True, default=(), eq=False)

    def __init__(
        self,
        epsilon: Rational,
        delta: Rational = 0,
        *,
        unit: Unit | str,
        neighbours: Neighbours | str,
        model: Model | str = Model.CENTRAL,
        rho: Rational | None = None,
        derivation: tuple[str, ...] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "epsilon", rational(epsilon, "epsilon", minimum=0))
        put(self, "delta", rational(delta, "delta", minimum=0, below=1))
        put(self, "unit", one_of(Unit, unit, "unit"))
        put(self, "neighbours", one_of(Neighbours, neighbours, "neighbours"))
        put(self, "model", one_of(Model, model, "model"))
        put(self, "rho", None if rho is None else rational(rho, "rho", minimum=0))
        if isinstance(derivation, str) or not all(isinstance(step, str) for step in derivation):
            raise TypeError("derivation must be a tuple of texts, one for each step")
        put(self, "derivation", tuple(derivation))
        if self.epsilon > 10:
            warnings.warn(
                f"epsilon = {_show(self.epsilon)} promises very little; below 10 is advised",
                WeakGuaranteeWarning,
                stacklevel=2,
            )
        if self.delta >= Fraction(1, 1000):
            warnings.warn(
                f"delta = {_show(self.delta)} allows one record in a thousand to be published; use 1e-6 or less",
                WeakGuaranteeWarning,
                stacklevel=2,
            )

    # Order

    @property
    def tags(self) -> tuple[Unit, Neighbours, Model]:
        return (self.unit, self.neighbours, self.model)

    def require_same_tags(self, other: Guarantee) -> None:
        """``IncompatibleGuarantees`` unless both speak of the same unit, relation and model."""
        if not isinstance(other, Guarantee):
            raise TypeError(f"a guarantee is compared with another one, got {type(other).__name__}")
        if self.tags != other.tags:
            mine, theirs = " / ".join(self.tags), " / ".join(other.tags)
            raise IncompatibleGuarantees(
                f"{mine} and {theirs} are different promises; convert one of them explicitly first"
            )

    def implies(self, other: Guarantee) -> bool:
        """Whether this promise is at least as strong; refuses to compare different tags."""
        self.require_same_tags(other)
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    # Conversions

    def _derived(self, why: str, **changes: object) -> Guarantee:
        changes.setdefault("rho", None)
        values: dict[str, Any] = {name: getattr(self, name) for name in ("unit", "neighbours", "model")} | changes
        epsilon, delta = values.pop("epsilon", self.epsilon), values.pop("delta", self.delta)
        if delta >= 1:
            raise InfeasibleError(
                f"{why} would need delta = {_show(delta)} >= 1: no guarantee is left; start from a smaller delta"
            )
        return Guarantee(epsilon, delta, derivation=(*self.derivation, f"{self.summary}: {why}"), **values)

    def group(self, size: int) -> Guarantee:
        """For ``size`` units changing at once: ``(g e, d * (1 + e**e + ... + e**((g-1) e)))``.

        The chain ``A <= e**e B + d`` applied ``size`` times; ``g * d`` alone would be false.
        """
        g = positive_int(size, "size", maximum=1 << 64)
        rho = None if self.rho is None else self.rho * g * g
        return self._derived(
            f"group of {g}", epsilon=g * self.epsilon, delta=_chained(self.delta, self.epsilon, g), rho=rho
        )

    def to_replace(self) -> Guarantee:
        """From add-remove: one removal, then one addition, ``(2 e, (1 + e**e) d)``."""
        if self.neighbours is Neighbours.REPLACE:
            return self
        epsilon, delta = 2 * self.epsilon, _chained(self.delta, self.epsilon, 2)
        rho = None if self.rho is None else 4 * self.rho
        return self._derived(
            "replace is one removal and one addition",
            epsilon=epsilon,
            delta=delta,
            neighbours=Neighbours.REPLACE,
            rho=rho,
        )

    def to_add_remove(self) -> Guarantee:
        """Refused from replace: there the number of units is public, and a mechanism may print it."""
        if self.neighbours is Neighbours.ADD_REMOVE:
            return self
        raise IncompatibleGuarantees(
            "a replace guarantee says nothing about add-remove: the number of users is public under replace; "
            "build the learner with neighbours='add-remove' instead"
        )

    def item_to_user(self, max_records: int, *, exact: bool = False) -> Guarantee:
        """Group privacy over one user's records, with an *enforced* public cap on them.

        From item add-remove: ``group(cap)`` for user add-remove.  From item replace every user must hold exactly
        ``max_records`` records (pad with a public null record): pass ``exact=True`` to state that.
        """
        cap = positive_int(max_records, "max_records")
        if not isinstance(exact, bool):
            raise TypeError(f"exact must be True or False, got {type(exact).__name__}")
        if self.unit is not Unit.ITEM:
            raise IncompatibleGuarantees(
                "item_to_user starts from an item-level guarantee; this one protects users already"
            )
        if self.neighbours is Neighbours.REPLACE and not exact:
            raise IncompatibleGuarantees(
                "from item-level replace, every user must hold exactly max_records records (pad with a public null "
                "record, then pass exact=True); otherwise start from item-level add-remove"
            )
        return replace_unit(self.group(cap), Unit.USER)

    def to_central(self) -> Guarantee:
        """The analyst's view is a function of the reports.  From local, neighbours become ``replace``: any two values
        of one report."""
        if self.model is Model.CENTRAL:
            return self
        relation = Neighbours.REPLACE if self.model is Model.LOCAL else self.neighbours
        return self._derived(
            f"{self.model} reports seen by a central analyst", model=Model.CENTRAL, neighbours=relation, rho=self.rho
        )

    def to_shuffle(self) -> Guarantee:
        """From local, without amplification: shuffling is post-processing."""
        if self.model is Model.SHUFFLE:
            return self
        if self.model is not Model.LOCAL:
            raise IncompatibleGuarantees("only a local guarantee carries over to the shuffle model")
        return self._derived("shuffled local reports", model=Model.SHUFFLE, neighbours=Neighbours.REPLACE, rho=self.rho)

    def subsample(self, rate: Rational, scheme: str) -> Guarantee:
        """Amplification by secret sampling of *units*: ``(ln(1 + q (e**e - 1)), q d)``.

        ``without-replacement`` goes with ``replace`` (fixed size, public number of units), ``poisson`` with
        ``add-remove``.  The crossed pairs are false and refused.
        """
        q = rational(rate, "rate", above=0, maximum=1)
        pairs = {"without-replacement": Neighbours.REPLACE, "poisson": Neighbours.ADD_REMOVE}
        if not isinstance(scheme, str):
            raise TypeError(f"scheme must be text, got {type(scheme).__name__}")
        if scheme not in pairs:
            raise ParameterError(f"scheme must be 'without-replacement' or 'poisson', got {scheme!r}")
        if pairs[scheme] is not self.neighbours or self.model is not Model.CENTRAL:
            raise IncompatibleGuarantees(
                f"{scheme} sampling amplifies central {pairs[scheme]} guarantees only; this one is {self.model} "
                f"{self.neighbours}"
            )
        epsilon = self.epsilon
        if q == 1 or epsilon == 0:
            smaller = epsilon
        elif epsilon <= 1:
            smaller = up(lambda: (as_arb(q) * as_arb(epsilon).expm1()).log1p())
        else:  # the same number, without a power that could overflow
            smaller = up(lambda: as_arb(epsilon) + (as_arb(q) + as_arb(1 - q) * exp_ball(-epsilon)).log())
        return self._derived(
            f"{scheme} sampling at rate {shown(q)}", epsilon=min(smaller, epsilon), delta=q * self.delta
        )

    # Words

    @property
    def summary(self) -> str:
        model = "" if self.model is Model.CENTRAL else f", {self.model} model"
        return f"({_show(self.epsilon)}, {_show(self.delta)})-DP per {self.unit}, {self.neighbours}{model}"

    def __str__(self) -> str:
        return self.summary

    @property
    def strength(self) -> Strength:
        """How much these numbers are worth: strong, moderate, weak or empty."""
        return strength(self.epsilon, self.delta)

    @property
    def odds(self) -> str:
        """What the promise means for someone who had no idea: how sure they can become.

        >>> Guarantee(1, unit="user", neighbours="add-remove").odds
        'someone who was 50 % sure that a given person is in the data can become at most about 73 % sure'
        """
        one = "person" if self.unit is Unit.USER else "record"
        what = {
            Neighbours.ADD_REMOVE: f"that a given {one} is in the data",
            Neighbours.REPLACE: "which of two sets of records a given person has"
            if self.unit is Unit.USER
            else "which of two values a given record has",
        }[self.neighbours]
        end = certainty(self.epsilon)
        sure = "certain" if end == "certainty" else f"at most about {end} sure"
        return f"someone who was 50 % sure {what} can become {sure}"

    @property
    def short(self) -> str:
        """The promise as people say it; :attr:`summary` is the exact form.

        >>> Guarantee(1, "1e-6", unit="user", neighbours="add-remove").short
        'ε = 1, δ = 1e-06 for each person'
        """
        delta = f", δ = {_show(self.delta)}" if self.delta else ""
        model = "" if self.model is Model.CENTRAL else f", {self.model} model"
        return f"ε = {_show(self.epsilon)}{delta} for each {'person' if self.unit is Unit.USER else 'record'}{model}"

    @property
    def sentence(self) -> str:
        """The promise in one line: its number, and what it means.

        >>> Guarantee(4, unit="user", neighbours="add-remove").sentence.partition(":")[0]
        'ε = 4 for each person (a weak promise)'
        """
        weak = " (a weak promise)" if self.strength is Strength.WEAK else ""
        return f"{self.short}{' (no protection)' if self.strength is Strength.EMPTY else weak}: {self.odds}"

    def explain(self) -> str:
        """The promise in plain words that fit its numbers (``privpac.guarantee``), and how it was obtained."""
        who = "one person, with all records that person holds," if self.unit is Unit.USER else "one single record"
        change = {
            Neighbours.ADD_REMOVE: f"whether {who} is in the data at all",
            Neighbours.REPLACE: f"what {who} contributed"
            + (" (the number of people is public)" if self.unit is Unit.USER else ""),
        }[self.neighbours]
        sees = {
            Model.CENTRAL: "Whoever sees the result",
            Model.SHUFFLE: "Whoever sees the shuffled messages",
            Model.LOCAL: "Whoever sees one report",
        }[self.model]
        factor = _show(up(lambda: exp_ball(self.epsilon))) if self.epsilon < 700 else "e^" + _show(self.epsilon)
        lines = [
            self.summary,
            f"{sees} {learned(self.epsilon, self.delta)} about {change}: {self.odds}, because every outcome is at most "
            f"{factor} times as likely one way as the other.",
        ]
        if self.delta:
            lines.append(f"Apart from that, with probability at most {_show(self.delta)} nothing is promised at all.")
        if self.strength is Strength.EMPTY:
            lines.append(f"An epsilon above {EMPTY_ABOVE} is no protection to rely on: do not present it as one.")
        elif self.strength is Strength.WEAK:
            lines.append("This is a weak promise; weigh it with whoever answers for the people in the data.")
        if self.unit is Unit.ITEM:
            lines.append("This protects records, not people: someone with many records is protected much less.")
        if self.neighbours is Neighbours.ADD_REMOVE and self.model is Model.CENTRAL:
            try:
                lines.append(f"The same run also gives {self.to_replace().summary}.")
            except InfeasibleError:
                lines.append("Under the replace relation nothing follows: delta is too large.")
        lines += [f"How: {step}" for step in self.derivation]
        return "\n".join(lines)

    # Storage

    def to_dict(self) -> dict[str, Any]:
        """Rationals as text; the inverse of :meth:`from_dict`."""
        out: dict[str, Any] = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        out |= {"unit": str(self.unit), "neighbours": str(self.neighbours), "model": str(self.model)}
        if self.rho is not None:
            out["rho"] = str(self.rho)
        return out | ({"derivation": list(self.derivation)} if self.derivation else {})

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Guarantee:
        """What :meth:`to_dict` wrote, checked."""
        if not isinstance(values, Mapping) or not {"epsilon", "delta", "unit", "neighbours", "model"} <= values.keys():
            raise ParameterError("a stored guarantee must be an object with epsilon, delta, unit, neighbours and model")
        return Guarantee(
            values["epsilon"],
            values["delta"],
            unit=values["unit"],
            neighbours=values["neighbours"],
            model=values["model"],
            rho=values.get("rho"),
            derivation=tuple(values.get("derivation", ())),
        )


def _chained(delta: Fraction, epsilon: Fraction, steps: int) -> Fraction:
    """``delta * (1 + e**epsilon + ... + e**((steps - 1) epsilon))``, rounded up; 1 where it is plainly at least
    that."""
    if delta == 0 or steps == 1 or epsilon == 0:
        return steps * delta
    # The last term alone: delta e**((steps-1) epsilon) > 2**((steps-1) epsilon) / denominator.
    if steps * delta >= 1 or (steps - 1) * epsilon >= delta.denominator.bit_length():
        return Fraction(1)
    return up(lambda: as_arb(delta) * as_arb(steps * epsilon).expm1() / as_arb(epsilon).expm1())


def replace_unit(guarantee: Guarantee, unit: Unit) -> Guarantee:
    """The same numbers for another unit; the caller owes the proof."""
    return evolve(guarantee, unit=unit)


def _show(x: Fraction) -> str:
    """A rational as people write it: exact when short, else six significant digits, rounded up."""
    if x == 0:
        return "0"
    if x.denominator == 1 and x.numerator < 10**7:
        return str(x.numerator)
    rounded = _SIX_DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))
    return f"{float(rounded):.6g}" if -300 < rounded.adjusted() < 300 else f"{rounded.normalize(_SIX_DIGITS):e}"


_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
