"""``PrivateRuleClassifier`` keeps scikit-learn's contract and privpac's promises."""

from __future__ import annotations

import pickle
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import privpac as pp
import privpac.sklearn.estimator
from privpac.errors import (
    BudgetExhausted,
    ItemLevelWarning,
    LedgerUnavailable,
    ParameterError,
    SchemaError,
    WeakGuaranteeWarning,
)
from privpac.sklearn import (
    PrivateGaussian,
    PrivateHistogram,
    PrivateQuantileTransformer,
    PrivateRuleClassifier,
    PrivateSearchCV,
)

RANDOM = "a private fit draws fresh secret coins, so two fits on the same data may differ; this check compares two fits"


def _expected(_: Any) -> dict[str, str]:
    return {"check_classifier_data_not_an_array": RANDOM, "check_fit_idempotent": RANDOM}


@parametrize_with_checks([PrivateRuleClassifier()], expected_failed_checks=_expected)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_tags_say_binary_random_and_no_promise_of_score() -> None:
    tags = PrivateRuleClassifier().__sklearn_tags__()
    assert not tags.classifier_tags.multi_class
    assert tags.classifier_tags.poor_score
    assert tags.non_deterministic


RNG = np.random.default_rng(3)
N = 4000
AGE, DOSE = RNG.integers(0, 100, N), RNG.integers(0, 51, N) / 10
WHO = RNG.integers(0, 400, N)
Y = (AGE > 60).astype(int)
DOMAINS = {"age": pp.Integers(0, 99), "dose": pp.Grid(0, 5, "0.1")}
FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame({"age": AGE, "dose": DOSE}),
    "polars": pl.DataFrame({"age": AGE, "dose": DOSE}),
}
"""400 people who agree on a cut at 60: at epsilon 20 any other rule has probability below 1e-20."""


def model(**more: Any) -> PrivateRuleClassifier:
    return PrivateRuleClassifier(**({"epsilon": 20, "domains": DOMAINS, "public_n_users": 400} | more))


@pytest.mark.parametrize("kind", list(FRAMES))
def test_frames_are_read_by_name_and_the_rule_speaks_their_language(kind: str) -> None:
    fitted = model().fit(FRAMES[kind], pd.Series(Y, name="ill"), groups=WHO)
    assert list(fitted.feature_names_in_) == ["age", "dose"]
    assert fitted.n_features_in_ == 2
    assert str(fitted.rule_) == "ill when age > 60"
    assert (fitted.predict(FRAMES[kind]) == Y).all()
    assert fitted.score(FRAMES[kind], Y) == 1
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(FRAMES[kind][["dose", "age"]])


@pytest.mark.parametrize(
    "domains", [{0: pp.Integers(0, 99), 1: pp.Grid(0, 5, "0.1")}, [pp.Integers(0, 99), pp.Grid(0, 5, "0.1")], None]
)
def test_arrays_take_domains_by_position(domains: Any) -> None:
    X = np.column_stack([AGE, DOSE])
    fitted = model(domains=domains).fit(X, Y, WHO)
    assert (fitted.predict(X) == Y).mean() > 0.95
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.predict([[99, 0.0], [0, 0.0]]).tolist() == [1, 0]


def test_guarantee_is_per_user_with_groups_and_loudly_per_item_without() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ItemLevelWarning)
        assert str(model(epsilon=1).fit(FRAMES["pandas"], Y, groups=WHO).guarantee_) == "(1, 0)-DP per user, add-remove"
    with pytest.warns(ItemLevelWarning, match="not people"):
        fitted = model(epsilon=1).fit(FRAMES["pandas"], Y)
    assert str(fitted.guarantee_) == "(1, 0)-DP per item, add-remove"
    assert "protects records, not people" in fitted.guarantee_.explain()
    assert any("single records" in line for line in fitted.released_.warnings)


