"""The methods that a comparison runs, by name.

Every contender protects whole users at the same epsilon and for the same neighbours, or says that it protects nobody.
Given data sets it returns the excess error of what it would release: an expectation over the exact law where that is
affordable, else a few runs.

* the methods of :mod:`privpac.learners.registry`; ``default``, what ``learn`` runs; ``one-record`` and ``group``: the
  default on one record per user, and per record at ``epsilon / cap`` with at most ``cap`` records per user;
* ``dp-sgd`` and ``diffprivlib-…`` (``peers``);
* ``erm``: the best rule on the data set, and ``constant``: the better of "always" and "never" on the population;
  neither is private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np

from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.learners.registry import METHODS
from privpac.planning.comparison.contender import Contender, Setting
from privpac.planning.comparison.diffprivlib_models import MODELS
from privpac.planning.comparison.own_methods import WRAPPED, own_contender
from privpac.planning.comparison.peers import diffprivlib_model, dp_sgd
from privpac.planning.comparison.population import Floats64

__all__ = ["STANDARD", "all_contenders", "named_contenders"]

STANDARD = ("default", "mean", "one-record", "group", "dp-sgd", "diffprivlib", "erm", "constant")
"""What is compared when nothing is named; ``diffprivlib`` stands for all its models, both ways."""


def _erm(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    people = setting.population
    found = [people.excess_of(people.concept.erm(data)) for data in datasets]
    return np.tile(np.array(found)[None, :, None], (len(setting.epsilons), 1, 1))


def _constant(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    excess = setting.population.constant_error - setting.population.best_error
    return np.full((len(setting.epsilons), len(datasets), 1), excess)


_NOBODY: Callable[[Setting, Fraction], str] = lambda setting, epsilon: "none: not private"  # noqa: E731


def all_contenders() -> dict[str, Contender]:
    """All of them by name: the registry's methods as they are now, and the others."""
    listed = (
        *(own_contender(name) for name in (*WRAPPED, *METHODS)),
        dp_sgd(),
        *(diffprivlib_model(model, way) for model in MODELS for way in ("one", "group")),
        Contender("erm", "the best rule on the data set", "exact", _NOBODY, _erm),
        Contender("constant", 'the better of "always" and "never"', "exact", _NOBODY, _constant),
    )
    return {one.name: one for one in listed}


def named_contenders(methods: Iterable[str | Contender]) -> list[Contender]:
    """Contenders by name, or several by the name of their family: ``diffprivlib`` names all of its models."""
    known, found = all_contenders(), dict[str, Contender]()
    for method in methods:
        if isinstance(method, Contender):
            found[method.name] = method
            continue
        matching = [one for one in known.values() if method in (one.name, one.family)]
        if not matching:
            raise ParameterError(f"method must be one of {', '.join(known)} or diffprivlib; got {method!r}")
        found |= {one.name: one for one in matching}
    if not found:
        raise ParameterError("name at least one method to compare")
    return list(found.values())
