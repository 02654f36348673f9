"""When the data stay with the people: users needed in each model, how far users agree, and whole runs.

    python benchmarks/protocols.py [--markdown] [--plots docs/img]

*Users.*  1024 items, everyone names the common item with probability 0.9 and otherwise one and the same rival (the
worst case); a run fails if the common item is not released.  ``certified`` is the library's bound for a failure of
1/30; ``failure`` is measured at that number; ``enough`` is the least number on a grid of 3 % whose failure is at most
1/30 there and at the next two.  Central failures are expectations over the exact law; local and shuffled ones are drawn
(the mechanism's own coins from the system), with the number of runs in the table's title.

*Agreement.*  Cut-offs over 2^16 values, uniform values, right labels, gamma 60 and 20: the share of the most voted
item, and of the two most voted, over 24 users and 48 seeds.

*Against scoring.*  The same data in one place: mean error of regret selection (which scores every rule) and of central
agreement.

*Runs.*  2000 clients through the real messages, with drop-outs, repeats and liars.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import Grid
from rich.console import Console
from scipy.stats import binom

from privpac.data import Integers, UserData
from privpac.device.correlated_sampling import rate
from privpac.device.randomizers import HadamardSelection, ShuffleSelection
from privpac.device.scores import CutScores, RaceLearner
from privpac.device.wire import pack_report, pack_shuffled
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import PureSelection, StableHistogram, vote_decay
from privpac.methods import RegretSelection
from privpac.methods.agreement.agreement_learner import AgreementLearner
from privpac.methods.agreement.plurality import (
    CLEAR,
    records_representation,
    silent_votes,
    users_histogram,
    users_local,
    users_plurality,
    users_shuffle,
)
from privpac.protocols import LocalProtocol, ShuffleProtocol
from privpac.protocols.analyzer import decode_counts, decode_reports
from privpac.protocols.calibrate import calibrate
from privpac.rng import secret_rng
from privpac.rules import Thresholds

EPSILON, DELTA, BETA, SHARE, ITEMS = 1, "1e-6", "1/10", 0.9, 1024
LIMIT = 1 / 30
RUNS = 600
COMMON, RIVAL = 417, 90
QUIET = 0.05  # the analyzers' own test for nothing said


# Users needed


def central(select: StableHistogram | PureSelection) -> Callable[[int], float]:
    """The exact chance that the common item is not released."""

    @cache
    def wrong(c: int, n: int) -> float:
        votes = {item: count for item, count in ((COMMON, c), (RIVAL, n - c)) if count}
        law = select.law(votes)
        return 1 - float(law.prob(COMMON)) if c else 1.0

    def fails(n: int) -> float:
        c = np.arange(n + 1)
        mass = binom.pmf(c, n, SHARE)
        return float(sum(p * wrong(int(k), n) for k, p in zip(c, mass) if p > 1e-9))

    return fails


def local(n: int) -> float:
    """Reports as clients draw them, in arrays: j uniform, the sign through randomised response."""
    keep = float(keep_probability(EPSILON))
    select, rng, wrong = HadamardSelection(10, keep_probability(EPSILON)), np.random.default_rng(n), 0
    for _ in range(RUNS):
        item = np.where(rng.random(n) < SHARE, COMMON, RIVAL)
        j = rng.integers(0, ITEMS, n)
        sign = 1 - 2 * (np.bitwise_count(j & item) % 2).astype(np.int64)
        told = np.where(rng.random(n) < keep, sign, -sign)
        reports = list(zip([0] * n, j.tolist(), ((told + 1) // 2).tolist()))
        wrong += decode_reports(select, reports, QUIET) != COMMON
    return wrong / RUNS


def shuffled(n: int) -> float:
    """Counts after the shuffle: votes plus negative binomial noise, shared by these n clients."""
    noise, rng, wrong = calibrate(EPSILON, DELTA), np.random.default_rng(n), 0
    select = ShuffleSelection(ITEMS, noise.r, noise.p, n, 1 << 18)
    for _ in range(RUNS):
        counts = rng.negative_binomial(float(noise.r), 1 - float(noise.p), ITEMS + 1)
        c = rng.binomial(n, SHARE)
        counts[COMMON] += c
        counts[RIVAL] += n - c
        wrong += decode_counts(select, counts.tolist(), n, QUIET) != COMMON
    return wrong / RUNS


def enough(fails: Callable[[int], float], most: int) -> int:
    """The least n on a grid whose failure is small there and at the next two."""
    grid = sorted({max(2, int(1.03**k)) for k in range(300)} | set(range(2, 34)))
    good = 0
    for place, n in enumerate(grid):
        good = good + 1 if fails(n) <= LIMIT else 0
        if good == 3:
            return grid[place - 2]
        if n > 2 * most:
            break
    return most


def users() -> tuple[Grid, list[tuple[str, int, int]]]:
    keep, noise = keep_probability(EPSILON), calibrate(EPSILON, DELTA)
    rows: list[list[str]] = []
    bars: list[tuple[str, int, int]] = []
    jobs: list[tuple[str, str, int, Callable[[int], float]]] = []
    for relation in ("add-remove", "replace"):
        histogram = StableHistogram(EPSILON, delta=DELTA, neighbours=relation, named=2)
        silent = silent_votes(1 / vote_decay(EPSILON, relation), ITEMS, CLEAR)
        pure = PureSelection(EPSILON, universe=ITEMS, neighbours=relation, abstain=silent)
        few = users_plurality(1 / pure.q, ITEMS, beta=BETA, clear=CLEAR).n_users
        jobs.append(("central, pure", f"ε, {relation}", int(few or 0), central(pure)))
        jobs.append(
            (
                "central",
                f"(ε, δ), {relation}",
                int(users_histogram(histogram.K, beta=BETA, named=2).n_users or 0),
                central(histogram),
            )
        )
    mixed = users_shuffle(noise.r, noise.p, ITEMS + 1, beta=BETA, clear=CLEAR).n_users
    jobs.append(("shuffle", "(ε, δ), replace", int(mixed or 0), shuffled))
    jobs.append(("local", "ε, one report", int(users_local(keep, ITEMS, beta=BETA, clear=CLEAR).n_users or 0), local))
    for model, promise, certified, fails in jobs:
        least = enough(fails, certified)
        rows.append([model, promise, str(certified), f"{fails(certified):.4f}", str(least)])
        bars.append((f"{model}\n{promise}", certified, least))
    title = f"Users needed, 1024 items, epsilon 1, delta 1e-6, failure 1/30, share 0.9 ({RUNS} runs where drawn)"
    return Grid(title, ["model", "guarantee", "certified", "failure there", "enough"], rows), bars


# Agreement

RECORDS = (12, 50, 200, 800, 3200)


def agreement(gamma: int, people: int = 24, seeds: int = 48) -> list[tuple[float, float]]:
    """Shares of the most voted item and of the two most voted, by records per user."""
    learner = RaceLearner(CutScores((1 << 16,), ("above",)), rate(gamma))
    random = np.random.default_rng(gamma)
    out = []
    for m in RECORDS:
        shares = []
        for seed in range(seeds):
            x = random.integers(0, 1 << 16, (people, m))
            cut = int(random.integers(1 << 14, 3 << 14))
            votes = Counter(learner.item(row, (row >= cut).astype(np.int64), bytes([seed]) * 32) for row in x)
            top = [count for _, count in votes.most_common(2)] + [0]
            shares.append((top[0] / people, (top[0] + top[1]) / people))
        out.append(tuple(np.mean(shares, axis=0).tolist()))
    return out


def shown(curves: dict[int, list[tuple[float, float]]]) -> Grid:
    rows = []
    for gamma, curve in curves.items():
        rows.append([f"gamma {gamma}: most voted item", *(f"{one:.2f}" for one, _ in curve)])
        rows.append([f"gamma {gamma}: two most voted", *(f"{two:.2f}" for _, two in curve)])
    return Grid(
        "Share of the votes, cut-offs over 2^16 values, 24 users, 48 seeds",
        ["records per user", *map(str, RECORDS)],
        rows,
    )


# Against scoring every rule in one place


def scoring(people: tuple[int, ...] = (3, 6, 12, 25, 50, 100), m: int = 200, draws: int = 40) -> Grid:
    domain = {"x": Integers(0, (1 << 16) - 1)}
    random = np.random.default_rng(5)
    cut = 23_456
    rows = []
    makers: dict[str, Callable[[], Any]] = {
        "regret selection, epsilon 1": lambda: RegretSelection(Thresholds(), EPSILON),
        "agreement, epsilon 1, delta 1e-6": lambda: AgreementLearner(
            Thresholds(), EPSILON, delta=Fraction(DELTA), task={"Gamma": rate(60)}
        ),
        "agreement, epsilon 1": lambda: AgreementLearner(Thresholds(), EPSILON, task={"Gamma": rate(60)}),
    }
    for name, make in makers.items():
        row = []
        for n in people:
            errors = []
            for _ in range(draws):
                x = random.integers(0, 1 << 16, n * m)
                data = UserData.from_arrays(
                    x[:, None], (x >= cut).astype(int), np.repeat(np.arange(n), m), features=domain
                )
                rule = make().learn(data).value
                grid = np.arange(0, 1 << 16, 16)
                errors.append(np.mean(rule.predict(grid[:, None]) != (grid >= cut)))
            row.append(f"{np.mean(errors):.3f}")
        rows.append([name, *row])
    return Grid(
        f"Mean error, cut-offs over 2^16 values, {m} records per user, {draws} draws",
        ["people", *map(str, people)],
        rows,
    )


# Whole runs


def runs(clients: int = 2000, m: int = 300) -> Grid:
    """5 % liars, 7 % drop-outs, 3 % repeats."""
    features = {"age": Integers(0, 99)}
    given: dict[str, Any] = {"task": {"Gamma": rate(40)}, "label": "ill"}
    random = np.random.default_rng(11)
    rows = []
    for name, made in (
        ("local", LocalProtocol("threshold", features, Fraction(1), **given)),
        (
            "shuffle",
            ShuffleProtocol("threshold", features, Fraction(1), delta=Fraction(DELTA), n_min=1500, n_max=3000, **given),
        ),
    ):
        client, run, begin = made.client(), made.manifest.run, time.perf_counter()
        sent: list[tuple[int, list[bytes]]] = []
        for i in range(clients):
            age = random.integers(0, 100, (m, 1))
            if i % 100 < 5:
                lie = (
                    pack_report(run, 0, i % 128, 1 - (i % 128 & RIVAL).bit_count() % 2)
                    if name == "local"
                    else pack_shuffled(run, RIVAL)
                )
                sent.append((i, [lie]))
            elif i % 100 >= 12:
                message = client.send(client.item_of_codes(age, (age[:, 0] >= 41).astype(np.int64)))
                sent += [(i, message)] * (2 if i % 100 < 15 else 1)
        spent = (time.perf_counter() - begin) / clients
        if isinstance(made, ShuffleProtocol):
            mixer = made.shuffler()
            for who, messages in sent:
                mixer.submit(who, messages)
            analysis = made.analyze(mixer.release(secret_rng()), mixer.clients)
        else:
            analysis = made.analyze(sent)
        grid = np.arange(100)
        wrong = float(np.mean(analysis.released.predict(grid[:, None]) != (grid >= 41)))
        size = sum(len(message) for _, messages in sent for message in messages) / len(sent)
        rows.append([name, str(analysis.released.outcome), f"{wrong:.2f}", f"{size:.0f}", f"{1000 * spent:.1f}"])
    return Grid(
        f"Whole runs, {clients} clients, {m} records each",
        ["model", "outcome", "error", "bytes per client", "ms per client"],
        rows,
    )


# Figure


def plot(path: Path, curves: dict[int, list[tuple[float, float]]], bars: list[tuple[str, int, int]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for (gamma, curve), colour in zip(curves.items(), ("#1b6ca8", "#c25b1b")):
        left.plot(RECORDS, [one for one, _ in curve], "o-", color=colour, label=f"γ = {gamma}: most voted item")
        left.plot(
            RECORDS, [two for _, two in curve], "o--", color=colour, alpha=0.5, label=f"γ = {gamma}: two most voted"
        )
    left.axhline(0.9, color="grey", linewidth=0.8)
    left.set(
        xscale="log",
        xlabel="records per person",
        ylabel="share of the votes",
        ylim=(0, 1.02),
        title="People with more records agree more",
    )
    left.legend(fontsize=8, frameon=False)
    places = np.arange(len(bars))
    right.barh(places + 0.2, [certified for _, certified, _ in bars], 0.4, color="#9db8cc", label="certified")
    right.barh(places - 0.2, [least for _, _, least in bars], 0.4, color="#1b6ca8", label="measured to be enough")
    for place, (_, certified, least) in zip(places, bars):
        right.text(certified * 1.05, place + 0.2, str(certified), va="center", fontsize=8)
        right.text(least * 1.05, place - 0.2, str(least), va="center", fontsize=8)
    right.set_yticks(places, [name for name, _, _ in bars], fontsize=8)
    right.invert_yaxis()
    right.set(xscale="log", xlim=(5, 3000), xlabel="people", title="People needed at a share of 0.9 (1024 items)")
    right.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--plots", type=Path)
    options = parser.parse_args()
    console = Console()
    table, bars = users()
    table.show(console, markdown=options.markdown)
    curves = {gamma: agreement(gamma) for gamma in (60, 20)}
    shown(curves).show(console, markdown=options.markdown)
    certified = records_representation((1 << 16) + 1, alpha="1/5", beta=BETA)
    sys.stdout.write(
        f"\ncertified records per user at alpha 0.2, beta 0.1: {certified[1]:.2g} (gamma {certified[0]:.0f})\n"
    )
    scoring().show(console, markdown=options.markdown)
    runs().show(console, markdown=options.markdown)
    if options.plots is not None:
        plot(options.plots / "agreement.png", curves, bars)


if __name__ == "__main__":
    main()
