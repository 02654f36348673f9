"""Every certified row of every plan, attacked: laws of two and three values, noise at the corner of the assumption.

    python benchmarks/refute.py [--quick] [--records 1 5 16 64] [--markdown] [--others] [--steps 6]

``--others``: plans for points, stumps, trees, distributions, medians and agreement, and the rarer methods for rules,
instead of those for cut-offs; rows that are not tried are named with the reason.

Each line is one certificate, with the worst failure probability that a climb from eight hard laws found with the
certified number of users and with 1.02, 1.1, 1.5 and 4 times as many (``privpac.auditing.refute``).  The last lines are
the numbers that plans gave for the regret learner before its clip's steps were looked at: they must be refuted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from attrs import evolve
from rich.console import Console
from rich.table import Table

from privpac.auditing.claims import plan_claims
from privpac.auditing.refutation import MULTIPLES, Claim, Refutation, refute
from privpac.auditing.rule_laws import rule_claims
from privpac.data import Integers
from privpac.device.tasks import Task
from privpac.distributions.family_plan import family_target
from privpac.methods.hierarchy.tree_plan import tree_target
from privpac.methods.prediction.service_plan import service_target
from privpac.planning.rules import rule_target
from privpac.protocols.agreement_plan import agreement_target
from privpac.rules import PathTree, Points, PrefixTree, StarTree, Stumps, Thresholds

PLANTED = (((1 << 20) - 1, "1/2", 5, "add-remove", 451), (1440, "1", 4, "replace", 250))


def question(top: int, epsilon: str, alpha: str, neighbours: str, noise: str) -> Any:
    return rule_target(Thresholds(Integers(0, top)), epsilon, alpha, "0.05", neighbours, noise)


def claims(quick: bool, records: list[int]) -> Iterator[tuple[str, Claim]]:
    people = (
        ((1440, "1", "add-remove"),)
        if quick
        else ((1440, "1/2", "add-remove"), (1440, "2", "replace"), ((1 << 20) - 1, "1", "add-remove"))
    )
    grid = product(people, ("0.05",), ("0.1",) if quick else ("0.1", "0.3"), (5,) if quick else records)
    for (top, epsilon, neighbours), alpha, noise, m in grid:
        for claim in rule_claims(question(top, epsilon, alpha, neighbours, noise), m):
            if claim.name.endswith("noise") or noise == "0.1":  # the others do not read it
                yield f"{top + 1} cuts, ε {epsilon}, α {alpha}, m {m}, {neighbours}, noise {noise}", claim


def planted() -> Iterator[tuple[str, Claim]]:
    for top, epsilon, m, neighbours, users in PLANTED:
        target = question(top, epsilon, "0.05", neighbours, "0.1")
        (claim,) = rule_claims(target, m, rows=("regret selection, bounded noise",))
        yield (
            f"{top + 1} cuts, ε {epsilon}, α 0.05, m {m}, {neighbours}, noise 0.1",
            evolve(claim, name=f"{claim.name} (planted)", n_users=users),
        )


def others(quick: bool, left: list[tuple[str, str, str]]) -> Iterator[tuple[str, Claim]]:
    """Beyond cut-offs; what is not tried goes to ``left``."""
    for where, target, m in other_questions(quick):
        made, reasons = plan_claims(target, m)
        left += [(row, where, reason) for row, reason in reasons.items()]
        for claim in made:
            yield f"{where}, m {m}", claim


def other_questions(quick: bool) -> Iterator[tuple[str, Any, int]]:
    for relation in ("add-remove",) if quick else ("add-remove", "replace"):
        common: dict[str, Any] = {"epsilon": 1, "neighbours": relation}
        rule = ("1", "0.1", "0.05", relation, None)
        yield f"100 points, ε 1, α 0.1, {relation}", rule_target(Points(Integers(0, 99)), *rule), 4
        yield (
            f"404 stumps, ε 1, α 0.1, {relation}",
            rule_target(Stumps({"a": Integers(0, 99), "b": Integers(0, 99)}), *rule),
            4,
        )
        few = Thresholds(Integers(0, 63))
        every = rule_target(few, 4, "0.2", "0.1", relation, None, every_method=True)
        yield f"65 cuts, ε 4, α 0.2, β 0.1, {relation}", every, 16
        for delta in (0, "1e-6"):
            told: dict[str, Any] = {"epsilon": 8, "alpha": "0.3", "beta": "0.1", "delta": delta, "neighbours": relation}
            yield f"5 answers, 65 cuts, ε 8, α 0.3, δ {delta}, {relation}", service_target(few, 5, **told), 1
        shapes = {"path of 256": PathTree(Integers(0, 255), "x", "above"), "star of 64": StarTree(Integers(0, 63), "x")}
        for name, made in (shapes | {"open vocabulary of height 8, δ 1e-6": PrefixTree(8)}).items():
            delta = "1e-6" if "open" in name else 0
            yield (
                f"{name}, α 0.1, {relation}",
                tree_target(made, alpha="0.1", beta="0.05", delta=delta, simple=True, **common),
                4,
            )
        yield f"3 values, ε 1, α 0.1, {relation}", family_target("discrete", k=3, **common), 4
        yield f"10 bins, ε 1, α 0.1, {relation}", family_target("histogram", k=10, **common), 4
        yield f"2 columns of 2 values, {relation}", family_target("product", k=2, d=2, **common), 4
        yield f"3 candidates, ε 1, α 0.1, {relation}", family_target("selection", k=3, **common), 4
        yield f"normal, radius 10, ε 1, α 0.1, {relation}", family_target("gaussian", radius=10, **common), 4
        yield f"median of 16 bits, {relation}", family_target("median", bits=16, **common), 1
        for delta in (0, "1e-6"):
            yield (
                f"256 items, δ {delta}, {relation}",
                agreement_target(Task("threshold", (255,)), delta=delta, **common),
                1000,
            )
    for model in ("local", "shuffle"):
        asked: dict[str, Any] = {"model": model, "epsilon": 1, "delta": "1e-6"}
        yield f"256 items, ε 1, {model}", agreement_target(Task("threshold", (255,)), **asked), 1000


def cells(outcome: Refutation) -> list[str]:
    """Failures; with a standard error where something was drawn."""
    drawn = [f" ± {attack.failure.error:.1g}" if attack.failure.error else "" for attack in outcome.attacks]
    return [f"{attack.failure.probability:.2g}{error}" for attack, error in zip(outcome.attacks, drawn)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few questions")
    parser.add_argument("--markdown", action="store_true", help="a table for the documentation")
    parser.add_argument("--records", type=int, nargs="+", default=[1, 5, 16, 64], help="records per user")
    parser.add_argument("--others", action="store_true", help="all plans but those for cut-offs")
    parser.add_argument(
        "--steps", type=int, default=6, help="laws tried beyond the first ones, for each number of users"
    )
    given = parser.parse_args()
    left: list[tuple[str, str, str]] = []
    asked = others(given.quick, left) if given.others else claims(given.quick, given.records)
    start, worst, lines = time.perf_counter(), dict[str, tuple[float, str, Refutation]](), 0
    wrong = False
    for where, claim in asked:
        outcome = refute(claim, steps=given.steps)
        print(f"{time.perf_counter() - start:.0f} s: {outcome}", file=sys.stderr, flush=True)
        lines += 1
        wrong = wrong or outcome.refuted
        share = outcome.worst.failure.probability
        if claim.name not in worst or share > worst[claim.name][0]:
            worst[claim.name] = (share, where, outcome)
    found = [(where, outcome) for _, where, outcome in worst.values()]
    for where, claim in () if given.others else planted():
        outcome = refute(claim, steps=0)
        wrong = wrong or not outcome.refuted
        found.append((where, outcome))
    head = ["row", "worst question", "certified", *(f"× {multiple}" for multiple in MULTIPLES), "refuted"]
    rows = [[o.claim.name, where, str(o.claim.n_users), *cells(o), "yes" if o.refuted else "no"] for where, o in found]
    if given.markdown:
        print("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|")
        for row in rows:
            print("| " + " | ".join(row) + " |")
    else:
        table = Table(*head)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
    for name, where, reason in left:
        print(f"not tried: {name} ({where}): {reason}")
    print(f"\n{lines} certificates, {time.perf_counter() - start:.0f} s")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
