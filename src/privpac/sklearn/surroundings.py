"""Who called ``fit``: a search that forgot the people, or a pipeline whose earlier steps looked at the table?

scikit-learn tells an estimator neither.  Without metadata routing ``GridSearchCV(...).fit(X, y, groups=people)`` uses
the groups to split and fits every fold without them: each person would be protected row by row only, and nobody would
be told.  So the frames above ``fit`` are looked at, for the names of modules and the types of steps, never for data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

__all__ = ["SEARCH", "fitted_in_front", "in_search"]

SEARCH = (
    "this fit runs inside scikit-learn's {where}, and no groups reached it: people would be protected row by row only. "
    "Let the groups through with sklearn.set_config(enable_metadata_routing=True) (this estimator asks for them), use "
    "PrivateSearchCV, which chooses with one budget, or set unit='item' if every row is a person of its own"
)

_META = ("model_selection", "ensemble", "calibration", "multiclass", "multioutput", "feature_selection", "inspection")


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def in_search() -> str | None:
    """The part of scikit-learn that fits many copies of this estimator, if one of those called."""
    for frame in _callers():
        package, _, rest = str(frame.f_globals.get("__name__", "")).partition(".")
        if package == "sklearn" and rest.split(".")[0] in _META:
            return rest.split(".")[0]
    return None


def fitted_in_front(estimator: Any) -> list[str]:
    """Steps of the pipeline that is fitting this estimator which learn something from the table, by type."""
    for frame in _callers():
        owner = frame.f_locals.get("self")
        if isinstance(owner, Pipeline) and any(step is estimator for _, step in owner.steps):
            return [type(step).__name__ for _, step in owner.steps[:-1] if _learns(step)]
    return []


def _learns(step: Any) -> bool:
    if step is None or isinstance(step, str):  # passed over
        return False
    try:
        return bool(get_tags(step).requires_fit)
    except Exception:  # a step of one's own without tags
        return hasattr(step, "fit")
