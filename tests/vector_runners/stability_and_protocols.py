"""Runners of ``stability_and_protocols.json``: correlated sampling, Littlestone tools and statistical-query learners,
bit for bit.

Numbers are printed as decimal texts where they may exceed 53 bits; ``null`` scores are outside the support.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from privpac.device.correlated_sampling import (
    block_component,
    clock,
    clock_array,
    ilog2,
    ilog2_array,
    le64,
    leaf_component,
    race_dyadic,
    race_indexed,
    race_named,
    race_scores,
    word_named,
    words_indexed,
)
from privpac.device.decision_lists import SQDecisionLists
from privpac.device.items import Records, distinct
from privpac.device.littlestone import Rows, Search, race_lists
from privpac.device.statistical_queries import RoundedAnswers, SQConjunctions, round_shared
from privpac.papers.correlated_sampling import (
    SQPerceptron,
    race_blocks,
    race_disagreement,
    stream_disagreement,
    total_variation,
    tournament_blocks,
    tournament_lists,
)
from privpac.rng import derive, word_indexed

__all__ = ["RUNNERS"]

Case = Any


def seed_of(file: Any) -> bytes:
    return bytes.fromhex(file["seed"])


def vector_key(file: Any) -> bytes:
    key = derive(seed_of(file), "vec", 7)
    assert key.hex() == file["derive_vec_7"]
    return key


# Words and clocks


def run_ilog2(case: Case) -> None:
    x, printed = int(case[0]), int(case[1])
    assert ilog2(x) == printed
    if x < 1 << 64:
        assert ilog2_array(np.array([x], dtype=np.uint64)).tolist() == [printed]


def run_clock(case: Case) -> None:
    word, printed = int(case[0]), int(case[1])
    assert clock(word) == printed
    assert clock_array(np.array([word], dtype=np.uint64)).tolist() == [printed]


def run_word_indexed(case: Case, file: Any) -> None:
    index, printed = int(case[0]), int(case[1])
    key = vector_key(file)
    assert word_indexed(key, index) == printed
    if index < 1 << 20:
        assert int(words_indexed(key, index + 1)[index]) == printed


def run_word_named(case: Case, file: Any) -> None:
    assert word_named(vector_key(file), bytes.fromhex(case[0])) == int(case[1])


# Races


def run_race_indexed(case: Case, file: Any) -> None:
    key = derive(seed_of(file), "race", case["index"])
    assert race_indexed(key, case["scores"], case["m"], int(case["Gamma"])) == case["winner"]


def run_race_named(case: Case, file: Any) -> None:
    key = derive(seed_of(file), "named", case["index"])
    items = {bytes.fromhex(name): score for name, score in case["items"].items()}
    winner = race_named(key, items, case["m"], int(case["Gamma"]))
    assert (None if winner is None else winner.hex()) == case["winner"]


def run_race_blocks(case: Case, file: Any) -> None:
    key = derive(seed_of(file), "blocks", case["index"])
    blocks = [(int(low), int(high), score) for low, high, score in case["blocks"]]
    m, Gamma, number = case["m"], int(case["Gamma"]), case["component"]
    expected = None if case["leaf"] is None else (int(case["cost"]), int(case["clock"]), number, int(case["leaf"]))
    assert race_blocks(key, blocks, case["b"], m, Gamma, number) == expected
    # The same domain as one list of blocks from 0 to the last leaf, gaps outside the support, by best-first search.
    starts: list[int] = []
    scores: list[int | None] = []
    end, size = 0, 1 << case["b"]
    for low, high, score in [*sorted(blocks), (size, size, None)]:
        if low > end:
            starts, scores = [*starts, end], [*scores, None]
        if low < size:
            starts, scores = [*starts, low], [*scores, score]
        end = high + 1
    part = block_component(np.array(starts, dtype=np.uint64), scores, size, m, number)
    assert race_dyadic(key, [part], m, Gamma) == expected


def run_race_dyadic_scores(case: Case, file: Any) -> None:
    key = derive(seed_of(file), "tree", case["index"])
    found = race_scores(key, case["scores"], case["m"], int(case["Gamma"]))
    assert found == (None if case["winner"] is None else (int(case["cost"]), int(case["clock"]), 0, case["winner"]))
    part = leaf_component(case["scores"], case["m"])
    blocks = [(i, i, score) for i, score in enumerate(case["scores"])]
    assert race_blocks(key, blocks, part.bits, case["m"], int(case["Gamma"])) == found


def run_round_sq(case: Case, file: Any) -> None:
    word = word_named(derive(seed_of(file), "sq"), le64(case["query"]))
    assert round_shared(case["s"], case["M"], case["I"], word) == case["l"]


def run_disagreement(case: Case) -> None:
    p, q = ([Fraction(x) for x in case[name]] for name in ("p", "q"))
    assert total_variation(p, q) == Fraction(case["tv"])
    assert race_disagreement(p, q) == Fraction(case["race"])
    assert stream_disagreement(p, q) == Fraction(case["stream"])


def run_alg1(case: Case, file: Any) -> None:
    key = derive(seed_of(file), "alg1", case["index"])
    lists = [[bytes.fromhex(item) for item in items] for items in case["lists"]]
    winner = race_lists(key, lists, Fraction(case["tau"]), int(case["Gamma"]))
    assert (None if winner is None else winner.hex()) == case["winner"]


# Littlestone tools


def run_littlestone(case: Case) -> None:
    rows = Rows(case["rows"])
    search = Search(rows)
    assert search.dimension(rows.everything) == case["ldim"]
    version = rows.restrict(rows.everything, case["sample"])
    assert search.dimension(version) == case["ldim_version"]
    if version:
        word = search.soa(version)
        assert [word >> x & 1 for x in range(rows.points)] == case["soa"]


def _class_rows(name: str, N: int) -> Rows:
    if name == "thresholds":
        return Rows([[int(x >= u) for x in range(N)] for u in range(N + 1)])
    assert name == "points"
    return Rows([[int(x == v) for x in range(N)] for v in range(N)])


def run_tournament(case: Case) -> None:
    rows = Rows(case["rows"]) if "rows" in case else _class_rows(case["class"], case["N"])
    assert len(case["blocks"]) == tournament_blocks(case["d"])
    lists = tournament_lists(rows, case["d"], case["blocks"])
    assert len(lists) == len(case["lists"])
    for level, functions in case["lists"].items():
        words = {sum(bit << x for x, bit in enumerate(function)) for function in functions}
        assert lists[int(level)] == {rows.packed(word) for word in words}


# Statistical queries


def sample_of(case: Case) -> tuple[Records, Any]:
    """The distinct records of a case's sample and their multiplicities."""
    x = np.array([row for row, _ in case["sample"]], dtype=np.int64)
    y = np.array([label for _, label in case["sample"]], dtype=np.int64)
    return distinct(Records(x, y))


