"""Representations by name: sizes and certificates shown, the right refusals, and a certificate that holds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from commands import Command

import privpac as pp
from privpac.data import Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.methods import SurrogateSelection
from privpac.papers.pure_agnostic.surrogate_selection import REPRESENTATIONS, named_representation, said_of
from privpac.rules import Points, Thresholds

HUGE = Integers(0, 2**60)
PEOPLE = UserData.from_users([[(7, 1)], [(7, 1)], [(12, 0)]] * 60, features={"x": HUGE})


def test_values_of_a_huge_column_are_hashed_and_it_says_so() -> None:
    released = pp.learn(PEOPLE, Points(), epsilon=4, method="surrogate")
    assert released.parameters["representation"].startswith("hashed: 165 rules; within 0.05")
    assert released.value.predict([7, 12]).tolist() == [1, 0]
    fine = pp.learn(
        PEOPLE, Points(), epsilon=4, method="surrogate", representation="hashed", representation_alpha="1/100"
    )  # fmt: skip
    assert fine.parameters["size"] > 165


def test_nothing_large_is_selected_from_silently() -> None:
    with pytest.raises(TooLargeError, match="representation='class'"):
        pp.learn(PEOPLE, Thresholds(), epsilon=1, method="surrogate")
    asked = pp.learn(PEOPLE, Thresholds(), epsilon=1, method="surrogate", representation="class")
    assert asked.parameters["representation"] == "class: every rule stands for itself"


@pytest.mark.parametrize(
    ("name", "concept", "error", "words"),
    [
        ("hashed", Thresholds(HUGE), ParameterError, "single values"),
        ("boosted", Points(HUGE), TooLargeError, "rules"),
        ("learned", Points(HUGE), TooLargeError, "rules"),
        ("other", Points(HUGE), ParameterError, "must be one of"),
    ],
)
def test_what_cannot_be_is_refused(name: str, concept: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        SurrogateSelection(concept, Fraction(1), representation=name)


def test_a_coarse_boosted_one_and_a_small_learned_one_run() -> None:
    small = UserData.from_users([[(1, 1)], [(0, 0)]] * 60, features={"x": Integers(0, 1)})
    for name in ("learned", "boosted"):
        told: dict[str, Any] = {"representation": name, "representation_alpha": "1/3", "representation_beta": "1/4"}
        # One set in four may miss the right rule: of ten, not all do.
        drawn = [pp.learn(small, Points(), epsilon=8, method="surrogate", **told) for _ in range(10)]
        assert all(released.parameters["representation"].startswith(name) for released in drawn)
        assert [0, 1] in [released.value.predict([0, 1]).tolist() for released in drawn]


def test_the_certificate_of_draws_holds_exactly() -> None:
    """Every rule of the class is among the draws but for beta: a uniform law missed K times."""
    alpha, beta, concept = Fraction(1, 3), Fraction(1, 10), Points(Integers(0, 4))
    found: Any = named_representation("learned", concept, alpha, beta)
    assert (1 - Fraction(1, concept.size)) ** found.draws <= beta
    assert "learned" in said_of(found)


def test_every_name_is_known_or_refused_in_words() -> None:
    for name in REPRESENTATIONS:
        found = named_representation(name, Points(Integers(0, 9)), Fraction(1, 4), Fraction(1, 4))
        assert said_of(found)


def test_the_command_names_it(command: Command, tmp_path: Any) -> None:
    import polars as pl

    path = tmp_path / "t.csv"
    pl.DataFrame({"id": range(90), "x": [7, 7, 12] * 30, "y": [1, 1, 0] * 30}).write_csv(path)
    words = ["learn", path, "-u", "id", "-y", "y", "-f", f"x=0:{2**60}", "-e", "4", "--method", "surrogate"]
    run = command(*words, "--rule", "point", "--set", "representation=hashed")
    assert run.code == 0, run.err
    run = command(*words, "--rule", "point", "--set", "representation=hashed", "--json")
    assert "hashed: 165 rules" in run.out
    refused = command(*words, "--rule", "threshold")
    assert refused.code == 2
    assert "representation='class'" in refused.err
