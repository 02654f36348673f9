"""What the estimators share: reading columns as scikit-learn does, domains by name or position, one release per fit."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np
import polars as pl
from attrs import evolve
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from privpac.api.learn import release_rule
from privpac.data import Domain, Floats, UserData
from privpac.data.build import record_values
from privpac.data.columns import column
from privpac.data.schema_file import Schema, read_schema
from privpac.data.spec import read_domain
from privpac.data.suggest import column_types
from privpac.errors import ItemLevelWarning, ParameterError, PrivpacError, WeakGuaranteeWarning
from privpac.guarantee import Guarantee, Unit, one_of
from privpac.ledger import BudgetLedger
from privpac.methods.base import Learner
from privpac.result import Released

Matrix = Any
"""What scikit-learn takes for ``X``: an array, a frame, or rows of Python objects."""
ColumnLike = Any
"""What it takes for ``y`` and ``groups``: an array, a series, a list, or None."""
Tags = Any
"""scikit-learn has no types."""
Domains = Mapping[Any, Any] | Sequence[Any] | None
"""Public domains of the columns, by name or by position."""


FITTED_IN_FRONT = (
    "{steps} in front is fitted on the same table, without privacy: what it learned is in every later number and "
    "outside this guarantee; use public constants, such as a FunctionTransformer"
)


# Who called ``fit``: a search that forgot the people, or a pipeline whose earlier steps looked at the table?
#
# scikit-learn tells an estimator neither.  Without metadata routing ``GridSearchCV(...).fit(X, y, groups=people)`` uses
# the groups to split and fits every fold without them: each person would be protected row by row only, and nobody would
# be told.  So the frames above ``fit`` are looked at, for the names of modules and the types of steps, never for data.

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


def fitted_in_front(estimator: object) -> list[str]:
    """Steps of the pipeline that is fitting this estimator which learn something from the table, by type."""
    for frame in _callers():
        owner = frame.f_locals.get("self")
        if isinstance(owner, Pipeline) and any(step is estimator for _, step in owner.steps):
            return [type(step).__name__ for _, step in owner.steps[:-1] if _learns(step)]
    return []


def _learns(step: object) -> bool:
    if step is None or isinstance(step, str):  # passed over
        return False
    try:
        return bool(get_tags(step).requires_fit)
    except Exception:  # a step of one's own without tags
        return hasattr(step, "fit")


def is_listed(values: object) -> bool:
    """Whether these are Python objects in a row, which have no common type; numpy would give them one."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype == object
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes))


def _without_numbers(X: object) -> list[str]:
    """The columns of a frame whose type is none of numbers; a column of Python objects counts, as it has no type."""
    try:
        types = column_types(X) if hasattr(X, "columns") else {}
    except (PrivpacError, TypeError):
        return []
    return [name for name, kind in types.items() if kind is None or not (kind.is_numeric() or kind == pl.Boolean)]


