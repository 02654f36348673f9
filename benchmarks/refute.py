"""Every certified row of plans for cut-offs, attacked: laws of two and three values, noise at the corner of the assumption.

    python benchmarks/refute.py [--quick] [--records 1 5 16 64] [--markdown]

Each line is one certificate, with the worst failure probability that a climb from eight hard laws found with the certified number of users
and with 1.02, 1.1, 1.5 and 4 times as many (``privpac.audit.refute``).  The last lines are the numbers that plans gave for the regret
learner before its clip's steps were looked at: they must be refuted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from rich.console import Console
from rich.table import Table

from privpac.audit.refute import MULTIPLES, Claim, Refutation, refute
from privpac.audit.rule_laws import rule_claims
from privpac.concepts import Thresholds
from privpac.data import Integers
from privpac.planning.plan import rule_target

PLANTED = (((1 << 20) - 1, "1/2", 5, "add-remove", 451), (1440, "1", 4, "replace", 250))


def question(top: int, epsilon: str, alpha: str, neighbours: str, noise: str) -> Any:
    return rule_target(Thresholds(Integers(0, top)), epsilon, alpha, "0.05", neighbours, noise)


def claims(quick: bool, records: list[int]) -> Iterator[tuple[str, Claim]]:
    people = (
        ((1440, "1", "add-remove"),) if quick else ((1440, "1/2", "add-remove"), (1440, "2", "replace"), ((1 << 20) - 1, "1", "add-remove"))
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
            replace(claim, name=f"{claim.name} (planted)", n_users=users),
        )


def cells(outcome: Refutation) -> list[str]:
    return [f"{attack.failure.probability:.2g}" for attack in outcome.attacks]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few questions")
    parser.add_argument("--markdown", action="store_true", help="a table for the documentation")
    parser.add_argument("--records", type=int, nargs="+", default=[1, 5, 16, 64], help="records per user")
    given = parser.parse_args()
    start, worst, lines = time.perf_counter(), dict[str, tuple[float, str, Refutation]](), 0
    wrong = False
    for where, claim in claims(given.quick, given.records):
        outcome = refute(claim, steps=6 if given.quick else 12)
        lines += 1
        wrong = wrong or outcome.refuted
        share = outcome.worst.failure.probability
        if claim.name not in worst or share > worst[claim.name][0]:
            worst[claim.name] = (share, where, outcome)
    found = [(where, outcome) for _, where, outcome in worst.values()]
    for where, claim in planted():
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
    print(f"\n{lines} certificates, {time.perf_counter() - start:.0f} s")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
