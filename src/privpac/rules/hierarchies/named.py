"""Trees written as text: the command line's way of naming one.

==============================  ====================================================================
text                            tree
==============================  ====================================================================
``path:/`` ``path:/:16``        paths split at ``/`` (or any text), at most 32 (or 16) levels
``prefix:1,3,4`` ``prefix:3:.``  codes cut after 1, 3 and 4 characters; characters to ignore at the end
``chars:6``                     codes with one level for each of the first 6 characters
``ip`` ``ip:24`` ``ip6``        networks in CIDR notation, one bit a level, to the given length
``points``                      single values, open vocabulary
``thresholds:0:100``            cut-offs on a domain, written as for features
``taxonomy:tree.csv``           a hierarchy: a CSV file with the columns child and parent
``branch:0:100``                which branch (first feature), up to which position (second feature)
==============================  ====================================================================
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

from privpac.data import parse_domain
from privpac.errors import ParameterError
from privpac.rules.hierarchies.addresses import AddressTree
from privpac.rules.hierarchies.base import VC1Tree
from privpac.rules.hierarchies.branches import BranchThresholds
from privpac.rules.hierarchies.paths import PathTree, StarTree
from privpac.rules.hierarchies.prefixes import PrefixTree
from privpac.rules.hierarchies.taxonomy import Taxonomy

__all__ = ["parse_tree", "read_taxonomy"]

PATH_DEPTH = 32
_FORMS = "path:/, prefix:1,3,4, chars:6, ip, ip6, points, thresholds:lo:hi, taxonomy:file.csv or branch:lo:hi"


def _digits(text: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ParameterError(f"{what} must be a whole number, got {text[:40]!r}")
    return int(text)


def _path(rest: str) -> VC1Tree:
    found = re.fullmatch(r"(.+?)(?::([0-9]+))?", rest, re.DOTALL)
    if found is None:
        raise ParameterError("path needs its separator, such as path:/ or path:/:16")
    return PrefixTree(PATH_DEPTH if found[2] is None else _digits(found[2], "the depth of path"), found[1])


def _prefix(rest: str) -> VC1Tree:
    cuts, _, ignore = rest.partition(":")
    return PrefixTree(cuts=tuple(_digits(cut.strip(), "a cut of prefix") for cut in cuts.split(",")), ignore=ignore)


def _chars(rest: str) -> VC1Tree:
    return PrefixTree(cuts=tuple(range(1, _digits(rest, "the depth of chars") + 1)))


def _addresses(version: int) -> Callable[[str], VC1Tree]:
    return lambda rest: AddressTree(version, _digits(rest, "the length of ip") if rest else None)


def _points(rest: str) -> VC1Tree:
    return StarTree(parse_domain(rest) if rest else None)


def _needs_domain(rest: str, what: str) -> str:
    if not rest:
        raise ParameterError(f"{what} needs its domain, such as {what}:0:100")
    return rest


_TREES: dict[str, Callable[[str], VC1Tree]] = {
    "path": _path,
    "prefix": _prefix,
    "chars": _chars,
    "ip": _addresses(4),
    "ip6": _addresses(6),
    "points": _points,
    "thresholds": lambda rest: PathTree(parse_domain(_needs_domain(rest, "thresholds"))),
    "taxonomy": lambda rest: read_taxonomy(rest),
    "branch": lambda rest: BranchThresholds(parse_domain(_needs_domain(rest, "branch"))),
}


def parse_tree(text: str) -> VC1Tree:
    """Read a tree's name.

    Parameters
    ----------
    text : str
        ``path:/`` or ``path:/:16``, ``prefix:1,3,4``, ``chars:6``, ``ip``, ``ip6``, ``points``, ``thresholds:lo:hi``,
        ``branch:lo:hi`` or ``taxonomy:file.csv``, as for ``privpac learn --tree``.

    Returns
    -------
    VC1Tree

    Examples
    --------
    >>> parse_tree("path:/").height, parse_tree("prefix:1,3,4").height, parse_tree("ip6").level_width(1)
    (32, 3, 2)
    """
    if not isinstance(text, str):
        raise TypeError(f"a tree is named by text, got {type(text).__name__}")
    kind, _, rest = text.strip().partition(":")
    if kind not in _TREES:
        raise ParameterError(f"a tree must be {_FORMS}; got {text[:60]!r}")
    return _TREES[kind](rest)


def read_taxonomy(path: str) -> Taxonomy:
    """A public CSV file with the columns ``child`` and ``parent``; an empty parent means the top."""
    if not path:
        raise ParameterError("taxonomy needs its file, such as taxonomy:tree.csv")
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            if rows.fieldnames is None or not {"child", "parent"} <= set(rows.fieldnames):
                raise ParameterError(f"{path!r} must have the columns child and parent")
            pairs = [(row["child"], row["parent"]) for row in rows]
    except OSError as error:
        raise ParameterError(f"cannot read {path!r}: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError):
        raise ParameterError(f"{path!r} is not a readable CSV file in UTF-8") from None
    if not pairs:
        raise ParameterError(f"{path!r} lists no names")
    parents = {child: parent or None for child, parent in pairs}
    if len(parents) < len(pairs):
        raise ParameterError(f"{path!r} gives a name two parents; a taxonomy is a tree")
    return Taxonomy(parents)
