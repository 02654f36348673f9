"""The papers' tables of rates, with numbers: how many users each result asks for, at public numbers of your choice.

A cell holds the rate as printed (up to logarithms, mistakes corrected) and, where this library has explicit constants
for it, a :class:`Certificate` computed at the given numbers; otherwise it says "order only".  Upper bounds are
certified by our versions of the algorithms, so they may be far below the printed constants; lower bounds are certified
and often far from tight.

>>> found = table("000-1", epsilon=1, alpha="0.1", size=2**16, records_per_user=4)
>>> found.columns
('lower bound', 'before', 'the paper')
>>> found.cell("thresholds, user level", "lower bound").users < found.cell("thresholds, user level", "the paper").users
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from io import StringIO
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from privpac import lower_bounds as lower
from privpac import lower_bounds as lower_agnostic
from privpac.distributions.selection import accuracy as pairwise
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.methods import realizable
from privpac.methods.agreement import plurality as agreement
from privpac.papers.few_examples_per_user import transform_costs as transform
from privpac.papers.pure_agnostic import counting as agnostic
from privpac.parameters import DEFAULT_BETA, read_epsilon
from privpac.sample_size import Certificate, open_unit, positive, relation
from privpac.special import ndtri

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# A table of rates: what a paper's table says, cell by cell, with a certificate where there are explicit constants.


Compute = Callable[[], Certificate]


@frozen(slots=False)
class RateCell:
    """A rate, where it is from, and the users it means at the table's numbers (``certificate`` None: order only)."""

    rate: str
    source: str
    certificate: Certificate | None = None
    note: str = ""

    @property
    def users(self) -> int | None:
        return None if self.certificate is None else self.certificate.n_users

    def words(self) -> str:
        if self.rate == "-":
            return "-"
        if self.certificate is None:
            return self.note or "order only"
        return "not certified" if self.users is None else f"{self.users:,} user{'' if self.users == 1 else 's'}"

    def to_dict(self) -> dict[str, object]:
        made = None if self.certificate is None else self.certificate.to_dict()
        return {"rate": self.rate, "source": self.source, "users": self.users, "certificate": made, "note": self.note}


@frozen(slots=False)
class RateRow:
    """One problem, one cell for each column."""

    problem: str
    cells: tuple[RateCell, ...]


