"""Deletion stability: any algorithm with a finite law, at user level, when removing a few users changes little.

Wrap an algorithm A that maps users to a law.  A set S of users is *stable* if the laws of A on all retained sets of ``n
- deleted`` users outside S are pairwise ``(eps_S, delta_S)``-close.  The distance to instability is the size of the
smallest stable S, at most ``ladder`` K (else ``K + 1``); behind the release test of
:mod:`privpac.mechanisms.release_test`, the answer is A on what is left after removing S and enough others, ``deleted >=
2K`` in all.

**Guarantee** (Theorem H; Ghazi et al., *Few Examples*, Algorithm 1).  ``(eps_R + 2 eps_S, delta_R + (1 + e**eps_S)
delta_S)`` per user under replace, for *every* A, private or not, and every way of choosing S among the stable sets and
T around it. *Proof.*  Distance: with user i replaced, a stable S stays stable if i is in S, and S with i is stable
otherwise (pairs of a smaller retained set are pairs of a larger one), so it moves by at most 1.  Closeness: ``|S u S' u
{i}| <= 2K <= deleted`` leaves a retained set J* outside all of them, where both datasets agree, and A on any retained
set outside S (or S') is close to A on J*; triangle inequality, then Theorem G.

``constants="paper"`` runs Algorithm 1 literally: ``eps/3`` three times, ``delta0 = delta / (e**(2 eps/3) + e**(eps/3) +
2)``, a size of S drawn from truncated Laplace noise, ``deleted = 4 kappa``.

**This is for tiny numbers of users and for teaching.**  The work grows like binomial coefficients, deciding whether a
common S exists is vertex cover already for simple A, and an ordinary ``(1, 1e-6)`` needs a ladder of dozens.  Sizes are
refused from public numbers only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import comb
from typing import Any

from attrs import field, frozen

from privpac.data import UserData
from privpac.errors import (
    IncompatibleGuarantees,
    InfeasibleError,
    ParameterError,
    SchemaError,
    TooLargeError,
    Undecided,
)
from privpac.exact import as_arb, dyadic_base, exp_ball, up
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import BOTTOM, Law
from privpac.law.blocks import FiniteLaw
from privpac.law.numbers import Number, Quotient, sign_of_sum, sum_of
from privpac.mechanisms.release_test import DEFAULT_FAILURE, ReleaseTest
from privpac.mechanisms.truncated_laplace import TruncatedLaplace
from privpac.methods.base import Learner
from privpac.methods.trimmed import no_release, read_slots, seat_users
from privpac.parameters import (
    bounds,
    either,
    named,
    privacy,
    probability,
    probability_or_zero,
    relation,
    truth,
    whole,
    whole_or_none,
)
from privpac.result import Released
from privpac.rng import Rng

# The search behind deletion stability: laws on retained sets, exact closeness, smallest stable sets.
#
# Everything here is private: it is computed after the spend, and only the law built from it is ever sampled.


Kept = tuple[int, ...]
Select = Callable[[tuple[Kept, ...], Any], Kept]


# Closeness, decided exactly


def close(p: Law, q: Law, factor: Fraction, slack: Fraction) -> bool:
    """Whether ``P(E) <= factor Q(E) + slack`` and ``Q(E) <= factor P(E) + slack`` for all events E.

    What cannot be decided counts as apart: the verdict is a function of the two laws, which is all that the proof
    needs.
    """
    first, second = p.as_finite(), q.as_finite()
    try:
        return _one_way(first, second, factor, slack) and _one_way(second, first, factor, slack)
    except Undecided:
        return False


def _one_way(p: FiniteLaw, q: FiniteLaw, factor: Fraction, slack: Fraction) -> bool:
    over: list[Number] = [Quotient.of(-slack)]
    for count, a, b in _cells(p, q):
        excess = a + b * -factor
        if sign_of_sum(excess) > 0:
            over.append(excess * count)
    return sign_of_sum(sum_of(over)) <= 0


def _cells(p: FiniteLaw, q: FiniteLaw) -> list[tuple[int, Number, Number]]:
    """``(number of values, P, Q)`` over the common refinement of the blocks, and over the atoms."""
    edges = sorted({edge for law in (p, q) for block, _ in law.blocks for edge in (block.start, block.stop)})
    out = [(stop - start, p.number(start), q.number(start)) for start, stop in pairwise(edges)]
    return out + [(1, p.number(atom), q.number(atom)) for atom in {**p.atoms, **q.atoms}]


# The search


class RetainedLaws:
    """Laws of the algorithm on retained sets of ``n - deleted`` users, and which of them are close; everything is
    computed once."""

    def __init__(self, n: int, deleted: int, law_of: Callable[[Kept], Law], factor: Fraction, slack: Fraction) -> None:
        self.n, self.deleted, self.law_of = n, deleted, law_of
        self.factor, self.slack = factor, slack
        self.laws: list[Law] = []
        self._ids: dict[Kept, int] = {}
        self._known: dict[Hashable, int] = {}
        self._close: dict[tuple[int, int], bool] = {}

    def index(self, kept: Kept) -> int:
        """The number of the law on a retained set; equal rational laws share one."""
        if kept not in self._ids:
            law = self.law_of(kept)
            key = _signature(law)
            if key is None or key not in self._known:
                self._known[(kept,) if key is None else key] = len(self.laws)
                self.laws.append(law)
                self._ids[kept] = len(self.laws) - 1
            else:
                self._ids[kept] = self._known[key]
        return self._ids[kept]

    def near(self, i: int, j: int) -> bool:
        pair = (min(i, j), max(i, j))
        if i != j and pair not in self._close:
            self._close[pair] = close(self.laws[i], self.laws[j], self.factor, self.slack)
        return i == j or self._close[pair]

    def outside(self, removed: Kept) -> list[Kept]:
        """All retained sets that avoid some users."""
        left = [i for i in range(self.n) if i not in removed]
        return list(combinations(left, self.n - self.deleted))

    def stable(self, removed: Kept) -> bool:
        found = sorted({self.index(kept) for kept in self.outside(removed)})
        return all(self.near(i, j) for i, j in combinations(found, 2))

    def stable_sets(self, size: int) -> tuple[Kept, ...]:
        return tuple(removed for removed in combinations(range(self.n), size) if self.stable(removed))

    def answer(self, sets: Sequence[Kept]) -> Law:
        """S uniform among some sets, T around it uniform, then the algorithm on the rest."""
        shares: dict[int, Fraction] = {}
        for removed in sets:
            rest = self.outside(removed)
            for kept in rest:
                i = self.index(kept)
                shares[i] = shares.get(i, Fraction(0)) + Fraction(1, len(sets) * len(rest))
        return Law.mixture([(share, self.laws[i]) for i, share in shares.items()])


def _signature(law: Law) -> Hashable | None:
    """A key for equal rational laws."""
    finite = law.as_finite()
    blocks = tuple((block.start, block.stop, number.exact) for block, number in finite.blocks)
    atoms = frozenset((atom, number.exact) for atom, number in finite.atoms.items())
    return None if any(b[2] is None for b in blocks) or any(a[1] is None for a in atoms) else (blocks, atoms)


def _choose(select: str | Select, sets: tuple[Kept, ...], users: object) -> Sequence[Kept]:
    """The sets among which S is drawn uniformly: all of them, or the one a rule picks."""
    if select == "uniform":
        return sets
    if isinstance(select, str):
        return [sets[0 if select == "first" else -1]]
    try:
        picked = select(sets, users)
        return [picked if picked in sets else sets[0]]
    except Exception:  # a failing rule picks the first set: an error here would depend on the data
        return [sets[0]]


def deletion_law(
    retained: RetainedLaws, test: ReleaseTest, select: str | Select = "uniform", users: object = None
) -> Law:
    """The law of the release with Theorem H's constants."""
    for distance in range(test.ladder + 1):
        sets = retained.stable_sets(distance)
        if sets:
            return test.law(distance, retained.answer(_choose(select, sets, users)))
    return Law.point(BOTTOM)


