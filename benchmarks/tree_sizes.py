"""Users that the tree learner needs, beside the published constants and the exponential mechanism over the whole class.

Epsilon 1, delta 1e-6 (0 for thresholds), error 0.1 but for probability 0.05, one user per part.  The second table runs
every tight plan 20 000 times on two hard laws (mass just above 0.1 on the deepest node of the longest path; on a node
of depth 1) in double precision: how often it fails, beside what is certified.

Run: ``python benchmarks/tree_sizes.py [--runs 20000] [--markdown]``
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from attrs import frozen
from common import Grid
from rich.console import Console

from privpac.methods.hierarchy.tree_sample_size import TreeBudget, generic_tree, lower_tree, plan_tree
from privpac.methods.realizable import plan_realizable
from privpac.sample_size import Certificate

ALPHA, BETA, EPSILON, DELTA = 0.1, 0.05, 1, "1e-6"
RECORDS = (1, 10, 100)


@frozen(slots=False)
class Problem:
    """A tree by its height; ``path``: one node per level; ``log_size``: of the class where it is finite."""

    name: str
    height: int
    path: bool = False
    log_size: float | None = None

    @property
    def width(self) -> int | None:
        return 1 if self.path else None

    @property
    def delta(self) -> str | int:
        return 0 if self.path else DELTA

    def plan(self, m: int, form: str, neighbours: str = "replace") -> Certificate:
        common = {
            "height": self.height,
            "width": self.width,
            "epsilon": EPSILON,
            "delta": self.delta,
            "alpha": str(ALPHA),
            "beta": str(BETA),
        }
        return plan_tree(**common, records_per_user=m, form=form, neighbours=neighbours)  # type: ignore[arg-type]

    def generic(self, m: int, neighbours: str = "replace") -> int | None:
        """Selection from the whole class, which reads at most ``m`` records of each user."""
        if self.log_size is None:
            return None
        goal = {"epsilon": EPSILON, "alpha": str(ALPHA), "beta": str(BETA)}
        return plan_realizable(log_size=self.log_size, records_per_user=m, neighbours=neighbours, **goal).n_users  # type: ignore[arg-type]


PROBLEMS = (
    Problem("points, open domain", 1),
    Problem("points, 2^64 values", 1, log_size=64 * math.log(2)),
    Problem("depth 8, open vocabulary", 8),
    Problem("file paths, depth 32", 32),
    Problem("IPv6 prefixes, depth 128", 128, log_size=129 * math.log(2)),
    Problem("thresholds 2^16 (delta 0)", 2**16, True, 16 * math.log(2)),
    Problem("thresholds 2^64 (delta 0)", 2**64, True, 64 * math.log(2)),
)


def needed() -> Grid:
    heads = [
        "tree",
        *(f"m={m}: simple / tight" for m in RECORDS),
        "add-remove, tight",
        "published constants",
        "generic, m=1 / 10 / 100",
    ]
    rows = []
    for problem in PROBLEMS:
        both = [f"{problem.plan(m, 'simple').n_users} / {problem.plan(m, 'best').n_users}" for m in RECORDS]
        one_way = " / ".join(str(problem.plan(m, "best", "add-remove").n_users) for m in RECORDS)
        text = plan_tree(
            height=problem.height,
            width=None,
            epsilon=EPSILON,
            delta=DELTA,
            alpha=str(ALPHA),
            beta=str(BETA),
            source="text",
        ).n_users
        generic = "–" if problem.log_size is None else " / ".join(str(problem.generic(m)) for m in RECORDS)
        rows.append([problem.name, *both, one_way, f"{text:.2g}", generic])
    return Grid("Users needed (replace, one user per part, unless said otherwise)", heads, rows)


def simulated(problem: Problem, plan: Certificate, m: int, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """The failure rate of a plan on the two hard laws; parts have depth 0 or that of the target."""
    budget = TreeBudget(problem.height, problem.width, plan["epsilon1"], plan["epsilon2"], problem.delta)
    t, hi, K, d = plan["parts"], plan["hi"], plan["K"], problem.height
    followed = np.array([1 - budget.missed(v) for v in range(t + 1)])
    rates = []
    for target in (d, 1):
        G = rng.binomial(t, -math.expm1(m * math.log1p(-ALPHA)), runs)
        # Logarithms of the mass of depth 0, of the depths above the target, of the target, and of those below.
        none, hit = np.minimum(t - hi, K - G) * budget.rate1, np.minimum(G - hi, K) * budget.rate1
        above = np.minimum(G - hi, K - G) * budget.rate1 + (math.log(target - 1) if target > 1 else -math.inf)
        below = np.full(runs, -hi * budget.rate1 + (math.log(d - target) if d > target else -math.inf))
        total = np.logaddexp(np.logaddexp(none, hit), np.logaddexp(above, below))
        chosen = np.exp(hit - total) * followed[G]
        # On a path a depth below the target names a rule that differs from it on no mass at all.
        chosen += np.exp(below - total) if problem.path else 0.0
        rates.append(float(np.mean(rng.random(runs) >= chosen)))
    return rates[0], rates[1]


def failures(runs: int) -> Grid:
    rng = np.random.default_rng(2024)
    rows = []
    for problem in PROBLEMS:
        for m in RECORDS:
            plan = problem.plan(m, "best")
            deep, shallow = simulated(problem, plan, m, runs, rng)
            spent = f"{float(plan['epsilon1']):g}, {plan['hi']}, {plan['K']}"
            rows.append(
                [
                    problem.name,
                    str(m),
                    str(plan.n_users),
                    spent,
                    f"{deep:.4f}",
                    f"{shallow:.4f}",
                    f"{plan['failure']:.4f}",
                ]
            )
    heads = ["tree", "m", "users", "epsilon1, hi, K", "failed, deepest node", "failed, depth 1", "certified"]
    return Grid(
        f"Tight plans, {runs} runs on each of two hard laws (standard error at most {0.5 / math.sqrt(runs):.4f})",
        heads,
        rows,
    )


def verdict(console: Console) -> None:
    """Where the generic learner needs fewer users, said plainly."""
    fewer: list[str] = []
    more: list[str] = []
    for problem in PROBLEMS:
        for relation in ("replace", "add-remove") if problem.log_size is not None else ():
            for m in RECORDS:
                tree, generic = problem.plan(m, "best", relation).n_users or 0, problem.generic(m, relation) or 0
                (fewer if generic < tree else more).append(
                    f"{problem.name}, {relation}, m={m}: {generic} against {tree}"
                )
    console.print("\nSelection from the whole class (RealizableSelection) needs FEWER users than the tree learner for")
    console.print("\n".join(f"  {line}" for line in fewer) or "  nothing in this table")
    console.print("and more users, where it can run at all, for")
    console.print("\n".join(f"  {line}" for line in more) or "  nothing in this table")
    console.print("Open vocabularies have no finite class: there only the tree learner applies.")
    goal = {"epsilon": EPSILON, "delta": DELTA, "alpha": str(ALPHA), "beta": str(BETA)}
    lower = ", ".join(f"{lower_tree(**goal, records_per_user=m).n_users} for m={m}" for m in RECORDS)  # type: ignore[arg-type]
    console.print(f"No private learner of any of these trees can do with fewer than {lower} users.")
    size = 64 * math.log(2)
    single = generic_tree(log_size=size, epsilon=EPSILON, alpha=str(ALPHA), beta=str(BETA)).n_users
    console.print(f"(Closed form for 2^64 rules and single records: {single}.)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    console = Console(width=200)
    needed().show(console, markdown=options.markdown)
    failures(options.runs).show(console, markdown=options.markdown)
    verdict(console)


if __name__ == "__main__":
    main()
