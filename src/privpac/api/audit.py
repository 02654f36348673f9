"""``pp.audit``: is a privacy claim true?

A learner or a function that returns laws is audited *exactly*: every neighbouring pair of a small universe of datasets,
in both orders; and on a few of these datasets a learner's draws are compared with its law.  Anything else that can be
called, another library's mechanism included, is audited *statistically*: a lower bound on epsilon with a stated
confidence.  Audits print datasets, so theirs are made up, or declared public by whoever passes them.

>>> import privpac as pp
>>> learner = pp.RealizableSelection(pp.Thresholds(pp.Integers(0, 3)), 1)
>>> pp.audit(learner, n_users=2, records=1).verdict
'consistent with the claim'
>>> pp.audit(learner, n_users=2, records=1, neighbours="replace").verdict
'violates the claim'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise, product
from math import comb, inf, log, prod
from typing import Any

from attrs import evolve

from privpac.auditing.exact import Universe, audit_exact, neighbouring, user_universe
from privpac.auditing.exact import datasets as all_datasets
from privpac.auditing.refutation import refute
from privpac.auditing.report import Audit, AuditOutcome
from privpac.auditing.sampler import SamplerCheck, compare_draws
from privpac.auditing.statistical import StatisticalAudit, audit_statistical, takes_rng
from privpac.data import Domain, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Guarantee, Neighbours, Unit, one_of, positive_int
from privpac.law import Law
from privpac.methods.base import Learner
from privpac.result import Released
from privpac.rng import Rng, secret_rng

_MAX_PAIRS = 50_000
"""Neighbouring pairs of a universe at most."""

MAX_DRAWS = 10_000_000
"""Draws on a dataset at most."""

Subject = Any
"""A learner, a function that returns laws, or any mechanism: what it is asked, it is asked whether it has."""
ListedData = Any
"""A tuple of users as it is listed, or whatever the subject reads in its place."""
Value = Any
"""What a law or a mechanism gives."""
_METHODS = ("auto", "exact", "statistical")
_MOST_OUTCOMES, _MOST_SINGLE, _MOST_CELLS = 12, 64, 4096


def audit(
    subject: Subject,
    *,
    universe: Iterable[ListedData] | None = None,
    datasets: Sequence[ListedData] | None = None,
    n_users: int | None = None,
    records: int | None = None,
    epsilon: Rational | None = None,
    delta: Rational | None = None,
    neighbours: Neighbours | str | None = None,
    method: str = "auto",
    runs: int = 10_000,
    confidence: Rational = "0.999",
    draws: int = 400,
    features: Mapping[str, Domain] | None = None,
    build: Callable[[Value], Value] | None = None,
    output: Callable[[Value], Value] | None = None,
    rng: Rng | None = None,
) -> Audit:
    """Audit a learner, or any function of a dataset, against a claim of (epsilon, delta)-differential privacy.

    Parameters
    ----------
    subject : learner or callable
        A learner; a function that returns a ``Law``; or any mechanism ``f(dataset)`` / ``f(dataset, rng=...)`` that
        returns a number or another hashable value.
    universe : iterable of datasets, optional
        Datasets as tuples of users, all made up.
    datasets : sequence, optional
        A short list of made-up or public datasets, or one pair of neighbours of any type.
    n_users, records : int, optional
        All datasets of up to ``n_users`` (2) users with up to ``records`` (1) records each over the learner's declared
        domains: what is tried if no datasets are given.
    epsilon, delta, neighbours : optional
        The claim; the learner's own guarantee by default.  Without any epsilon only the bound found is reported.
    method : {"auto", "exact", "statistical"}
        Decide every pair without floating point, or run the subject many times.
    runs, confidence : int, rational
        Of a statistical audit: a true claim is called violated with probability at most ``1 - confidence``.
    draws : int
        Of an exact audit: so many draws on each of up to four datasets are compared with the law; the right law is
        called wrong with probability at most 1e-7.  With 0 the sampler is not looked at, and the result says so.
    features : mapping of names to domains, optional
        The columns of made-up records, where the learner declares none.
    build : callable, optional
        Turns a listed dataset into what the subject reads; learners need none.
    output : callable, optional
        Turns what the subject returns into a hashable value.
    rng : Rng, optional
        The system's randomness unless given.

    Returns
    -------
    Audit
        True unless the claim is violated, or draws are seen that the law does not explain.  It proves nothing beyond
        its datasets.

    Raises
    ------
    ParameterError, TypeError
        No datasets, nothing that could be claimed, or too many pairs to decide.

    Examples
    --------
    >>> import privpac as pp
    >>> learner = pp.HybridSelection(pp.Thresholds(pp.Integers(0, 2), feature="x"), epsilon=1)
    >>> bool(pp.audit(learner, n_users=1, draws=0))
    True
    """
    if method not in _METHODS:
        raise ParameterError(f"method must be one of {', '.join(map(repr, _METHODS))}; got {method!r}")
    if isinstance(subject, type) or not (callable(subject) or hasattr(subject, "law") or isinstance(subject, Learner)):
        raise TypeError(f"audit takes a learner, or a function of a dataset, not {_named(subject)}")
    if (
        isinstance(universe, UserData)
        or isinstance(datasets, UserData)
        or any(isinstance(data, UserData) for data in datasets or ())
    ):
        raise TypeError(
            "an audit prints its datasets: write made-up ones as lists of users, each a list of records; a table is "
            "not taken"
        )
    many = positive_int(draws, "draws", minimum=0, maximum=MAX_DRAWS)
    promised = getattr(subject, "guarantee", None)
    task = _AuditTask(subject, build, features)
    if datasets is not None and universe is not None:
        raise ParameterError("give either universe= or datasets=, not both")
    relation = _relation(neighbours, promised, datasets)
    eps = epsilon if epsilon is not None else None if promised is None else promised.epsilon
    d: Rational = delta if delta is not None else promised.delta if promised is not None and epsilon is None else 0
    listed, pairs, words = _places(task, universe, datasets, n_users, records, relation)
    exact = method == "exact" or (method == "auto" and listed is not None and task.has_law(listed))
    name = _named(subject)
    if exact:
        if listed is None:
            raise ParameterError(
                "an exact audit takes datasets as lists of users, not these two objects; use method='statistical'"
            )
        result = audit_exact(task.law, listed, neighbours=relation, epsilon=0 if eps is None else eps, delta=d)
        looked_at = dict.fromkeys((*result.worst, max(listed, key=len), listed.datasets[len(listed) // 2]))
        sampler = task.compare(list(looked_at), many, secret_rng(rng))
        return Audit(name, result, eps is not None, words, task.law_outcomes(*result.worst), sampler)
    coins = secret_rng(rng)
    found = audit_statistical(
        task.mechanism(coins, pairs),
        pairs,
        output=output,
        neighbours=relation,
        epsilon=eps,
        delta=d,
        runs=runs,
        confidence=confidence,
        rng=coins,
    )
    return Audit(name, found, eps is not None, words, _measured(found))


def _named(subject: Subject) -> str:
    if isinstance(subject, type):
        return f"the class {subject.__name__} (build one first)"
    concept = getattr(subject, "concept", getattr(subject, "tree", None))
    if isinstance(subject, Learner):
        return type(subject).__name__ + ("" if concept is None else f" of {type(concept).__name__}")
    return str(getattr(subject, "__qualname__", type(subject).__name__))


def _relation(
    neighbours: Neighbours | str | None, promised: Guarantee | None, datasets: Sequence[ListedData] | None
) -> Neighbours:
    if neighbours is not None:
        return one_of(Neighbours, neighbours, "neighbours")
    if promised is not None:
        return one_of(Neighbours, promised.neighbours, "neighbours")
    if datasets is not None and len(datasets) == 2 and all(hasattr(data, "__len__") for data in datasets):
        apart = abs(len(datasets[0]) - len(datasets[1]))
        if apart <= 1:
            return Neighbours.ADD_REMOVE if apart else Neighbours.REPLACE
    raise ParameterError(
        "say which datasets must be hard to tell apart: neighbours='add-remove' or neighbours='replace'"
    )


# Datasets


def _places(
    task: _AuditTask,
    universe: Iterable[ListedData] | None,
    datasets: Sequence[ListedData] | None,
    n_users: int | None,
    records: int | None,
    relation: Neighbours,
) -> tuple[Universe | None, list[tuple[ListedData, ListedData]], str]:
    """The datasets as tuples of users (None if they are something else), their neighbouring pairs, and both in
    words."""
    if universe is None and datasets is None:
        made, words = task.generate(2 if n_users is None else n_users, 1 if records is None else records, relation)
    elif n_users is not None or records is not None:
        raise ParameterError("n_users= and records= make up a universe; leave them out when you list datasets yourself")
    elif universe is not None:
        made = universe if isinstance(universe, Universe) else Universe(tuple(_frozen(data) for data in universe))
        words = f"{len(made):,} listed"
    else:
        given = list(datasets or ())
        if len(given) == 2 and not all(isinstance(data, (list, tuple)) for data in given):
            return None, [(given[0], given[1])], "two, declared to be neighbours"
        made, words = Universe(tuple(_frozen(data) for data in given)), f"{len(given)} given"
        task.remember(dict(zip(made, given)))
    pairs = list(islice(neighbouring(made, relation), _MAX_PAIRS + 1))
    if len(pairs) > _MAX_PAIRS:
        raise TooLargeError(_too_large(f"more than {_MAX_PAIRS:,} neighbouring pairs"))
    if not pairs:
        raise ParameterError(
            f"no two of these datasets are neighbours under {relation.value}, so there is nothing to audit; add some"
        )
    return made, pairs, words


def _too_large(what: str) -> str:
    return (
        f"this universe has {what}; audit fewer users, fewer records or a smaller domain, or one suspected pair: "
        "datasets=(x, y)"
    )


def _frozen(data: ListedData) -> ListedData:
    """Lists as tuples, all the way down: a listed dataset can then be compared and printed."""
    if isinstance(data, (str, bytes)) or not isinstance(data, (list, tuple)):
        raise TypeError(f"a listed dataset is a list or tuple of users, not {type(data).__name__}")
    return tuple(_frozen(part) if isinstance(part, (list, tuple)) else part for part in data)


class _AuditTask:
    """What is audited, and how a listed dataset becomes what it reads."""

    def __init__(
        self, subject: Subject, build: Callable[[Value], Value] | None, features: Mapping[str, Domain] | None
    ) -> None:
        self.subject = subject
        self.features = None if features is None else dict(features)
        self.build: Callable[[ListedData], ListedData] | None = build or (
            self._users if isinstance(subject, Learner) else None
        )

    def remember(self, given: Mapping[ListedData, ListedData]) -> None:
        """Listed datasets go to a function as they were given: as lists, if they were lists."""
        if self.build is None:
            self.build = given.__getitem__

    def columns(self) -> dict[str, Domain]:
        """Named columns with their domains, as the learner's class and ``features`` declare them."""
        concept = getattr(self.subject, "concept", getattr(self.subject, "tree", None))
        given = self.features or {}
        only = next(iter(given), "x")  # a class that reads the only feature takes its name from there
        declared = (
            {}
            if concept is None
            else {only if name is None else name: domain for name, domain in concept.declared().items()}
        )
        filled = {name: declared.get(name) or given.get(name) for name in (*declared, *given)}
        known = {name: domain for name, domain in filled.items() if domain is not None}
        if not known or len(known) < len(filled):
            raise ParameterError(
                "which values may records hold? declare domains in the class, or pass features={'x': Integers(0, 3)}"
            )
        return known

    def _users(self, data: ListedData) -> UserData:
        made = UserData.from_users([list(user) for user in data], features=self.columns())
        return evolve(made, unit=Unit.ITEM) if self._item else made

    @property
    def _item(self) -> bool:
        return getattr(self.subject, "unit", Unit.USER) == Unit.ITEM

    def generate(self, n_users: int, records: int, relation: Neighbours) -> tuple[Universe, str]:
        n, m = positive_int(n_users, "n_users", maximum=1000), positive_int(records, "records", minimum=0, maximum=1000)
        if not isinstance(self.subject, Learner) and self.features is None:
            raise ParameterError(
                "give the datasets: datasets=(x, y) for one pair of neighbours, or universe= for a list of them"
            )
        columns = self.columns()
        if any(domain.open for domain in columns.values()):
            raise TooLargeError(_too_large("no end of texts"))
        least, m = (1, 1) if self._item else (0, m)
        kinds = 2 * prod(domain.size for domain in columns.values())
        types = sum(comb(kinds + k - 1, k) for k in range(least, m + 1))
        pairs = sum(
            comb(types + k - 2, k - 1) * (types if relation is Neighbours.ADD_REMOVE else comb(types, 2))
            for k in range(1, n + 1)
        )
        if pairs > _MAX_PAIRS:
            many = f"{pairs:,}" if pairs < 10**12 else f"2^{pairs.bit_length() - 1}"
            raise TooLargeError(_too_large(f"about {many} neighbouring pairs (at most {_MAX_PAIRS:,})"))
        values = [[domain.value(code) for code in range(domain.size)] for domain in columns.values()]
        made = all_datasets(user_universe(product(*values, (0, 1)), m, min_records=least), n)
        whose = f"up to {n} records" if self._item else f"up to {n} users with up to {m} records each"
        where = ", ".join(f"{name} in {domain.describe()}" for name, domain in columns.items())
        return made, f"all {len(made):,} of {whose}; {where}; a record is ({', '.join(columns)}, label)"

    # Exactly

    def law(self, data: ListedData) -> Law:
        compute: Value = getattr(self.subject, "law", self.subject)
        made = compute(data if self.build is None else self.build(data))
        if not isinstance(made, Law):
            raise TypeError(
                f"an exact audit needs the law of the output, but this returns {type(made).__name__}; use "
                "method='statistical'"
            )
        return made

    def has_law(self, listed: Universe) -> bool:
        """Whether the largest dataset has a law that can be written down; tried, since made-up data have nothing to
        hide."""
        if not hasattr(self.subject, "law") and takes_rng(self.subject):
            return False
        try:
            self.law(max(listed, key=len))
        except TooLargeError:
            if isinstance(self.subject, Learner):
                return False
            raise
        except Exception:
            if hasattr(self.subject, "law"):
                raise
            return False
        return True

    def law_outcomes(self, x: ListedData, y: ListedData) -> tuple[AuditOutcome, ...]:
        """Both laws side by side, the most telling outcomes first."""
        p, q = self.law(x), self.law(y)
        edges: set[int] = set()
        atoms: dict[Value, None] = {}
        for law in (p, q):
            for cell in islice(law.support(), _MOST_CELLS + 1):
                if isinstance(cell, range):
                    edges |= {cell.start, cell.stop}
                else:
                    atoms[cell] = None
        if edges and max(edges) - min(edges) <= _MOST_SINGLE:
            edges = set(range(min(edges), max(edges) + 1))
        marks = sorted(edges)
        if len(marks) + len(atoms) > _MOST_CELLS:
            return ()
        decode = self._decoder(x)
        rows = [(decode(atom, atom), p.prob_float(atom), q.prob_float(atom)) for atom in atoms]
        for low, stop in pairwise(marks):
            rows.append((decode(low, stop - 1), p.prob_float(low) * (stop - low), q.prob_float(low) * (stop - low)))
        rows = sorted(
            (row for row in rows if row[1] or row[2]), key=lambda row: (-_loss(row[1], row[2]), -row[1] - row[2])
        )
        return tuple(AuditOutcome(*row) for row in rows[:_MOST_OUTCOMES])

    def _decoder(self, data: ListedData) -> Callable[[Value, Value], str]:
        bound = self.subject.bind(self.build(data)) if isinstance(self.subject, Learner) and self.build else None
        concept = getattr(bound, "concept", None)
        said = getattr(self.subject, "outcome_text", lambda concept, value: str(concept.decode(value)))

        def one(value: Value) -> str:
            plain_id = isinstance(value, int) and not isinstance(value, bool)
            return (
                said(concept, value)
                if concept is not None and plain_id
                else value
                if isinstance(value, str)
                else repr(value)
            )

        return lambda first, last: one(first) if first == last else f"{one(first)} ... {one(last)}"

    def compare(self, listed: Sequence[ListedData], draws: int, rng: Rng) -> SamplerCheck:
        """Draws on each of these datasets against its law."""
        if draws == 0:
            return SamplerCheck(reason="no draws were asked for (draws=0)")
        trials = []
        shown: Callable[[Value], Value]
        draw: Callable[[], Value]
        for data in listed:
            made = self.build(data) if self.build else data
            if isinstance(self.subject, Learner):
                bound = self.subject.bind(made)
                shown = partial(self.subject.shown_as, bound)
                own = type(self.subject).learn is not Learner.learn  # then draws are not all that happens
                draw = partial(
                    _shown_release,
                    partial(self.subject.learn, made, rng=rng) if own else partial(self.subject.draw, bound, rng),
                )
            elif takes_rng(getattr(self.subject, "sample", None)):
                shown, draw = (lambda value: value), partial(self.subject.sample, made, rng=rng)
            else:
                return SamplerCheck(reason="a function that returns laws draws nothing")
            cells = _cells(self.law(data), shown)
            if isinstance(cells, str):
                return SamplerCheck(reason=cells)
            trials.append(([draw() for _ in range(draws)], cells))
        return SamplerCheck(draws, len(trials), compare_draws(trials))

    # By running it

    def mechanism(self, rng: Rng, pairs: Iterable[tuple[ListedData, ListedData]]) -> Callable[..., Value]:
        """A function of a listed dataset; a learner checks every dataset before (a bad one is an error, not an output),
        then draws."""
        subject, build = self.subject, self.build
        if isinstance(subject, Learner):
            bound = {
                data: subject.bind(build(data) if build else data) for data in dict.fromkeys(chain.from_iterable(pairs))
            }
            return lambda data: _seen(subject.draw(bound[data], rng))
        if not callable(subject):
            raise ParameterError(f"{_named(subject)} has a law but cannot be run: use method='exact'")
        if build is None:
            run: Callable[..., Value] = subject
            return run
        return lambda data: subject(build(data), rng=rng) if takes_rng(subject) else subject(build(data))