def literal_law(retained: RetainedLaws, noise: TruncatedLaplace) -> Law:
    """The law of Algorithm 1: ``|S|`` drawn from the noise, S uniform among the stable sets of that size."""
    shares = noise.law()
    parts: list[tuple[Fraction, Law]] = []
    for size in range(2 * noise.kappa + 1):
        sets = retained.stable_sets(size)
        parts.append((shares.prob_exact(size), retained.answer(sets) if sets else Law.point(BOTTOM)))
    return Law.mixture(parts)


MAX_LAWS = 10**6
"""The most laws of the algorithm that may be asked for."""

_MAX_PAIRS = 5 * 10**6
"""The most pairs of retained sets that may be compared."""


@frozen(slots=False, repr=False)
class _Users:
    """Users by number: a table, or a list of anything."""

    data: Any
    n: int

    def take(self, kept: Kept) -> Any:
        return self.data.take(list(kept)) if isinstance(self.data, UserData) else tuple(self.data[i] for i in kept)


@frozen(slots=False, kw_only=True, field_transformer=named)
class Deletions:
    """How many users are set aside, and when that is stable.  All public.

    Parameters
    ----------
    constants : {"sharp", "paper"}
        ``"paper"`` fixes everything else.
    ladder : int, optional
        The length of the test's pass curve; by default the shortest that fails at most ``failure`` often.
    deleted : int, optional
        Users set aside; default twice the ladder.
    failure : number
        How often nothing may be released although the answer is stable.
    select : {"uniform", "first", "last"} or function
        Which of the stable sets is used; a function gets ``(sets, users)``.
    """

    constants: str = field(default="sharp", validator=either("sharp", "paper"))
    _ladder: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    _deleted: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    failure: Fraction = field(default=DEFAULT_FAILURE, converter=probability_or_zero)
    select: Any = "uniform"

    def __attrs_post_init__(self) -> None:
        if not callable(self.select) and self.select not in ("uniform", "first", "last"):
            raise ParameterError(f"select must be 'uniform', 'first', 'last' or a function, got {self.select!r}")
        planned = self._ladder is None and self._deleted is None and self.select == "uniform"
        if self.constants == "paper" and not planned:
            raise ParameterError("constants='paper' fixes ladder, deleted and select; leave them out")


