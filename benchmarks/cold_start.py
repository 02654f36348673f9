"""From the start of a process to a first answer on a small table: every kind of rule, first and second process.

    python benchmarks/cold_start.py [--compile] [--rules threshold,stump] [--python PATH]

Each row is a process of its own that makes a table of 2,000 rows of 300 people, learns once and prints; seconds of
processor and of the clock, everything included from the interpreter on.  The first process begins with empty caches of
numba.  ``--compile`` leaves the loops that were compiled with the package aside, as in a source tree before ``make
kernels``, and adds what numba's events say of the seconds it took to compile each.  ``--python`` measures another
environment, say one where nothing but ``pip install`` has happened.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

AIM_FIRST, AIM_SECOND, AIM_WALL, AIM_IMPORT = 4.0, 1.0, 2.0, 0.1
HERE = Path(__file__).parent

TABLE = """
import numpy as np, polars as pl, privpac as pp
rng = np.random.default_rng(1)
n = 2000
x, z = rng.integers(0, 1000, n), rng.integers(0, 50, n)
frame = pl.DataFrame({
    "who": rng.integers(0, 300, n), "x": x, "z": z, "a": rng.integers(0, 2, n), "b": rng.integers(0, 2, n),
    "c": rng.integers(0, 2, n), "path": [f"/{i % 7}/{i % 31}" for i in x], "y": ((x > 600) ^ (rng.random(n) < .1)) * 1})
X, Z, B = pp.Integers(0, 1000), pp.Integers(0, 50), pp.Integers(0, 1)
def data(**features):
    return pp.UserData.from_frame(frame, user="who", features=features, label="y")
two, bits = dict(x=X, z=Z), dict(a=B, b=B, c=B)
"""
RULES = {
    "threshold": "pp.learn(data(x=X), pp.Thresholds(X), epsilon=1)",
    "stump": "pp.learn(data(**two), pp.Stumps(), epsilon=1)",
    "interval": "pp.learn(data(x=X), pp.Intervals(X), epsilon=1)",
    "box": "pp.learn(data(**two), pp.Rectangles(two, cuts=8), epsilon=1)",
    "points": "pp.learn(data(z=Z), pp.Points(Z), epsilon=1)",
    "decision list": "pp.learn(data(**bits), pp.DecisionLists(bits, length=2), epsilon=1)",
    "conjunction": "pp.learn(data(**bits), pp.Conjunctions(bits), epsilon=1)",
    "halfspace": "pp.learn(data(**two), pp.Halfspaces(two, weights=2, cuts=8), epsilon=1)",
    "hierarchy": "pp.learn(data(path=pp.Texts()), pp.PrefixTree(3), epsilon=1, delta='1e-6', setting='realizable')",
    "small tree": "pp.learn(data(**two), pp.SmallTrees(two), epsilon=1)",
    "scorecard": "pp.learn(data(**two), pp.Scorecards(two), epsilon=1, delta='1e-6')",
    "distribution": "pp.learn_distribution(data(z=Z), 'histogram', epsilon=1)",
    "quantile": "pp.quantile(pp.UserData.from_frame(frame, user='who', features={'x': X}), epsilon=1)",
    "evaluate": "pp.evaluate(pp.learn(data(x=X), pp.Thresholds(X), epsilon=1), data(x=X), epsilon=1)",
}
EVENTS = """
import json, os, atexit
if os.environ.get("PRIVPAC_KERNELS") == "compile":
    from numba.core import event
    class Times(event.Listener):
        began, spent = [], {}
        def on_start(self, e):
            import time; self.began.append([time.process_time(), 0.0])
        def on_end(self, e):
            import time
            at, inner = self.began.pop(); took = time.process_time() - at
            if self.began: self.began[-1][1] += took
            name = e.data["dispatcher"].py_func; name = f"{name.__module__}.{name.__name__}"
            self.spent[name] = self.spent.get(name, 0) + took - inner
    event.register("numba:compile", Times())
    atexit.register(lambda: open(os.environ["KERNEL_TIMES"], "w").write(json.dumps(Times.spent)))
"""


def run(python: str, code: str, caches: str, *, compiling: bool) -> tuple[float, float, dict[str, float]]:
    """Seconds of processor and clock of one process, and of compiling by kernel."""
    times = Path(caches, "times.json")
    times.unlink(missing_ok=True)
    settings = {**os.environ, "NUMBA_CACHE_DIR": caches, "KERNEL_TIMES": str(times)}
    if compiling:
        settings["PRIVPAC_KERNELS"] = "compile"
    before, at = os.times(), time.perf_counter()
    subprocess.run([python, "-c", code], env=settings, check=True, stdout=subprocess.DEVNULL)
    after, wall = os.times(), time.perf_counter() - at
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, wall, json.loads(times.read_text()) if times.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as caches:
        table = Table(title="imports")
        for column in ("process", "processor s", "clock s", "aim (processor)"):
            table.add_column(column, justify="right")
        for name, code, aim in (
            ("python", "", ""),
            ("import privpac", "import privpac", AIM_IMPORT),
            ("privpac --help", "import sys; sys.argv[1:] = ['--help']\nfrom privpac.cli.app import main; main()", ""),
            ("numpy, polars, flint", "import numpy, polars, flint", ""),
        ):
            spent, wall, _ = run(options.python, code, caches, compiling=False)
            table.add_row(name, f"{spent:.2f}", f"{wall:.2f}", str(aim))
        console.print(table)
    table = Table(title="first answer" + (", loops compiled on first use" if options.compile else ""))
    for column in ("rule", "first: processor s", "clock s", "second: processor s", "clock s ", "compiled"):
        table.add_column(column, justify="right")
    kernels: Counter[str] = Counter()
    for rule in options.rules.split(","):
        with tempfile.TemporaryDirectory() as caches:
            code = (EVENTS if options.compile else "") + TABLE + f"print({RULES[rule]})"
            first, wall, times = run(options.python, code, caches, compiling=options.compile)
            second, again, _ = run(options.python, code, caches, compiling=options.compile)
        for name, spent in times.items():
            kernels[name] = max(kernels[name], spent)  # type: ignore[call-overload]
        cells = [rule, f"{first:.2f}", f"{wall:.2f}", f"{second:.2f}", f"{again:.2f}", str(len(times))]
        table.add_row(*cells)
    table.add_row("aim", f"{AIM_FIRST:.2f}", "", f"{AIM_SECOND:.2f}", f"{AIM_WALL:.2f} idle", "")
    console.print(table)
    if kernels:
        table = Table(title="seconds to compile each loop, without those it calls")
        table.add_column("loop")
        table.add_column("processor s", justify="right")
        for name, spent in kernels.most_common():
            table.add_row(name, f"{spent:.2f}")
        table.add_row("all", f"{sum(kernels.values()):.2f}")
        console.print(table)


if __name__ == "__main__":
    main()
