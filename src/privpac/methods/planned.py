"""What may be planned for: the goal of a rule as public numbers, of which certificates are functions, and targets.

A target says what is wanted, which methods are known for it, what can be simulated of them, and which one to use.  It
is a frozen value of public numbers and stands with the method, or the family, that it is about.  One
:class:`PlannedMethod` for each line of its plan; the plan itself (:mod:`privpac.planning.plans`) knows of no particular
target.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from attrs import evolve, field, frozen

from privpac.data import Domain
from privpac.data.domains import domain_text
from privpac.errors import InfeasibleError, ParameterError, PrivpacError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Neighbours
from privpac.methods.base import Learner
from privpac.methods.registry import COMMON, METHODS, Choice, PlannedMethod, build_learner, flag, learner_options
from privpac.methods.registry import setting_text as setting_text
from privpac.parameters import probability, probability_or_zero, read_epsilon, relation
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.named import name_of
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.methods.simulation import Simulation
    from privpac.rules.base import ConceptClass
    from privpac.rules.populations import Population


@frozen(slots=False)
class _Sizes:
    """What a certificate of selection reads of a class."""

    size: int
    effective_size: int
    log_size: float
    bits: int
    cut_direction: str | None


@frozen(slots=False)
class RuleGoal:
    """Excess error ``alpha`` with probability ``1 - beta`` for a rule of the class, at ``epsilon``.

    ``users`` (what is declared about the people), ``model_noise`` and ``population`` set the model of predictions and
    are no part of a certificate.
    """

    concept: ConceptClass
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None = None
    users: str | None = None
    population: Population | None = None
    model_noise: Fraction | None = None
    every_method: bool = False
    """Whether methods that are not recommended are planned too."""
    representation: str | None = None
    """A public set that stands in for the class, by name."""
    within: int | None = None
    """Ask whether exactly so many users are enough: an inverse plan."""

    @property
    def delta(self) -> Fraction:
        """All methods for rules are pure."""
        return Fraction(0)

    @property
    def theta(self) -> Fraction:
        return self.epsilon if self.neighbours is Neighbours.ADD_REMOVE else self.epsilon / 2

    @property
    def on_a_line(self) -> bool:
        return self.concept.cut_direction not in (None, "both")

    @property
    def bounded_noise(self) -> bool:
        """Whether certificates for a bounded noise rate apply."""
        return self.noise is not None and self.on_a_line

    @property
    def accuracy(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def wanted(self) -> dict[str, Any]:
        """What most certificates take."""
        return {**self.accuracy, "epsilon": self.epsilon, "neighbours": self.neighbours}

    @property
    def numbers(self) -> RuleGoal:
        """This goal without the class, of which only the sizes matter, and without the people."""
        own = self.concept
        sizes: Any = _Sizes(own.size, own.effective_size, own.log_size, own.bits, own.cut_direction)
        return RuleGoal(
            sizes, self.epsilon, self.alpha, self.beta, self.neighbours, noise=self.noise, within=self.within
        )


def kept_by_numbers(certify: Callable[[RuleGoal, int], Certificate]) -> Callable[[RuleGoal, int], Certificate]:
    """The certificates found are kept by the public numbers they are functions of: a page of plans, an inverse plan and
    the next question ask for many of them again."""
    found = lru_cache(maxsize=1 << 12)(certify)

    @wraps(certify)
    def of_numbers(goal: RuleGoal, m: int) -> Certificate:
        return found(goal.numbers, m)

    return of_numbers


# One line of a plan with its numbers, whichever of the three questions it answers.


_TINY = Fraction(1, 10**6)
MOST = 10**9
"""People, and records of one person, beyond which a plan says that nobody has them."""


@frozen(slots=False)
class PlanRow:
    """One method: a number for each number of records per user, None where there is none.

    ``quantity`` says what the ``values`` are: "users" needed, or the least "alpha" or "epsilon" for so many users.
    ``kind``: "certified" (enough), "lower bound" (less is not) or "predicted" (on the model that ``assumption`` names).
    """

    method: str
    kind: str
    assumption: str
    values: tuple[Any, ...]
    note: str = ""
    states: str = ""
    """Of a prediction: what is so at these numbers (a mean, not a probability)."""
    standard_error: float | None = None
    """Of a prediction, as a share; 0 where every comparison was clear."""
    quantity: str = "users"
    key: str = field(default="", repr=False, eq=False)
    """The method itself: rows on several assumptions share it."""
    certificates: tuple[Certificate | None, ...] = field(default=(), eq=False, repr=False)
    """Of numbers of users; those of a least value are made again at the value found."""
    reason: str = ""
    """Why there is no number though one is proved: nobody has so many people or records."""

    @property
    def n_users(self) -> tuple[int | None, ...]:
        """The values, where they are numbers of users."""
        return self.values if self.quantity == "users" else ()

    def to_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"method": self.method, "kind": self.kind, "assumption": self.assumption}
        if self.quantity == "users":
            shown |= {"n_users": list(self.values), "note": self.note}
            shown |= {"reason": self.reason} if self.reason else {}
        else:
            shown |= {"values": [None if value is None else float(value) for value in self.values]}
        if self.standard_error is None:
            return shown
        return {**shown, "note": self.note, "states": self.states, "standard_error": self.standard_error}

    def words(self) -> str:
        """What the row rests on, in a line."""
        said = [f"assumes {self.assumption}" if self.assumption else "", self.note, self.reason]
        return ": ".join([self.method, *filter(None, ["; ".join(filter(None, said))])])

    def cells(self) -> list[str]:
        """The numbers as they are printed."""
        cells = ["-" if value is None else written(value, self.quantity) for value in self.values]
        for place, certificate in enumerate(self.certificates):
            if certificate is not None and certificate.n_users is not None and self.values[place] is None:
                cells[place] = "> 10^9"
        return cells


def written(value: Any, quantity: str) -> str:
    """A number as it is printed."""
    if quantity == "users":
        return f"{round(value):,}"
    return f"{float(value):.3g}" if value >= _TINY else "< 1e-6"


class OutOfReach(InfeasibleError):
    """More people or records than anybody has: a plan then says so instead of the number."""

    def __init__(self, what: str) -> None:
        super().__init__(f'not within 10^9 {what}; why: docs/choosing.md, "Numbers that nobody has"')


STANDARD_RECORDS = (1, 4, 16, 64, 256)
"""Numbers of records per user that are planned for when none is declared."""


@frozen(slots=False)
class Asked:
    """The question behind a plan, so that a recommendation, costs and predictions can be made when they are looked
    at."""

    target: Target
    setting: str | None = None
    n_users: int | None = None
    every_method: bool = False
    """Whether all rows are printed, or those that answer the question."""
    source: tuple[str, ...] = ()
    """How the class was written on the command line, where its name and domains do not say."""


class PlanView(Protocol):
    """What a target reads of its plan."""

    @property
    def asked(self) -> Asked | None: ...
    @property
    def quantity(self) -> str: ...
    @property
    def records_per_user(self) -> tuple[int, ...]: ...
    @property
    def rows(self) -> tuple[PlanRow, ...]: ...
    @property
    def place(self) -> int: ...
    def written(self, value: object) -> str: ...


class Target(ABC):
    """What is wanted at ``epsilon``: a loss of at most ``alpha`` with probability ``1 - beta``."""

    if TYPE_CHECKING:  # fields or properties of the concrete ones

        @property
        def epsilon(self) -> Fraction: ...
        @property
        def alpha(self) -> Fraction: ...
        @property
        def beta(self) -> Fraction: ...
        @property
        def delta(self) -> Fraction: ...
        @property
        def neighbours(self) -> Neighbours: ...
        @property
        def concept(self) -> Any: ...  # of rules alone

    measure: ClassVar[str] = "excess error"
    """What ``alpha`` bounds."""
    usual_alpha: ClassVar[Fraction] = Fraction(1, 20)
    slow: ClassVar[bool] = False
    """Whether a certificate takes a second: curves then have fewer points."""
    drawn_records: ClassVar[tuple[int, ...]] = STANDARD_RECORDS
    """Numbers of records per user at which curves are drawn."""

    @property
    def _goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    # What is known

    @abstractmethod
    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        """The lines of the plan, perhaps for one setting only."""

    def method(self, name: str, setting: str | None = None) -> PlannedMethod:
        """The line with a name."""
        return next(method for method in self.methods(setting) if method.name == name)

    def certified_users(self, name: str, records_per_user: int, setting: str | None = None) -> int | None:
        """Users of the line with a name; None where there is no such line, or no number."""
        try:
            known = [method for method in self.methods(setting) if method.name == name]
            return known[0].certify(records_per_user).n_users if known else None
        except (ParameterError, TooLargeError):
            return None

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        """What is predicted on a stated model."""
        return []

    def exactly(self, n_users: int) -> Self:
        """The same target where only whether exactly so many users are enough is asked: for learners that follow the
        number of users, and for dear certificates."""
        return self

    def rivals(self, method: str) -> Sequence[str]:
        """Other methods, by key, for the same labels as the recommended one: a better certificate of theirs is shown
        beside its own."""
        return ()

    # What is said

    def certain_if(self, setting: str | None) -> str:
        """What a certified number of a setting takes, as the end of a sentence."""
        return "whatever they are like under the assumption below"

    @property
    def shown(self) -> dict[str, str]:
        """What is planned for in words, for a title."""
        return {}

    def stated(self, given: Mapping[str, object]) -> dict[str, str]:
        """The question in words; ``given`` are its numbers as they were given."""
        typed = {name: setting_text(value) for name, value in given.items()}
        numbers: dict[str, str] = {name: typed[name] for name in ("users", "epsilon", "alpha") if name in typed}
        if self.delta > 0:
            numbers["delta"] = f"{float(self.delta):g}"
        rest = {"beta": typed["beta"], "neighbours": str(self.neighbours)}
        return {**self.shown, **numbers, **rest, **({"noise": typed["noise"]} if "noise" in typed else {})}

    @property
    def note(self) -> str:
        """What is left out of the plan, and why."""
        return ""

    def remark(self, plan: PlanView) -> str:
        """The note, or which method to name."""
        return self.note

    def annotated(self, rows: Sequence[PlanRow], sizes: Sequence[int]) -> tuple[PlanRow, ...]:
        """The rows of a plan with remarks that take several of them."""
        return tuple(rows)

    def recommend(self, plan: PlanView) -> Choice:
        """The method for the middle one of the numbers of records per user: the one with the best certified number."""
        m = plan.records_per_user[plan.place]
        held = f"with {m:,} record{'s' * (m != 1)} per user"
        numbers = {row.method: row.values[plan.place] for row in plan.rows if row.kind == "certified"}
        known = sorted(
            ((float(value), method) for method, value in numbers.items() if value is not None), key=lambda pair: pair[0]
        )
        if not known:
            return Choice(next(iter(numbers), "none"), f"nothing is certified {held}")
        compared = ", ".join(f"{method} {plan.written(value)}" for value, method in known)
        return Choice(known[0][1], f"the least certified {plan.quantity} {held}: {compared}", "least")

    # How it is looked at

    def quick(self, plan: PlanView) -> bool:
        """Whether the predictions of a plan take a moment only, judged from the sizes asked for."""
        assert plan.asked is not None
        return all(made.quick for made in self.simulations(plan.asked.setting))

    @property
    def drawn(self) -> Self:
        """The target whose curves are drawn."""
        return self

    def changed(self, **numbers: object) -> Self:
        """The same target at another ``alpha`` or ``epsilon``."""
        return evolve(self, **numbers) if numbers else self  # type: ignore[misc]


def read_goal(
    epsilon: Rational, alpha: Rational, beta: Rational, neighbours: Neighbours | str, *delta: Rational | None
) -> dict[str, Any]:
    """The numbers that all targets share, read and checked; with a ``delta`` for those that have one, None being 0."""
    given = [probability_or_zero(0 if one is None else one, "delta") for one in delta]
    return {
        "epsilon": read_epsilon(epsilon),
        "alpha": probability(alpha, "alpha"),
        "beta": probability(beta, "beta"),
        "neighbours": relation(neighbours),
        **dict(zip(("delta",), given)),
    }


# A learner that a certificate speaks of, before it is built: what it is run with, and the command that runs it.
#
# Every target of a plan makes the runs of its own rows: ``target.run(row, records_per_user, certificate, asked)``.  A
# row that no command can run has a command that says so, and how Python runs it.


TABLE = ("TABLE.parquet", "--user", "USER")
"""The names in capitals are the reader's."""