def _places(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


class GroupsAsked:
    """Mixin: with metadata routing on, scikit-learn hands the people to every ``fit``."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}


class PrivateEstimator(GroupsAsked):
    """Mixin of the private estimators."""

    domains: Domains
    schema: Schema | str | Path | None = None
    unit: str | None
    on_invalid: str | None
    ledger: str | Path | None
    released_: Released

    @property
    def guarantee_(self) -> Guarantee:
        """What the last ``fit`` promises, and for whom."""
        check_is_fitted(self, "released_")
        assert self.released_.guarantee is not None  # fit draws from the system
        return self.released_.guarantee

    def _unit(self, groups: ColumnLike) -> Unit:
        """Who is protected; said or refused before anything is looked at."""
        for line in self._outside():
            warnings.warn(line, WeakGuaranteeWarning, stacklevel=3)
        unit = None if self.unit is None else one_of(Unit, self.unit, "unit")
        if groups is not None:
            if unit is Unit.ITEM:
                raise ParameterError("unit='item' protects single rows and takes no groups; leave one of them out")
            return Unit.USER
        if unit is Unit.USER:
            raise ParameterError("unit='user' needs groups: pass fit(..., groups=person_ids)")
        if unit is None:
            where = in_search()
            if where is not None:
                raise ParameterError(SEARCH.format(where=where))
            warnings.warn(
                "fit without groups protects single rows, not people; pass groups=person_ids, or unit='item' if every "
                "row is a person of its own",
                ItemLevelWarning,
                stacklevel=3,
            )
        return Unit.ITEM

    def _outside(self) -> list[str]:
        """What this fit takes from the table outside its guarantee, by public declarations alone: a warning before
        data are looked at, and a line of the result, so that a saved file says it too."""
        before = ", ".join(fitted_in_front(self))
        return [FITTED_IN_FRONT.format(steps=before)] if before else []

    def _release(
        self,
        learner: Learner,
        columns: Mapping[str, ColumnLike],
        target: ColumnLike,
        groups: ColumnLike,
        features: dict[str, Domain],
        labels: Mapping[str, Any] | None = None,
    ) -> Released:
        """Bind, spend, draw; called by ``fit`` once everything public is checked.

        ``labels`` says how the target is read.
        """
        frame = pl.DataFrame({name: column(values, name) for name, values in columns.items()})
        data = UserData.from_arrays(
            frame, target, groups, features=features, on_invalid=self._policy(), **(labels or {})
        )
        if self.ledger is None:
            released = release_rule(learner, data)
        else:
            with BudgetLedger.open(self.ledger) as book:
                released = release_rule(learner, data, ledger=book)
        return evolve(released, warnings=(*released.warnings, *self._outside()))

    def _columns(self, X: Matrix, *, reset: bool) -> dict[str, ColumnLike]:
        """Columns by name.

        Where the columns are declared, or a rule says what happens to invalid values, the domains judge the values of a
        fit, each alone: scikit-learn would refuse the table, and numpy change the type of a column of Python objects,
        because of one of them.  Otherwise they are numbers as scikit-learn checks them.
        """
        own = self._declares() or self._policy() != "raise"
        if own and hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset:
                self._check_rows(X.shape[0])
            return {str(name): X[name] for name in X.columns}
        if own and is_listed(X):
            return self._listed(list(X), reset=reset)
        refused: ParameterError | None = None
        try:
            array = validate_data(
                self,
                X,
                reset=reset,
                dtype=None if own else "numeric",
                ensure_min_samples=1,
                ensure_all_finite=not (own and reset) and ("allow-nan" if self._takes_missing() else True),
            )
        except ValueError:  # scikit-learn's own message quotes a value
            texts = [] if own else _without_numbers(X)
            if not texts:
                raise
            refused = ParameterError(
                f"columns {texts} hold no numbers, by their type: declare domains=, such as domains={{{texts[0]!r}: "
                "Categories(['a', 'b'])} with one for every column, or schema=, a file that privpac domains TABLE makes"
            )
        if refused is not None:  # outside, so that no traceback carries that value
            raise refused
        names = [str(name) for name in getattr(self, "feature_names_in_", _places(array.shape[1]))]
        return {name: np.ascontiguousarray(array[:, i]) for i, name in enumerate(names)}

    def _listed(self, rows: list[object], *, reset: bool) -> dict[str, ColumnLike]:
        """The columns of rows that are Python objects; a row of another length than was declared is unreadable, as a
        value is."""
        self._check_rows(len(rows))
        if not reset:
            validate_data(self, rows, reset=False, skip_check_array=True)
            values = record_values(rows, None)
            return dict(zip(map(str, getattr(self, "feature_names_in_", _places(len(values)))), values.values()))
        width = self._width()
        values = record_values(rows, None if width is None else _places(width))
        # scikit-learn counts the columns in the first row, which is somebody's
        validate_data(self, np.broadcast_to(0, (len(rows), len(values))), reset=True, skip_check_array=True)
        return dict(zip(_places(len(values)), values.values()))

    def _check_rows(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {type(self).__name__}.")

    # Methods, not properties: scikit-learn's ``dir`` reads every property, and these may refuse what was declared.

    def _declares(self) -> bool:
        """Whether somebody declared the columns; both ways at once are refused."""
        if self.domains is not None and self.schema is not None:
            raise ParameterError("domains= and schema= both declare the columns; give one of them")
        return self.domains is not None or self.schema is not None

    def _width(self) -> int | None:
        """How many columns are declared; ``None``: nobody declared any."""
        if self.schema is not None:
            return len(self._schema().domains(self._policy()))
        return None if self.domains is None else len(self.domains)

    def _schema(self) -> Schema:
        assert self.schema is not None
        return read_schema(self.schema)

    def _policy(self) -> str:
        """What happens to values outside their domain."""
        said = self._schema().on_invalid if self.schema is not None and self.on_invalid is None else self.on_invalid
        return "raise" if said is None else str(said)

    def _takes_missing(self) -> bool:
        """Whether some domain says what a missing value is; the others refuse one themselves."""
        known: Any = self._schema().domains(self._policy()) if self.schema is not None else self.domains
        declared = known.values() if isinstance(known, Mapping) else known or ()
        read = (read_domain(domain, "of domains=") for domain in declared)
        return any(domain is not None and domain.present is not domain for domain in read)

    def _domains(self, names: list[str]) -> dict[str, Domain]:
        """The declared domain of every column of X."""
        found: dict[str, Any] = {name: read_domain(domain, name) for name, domain in self._declared(names).items()}
        for name, domain in found.items():
            if not isinstance(domain, Domain):
                raise TypeError(
                    f"the domain of {name!r} must be a Domain such as Integers(0, 10), got {type(domain).__name__}"
                )
        return found

    def _declared(self, names: list[str]) -> dict[str, Any]:
        if self.schema is not None:
            known = self._schema().domains(self._policy())
            absent = [name for name in names if name not in known]
            if absent:
                raise ParameterError(f"columns {absent} of X are not in the schema, which has {list(known)}")
            return {name: known[name] for name in names}
        if self.domains is None:
            return {name: Floats() for name in names}
        if not isinstance(self.domains, Mapping):
            if len(self.domains) != len(names):
                raise ParameterError(f"{len(names)} columns but {len(self.domains)} domains")
            return dict(zip(names, self.domains))
        places: dict[Any, str] = dict(enumerate(names)) | {name: name for name in names}
        strange = [key for key in self.domains if key not in places]
        if strange:
            raise ParameterError(f"domains name columns that X does not have: {strange}; it has {names}")
        by_name = {places[key]: domain for key, domain in self.domains.items()}
        missing = [name for name in names if name not in by_name]
        if missing:
            raise ParameterError(
                f"columns {missing} have no domain; declare one for each, e.g. Integers(0, 100) or Floats()"
            )
        return {name: by_name[name] for name in names}
