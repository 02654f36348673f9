"""Quantiles as they are published: values of the declared domain, and what is certain about their ranks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from attrs import frozen

from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.result import Saved, register

_Codes = tuple[int, ...]


@register("quantiles")
@frozen(slots=False)
class Quantiles(Saved):
    """Released quantiles of one column, ascending.

    With probability ``confidence`` all of this is true at once, for *these* people and whatever their data are: every
    value misses its rank by at most ``rank_error`` people (records, if those were counted) and a share ``rounding`` of
    all of them, and every interval holds the quantile itself.

    >>> from privpac.data import Integers
    >>> income = Quantiles("income", Integers(0, 99), (Fraction(1, 2),), (31,), (28,), (35,), Fraction(7, 2))
    >>> print(income)
    income: median 31 (28 to 35)
    >>> income.value, income.interval, income.off_by(700)
    (31, (28, 35), 0.005)
    """

    feature: str
    domain: Domain
    q: tuple[Fraction, ...]
    codes: _Codes
    lower_codes: _Codes | None = None
    upper_codes: _Codes | None = None
    rank_error: Fraction = Fraction(0)
    rounding: Fraction = Fraction(0)
    confidence: Fraction = Fraction(19, 20)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.domain, Domain) or not isinstance(self.feature, str):
            raise ParameterError("quantiles need the name of a column and its domain")
        if min(self.rank_error, self.rounding, self.confidence) < 0:
            raise ParameterError("what a quantile misses is at least 0")
        if not self.q or any(not 0 < one < 1 for one in self.q):
            raise ParameterError("quantiles are strictly between 0 and 1")
        for codes in (self.codes, self.lower_codes, self.upper_codes):
            if codes is None:
                continue
            for code in codes:
                positive_int(code, "a code", minimum=0, maximum=self.domain.size - 1)
            if len(codes) != len(self.q) or list(codes) != sorted(codes):
                raise ParameterError("one code is needed for every quantile, ascending")

    # What was found

    @property
    def values(self) -> tuple[Any, ...]:
        """One value for every ``q``, in the user's units."""
        return self._shown(self.codes)

    @property
    def intervals(self) -> tuple[tuple[Any, Any], ...] | None:
        """Around every quantile of these people, where they were asked for."""
        if self.lower_codes is None or self.upper_codes is None:
            return None
        return tuple(zip(self._shown(self.lower_codes), self._shown(self.upper_codes)))

    def _shown(self, codes: _Codes) -> tuple[Any, ...]:
        return tuple(self.domain.value(code) for code in codes)

    @property
    def value(self) -> Any:
        """The value, where one quantile was asked for."""
        return self.values[self._only()]

    @property
    def interval(self) -> tuple[Any, Any] | None:
        """Its interval, if there is one."""
        found = self.intervals
        return None if found is None else found[self._only()]

    def _only(self) -> int:
        if len(self.q) != 1:
            raise ParameterError(f"{len(self.q)} quantiles were released; take one as in result[{str(self.q[0])!r}]")
        return 0

    def __getitem__(self, q: Rational) -> Any:
        wanted = rational(q, "q")
        if wanted not in self.q:
            raise ParameterError(f"released are {', '.join(map(str, self.q))}; got {wanted}")
        return self.values[self.q.index(wanted)]

    def off_by(self, n_users: int) -> float:
        """By which share of the ranks a value may be off among so many people (records, if those were counted)."""
        missed = self.rank_error / positive_int(n_users, "n_users") + self.rounding
        return min(1.0, float(missed))

    # Words and storage

    def __str__(self) -> str:
        around = self.intervals
        shown = []
        for i, (one, code) in enumerate(zip(self.q, self.codes)):
            ends = ""
            if around is not None and self.lower_codes is not None and self.upper_codes is not None:
                ends = f" ({self.domain.text(self.lower_codes[i])} to {self.domain.text(self.upper_codes[i])})"
            shown.append(f"{_named(one)} {self.domain.text(code)}{ends}")
        return f"{self.feature}: {', '.join(shown)}"


def _named(q: Fraction) -> str:
    if q == Fraction(1, 2):
        return "median"
    percent = q * 100
    return f"{percent}% quantile" if percent.denominator == 1 else f"{q} quantile"
