"""Pages from templates: one base, one stylesheet, shared parts, and whatever is put in stays text.

Every template escapes every value; only pictures that this package drew itself are markup.  Characters that steer a
screen instead of standing on it (controls, changes of the direction of writing) are shown as U+FFFD: a name cannot turn
the words around it.  A value that a template needs and a page forgot is an error, not an empty place.  Pages fetch
nothing, and say so to the browser.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from privpac.errors import ParameterError, WeakGuaranteeWarning
from privpac.files import write_whole
from privpac.guarantee import Guarantee

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
