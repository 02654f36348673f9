"""Special functions: logarithms near their edges, and those of scipy, which is loaded on their first call: it takes
longer to load than a small table to learn from, and most runs need none of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from typing import Any


def log_of(base: Fraction) -> float:
    """``ln(base)``, also for bases close to 1 and beyond the range of doubles."""
    return math.log1p(float(base - 1)) if base < 2 else math.log(base.numerator) - math.log(base.denominator)


def log_expm1(x: float) -> float:
    """``ln(e**x - 1)`` for any ``x >= 0``."""
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x)) if x > 0 else -math.inf


def log1p_exp(x: float) -> float:
    """``ln(1 + e**x)``."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _late(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = None

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module("scipy.special"), name)
        return found(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    return call


bdtr = _late("bdtr")
bdtrc = _late("bdtrc")
betainc = _late("betainc")
betaincc = _late("betaincc")
betainccinv = _late("betainccinv")
betaincinv = _late("betaincinv")
digamma = _late("digamma")
entr = _late("entr")
erfinv = _late("erfinv")
gammaln = _late("gammaln")
log_ndtr = _late("log_ndtr")
logsumexp = _late("logsumexp")
ndtr = _late("ndtr")
ndtri = _late("ndtri")
xlog1py = _late("xlog1py")
xlogy = _late("xlogy")


# Laws of ``scipy.stats``, imported on first use: that module alone takes as long to load as this package.


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _law(self) -> Any:
        return getattr(import_module("scipy.stats"), self._name)

    def __getattr__(self, method: str) -> Any:
        return getattr(self._law, method)

    def __call__(self, *parameters: Any) -> Any:
        return self._law(*parameters)


binom: Any = _Law("binom")
nbinom: Any = _Law("nbinom")
