"""``pp.audit`` and ``privpac audit``: right verdicts, datasets made up or given, pages that say what was found."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from commands import Command

import privpac as pp
from privpac import methods
from privpac.auditing import Audit, ExactAudit, StatisticalAudit, audit_exact, datasets, user_universe
from privpac.auditing.sampler import FALSE_ALARM, compare_draws
from privpac.cli.audit import VIOLATED
from privpac.distributions.quantiles import QuantileLearner, WalkQuantile
from privpac.errors import ParameterError, SchemaError, TooLargeError
from privpac.law import Law
from privpac.report.audit import audit_html, write_audit_report
from privpac.special import binom
from privpac.testing import SeededRng, insecure_randomness

F = Fraction
audit: Any = pp.audit
TINY = pp.Thresholds(pp.Integers(0, 2))


def counting(data: Any) -> Law:
    return Law.from_blocks([0, 1], [0, 1], [sum(x == 0 for x in data), sum(x == 1 for x in data)], 1)


# Learners


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_learner_is_audited_against_its_own_guarantee(neighbours: str) -> None:
    found = audit(pp.RealizableSelection(TINY, 1, neighbours))
    assert found.method == "exact"
    assert found
    assert (found.epsilon, found.delta, found.neighbours, found.confidence) == (1, 0, neighbours, 1)
    assert 0.5 < found.epsilon_lower <= 1
    assert "whole numbers 0..2" in found.universe


def test_an_add_remove_learner_violates_its_epsilon_under_replace() -> None:
    found = audit(pp.RealizableSelection(TINY, 1), neighbours="replace")
    assert found.verdict == "violates the claim"
    assert 1 < found.epsilon_lower <= 2
    x, y = found.worst
    assert len(x) == len(y)
    assert audit(pp.RealizableSelection(TINY, 1), neighbours="replace", epsilon=2)


def test_the_generated_universe_is_all_small_datasets() -> None:
    learner = pp.RealizableSelection(TINY, 1)
    records = [(x, y) for x in range(3) for y in (0, 1)]
    universe = datasets(user_universe(records, 1), 2)
    found = audit(learner, n_users=2, records=1)
    by_hand = audit_exact(
        learner, universe, build=lambda data: pp.UserData.from_users(data, features={"x": pp.Integers(0, 2)})
    )
    assert isinstance(found.result, ExactAudit)
    assert found.result == by_hand
    assert found.pairs == by_hand.pairs // 2


def test_domains_left_to_the_data_are_given_as_features() -> None:
    found = audit(pp.RealizableSelection(pp.Thresholds(), 1), features={"age": pp.Integers(0, 1)}, n_users=1)
    assert found
    assert "age" in found.universe
    with pytest.raises(ParameterError, match="features="):
        audit(pp.RealizableSelection(pp.Thresholds(), 1))


def test_a_learner_whose_law_is_too_large_is_run_instead() -> None:
    with insecure_randomness():
        learner = pp.RegretSelection(pp.Thresholds(pp.Integers(0, 1)), 1)
        found = audit(learner, n_users=1, runs=100, rng=SeededRng(1), confidence="0.9999999")
    assert found.method == "statistical"
    assert found.holds
    with pytest.raises(TooLargeError):
        audit(learner, n_users=1, method="exact")


def test_a_dataset_outside_the_domain_is_an_error_and_no_finding() -> None:
    learner = pp.RegretSelection(pp.Thresholds(pp.Integers(0, 1)), 1)
    with pytest.raises(SchemaError):
        audit(learner, datasets=[[[(7, 0)]], []], method="statistical", runs=100)


def test_an_item_level_learner_is_audited_record_by_record() -> None:
    found = audit(pp.RealizableSelection(TINY, 1, unit="item"))
    assert found
    assert "records" in found.universe
    assert all(len(user) == 1 for data in found.worst for user in data)


def test_outcomes_are_shown_as_rules_with_their_probabilities() -> None:
    found = audit(pp.RealizableSelection(TINY, 1), datasets=[[[(0, 0)]], []])
    assert sum(o.first for o in found.outcomes) == pytest.approx(1)
    assert sum(o.second for o in found.outcomes) == pytest.approx(1)
    assert any("x > 0" in outcome.label for outcome in found.outcomes)


@pytest.mark.parametrize("options", [{"n_users": 5, "records": 3}, {"n_users": 1000}], ids=["records", "users"])
def test_a_universe_too_large_to_decide_names_the_way_out(options: dict[str, int]) -> None:
    with pytest.raises(TooLargeError, match="datasets="):
        audit(pp.RealizableSelection(pp.Thresholds(pp.Integers(0, 10**9)), 1), **options)


# Samplers

THREE = pp.Integers(0, 2)


class Mode(pp.RealizableSelection):
    """Names the likeliest rule: no privacy, with the law of a private learner."""

    def draw(self, bound: Any, rng: Any) -> Any:
        return self.release_id(bound, self._law(bound).mode, {}, "mode")


class Sharper(pp.RealizableSelection):
    """Draws with a larger epsilon than that of its law."""

    def draw(self, bound: Any, rng: Any) -> Any:
        return self.release_id(bound, self.with_(epsilon=8)._law(bound).sample(rng), {}, "sharper")


class OwnLearn(pp.RealizableSelection):
    """Draws as it should, and releases something else."""

    def learn(self, data: Any, *, rng: Any = None, ledger: Any = None) -> Any:
        bound = self.bind(data)
        return self.release_id(bound, self._law(bound).mode, {}, "own")


class ModeTree(pp.TreeLearner):
    def draw(self, bound: Any, rng: Any) -> Any:
        return evolve(super().draw(bound, rng), value=bound.tree.rule(bound.tree.root, bound.label))


class Elsewhere(pp.HybridSelection):
    """Draws a rule that its law has not."""

    def draw(self, bound: Any, rng: Any) -> Any:
        return evolve(super().draw(bound, rng), value=pp.Intervals(THREE, "x").decode(3, bound.label))


@pytest.mark.parametrize(
    "learner",
    [
        Mode(TINY, 1),
        Sharper(TINY, "1/2"),
        ModeTree(pp.PathTree(THREE, "x"), 1, public_n_users=2),
        Elsewhere(TINY, 1),
        OwnLearn(TINY, 1),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_a_sampler_that_does_not_draw_from_its_law_is_caught(learner: Any) -> None:
    some = {"datasets": [[[(0, 0)], [(2, 1)]], [[(0, 0)]], []]}
    found = audit(learner, **some)
    assert found.method == "exact"
    assert found.result.holds  # the law is innocent
    assert not found
    assert found.verdict == "draws differ from the law"
    assert "was drawn" in found.sampler.differs
    assert any("not what was decided" in line for line in found.notes())
    assert found.to_dict()["sampler"]["holds"] is False
    assert "does not draw from the law" in audit_html(found)
    unseen = audit(learner, draws=0, **some)
    assert unseen.verdict == "consistent with the claim"
    assert "sampler was not looked at" in str(unseen)
    assert unseen.to_dict()["sampler"] == {
        "looked_at": False, "holds": None, "draws": 0, "datasets": 0, "false_alarm": None, "differs": "",
        "reason": "no draws were asked for (draws=0)",
    }  # fmt: skip


HONEST: dict[str, Any] = {
    "hybrid selection": lambda: pp.HybridSelection(TINY, 1),
    "mean": lambda: pp.RegretSelection(TINY, 1, statistic="mean"),
    "regret": lambda: pp.RegretSelection(TINY, 1, public_n_users=2),
    "realizable": lambda: pp.RealizableSelection(TINY, 4, max_records=1),
    "agnostic": lambda: methods.UserAgnosticLearner(TINY, 2, tolerance=1),
    "direct": lambda: methods.ThresholdLearner(TINY, 2, method="direct", tolerance=1),
    "pairwise": lambda: methods.PairwiseSelection(TINY, 1, tau=1),
    "path": lambda: pp.TreeLearner(pp.PathTree(THREE, "x"), 1, public_n_users=2),
    "star": lambda: pp.TreeLearner(pp.StarTree(THREE, "x"), 3, "1e-1", mode="erm", public_n_users=2),
    "small tree": lambda: methods.SmallTreeLearner(pp.SmallTrees({"x": THREE}, depth=1), 1),
    "median": lambda: methods.PrivateMedian(TINY, 4),
    "compare": lambda: methods.PrivateCompare(TINY, 2, value="3/8", width="1/4"),
    "minimum error": lambda: methods.MinimumError(TINY, 2),
    "agreement": lambda: methods.AgreementLearner(TINY, 3, delta="1e-2", seed=bytes(32)),
    "one record": lambda: methods.OneRecordPerUser(pp.RealizableSelection(TINY, 1), "random"),
    "group privacy": lambda: methods.GroupPrivacy(pp.RealizableSelection(TINY, 1, unit="item"), 1),
    "quantile": lambda: QuantileLearner(2, weight="own"),
    "walks": lambda: WalkQuantile(4, weight="own", delta=0, walks=0, public_n_users=50),
}


@pytest.mark.parametrize("name", HONEST)
def test_draws_of_honest_learners_follow_their_laws(name: str) -> None:
    """False alarms have probability below 1e-7 each."""
    found = audit(HONEST[name](), datasets=[[[(0, 0)], [(2, 1)]], [[(0, 0)]]], features={"x": THREE}, draws=100)
    assert found.method == "exact"
    assert found.sampler.looked, found.sampler
    assert found.sampler.holds, found.sampler
    assert "draws as the law says; 100 draws on each of 2 datasets" in str(found.sampler)
    assert "draws as the law says" in audit_html(found)
    assert found.verdict == "consistent with the claim"


def test_what_cannot_be_compared_is_said() -> None:
    universe = datasets([0, 1], 3)
    found = audit(counting, universe=universe, neighbours="add-remove", epsilon=1)
    assert not found.sampler.looked
    assert "returns laws draws nothing" in str(found)
    wide = audit(pp.RealizableSelection(pp.Thresholds(pp.Integers(0, 10**5)), 1), datasets=[[[(0, 0)]], []])
    assert "more than 4,096 outcomes" in str(wide.sampler)

    class Own(pp.RealizableSelection):
        def shown_as(self, bound: Any, value: Any) -> None:
            return None

    assert "shown_as" in audit(Own(TINY, 1)).sampler.reason
    with pytest.raises(ParameterError, match="draws"):
        audit(pp.RealizableSelection(TINY, 1), draws=-1)


def test_a_mechanism_with_a_law_is_drawn_from() -> None:
    class Coin:
        def law(self, data: Any) -> Law:
            return counting(data)

        def sample(self, data: Any, rng: Any = None) -> int:
            return int(counting(data).sample(rng))

    class Fixed(Coin):
        def sample(self, data: Any, rng: Any = None) -> int:
            return 0

    universe = datasets([0, 1], 3)
    assert audit(Coin(), universe=universe, neighbours="add-remove", epsilon=1).sampler.looked
    assert audit(Fixed(), universe=universe, neighbours="add-remove", epsilon=1).verdict == "draws differ from the law"
    assert not audit(Fixed(), universe=universe, neighbours="add-remove")  # without a claim as well


def test_false_alarms_are_as_rare_as_stated() -> None:
    """The mass of all counts of a cell that are an alarm, exactly, added over the cells."""
    for law in ({"a": 0.5, "b": 0.5}, {"a": 0.999, "b": 0.001}):
        n, wrong = 60, 0.0
        for count in range(n + 1):
            if compare_draws([(["a"] * count + ["b"] * (n - count), law)]):
                wrong += float(binom.pmf(count, n, law["a"]))
        assert 0 < wrong <= FALSE_ALARM < 1e-6


# Functions


def test_a_function_that_returns_laws_is_decided() -> None:
    universe = datasets([0, 1], 3)
    assert audit(counting, universe=universe, neighbours="add-remove", epsilon=1).method == "exact"
    assert audit(counting, universe=universe, neighbours="add-remove", epsilon=1)
    found = audit(counting, universe=list(universe), neighbours="replace", epsilon=1)
    assert found.verdict == "violates the claim"
    open_claim = audit(counting, universe=universe, neighbours="replace")
    assert open_claim.verdict == "no claim"
    assert open_claim.epsilon is None
    assert open_claim
    assert open_claim.epsilon_lower == pytest.approx(found.epsilon_lower)


def test_a_function_is_run_on_the_datasets_as_they_were_given() -> None:
    seen = set()

    def mechanism(data: list[int]) -> int:
        seen.add(type(data))
        return sum(data)

    found = audit(mechanism, datasets=([0, 1], [0]), epsilon=1, runs=100)
    assert seen == {list}
    assert found.neighbours == "add-remove"
    assert found.verdict == "violates the claim"
    assert audit(mechanism, datasets=([0, 1], [0, 0]), runs=100).neighbours == "replace"


def test_a_leaky_function_is_caught_with_a_pair_of_arrays() -> None:
    rng = np.random.default_rng(2)
    x, y = np.array([0.0, 1.0]), np.array([0.0, -1.0])
    found = audit(
        lambda data: data.sum() + rng.laplace(0, 1), datasets=(x, y), epsilon=1, runs=20_000, confidence="0.9999999"
    )
    assert isinstance(found.result, StatisticalAudit)
    assert not found
    assert found.neighbours == "replace"
    with pytest.raises(ParameterError, match="statistical"):
        audit(counting, datasets=(x, y), method="exact", neighbours="replace")


def test_no_finite_epsilon_is_said_as_such() -> None:
    found = audit(lambda data: Law.point(len(data)), datasets=[[1], []], epsilon=1)
    assert found.epsilon_lower == inf
    assert "no finite epsilon" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["epsilon_lower"] == "inf"
    assert "No finite epsilon" in audit_html(found)


def test_too_few_runs_to_test_a_claim_are_noted() -> None:
    found = audit(lambda data: 0, datasets=([1], []), epsilon=5, runs=40)
    assert found
    assert "more runs" in " ".join(found.notes())


def test_the_call_and_the_room_are_two_names_whatever_is_imported_first() -> None:
    used = "pp.audit(len, datasets=([1], []), runs=40); pp.auditing.refute.__name__"
    code = "import sys\n"
    for first in ("privpac.auditing", "privpac.api.audit", "privpac.auditing.refutation"):
        code += f"import {first}, privpac as pp; {used}\n"
        code += "for name in [name for name in sys.modules if name.partition('.')[0] == 'privpac']:\n"
        code += "    del sys.modules[name]\n"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_without_a_claim_nothing_is_judged() -> None:
    assert audit(len, datasets=([1], []), runs=40).verdict == "no claim"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "guess"}, ParameterError),
        ({"universe": [()], "datasets": [[], [1]]}, ParameterError),
        ({"universe": [(), (1,)], "n_users": 2}, ParameterError),
        ({"datasets": [[1], [2, 3]]}, ParameterError),
        ({"universe": ["ab", "a"]}, TypeError),
        ({}, ParameterError),
        ({"datasets": [[1], []], "neighbours": "swap"}, ParameterError),
        ({"datasets": [[1], []], "epsilon": -1}, ParameterError),
        ({"datasets": [[1], []], "runs": -1}, ParameterError),
        ({"subject": 3, "datasets": [[1], []]}, TypeError),
        ({"subject": pp.RealizableSelection, "datasets": [[1], []]}, TypeError),
    ],
    ids=str,
)
def test_bad_calls_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    told: dict[str, Any] = {"subject": len, "neighbours": "add-remove", **options}
    with pytest.raises(error):
        audit(told.pop("subject"), **told)


def test_a_table_is_not_taken() -> None:
    people = pp.UserData.from_users([[(1, 0)]], features={"x": pp.Integers(0, 2)})
    with pytest.raises(TypeError, match="made-up"):
        audit(pp.RealizableSelection(TINY, 1), universe=people)
    with pytest.raises(TypeError, match="made-up"):
        audit(pp.RealizableSelection(TINY, 1), datasets=(people, people))


# Pages


@pytest.fixture(scope="module")
def caught() -> Audit:
    rng = np.random.default_rng(4)
    found: Audit = audit(lambda data: sum(data) + rng.laplace(0, 1), datasets=([0, 3], [0, 0]), epsilon=1, runs=4000)
    return found


def test_the_page_says_what_was_found_and_fetches_nothing(caught: Audit, tmp_path: Path) -> None:
    page = write_audit_report(caught, tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "violates the claim" in page
    assert f"{caught.epsilon_lower:.4g}" in page
    assert "<b>3</b>" in page
    assert not any(f"{part}=" in page.split("</style>")[1].replace('xlink:href="#', "") for part in ("src", "onclick"))
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_text_on_the_page_is_escaped() -> None:
    found = audit(lambda data: "<script>" if data else "&", datasets=(["<b>x</b>"], []), epsilon=1, runs=40)
    page = audit_html(found)
    assert "<script>" not in page
    assert "<b>x</b>" not in page
    assert "&lt;script&gt;" in page


def test_a_page_that_cannot_be_written_is_one_clear_error(caught: Audit, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="writable"):
        write_audit_report(caught, tmp_path / "none" / "audit.html")
    with pytest.raises(TypeError):
        audit_html(caught.result)  # type: ignore[arg-type]


def test_the_result_is_saved_as_plain_values(caught: Audit) -> None:
    saved = json.loads(json.dumps(caught.to_dict()))
    assert saved["verdict"] == "violates the claim"
    assert sorted(saved["worst"]) == [[0, 0], [0, 3]]
    assert saved["confidence"] == "999/1000"
    assert sum(saved["hits"]) > 0
    assert "second dataset" in str(caught)


# The command


@pytest.fixture
def privpac(command: Command) -> Command:
    return command


LEARNER = ["audit", "--rule", "threshold", "--feature", "x=0:2", "--epsilon", "1"]
MORE: dict[str, list[str]] = {
    "plain": [],
    "two records": ["--method", "regret", "--people", "1", "--records", "2"],
    "replace": ["--neighbours", "replace", "--people", "1"],
}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_command_audits_a_learner(privpac: Any, more: list[str]) -> None:
    code, out, _ = privpac(*LEARNER, *more)
    assert code == 0
    assert "consistent with the claim" in out
    assert "exact decision" in out


def test_command_writes_json_and_a_page(privpac: Any, tmp_path: Path) -> None:
    code, out, _ = privpac(*LEARNER, "--people", "1", "--json", "--report", "out.html")
    assert code == 0
    assert json.loads(out)["method"] == "exact"
    assert json.loads(out)["sampler"]["looked_at"]
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Privacy audit" in page
    assert "draws as the law says" in page


def test_command_says_whether_the_sampler_was_looked_at(privpac: Any, tmp_path: Path) -> None:
    code, out, _ = privpac(*LEARNER, "--people", "1", "--draws", "100")
    assert code == 0
    assert "100 draws on each of" in " ".join(out.split())
    code, out, _ = privpac(*LEARNER, "--people", "1", "--draws", "0")
    assert code == 0
    assert "The sampler was not looked at" in out
    (tmp_path / "my_learner.py").write_text(
        "import privpac as pp\n"
        "class Mode(pp.RealizableSelection):\n"
        "    def draw(self, bound, rng):\n"
        "        return self.release_id(bound, self._law(bound).mode, {}, 'mode')\n"
        "learner = Mode(pp.Thresholds(pp.Integers(0, 2)), 1)\n",
        encoding="utf-8",
    )
    made_up = "[[[[0, 0]], [[2, 1]]], [[[0, 0]]]]"
    code, out, _ = privpac("audit", "--callable", "my_learner:learner", "--datasets", made_up)
    assert code == VIOLATED
    assert "draws differ from the law" in out


def test_command_audits_a_function_of_ones_own(privpac: Any, tmp_path: Path) -> None:
    (tmp_path / "my_mechanism.py").write_text("def total(data):\n    return sum(data)\n", encoding="utf-8")
    (tmp_path / "made_up.json").write_text("[[0, 1], [0, 0]]", encoding="utf-8")
    words = [
        "audit",
        "--callable",
        "my_mechanism:total",
        "--statistical",
        "--neighbours",
        "replace",
        "--epsilon",
        1,
        "--runs",
        200,
    ]
    for given in ("[[0, 1], [0, 0]]", "@made_up.json"):
        code, out, _ = privpac(*words, "--datasets", given)
        assert code == VIOLATED == 5
        assert "violates the claim" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["audit", "people.csv", "--rule", "threshold", "--feature", "x=0:2", "--epsilon", "1"], "reads no table"),
        (["audit"], "say what to audit"),
        (["audit", "--rule", "threshold", "--callable", "a:b"], "say what to audit"),
        (["audit", "--rule", "threshold", "--feature", "x=0:2"], "--epsilon"),
        (["audit", "--rule", "circle", "--feature", "x=0:2", "--epsilon", "1"], "rule must be one of"),
        (["audit", "--callable", "no_such_module:f", "--datasets", "[[1],[]]"], "cannot be imported"),
        (["audit", "--callable", "nothing"], "module:function"),
        (["audit", "--callable", "math:fsum", "--datasets", "[[1]"], "JSON"),
        (["audit", "--callable", "math:fsum", "--datasets", "[1, 2]"], "list of users"),
        (["audit", "--callable", "math:fsum", "--datasets", "@none.json"], "cannot be read"),
        (["audit", "--callable", "math:fsum", "--epsilon", "1", "--neighbours", "replace"], "give the datasets"),
        ([*LEARNER[:4], "x=0:99999", "--epsilon", "1"], "neighbouring pairs"),
        ([*LEARNER, "--report", "none/out.html"], "--report"),
        (["bounds", "1"], "the tables are"),
        (["bounds", "000-1", "--size", "many"], "--size"),
    ],
    ids=[f"case {i}" for i in range(15)],
)
def test_command_refuses_in_one_line(privpac: Any, words: list[str], says: str) -> None:
    code, out, err = privpac(*words)
    assert code == 2
    assert not out
    assert says in err
    assert err.count("\n") == 1


def test_command_shows_the_tables_of_rates(privpac: Any) -> None:
    code, out, _ = privpac("bounds", "002-2", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert all(row["user level, the paper"]["users"] > 0 for row in rows)
    code, out, _ = privpac("bounds", "004-1", "--epsilon", "1/2")
    assert code == 0
    assert "local" in out


def test_the_refuter_goes_by_the_name_of_the_call_too() -> None:
    from privpac import auditing

    assert pp.audit.refute is auditing.refute  # type: ignore[attr-defined]
    assert pp.audit.audit_exact is auditing.audit_exact  # type: ignore[attr-defined]
