"""Private prediction: answers to label queries over any domain, real numbers included, without releasing a rule.

A secret part T of the units gets labels that some rule of the class would give
(:mod:`privpac.methods.prediction.relabel`); T is cut into ``voters`` parts at random, and each part's least consistent
rule is a voter.  A query is answered with a noisy majority of the voters (:mod:`privpac.methods.prediction.session`).
Li, Wang and Ye, *Realizable-to-Agnostic*, Lemma 19 and Theorem 20, for one query.

**Guarantee, for all answers together.**  One unit of T lies in one part, so it changes one voter and every vote by at
most 1.  For any adaptive analyst the whole transcript of ``queries`` answers is therefore a randomised function of the
relabelled T that costs ``eps_A = min(queries * eps_v, conversion of queries * gamma**2/2 zCDP)``, and Theorem A
(replace) or B (add-remove) is applied to it once: ``methods.prediction.votes.service_spend``.  The guarantee is a
constant fixed before any data, spent as a whole when the session is made.

* replace: T has a fixed size and a uniform order, parts are balanced (the first ``t mod r`` one longer).
* add-remove: every record of T goes to an independent uniform part; couple the parts of the common records.
* ``epochs``: so many independent splits, each for an equal number of answers; their guarantees add up.

An empty part votes with rule 0, a public default; no rule that fits cannot happen with labels of the class and gives
rule 0 too.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import permutations, product
from math import factorial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law import Law
from privpac.law.numbers import Quotient
from privpac.ledger import release
from privpac.methods.base import Hushed
from privpac.methods.prediction.relabel import BoundSplit, Relabelling, below
from privpac.methods.prediction.session import PredictionSession, vote_law
from privpac.methods.prediction.votes import MAX_QUERIES, MAX_VOTERS, most_queries, service_spend
from privpac.parameters import bounds, fraction, fraction_or_none, named, probability_or_zero, whole
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.ledger import BudgetLedger

__all__ = ["PredictionSession", "VotePredictor", "consistent_rule", "transcript_law", "vote_law"]

Codes = Mapping[str, NDArray[np.uint64]]
MAX_EPOCHS = 1 << 10


@frozen(slots=False, field_transformer=named)
class VotePredictor:
    """Constants of a prediction service, all public; ``learn`` makes a :class:`PredictionSession`.

    Parameters
    ----------
    relabelling : Relabelling
        The split and the relabelling law.
    voters : int
        How many rules vote.
    gamma : number
        The rate at which a majority prevails.
    queries : int
        How many answers are given in all.
    delta : number
        The most that their guarantee may have; default 0.
    epochs : int
        Into how many equal stretches the queries fall; default 1.
    epsilon : number, optional
        What is promised and paid for, ``InfeasibleError`` if it does not cover the answers; left out, the promise is
        what they cost.
    """

    relabelling: Relabelling
    voters: int = field(converter=whole, metadata=bounds(maximum=MAX_VOTERS))
    gamma: Fraction = field(converter=fraction, metadata=bounds(above=0, maximum=1000))
    queries: int = field(converter=whole, metadata=bounds(maximum=MAX_QUERIES))
    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    epochs: int = field(default=1, converter=whole, metadata=bounds(maximum=MAX_EPOCHS))
    epsilon: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=0))

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.relabelling, Relabelling):
            raise TypeError(f"relabelling must be a Relabelling, got {type(self.relabelling).__name__}")
        if not isinstance(self.relabelling.concept, ConceptClass):
            raise ParameterError(
                f"voters are rules of a class such as Thresholds(Floats()), not of a "
                f"{type(self.relabelling.concept).__name__}"
            )
        if self.queries % self.epochs:
            raise ParameterError(f"queries must be a multiple of epochs = {self.epochs}, got {self.queries}")
        if self.epsilon is not None and self.cost[0] > self.epsilon:
            raise InfeasibleError(
                f"{self.queries} answers cost more than this epsilon; VotePredictor.filling finds how many it pays for"
            )

    @classmethod
    def filling(
        cls,
        relabelling: Relabelling,
        *,
        voters: int,
        gamma: Rational,
        epsilon: Rational,
        delta: Rational = 0,
        epochs: int = 1,
    ) -> VotePredictor:
        """As many answers as ``(epsilon, delta)`` pays for; ``InfeasibleError`` if not even one."""
        times = positive_int(epochs, "epochs", maximum=MAX_EPOCHS)
        probe = cls(relabelling, voters, rational(gamma, "gamma"), times, rational(delta, "delta"), times)
        target = rational(epsilon, "epsilon", above=0)
        each = most_queries(target / times, probe.gamma, probe.voters, **probe._split)
        return cls(
            relabelling, voters, probe.gamma, min(each, MAX_QUERIES // times) * times, probe.delta, times, target
        )

    # The promise

    @property
    def _split(self) -> dict[str, Any]:
        """The public numbers of one epoch's split, as ``methods.prediction.votes`` takes them."""
        law = self.relabelling
        costs = {"a": law.a, "b": law.b, "delta": self.delta / self.epochs, "G": law.labellings}
        return {"neighbours": law.neighbours, "q": law.share, **costs}

    @cached_property
    def cost(self) -> tuple[Fraction, Fraction]:
        """``(epsilon, delta)`` of all answers together, recomputed from the constants and rounded up."""
        epsilon, delta = service_spend(self.queries // self.epochs, self.gamma, self.voters, **self._split)
        return self.epochs * epsilon, self.epochs * delta

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all answers together, known before any data."""
        epsilon, delta = self.cost
        law, each = self.relabelling, self.queries // self.epochs
        how = f"{each} adaptive noisy majorities of {self.voters} voters from a secret relabelled part"
        steps = (how,) if self.epochs == 1 else (how, f"{self.epochs} independent splits add up")
        promised = epsilon if self.epsilon is None else self.epsilon
        return Guarantee(promised, min(delta, self.delta), unit=law.unit, neighbours=law.neighbours, derivation=steps)

    @property
    def parameters(self) -> dict[str, int | str]:
        """Public constants, for the session's description."""
        law = self.relabelling
        split = (
            {"split_rate": str(law.split_rate)}
            if law.split_size is None
            else {"split_size": law.split_size, "n_users": law.public_n_users}
        )
        rate = {"eta": str(law.eta)} if law.eta is not None else {"base": str(law.base)}
        shown = {
            "voters": self.voters,
            "gamma": str(self.gamma),
            "epochs": self.epochs,
            "A": law.A,
            "B": law.B,
            "levels": law.levels,
        }
        cap = {} if law.max_records is None else {"max_records": law.max_records}
        return cast("dict[str, int | str]", {**shown, **rate, **split, "users": law.users, **cap})

    # Learning

    def learn(self, data: Users, *, rng: Rng | None = None, ledger: BudgetLedger | None = None) -> PredictionSession:
        """Check the schema, spend the whole guarantee, then use the data; the session is counted by the ledger if there
        is one.

        Guarantees: as above.  Without a ledger the count lives in this process only.
        """
        size = self.relabelling.split_size
        if size is not None and size < self.voters:
            text = f"split_size = {size} leaves some of the {self.voters} voters without a record: they say the default"
            warnings.warn(text, AccuracyWarning, stacklevel=2)
        session_id = secrets.token_hex(16)
        name = type(self.relabelling.concept).__name__
        label = f"PredictionSession of {name}, {self.queries} answers"
        made: Any = release(
            Hushed(cast("Any", self)),
            data,
            rng=rng,
            ledger=ledger,
            label=label,
            spend_id=None if ledger is None else session_id,
        )
        if ledger is None:
            return cast("PredictionSession", made)
        ledger.queries.open(session_id, self.queries)
        return cast("PredictionSession", made)._named(session_id).on(ledger)

    def bind(self, data: Users) -> tuple[BoundSplit, str]:
        return self.relabelling.bind(data), data.label_name or "1"

    def draw(self, bound: tuple[BoundSplit, str], rng: Rng) -> Released:
        split, label = bound
        concept = _concept(split)
        voters = tuple(self.fit(split, rng) for _ in range(self.epochs))
        session = PredictionSession(
            concept,
            label,
            self.guarantee,
            self.parameters,
            self.queries,
            self.gamma,
            secrets.token_hex(16),
            _voters=voters,
            _secret=secrets.token_bytes(32),
            _log=PredictionSession.in_memory(self.queries),
            _rng=None if rng.secure else rng,
        )
        return cast("Released", session)

    def fit(self, bound: BoundSplit, rng: Rng) -> tuple[int, ...]:
        """The voters of one epoch, as ids: private, not even their number of distinct ones may be shown."""
        part = self.relabelling.draw(bound, rng)
        n, r = part.n_users, self.voters
        if self.relabelling.neighbours is Neighbours.REPLACE:
            places = _balanced(n, r)  # T comes in uniform order
        else:
            places = below(np.full(n, r), rng)
        return _voters(_concept(bound), part, places, r)

    def law(self, data: Users, queries: Any, *, max_splits: int = 20_000) -> Law:
        """The exact law of the answers to fixed queries, as texts of bits (private; for tiny data)."""
        return transcript_law(
            self.relabelling, data, queries, voters=self.voters, gamma=self.gamma, max_splits=max_splits
        )


# Voters


def _concept(bound: BoundSplit) -> ConceptClass:
    assert isinstance(bound.concept, ConceptClass)
    return bound.concept


def _balanced(n: int, r: int) -> NDArray[np.int64]:
    """Parts of consecutive units: the first ``n mod r`` one longer."""
    sizes = np.full(r, n // r, dtype=np.int64)
    sizes[: n % r] += 1
    return np.repeat(np.arange(r, dtype=np.int64), sizes)


def _voters(concept: ConceptClass, part: UserData, places: NDArray[np.int64], r: int) -> tuple[int, ...]:
    names = [name for name in concept.declared() if name is not None]
    assert part.labels is not None
    rows = np.repeat(places, part.sizes)
    order = np.argsort(rows, kind="stable")
    ends = np.searchsorted(rows[order], np.arange(r + 1))
    out = []
    for j in range(r):
        mine = order[ends[j] : ends[j + 1]]
        out.append(consistent_rule(concept, {name: part.codes[name][mine] for name in names}, part.labels[mine]))
    return tuple(out)


def consistent_rule(concept: ConceptClass, codes: Codes, labels: NDArray[np.uint8]) -> int:
    """The least id without a mistake; 0, a public default, where the class has none."""
    found = concept.consistent(*concept.deciding_records(codes, labels))
    return 0 if found is None else found


# Exact transcripts of tiny services


def transcript_law(
    relabelling: Relabelling,
    data: Users,
    queries: Any,
    *,
    voters: int,
    gamma: Rational | None = None,
    base: Rational | None = None,
    max_splits: int = 20_000,
) -> Law:
    """The law of the answers to fixed queries (each answered anew), over splits, labellings, parts and answers: all of
    them enumerated."""
    bound = relabelling.bind(data)
    concept = _concept(bound)
    names = [name for name in concept.declared() if name is not None]
    asked = {name: np.asarray(values, dtype=np.uint64) for name, values in zip(names, _query_codes(concept, queries))}
    laws = [vote_law(ones, voters, gamma, base=base).as_finite() for ones in range(voters + 1)]
    chances = [{bit: _plain(law.number(int(bit))) for bit in "01"} for law in laws]
    shares: dict[tuple[int, ...], Any] = {}  # votes on the queries -> probability
    for weight, given in relabelling.splits(bound.users, max_splits):
        arrangements = list(_arrangements(relabelling, len(given), voters, max_splits))
        for chance, part in relabelling.parts(bound, given, relabelling.unit, max_splits):
            for places in arrangements:
                ids = _voters(concept, part, places, voters)
                votes = tuple(int(v) for v in np.sum([concept.predictions(asked, voter) for voter in ids], axis=0))
                add = _times(_plain(chance), weight / len(arrangements))
                shares[votes] = _plus(shares[votes], add) if votes in shares else add
    answers: dict[str, Any] = {}
    for votes, share in shares.items():
        for text, chance in _answers(votes, chances):
            add = _times(share, chance)
            answers[text] = _plus(answers[text], add) if text in answers else add
    return Law.mixture((share, Law.point(text)) for text, share in answers.items())


def _plain(number: Any) -> Any:
    """A probability as a rational where it is one."""
    exact = getattr(number, "exact", None)
    return number if exact is None else exact


def _plus(a: Any, b: Any) -> Any:
    """Rationals stay rationals; with anything else they become numbers of a law."""
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else _number(a) + _number(b)


def _times(a: Any, b: Any) -> Any:
    return a * b if isinstance(a, Fraction) and isinstance(b, Fraction) else _number(a) * _number(b)


def _number(value: Any) -> Any:
    return Quotient.of(value) if isinstance(value, Fraction) else value


def _query_codes(concept: ConceptClass, queries: Any) -> Sequence[Any]:
    """Codes per column: one list for a class on one column, else a list for each."""
    columns = [name for name in concept.declared() if name is not None]
    return [queries] if len(columns) == 1 else list(queries)


def _arrangements(relabelling: Relabelling, t: int, r: int, limit: int) -> Iterator[NDArray[np.int64]]:
    """Equally likely assignments of the units of T to parts."""
    replace = relabelling.neighbours is Neighbours.REPLACE
    if (factorial(min(t, 20)) if replace else r ** min(t, 20)) > limit:
        raise TooLargeError(f"there are more than {limit} ways to cut T into parts; use fewer units or voters")
    if not replace:
        yield from (np.array(places, dtype=np.int64) for places in product(range(r), repeat=t))
        return
    slots = _balanced(t, r)
    yield from (slots[list(order)] for order in permutations(range(t)))


def _answers(votes: tuple[int, ...], chances: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Texts of answers with their probabilities, given the votes."""
    parts: list[tuple[str, Any]] = [("", Fraction(1))]
    for ones in votes:
        parts = [(text + bit, _times(chances[ones][bit], share)) for text, share in parts for bit in "01"]
    return parts
