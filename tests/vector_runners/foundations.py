"""Runners of ``foundations.json``: laws here, the algebra of guarantees and the mechanisms in modules beside this
one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.law import Law
from privpac.law.blocks import BlockLaw
from privpac.testing import SeededRng, WordRng, insecure_randomness

from . import agrees

__all__ = ["RUNNERS"]


def _block_law(case: dict[str, Any]) -> BlockLaw:
    law = Law.from_blocks(counts=[int(c) for c in case["mult"]], score=case["scores"], eta=case["eta"])
    assert isinstance(law, BlockLaw)
    return law


def run_exponential(case: dict[str, Any]) -> None:
    law = _block_law(case)
    assert law.level_table() == [(score, int(total)) for score, total in case["levels"]]
    for i, printed in enumerate(case["block_prob"]):
        assert agrees(law.block_prob(i), printed)


def run_block_hockey_stick(case: dict[str, Any]) -> None:
    def read(blocks: list[list[Any]]) -> Law:
        lo, hi, score = zip(*((int(a), int(b), s) for a, b, s in blocks))
        return Law.from_blocks(lo, hi, score, case["eta"], domain=(lo[0], hi[-1]))

    p, q = read(case["P"]), read(case["Q"])
    for row in case["rows"]:
        for first, second, printed in ((p, q, row["PQ"]), (q, p, row["QP"])):
            width = Fraction(printed) / 10**40 or Fraction(1, 10**61)
            ball = first.hockey_stick(second, row["eps"], precision=width)
            assert agrees(ball, printed)
            assert 0 <= ball.lo <= ball.hi <= 1
        assert p.satisfies(q, row["eps"]) is row["pure_dp"]


def run_sampling_words(case: dict[str, Any]) -> None:
    law = _block_law(case)
    words = [int(word, 16) for word in case["words"]]
    with insecure_randomness():
        if "note" not in case:
            rng = WordRng(words[: case["words_used"]])
            assert law.sample_block(rng) == (case["block"], int(case["offset"]))
            assert law.score[case["block"]] == case["level_score"]
            return
        # Only the level is prescribed; whatever follows the given words must not change it.
        for seed in range(8):
            more = SeededRng(seed)
            block, _ = law.sample_block(WordRng(words + [more.word() for _ in range(16)]))
            assert law.score[block] == case["level_score"]


def _collected() -> dict[str, Callable[..., None]]:
    out: dict[str, Callable[..., None]] = {
        "exponential": run_exponential,
        "block_hockey_stick": run_block_hockey_stick,
        "sampling_words": run_sampling_words,
    }
    for name in ("foundations_algebra", "foundations_mechanisms"):
        if Path(__file__).with_name(f"{name}.py").exists():
            module = importlib.import_module(f"{__package__}.{name}")
            out |= {
                attribute[4:]: getattr(module, attribute) for attribute in dir(module) if attribute.startswith("run_")
            }
    return out


RUNNERS = _collected()
