"""How values are shown: results, promises, budgets and plans know that they can be looked at, not how.

The first look loads the front's ``privpac.report``, by name: the ground imports nothing of it, and whoever never looks
needs neither templates nor a drawing library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from attrs import frozen

from privpac.errors import ParameterError
from privpac.files import write_whole

_FORMATS = ("svg", "png", "pdf")


def front(room: str) -> Any:
    """A module of ``privpac.report``, loaded on first use."""
    return import_module(f"privpac.report.{room}")


class Discreet:
    """A value whose ``repr`` is all that ``rich`` shows of it, too: left alone it lists every field of an attrs class,
    whatever the class's own ``repr`` leaves out, and fields may hold people's records."""

    __slots__ = ()

    def __rich__(self) -> object:
        return import_module("rich.text").Text(repr(self))

    def __rich_repr__(self) -> Iterator[object]:
        return iter(())  # within a list or a traceback: the name of the class


class Shown(Discreet):
    """What a notebook shows of a value: text and pictures that a template wrote, everything in them escaped."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(front("notebook").fragment(self))


@frozen(slots=False, eq=False, repr=False)
class Picture:
    """A drawing of something public: a notebook shows it, ``save`` writes it.

    ``figure`` is a ``matplotlib.figure.Figure`` for whoever wants to change it; ``svg`` its text, the same for the same
    input.
    """

    svg: str
    figure: Any
    alt: str

    def __repr__(self) -> str:
        return f"<Picture: {self.alt}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to; its ending says how: ``.svg``, ``.png`` or ``.pdf``.

        Returns
        -------
        Path
            The file that was written.
        """
        target = Path(path)
        kind = target.suffix.removeprefix(".").lower()
        if kind not in _FORMATS:
            raise ParameterError(f"a picture is saved as .svg, .png or .pdf, got {target.name[-40:]!r}; rename it")
        out = BytesIO(self.svg.encode() if kind == "svg" else b"")
        if kind != "svg":
            self.figure.savefig(out, format=kind, dpi=200, bbox_inches="tight")
        try:
            write_whole(target, out.getvalue())
        except OSError as error:
            raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}; choose a writable place") from None
        return target