def run_sq_conjunction(case: Case, file: Any) -> None:
    records, weights = sample_of(case)
    learner = SQConjunctions(case["d"], case["keep_at_most"], grid=case["I"])
    answers = RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)
    assert int.from_bytes(learner.learn(records, answers), "little") == case["mask"]
    assert answers.given == case["answers"]
    x, y = [row for row, _ in case["sample"]], [label for _, label in case["sample"]]
    item = learner.item(x, y, seed_of(file))
    assert item is not None
    assert int.from_bytes(item, "little") == case["mask"]


def run_sq_decision_list(case: Case, file: Any) -> None:
    records, weights = sample_of(case)
    learner = SQDecisionLists(case["d"], theta=case["theta"], stop=case["stop"], grid=case["I"])
    answers = RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)
    assert [list(rule) for rule in learner.rules(records, answers)] == case["rules"]
    assert answers.given == case["answers"]
    rule = learner.decode(learner.learn(records, RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)))
    assert rule is not None
    assert rule.default == case["default"]
    assert list(rule.labels) == [label for _, label in case["rules"]]


def run_sq_perceptron(case: Case, file: Any) -> None:
    records, weights = sample_of(case)
    learner = SQPerceptron(case["d"], case["T"], case["stop_index"], case["fp"], grid=case["I"])
    answers = RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)
    assert learner.weights(records, answers) == case["w"]
    assert answers.given == case["answers"]


RUNNERS = {
    "ilog2": run_ilog2,
    "clock": run_clock,
    "word_indexed": run_word_indexed,
    "word_named": run_word_named,
    "race_indexed": run_race_indexed,
    "race_named": run_race_named,
    "race_blocks": run_race_blocks,
    "race_dyadic_scores": run_race_dyadic_scores,
    "round_sq": run_round_sq,
    "disagreement": run_disagreement,
    "alg1": run_alg1,
    "littlestone": run_littlestone,
    "tournament": run_tournament,
    "sq_conjunction": run_sq_conjunction,
    "sq_decision_list": run_sq_decision_list,
    "sq_perceptron": run_sq_perceptron,
}
