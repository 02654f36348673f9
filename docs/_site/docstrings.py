"""Docstrings as the site shows them: examples that stand alone become code, and roles become names.

The docstrings of the project hold examples (``>>> …``) without a heading of their own; Markdown would take them for
quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|obj):`~?(?:[\w.]*\.)?(\w+)`")
HEADINGS = re.compile(r"^(Parameters|Returns|Raises|Examples|Notes|Yields|Attributes)\n-{3,}$", re.MULTILINE)


def readable(text: str) -> str:
    """The same words for Markdown.

    >>> print(readable("Say :meth:`~a.b.learn`.\\n\\n>>> 1 + 1\\n2\\n\\nDone."))
    Say `learn`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    Done.
    """
    head = HEADINGS.search(text)
    lead, rest = (text[: head.start()], text[head.start() :]) if head else (text, "")
    # Examples below a list of parameters get the heading that numpydoc wants.
    if "Examples\n---" not in rest:
        rest = re.sub(r"\n\n(?=>>> )", "\n\nExamples\n--------\n", rest, count=1)
    parts = [f"```pycon\n{part}\n```" if part.startswith(">>> ") else part for part in lead.strip().split("\n\n")]
    return ROLE.sub(r"`\1`", "\n\n".join(parts) + ("\n\n" + rest if rest else ""))


class Readable(griffe.Extension):
    """Rewrites every docstring when it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
