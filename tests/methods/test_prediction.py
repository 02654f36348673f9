"""Sessions answer within their budget, show nothing but answers, and cost what the bounds say."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Floats, Integers, UserData
from privpac.errors import (
    AccuracyWarning,
    BudgetExhausted,
    EngineError,
    IncompatibleGuarantees,
    InfeasibleError,
    InsecureRandomnessError,
    LedgerUnavailable,
    ParameterError,
    SchemaError,
)
from privpac.guarantee import Guarantee, Neighbours
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.reduction_privacy import theorem_a
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.service_plan import plan_service
from privpac.methods.prediction.voters import (
    PredictionSession,
    VotePredictor,
    certified_voters,
    consistent_rule,
    fewest_voters,
    gamma_for_transcript,
    most_queries,
    service_spend,
    transcript_epsilon,
    transcript_law,
    vote_epsilon,
    vote_gamma,
    wrong_answer,
)
from privpac.rules import Intervals, Points, Stumps, Thresholds
from privpac.rules.base import ConceptClass
from privpac.testing import SeededRng, insecure_randomness

SPLIT: dict[str, Any] = {"neighbours": "add-remove", "q": "1/10", "a": "0.3", "b": "0.2"}


def people(n: int = 60, records: int = 2) -> UserData:
    """Half of them at -3, half of them at 3; label 1 above 0."""
    return UserData.from_users([[((-1) ** i * 3.0, i % 2 == 0)] * records for i in range(n)], features={"x": Floats()})


def predictor(**changes: Any) -> VotePredictor:
    relabelling = Relabelling(Thresholds(Floats(), "x"), 4, 1, eta=Fraction(1, 8), split_rate=Fraction(1, 2), levels=16)
    return VotePredictor(**{"relabelling": relabelling, "voters": 3, "gamma": Fraction(1, 2), "queries": 8} | changes)


# Bounds


@given(st.integers(1, 60), st.fractions("1/1000", 4), st.fractions("1/1000", 4))
@settings(max_examples=20, deadline=None)
def test_gamma_is_the_largest_that_one_answer_allows(voters: int, epsilon: Fraction, gamma: Fraction) -> None:
    best = vote_gamma(epsilon, voters)
    assert vote_epsilon(best, voters) <= epsilon
    assert vote_epsilon(best * (1 + Fraction(1, 1 << 50)), voters) > epsilon
    assert epsilon / 2 * (1 - Fraction(1, 1 << 50)) <= best <= epsilon
    assert gamma <= vote_epsilon(gamma, voters) <= 2 * gamma


@given(st.integers(1, 500), st.integers(1, 40), st.sampled_from(["0", "1e-9", "1e-6", "1e-3"]))
@settings(max_examples=10, deadline=None)
def test_a_transcript_costs_the_smaller_line_and_grows_with_its_length(k: int, voters: int, delta: str) -> None:
    cost = transcript_epsilon(k, "0.1", voters, delta)
    assert cost <= k * vote_epsilon("0.1", voters)
    assert cost < transcript_epsilon(k + 1, "0.1", voters, delta)
    gamma = gamma_for_transcript(k, cost, voters, delta)
    assert transcript_epsilon(k, gamma, voters, delta) <= cost
    assert float(gamma) == pytest.approx(0.1, rel=1e-9)


def test_the_spec_figures_of_the_accountants() -> None:
    assert float(transcript_epsilon(100, "0.05", 1000, "1e-6")) == pytest.approx(2.42, abs=0.005)
    assert float(transcript_epsilon(1000, "0.05", 1000, "1e-6")) == pytest.approx(8.85, abs=0.005)
    assert transcript_epsilon(1, "0.05", 50, "1e-6") == vote_epsilon("0.05", 50)  # for one query the pure line wins
    assert [fewest_voters(1, alpha) for alpha in ("0.2", "0.1", "0.05")] == [3, 5, 7]
    assert [certified_voters(1, alpha) for alpha in ("0.2", "0.1", "0.05")] == [18, 23, 27]


@given(st.integers(1, 30), st.fractions("1/50", 2), st.fractions(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_envelope_is_concave_above_every_vote_and_the_least_such(r: int, gamma: Fraction, x: Fraction) -> None:
    values = [1 / (1 + np.exp(-float(gamma) * (2 * j - r))) for j in range(r + 1)]
    chords = [
        values[i] + (float(x) * r - i) / (j - i) * (values[j] - values[i])
        for i in range(r + 1)
        for j in range(i + 1, r + 1)
        if i <= x * r <= j
    ]
    assert float(wrong_answer(x, gamma, r)) == pytest.approx(max(chords), rel=1e-9)


def test_the_certified_numbers_of_voters_do_what_they_say() -> None:
    for alpha in ("0.2", "0.05"):
        r = certified_voters(1, alpha)
        assert wrong_answer(Fraction(alpha) / 4, "0.5", r) <= Fraction(alpha)


@given(st.fractions("1/4", 3), st.sampled_from(["0", "1e-6"]), st.sampled_from(["add-remove", "replace"]))
@settings(max_examples=20, deadline=None)
def test_k_max_is_the_last_number_of_answers_that_fits(epsilon: Fraction, delta: str, neighbours: str) -> None:
    split = SPLIT | {"neighbours": neighbours, "q": "1/100", "a": "0.01", "b": "0.05", "delta": delta}
    k = most_queries(epsilon, "0.05", 21, **split)
    spent = service_spend(k, "0.05", 21, **split)
    assert spent[0] <= epsilon < service_spend(k + 1, "0.05", 21, **split)[0]
    assert spent[1] <= Fraction(delta)


def test_no_answer_at_all_is_said_before_anything_else() -> None:
    with pytest.raises(InfeasibleError, match="not even one"):
        most_queries("0.1", 1, 5, **SPLIT)


def test_delta_stays_within_its_limit_where_theorem_b_inflates_it() -> None:
    """For ``e**b`` above ``K'`` the factor of delta exceeds 1, and most for the shortest transcript."""
    for k in (1, 10, 100):
        epsilon, delta = service_spend(
            k, "0.001", 5, neighbours="add-remove", q="1/4", a="0.001", b=3, delta="1e-6", G=1
        )
        assert delta <= Fraction(1, 10**6) * (1 + Fraction(1, 1 << 50))
        assert epsilon > 0


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None, True])
def test_bad_rates_are_refused(bad: Any) -> None:
    for call in (lambda: vote_epsilon(bad, 3), lambda: vote_gamma(bad, 3), lambda: transcript_epsilon(3, bad, 3)):
        with pytest.raises((ParameterError, TypeError)):
            call()


