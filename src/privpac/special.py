"""Special functions of scipy, which is loaded on their first call: it takes longer to load than a small table to learn
from, and most runs need none of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = [
    "bdtr",
    "bdtrc",
    "betainc",
    "betaincc",
    "betainccinv",
    "betaincinv",
    "digamma",
    "entr",
    "erfinv",
    "gammaln",
    "log_ndtr",
    "logsumexp",
    "ndtr",
    "ndtri",
    "xlog1py",
    "xlogy",
]


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
