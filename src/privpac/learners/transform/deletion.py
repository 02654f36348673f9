"""Deletion stability: any algorithm with a finite law, at user level, when removing a few users changes little.

Wrap an algorithm A that maps users to a law.  A set S of users is *stable* if the laws of A on all retained sets of ``n
- deleted`` users outside S are pairwise ``(eps_S, delta_S)``-close.  The distance to instability is the size of the
smallest stable S, at most ``ladder`` K (else ``K + 1``); behind the release test of
:mod:`privpac.mechanisms.certificate`, the answer is A on what is left after removing S and enough others, ``deleted >=
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import Any

from privpac.data import UserData
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, SchemaError, TooLargeError
from privpac.exact import Rational, as_arb, dyadic_base, exp_ball, rational, up
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import BOTTOM, Law
from privpac.learners.base import Learner
from privpac.learners.seats import read_slots, seat_users
from privpac.learners.selection.trimmed import no_release
from privpac.learners.transform.deletion_search import Kept, RetainedLaws, deletion_law, literal_law
from privpac.mechanisms.certificate import DEFAULT_FAILURE, ReleaseTest
from privpac.mechanisms.truncated_laplace import TruncatedLaplace
from privpac.parameters import read_epsilon
from privpac.released import Released
from privpac.rng import Rng

__all__ = ["MAX_LAWS", "DeletionStability"]

MAX_LAWS = 10**6
"""The most laws of the algorithm that may be asked for."""

MAX_PAIRS = 5 * 10**6
"""The most pairs of retained sets that may be compared."""


@dataclass(frozen=True, repr=False)
class _Users:
    """Users by number: a table, or a list of anything."""

    data: Any
    n: int

    def take(self, kept: Kept) -> Any:
        return self.data.take(list(kept)) if isinstance(self.data, UserData) else tuple(self.data[i] for i in kept)


@dataclass(frozen=True)
class DeletionStability(Learner):
    """``algorithm`` at user level: a function from users to a law, or a learner of this library.

    A function gets a tuple of users (or a ``UserData``, if that is what ``learn`` is given) and returns a ``Law`` or a
    mapping from values to weights.  ``select`` picks S among the stable sets: ``"uniform"``, ``"first"``, ``"last"`` or
    any function ``select(sets, users)``.  ``symmetric=True`` puts the users in order before the algorithm sees them, so
    that their order in the list does not matter; add-remove (``slots``, with ``neutral`` users in the empty ones) needs
    it, or a learner.  Where the algorithm fails, after the spend, there is no answer: try it with :meth:`law` on
    made-up users first.

    >>> def share_of_ones(users):
    ...     ones = sum(users)
    ...     return {1: ones + 1, 0: len(users) - ones + 1}
    >>> learner = DeletionStability(share_of_ones, 9, "0.2", ladder=2)
    >>> law = learner.law([0, 1, 1, 1, 1, 1, 1])
    >>> learner.deleted, law.mode, round(float(law.prob(1)), 3)
    (4, 1, 0.714)
    """

    algorithm: Any
    epsilon: Rational
    delta: Rational
    neighbours: Neighbours | str = Neighbours.REPLACE
    constants: str = field(kw_only=True, default="sharp")
    ladder: int | None = field(kw_only=True, default=None)
    deleted: int | None = field(kw_only=True, default=None)
    failure: Rational = field(kw_only=True, default=DEFAULT_FAILURE)
    select: Any = field(kw_only=True, default="uniform")
    symmetric: bool = field(kw_only=True, default=False)
    slots: int | None = field(kw_only=True, default=None)
    neutral: Any = field(kw_only=True, default=())
    max_laws: int = field(kw_only=True, default=MAX_LAWS)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not callable(self.algorithm) and not hasattr(self.algorithm, "law"):
            raise TypeError(
                f"algorithm must be a function from users to a law, or a learner, got {type(self.algorithm).__name__}"
            )
        put(self, "epsilon", read_epsilon(self.epsilon))
        put(self, "delta", rational(self.delta, "delta", above=0, below=1))
        put(self, "failure", rational(self.failure, "failure", minimum=0, below=1))
        put(self, "neighbours", one_of(Neighbours, self.neighbours, "neighbours"))
        put(self, "slots", read_slots(self.slots, Neighbours(self.neighbours)))
        put(self, "max_laws", positive_int(self.max_laws, "max_laws"))
        if self.constants not in ("sharp", "paper"):
            raise ParameterError(f"constants must be 'sharp' or 'paper', got {self.constants!r}")
        if not callable(self.select) and self.select not in ("uniform", "first", "last"):
            raise ParameterError(f"select must be 'uniform', 'first', 'last' or a function, got {self.select!r}")
        if not isinstance(self.symmetric, bool):
            raise TypeError(f"symmetric must be True or False, got {type(self.symmetric).__name__}")
        if self.slots is not None and not self.symmetric and not isinstance(self.algorithm, Learner):
            # One more user moves the others along the list, which an algorithm that reads the order would notice.
            raise ParameterError("slots need symmetric=True: users who come and go change the order of the list")
        if self.constants == "paper":
            if self.ladder is not None or self.deleted is not None or self.select != "uniform":
                raise ParameterError("constants='paper' fixes ladder, deleted and select; leave them out")
            put(self, "ladder", 2 * self._noise.kappa)
            put(self, "deleted", 4 * self._noise.kappa)
            return
        put(
            self, "ladder", self._test.ladder if self.ladder is None else positive_int(self.ladder, "ladder", minimum=0)
        )
        put(
            self,
            "deleted",
            2 * self._ladder if self.deleted is None else positive_int(self.deleted, "deleted", minimum=0),
        )
        if self._deleted < 2 * self._ladder:
            raise ParameterError(f"deleted must be at least 2 * ladder = {2 * self._ladder}, got {self.deleted}")

    # Public numbers

    @property
    def _ladder(self) -> int:
        assert self.ladder is not None
        return self.ladder

    @property
    def _deleted(self) -> int:
        assert self.deleted is not None
        return self.deleted

    @property
    def _third(self) -> Fraction:
        return rational(self.epsilon) / 3

    @property
    def _slack(self) -> Fraction:
        """``delta_S``: with ``(1 + e**eps_S)`` times it, half of delta (or the paper's ``delta0``); rounded down."""
        third = self._third
        if self.constants == "paper":
            return rational(self.delta) / up(lambda: exp_ball(2 * third) + exp_ball(third) + 2)
        return rational(self.delta) / (2 * up(lambda: exp_ball(third) + as_arb(1)))

    @property
    def _test(self) -> ReleaseTest:
        given: dict[str, Any] = {} if self.ladder is None else {"ladder": self.ladder}
        return ReleaseTest(
            self._third,
            rational(self.delta) / 2,
            failure=self.failure,
            unit=Unit.USER,
            neighbours=self.neighbours,
            **given,
        )

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
        return Guarantee(
            rational(self.epsilon),
            rational(self.delta),
            unit=Unit.USER,
            neighbours=Neighbours(self.neighbours),
            derivation=(how,),
        )

    def work(self, n_users: int) -> int:
        """Laws that may be asked for with so many users: sum over k of C(n, k) C(n - k, deleted - k)."""
        n = positive_int(n_users, "n_users", minimum=0)
        return sum(comb(n, k) * comb(n - k, self._deleted - k) for k in range(min(self._ladder, self._deleted) + 1))

    def _check(self, n: int) -> None:
        if n <= self._deleted:
            raise InfeasibleError(f"too few users: deleting {self._deleted} needs more than that many, got {n}")
        pairs = comb(comb(n, self._deleted), 2) if comb(n, self._deleted) <= 1 << 32 else MAX_PAIRS + 1
        if self.work(n) > self.max_laws or pairs > MAX_PAIRS:
            raise TooLargeError(
                f"{n} users with ladder {self._ladder} and {self._deleted} deleted need more than {self.max_laws} laws "
                f"or {MAX_PAIRS} "
                "comparisons; use TrimmedSelection, a shorter ladder or fewer users"
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
                f"data must be UserData (UserData.read, UserData.from_frame) or a list of users, got "
                f"{type(data).__name__}: subsets of "
                "users are tried one by one; TrimmedSelection runs on every engine"
            )
        self._check(n)
        if isinstance(seated, UserData) and isinstance(self.algorithm, Learner):
            # Public users without records: a learner that has no law at all is refused here, before the spend.
            self.algorithm.law(seat_users(seated.take([]), n - self._deleted))  # type: ignore[attr-defined]
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

        return RetainedLaws(users.n, self._deleted, law_of, dyadic_base(self._third), self._slack)

    def _law(self, users: _Users, *, strict: bool) -> Law:
        retained = self._retained(users, strict=strict)
        if self.constants == "paper":
            return literal_law(retained, self._noise)
        return deletion_law(retained, self._test, self.select, users.data)

    def law(self, data: Any) -> Law:
        """The exact law of the release, ``BOTTOM`` included (private: for the curator and for audits)."""
        return self._law(self.bind(data), strict=True)

    def draw(self, bound: _Users, rng: Rng) -> Released:
        value = self._law(bound, strict=False).sample(rng)
        shown: dict[str, Any] = {"ladder": self._ladder, "deleted": self._deleted, "constants": self.constants}
        shown |= {} if self.slots is None else {"slots": self.slots}
        if value is BOTTOM:
            return no_release(self.guarantee, shown, (), "deletion stability")
        return Released(self._decoded(bound, value), self.guarantee, shown, learner="deletion stability")

    def _decoded(self, users: _Users, value: Any) -> Any:
        """The rule a selection learner names, any other value as it is."""
        concept = getattr(self.algorithm, "concept", None)
        if concept is None or not isinstance(users.data, UserData):
            return value
        return concept.bind(users.data)[0].decode(value, users.data.label_name or "1")


def _weights(made: Any) -> Any:
    if not isinstance(made, Mapping):
        raise TypeError(
            f"the algorithm must return a Law or a mapping from values to weights, got {type(made).__name__}"
        )
    return made