@pytest.mark.parametrize("bad", [0, -1, 2.5, "3", None, 1 << 30])
def test_bad_counts_are_refused(bad: Any) -> None:
    for call in (
        lambda: vote_epsilon(1, bad),
        lambda: predictor(voters=bad),
        lambda: predictor(queries=1 << 50 if bad == 1 << 30 else bad),
    ):
        with pytest.raises((ParameterError, TypeError)):
            call()


# Voters

POINTS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 1)), max_size=12)


@pytest.mark.parametrize(
    "concept",
    [
        Thresholds(Integers(0, 11), "x"),
        Thresholds(Integers(0, 11), "x", "below"),
        Thresholds(Integers(0, 11), "x", "both"),
        Intervals(Integers(0, 11), "x"),
        Points(Integers(0, 11), "x"),
    ],
    ids=["above", "below", "both", "interval", "point"],
)
@given(records=POINTS)
@settings(max_examples=60, deadline=None)
def test_a_voter_is_the_least_rule_that_fits_all_records(concept: ConceptClass, records: list[tuple[int, int]]) -> None:
    codes = {"x": np.array([x for x, _ in records], dtype=np.uint64)}
    labels = np.array([y for _, y in records], dtype=np.uint8)
    fits = [h for h in range(concept.size) if bool((concept.predictions(codes, h) == labels).all())]
    assert consistent_rule(concept, codes, labels) == (fits[0] if fits else 0) or not fits


@given(records=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 1)), max_size=10))
@settings(max_examples=60, deadline=None)
def test_a_voting_stump_is_the_least_that_fits(records: list[tuple[int, int, int]]) -> None:
    concept = Stumps({"x": Integers(0, 4), "z": Integers(0, 4)})
    table = np.array(records, dtype=np.uint64).reshape(-1, 3)
    codes, labels = {"x": table[:, 0], "z": table[:, 1]}, table[:, 2].astype(np.uint8)
    fits = [h for h in range(concept.size) if bool((concept.predictions(codes, h) == labels).all())]
    assert not fits or consistent_rule(concept, codes, labels) == fits[0]


