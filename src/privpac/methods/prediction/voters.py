"""Private prediction: answers to label queries over any domain, real numbers included, without releasing a rule.

A secret part T of the units gets labels that some rule of the class would give
(:mod:`privpac.methods.prediction.relabel`); T is cut into ``voters`` parts at random, and each part's least consistent
rule is a voter.  A query is answered with a noisy majority of the voters (:mod:`privpac.methods.prediction.session`).
Li, Wang and Ye, *Realizable-to-Agnostic*, Lemma 19 and Theorem 20, for one query.

**Guarantee, for all answers together.**  One unit of T lies in one part, so it changes one voter and every vote by at
most 1.  For any adaptive analyst the whole transcript of ``queries`` answers is therefore a randomised function of the
relabelled T that costs ``eps_A = min(queries * eps_v, conversion of queries * gamma**2/2 zCDP)``, and Theorem A
(replace) or B (add-remove) is applied to it once: :func:`service_spend`.  The guarantee is a
constant fixed before any data, spent as a whole when the session is made.

* replace: T has a fixed size and a uniform order, parts are balanced (the first ``t mod r`` one longer).
* add-remove: every record of T goes to an independent uniform part; couple the parts of the common records.
* ``epochs``: so many independent splits, each for an equal number of answers; their guarantees add up.

An empty part votes with rule 0, a public default; no rule that fits cannot happen with labels of the class and gives
rule 0 too.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import permutations, product
from math import factorial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import evolve, field, frozen
from flint import arb

from privpac.arrays import Bytes, Ints, Words
from privpac.bisection import last_between
from privpac.composition import zcdp_epsilon
from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, as_arb, rational, up
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law import Law
from privpac.law.numbers import Number, Quotient
from privpac.ledger import BudgetLedger, release
from privpac.methods.prediction.reduction_privacy import inner_budget, inner_delta, outer
from privpac.methods.prediction.relabel import BoundSplit, Relabelling, below
from privpac.methods.prediction.session import PredictionSession, vote_law
from privpac.parameters import bounds, fraction, fraction_or_none, named, probability_or_zero, whole
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.ledger import LedgerLike

_Codes = Mapping[str, Words]
# Private votes: what one noisy majority costs, what k adaptive ones cost, and how often they are wrong.
#
# ``r`` voters answer 0 or 1; with ``k`` ones the released answer is 1 with probability ``1/(1 + e**(-gamma (2k -
# r)))``. One changed voter moves ``k`` by at most 1, so one answer is
#
# * ``eps_v``-DP with ``eps_v = ln((1 + e**(gamma r)) / (1 + e**(gamma (r - 2))))``, exactly (Li, Wang and Ye,
#   *Realizable-to-Agnostic*, Lemma 19): the ratio of neighbouring answers grows with the smaller of the two votes, and
#   is largest between ``k = 0`` and ``k = 1`` for the answer 0;
# * ``gamma**2/2``-zCDP: two Bernoulli laws whose logits differ by ``2 gamma`` form an exponential family whose
#   log-partition function has second derivative at most 1/4, so the Renyi divergence of order ``a`` is at most ``a (2
#   gamma)**2 / 8``.
#
# The transcript of any adaptive analyst after ``k`` answers is a randomised function of the relabelled part alone.  It
# costs the smaller of ``(k eps_v, 0)`` and the optimal conversion of ``k gamma**2/2``-zCDP at ``delta_A``; Theorems A
# and B of :mod:`privpac.methods.prediction.reduction_privacy` are applied **once, to the whole transcript**.
# Multiplying the cost of a single query by ``k`` is wrong: the amplification by the share ``q`` is paid for once per
# split, not once per query.
#
# *Utility.*  If a share ``x`` of the votes is wrong on average over queries, the answer is wrong with probability at
# most ``env(x)``, the upper concave envelope of ``j/r -> 1/(1 + e**(-gamma (2j - r)))`` (Jensen).  Everything is
# rounded outward.

MAX_QUERIES = 1 << 40
MAX_VOTERS = 1 << 20
_GAMMA_BITS = 53


def vote_epsilon(gamma: Rational, voters: int) -> Fraction:
    """``eps_v`` of one answer, rounded up; below ``2 gamma``, and ``gamma`` itself for one voter.

    >>> float(vote_epsilon(1, 1)), round(float(vote_epsilon("0.5", 8)), 6)
    (1.0, 0.969563)
    """
    rate, r = _gamma(gamma), _read_voters(voters)
    if r == 1:
        return rate
    # (1 + e**x) / (1 + e**(x - 2 gamma)) with x = gamma r, in a form that neither cancels nor overflows.
    return min(2 * rate, up(lambda: _softplus(as_arb(rate * r)) - _softplus(as_arb(rate * (r - 2)))))


def vote_gamma(epsilon: Rational, voters: int) -> Fraction:
    """The largest ``gamma`` of 53 bits with ``vote_epsilon(gamma) <= epsilon``: between half of it and all of it."""
    target, r = rational(epsilon, "epsilon", above=0, maximum=10**6), _read_voters(voters)
    return _largest_below(lambda g: vote_epsilon(g, r) <= target, target / 2, target)


def vote_rho(gamma: Rational) -> Fraction:
    """The zCDP parameter of one answer."""
    return _gamma(gamma) ** 2 / 2


def transcript_epsilon(queries: int, gamma: Rational, voters: int, delta: Rational = 0) -> Fraction:
    """``eps_A`` of ``queries`` adaptive answers at ``delta_A = delta``: the pure sum or the zCDP conversion."""
    k, rate = positive_int(queries, "queries", maximum=MAX_QUERIES), _gamma(gamma)
    leak = rational(delta, "delta", minimum=0, below=1)
    pure = k * vote_epsilon(rate, voters)
    return pure if leak == 0 else min(pure, zcdp_epsilon(k * vote_rho(rate), leak, form="optimal"))


def gamma_for_transcript(queries: int, epsilon: Rational, voters: int, delta: Rational = 0) -> Fraction:
    """The largest ``gamma`` (rounded down) with which ``queries`` answers cost at most ``epsilon`` at ``delta``."""
    k = positive_int(queries, "queries", maximum=MAX_QUERIES)
    target = rational(epsilon, "epsilon", above=0, maximum=10**6)
    low = vote_gamma(target / k, voters)
    if rational(delta, "delta", minimum=0, below=1) == 0:
        return low
    high = low
    while transcript_epsilon(k, 2 * high, voters, delta) <= target:
        high *= 2
    return _largest_below(lambda g: transcript_epsilon(k, g, voters, delta) <= target, high, 2 * high)


def service_spend(
    queries: int,
    gamma: Rational,
    voters: int,
    *,
    neighbours: Neighbours | str,
    q: Rational,
    a: Rational,
    b: Rational,
    delta: Rational = 0,
    G: int = 2,
) -> tuple[Fraction, Fraction]:
    """``(eps_out, delta_out)`` of a split, a relabelling and ``queries`` adaptive answers, with ``delta_out <= delta``.

    ``delta_A`` is the largest one that keeps ``delta_out`` within ``delta`` for **every** ``eps_A`` (under replace
    ``delta/q``), so it does not depend on the number of answers.
    """
    inner = min(inner_delta(q, a, b, 0, delta, G, neighbours), Fraction(1, 2))
    pure = positive_int(queries, "queries", maximum=MAX_QUERIES) * vote_epsilon(gamma, voters)
    spent = transcript_epsilon(queries, gamma, voters, inner)
    # Where the pure line wins nothing is leaked.
    return outer(neighbours, q, a, b, spent, 0 if spent == pure else inner, G)


def most_queries(
    epsilon: Rational,
    gamma: Rational,
    voters: int,
    *,
    neighbours: Neighbours | str,
    q: Rational,
    a: Rational,
    b: Rational,
    delta: Rational = 0,
    G: int = 2,
) -> int:
    """``k_max``: the most answers with ``eps_out <= epsilon``, ``delta_out <= delta``; ``InfeasibleError`` if none."""
    target = rational(epsilon, "epsilon", above=0)

    def fits(k: int) -> bool:
        return service_spend(k, gamma, voters, neighbours=neighbours, q=q, a=a, b=b, delta=delta, G=G)[0] <= target

    if inner_budget(q, a, b, target, delta, G, neighbours) is None or not fits(1):
        raise InfeasibleError(
            "not even one answer fits into this epsilon: the split and the relabelling alone cost too much; lower q, "
            "a, b or gamma"
        )
    high = 1
    while high < MAX_QUERIES and fits(2 * high):
        high *= 2
    return last_between(fits, high, min(2 * high, MAX_QUERIES + 1))


def wrong_answer(mean_wrong: Rational, gamma: Rational, voters: int) -> Fraction:
    """``env(mean_wrong)``, rounded up: how often an answer differs from what an average share ``1 - mean_wrong`` of the
    voters say."""
    x, rate, r = rational(mean_wrong, "mean_wrong", minimum=0, maximum=1), _gamma(gamma), _read_voters(voters)

    def answer(j: int) -> arb:
        return 1 / (1 + (-as_arb(rate * (2 * j - r))).exp())

    # The sequence is convex up to r/2 and concave after: its envelope is one chord from 0, then the sequence itself.
    # So the envelope at x is the largest of the chords over x that start at 0 or just below x.
    place = x * r
    below = min(math.floor(place), r - 1)

    def envelope() -> arb:
        best = arb(0)
        for i in {0, below}:
            start = answer(i)
            for j in range(max(i + 1, math.ceil(place)), r + 1):
                best = best.max(start + as_arb((place - i) / (j - i)) * (answer(j) - start))
        return best

    return up(envelope)


def certified_voters(epsilon: Rational, alpha: Rational) -> int:
    """``ceil(6 ln(4/alpha) / eps_v)``: with ``gamma = eps_v/2`` and a mean wrong share ``alpha/4`` answers err at most
    ``alpha`` often."""
    target, goal = rational(epsilon, "epsilon", above=0), rational(alpha, "alpha", above=0, below=1)
    return math.ceil(up(lambda: 6 * as_arb(4 / goal).log() / as_arb(target)))


def fewest_voters(epsilon: Rational, alpha: Rational, mean_wrong: Rational | None = None) -> int:
    """The least ``r`` whose ``eps_v``-DP vote is wrong at most ``alpha`` often; ``mean_wrong`` defaults to ``alpha/4``.

    >>> [fewest_voters(1, alpha) for alpha in ("0.2", "0.1", "0.05")]
    [3, 5, 7]
    """
    goal = rational(alpha, "alpha", above=0, below=1)
    share = goal / 4 if mean_wrong is None else rational(mean_wrong, "mean_wrong", minimum=0, maximum=1)
    if share >= goal:
        raise InfeasibleError("the voters themselves are wrong more often than alpha; mean_wrong must be below alpha")
    # The certificate covers shares up to alpha/4; beyond it the scan may need more, and the envelope tends to 2 *
    # share.
    limit = 4 * certified_voters(epsilon, goal)
    for r in range(1, limit + 1):
        if wrong_answer(share, vote_gamma(epsilon, r), r) <= goal:
            return r
    raise InfeasibleError(
        "no number of voters reaches this alpha: the mean wrong share is too close to it; lower mean_wrong"
    )


def _gamma(value: Rational) -> Fraction:
    return rational(value, "gamma", above=0, maximum=10**6)


def _read_voters(value: int) -> int:
    return positive_int(value, "voters", maximum=MAX_VOTERS)


def _softplus(x: arb) -> arb:
    """``ln(1 + e**x)``."""
    return x + (-x).exp().log1p() if x > 0 else x.exp().log1p()


def _largest_below(holds: Callable[[Fraction], bool], low: Fraction, high: Fraction) -> Fraction:
    """The largest dyadic rational of 53 bits at which ``holds``, which is true at ``low``."""
    if holds(high):
        low = high
    shift = low.numerator.bit_length() - low.denominator.bit_length() - _GAMMA_BITS
    unit = Fraction(2) ** shift
    best = last_between(lambda m: holds(m * unit), math.floor(low / unit), math.ceil(high / unit) + 1)
    return best * unit


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

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, or ``epsilon`` does not cover the answers.

    Examples
    --------
    >>> from privpac.data import Integers
    >>> from privpac.rules import Thresholds
    >>> relabelling = Relabelling(Thresholds(Integers(0, 99)), 4, 1, eta="1/8", split_rate="1/2")
    >>> VotePredictor(relabelling, voters=3, gamma="1/2", queries=8).guarantee.neighbours
    <Neighbours.ADD_REMOVE: 'add-remove'>
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
        """The public numbers of one epoch's split, as :func:`service_spend` takes them."""
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
        shown: dict[str, int | str] = {"voters": self.voters, "gamma": str(self.gamma), "epochs": self.epochs}
        shown |= {"A": law.A, "B": law.B, "levels": law.levels}
        shown |= {"eta": str(law.eta)} if law.eta is not None else {"base": str(law.base)}
        if law.split_size is None:
            shown |= {"split_rate": str(law.split_rate)}
        else:
            assert law.public_n_users is not None
            shown |= {"split_size": law.split_size, "n_users": law.public_n_users}
        return shown | {"users": law.users} | ({} if law.max_records is None else {"max_records": law.max_records})

    # Learning

    def learn(self, data: Users, *, rng: Rng | None = None, ledger: LedgerLike | None = None) -> PredictionSession:
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
        ledger = None if ledger is None else BudgetLedger.of(ledger)
        spend_id = None if ledger is None else session_id
        session = cast("PredictionSession", release(self, data, rng=rng, ledger=ledger, label=label, spend_id=spend_id))
        if ledger is None:
            return session
        ledger.queries.open(session_id, self.queries)
        return evolve(session, session_id=session_id).on(ledger)

    def bind(self, data: Users) -> tuple[BoundSplit, str]:
        """Every check that can fail; nothing is spent yet."""
        return self.relabelling.bind(data), data.label_name or "1"

    def draw(self, bound: tuple[BoundSplit, str], rng: Rng) -> Released:
        """A session whose rules are fitted; raises for no reason that depends on the data."""
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
            voters=voters,
            secret=secrets.token_bytes(32),
            log=PredictionSession.in_memory(self.queries),
            rng=None if rng.secure else rng,
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