_OPTIONS = ("max_records", "records_per_user", "public_n_users", "delta")
"""Parameters of ``learn`` with an option of their own."""


@frozen(slots=False)
class CertifiedRun:
    """The learner of a certified row with its parameters; ``words`` are those of its command, or raise."""

    method: str
    n_users: int | None
    parameters: Mapping[str, Any]
    build: Callable[[], Any]
    words: Callable[[], Iterable[str]]

    def learner(self) -> Any:
        """The learner itself."""
        return self.build()

    def command(self) -> str:
        """The command that runs it; the names in capitals are the reader's."""
        return shlex.join(["privpac", *self.words()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; without a command a ``note`` says why."""
        shown = {
            name: value if isinstance(value, (int, str)) else setting_text(value)
            for name, value in self.parameters.items()
        }
        try:
            told: dict[str, Any] = {"command": self.command()}
        except PrivpacError as error:
            told = {"command": None, "note": str(error)}
        return {"method": self.method, "n_users": self.n_users, "parameters": shown, **told}


def in_python(how: str) -> Callable[[], Iterable[str]]:
    """Words of a row that no command runs."""

    def refuse() -> Iterable[str]:
        raise ParameterError(f"no command runs this row; in Python: {how}")

    return refuse


def feature_words(domains: Mapping[Any, Domain | None]) -> list[str]:
    """``--feature`` for every column."""
    return [word for name, domain in domains.items() for word in ("--feature", f"{name or 'x'}{domain_text(domain)}")]


def privacy_words(epsilon: Fraction, neighbours: Neighbours) -> list[str]:
    """``--epsilon``, and the relation where it is not the usual one."""
    return [
        "--epsilon",
        setting_text(epsilon),
        *(["--neighbours", "replace"] if neighbours is Neighbours.REPLACE else []),
    ]


def option_words(parameters: Mapping[str, object]) -> list[str]:
    """``--name value`` for every parameter."""
    return [word for name, value in parameters.items() for word in (flag(name), setting_text(value))]


def learn_words(
    source: Iterable[str], epsilon: Fraction, neighbours: Neighbours, method: str, parameters: Mapping[str, object]
) -> list[str]:
    """``learn`` with these parameters; ``source`` is the class."""
    words = ["learn", *TABLE, "--label", "LABEL", *source, *privacy_words(epsilon, neighbours), "--method", method]
    for name, value in parameters.items():
        words += option_words({name: value}) if name in _OPTIONS else ["--set", f"{name}={setting_text(value)}"]
    return words


# From a certified line for rules or trees to the learner it speaks of: the same parameters, ready to run, and the
# command that runs it.
#
# A certificate is a promise about one learner with its clip, cap, split of the budget and so on; with any other nothing
# is promised. What the certificate does not name is what was asked for: the accuracy, the records per user, and the
# certified number of users where the learner takes a declared one.


_RANKS = ("epsilon1", "hi", "K", "users_per_part")


def class_words(concept: Any) -> list[str]:
    """How the class is written on the command line."""
    name = name_of(concept)
    if name is None:
        raise ParameterError(
            f"this {type(concept).__name__} has no name on the command line; in Python: plan.learner(row).learn(users)"
        )
    return ["--rule", name, *feature_words(concept.declared())]


def rule_run(target: RuleGoal | Target, method: str, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
    """The run of a method of ``learn``."""
    own = learner_options(method, dict.fromkeys(COMMON))
    told: dict[str, Any] = {
        "alpha": target.alpha,
        "beta": target.beta,
        "records_per_user": m,
        "public_n_users": asked.n_users or certificate.n_users,
    }
    if target.delta > 0:
        told["delta"] = target.delta
    preset = METHODS[method].preset
    if "statistic" in preset:
        del told["public_n_users"]  # only a clip follows it, and a mean has none
    fixed = {key: value for key, value in certificate.parameters.items() if preset.get(key) != value}
    epsilon = fixed.pop("epsilon", target.epsilon)  # a certificate may be for less than may be spent
    if method == "tree":  # ranks and split of this very certificate, which is for labels that some node explains
        told |= {"mode": "closure"} | {key: value for key, value in certificate.details if key in _RANKS}
    if "sizes" in fixed:
        del told["records_per_user"]  # the sizes say more
    given = {key: value for key, value in (told | fixed).items() if key in own or key in fixed}
    concept: ConceptClass | VC1Tree = target.concept  # of rules, or a tree
    if isinstance(concept, VC1Tree) and method != "tree":
        concept = TreeNodes(concept)
    common = {
        "tree" if isinstance(concept, VC1Tree) else "concept": concept,
        "epsilon": epsilon,
        "neighbours": target.neighbours,
    }

    def build() -> Learner:
        options = {key: value for key, value in given.items() if key != "max_records"}
        return build_learner(method, common | {"max_records": given.get("max_records")}, options)

    def words() -> list[str]:
        return learn_words(asked.source or class_words(concept), epsilon, target.neighbours, method, given)

    return CertifiedRun(method, certificate.n_users, given, build, words)