@frozen(slots=False, field_transformer=named)
class DeletionStability(Deletions, Learner):
    """``algorithm`` at user level: a function from users to a law, or a learner of this library.

    Where the algorithm fails, after the spend, there is no answer: try it with :meth:`law` on made-up users first.

    Parameters
    ----------
    algorithm : function or Learner
        A function gets a tuple of users (or a ``UserData``, if that is what ``learn`` is given) and returns a ``Law``
        or a mapping from values to weights.
    epsilon, delta : number
        The privacy parameters.
    neighbours : {"replace", "add-remove"}
        The second needs ``slots``.
    symmetric : bool
        Whether users are put in order before the algorithm sees them, so that their order in the list does not matter;
        add-remove needs it, or a learner.
    slots : int, optional
        A public number of seats, under add-remove, with ``neutral`` users in the empty ones.
    neutral : user
        A user without data.
    max_laws : int
        How many laws of the algorithm may be asked for.

    Raises
    ------
    ParameterError
        A parameter is outside its range, or add-remove without ``slots``.

    Examples
    --------
    >>> def share_of_ones(users):
    ...     ones = sum(users)
    ...     return {1: ones + 1, 0: len(users) - ones + 1}
    >>> learner = DeletionStability(share_of_ones, 9, "0.2", ladder=2)
    >>> law = learner.law([0, 1, 1, 1, 1, 1, 1])
    >>> learner.deleted, law.mode, round(float(law.prob(1)), 3)
    (4, 1, 0.714)
    """

    algorithm: Any
    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(converter=probability)
    neighbours: Neighbours = field(default=Neighbours.REPLACE, converter=relation)
    symmetric: bool = field(kw_only=True, default=False, validator=truth)
    slots: int | None = field(kw_only=True, default=None)
    neutral: Any = field(kw_only=True, default=())
    max_laws: int = field(kw_only=True, default=MAX_LAWS, converter=whole)

    def __attrs_post_init__(self) -> None:
        Deletions.__attrs_post_init__(self)
        if not callable(self.algorithm) and not hasattr(self.algorithm, "law"):
            raise TypeError(
                f"algorithm must be a function from users to a law, or a learner, got {type(self.algorithm).__name__}"
            )
        read_slots(self.slots, self.neighbours)
        if self.slots is not None and not self.symmetric and not isinstance(self.algorithm, Learner):
            # One more user moves the others along the list, which an algorithm that reads the order would notice.
            raise ParameterError("slots need symmetric=True: users who come and go change the order of the list")
        if self.deleted < 2 * self.ladder:
            raise ParameterError(f"deleted must be at least 2 * ladder = {2 * self.ladder}, got {self.deleted}")

    # Public numbers

    @cached_property
    def ladder(self) -> int:
        return 2 * self._noise.kappa if self.constants == "paper" else self._test.ladder

    @cached_property
    def deleted(self) -> int:
        """How many users are set aside."""
        return 2 * self.ladder if self._deleted is None else self._deleted

    @property
    def _third(self) -> Fraction:
        return self.epsilon / 3

    @property
    def _slack(self) -> Fraction:
        """``delta_S``: with ``(1 + e**eps_S)`` times it, half of delta (or the paper's ``delta0``); rounded down."""
        third = self._third
        if self.constants == "paper":
            return self.delta / up(lambda: exp_ball(2 * third) + exp_ball(third) + 2)
        return self.delta / (2 * up(lambda: exp_ball(third) + as_arb(1)))

    @property
    def _test(self) -> ReleaseTest:
        tags: dict[str, Any] = {"unit": Unit.USER, "neighbours": self.neighbours}
        return ReleaseTest(self._third, self.delta / 2, ladder=self._ladder, failure=self.failure, **tags)

    @property
    def _noise(self) -> TruncatedLaplace:
        tags: dict[str, Any] = {"unit": Unit.USER, "neighbours": self.neighbours}
        kappa = TruncatedLaplace(self._third, self._slack, **tags).certified_kappa
        return TruncatedLaplace(self._third, self._slack, base=dyadic_base(self._third), kappa=kappa, **tags)

    @property
    def guarantee(self) -> Guarantee:
        how = f"deletion stability, {self.constants} constants" + (
            "" if self.slots is None else f", {self.slots} slots"
        )
        return Guarantee(self.epsilon, self.delta, unit=Unit.USER, neighbours=self.neighbours, derivation=(how,))

    def work(self, n_users: int) -> int:
        """Laws that may be asked for with so many users: sum over k of C(n, k) C(n - k, deleted - k)."""
        n = positive_int(n_users, "n_users", minimum=0)
        return sum(comb(n, k) * comb(n - k, self.deleted - k) for k in range(min(self.ladder, self.deleted) + 1))

    def _check(self, n: int) -> None:
        if n <= self.deleted:
            raise InfeasibleError(f"too few users: deleting {self.deleted} needs more than that many, got {n}")
        pairs = comb(comb(n, self.deleted), 2) if comb(n, self.deleted) <= 1 << 32 else _MAX_PAIRS + 1
        if self.work(n) > self.max_laws or pairs > _MAX_PAIRS:
            raise TooLargeError(
                f"{n} users with ladder {self.ladder} and {self.deleted} deleted need more than {self.max_laws} laws "
                f"or {_MAX_PAIRS} comparisons; use TrimmedSelection, a shorter ladder or fewer users"
            )

    # Users and laws

    def bind(self, data: Any) -> _Users:
        if isinstance(data, UserData):
            if data.unit is not Unit.USER:
                raise IncompatibleGuarantees(
                    "deletion stability protects users: name the user column when building UserData"
                )
            if isinstance(self.algorithm, Learner):
                self.algorithm.bind(data)
            elif self.slots is not None:
                raise ParameterError(
                    "with slots, the order of users must not matter: pass a list of users, or a learner of this library"
                )
            seated: Any = seat_users(data, self.slots)
            n = seated.n_users
        elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
            seated = (
                list(data) if self.slots is None else [*data[: self.slots], *[self.neutral] * (self.slots - len(data))]
            )
            n = len(seated)
            if self.symmetric:
                seated = self._ordered(seated)
        else:
            raise TypeError(
                "data must be UserData (UserData.read, UserData.from_frame) or a list of users, got "
                f"{type(data).__name__}: subsets of users are tried one by one; TrimmedSelection runs on every engine"
            )
        self._check(n)
        if isinstance(seated, UserData) and isinstance(self.algorithm, Learner):
            # Public users without records: a learner that has no law at all is refused here, before the spend.
            self.algorithm.law(seat_users(seated.take([]), n - self.deleted))  # type: ignore[attr-defined]
        return _Users(seated, n)

    @staticmethod
    def _ordered(users: list[Any]) -> list[Any]:
        try:
            hash(tuple(users))
            return sorted(users)
        except TypeError:
            raise SchemaError(
                "symmetric=True needs users that can be hashed and put in order, such as tuples of numbers"
            ) from None

    def _retained(self, users: _Users, *, strict: bool) -> RetainedLaws:
        compute = self.algorithm.law if hasattr(self.algorithm, "law") else self.algorithm

        def law_of(kept: Kept) -> Law:
            try:
                made = compute(users.take(kept))
                return (made if isinstance(made, Law) else Law.from_weights(_weights(made))).as_finite()
            except Exception:
                if strict:
                    raise
                # After the spend an error would be an output; an algorithm without a law there has no answer.
                return Law.point(BOTTOM)

        return RetainedLaws(users.n, self.deleted, law_of, dyadic_base(self._third), self._slack)

    def _law(self, users: _Users, *, strict: bool) -> Law:
        retained = self._retained(users, strict=strict)
        if self.constants == "paper":
            return literal_law(retained, self._noise)
        return deletion_law(retained, self._test, self.select, users.data)

    def law(self, data: Any) -> Law:
        """The exact law of the release, ``BOTTOM`` included (private: for the curator and for audits)."""
        return self._law(self.bind(data), strict=True)

    def draw(self, bound: _Users, rng: Rng) -> Released:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the algorithm says may depend on the data
            value = self._law(bound, strict=False).sample(rng)
        shown: dict[str, object] = {"ladder": self.ladder, "deleted": self.deleted, "constants": self.constants}
        shown |= {} if self.slots is None else {"slots": self.slots}
        if value is BOTTOM:
            return no_release(self.guarantee, shown, (), "deletion stability")
        return Released(self._decoded(bound, value), self.guarantee, shown, learner="deletion stability")

    def _decoded(self, users: _Users, value: object) -> Any:
        """The rule a selection learner names, any other value as it is."""
        concept = getattr(self.algorithm, "concept", None)
        if concept is None or not isinstance(users.data, UserData):
            return value
        return concept.bind(users.data)[0].decode(value, users.data.label_name or "1")


def _weights(made: object) -> Any:
    if not isinstance(made, Mapping):
        raise TypeError(
            f"the algorithm must return a Law or a mapping from values to weights, got {type(made).__name__}"
        )
    return made