def _concept(bound: BoundSplit) -> ConceptClass:
    assert isinstance(bound.concept, ConceptClass)
    return bound.concept


def _balanced(n: int, r: int) -> Ints:
    """Parts of consecutive units: the first ``n mod r`` one longer."""
    sizes = np.full(r, n // r, dtype=np.int64)
    sizes[: n % r] += 1
    return np.repeat(np.arange(r, dtype=np.int64), sizes)


def _voters(concept: ConceptClass, part: UserData, places: Ints, r: int) -> tuple[int, ...]:
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


def consistent_rule(concept: ConceptClass, codes: _Codes, labels: Bytes) -> int:
    """The least id without a mistake; 0, a public default, where the class has none."""
    found = concept.consistent(*concept.deciding_records(codes, labels))
    return 0 if found is None else found


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
    columns = [queries] if len(names) == 1 else list(queries)  # one list for a class on one column, else one for each
    asked = {name: np.asarray(values, dtype=np.uint64) for name, values in zip(names, columns)}
    laws = [vote_law(ones, voters, gamma, base=base).as_finite() for ones in range(voters + 1)]
    chances = [{bit: _plain(law.number(int(bit))) for bit in "01"} for law in laws]
    shares: dict[tuple[int, ...], Chance] = {}  # votes on the queries -> probability
    for weight, given in relabelling.splits(bound.users, max_splits):
        arrangements = list(_arrangements(relabelling, len(given), voters, max_splits))
        for chance, part in relabelling.parts(bound, given, relabelling.unit, max_splits):
            for places in arrangements:
                ids = _voters(concept, part, places, voters)
                votes = tuple(int(v) for v in np.sum([concept.predictions(asked, voter) for voter in ids], axis=0))
                add = _times(_plain(chance), weight / len(arrangements))
                shares[votes] = _plus(shares[votes], add) if votes in shares else add
    answers: dict[str, Chance] = {}
    for votes, share in shares.items():
        for text, probability in _answers(votes, chances):
            add = _times(share, probability)
            answers[text] = _plus(answers[text], add) if text in answers else add
    return Law.mixture((share, Law.point(text)) for text, share in answers.items())


Chance = Fraction | Number
"""A probability: a rational where it is one, else a number of a law."""


def _plain(number: Number) -> Chance:
    return number if number.exact is None else number.exact


def _plus(a: Chance, b: Chance) -> Chance:
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else _number(a) + _number(b)


def _times(a: Chance, b: Chance) -> Chance:
    return a * b if isinstance(a, Fraction) and isinstance(b, Fraction) else _number(a) * _number(b)


def _number(value: Chance) -> Number:
    return Quotient.of(value) if isinstance(value, Fraction) else value


def _arrangements(relabelling: Relabelling, t: int, r: int, limit: int) -> Iterator[Ints]:
    """Equally likely assignments of the units of T to parts."""
    ordered = relabelling.neighbours is Neighbours.REPLACE
    if (factorial(min(t, 20)) if ordered else r ** min(t, 20)) > limit:
        raise TooLargeError(f"there are more than {limit} ways to cut T into parts; use fewer units or voters")
    if not ordered:
        yield from (np.array(places, dtype=np.int64) for places in product(range(r), repeat=t))
        return
    slots = _balanced(t, r)
    yield from (slots[list(order)] for order in permutations(range(t)))


def _answers(votes: tuple[int, ...], chances: Sequence[Mapping[str, Chance]]) -> list[tuple[str, Chance]]:
    """Texts of answers with their probabilities, given the votes."""
    parts: list[tuple[str, Chance]] = [("", Fraction(1))]
    for ones in votes:
        parts = [(text + bit, _times(chances[ones][bit], share)) for text, share in parts for bit in "01"]
    return parts
