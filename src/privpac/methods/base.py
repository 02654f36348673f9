"""The shape of every learner.

Parameters in, ``guarantee`` known before any data, ``law(data)`` where the output is finite and affordable,
``learn(data, rng=None, ledger=None)`` to release.  :class:`Selection` holds what all selection learners share: a class
of rules, a per-user statistic bounded by an integer, and the exponential law over the summed scores.

*Privacy of a selection.*  Each user adds an integer in ``0..bound`` to the score of every rule, a function of that
user's records and public numbers only.  For neighbours ``x, x'`` let ``d_h`` be the change of the score of ``h``: it
lies in ``[0, bound]`` (or ``[-bound, 0]``) under add-remove and in ``[-bound, bound]`` under replace, so ``max d - min
d <= R`` with ``R = bound`` or ``2 * bound``, and weights ``e**(-(epsilon/R) * score)`` are epsilon-DP (the range rule).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import evolve, field, frozen

from privpac.composition import compose_basic
from privpac.data.users import check_users
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, positive_int
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import BOTTOM, Law
from privpac.law.blocks import whole_law
from privpac.law.sampling import Part, near_reach, sample_near, sample_steps
from privpac.law.weights import Weights
from privpac.ledger import release
from privpac.parameters import bounds, named, protected_unit, read_epsilon, relation, whole_or_none
from privpac.result import NoRelease, Released, rule_to_dict
from privpac.rng import Rng
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.profile import Profile, Statistic, Table

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.ledger import LedgerLike

ITEM_LEVEL = (
    "no user column: single records are protected, not people; someone with many records is protected much less"
)
WEAK = 10
"""Above this epsilon the promise is called weak."""

_LARGEST = 1 << 62
_SHOWN_BITS = 4096
_EPSILON_BITS = 3000
"""So that epsilon**2 can still be written to and read from a model file."""


class Learner(ABC):
    """Base of the learners: ``bind`` checks everything before a spend, ``draw`` touches data and coins after it.

    What ``bind`` makes is passed to ``draw`` and ``shown_as`` and is nobody else's: each learner has its own type.
    """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, known before any data."""

    @abstractmethod
    def bind(self, data: Users) -> Any:
        """Schema checks and warnings from public numbers; nothing is spent yet."""

    @abstractmethod
    def draw(self, bound: Any, rng: Rng) -> Released:
        """One release; raises for no reason that depends on the data."""

    def shown_as(self, bound: Any, value: object) -> tuple[str, str] | None:
        """What a release shows for a ``value`` of ``law``: its outcome, and what was selected as text.

        For audits, which draw and compare with the law; None where that cannot be said.
        """
        return None

    def learn(self, data: Users, *, rng: Rng | None = None, ledger: LedgerLike | None = None) -> Released:
        """Validate, spend, touch the data, return."""
        return release(self, data, rng=rng, ledger=ledger, label=type(self).__name__)


@frozen(slots=False, repr=False)
class Bound:
    """A class filled in with columns and domains, and the users bound to it."""

    concept: ConceptClass
    users: Users
    label: str

    @classmethod
    def of(cls, concept: ConceptClass, data: Users, unit: Unit, max_records: int | None) -> Bound:
        """The class bound to data of this unit, of which at most ``max_records`` records per user are kept."""
        check_users(data, unit)
        filled, users = concept.bind(data)
        if max_records is not None:
            users = users.max_records(max_records)
        return cls(filled, users, data.label_name or "1")


def _storable(epsilon: Rational) -> Fraction:
    exact = read_epsilon(epsilon, zero=True)
    if exact.denominator.bit_length() > _EPSILON_BITS:
        raise ParameterError(
            f"epsilon must be a rational of at most {_EPSILON_BITS} bits; write a decimal such as 0.25"
        )
    return exact