def test_parts_are_balanced_under_replace_and_independent_under_add_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[list[int]] = []

    def record(concept: ConceptClass, part: UserData, places: Any, r: int) -> tuple[int, ...]:
        sizes.append(np.bincount(places, minlength=r).tolist())
        return (0,) * r

    monkeypatch.setattr("privpac.methods.prediction.voters._voters", record)
    fixed = Relabelling(
        Thresholds(Floats(), "x"),
        1,
        1,
        eta=Fraction(1, 8),
        split_size=11,
        public_n_users=60,
        neighbours=Neighbours.REPLACE,
    )
    predictor(relabelling=fixed, voters=4).learn(people())
    assert sizes.pop() == [3, 3, 3, 2]
    for _ in range(25):
        predictor(voters=4).learn(people())
    assert len({tuple(counts) for counts in sizes}) > 5  # balanced parts would be three patterns per size


# Sessions


def test_a_session_answers_adaptive_queries_until_its_budget_is_gone() -> None:
    session = predictor().learn(people())
    assert session.remaining() == 8
    first = session.predict([[-9.0], [9.0], [-9.0]])
    assert first.dtype == np.int8
    assert first[0] == first[2]
    assert session.remaining() == 6
    assert session.predict({"x": [9.0]})[0] == first[1]  # a repeat is free
    assert session.remaining() == 6
    session.predict(np.arange(6.0)[:, None])
    with pytest.raises(BudgetExhausted):
        session.predict([[100.0]])
    assert session.predict([[-9.0]])[0] == first[0]
    assert session.remaining() == 0


def test_a_batch_over_budget_gets_nothing() -> None:
    session = predictor().learn(people())
    with pytest.raises(BudgetExhausted):
        session.predict(np.arange(9.0)[:, None])
    assert session.remaining() == 8


def test_strong_votes_follow_the_data() -> None:
    """With gamma = 20 the majority is certain up to 1e-8 per answer; all parts of these data agree at the ends."""
    strong = Relabelling(Thresholds(Floats(), "x"), 1000, 1000, eta=Fraction(1, 10), split_rate=Fraction(1, 2))
    session = predictor(relabelling=strong, gamma=Fraction(20), voters=1).learn(people(400))
    assert session.predict([[-4.0], [4.0]]).tolist() == [0, 1]


def test_zeros_of_both_signs_are_one_query_and_other_values_are_not() -> None:
    session = predictor().learn(people())
    session.predict([[0.0], [-0.0]])
    assert session.used() == 1
    session.predict([[5e-324]])
    assert session.used() == 2


@pytest.mark.parametrize("bad", [[[float("nan")]], [["high"]], [[1.0, 2.0]], {"y": [1.0]}, [[None]]])
def test_bad_queries_are_refused_and_not_counted(bad: Any) -> None:
    session = predictor().learn(people())
    with pytest.raises((SchemaError, TypeError)):
        session.predict(bad)
    assert session.used() == 0


def test_nothing_private_is_shown_copied_or_pickled() -> None:
    session = predictor().learn(people())
    text = repr(session) + str(session) + repr(session.parameters)
    for voter in session._voters[0]:
        assert voter == 0 or str(voter) not in text
    assert "voters=" not in repr(session)
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="budget of its own"):
            action(session)


def test_a_session_without_a_ledger_stays_in_its_process() -> None:
    session = predictor().learn(people())

    def child() -> None:
        with pytest.raises(LedgerUnavailable):
            session.predict([[1.0]])

    assert in_fork(child) == 0
    session.predict([[1.0]])


