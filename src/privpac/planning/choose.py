"""Which method, from public quantities only.

With nothing declared the answer is hybrid selection, which needs no number of users, no noise rate and no cap.  With a
number of users and of records per user declared, methods are compared by their predicted excess error on a stated
model:

* ``people=`` says what is publicly known about the people (``"alike"`` by default, ``"differ"``, ``"heavy"``; see
  ``privpac.planning.declared_population``);
* ``population=`` brings a public table or a model of one's own instead, on which more methods are compared.

Every method sees the same simulated data sets; hybrid selection is left only where another one is better by more than
the Monte-Carlo error of the difference, and by more than 1 %.  Where a class has no affordable model, certified numbers
of users are shown instead. With so many users that the mean score always decides, ``"mean"`` is named: the same errors,
and the better certificate. Data are never an argument here.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.methods.hierarchy.tree_plan import tree_reason
from privpac.methods.planned import RuleGoal, read_goal
from privpac.methods.registry import (
    DEFAULT,
    METHODS,
    SIMULATED,
    Choice,
    build_learner,
    compared_methods,
    default_method,
    resolve,
    simulated_methods,
)
from privpac.methods.simulation import excess_on
from privpac.parameters import DEFAULT_BETA
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.nodes import TreeNodes
from privpac.rules.populations import (
    ABOUT_USERS,
    DEFAULT_NOISE,
    Population,
    concept_with_domains,
    declared_population,
    read_users,
)

REPEATS = 6
MANY = 100
"""From this many bits of the class per user of theta on, hybrid selection and the mean have the same errors."""
MARGIN, VISIBLE = 0.01, 1e-4
"""A smaller gain, as a part of the excess error or in itself, is none."""

MAX_SIMULATED = 1 << 20
"""Simulated records per data set, and users; from 2**17 records on there are half as many data sets."""

_MAX_WORK = 1 << 25
"""Simulated users times rules, for classes that are scored rule by rule.  Fewer users than declared are simulated
beyond, and said so."""

MAX_ESTIMATED, MAX_COMPARED, MAX_PAIRED = 1 << 16, 1 << 22, 256
"""Records for the estimate of the least error, squared records and rules for pairwise comparisons: beyond these they
are no candidates."""


def choose_method(
    concept: ConceptClass | VC1Tree,
    *,
    epsilon: Rational,
    delta: Rational = 0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    setting: str = "agnostic",
    public_n_users: int | None = None,
    records_per_user: int | None = None,
    noise: Rational | None = None,
    people: str | None = None,
    population: Population | None = None,
) -> Choice:
    """The method predicted best among those that need nothing but what was declared.

    ``people``: what is known about the people, ``"alike"``, ``"differ"`` (who a person is matters more than x) or
    ``"heavy"`` (people with many records follow another rule).  ``population``: a public table or a model of one's own.
    **Neither may come from the private table.**

    >>> import privpac as pp
    >>> cuts = pp.Thresholds(pp.Integers(0, 99))
    >>> choose_method(cuts, epsilon=1).method
    'hybrid'
    >>> choose_method(cuts, epsilon=1, public_n_users=30, records_per_user=36, people="differ").method
    'mean'
    >>> print(choose_method(pp.PrefixTree(8), epsilon=1, delta="1e-6"))
    tree: the vocabulary is open: the rules cannot be listed, and people vote for what they hold
    """
    relation = one_of(Neighbours, neighbours, "neighbours")
    if isinstance(concept, VC1Tree):
        if setting == "realizable" or not concept.scored:
            return Choice("tree", tree_reason(concept, epsilon, delta, relation, records_per_user))
        facts: dict[str, Any] = {
            "public_n_users": public_n_users,
            "records_per_user": records_per_user,
            "noise": noise,
            "people": people,
        }
        chosen = choose_method(
            TreeNodes(concept), epsilon=epsilon, neighbours=neighbours, population=population, **facts
        )
        return Choice(
            chosen.method,
            f"labels may be wrong, and selection among all nodes stays right as people grow; {chosen.reason}",
        )
    if getattr(concept, "own_method", None) is not None:
        return Choice(str(concept.own_method), "the one method that learns these rules")
    known = _declared(people, population, setting)
    eps = rational(epsilon, "epsilon", above=0)
    flips = None if noise is None else rational(noise, "noise", minimum=0, below="1/2")
    m = None if records_per_user is None else positive_int(records_per_user, "records_per_user")
    n = None if public_n_users is None else positive_int(public_n_users, "public_n_users", minimum=0)
    if population is not None:
        return _on_population(concept, eps, relation, setting, n, m, flips, population)
    if setting == "realizable":
        return default_method(setting)
    if m is None or n is None:
        if known != "alike":
            raise ParameterError(
                f"people={known!r} is a matter of numbers: declare public_n_users and records_per_user too"
            )
        return _default(concept, eps, relation, n)
    if m == 1 and known != "heavy":
        return Choice(DEFAULT, "with one record per user all agnostic methods score users alike")
    predict = _on_model if _hashable(concept) else _on_model.__wrapped__
    return predict(concept, eps, relation, n, m, DEFAULT_NOISE if flips is None else flips, known)


def _default(concept: ConceptClass, epsilon: Fraction, neighbours: Neighbours, n: int | None) -> Choice:
    """Hybrid selection, unless the number of users alone says that its mean score always decides."""
    theta = epsilon if neighbours is Neighbours.ADD_REMOVE else epsilon / 2
    if n is not None and _sized(concept) and n * theta >= MANY * concept.bits:
        return Choice(
            "mean",
            f"{n} users are so many that hybrid selection would average too, and the certificate of the mean is "
            "the better "
            "one",
        )
    return default_method("agnostic")


def _sized(concept: ConceptClass) -> bool:
    """Whether the class knows its domains."""
    return all(domain is not None for domain in concept.declared().values()) and bool(concept.declared())


def _hashable(concept: ConceptClass) -> bool:
    """Classes of one's own may hold lists; they are predicted anew each time."""
    try:
        hash(concept)
    except TypeError:
        return False
    return True