ESTIMATORS: dict[str, Any] = {
    "classifier": PrivateRuleClassifier(),
    "scorecard": PrivateRuleClassifier(rule="scorecard", delta="1e-6", calibrate="1/4", domains=[pp.Integers(0, 9)]),
    "histogram": PrivateHistogram(),
    "gaussian": PrivateGaussian(),
    "quantiles": PrivateQuantileTransformer(),
    "search": PrivateSearchCV(PrivateRuleClassifier(), {"rule": ["threshold", "stump"]}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_dir_of_an_estimator_names_what_it_has_and_never_raises(name: str) -> None:
    """scikit-learn's ``dir`` reads every property; tab completion must survive that, whatever was declared."""
    estimator = clone(ESTIMATORS[name])
    assert {"fit", "get_params"} <= set(dir(estimator))
    assert not {"guarantee_", "rule_", "predict_proba", "evaluation_", "mean_", "quantiles_"} & set(dir(estimator))
    fitted = estimator.fit(np.arange(40).reshape(-1, 1) % 10, np.arange(40) % 2, groups=np.arange(40))
    assert {"fit", "guarantee_", "released_"} <= set(dir(fitted))
    assert ("predict_proba" in dir(fitted)) == (name == "scorecard")
    if "schema" in estimator.get_params(deep=False):
        odd = clone(estimator).set_params(schema="no-such-file.toml", domains=[pp.Floats()])
        assert "fit" in dir(odd)
        assert "fit" in dir(odd.set_params(domains=7, on_invalid=object()))


def test_labels_read_from_y_are_said_before_data_are_looked_at_and_kept_in_the_file(tmp_path: Path) -> None:
    """Without classes= one person changes ``classes_``: the warning depends on nothing but that."""
    X, path = FRAMES["pandas"], tmp_path / "rule.json"
    for estimator in (model(), PrivateSearchCV(model(), {"rule": ["stump"]})):
        with pytest.warns(WeakGuaranteeWarning, match="labels are read from y"):
            fitted = estimator.fit(X, Y, groups=WHO)
        fitted.released_.save(path)
        assert any("labels are read from y" in line for line in pp.Released.load(path).warnings)
        with pytest.warns(WeakGuaranteeWarning, match="labels are read from y"), pytest.raises(ValueError, match="y"):
            clone(estimator).fit(object(), None, groups=WHO)
    declared: dict[str, Any] = {"user": "who", "label": "ill"}
    quiet = [
        model(epsilon=1, classes=[0, 1]),
        PrivateSearchCV(model(epsilon=1, classes=[0, 1]), {"rule": ["stump"]}),
        model(
            epsilon=1, rule="small-tree", domains=None, schema=pp.Schema(DOMAINS, **declared, classes=("0", "1", "2"))
        ),
    ]
    for estimator, y in zip(quiet, (Y, Y, Y.astype(str))):
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeakGuaranteeWarning)
            found = estimator.fit(X, y, groups=WHO).released_
        assert not any("labels are read from y" in line for line in found.warnings)
    with pytest.warns(WeakGuaranteeWarning, match="labels are read from y"):  # the other label is still that of y
        model(domains=None, schema=pp.Schema(DOMAINS, **declared, positive="1")).fit(X, Y, groups=WHO)


def test_a_step_that_is_fitted_in_front_is_named_by_the_saved_result() -> None:
    line = make_pipeline(StandardScaler(), PrivateRuleClassifier(unit="item", classes=[0, 1]))
    with pytest.warns(WeakGuaranteeWarning, match="StandardScaler"):
        fitted = line.fit(np.column_stack([AGE, DOSE]), Y)
    assert any("StandardScaler" in said for said in fitted[-1].released_.warnings)


def test_guarantee_is_known_only_after_fit() -> None:
    for name in ("guarantee_", "rule_"):
        with pytest.raises(NotFittedError):
            getattr(PrivateRuleClassifier(), name)


def test_categories_and_dates_are_read_as_declared() -> None:
    days = [date(2024, 1, 1 + k % 28) for k in range(N)]
    sites = np.where(Y, "north", "south")
    frame = pd.DataFrame({"site": sites, "day": days})
    domains = {"site": pp.Categories(["south", "north"]), "day": pp.Dates("2024-01-01", "2024-12-31")}
    for X in (frame, pl.from_pandas(frame), pl.from_pandas(frame).with_columns(pl.col("site").cast(pl.Categorical))):
        fitted = model(domains=domains).fit(X, Y, groups=WHO)
        assert (fitted.predict(X) == Y).all()
        assert "site" in str(fitted.rule_)
    fitted = model(domains=[pp.Categories(["south", "north"])]).fit(sites[:, None].astype(object), Y, groups=WHO)
    assert (fitted.predict(sites[:, None].astype(object)) == Y).all()


def test_label_values_may_be_anything_and_may_be_declared() -> None:
    said = np.where(Y, "yes", "no")
    fitted = model().fit(FRAMES["pandas"], said, groups=WHO)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert str(fitted.rule_) == "yes when age > 60"
    assert (fitted.predict(FRAMES["pandas"]) == said).all()
    turned = model(classes=["yes", "no"]).fit(FRAMES["pandas"], said, groups=WHO)
    assert str(turned.rule_) == "no when age <= 60"
    only = model(classes=["no", "yes"]).fit(FRAMES["pandas"], np.full(N, "yes"), groups=WHO)
    assert set(only.predict(FRAMES["pandas"])) == {"yes"}
    booleans = model().fit(FRAMES["pandas"], Y.astype(bool), groups=WHO)
    assert booleans.predict(FRAMES["pandas"]).dtype == bool


def test_parameters_clone_and_set() -> None:
    first = model(rule="threshold", max_records=3, setting="realizable", neighbours="replace")
    copy = clone(first)
    assert copy.get_params() == first.get_params()
    assert set(copy.get_params()) >= {"rule", "epsilon", "domains", "classes", "on_invalid", "ledger", "method"}
    fitted = copy.set_params(domains={"age": pp.Integers(0, 99)}, epsilon=1).fit(
        FRAMES["pandas"][["age"]], Y, groups=WHO
    )
    assert fitted.released_.learner == "realizable selection"
    assert fitted.released_.parameters["max_records"] == 3
    assert str(fitted.guarantee_) == "(1, 0)-DP per user, replace"


def test_fitted_model_survives_pickling_and_saves_as_json(tmp_path: Path) -> None:
    fitted = model().fit(FRAMES["polars"], Y, groups=WHO)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.released_ == fitted.released_
    assert (again.predict(FRAMES["polars"]) == fitted.predict(FRAMES["polars"])).all()
    fitted.released_.save(tmp_path / "m.json")
    assert pp.load(tmp_path / "m.json") == fitted.released_


def test_pipeline_with_a_data_free_step_and_groups() -> None:
    halve = FunctionTransformer(lambda X: X // 2, feature_names_out="one-to-one")
    pipe = make_pipeline(halve, model(domains=[pp.Integers(0, 49)]))
    pipe.fit(AGE[:, None], (AGE // 2 > 20).astype(int), privateruleclassifier__groups=WHO)
    assert str(pipe[-1].guarantee_).startswith("(20, 0)-DP per user")
    assert str(pipe[-1].rule_) == "1 when x0 > 20"
    assert pipe.predict(np.array([[43], [41]])).tolist() == [1, 0]


def test_metadata_routing_sends_groups_to_fit_and_to_the_splitter() -> None:
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error", ItemLevelWarning)  # every fold must get its groups
        routed = model().set_fit_request(groups=True)
        scores = cross_val_score(routed, FRAMES["pandas"], Y, cv=GroupKFold(3), params={"groups": WHO})
        assert scores.min() > 0.99
        pipe = make_pipeline(FunctionTransformer(), clone(routed)).fit(FRAMES["pandas"], Y, groups=WHO)
        assert str(pipe[-1].guarantee_).startswith("(20, 0)-DP per user")
    with sklearn.config_context(enable_metadata_routing=True):  # asked for by default
        cross_val_score(model(), FRAMES["pandas"], Y, cv=GroupKFold(3), params={"groups": WHO}, error_score="raise")


def test_every_fit_spends_from_the_ledger_and_says_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    pp.BudgetLedger.create(path, pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="d").close()
    estimator = model(epsilon=1, ledger=path)
    assert estimator.fit(FRAMES["pandas"], Y, groups=WHO).released_.parameters["budget left"] == "ε = 1 of 2"
    clone(estimator).fit(FRAMES["pandas"], Y, groups=WHO)
    with pytest.raises(BudgetExhausted):
        estimator.fit(FRAMES["pandas"], Y, groups=WHO)
    with pp.BudgetLedger.open(path) as book:
        assert len(book.history()) == 2


BAD: list[tuple[dict[str, Any], Any, Any, Any, type[Exception], str]] = [
    ({"rule": "forest"}, None, None, None, ParameterError, "rule must be one of"),
    ({"rule": "threshold"}, None, None, None, ParameterError, "one column"),
    ({"epsilon": 0}, None, None, None, ParameterError, "epsilon"),
    ({"epsilon": 1e9}, None, None, None, ParameterError, "epsilon"),
    ({"method": "x"}, None, None, None, ParameterError, "method"),
    ({"setting": "x"}, None, None, None, ParameterError, "setting"),
    ({"on_invalid": "x"}, None, None, None, ParameterError, "on_invalid"),
    ({"neighbours": "x"}, None, None, None, ParameterError, "neighbours"),
    ({"domains": {"age": pp.Integers(0, 99)}}, None, None, None, ParameterError, "no domain"),
    ({"domains": DOMAINS | {"weight": pp.Floats()}}, None, None, None, ParameterError, "weight"),
    ({"domains": [pp.Floats()]}, None, None, None, ParameterError, "2 columns but 1 domains"),
    ({"domains": {"age": 99, "dose": 5}}, None, None, None, TypeError, "Domain"),
    ({"domains": DOMAINS | {"age": pp.Integers(0, 50)}}, None, None, None, SchemaError, "column 'age': .* outside"),
    ({"classes": [0]}, None, None, None, ParameterError, "classes"),
    ({"classes": [1, 1]}, None, None, None, ParameterError, "classes"),
    ({"classes": ["a", "b"]}, None, None, None, SchemaError, "'y': 4000 not in classes"),
    ({}, FRAMES["pandas"].assign(age=np.nan), None, None, SchemaError, "missing or NaN"),
    ({}, FRAMES["pandas"].iloc[:0], Y[:0], None, ValueError, "minimum of 1"),
    ({"domains": None}, FRAMES["pandas"].iloc[:0], Y[:0], None, ValueError, "minimum of 1"),
    ({"domains": None}, FRAMES["pandas"].assign(age=np.inf), None, None, ValueError, "infinity"),
    ({}, None, Y[1:], None, ValueError, "rows"),
    ({}, None, AGE, None, ValueError, "Only binary"),
    ({}, None, DOSE, None, ValueError, "label type"),
    ({}, None, np.where(Y, np.nan, 0.0), None, ValueError, "NaN"),
    ({}, None, None, WHO[1:], SchemaError, "lengths differ"),
    ({}, None, None, np.where(AGE == 5, np.nan, WHO), SchemaError, "user ids are missing"),
    ({}, None, None, [None, *WHO[1:].tolist()], SchemaError, "user ids are missing"),
]


@pytest.mark.parametrize(("change", "X", "y", "groups", "error", "said"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_before_anything_is_spent(
    change: dict[str, Any], X: Any, y: Any, groups: Any, error: type[Exception], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "b.db"
    with pp.BudgetLedger.create(path, pp.Guarantee(99, unit="user", neighbours="add-remove"), dataset="d") as book:
        with pytest.raises(error, match=said):
            model(**change, ledger=path).fit(
                FRAMES["pandas"] if X is None else X,
                Y if y is None else y,
                groups=(WHO if X is None else WHO[: len(X)]) if groups is None else groups,
            )
        assert book.history() == ()


def test_a_missing_ledger_is_never_made_silently(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        model(ledger=tmp_path / "none.db").fit(FRAMES["pandas"], Y, groups=WHO)
    assert not (tmp_path / "none.db").exists()


def test_prediction_clamps_values_and_refuses_missing_ones() -> None:
    fitted = model().fit(FRAMES["pandas"], Y, groups=WHO)
    assert fitted.predict(pd.DataFrame({"age": [-5, 500], "dose": [9.0, -1.0]})).tolist() == [0, 1]
    with pytest.raises(SchemaError, match="1 missing"):
        fitted.predict(pd.DataFrame({"age": [5.0, np.nan], "dose": [1.0, 1.0]}))
    with pytest.raises(ValueError, match="features"):
        model(domains=None).fit(np.column_stack([AGE, DOSE]), Y, WHO).predict(np.zeros((2, 3)))


# One person's value says nothing about how another's is read.


def seen_by(monkeypatch: pytest.MonkeyPatch, estimator: Any, *table: Any, groups: Any = ("a", "b", "c", "z")) -> Any:
    """What ``fit`` hands to the learner, for the first three people."""
    seen: list[Any] = []
    real = privpac.sklearn.estimator.release_rule

    def release(learner: Any, data: Any, **more: Any) -> Any:
        seen.append(data)
        return real(learner, data, **more)

    monkeypatch.setattr(privpac.sklearn.estimator, "release_rule", release)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(*table, groups=list(groups))
    monkeypatch.undo()
    return seen[0].to_lists()[:3]


def dropping(*domains: Any, **more: Any) -> PrivateRuleClassifier:
    told: dict[str, Any] = {"domains": list(domains), "on_invalid": "drop", "classes": [0, 1]}
    return PrivateRuleClassifier(**(told | more))


ODD = [float("nan"), float("inf"), None, "x", 2, 0.5, 10**400, True, b"x", [1], object(), 1j, np.float16(2)]


@pytest.mark.parametrize("on_invalid", ["drop", "clamp"])
@pytest.mark.parametrize("last", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateRuleClassifier(domains=[pp.Integers(0, 20)], classes=[0, 1]),
        PrivateRuleClassifier(domains=[pp.Missing(pp.Integers(0, 20))], rule="small-tree", classes=[0, 1]),
        PrivateRuleClassifier(classes=[0, 1]),
        PrivateRuleClassifier(rule="tree", tree="thresholds:0:20", classes=[0, 1]),
        PrivateHistogram(domains=[pp.Integers(0, 20)]),
        PrivateHistogram(),
        PrivateGaussian(domains=[pp.Floats()]),
        PrivateGaussian(),
        PrivateQuantileTransformer(n_quantiles=1, domains=[pp.Integers(0, 20)]),
        PrivateQuantileTransformer(n_quantiles=1),
    ],
    ids=lambda one: f"{type(one).__name__}-{one.domains}",
)
def test_a_number_of_an_array_that_is_none_is_left_to_the_domain(
    estimator: Any, last: float, on_invalid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = clone(estimator).set_params(on_invalid=on_invalid)
    for kind in (np.float64, object):
        said = [
            seen_by(monkeypatch, private, np.array([[11.0], [12.0], [13.0], [z]], dtype=kind), [0, 1, 0, 1])
            for z in (14.0, last)
        ]
        assert said[0] == said[1]
        assert all(said[0])


@pytest.mark.parametrize("last", ODD, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (pp.Categories([True, False], ordered=True), [True, False, True]),
        (pp.Integers(0, 2**60), [2**53 + 1, 12, 13]),
        (pp.Categories(["1", "0.5"]), ["1", 1, "0.5"]),
        (pp.Dates("2024-01-01", "2024-12-31"), [date(2024, 1, 1), "2024-02-01", date(2024, 1, 3)]),
    ],
)
def test_lists_and_arrays_of_objects_are_read_value_by_value(
    domain: Any, values: list[Any], last: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = dropping(domain)
    alone = pp.UserData.from_arrays([[v] for v in values], [0, 1, 0], ["a", "b", "c"], features={"x0": domain})
    boxed = np.empty((4, 1), dtype=object)
    boxed[:, 0] = np.array([*values, None], dtype=object)
    boxed[3, 0] = last
    flat = boxed[:, 0]
    for X in ([[v] for v in [*values, last]], tuple((v,) for v in [*values, last]), boxed, flat):
        assert seen_by(monkeypatch, private, X, [0, 1, 0, 1]) == alone.to_lists()
    assert set(private.predict([[v] for v in values])) <= {0, 1}


def test_a_row_of_another_length_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    private, rows = dropping(pp.Integers(0, 9), pp.Integers(0, 9), rule="stump"), [[1, 2], [3, 4], [5, 6]]
    whole = seen_by(monkeypatch, private, [*rows, [7, 8]], [0, 1, 0, 1])
    for odd in ([], [7], [7, 8, 9], 7, "78", None):
        assert seen_by(monkeypatch, private, [*rows, odd], [0, 1, 0, 1]) == whole
        # whoever comes first says nothing about the others either
        first = seen_by(monkeypatch, private, [odd, *rows], [1, 0, 1, 0])
        assert first == [[], *whole[:2]]
        assert private.n_features_in_ == 2
    strict = dropping(pp.Integers(0, 9), pp.Integers(0, 9), rule="stump", on_invalid=None)
    with pytest.raises(SchemaError, match="1 "):
        strict.fit([*rows, [7]], [0, 1, 0, 1], groups=list("abcz"))
    with pytest.raises(SchemaError, match="1 records do not have 2 features"):
        private.predict([[1, 2], [3]])
    with pytest.raises(ValueError, match="X has 3 features, but PrivateRuleClassifier is expecting 2"):
        private.predict([[1, 2, 3]])
    with pytest.raises(ValueError, match="minimum of 1"):
        private.fit([], [], groups=[])


@pytest.mark.parametrize(
    "last", [float("nan"), None, "x", 7, 0.5, 10**400, b"x", [1], object()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize(
    ("classes", "labels", "codes"),
    [
        ([0, 1], [0, 1, 0], [0, 1, 0]),
        ([0, 1], [False, 1.0, 0], [0, 1, 0]),
        ([1, 0], [0, True, 0.0], [1, 0, 1]),
        ([False, True], [False, True, 0], [0, 1, 0]),
        (["no", "yes"], ["no", "yes", "no"], [0, 1, 0]),
        ([0, 1, 2], [0, 1.0, 2], [0, 1, 2]),
        ([0.0, 1.0, 2.0], [0, 1.0, 2], [0, 1, 2]),
    ],
)
def test_labels_are_read_value_by_value(
    classes: list[Any], labels: list[Any], codes: list[int], last: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {"classes": classes, "rule": "small-tree"}
    private = dropping(pp.Integers(0, 9), **told, on_invalid_label="drop")
    boxed = np.array([*labels, None], dtype=object)
    boxed[3] = last
    for y in ([*labels, last], boxed, pd.Series([*labels, last], dtype=object, name="y")):
        assert seen_by(monkeypatch, private, [[1], [2], [3], [4]], y) == [[(k + 1, c)] for k, c in enumerate(codes)]
        assert set(private.predict([[1], [9]]).tolist()) <= set(classes)
        with pytest.raises(SchemaError, match="column 'y': 1 "):
            dropping(pp.Integers(0, 9), **told).fit([[1], [2], [3], [4]], y, groups=list("abcz"))


def test_typed_labels_and_the_schema_say_what_an_invalid_label_is(monkeypatch: pytest.MonkeyPatch) -> None:
    private = dropping(pp.Integers(0, 9), on_invalid_label="drop")
    X = np.array([[1], [2], [3], [4]])
    for last in (np.nan, 0.5, 7.0, np.inf):
        typed = np.array([0, 1, 0, last])
        for y in (typed, typed.astype(np.float32), pl.Series(typed), pd.Series(typed)):
            assert seen_by(monkeypatch, private, X, y) == [[(1, 0)], [(2, 1)], [(3, 0)]]
    told = {"label": "y", "classes": ["no", "yes"], "on_invalid": "drop", "on_invalid_label": "drop"}
    by_schema = PrivateRuleClassifier(schema=pp.Schema({"x0": pp.Integers(0, 9)}, **told))  # type: ignore[arg-type]
    said = seen_by(monkeypatch, by_schema, [[1], [2], [3], [None]], ["no", "yes", "maybe", "no"])
    assert said == [[(1, 0)], [(2, 1)], []]
    with pytest.raises(ParameterError, match="on_invalid_label"):
        dropping(pp.Integers(0, 9), on_invalid_label="clamp").fit(X, [0, 1, 0, 1], groups=list("abcz"))
    with pytest.raises(ParameterError, match="needs classes="), pytest.warns(WeakGuaranteeWarning):
        dropping(pp.Integers(0, 9), classes=None, on_invalid_label="drop").fit(X, [0, 1, 0, 1], groups=list("abcz"))


def test_a_search_reads_value_by_value_too(monkeypatch: pytest.MonkeyPatch) -> None:
    base = dropping(pp.Integers(0, 2**60), on_invalid_label="drop")
    search = PrivateSearchCV(base, {"rule": ["threshold", "stump"]})
    for value, label in ((0.5, 1), (float("nan"), 1), (3, "x"), ("x", None)):
        said = seen_by(monkeypatch, search, [[2**53 + 1], [12], [13], [value]], [0, 1, 0, label])
        assert said == [[(2**53 + 1, 0)], [(12, 1)], [(13, 0)]]
    many = PrivateSearchCV(dropping(pp.Integers(0, 9), rule="small-tree", classes=[0, 1, 2]), {"max_records": [1]})
    with pytest.raises(ParameterError, match="two labels, got 3 classes"):
        many.fit([[1], [2], [3]], [0, 1, 2], groups=list("abc"))


def test_transformers_and_densities_take_lists() -> None:
    rows, people = [[k % 10] for k in range(100)], list(range(100))
    ranks = PrivateQuantileTransformer(n_quantiles=1, domains=[pp.Integers(0, 9)]).fit(rows, groups=people)
    assert ranks.transform([[0], [9]]).shape == (2, 1)
    bars = PrivateHistogram(bins=None, domains=[pp.Integers(0, 9)], on_invalid="drop").fit(
        [*rows, [None]], groups=[*people, 0]
    )
    assert bars.score_samples([[0], [9]]).shape == (2,)
    law = PrivateGaussian(on_invalid="drop").fit([*rows, ["x"]], groups=[*people, 0])
    assert np.isfinite(law.score_samples([[0], [9]])).all()
