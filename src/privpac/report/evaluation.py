"""How good a predictor is, as a page: the table as a picture, intervals as bars, the constant beside the rule.

Everything is a function of released sums and public numbers.
"""

from __future__ import annotations

import os
from pathlib import Path

from privpac.errors import ParameterError
from privpac.evaluation import Evaluation
from privpac.released import Released
from privpac.report.measured import evaluated_section
from privpac.report.pages import page, write_page
from privpac.report.words import promise_lines

__all__ = ["evaluation_html", "write_evaluation_report"]


def evaluation_html(released: Released, *, subject: str = "the predictor") -> str:
    """The page of one evaluation as HTML text; ``subject`` says what was evaluated, in words."""
    found = released.hypothesis
    if not isinstance(found, Evaluation):
        raise ParameterError(f"this result is no evaluation but {type(found).__name__}; see pp.evaluate")
    public = [("weight", f"every {'person' if found.weight == 'user' else 'record'} counts the same")]
    public += [("steps of a person's share", str(found.levels))] if found.weight == "user" else []
    public += [("confidence of each interval", f"{100 * float(found.confidence):g} %")]
    public += [(name, str(value)) for name, value in released.parameters.items()]
    return page(
        "evaluation.html",
        released=released,
        subject=subject,
        said=found.sentence(),
        evaluated=evaluated_section(found, None),
        promise=promise_lines(released.guarantee),
        public=public,
    )


def write_evaluation_report(
    released: Released, path: str | os.PathLike[str], *, subject: str = "the predictor"
) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_page(evaluation_html(released, subject=subject), path)