def _declared(users: str | None, population: object, setting: str) -> str:
    """The declaration, once it makes sense together with the others."""
    if population is not None and not isinstance(population, Population):
        raise TypeError(
            f"population must come from public_population or sampled_population, got {type(population).__name__}"
        )
    if users is None:
        return "alike"
    if population is not None:
        raise ParameterError("give either people or population: each of them is a model of the people")
    known = read_users(users)
    if known != "alike" and setting == "realizable":
        raise ParameterError(
            f"people={known!r} ({ABOUT_USERS[known]}) and setting='realizable' (one rule is right) exclude each other"
        )
    return known


@lru_cache(maxsize=256)
def _on_model(
    concept: ConceptClass, epsilon: Fraction, neighbours: Neighbours, n: int, m: int, noise: Fraction, users: str
) -> Choice:
    share = MAX_SIMULATED // (4 if users == "heavy" else 1)  # some of the heavy have many more
    records = min(m, max(1, share // max(n, 1)))
    people = declared_population(users, concept, records_per_user=records, noise=noise) if n > 0 else None
    if people is not None:
        return _predicted(
            people,
            simulated_methods("agnostic", SIMULATED),
            epsilon,
            neighbours,
            min(n, _simulated(people.concept)),
            records,
        )
    if users != "alike":
        return Choice(
            "mean",
            f"{ABOUT_USERS[users]}, and averages are unbiased whoever the people are; no prediction for this class",
        )
    if concept_with_domains(concept) is None:
        return Choice(DEFAULT, "the default; the class has no domains yet on which to predict", "default")
    return _certified(concept, epsilon, neighbours, m)


def _simulated(concept: ConceptClass) -> int:
    """The most users that are simulated."""
    return MAX_SIMULATED if concept.layout != "listed" else max(1, min(MAX_SIMULATED, _MAX_WORK // concept.size))


def _on_population(
    concept: ConceptClass,
    epsilon: Fraction,
    neighbours: Neighbours,
    setting: str,
    n: int | None,
    m: int | None,
    noise: Fraction | None,
    people: Population,
) -> Choice:
    if not n:
        raise ParameterError("a choice on a population is a matter of numbers: declare public_n_users, at least 1")
    if type(people.concept) is not type(concept):
        raise ParameterError(
            f"the population has rules of {type(people.concept).__name__}, asked for are {type(concept).__name__}"
        )
    most = people.largest()
    users = min(n, _simulated(people.concept), MAX_SIMULATED if most is None else most)
    typical = m or people.records_per_user or int(np.median(people.users.sizes))
    names = [*simulated_methods(None if setting == "realizable" else setting, SIMULATED)]
    # A scalar noise rate is the model's; the estimating learner would read it as a pair.
    if (
        setting != "realizable"
        and noise is None
        and users * typical <= MAX_ESTIMATED
        and people.concept.size <= MAX_ESTIMATED
    ):
        names.append("agnostic")
    swept = concept.layout == "values" or concept.cut_direction is not None or people.concept.size <= MAX_PAIRED
    if setting != "realizable" and m is not None and swept and users * typical**2 <= MAX_COMPARED:
        names.append("pairwise")
    return _predicted(people, tuple(names), epsilon, neighbours, users, m)


def _predicted(
    people: Population, names: tuple[str, ...], epsilon: Fraction, neighbours: Neighbours, n: int, m: int | None
) -> Choice:
    """The first name unless another has clearly less excess error on the same data sets."""
    common = {"concept": people.concept, "epsilon": epsilon, "neighbours": neighbours}
    facts = {"public_n_users": n} | ({} if m is None else {"records_per_user": m})
    learners = [build_learner(name, common, facts) for name in names]
    first = people.draw(n, np.random.default_rng([0, 0]))
    repeats = REPEATS if first.n_records <= MAX_SIMULATED >> 3 else REPEATS // 2
    drawn = [first, *(people.draw(n, np.random.default_rng([0, i])) for i in range(1, repeats))]
    found = np.array([[excess_on(learner, data, people) for data in drawn] for learner in learners])
    means = found.mean(axis=1)
    best = int(np.argmin(means))
    gain = found[0] - found[best]
    kept = best != 0 and float(gain.mean()) <= max(
        float(np.std(gain, ddof=1)) / repeats**0.5, MARGIN * float(means[0]), VISIBLE
    )
    chosen = 0 if kept else best
    compared = ", ".join(f"{name} {value:.4f}" for name, value in zip(names, means.tolist()))
    near = f"; {names[best]} is not clearly better" if kept else ""
    shared = f"means over {repeats} common data sets"
    reason = f"predicted excess error {compared} ({people.name}; {n} users), {shared}{near}"
    return Choice(names[chosen], reason, "predicted")


def _certified(concept: ConceptClass, epsilon: Fraction, neighbours: Neighbours, m: int) -> Choice:
    goal = RuleGoal(concept, **read_goal(epsilon, "0.05", DEFAULT_BETA, neighbours))
    numbers = ", ".join(f"{key} {_users(goal, key, m)}" for key in compared_methods())
    said = f"certified users: {numbers}"
    return Choice(DEFAULT, f"no prediction for this class; {said}", "unpredicted")


def _users(goal: RuleGoal, key: str, m: int) -> int | None:
    """Certified users of a method, by its first line; None where the bound refuses these numbers."""
    try:
        users: int | None = resolve(METHODS[key].rows)(goal)[0].certify(m).n_users
        return users
    except (ParameterError, TooLargeError):
        return None
