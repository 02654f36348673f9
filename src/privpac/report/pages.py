"""Pages from templates: one base, one stylesheet, shared parts, and whatever is put in stays text.

Every template escapes every value; only pictures that this package drew itself are markup.  Characters that steer a
screen instead of standing on it (controls, changes of the direction of writing) are shown as U+FFFD: a name cannot turn
the words around it.  A value that a template needs and a page forgot is an error, not an empty place.  Pages fetch
nothing, and say so to the browser.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from privpac.errors import ParameterError, WeakGuaranteeWarning
from privpac.files import write_whole
from privpac.guarantee import EMPTY_ABOVE, Guarantee, Neighbours, Unit
from privpac.result import BUDGET_LEFT, Released

# What pages call the public numbers of a release, and its promise in lines.


WORDS = {
    "class": "class of rules",
    "size": "number of rules",
    "levels": "steps of a user's vote",
    "noisy_n_users": "number of users (noisy)",
    "public_n_users": "number of users (public)",
    "epsilon_count": "epsilon spent on that number",
    "max_records": "records read per user, at most",
    "tau": "clip of a user's regret, in records",
    "tolerance": "mistakes forgiven per user",
    "columns": "columns of the scorecard",
    "steps": "steps of the descent",
    "clip": "clip of a user's gradient, in 1/4096",
    "rho": "spent in all, as zCDP",
    "depth": "questions one after the other, at most",
    "price in nats": "price of the rule, in nats",
    "mode": "how a user's records name a node",
    "hi": "users at least as deep as the node, at least",
    "K": "users deeper than the node, at most",
    "epsilon1": "epsilon spent on the depth",
    "epsilon2": "epsilon spent on the node",
}


def promise_lines(guarantee: Guarantee | None) -> list[str]:
    """A guarantee in words, after its own first line."""
    if guarantee is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # said at the top already
        return guarantee.explain().splitlines()[1:]


def promise_section(guarantee: Guarantee | None) -> dict[str, object] | None:
    """What is promised, with an example, and what it does not protect from; None without a guarantee."""
    if guarantee is None:
        return None
    exact = ("The same run", "Under the replace", "How:")
    people = guarantee.unit is Unit.USER
    factor = math.exp(min(float(guarantee.epsilon), 700.0))
    doubtful = 0.1 * factor / (0.9 + 0.1 * factor)
    holds = "is in the data" if guarantee.neighbours is Neighbours.ADD_REMOVE else "has these records, not those"
    limits = [
        "What is true of many people. A rule that fits most people says something about each of them, also about those "
        "who are not in the data. That would be so if any one of them had stayed away.",
        "Several releases together. Each further release from the same people adds to ε; a ledger keeps the sum. "
        "Releases from other tables about the same people add up, too.",
        "Groups. k people who belong together, such as a household, are protected as a group with k times ε."
        if people
        else "People with several records. k records of one person are protected with k times ε.",
        "Access to the table itself. Who may read it, and how it is kept, is another question.",
    ]
    if guarantee.delta:
        limits.append(f"A failure of probability at most {float(guarantee.delta):.2g}, in which nothing is promised.")
    return {
        "lines": [line for line in promise_lines(guarantee) if not line.startswith(exact)],
        "alarming": guarantee.strength.alarming,
        "example": ""
        if guarantee.epsilon > EMPTY_ABOVE
        else f"before this page, somebody is 10 % sure that a certain {'person' if people else 'record'} {holds}. "
        f"Whatever else they know, this page can make them at most about {100 * doubtful:.2g} % sure.",
        "limits": limits,
    }


_ABOUT = {
    "released": "released",
    "version": "privpac version",
    "dataset": "name of the data",
    "purpose": "purpose",
    "contact": "contact",
    "receipt": "receipt in the ledger",
}
"""What :attr:`~privpac.result.Released.about` and the caller of a report say, in the order and words of the page."""


def release_facts(
    released: Released,
    domains: Mapping[str, str],
    public: Iterable[tuple[str, object]],
    **said: str,
) -> dict[str, object]:
    """Who released what when, and the exact statement: the parts of a page that somebody signs.

    ``domains`` are the declared ones in words, ``public`` further public numbers, ``said`` a purpose, contact or name
    of the data of the caller's own.
    """
    guarantee, about = released.guarantee, {**released.about, **said}
    rows: list[tuple[str, object]] = [(shown, about[name]) for name, shown in _ABOUT.items() if about.get(name)]
    if guarantee is not None:
        whose = f", by the column {about['user']!r}" if "user" in about else ""
        rows.append(
            ("protected", f"each person with all their records{whose}" if _people(guarantee) else "each record")
        )
    if BUDGET_LEFT in released.parameters:
        rows.append((BUDGET_LEFT, released.parameters[BUDGET_LEFT]))
    rows += [] if "released" in about else [("method", released.learner)] if released.learner else []
    return {
        "rows": rows,
        "domains": list(domains.items()),
        "exact": released.exact_promise,
        "meaning": "" if guarantee is None else _meaning(guarantee),
        "steps": () if guarantee is None else guarantee.derivation,
        "public": list(public),
        "hash": _hash(released),
    }


def _people(guarantee: Guarantee) -> bool:
    return guarantee.unit is Unit.USER


def _meaning(guarantee: Guarantee) -> str:
    one = "one person with all their records" if _people(guarantee) else "one record"
    change = "present or absent" if guarantee.neighbours is Neighbours.ADD_REMOVE else "replaced by any other"
    return (
        f"For any two tables that differ in {one}, {change}, and every set E of results: "
        "Pr[result of the first in E] is at most e^ε Pr[result of the second in E] + δ."
    )


def _hash(released: Released) -> str:
    """SHA-256 of the file that ``released.save`` writes; empty for what has no file."""
    try:
        return hashlib.sha256(f"{released.to_json()}\n".encode()).hexdigest()
    except TypeError:
        return ""


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def standing(text: str) -> str:
    """The text, without what would move the text around it."""
    return _STEERING.sub("\ufffd", text)


def _shown(value: object) -> Markup | str:
    return value if isinstance(value, Markup) else standing(str(value))


def readable(value: object) -> str:
    """A public value as text: long numbers in groups, very long ones by their size."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"about 2^{value.bit_length() - 1}" if value.bit_length() > 63 else f"{value:,}"
    return str(dict(value) if isinstance(value, Mapping) else value)


_TEMPLATES = Environment(
    loader=PackageLoader("privpac.report"),
    autoescape=True,
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["readable"] = readable


def page(template: str, **values: object) -> str:
    """One page as HTML text."""
    return _TEMPLATES.get_template(template).render(values)


def stylesheet() -> bytes:
    """The style of all pages, for a page that links to it."""
    return _TEMPLATES.get_template("style.css").render().encode()


def write_page(content: str | bytes, path: str | os.PathLike[str]) -> Path:
    """Write a page or a picture to ``path``, whole or not at all."""
    target = Path(path)
    try:
        write_whole(target, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}; choose a writable place") from None
    return target
