"""The front of the distributions room: two functions, two commands, two estimators and a report."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from commands import Command
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import privpac as pp
from privpac.api.distributions import distribution_learner, selector_for
from privpac.distributions import DiscreteDistribution, GaussianDistribution, HistogramDistribution, ProductDistribution
from privpac.distributions.gaussian import CoarseToFineGaussian, CoarseToFineMean
from privpac.distributions.histogram import equal_bins
from privpac.errors import BudgetExhausted, ItemLevelWarning, ParameterError, SchemaError, TooLargeError
from privpac.papers.few_examples_per_user.covers import CoverLearner
from privpac.report.distribution import candidates_of, distribution_html, distribution_picture
from privpac.result import NoRelease, Released
from privpac.sklearn import PrivateGaussian, PrivateHistogram

SECRET_ID, SECRET = "user-5551234", 987654321
RNG = np.random.default_rng(5)
WAITS = np.minimum(RNG.exponential(20, 4000).astype(int), 599)
WHO = [SECRET_ID if k % 400 == 0 else f"u{k % 400}" for k in range(4000)]
SITES = RNG.choice(["a", "b", "c"], 4000, p=[0.5, 0.3, 0.2])
TEMPS = np.round(RNG.normal(1, 1, 4000), 2).clip(-9, 9)
TABLE = pl.DataFrame({"who": WHO, "wait": WAITS, "site": SITES, "temp": TEMPS})
DOMAINS = {"wait": pp.Integers(0, 599), "site": pp.Categories(["a", "b", "c"]), "temp": pp.Grid(-9, 9, "0.01")}
LAWS = {"short": stats.expon(scale=20), "long": stats.gamma(2, scale=60)}


def users(*columns: str, unit: str = "user") -> pp.UserData:
    return pp.UserData.from_frame(
        TABLE, user="who" if unit == "user" else None, features={name: DOMAINS[name] for name in columns}
    )


def budget(path: Path, epsilon: Any) -> pp.BudgetLedger:
    return pp.BudgetLedger.create(path, pp.Guarantee(epsilon, unit="user", neighbours="add-remove"), dataset="waits")


# Selection


def test_the_right_candidate_is_selected_with_its_promise() -> None:
    selector = selector_for(LAWS, epsilon=1, candidates_are="public", records_per_user=10)
    assert float(selector.law(users("wait")).prob(1)) < 1e-9  # so the draw below fails once in a billion runs
    chosen = pp.select_distribution(users("wait"), LAWS, epsilon=1, candidates_are="public", records_per_user=10)
    assert chosen.parameters["name"] == "short"
    assert str(chosen.guarantee) == "(1, 0)-DP per user, add-remove"
    assert chosen.warnings == ()
    np.testing.assert_allclose(chosen.value.pdf([10.0]), stats.expon(scale=20).pdf([10.0]))


def test_candidates_must_be_declared_public_or_released() -> None:
    data = users("wait")
    with pytest.raises(TypeError, match="candidates_are"):
        pp.select_distribution(data, LAWS, epsilon=1, records_per_user=10)
    with pytest.raises(ParameterError, match="'public' or 'dp-released'"):
        pp.select_distribution(data, LAWS, epsilon=1, candidates_are="fitted", records_per_user=10)
    with pytest.raises(ParameterError, match="candidates_epsilon must be declared"):
        pp.select_distribution(data, LAWS, epsilon=1, candidates_are="dp-released", records_per_user=10)
    with pytest.raises(ParameterError, match="records_per_user"):
        pp.select_distribution(data, LAWS, epsilon=1, candidates_are="public")


def test_released_candidates_are_opened_and_their_budgets_added_once() -> None:
    data = users("wait")
    first = pp.learn_distribution(data, epsilon="1/2", max_records=10, bins=12)
    second = pp.learn_distribution(data, epsilon="1/4", max_records=10, bins=[0, 20, 40, 600])
    listed = {"fine": first, "coarse": second, "fine again": first, "fixed": stats.expon(scale=90)}
    options: dict[str, Any] = {"epsilon": 1, "candidates_are": "dp-released", "records_per_user": 10}
    selector = selector_for(listed, **options)
    assert selector.candidates_epsilon == Fraction(3, 4)
    assert selector.total_guarantee.epsilon == Fraction(7, 4)
    assert selector_for(listed, candidates_epsilon=2, **options).candidates_epsilon == 2
    chosen = pp.select_distribution(data, [first, second], **options)
    assert isinstance(chosen.value, HistogramDistribution)


def test_budgets_of_another_relation_or_unit_are_not_added_up_silently() -> None:
    replaced = pp.learn_distribution(users("wait"), epsilon=1, max_records=10, bins=12, neighbours="replace")
    with pytest.warns(ItemLevelWarning):
        single = pp.learn_distribution(users("wait", unit="item"), epsilon=1, bins=12)
    for other in (replaced, single):
        with pytest.raises(ParameterError, match="candidates_epsilon must be declared"):
            selector_for([other], epsilon=1, candidates_are="dp-released", records_per_user=10)
    # A result without guarantee is no private release either.
    with pytest.raises(ParameterError, match="candidates_epsilon"):
        selector_for([Released(replaced.value, None)], epsilon=1, candidates_are="dp-released", records_per_user=10)


def test_python_takes_the_text_forms_of_the_command_line(tmp_path: Path) -> None:
    """One reading of candidates and bins: texts in Python give the learner that the objects give."""
    domains = {"wait": DOMAINS["wait"]}
    options: dict[str, Any] = {"epsilon": 1, "candidates_are": "public", "records_per_user": 10, "domains": domains}
    edges = [Fraction(0), Fraction(200), Fraction(400), Fraction(600)]
    laws = {"a": [1, 3] * 300, "b": [3, 1] * 300}
    (tmp_path / "a.json").write_text(json.dumps(laws["a"]))
    (tmp_path / "b.json").write_text(json.dumps(laws["b"]))
    wanted = selector_for(laws, bins=edges, **options)
    for texts in (
        {name: f"{tmp_path}/{name}.json" for name in "ab"},
        [f"{name}={tmp_path}/{name}.json" for name in "ab"],
    ):
        for bins in ("0:600:200", "0,200,400,600", ["wait=0:600:200"], {"wait": "0:600:200"}):
            made = selector_for(texts, bins=bins, **options)
            assert made.sets.bins in (edges, tuple(edges), {"wait": tuple(edges)}), bins
            assert [law.value_masses(domains) for law in made.candidates] == [
                law.value_masses(domains) for law in wanted.candidates
            ]
    learner = distribution_learner("histogram", epsilon=1, bins=["wait=0:600:200"], domains=domains)
    assert learner == distribution_learner("histogram", epsilon=1, bins={"wait": edges}, domains=domains)
    for wrong, said in ((["wait=9:1:1"], "lo < hi"), ("x", "bins takes"), (["age=3"], "not among the features")):
        with pytest.raises(ParameterError, match=said):
            distribution_learner("histogram", epsilon=1, bins=wrong, domains=domains)


def test_a_result_without_a_release_is_no_candidate() -> None:
    nothing = Released(NoRelease, pp.Guarantee(1, unit="user", neighbours="add-remove"), outcome="none")
    with pytest.raises(ParameterError, match="nothing was released"):
        selector_for({"nothing": nothing}, epsilon=1, candidates_are="public", records_per_user=10)
    for odd in ("short", 3, None, [], {}):
        with pytest.raises((TypeError, ParameterError)):
            selector_for(odd, epsilon=1, candidates_are="public", records_per_user=10)


# Learning


@pytest.mark.parametrize(
    ("family", "columns", "options", "kind"),
    [
        ("histogram", ["wait"], {"max_records": 10}, DiscreteDistribution),
        ("histogram", ["wait"], {"max_records": 10, "bins": 12}, HistogramDistribution),
        ("histogram", ["wait", "site"], {"max_records": 10, "bins": {"wait": 12}}, ProductDistribution),
        ("histogram", ["wait", "temp"], {"max_records": 10, "bins": 12}, ProductDistribution),
        ("discrete", ["site"], {"records_per_user": 10}, DiscreteDistribution),
        ("product", ["site"], {"records_per_user": 10}, ProductDistribution),
        ("gaussian", ["temp"], {"radius": 5, "records_per_user": 10}, GaussianDistribution),
        (
            "gaussian",
            ["temp"],
            {"radius": 5, "records_per_user": 10, "variance": "1/4", "max_variance": 4},
            GaussianDistribution,
        ),
        ("gaussian", ["temp"], {"radius": 5, "records_per_user": 10, "method": "cover"}, GaussianDistribution),
    ],
)
def test_every_family_is_learned_saved_and_read_back(
    family: str, columns: list[str], options: dict[str, Any], kind: type, tmp_path: Path
) -> None:
    released = pp.learn_distribution(users(*columns), family, epsilon=1, **options)
    found = released.value.parts[0] if kind is ProductDistribution and len(columns) == 1 else released.value
    assert isinstance(found, kind if len(columns) > 1 or kind is not ProductDistribution else DiscreteDistribution)
    assert released.value.columns == tuple(columns)
    assert str(released.guarantee) == "(1, 0)-DP per user, add-remove"
    released.save(tmp_path / "d.json")
    assert pp.load(tmp_path / "d.json") == released
    assert len(released.value.sample(5)) == 5


def test_family_and_method_name_the_learner() -> None:
    common: dict[str, Any] = {"epsilon": 1, "records_per_user": 10, "radius": 5}
    assert isinstance(distribution_learner("gaussian", **common), CoarseToFineMean)
    wide = distribution_learner("gaussian", variance=2, max_variance=8, **common)
    assert isinstance(wide, CoarseToFineGaussian)
    assert (wide.min_variance, wide.max_variance) == (2, 8)
    assert isinstance(distribution_learner("gaussian", method="cover", **common), CoverLearner)
    assert distribution_learner("histogram", epsilon=1, unit="item").guarantee.unit == "item"


def test_a_learned_histogram_is_close_to_the_table_at_a_large_epsilon() -> None:
    released = pp.learn_distribution(users("site"), epsilon=8, max_records=10)
    # Noise of scale 10/8 on each of three counts among 4000 records: 100 off has probability below 1e-30.
    np.testing.assert_allclose(released.value.probabilities, [np.mean(name == SITES) for name in "abc"], atol=0.05)


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("normal", {}, "family must be one of histogram, discrete, product, gaussian"),
        (["histogram"], {}, "family must be one of"),
        ("histogram", {"method": "counts"}, "max_records must be declared"),
        ("histogram", {"method": "average", "stages": 1}, "has no option stages"),
        ("histogram", {"max_records": 0}, "max_records"),
        ("histogram", {"max_records": 5, "radius": 3}, "has no option radius"),
        ("histogram", {"max_records": 5, "method": "cover"}, "method of family 'histogram'"),
        ("histogram", {"max_records": 5, "bins": 0}, "bins"),
        ("histogram", {"max_records": 5, "bins": [3, 1]}, "increasing"),
        ("histogram", {"max_records": 5, "bins": [0, float("nan")]}, "finite"),
        ("histogram", {"max_records": 5, "epsilon": 0}, "epsilon"),
        ("histogram", {"max_records": 5, "epsilon": float("inf")}, "epsilon"),
        ("histogram", {"max_records": 5, "neighbours": "swap"}, "neighbours"),
        ("discrete", {}, "records_per_user"),
        ("gaussian", {"records_per_user": 4}, "needs radius"),
        ("gaussian", {"radius": 4}, "needs records_per_user"),
        ("gaussian", {"radius": -4, "records_per_user": 4}, "radius"),
        ("gaussian", {"radius": 4, "records_per_user": 2, "max_variance": 9}, "at least 4"),
    ],
)
def test_bad_declarations_are_refused_before_data(family: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        distribution_learner(family, **({"epsilon": 1, "domains": {"wait": DOMAINS["wait"]}} | options))


def test_what_is_no_dataset_is_refused() -> None:
    for call in (
        lambda: pp.learn_distribution(WAITS, epsilon=1),
        lambda: pp.select_distribution([1], LAWS, epsilon=1, candidates_are="public"),
    ):
        with pytest.raises(TypeError, match="users must be a dataset"):
            call()


def test_nothing_is_spent_when_the_data_do_not_fit(tmp_path: Path) -> None:
    with budget(tmp_path / "b.db", 1) as book:
        with pytest.raises(SchemaError, match="not among the features"):
            pp.learn_distribution(users("wait"), epsilon=1, max_records=5, features="age", ledger=book)
        with pytest.raises(TooLargeError, match="ClippedHistogram"):
            pp.learn_distribution(users("wait"), "discrete", epsilon=1, records_per_user=5, method="cover", ledger=book)
        assert not list(book.history())


def test_the_ledger_is_charged_and_says_what_is_left(tmp_path: Path) -> None:
    with budget(tmp_path / "b.db", "3/2") as book:
        released = pp.learn_distribution(users("site"), epsilon=1, max_records=5, ledger=book)
        assert released.parameters["budget left"] == "ε = 0.5 of 1.5"
        chosen = pp.select_distribution(
            users("wait"), LAWS, epsilon="1/2", candidates_are="public", records_per_user=5, ledger=book
        )
        assert chosen.parameters["budget left"] == "ε = 0 of 1.5"
        with pytest.raises(BudgetExhausted):
            pp.learn_distribution(users("site"), epsilon="1/2", max_records=5, ledger=book)
        assert [entry.eps for entry in book.history()] == [1, Fraction(1, 2)]


def test_item_level_is_said_loudly_and_in_the_result() -> None:
    with pytest.warns(ItemLevelWarning):
        released = pp.learn_distribution(users("site", unit="item"), epsilon=1)
    assert str(released.guarantee) == "(1, 0)-DP per item, add-remove"
    assert any("not people" in line for line in released.warnings)
    with pytest.warns(ItemLevelWarning):
        pp.select_distribution(users("wait", unit="item"), LAWS, epsilon=1, candidates_are="public")


def test_no_users_and_empty_users_are_ordinary() -> None:
    nobody = pp.UserData.from_users([], features={"wait": pp.Integers(0, 9)}, labelled=False)
    silent = pp.UserData.from_users([[], []], features={"wait": pp.Integers(0, 9)}, labelled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in (nobody, silent):
            assert pp.learn_distribution(data, epsilon=1, max_records=2)
            assert pp.select_distribution(data, LAWS, epsilon=1, candidates_are="public", records_per_user=2)


def test_equal_bins_cover_the_declared_values() -> None:
    assert [int(e) for e in equal_bins(pp.Integers(0, 23), 4)] == [0, 6, 12, 18, 24]
    assert equal_bins(pp.Grid(0, 1, "0.5"), 3) == (0, Fraction(1, 2), 1, Fraction(3, 2))
    assert equal_bins(pp.Floats(), 2, (-1, 1)) == (-1, 0, 1)
    for domain, ends in ((pp.Floats(), None), (pp.Categories(["a"]), None), (pp.Floats(), (1, 1)), (None, None)):
        with pytest.raises(ParameterError):
            equal_bins(domain, 2, ends)


# The report


def test_the_report_shows_release_candidates_and_promise_and_fetches_nothing() -> None:
    selector = selector_for(
        LAWS | {"a <b>": [1] * 600}, epsilon=1, candidates_are="public", records_per_user=10, bins=[0, 10, 20, 40, 80]
    )
    chosen = selector.learn(users("wait"))
    page = distribution_html(chosen, candidates_of(selector, {"wait": DOMAINS["wait"]}))
    assert page.count("<svg") == 1
    assert "short (selected)" in page
    assert "a &lt;b&gt;" in page
    assert "(1, 0)-DP per user, add-remove" in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?https?:", page)


def test_the_report_is_a_function_of_the_release_alone() -> None:
    released = pp.learn_distribution(users("wait", "site"), epsilon=1, max_records=10, bins={"wait": 12})
    page = distribution_html(released)
    assert page.count("<svg") == 2
    assert page == distribution_html(Released.from_json(released.to_json()))
    for never in ("4000", "4,000", "400 ", SECRET_ID):
        assert never not in re.sub(r"<svg.*?</svg>", "", page, flags=re.S)


@pytest.mark.parametrize(
    "found",
    [
        DiscreteDistribution("x", pp.Integers(3, 3), (1,)),
        DiscreteDistribution("x", pp.Categories([f"name {i} $" for i in range(60)]), tuple(range(60))),
        DiscreteDistribution("d", pp.Dates(date(2024, 1, 1), date(2024, 1, 9)), (1,) * 9),
        DiscreteDistribution("x", pp.Grid(0, 1, "0.1"), (0,) * 10 + (1,)),
        HistogramDistribution("x", (0, 1, 1000), (0, 7)),
        GaussianDistribution(("x", "y"), (0.0, 5.0), ((1.0, 0.5), (0.5, 1.0))),
    ],
    ids=["one value", "many names", "dates", "grid", "empty bin", "normal"],
)
def test_every_kind_of_distribution_has_a_picture(found: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert distribution_picture(found).startswith("<svg")
        assert distribution_picture(found, column=9) == ""


# The commands


@pytest.fixture
def privpac(command: Command) -> Command:
    """Runs the command in this process, in a temporary folder that holds the table."""
    TABLE.write_csv("t.csv")
    TABLE.with_columns(wait=pl.lit(SECRET)).write_csv("bad.csv")
    Path("h.json").write_text('{"edges": [0, 10, 50.5, 600], "weights": [0.4, 0.5, "1/10"]}')
    return command


SELECT = ["select", "t.csv", "-u", "who", "-f", "wait=0:599", "-e", "1", "-m", "10", "--candidates-are", "public"]
FIXED = [
    "-c",
    "short=expon:scale=20",
    "-c",
    "long=gamma:a=2,scale=60",
    "-c",
    "counts=poisson:mu=20",
    "-c",
    "last=h.json",
]
LEARN = ["distribution", "t.csv", "-u", "who", "-e", "1"]


def test_select_names_the_candidate_and_writes_what_was_asked_for(privpac: Command) -> None:
    run = privpac(*SELECT, *FIXED, "-o", "s.json", "--report", "s.html")
    assert (run.code, run.err) == (0, "")
    assert run.out.splitlines()[0] in ("short", "long", "counts", "last")
    assert pp.load("s.json").parameters["candidates"] == 4
    assert "The candidates, declared before" in Path("s.html").read_text()


def test_a_saved_distribution_is_a_candidate_with_its_price(privpac: Command) -> None:
    assert privpac(*LEARN, "-f", "wait=0:599", "--bins", "0:600:50", "--max-records", "10", "-o", "d.json").code == 0
    words = [word if word != "public" else "dp-released" for word in SELECT]
    run = privpac(*words, "-c", "learned=d.json", "-c", "long=gamma:a=2,scale=60", "--json")
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out)["parameters"]["candidates_epsilon"] == "1/1"


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "wait=0:599", "--max-records", "10"],
        ["-f", "wait=0:599", "--max-records", "10", "--bins", "12"],
        [
            "-f",
            "wait=0:599",
            "-f",
            "site={a,b,c}",
            "--max-records",
            "10",
            "--bins",
            "wait=0,10,600",
            "--neighbours",
            "replace",
        ],
        ["-f", "site={a,b,c}", "--family", "discrete", "-m", "10", "--alpha", "0.3"],
        [
            "-f",
            "temp=-9:9:0.01",
            "--family",
            "gaussian",
            "-m",
            "10",
            "--radius",
            "5",
            "--variance",
            "0.5",
            "--max-variance",
            "4",
        ],
    ],
)
def test_every_family_from_the_command_line(privpac: Command, words: list[str]) -> None:
    run = privpac(*LEARN, *words, "--json", "--report", "r.html", "-o", "d.json")
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out) == json.loads(Path("d.json").read_text())
    assert "<svg" in Path("r.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SELECT], "Missing option"),
        ([*SELECT, "-c", "a"], "a candidate is written name="),
        ([*SELECT, "-c", "a=nope:scale=2"], "scipy.stats has no distribution"),
        ([*SELECT, "-c", "a=__doc__"], "scipy.stats has no distribution"),
        ([*SELECT, "-c", "a=expon:scale=-1"], "invalid parameters"),
        ([*SELECT, "-c", "a=expon:scale=nan"], "finite"),
        ([*SELECT, "-c", "a=expon:scale=1e400"], "scale of expon"),
        ([*SELECT, "-c", "a=expon:size=4"], "takes each of loc, scale once"),
        ([*SELECT, "-c", "a=gamma"], "gamma needs a"),
        ([*SELECT, "-c", "a=expon", "-c", "a=norm"], "two candidates are named"),
        ([*SELECT, "-c", "a=nothing.json"], "cannot read"),
        ([*SELECT, "-c", "a=junk.json"], "is not a candidate"),
        ([*SELECT, "-c", "a=null.json"], "is not a candidate"),
        ([*SELECT, "-c", "a=odd.json"], "is not a candidate"),
        ([*SELECT, "-c", "a=deep.json"], "is not a candidate"),
        ([*SELECT, "-c", "a=rule.json"], "no distribution was released in it"),
        ([*SELECT, "-c", "a=nothing-released.json"], "no distribution was released in it"),
        ([*SELECT, "-c", "a=h.json", "-o", "h.json"], "name the same file"),
        ([*SELECT, "-c", "a=expon", "--bins", "x"], "--bins takes"),
        ([*SELECT, "-c", "a=expon", "--bins", "age=3"], "not among the features"),
        ([*SELECT, "-c", "a=expon", "--tau", "-1"], "tau"),
        ([*LEARN, "-f", "wait=0:599", "--method", "counts"], "--max-records must be declared"),
        ([*LEARN, "-f", "wait", "--max-records", "9"], "give --bins [...]"),
        ([*LEARN, "-f", "wait=0:599", "--max-records", "9", "--bins", "9:1:1"], "lo < hi"),
        ([*LEARN, "-f", "wait=0:599", "--max-records", "9", "--bins", "0:600:1e-30"], "at most"),
        ([*LEARN, "-f", "wait=0:599", "--max-records", "9", "--family", "flat"], "family must be one of"),
        ([*LEARN, "-f", "wait=0:599", "--max-records", "9", "-o", "no/where.json"], "--out cannot be written"),
        ([*LEARN, "-f", "wait=0:599", "--max-records", "9", "--ledger", "no.db"], "there is no ledger"),
        ([*LEARN, "-f", "wait=0:599", "--family", "discrete", "--method", "cover", "-m", "4"], "too large"),
        (["distribution", "bad.csv", *LEARN[2:], "-f", "wait=0:599", "--max-records", "9"], "outside whole numbers"),
        (["distribution", "none.csv", *LEARN[2:], "-f", "wait=0:599", "--max-records", "9"], "none.csv"),
        (["distribution", "t.csv", "-u", "nobody", "-e", "1", "-f", "wait=0:599", "--max-records", "9"], "nobody"),
    ],
)
def test_bad_input_is_one_line_with_code_2(privpac: Command, words: list[str], message: str) -> None:
    for name, text in (
        ("junk", "{"),
        ("null", "null"),
        ("odd", '{"edges": [0, null], "weights": [1]}'),
        ("deep", "[[[1]]]"),
    ):
        Path(f"{name}.json").write_text(text)
    people = pp.UserData.from_users([[(3, 0), (8, 1)]], features={"x": pp.Integers(0, 9)})
    rule = pp.learn(people, pp.Thresholds(), epsilon=1)
    rule.save("rule.json")
    Released(NoRelease, rule.guarantee, outcome="none").save("nothing-released.json")
    run = privpac(*words)
    assert run.code == 2, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert message in run.err
    for never in ("Traceback", "internal error", SECRET_ID, str(SECRET)):
        assert never not in run.err


def test_an_exhausted_budget_is_code_4_and_the_ledger_is_charged(privpac: Command) -> None:
    budget(Path("b.db"), 1).close()
    words = [*LEARN, "-f", "site={a,b,c}", "--max-records", "9", "--ledger", "b.db"]
    assert privpac(*words).code == 0
    assert privpac(*words).code == 4
    assert privpac(*SELECT, *FIXED, "--ledger", "b.db").code == 4


def test_without_a_user_column_the_command_warns(privpac: Command) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run = privpac("distribution", "t.csv", "-e", "1", "-f", "site={a,b,c}")
    assert run.code == 0
    assert run.err.count("single records are protected, not people") == 1
    assert "for each record" in run.out
    assert "warning: no user column" in run.out


# The estimators


@parametrize_with_checks([PrivateHistogram(), PrivateGaussian()])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_estimators_are_cloned_pickled_and_tagged() -> None:
    model = PrivateHistogram(bins=12, domains={"wait": DOMAINS["wait"]}, max_records=10)
    fitted = clone(model).fit(pd.DataFrame({"wait": WAITS}), groups=WHO)
    assert fitted.__sklearn_tags__().non_deterministic
    assert str(fitted.guarantee_) == "(1, 0)-DP per user, add-remove"
    again = pickle.loads(pickle.dumps(fitted))
    frame = pd.DataFrame({"wait": [3, 599]})
    np.testing.assert_array_equal(again.score_samples(frame), fitted.score_samples(frame))
    with pytest.raises(NotFittedError):
        model.sample()


def test_histogram_of_mixed_columns_samples_rows_of_them() -> None:
    model = PrivateHistogram(bins=12, domains={"wait": DOMAINS["wait"], "site": DOMAINS["site"]}, max_records=10)
    model.fit(pd.DataFrame({"wait": WAITS, "site": SITES}), groups=WHO)
    rows = model.sample(50)
    assert rows.shape == (50, 2)
    assert set(rows[:, 1]) <= {"a", "b", "c"}
    first, second = (model.sample(4, public_seed=bytes(32)).tolist() for _ in range(2))
    assert first == second


def test_bins_without_declared_ends_are_those_of_a_standardised_column_never_of_the_data() -> None:
    for scale in (1.0, 1000.0):
        with pytest.warns(ItemLevelWarning):
            model = PrivateHistogram(bins=8).fit(scale * TEMPS.reshape(-1, 1))
        assert [float(edge) for edge in model.distribution_.edges] == [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    shown = PrivateHistogram(bins=2, range=(0, 120)).fit(WAITS.reshape(-1, 1), groups=WHO)
    assert [int(edge) for edge in shown.distribution_.edges] == [0, 60, 120]


def test_gaussian_finds_mean_and_spread() -> None:
    model = PrivateGaussian(radius=5, variance="1/4", max_variance=4, records_per_user=10, epsilon=8)
    model.fit(TEMPS.reshape(-1, 1), groups=WHO)
    assert abs(model.mean_[0] - 1) < 0.5
    assert model.covariance_.shape == (1, 1)
    assert model.score(np.array([[1.0]])) == pytest.approx(model.score_samples([[1.0]])[0])


def test_estimators_refuse_bad_parameters_before_they_spend(tmp_path: Path) -> None:
    budget(tmp_path / "b.db", 1).close()
    X = WAITS.reshape(-1, 1)
    for bad in (
        {"bins": 0},
        {"bins": "many"},
        {"range": (1, 0)},
        {"range": 3},
        {"max_records": 0},
        {"epsilon": -1},
        {"bins": {"age": [0, 1]}},
    ):
        with pytest.raises((ParameterError, TypeError)):
            PrivateHistogram(ledger=tmp_path / "b.db", **bad).fit(X, groups=WHO)
    with pytest.raises(ParameterError, match="at least 4"):
        PrivateGaussian(max_variance=4, ledger=tmp_path / "b.db").fit(X, groups=WHO)
    PrivateHistogram(ledger=tmp_path / "b.db").fit(X, groups=WHO)
    with pytest.raises(BudgetExhausted):
        PrivateHistogram(ledger=tmp_path / "b.db").fit(X, groups=WHO)
