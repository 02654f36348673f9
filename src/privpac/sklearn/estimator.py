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
import sklearn
from attrs import evolve, frozen
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from privpac.api.learn import release_rule
from privpac.data import Domain, Floats, UserData
from privpac.data.build import record_values
from privpac.data.columns import column
from privpac.data.schema_file import Schema, read_schema
from privpac.data.spec import read_features
from privpac.data.suggest import column_types
from privpac.errors import ItemLevelWarning, ParameterError, PrivpacError, WeakGuaranteeWarning
from privpac.guarantee import Guarantee, Unit, one_of
from privpac.ledger import LedgerLike
from privpac.methods.base import Learner
from privpac.result import Released

Matrix = Any
"""What scikit-learn takes for ``X``: an array, a frame, or rows of Python objects."""
ColumnLike = Any
"""What it takes for ``y`` and ``groups``: an array, a series, a list, or None."""
Tags = Any
"""scikit-learn has no types."""
Domains = Mapping[Any, Any] | Sequence[Any] | None
"""Public domains of the columns, by name or by position, in any form of :mod:`privpac.data.spec`."""


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
    "Write sklearn.set_config(enable_metadata_routing=True) and pass params={{'groups': people}} (to GridSearchCV.fit: "
    "groups=people); or use PrivateSearchCV, which spends once; or set unit='item' if every row is a person of its own"
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


def _declare(column: str, domain: str = "['a', 'b']") -> str:
    return (
        f"declare domains=, such as domains={{{column!r}: {domain}}} with one for every column, or schema=, the file "
        "that the command privpac domains TABLE writes"
    )


def _check_types(X: object) -> None:
    """Without domains columns are numbers, by their type; columns of Python objects have none and are tried."""
    try:
        types = column_types(X) if hasattr(X, "columns") else {}
    except (PrivpacError, TypeError):
        return
    texts = [name for name, kind in types.items() if not (kind is None or kind.is_numeric() or kind == pl.Boolean)]
    if texts:
        raise ParameterError(f"columns {texts} hold no numbers, by their type: {_declare(texts[0])}")


def _reworded(message: str, X: object) -> ParameterError | None:
    """What scikit-learn says of a table by quoting its values, in words that quote none; None where it quotes none."""
    first = message.partition("\n")[0]
    if "\narray=" in message:
        return ParameterError(
            f"{first.partition(' instead')[0]}. Reshape your data: X.reshape(-1, 1) if it is one column, "
            "X.reshape(1, -1) if it is one row"
        )
    if first == "Complex data not supported":
        return ParameterError(f"{first}: X holds complex numbers; split them into two columns of real numbers")
    if first.startswith(("could not convert", "dtype='numeric'")):
        column = str(next(iter(X.columns))) if hasattr(X, "columns") else "x0"
        return ParameterError(f"X holds values that are no numbers: {_declare(column)}")
    return None


@frozen
class _ByProtocol:
    """A frame of polars 2 as scikit-learn before 1.9 finds its column names: by a protocol that polars gave up."""

    frame: Any

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.frame.shape
        return rows, columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.frame.to_numpy(), dtype=dtype)

    def __dataframe__(self) -> _ByProtocol:
        return self

    def column_names(self) -> list[str]:
        return list(self.frame.columns)


_ASKS_BY_PROTOCOL = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)


def _named(X: Matrix) -> Any:
    """The table as this scikit-learn finds its column names."""
    unknown = _ASKS_BY_PROTOCOL and isinstance(X, pl.DataFrame) and not hasattr(X, "__dataframe__")
    return _ByProtocol(X) if unknown else X


