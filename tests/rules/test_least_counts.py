"""Least counts for many tolerances at once, against one profile per tolerance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.methods.base import Bound
from privpac.papers.pure_agnostic.minimum_error import MinimumError, OrderedUsers, ordered
from privpac.rules import Thresholds
from privpac.rules.kernels.cuts import least_counts
from privpac.rules.profile import Exceeds

TOP = (1 << 64) - 1
places = st.sampled_from([0, 1, 2, 3, 5, TOP - 1, TOP])
users = st.lists(st.lists(st.tuples(places, st.integers(0, 1)), max_size=6), max_size=6)
tables = st.lists(st.lists(st.integers(0, 7), min_size=7, max_size=7), min_size=1, max_size=5)


def in_order(people: list[list[tuple[int, int]]], direction: str) -> Bound:
    data = UserData.from_users(people, features={"x": Integers(0, TOP)})
    return ordered(Bound(Thresholds(data.features["x"], "x", direction), data, "1"))


@given(users, tables, st.sampled_from(["above", "below", "both"]))
def test_the_same_as_one_profile_per_table(
    people: list[list[tuple[int, int]]], listed: list[list[int]], direction: str
) -> None:
    bound = in_order(people, direction)
    assert isinstance(bound.users, OrderedUsers)
    assert isinstance(bound.concept, Thresholds)
    found = least_counts(bound.users.pieces, "x", bound.concept.directions, [table.__getitem__ for table in listed])
    assert found == [bound.concept.profile(bound.users, Exceeds(table.__getitem__)).least for table in listed]


def test_too_many_sizes_are_left_to_single_profiles() -> None:
    sizes = np.arange(1, 6000)
    user = np.repeat(np.arange(len(sizes)), sizes)
    data = UserData.from_arrays(
        np.zeros(len(user), dtype=np.uint64), np.zeros(len(user), dtype=np.uint8), user, features={"x": Integers(0, 9)}
    )
    assert least_counts([data], "x", ["above"], [lambda m: 0]) is None


@given(users, st.sampled_from(["above", "both"]))
def test_scores_of_the_estimate_do_not_depend_on_the_way(people: list[list[tuple[int, int]]], direction: str) -> None:
    data = UserData.from_users(people, features={"x": Integers(0, TOP)})
    learner = MinimumError(Thresholds(direction=direction), 1, radius="1/8")
    together = learner.scores(data)
    apart = [(learner._output(j), s) for j, s in enumerate(learner._scores(_Unprepared.of(learner.bind(data))))]
    assert together == apart


class _Unprepared:
    """The data of an estimate without the shared sweep."""

    @staticmethod
    def of(bound: Bound) -> object:
        from privpac.papers.pure_agnostic import minimum_error

        data = minimum_error._Data.of(bound)
        object.__setattr__(data, "bound", bound)
        return data
