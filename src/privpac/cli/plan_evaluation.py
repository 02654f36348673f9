"""``privpac plan evaluation``: how wide will the interval be, or how many people does a width take?"""

from __future__ import annotations

import json as json_format
from typing import Any

import typer

from privpac.errors import ParameterError
from privpac.evaluation.plan import plan_evaluation
from privpac.exact import rational

__all__ = ["show_plan"]


def show_plan(
    epsilon: str | None, users: int | None, width: str | None, beta: str, error: str | None, neighbours: str, json: bool
) -> None:
    """The half-width of the error's intervals with ``users`` people, or the least number of people for ``width``."""
    if epsilon is None or (users is None) == (width is None):
        raise ParameterError(
            "a plan of an evaluation needs --epsilon, and --people (how wide?) or --alpha (the half-width: how many?)"
        )
    planned = plan_evaluation(
        users,
        epsilon=epsilon,
        half_width=width,
        error="0.1" if error is None else error,
        confidence=1 - rational(beta, "beta", above=0, below=1),
        neighbours=neighbours or "add-remove",
    )
    if not json:
        typer.echo(str(planned))
        return
    body: dict[str, Any] = {
        "n_users": planned.n_users,
        "these": planned.these,
        "like": planned.like,
        "cells": planned.cells,
    }
    body |= {name: str(getattr(planned, name)) for name in ("epsilon", "error", "confidence", "neighbours")}
    typer.echo(json_format.dumps(body, indent=2))
