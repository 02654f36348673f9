"""``pp.list_methods``: the ways to learn a rule as a table, read off the one registry that ``learn`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from attrs import frozen
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from privpac.errors import ParameterError, did_you_mean
from privpac.guarantee import Neighbours, one_of
from privpac.methods.registry import METHODS, PROMISES, Method, method_named

COLUMNS = ("method", "what it does", "learns", "privacy", "accuracy", "relations", "needs", "when to use it")


def list_methods(
    concept: object = None,
    *,
    setting: str | None = None,
    neighbours: Neighbours | str | None = None,
    all: bool = False,
) -> MethodTable:
    """The methods of ``pp.learn`` that people should choose from, or those of them that fit what is asked.

    Parameters
    ----------
    concept : class of rules or tree, optional
        Only methods that learn a rule of it.
    setting : {"agnostic", "realizable"}, optional
        Only methods for these labels.
    neighbours : {"add-remove", "replace"}, optional
        Only methods that can promise this relation.
    all : bool
        Also results of the papers that another method dominates in ordinary use.

    Returns
    -------
    MethodTable

    Returns
    -------
    MethodTable
        Mappings, printed as a table; a key such as ``"hybrid"`` picks one.

    Raises
    ------
    ParameterError
        A setting or relation that does not exist.

    Examples
    --------
    >>> import privpac as pp
    >>> [one["method"] for one in pp.list_methods(pp.PrefixTree(3))]
    ['tree']
    >>> pp.list_methods(pp.PrefixTree(3), all=True).keys
    ('tree', 'reduction')
    >>> pp.list_methods()["hybrid"]["privacy"]
    '(ε, 0)'
    """
    if setting not in (None, "agnostic", "realizable"):
        near = did_you_mean(setting, ("agnostic", "realizable"))
        raise ParameterError(f"setting must be 'agnostic' or 'realizable', got {str(setting)[:40]!r}{near}")
    relation = None if neighbours is None else one_of(Neighbours, neighbours, "neighbours")
    fitting = [
        method
        for method in METHODS.values()
        if (all or method.recommended)
        and (concept is None or method.learns(concept))
        and method.fits(setting)
        and (relation is None or relation in method.relations)
    ]
    return MethodTable(tuple(_row(method) for method in fitting))


def _row(method: Method) -> dict[str, str]:
    relations = [
        str(relation) + (f" (with {_said(needs)})" if needs else "") for relation, needs in method.relations.items()
    ]
    return {
        "method": method.key,
        "what it does": method.about,
        "learns": method.rules,
        "privacy": PROMISES[method.promise],
        "accuracy": method.accuracy,
        "relations": ", ".join(relations),
        "needs": _said(method.needs) or "nothing",
        "when to use it": method.when,
    }


def _said(needs: Sequence[tuple[str, ...]]) -> str:
    return " and ".join(" or ".join(need) for need in needs)


@frozen(slots=False)
class MethodTable:
    """Rows of plain texts; prints as a table, ``to_json`` for programs."""

    rows: tuple[dict[str, str], ...]

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, method: str) -> dict[str, str]:
        method_named(method)
        found = next((row for row in self.rows if row["method"] == method), None)
        if found is None:
            more = "" if METHODS[method].recommended else ", or give all=True"
            raise ParameterError(f"the method {method!r} does not fit what was asked; fitting are {self.keys}{more}")
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that ``method=`` takes."""
        return tuple(row["method"] for row in self.rows)

    def to_json(self) -> str:
        return json.dumps(list(self.rows), indent=1, ensure_ascii=False)

    def table(self) -> Table:
        """For a terminal."""
        out = Table(box=SIMPLE, show_lines=True)
        for column in ("method", "privacy", "relations", "needs", "when to use it"):
            out.add_column(column, overflow="fold")
        for row in self.rows:
            out.add_row(
                f"[bold]{row['method']}[/bold]\n{row['what it does']}",
                f"{row['privacy']}\n{row['accuracy']}",
                row["relations"],
                row["needs"],
                row["when to use it"],
            )
        return out

    def __str__(self) -> str:
        console = Console(width=140, color_system=None, force_terminal=False)
        with console.capture() as caught:
            console.print(self.table())
        return caught.get()

    __repr__ = __str__  # a prompt and a notebook show the table, not the texts it is made of
