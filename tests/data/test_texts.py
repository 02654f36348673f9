"""Open vocabularies: any text, dictionary-encoded, kept inside the data set."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Domain, Floats, Texts, UserData, parse_domain, parse_feature
from privpac.errors import ParameterError, SchemaError
from privpac.rules.points import Points

words = st.text(st.characters(codec="utf-8"), max_size=6)


def shown(data: UserData, name: str = "x") -> list[str]:
    vocabulary = data.vocabulary(name)
    assert vocabulary is not None
    return [vocabulary[int(code)] for code in data.codes[name]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(words, st.integers(0, 1)), max_size=4), max_size=5))
def test_codes_index_the_texts_of_the_records(users: list[list[tuple[str, int]]]) -> None:
    data = UserData.from_users(users, features={"x": Texts()})
    assert shown(data) == [x for user in users for x, _ in user]
    vocabulary = data.vocabulary("x")
    assert vocabulary is not None
    assert vocabulary.n_unique() == len(vocabulary)


def test_binding_later_gives_the_same_data() -> None:
    frame = pl.DataFrame({"u": [2, 1, 2], "x": ["b", "a", "c"], "y": [0, 1, 1]})
    now = UserData.from_frame(frame, user="u", features={"x": Texts()}, label="y")
    later = UserData.from_frame(frame, user="u", features=["x"], label="y").bind({"x": Texts()})
    assert shown(now) == shown(later) == ["a", "b", "c"]
    assert later.bind({"x": Texts()}).codes["x"].tolist() == later.codes["x"].tolist()
    with pytest.raises(ParameterError, match="declared twice"):
        later.bind({"x": Categories(["a", "b", "c"])})


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ([1, 20], ["1", "20"]),
        ([1.0, 2.5], ["1", "2.5"]),
        ([True, False], ["true", "false"]),
        ([date(2020, 1, 2), date(2021, 1, 2)], ["2020-01-02", "2021-01-02"]),
        ([2**200, 5], [str(2**200), "5"]),
        (["", " "], ["", " "]),
    ],
    ids=["integers", "floats", "booleans", "dates", "long integers", "blank"],
)
def test_values_are_compared_as_texts(column: list[Any], texts: list[str]) -> None:
    assert shown(UserData.from_arrays({"x": column}["x"], [0, 1], features={"x": Texts()})) == texts


def test_missing_values_are_refused_or_dropped_without_naming_any() -> None:
    frame = pl.DataFrame({"u": [1, 1, 2], "x": ["secret", None, None], "y": [1, 0, 1]})
    with pytest.raises(SchemaError, match="2 missing") as caught:
        UserData.from_frame(frame, user="u", features={"x": Texts()}, label="y")
    assert "secret" not in str(caught.value)
    data = UserData.from_frame(frame, user="u", features={"x": Texts()}, label="y", on_invalid="drop")
    assert (data.n_users, shown(data)) == (2, ["secret"])
    with pytest.raises(SchemaError, match="List"):
        UserData.from_frame(pl.DataFrame({"x": [[1], [2]]}), user=None, features={"x": Texts()})


def test_the_vocabulary_is_not_shown() -> None:
    data = UserData.from_users([[("secret", 1)]], features={"x": Texts()})
    assert repr(data) == "UserData(unit='user', features={'x': Texts()}, label=True)"


def test_subsets_keep_their_texts() -> None:
    data = UserData.from_users([[("a", 1), ("b", 0)], [("c", 1)], [("a", 0)]], features={"x": Texts()})
    assert shown(data.take([2, 0])) == ["a", "a", "b"]
    assert shown(data.max_records(1)) == ["a", "c", "a"]


def test_which_records_are_kept_depends_on_the_user_alone() -> None:
    """The codes depend on all users; the hash that picks records must not, or one user would move another's records."""
    rng = np.random.default_rng(1)
    mine = [("me", f"w{rng.integers(0, 50)}", int(rng.integers(0, 2))) for _ in range(40)]

    def kept(others: list[tuple[str, str, int]]) -> list[str]:
        rows = others + mine
        frame = pl.DataFrame({"u": [r[0] for r in rows], "x": [r[1] for r in rows], "y": [r[2] for r in rows]})
        data = UserData.from_frame(frame, user="u", features={"x": Texts()}, label="y").max_records(7)
        assert data._ids is not None
        return shown(data.take(np.array([i == "me" for i in data._ids])))

    alone = kept([])
    for _ in range(10):
        assert kept([(f"u{i}", f"w{rng.integers(0, 50)}", 1) for i in range(20)]) == alone
    shuffled = [mine[i] for i in rng.permutation(len(mine))]
    mine = shuffled
    assert sorted(kept([])) == sorted(alone)


def test_an_open_vocabulary_has_no_size_order_or_values() -> None:
    for call in (
        lambda: Texts().size,
        lambda: Texts().value(0),
        lambda: Texts().text(0),
        Texts().value_range,
        lambda: Texts().encode(["a"]),
    ):
        with pytest.raises(ParameterError, match="open vocabulary"):
            call()
    with pytest.raises(ParameterError, match="declare Categories"):
        Points(Texts()).bind(UserData.from_users([[("a", 1)]]))[0].size  # noqa: B018


def test_an_open_vocabulary_is_saved_and_declared_like_other_domains() -> None:
    assert Domain.from_dict(Texts().to_dict()) == Texts()
    assert parse_domain("text") == Texts()
    assert parse_feature("url=text") == ("url", Texts())
    assert parse_feature("text") == ("text", Floats())


def test_long_and_strange_texts() -> None:
    strange = ["x" * 100_000, "\0", "\ud7ff\U0010ffff", "e\u0301", "\u00e9", "\u202eabc", "a\nb"]
    data = UserData.from_arrays(strange, [1] * len(strange), features={"x": Texts()})
    assert shown(data) == strange