def _shown_release(draw: Callable[[], Value]) -> Value:
    released = draw()
    return (str(released.outcome), str(released.value)) if isinstance(released, Released) else released


def _cells(law: Law, shown: Callable[[Value], Value]) -> dict[Value, float] | str:
    """What a release shows, with its probability; or why that cannot be said."""
    values: list[Value] = []
    for cell in law.support():
        values += islice(cell, _MOST_CELLS + 1) if isinstance(cell, range) else [cell]
        if len(values) > _MOST_CELLS:
            return f"the law has more than {_MOST_CELLS:,} outcomes"
    cells: dict[Value, float] = {}
    for value in values:
        text = shown(value)
        if text is None:
            return "it does not say what a release shows for a value of its law (shown_as)"
        cells[text] = cells.get(text, 0.0) + law.prob_float(value)
    return cells


def _seen(released: Value) -> Value:
    """Everything that a release shows: what was selected, and the numbers released on the way."""
    if not isinstance(released, Released):
        return released
    numbers = [
        value
        for value in released.parameters.values()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return (
        f"{released.value}" if released.outcome == "released" else f"{released.outcome}: {released.value}",
        *numbers,
    )


def _loss(p: float, q: float) -> float:
    return inf if not p or not q else abs(log(p / q))


def _measured(found: StatisticalAudit) -> tuple[AuditOutcome, ...]:
    """Measured shares in the order of the cells, or the most telling ones where there are many."""
    rows = list(found.cells)
    if len(rows) > _MOST_OUTCOMES:
        rows = sorted(rows, key=lambda cell: (-_loss(cell[1] + 0.5, cell[2] + 0.5), -cell[1] - cell[2]))[
            :_MOST_OUTCOMES
        ]
    return tuple(AuditOutcome(label, here / found.trials, there / found.trials) for label, here, there in rows)


# What decides, and what tries to refute a promise of accuracy, also by the name of the call.
audit.audit_exact = audit_exact  # type: ignore[attr-defined]
audit.refute = refute  # type: ignore[attr-defined]