@frozen(slots=False, field_transformer=named)
class Selection(Learner):
    """What the selection learners share.  All parameters are public.

    Parameters
    ----------
    concept : ConceptClass
        The class of rules to choose from, such as ``Thresholds(Integers(0, 100))``.
    epsilon : number
        The privacy parameter, 0 to 10,000; a float is read as its shortest decimal.
    neighbours : {"add-remove", "replace"}
        Which datasets must be hard to tell apart; with the first (the default) the number of users is private.
    unit : {"user", "item"}
        Whose data are protected: people (the default), or single records.
    max_records : int, optional
        How many records of a user are read at most.  Default: all.
    """

    concept: ConceptClass
    epsilon: Fraction = field(converter=_storable)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    max_records: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=_LARGEST))
    scores_rules: ClassVar[bool] = True
    """Whether the learner scores rules one by one."""
    weighs_rules: ClassVar[bool] = False
    """Whether it uses the public weights of the class (``rules.priors``); else all rules weigh alike."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.concept, ConceptClass):
            raise TypeError(
                f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got "
                f"{type(self.concept).__name__}"
            )
        if self.scores_rules and not self.concept.scored:  # after the spend it would be too late to find out
            raise TooLargeError(
                f"rules of {type(self.concept).__name__} are not scored one by one; use method='agreement'"
            )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    def rate(self, epsilon: Fraction, bound: int) -> Fraction:
        """``eta = epsilon / R``; R = bound under add-remove (all scores move the same way), twice that under
        replace."""
        return epsilon / (bound if self.neighbours is Neighbours.ADD_REMOVE else 2 * bound)

    def bind(self, data: Users) -> Bound:
        return Bound.of(self.concept, data, self.unit, self.max_records)

    def release_rule(self, bound: Bound, law: Law, rng: Rng, parameters: dict[str, object], method: str) -> Released:
        """The rule that the law's one draw names, with its promise and the public parameters."""
        return self.release_id(bound, law.sample(rng), parameters, method)

    def release_id(self, bound: Bound, hypothesis: int, parameters: dict[str, object], method: str) -> Released:
        """The same for an id that was drawn."""
        rule: Rule = bound.concept.decode(hypothesis, bound.label)
        # Every number shown has a public bound on its digits, so that nothing can fail here, after the spend.
        shown: dict[str, object] = {"class": type(bound.concept).__name__, "size": _size(bound.concept.size)}
        cap = {} if self.max_records is None else {"max_records": self.max_records}
        return Released(
            rule, self.guarantee, parameters=shown | parameters | cap, warnings=self.warnings, learner=method
        )

    def shown_as(self, bound: Bound, value: object) -> tuple[str, str] | None:
        if value is BOTTOM:
            return "none", str(NoRelease)
        return ("released", str(bound.concept.decode(value, bound.label))) if isinstance(value, int) else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the result must know, from public numbers only."""
        weak = f"epsilon above {WEAK} promises very little"
        return (*((ITEM_LEVEL,) if self.unit is Unit.ITEM else ()), *((weak,) if self.epsilon > WEAK else ()))

    def with_(self, **changes: Any) -> Self:
        """The same learner with other parameters."""
        return evolve(self, **changes)


def profile_of(bound: Bound, statistic: Statistic) -> Profile:
    """The summed scores of bound users."""
    return bound.users.fold(bound.concept.kernel(statistic))


def drawn_id(
    bound: Bound,
    statistic: Statistic,
    eta: Fraction,
    rng: Rng,
    penalty: tuple[int, int] = (0, 0),
    weights: Weights | None = None,
) -> int:
    """An id drawn from the exponential law of the summed scores, without laying it out where it has millions of blocks.

    ``penalty``: the most that the users' optimism, and what in any case, is added to every score of the second score.
    ``weights``: the rules' own, if they do not weigh alike.
    """
    most, always = penalty

    def added(optimism: int) -> tuple[int, ...]:
        return (0, min(optimism, most) + always)[: statistic.n_scores]

    def parts() -> list[Part]:
        folded = profile_of(bound, statistic)
        more = added(folded.optimism)
        return [(s.offset, s.starts, s.end, s.scores, more[s.offset // bound.concept.size]) for s in folded.steps]

    count = statistic.n_scores * (bound.concept.size if weights is None else weights.total)
    reach = near_reach(eta, count)
    seen = bound.concept.survey(bound.users, statistic) if reach is not None else None
    near = seen.near(reach, added(seen.optimism)) if reach is not None and seen is not None else None
    del seen
    if reach is None or near is None:
        listed = parts()
        return sample_steps(listed, eta, rng, lambda: whole_law(listed, eta, weights), weights)
    return sample_near(near, eta, count, reach, rng, lambda: whole_law(parts(), eta, weights), weights)


class _Count:
    """The number of users, those without records included."""

    def zero(self) -> int:
        return 0

    def chunk(self, users: UserData) -> int:
        return users.n_users

    def merge(self, a: int, b: int) -> int:
        return a + b


def count_users(users: Users) -> int:
    """How many users there are: private under add-remove."""
    return users.fold(_Count())


# Public functions of a user's number of records


@frozen(slots=False)
class TotalTable:
    """A caller's function of the record count, made total: after the spend a failing call would be an output.

    It was tried on many counts before (``public_table``).  Where it fails all the same, or leaves ``minimum..2**62``,
    the count itself stands in; privacy holds for every function of the count.
    """

    function: Callable[[int], int]
    minimum: int

    def __call__(self, m: int) -> int:
        try:
            value = int(self.function(m).__index__())
        except Exception:
            value = m
        return min(max(value, self.minimum), _LARGEST)


def public_table(table: Table, name: str = "table", *, minimum: int = 0) -> Table:
    """A public constant, table ``{least count: value}`` or function of the record count, checked before any data."""
    if isinstance(table, Mapping):
        keys = [positive_int(key, f"a key of {name}", minimum=0) for key in table]
        if not keys or min(keys) > 1:
            raise ParameterError(
                f"{name} must say something for every count: add an entry for 1 record (each entry holds up to the "
                "next)"
            )
        return {
            key: positive_int(value, name, minimum=minimum, maximum=_LARGEST)
            for key, value in zip(keys, table.values())
        }
    if not callable(table):
        return positive_int(table, name, minimum=minimum, maximum=_LARGEST)
    if isinstance(table, TotalTable):
        return table
    for m in (*range(1, 65), *(1 << k for k in range(7, 41)), *((1 << k) + 1 for k in range(7, 41))):
        try:
            positive_int(table(m), f"{name}({m})", minimum=minimum)
        except (ParameterError, TypeError):
            raise
        except Exception as error:
            raise ParameterError(
                f"{name} must give an integer for every record count, but {name}({m}) fails ({type(error).__name__})"
            ) from None
    return TotalTable(table, minimum)


def shown_table(table: Table) -> object:
    """A public table as a result shows it."""
    if isinstance(table, Mapping):
        return {str(count): value for count, value in table.items()}
    return table if isinstance(table, int) else "a function of the record count"


def _size(size: int) -> int | str:
    """The number of rules, or its order of magnitude where it has thousands of digits."""
    return size if size.bit_length() <= _SHOWN_BITS else f"more than 2^{size.bit_length() - 1}"


# A second plan for learners that may answer "nothing", declared beforehand.
#
# A public constant costs nothing: replacing ``BOTTOM`` by it is post-processing.  A second learner is paid for whether
# or not it runs: the guarantee is the sum of both, announced before any data, because that it ran is known from the
# result.


@frozen(slots=False)
class WithFallback(Learner):
    """``inner``, and ``fallback`` where it gives no answer.

    Parameters
    ----------
    inner : Learner
        The learner that may give no answer.
    fallback : rule, value or Learner
        A public constant, which costs nothing, or a second learner, which is paid for whether or not it runs.

    Raises
    ------
    IncompatibleGuarantees
        A second learner promises another unit or relation than ``inner``.

    Examples
    --------
    >>> from privpac.papers.few_examples_per_user.deletion import DeletionStability
    >>> shy = DeletionStability(lambda users: {max(users): 1}, 1, "0.01", ladder=1)
    >>> released = WithFallback(shy, 0).learn([1, 2, 3])
    >>> released.outcome in ("default", "released"), str(released.guarantee)
    (True, '(1, 0.01)-DP per user, replace')
    """

    inner: Learner
    fallback: object

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.inner, Learner):
            raise TypeError(f"inner must be a learner of this library, got {type(self.inner).__name__}")
        if self.fallback is None:
            raise TypeError("fallback must be a public rule or value, or a learner; None was given")
        if isinstance(self.fallback, Learner):
            self.inner.guarantee.require_same_tags(self.fallback.guarantee)
        else:
            rule_to_dict(self.fallback)  # a constant that could not be saved is refused now, not after the spend

    @property
    def guarantee(self) -> Guarantee:
        first = self.inner.guarantee
        return compose_basic([first, self.fallback.guarantee]) if isinstance(self.fallback, Learner) else first

    def bind(self, data: Users) -> tuple[object, object]:
        return self.inner.bind(data), self.fallback.bind(data) if isinstance(self.fallback, Learner) else None

    def draw(self, bound: tuple[object, object], rng: Rng) -> Released:
        first, second = bound
        found = self.inner.draw(first, rng)
        if found:
            return evolve(found, guarantee=self.guarantee)
        if isinstance(self.fallback, Learner):
            return evolve(self.fallback.draw(second, rng), guarantee=self.guarantee)
        return evolve(found, value=self.fallback, outcome="default", warnings=found.warnings[:-1])
