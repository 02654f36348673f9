"""How far people would agree, before a run: on public or made-up people only.

**No privacy.**  The shares are computed from the people's items themselves; nothing of this may be done with people who
are to be protected.  What it is for: choosing ``Gamma``, grids and the number of records before a manifest is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.methods.agreement.agreement_learner import AgreedRule, AgreedRules, AgreementLearner
from privpac.rng import derive
from privpac.rules.base import ConceptClass
from privpac.rules.enumerated import Frozen

__all__ = ["SimulatedAgreement", "simulate_agreement"]


@dataclass(frozen=True)
class SimulatedAgreement:
    """What people named, for each of several seeds: the share of the most voted rule, of the two most voted, of people
    with nothing to say, and the error of the most voted rule on all records."""

    people: int
    shares: tuple[float, ...]
    two: tuple[float, ...]
    silent: float
    errors: tuple[float, ...]
    bits: int

    @property
    def share(self) -> float:
        """The mean share of the most voted rule."""
        return float(np.mean(self.shares))

    @property
    def error(self) -> float:
        """The mean error of the most voted rule."""
        return float(np.mean(self.errors)) if self.errors else 1.0

    def __str__(self) -> str:
        low = min(self.shares)
        return (
            f"{self.share:.0%} of {self.people} people name one rule ({low:.0%} for the worst of {len(self.shares)} "
            f"seeds), its error is {self.error:.3f}; {self.silent:.0%} have nothing to say; items of {self.bits} bits"
        )


def simulate_agreement(
    concept: ConceptClass | str,
    people: UserData,
    *,
    task: Mapping[str, int | str] | None = None,
    seeds: int = 8,
    min_records: int = 1,
    public: bool = False,
) -> SimulatedAgreement:
    """How far these people agree: measure before a run, on public or made-up people.

    Parameters
    ----------
    concept
        A class of rules, or the name of a kind of rule over all columns of the people.
    people
        Public or made-up people; never those who are to be protected.
    task
        Public parameters of the stable learner, such as ``{"Gamma": rate(60)}``.
    seeds
        Public seeds to try, the same in every call; a real run has one of its own.
    min_records
        Records below which a person has nothing to say.
    public
        Must be ``True``: says that the people are public or made up.
    """
    if public is not True:
        raise ParameterError("this shows people's own votes; say public=True, for public or made-up people")
    chosen = AgreedRules(concept, dict(people.features)) if isinstance(concept, str) else concept
    learner = AgreementLearner(chosen, epsilon=Fraction(1), task=dict(task or {}), min_records=min_records)
    bound = learner.bind(people)
    made, columns, table = learner.task_of(bound), learner.columns_of(bound), bound.users
    assert isinstance(table, UserData)
    assert table.labels is not None
    x = np.stack([table.codes[name] for name in columns], axis=1)
    y, ends = table.labels.astype(np.int64), table.offsets.tolist()
    shares, two, errors, silent = [], [], [], 0
    for j in range(positive_int(seeds, "seeds", maximum=1000)):
        seed = derive(bytes(32), "simulated", j)
        named = [made.learner.item(x[a:b], y[a:b], seed) for a, b in pairwise(ends)]
        votes = Counter(item for item in named if item is not None)
        silent += len(named) - sum(votes.values())
        top = votes.most_common(2)
        shares.append(top[0][1] / len(named) if top else 0.0)
        two.append(sum(count for _, count in top) / max(1, len(named)))
        if top:
            rule = AgreedRule(made.kind, Frozen(tuple(columns.items())), top[0][0], made.parameters)
            errors.append(float(np.mean(rule.predict_codes({name: table.codes[name] for name in columns}) != y)))
    count = max(1, len(ends) - 1)
    return SimulatedAgreement(
        len(ends) - 1, tuple(shares), tuple(two), silent / (seeds * count), tuple(errors), made.learner.universe.bits
    )