def in_fork(action: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_threads_cannot_overdraw() -> None:
    session = predictor(queries=20).learn(people())
    given: list[int] = []

    def ask(start: int) -> None:
        for i in range(20):
            try:
                given.append(int(session.predict([[start + i / 100]])[0]))
            except BudgetExhausted:
                return

    threads = [threading.Thread(target=ask, args=(n * 1000.0,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 20
    assert session.remaining() == 0


def test_shares_limit_one_key_only() -> None:
    session = predictor().learn(people())
    session.predict([[1.0], [2.0]], key="ann", share=2)
    with pytest.raises(BudgetExhausted):
        session.predict([[3.0]], key="ann", share=2)
    session.predict([[3.0]], key="bob", share=1)
    assert (session.used("ann"), session.used("bob"), session.used()) == (2, 1, 3)


# Epochs and guarantees


def test_epochs_use_their_own_voters_one_after_the_other() -> None:
    session = predictor(epochs=4).learn(people())
    assert len(session._voters) == 4
    seen: list[int] = []
    count = PredictionSession._count

    def spy(self: PredictionSession, epoch: int, codes: Any) -> Any:
        seen.append(epoch)
        return count(self, epoch, codes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PredictionSession, "_count", spy)
        for i in range(8):
            session.predict([[float(i)]])
    assert [epoch for epoch in seen if epoch] == [1, 1, 2, 2, 3, 3]


def test_epochs_add_up() -> None:
    one, four = predictor(queries=2), predictor(queries=8, epochs=4)
    assert four.guarantee.epsilon == 4 * one.guarantee.epsilon
    with pytest.raises(ParameterError, match="multiple"):
        predictor(queries=7, epochs=2)


def test_the_guarantee_is_theorem_a_of_the_whole_transcript() -> None:
    fixed = Relabelling(
        Thresholds(Floats(), "x"),
        1,
        1,
        eta=Fraction(1, 8),
        split_size=6,
        public_n_users=60,
        neighbours=Neighbours.REPLACE,
        levels=16,
    )
    service = predictor(relabelling=fixed, queries=5)
    expected = theorem_a("1/10", fixed.a, fixed.b, 5 * vote_epsilon("1/2", 3))
    assert (service.guarantee.epsilon, service.guarantee.delta) == expected
    assert service.guarantee.neighbours is Neighbours.REPLACE


def test_guarantees_grow_with_every_cost() -> None:
    base = predictor().guarantee.epsilon
    assert predictor(queries=9).guarantee.epsilon > base
    assert predictor(gamma=Fraction(3, 5)).guarantee.epsilon > base
    assert predictor(voters=4).guarantee.epsilon > base
    more = Relabelling(Thresholds(Floats(), "x"), 4, 2, eta=Fraction(1, 8), split_rate=Fraction(1, 2), levels=16)
    assert predictor(relabelling=more).guarantee.epsilon > base


def test_filling_uses_the_budget_and_no_more() -> None:
    relabelling = Relabelling(
        Thresholds(Floats(), "x"), 8, 1, eta=Fraction(1, 64), split_rate=Fraction(1, 20), levels=16
    )
    service = VotePredictor.filling(relabelling, voters=31, gamma="0.05", epsilon=1, delta="1e-6")
    assert (service.guarantee.epsilon, service.cost[0] <= 1) == (1, True)
    with pytest.raises(InfeasibleError):
        VotePredictor(relabelling, 31, Fraction(1, 20), service.queries + 1, Fraction(1, 10**6), 1, Fraction(1))


def test_a_plan_keeps_its_promise_and_improves_with_people() -> None:
    few, many = (
        plan_service(Thresholds(Floats(), "x"), epsilon=1, delta="1e-6", queries=50, public_n_users=n)
        for n in (2000, 50_000)
    )
    assert many.expected_error < few.expected_error < 1
    for plan in (few, many):
        assert plan.predictor.cost[0] <= plan.predictor.guarantee.epsilon == 1
        assert plan.predictor.guarantee.delta <= Fraction(1, 10**6)
    with pytest.raises(InfeasibleError):
        plan_service(Thresholds(Floats(), "x"), epsilon="0.001", queries=50, public_n_users=3, neighbours="replace")


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_what_a_service_expects_never_rises_with_budget_or_people(neighbours: str, delta: str) -> None:
    cuts = Thresholds(Floats(), "x")
    shape: dict[str, Any] = {"queries": 100, "delta": delta, "neighbours": neighbours}
    by_budget = [
        plan_service(cuts, epsilon=e, public_n_users=5000, **shape).expected_error for e in ("1/2", "0.6", 1, 4)
    ]
    by_people = [plan_service(cuts, epsilon=1, public_n_users=n, **shape).expected_error for n in (2000, 2100, 4321)]
    by_levels = [
        plan_service(cuts, epsilon=1, public_n_users=5000, levels=k, **shape).expected_error for k in (16, 840)
    ]
    for values in (by_budget, by_people, by_levels):
        assert values == sorted(values, reverse=True)


# Learning


def test_a_ledger_is_charged_before_the_data_are_used_and_counts_the_answers(tmp_path: Path) -> None:
    service = predictor()
    ledger = BudgetLedger.create(tmp_path / "b.db", Guarantee(10, unit="user", neighbours="add-remove"), dataset="d")
    session = service.learn(people(), ledger=ledger)
    (spend,) = ledger.history()
    assert (spend.eps, spend.delta) == (service.guarantee.epsilon, service.guarantee.delta)
    assert spend.spend_id == session.session_id
    session.predict([[1.0], [2.0]])
    assert ledger.queries.used(session.session_id) == 2
    ledger.verify()
    assert "1.0" not in ledger.export_json()


def test_a_crash_after_the_spend_leaves_it_spent_and_a_schema_error_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = BudgetLedger.create(tmp_path / "b.db", Guarantee(10, unit="user", neighbours="add-remove"), dataset="d")
    wrong = UserData.from_users([[("high", 1)]], features=["x"])
    with pytest.raises((SchemaError, ParameterError)):
        predictor().learn(wrong, ledger=ledger)
    assert ledger.history() == ()
    monkeypatch.setattr(VotePredictor, "fit", lambda *_: 1 / 0)
    with pytest.raises(EngineError, match="not told"):
        predictor().learn(people(), ledger=ledger)
    assert len(ledger.history()) == 1


def test_an_add_remove_ledger_refuses_a_replace_session_and_items_are_not_users(tmp_path: Path) -> None:
    ledger = BudgetLedger.create(tmp_path / "b.db", Guarantee(10, unit="user", neighbours="add-remove"), dataset="d")
    fixed = Relabelling(
        Thresholds(Floats(), "x"),
        1,
        1,
        eta=Fraction(1, 8),
        split_size=6,
        public_n_users=60,
        neighbours=Neighbours.REPLACE,
        levels=16,
    )
    with pytest.raises(IncompatibleGuarantees):
        predictor(relabelling=fixed).learn(people(), ledger=ledger)
    items = UserData.from_arrays(np.array([[1.0], [2.0]]), [0, 1], features={"x": Floats()})
    with pytest.raises(IncompatibleGuarantees):
        predictor().learn(items)
    with pytest.raises(ParameterError, match="public_n_users"):
        predictor(relabelling=fixed).learn(people(61))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_people_are_no_error(n: int) -> None:
    session = predictor().learn(people(n))
    assert set(session.predict(np.arange(8.0)[:, None]).tolist()) <= {0, 1}


def test_empty_voters_are_said_under_replace_only() -> None:
    fixed = Relabelling(
        Thresholds(Floats(), "x"),
        1,
        1,
        eta=Fraction(1, 8),
        split_size=2,
        public_n_users=60,
        neighbours=Neighbours.REPLACE,
    )
    with pytest.warns(AccuracyWarning, match="default"):
        predictor(relabelling=fixed).learn(people())
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        predictor(voters=50).learn(people(1))


def test_seeded_sessions_carry_no_guarantee_and_no_ledger_pays_for_them(tmp_path: Path) -> None:
    with insecure_randomness():
        one, two = (predictor().learn(people(), rng=SeededRng(5)) for _ in range(2))
        assert one._voters == two._voters
        assert (one.guarantee, one.insecure) == (None, True)
        assert "insecure" in repr(one)
        ledger = BudgetLedger.create(
            tmp_path / "b.db", Guarantee(10, unit="user", neighbours="add-remove"), dataset="d"
        )
        with pytest.raises(InsecureRandomnessError):
            predictor().learn(people(), rng=SeededRng(5), ledger=ledger)
    assert ledger.history() == ()


@pytest.mark.parametrize("rate", [{"gamma": "1/2"}, {"base": 3}], ids=["gamma", "base"])
@pytest.mark.parametrize("relabel", [{"eta": "1/8"}, {"base": 2}], ids=["eta", "base"])
def test_transcripts_of_rational_and_exponential_laws_mix(rate: dict[str, Any], relabel: dict[str, Any]) -> None:
    data = UserData.from_users([[(0, 0)], [(1, 1)], [(1, 0)]], features={"x": Integers(0, 2)})
    law = transcript_law(Relabelling(Thresholds(), 1, 1, split_rate="1/4", **relabel), data, [0, 2], voters=2, **rate)
    assert abs(sum(float(law.prob(text)) for text in ("00", "01", "10", "11")) - 1) < 1e-12
