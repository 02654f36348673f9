"""Baselines: the same promise per user as the learner they stand beside, decided exactly; and what they really see."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from privpac.auditing import audit_exact
from privpac.auditing.exact import datasets
from privpac.data import Integers, UserData
from privpac.errors import IncompatibleGuarantees, ParameterError, TooLargeError
from privpac.law import Law
from privpac.methods import baselines
from privpac.methods.base import Selection, profile_of
from privpac.methods.baselines import GroupPrivacy, OneRecordPerUser, RecordsAsUsers, group_privacy, one_record_per_user
from privpac.methods.cap import CapSelection
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.rules import Thresholds
from privpac.testing import SeededRng, insecure_randomness

LINE = {"x": Integers(0, 1)}


def build(users: Any) -> UserData:
    return UserData.from_users([list(user) for user in users], features=LINE)


def learners(neighbours: str) -> list[Selection]:
    common: dict[str, Any] = {"concept": Thresholds(), "epsilon": 1, "neighbours": neighbours}
    return [
        RegretSelection(**common),
        RegretSelection(**common, statistic="mean", levels=2),
        RealizableSelection(**common),
        PairwiseSelection(**common, tau=2),
    ]


def same(a: Law, b: Law) -> bool:
    return a.satisfies(b, 0)


# Privacy


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_both_keep_the_promise_per_user(neighbours: str) -> None:
    """Users of up to three records; two are read by the group baseline, one by the other."""
    kinds = [(), ((0, 0),), ((0, 1), (0, 1)), ((1, 1), (0, 0), (0, 1)), ((1, 0), (1, 0), (1, 0))]
    small, crowd = datasets(kinds, 2), [(kinds[4],) * 12 + (kind,) for kind in kinds] + [(kinds[4],) * 12]
    for learner in learners(neighbours):
        for baseline in (one_record_per_user(learner), group_privacy(learner, 2)):
            assert str(baseline.guarantee) == f"(1, 0)-DP per user, {neighbours}"
            audit = audit_exact(baseline, {*small, *crowd}, build=build)
            assert audit.holds, audit.explain()
            assert audit.epsilon_found > (0.4 if isinstance(learner, PairwiseSelection) else 0.9)


def test_without_a_smaller_epsilon_the_group_is_caught() -> None:
    item = RealizableSelection(Thresholds(), 1, unit="item")
    crowd = (((1, 0), (1, 0)),) * 12
    audit = audit_exact(
        GroupPrivacy(item, 2), [crowd, (*crowd, ((0, 1), (0, 1)))], neighbours="add-remove", epsilon=1, build=build
    )
    assert not audit.holds
    assert audit.epsilon_found == pytest.approx(2, abs=0.01)
    assert GroupPrivacy(item, 2).guarantee.epsilon == 2


# What they see


def test_one_record_is_the_first_one_of_a_list_and_the_same_one_for_any_order_of_a_table() -> None:
    learner = RealizableSelection(Thresholds(), 1)
    table = build([[(0, 0), (1, 0)], [(1, 1), (0, 1)], []])
    assert same(one_record_per_user(learner).law(table), learner.law(build([[(0, 0)], [(1, 1)], []])))
    rows = pd.DataFrame({"who": [1, 1, 2, 2, 2], "x": [0, 1, 1, 0, 1], "y": [0, 1, 1, 0, 0]})
    laws = [
        one_record_per_user(learner).law(UserData.from_frame(rows.iloc[order], user="who", features=LINE, label="y"))
        for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3])
    ]
    assert same(laws[0], laws[1])
    assert same(laws[0], laws[2])


def test_group_privacy_reads_records_as_users() -> None:
    table = build([[(0, 0), (1, 0), (1, 1)], [(1, 1)], []])
    learner = RealizableSelection(Thresholds(), 1)
    alone = build([[(0, 0)], [(1, 0)], [(1, 1)]])
    assert same(group_privacy(learner, 2).law(table), learner.with_(epsilon="1/2").law(alone))


def test_slots_are_kept_under_replace() -> None:
    table = build([[(0, 0), (1, 0), (1, 1)], [(1, 1)], []])
    flat = group_privacy(RealizableSelection(Thresholds(), 1, neighbours="replace"), 3)._flat(table)
    assert flat.fold(_Sizes()) == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert RecordsAsUsers(table).fold(_Sizes()) == [1, 1, 1, 1]
    assert flat.max_records(1) is flat


class _Sizes:
    def zero(self) -> list[int]:
        return []

    def chunk(self, users: UserData) -> list[int]:
        return [int(m) for m in users.sizes]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


def test_profiles_of_records_add_up_over_parts() -> None:
    learner = RealizableSelection(Thresholds(Integers(0, 1), "x"), 1, unit="item")
    some, others = build([[(0, 0), (1, 0)]]), build([[(1, 1)], [], [(0, 1)]])
    whole = RecordsAsUsers(build([[(0, 0), (1, 0)], [(1, 1)], [], [(0, 1)]]))
    parts = [profile_of(learner.bind(RecordsAsUsers(part)), learner.statistic) for part in (some, others)]
    assert (parts[0] + parts[1]).blocks() == profile_of(learner.bind(whole), learner.statistic).blocks()


def test_no_budget_goes_to_a_count_that_one_record_does_not_need() -> None:
    learner = RegretSelection(Thresholds(), 1)
    assert learner.needs_count
    for baseline in (one_record_per_user(learner), group_privacy(learner, 4)):
        assert isinstance(baseline.inner, RegretSelection)
        assert not baseline.inner.needs_count


def test_the_group_twin_of_pairwise_selection_has_the_rate_of_single_records() -> None:
    twin = group_privacy(PairwiseSelection(Thresholds(), 1, tau=8), 8).inner
    assert isinstance(twin, PairwiseSelection)
    assert twin.range_sensitivity(8) == 2


# Releases and bad input


def test_releases_name_the_baseline_and_carry_its_guarantee() -> None:
    table = build([[(0, 0), (1, 1)]] * 20)
    released = group_privacy(RegretSelection(Thresholds(), 1), 2).learn(table)
    assert str(released.guarantee) == "(1, 0)-DP per user, add-remove"
    assert released.parameters["max_records"] == 2
    assert released.learner == "clipped-regret selection, group privacy"
    with insecure_randomness():
        one = one_record_per_user(RegretSelection(Thresholds(), 1)).learn(table, rng=SeededRng(2))
    assert one.guarantee is None
    assert one.learner.endswith("one record per user")


def test_learners_that_do_not_fit_are_refused() -> None:
    user, item = RealizableSelection(Thresholds(), 1), RealizableSelection(Thresholds(), 1, unit="item")
    with pytest.raises(TypeError, match="wraps a learner"):
        one_record_per_user("regret")  # type: ignore[arg-type]
    with pytest.raises(IncompatibleGuarantees):
        one_record_per_user(item)
    with pytest.raises(IncompatibleGuarantees):
        OneRecordPerUser(item)
    with pytest.raises(IncompatibleGuarantees):
        group_privacy(item, 2)
    with pytest.raises(IncompatibleGuarantees):
        GroupPrivacy(user, 2)
    with pytest.raises(ParameterError, match="max_records"):
        group_privacy(user, 0)
    with pytest.raises(TypeError, match="max_records"):
        group_privacy(user, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no parameter 'max_records'"):
        group_privacy(CapSelection(1), 2)


def test_item_level_data_and_too_many_slots_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    items = UserData.from_arrays([[1]], [1], None, features=LINE)
    with pytest.raises(IncompatibleGuarantees, match="user column"):
        group_privacy(RealizableSelection(Thresholds(), 1), 2).bind(items)
    monkeypatch.setattr(baselines, "_MAX_SLOTS", 5)
    with pytest.raises(TooLargeError, match="smaller cap"):
        group_privacy(RealizableSelection(Thresholds(), 1, neighbours="replace"), 2).bind(build([[]] * 3))
    group_privacy(RealizableSelection(Thresholds(), 1), 2).bind(build([[]] * 3))