def _places(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


class PrivateModel:
    """Mixin of all that one release fits: it asks for groups, knows its promise, and prints and shows its release."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    """With metadata routing on, scikit-learn hands the people to every ``fit``."""
    released_: Released

    @property
    def guarantee_(self) -> Guarantee:
        """What the last ``fit`` promises, and for whom."""
        check_is_fitted(self, "released_")
        assert self.released_.guarantee is not None  # fit draws from the system
        return self.released_.guarantee

    def __str__(self) -> str:
        """What was released, as ``print(released_)`` says it; the parameters before ``fit``, as ``repr`` always."""
        return str(self.released_) if "released_" in vars(self) else repr(self)

    # What a notebook shows: scikit-learn's diagram, and the release below it.  These two names are those of all its
    # versions from 1.6 on.

    def _repr_html_inner(self) -> str:
        card = self.released_._repr_html_() if "released_" in vars(self) else ""
        return str(estimator_html_repr(self)) + card

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})


class PrivateEstimator(PrivateModel):
    """Mixin of the private estimators."""

    domains: Domains
    schema: Schema | str | Path | None = None
    unit: str | None
    n_features_in_: int
    on_invalid: str | None
    ledger: LedgerLike | None

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
        released = release_rule(learner, data, ledger=self.ledger)
        return evolve(released, warnings=(*released.warnings, *self._outside()))

    def _columns(self, X: Matrix, *, reset: bool) -> dict[str, ColumnLike]:
        """Columns by name.

        Where the columns are declared, or a rule says what happens to invalid values, the domains judge the values of a
        fit, each alone: scikit-learn would refuse the table, and numpy change the type of a column of Python objects,
        because of one of them.  Otherwise they are numbers as scikit-learn checks them.
        """
        own = self._declares() or self._policy() != "raise"
        if own and hasattr(X, "columns"):
            validate_data(self, _named(X), reset=reset, skip_check_array=True)
            if reset:
                self._check_rows(X.shape[0])
            return {str(name): X[name] for name in X.columns}
        if own and is_listed(X):
            return self._listed(list(X), reset=reset)
        if not own:
            _check_types(X)
        refused = None
        try:
            array = validate_data(
                self,
                _named(X),
                reset=reset,
                dtype=None if own else "numeric",
                ensure_min_samples=1,
                ensure_all_finite=not (own and reset) and ("allow-nan" if self._takes_missing() else True),
            )
        except ValueError as error:
            refused = _reworded(str(error), X)
            if refused is None:
                raise
        if refused is not None:  # outside, so that no traceback carries a value
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
        listed = isinstance(self.domains, Sequence) and not isinstance(self.domains, (str, range))
        bounds = isinstance(self.domains, tuple) and all(isinstance(end, (int, float)) for end in self.domains)
        if self.domains is not None and not isinstance(self.domains, Mapping) and (not listed or bounds):
            raise TypeError(
                "domains must be a list of domains, one for each column, or a mapping from names to domains, such as "
                f"[(0, 99), ['f', 'm']] or {{'age': (0, 99)}}, got {str(self.domains)[:40]!r}"
            )
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
        if not self._declares():
            return False
        names = [str(name) for name in getattr(self, "feature_names_in_", _places(self.n_features_in_))]
        return any(domain.present is not domain for domain in self._domains(names).values())

    def _domains(self, names: list[str]) -> dict[str, Domain]:
        """The domain of every column of X, every finite number where none is declared."""
        if self.schema is not None:
            known = self._schema().domains(self._policy())
            absent = [name for name in names if name not in known]
            if absent:
                raise ParameterError(f"columns {absent} of X are not in the schema, which has {list(known)}")
            return {name: known[name] for name in names}
        if self.domains is None:
            return {name: Floats() for name in names}
        found = read_features(self._declared(names))
        missing = [name for name in names if found.get(name) is None]
        if missing:
            raise ParameterError(f"columns {missing} have no domain: {_declare(missing[0], '(0, 100)')}")
        return {name: domain for name in names if (domain := found[name]) is not None}

    def _declared(self, names: list[str]) -> dict[str, Any]:
        """What ``domains=`` says of each column by name, not read yet."""
        if not isinstance(self.domains, Mapping):
            listed = list(self.domains or ())
            if len(listed) != len(names):
                raise ParameterError(
                    f"domains= is a list with one domain for each column: {len(names)} columns but {len(listed)} "
                    "domains; write [(0, 99)] for one column of whole numbers from 0 to 99"
                )
            return dict(zip(names, listed))
        places: dict[Any, str] = dict(enumerate(names)) | {name: name for name in names}
        strange = [key for key in self.domains if key not in places]
        if strange:
            raise ParameterError(f"domains name columns that X does not have: {strange}; it has {names}")
        return {places[key]: domain for key, domain in self.domains.items()}