@frozen(slots=False)
class RateTable:
    """One table of one paper; ``numbers`` are the public numbers that its certificates are for."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[RateRow, ...]
    numbers: tuple[tuple[str, object], ...]
    notes: tuple[str, ...] = ()

    def cell(self, problem: str, column: str) -> RateCell:
        for row in self.rows:
            if row.problem == problem and column in self.columns:
                return row.cells[self.columns.index(column)]
        known = "; ".join(row.problem for row in self.rows)
        raise ParameterError(f"no such cell: rows are {known}; columns are {', '.join(self.columns)}")

    def to_dict(self) -> dict[str, object]:
        rows = [
            {"problem": row.problem} | {name: cell.to_dict() for name, cell in zip(self.columns, row.cells)}
            for row in self.rows
        ]
        numbers = {name: str(value) if isinstance(value, Fraction) else value for name, value in self.numbers}
        return {"table": self.name, "title": self.title, "numbers": numbers, "rows": rows, "notes": list(self.notes)}

    def table(self) -> Table:
        """A rich table for the terminal."""
        from rich.table import Table
        from rich.text import Text

        caption = ", ".join(
            f"{name} {float(value):g}" if isinstance(value, Fraction) else f"{name} {value}"
            for name, value in self.numbers
        )
        out = Table(title=self.title, title_justify="left", caption=caption, caption_justify="left", show_lines=True)
        for name in ("", *self.columns):
            out.add_column(name, overflow="fold")
        for row in self.rows:
            out.add_row(Text(row.problem), *(_shown(cell) for cell in row.cells))
        return out

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=150, force_terminal=False)
        console.print(self.table())
        for line in self.notes:
            console.print(line, markup=False, highlight=False)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def _shown(cell: RateCell) -> Text:
    from rich.text import Text

    if cell.rate == "-":
        return Text("-")
    return Text.assemble(cell.rate, "\n", (cell.words(), "bold" if cell.users else "dim"), f"  {cell.source}")


# Numbers


@frozen(slots=False)
class RateNumbers:
    """Public numbers, read and checked."""

    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    m: int
    size: int
    vc: int
    k: int
    d: int
    radius: Fraction
    spread: Fraction
    neighbours: Neighbours
    ladder: int | None

    @property
    def log_size(self) -> float:
        return math.log(self.size)

    @property
    def ldim(self) -> int:
        """``floor(log2 size)``: exactly that of cut-offs; no class of this size has more."""
        return self.size.bit_length() - 1

    @property
    def goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    @property
    def success(self) -> Fraction:
        return 1 - self.beta


def cell_of(rate: str, source: str, compute: Compute | None = None, note: str = "") -> RateCell:
    """A cell; a bound that says nothing at these numbers says so instead of stopping the table."""
    if compute is None:
        return RateCell(rate, source, None, note)
    try:
        return RateCell(rate, source, compute(), note)
    except (ParameterError, TooLargeError) as error:
        return RateCell(rate, source, None, f"no constants at these numbers: {error}")


_NOTHING = RateCell("-", "")


def largest(*computes: Compute) -> Compute:
    """The strongest of several lower bounds; those that do not apply at these numbers are left out."""

    def strongest() -> Certificate:
        found: list[Certificate] = []
        refused: list[ParameterError] = []
        for compute in computes:
            try:
                found.append(compute())
            except ParameterError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return max(found, key=lambda certificate: certificate.n_users or 0)

    return strongest


Built = tuple[str, tuple[str, ...], list[RateRow], list[str]]
"""Title, columns, rows, notes."""

_MOST_BITS = 512


# Li, Wang and Ye, *Improved Bounds*, Table 1: agnostic learning, pure DP


def _agnostic_below(x: RateNumbers, m: int) -> Compute:
    """For classes of Littlestone dimension ``ldim``, such as cut-offs: the four bounds of the planner, the largest of
    them."""
    hard: dict[str, Any] = {"alpha": x.alpha, "beta": x.beta, "epsilon": x.epsilon}
    return largest(
        lambda: lower_agnostic.lower_representation(ldim=x.ldim, **hard),
        lambda: lower_agnostic.lower_sparse(ldim=x.ldim, records_per_user=m, neighbours=x.neighbours, **hard),
        lambda: lower_agnostic.lower_testing(records_per_user=m, neighbours=x.neighbours, **hard),
        lambda: lower_agnostic.lower_statistics(alpha=x.alpha, beta=x.beta, records_per_user=m, dimension=x.vc),
    )


def _agnostic_table(x: RateNumbers) -> Built:
    def item() -> Certificate:
        return agnostic.plan_item_proper(log_size=x.log_size, dimension=x.vc, **x.goal)

    def user() -> Certificate:
        return agnostic.plan_user_agnostic(log_size=x.log_size, dimension=x.vc, records_per_user=x.m, **x.goal)

    def search() -> Certificate:
        return agnostic.plan_threshold_search(log_domain=x.log_size, records_per_user=x.m, **x.goal)

    before = "RepD/(αε) + RepD/α²  or  RepD/(αε) + VC/(α²ε)"
    rows = [
        (
            "any class, item level",
            "RepD/(αε) + VC/α²",
            _agnostic_below(x, 1),
            before,
            "RepD/(αε) + VC/α²",
            "Theorem 3.4",
            item,
        ),
        (
            "any class, user level",
            "RepD/(min(1,mα) ε) + VC/(√m αε) + VC/(mα²)",
            _agnostic_below(x, x.m),
            "RepD/(√m αε) + RepD/(mα²)",
            "RepD/(√m αε) + VC/(mα²)",
            "Theorem 4.6",
            user,
        ),
        (
            "thresholds, user level",
            "log|X|/(min(1,mα) ε) + 1/(√m αε) + 1/(mα²)",
            _agnostic_below(x, x.m),
            "log|X|/(√m αε) + 1/(mα²)",
            "log|X|/(min(1,mα) ε) + 1/(√m αε) + 1/(mα²)",
            "Theorem 5.2",
            search,
        ),
    ]
    made = [
        RateRow(name, (cell_of(low, "certified", bound), cell_of(old, "earlier work"), cell_of(new, source, compute)))
        for name, low, bound, old, new, source, compute in rows
    ]
    notes = [
        "User level is for m <= 1/alpha². RepD: representation dimension; its constants here are for a finite class "
        "of `size` rules (thresholds: |X| = size), lower bounds for classes of Littlestone dimension floor(log2 "
        "size), such as thresholds."
    ]
    return "Agnostic learning, pure DP: users", ("lower bound", "before", "the paper"), made, notes


# Ghazi et al., *Few Examples*, Table 1: pure DP


def _discrete_cover(k: int, c: float) -> float:
    n = math.ceil(k / (4 * c))
    return math.lgamma(n + k) - math.lgamma(k) - math.lgamma(n + 1) + 1e-9


def _mean_grid(d: int, radius: float, c: float) -> float:
    return d * math.log(max(1, math.ceil(radius * math.sqrt(d) / (2 * float(ndtri((1 + c) / 2))))))


def _covers(x: RateNumbers) -> dict[str, float]:
    """``ln |cover|`` at radius ``alpha/10``; entries of a covariance between I and K I on a grid of spacing ``2c/d``,
    by box count."""
    c, d, top = float(x.alpha) / 10, x.d, float(x.spread)
    entries = d * math.log((top - 1) * d / (2 * c) + 2) + d * (d - 1) / 2 * math.log(top * d / c + 2)
    return {
        "discrete": _discrete_cover(x.k, c),
        "product": d * _discrete_cover(x.k, c / d),
        "mean": _mean_grid(d, float(x.radius), c),
        "covariance": entries + _mean_grid(d, float(x.radius), c / 2),
    }


def _selection(x: RateNumbers, log_size: float, m: int, epsilon: float | Fraction | None = None) -> Certificate:
    """A cover by pairwise comparison of densities: width 1, ``alpha0 = c``, ``alpha1 = alpha - 2 c``."""
    goal = x.goal | ({} if epsilon is None else {"epsilon": epsilon})
    alpha = goal.pop("alpha")
    c = alpha / 10
    plan = pairwise.plan_pairwise if epsilon is None else pairwise.pairwise_closed_form
    return plan(log_size=log_size, alpha1=alpha - 2 * c, alpha0=c, width=1, records_per_user=m, **goal)


def _pure_table(x: RateNumbers) -> Built:
    hard: dict[str, Any] = {"alpha": x.alpha, "epsilon": x.epsilon, "success": x.success}
    hard |= {"records_per_user": x.m, "neighbours": x.neighbours}

    def row(
        name: str,
        item: str,
        rate: str,
        theorem: str,
        compute: Callable[[int], Certificate],
        low: RateCell,
        old: RateCell = _NOTHING,
    ) -> RateRow:
        return RateRow(
            name, (cell_of(item, "", lambda: compute(1)), old, cell_of(rate, theorem, lambda: compute(x.m)), low)
        )

    def pac(m: int) -> Certificate:
        return realizable.plan_realizable(log_size=x.log_size, records_per_user=m, **x.goal)

    def agnostic_pac(m: int) -> Certificate:
        goal = x.goal
        return pairwise.plan_pairwise(log_size=x.log_size, alpha1=goal.pop("alpha"), records_per_user=m, **goal)

    covers = _covers(x)

    def rate(q: str) -> str:
        return f"{q}/ε + {q}/(εα√m) + {q}/(α²m)"

    def learn(name: str) -> Callable[[int], Certificate]:
        return lambda m: _selection(x, covers[name], m)

    made = [
        row(
            "PAC learning",
            "d/(εα)",
            "d/ε + d/(εαm)",
            "Theorem 4",
            pac,
            cell_of("d/ε + d/(εαm)", "certified", lambda: lower.lower_littlestone(x.ldim, **hard)),
            cell_of("d/ε for m >= d²/(ε²α²)", "earlier work"),
        ),
        row(
            "agnostic PAC learning",
            "d/α² + d/(εα)",
            "d/ε + d/(εα√m) + d/(α²m)",
            "Theorem 40",
            agnostic_pac,
            cell_of(
                "d/(min(1,mα) ε) + VC/(√m αε) + VC/(mα²)",
                "certified",
                largest(lambda: lower.lower_agnostic_vc(x.vc, **hard), _agnostic_below(x, x.m)),
            ),
        ),
        *(
            row(name, f"{q}/(εα) + {q}/α²", rate(q), theorem, learn(cover), cell_of(rate(q), "certified", low))
            for name, q, theorem, cover, low in (
                ("discrete distribution", "k", "Theorem 43", "discrete", lambda: lower.lower_discrete(x.k, **hard)),
                ("product distribution", "kd", "Theorem 44", "product", lambda: lower.lower_discrete(x.k, **hard)),
                ("Gaussian, known covariance", "d", "Theorem 45", "mean", lambda: lower.lower_gauss_mean(x.d, **hard)),
                (
                    "Gaussian, bounded covariance",
                    "d²",
                    "Theorem 46",
                    "covariance",
                    lambda: lower.lower_gauss_mean(x.d, **hard),
                ),
            )
        ),
    ]
    notes = [
        "d of PAC learning is the representation dimension: numbers are for a finite class of `size` rules, lower "
        "bounds for classes of Littlestone dimension floor(log2 size) and the VC dimension given. Distributions: a "
        "public cover of radius alpha/10.",
        "Of the lower bounds kd and d² only a part has constants (one attribute; the mean): order only beyond that.",
    ]
    return (
        "Pure DP: users",
        ("item level (m = 1)", "user level before", "user level, the paper", "lower bound"),
        made,
        notes,
    )


# Ghazi et al., *Few Examples*, Table 2: approximate DP


def _approximate_table(x: RateNumbers) -> Built:
    x = evolve(x, neighbours=Neighbours.REPLACE)  # what Theorem 10 is proved for
    covers = _covers(x)

    def transformed(n1: Callable[[float], Certificate]) -> Compute | None:
        if x.ladder is None or x.delta == 0:
            return None
        ladder = x.ladder

        def needed(epsilon: float) -> float:
            return n1(max(epsilon, 1e-12)).n_users or math.inf

        told = {"epsilon": x.epsilon, "delta": x.delta, "records_per_user": x.m, "ladder": ladder, "beta": x.beta}
        return lambda: transform.user_complexity(needed, **told)  # type: ignore[arg-type]

    def pac(epsilon: float) -> Certificate:
        return realizable.realizable_closed_form(
            log_size=x.log_size, records_per_user=1, **(x.goal | {"epsilon": epsilon})
        )

    def of(cover: str) -> Callable[[float], Certificate]:
        return lambda epsilon: _selection(x, covers[cover], 1, epsilon)

    note = "" if x.ladder is not None and x.delta else "order only (constants need delta and ladder=)"
    new = "Theorem 10, literal"
    made = [
        RateRow(
            "PAC learning",
            (
                cell_of("L⁶/(εα²)", "earlier work"),
                cell_of("1/ε for m >= L¹²/(ε²α⁴)", "earlier work"),
                cell_of("1/ε + L⁶/(ε²α²√m)", new, transformed(pac), note),
            ),
        ),
        RateRow(
            "discrete distribution",
            (
                cell_of("k/(εα) + k/α²", "earlier work"),
                cell_of("1/ε + k/(εα√m) + k/(α²m)", "earlier work"),
                cell_of("1/ε + k/(ε²α√m) + k/(α²m)", new, transformed(of("discrete")), note),
            ),
        ),
        RateRow(
            "product distribution",
            (
                cell_of("kd/(εα) + kd/α²", "earlier work"),
                _NOTHING,
                cell_of("1/ε + kd/(ε²α√m) + kd/(α²m)", new, transformed(of("product")), note),
            ),
        ),
    ]
    notes = [
        "L: Littlestone dimension. Numbers are for the transformation of a pure item-level selection (finite class of "
        "`size` rules, or a cover of radius alpha/10) under replace, not of the approximate item-level learner: what "
        "the theorem certifies literally, not what this library needs.",
        "delta is much smaller than epsilon; logarithms of 1/delta are left out.",
    ]
    return "(ε, δ)-DP: users", ("item level", "user level before", "user level, the paper"), made, notes


# Ghazi, Kumar and Manurangsi, *Correlated Sampling*, Table 1: learning by agreement


def _agreement_table(x: RateNumbers) -> Built:
    eps = x.epsilon if x.neighbours is Neighbours.ADD_REMOVE else x.epsilon / 2
    bits = max(1, x.ldim)

    def plurality() -> Certificate:
        return agreement.users_plurality(dyadic_base(eps), x.size, beta=x.beta, clear=agreement.CLEAR)

    def local() -> Certificate:
        base = dyadic_base(x.epsilon)
        return agreement.users_local(base / (1 + base), x.size, beta=x.beta, clear=agreement.CLEAR)

    def histogram() -> Certificate:
        q = 1 / dyadic_base(eps)
        limit = x.delta / (1 if x.neighbours is Neighbours.ADD_REMOVE else 2)
        if limit == 0:
            raise ParameterError("this row needs delta above 0")
        width = 1
        while q**width * (1 - q) > limit * (1 + q - 2 * q ** (width + 1)):
            width += 1
            if width > 10_000:
                raise TooLargeError("epsilon and delta need noise wider than 10000")
        return agreement.users_histogram(width, beta=x.beta, named=2)

    def below(delta: Fraction) -> Compute:
        return lambda: agreement.lower_agreement_representation(
            bits, epsilon=x.epsilon, delta=delta, beta=min(x.beta, Fraction(1, 4))
        )

    lowest = cell_of("PRDim/ε", "Lemma 4", below(Fraction(0)))
    records = f"{agreement.records_representation(x.size, alpha=x.alpha, beta=x.beta)[1]:,}"
    each = RateCell("PRDim^O(1)", f"certified: {records} records each", None, "Algorithm 3")
    least = "min(log 1/δ, PRDim)/ε"
    made = [
        RateRow(
            "ε-DP, central",
            (cell_of("PRDim/ε", "Theorem 3", plurality), each, lowest, cell_of("PRDim/ε", "earlier work")),
        ),
        RateRow(
            "ε-DP, local",
            (cell_of("PRDim/ε²", "Theorem 2", local), each, lowest, cell_of("SQDim^O(1)", "earlier work")),
        ),
        RateRow(
            "(ε, δ)-DP, central",
            (
                cell_of("log(1/δ)/ε", "Theorem 1", histogram),
                cell_of("LDim^O(1)", "Theorem 18"),
                cell_of(least, "Lemma 4", below(x.delta)),
                cell_of("LDim^O(1); at least log* LDim", "earlier work"),
            ),
        ),
    ]
    notes = [
        "Numbers are for a representation of `size` hypotheses; lower bounds are for classes of PRDim floor(log2 "
        "size) bits, and hold for any number of records per user. Accuracy enters through the records only."
    ]
    return (
        "User-level learning by agreement: users",
        ("users", "records per user", "lower bound", "item level"),
        made,
        notes,
    )


TABLES: dict[str, Callable[[RateNumbers], Built]] = {
    "000-1": _agnostic_table,
    "002-1": _pure_table,
    "002-2": _approximate_table,
    "004-1": _agreement_table,
}


def table(
    name: str,
    *,
    epsilon: Rational = 1,
    delta: Rational = "1e-6",
    alpha: Rational = "0.1",
    beta: Rational = DEFAULT_BETA,
    records_per_user: int = 16,
    size: int = 1 << 20,
    vc: int = 1,
    categories: int = 4,
    dimension: int = 2,
    radius: Rational = 10,
    spread: Rational = 4,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ladder: int | None = None,
) -> RateTable:
    """A paper's table of rates at public numbers: ``000-1``, ``002-1``, ``002-2`` or ``004-1`` (paper, then its table).

    ``size`` rules (or hypotheses of a representation) of VC dimension ``vc``; laws on ``categories`` values,
    ``dimension`` attributes or coordinates; Gaussian means of norm at most ``radius`` and variances between 1 and
    ``spread``.  ``ladder`` is ``mechanisms.certificate.smallest_K(dyadic_base(epsilon/3), delta/2)``, for the numbers
    of ``002-2``.
    """
    if not isinstance(name, str) or name not in TABLES:
        raise ParameterError(f"the tables are {', '.join(TABLES)}; got {name!r}")
    if isinstance(size, int) and size.bit_length() > _MOST_BITS:
        raise ParameterError(f"size must be at most 2^{_MOST_BITS - 1}, got a number of {size.bit_length()} bits")
    open_unit(alpha, "alpha"), open_unit(beta, "beta"), positive(epsilon, "epsilon")
    x = RateNumbers(
        read_epsilon(epsilon),
        rational(delta, "delta", minimum=0, below=1),
        rational(alpha, "alpha", above=0, below="1/2"),
        rational(beta, "beta", above=0, below="1/2"),
        positive_int(records_per_user, "records_per_user", maximum=1 << 20),
        positive_int(size, "size", minimum=2),
        positive_int(vc, "vc", maximum=1000),
        positive_int(categories, "categories", minimum=2, maximum=1000),
        positive_int(dimension, "dimension", maximum=1000),
        rational(radius, "radius", above=0, maximum=10**9),
        rational(spread, "spread", minimum=1, maximum=10**9),
        relation(neighbours),
        None if ladder is None else positive_int(ladder, "ladder", minimum=0, maximum=10**6),
    )
    title, columns, rows, notes = TABLES[name](x)
    numbers: list[tuple[str, object]] = [
        ("epsilon", x.epsilon),
        ("delta", x.delta),
        ("alpha", x.alpha),
        ("beta", x.beta),
    ]
    numbers += [
        ("records_per_user", x.m),
        ("size", x.size),
        ("vc", x.vc),
        ("categories", x.k),
        ("dimension", x.d),
        ("radius", x.radius),
    ]
    numbers += [("spread", x.spread), ("neighbours", x.neighbours.value)]
    return RateTable(name, title, columns, tuple(rows), tuple(numbers), tuple(notes))
