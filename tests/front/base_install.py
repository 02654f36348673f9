"""What a base install must do, as a script: learn, plan, evaluate, save, load and print, with every extra missing.

``python tests/front/base_install.py`` in an environment with nothing but ``pip install privpac``; with ``--hide`` the
extras that are there are hidden from it.  ``--timed`` prints the seconds of the processor.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder
from io import StringIO
from pathlib import Path
from typing import Any

EXTRAS = {
    "cryptography": "serve",
    "fastapi": "serve",
    "matplotlib": "plots",
    "numba": "compile",
    "pyarrow": "tables",
    "pyspark": "spark",
    "sklearn": "sklearn",
    "uvicorn": "serve",
}
OTHERS = ("llvmlite", "pandas", "duckdb", "joblib", "PIL")


class Hide(MetaPathFinder):
    """As if these packages were not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in {*EXTRAS, *OTHERS}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refused(act: Callable[[], Any], package: str) -> None:
    from privpac.errors import MissingExtra

    said = ""
    try:
        act()
    except MissingExtra as error:
        said = str(error)
    assert package in said, f"{package} was not missed: {said!r}"
    assert f'pip install "privpac[{EXTRAS[package]}]"' in said, said


def command(*words: str) -> tuple[object, str]:
    """The exit code of a command, and what it says on stderr."""
    from privpac.cli.app import main as run

    sys.argv, said = ["privpac", *words], StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        try:
            run()
        except SystemExit as end:
            return end.code, said.getvalue()
    return None, said.getvalue()


def main() -> None:
    hide, timed = "--hide" in sys.argv, "--timed" in sys.argv
    if hide:
        sys.meta_path.insert(0, Hide())
    import numpy as np
    import polars as pl

    import privpac as pp

    rng = np.random.default_rng(1)
    n = 2000
    x = rng.integers(0, 1000, n)
    late = ((x > 600) ^ (rng.random(n) < 0.1)).astype(int)
    town = np.array(["Oslo", "Rome", "Lima"])[rng.integers(0, 3, n)].tolist()
    frame = pl.DataFrame({"who": [f"p{i % 300}" for i in range(n)], "x": x, "town": town, "late": late})
    features = {"x": pp.Integers(0, 1000), "town": pp.Categories(["Lima", "Oslo", "Rome"])}
    data = pp.UserData.from_frame(frame, user="who", features=features, label="late")
    rule = pp.learn(data, pp.Thresholds(pp.Integers(0, 1000), "x"), epsilon=2, max_records=5)
    places = pp.UserData.from_frame(frame, user="who", features={"town": pp.Texts()}, label="late")
    print(pp.learn(places, pp.PrefixTree(4), epsilon=2, delta="1e-6", setting="realizable"))
    loaded = {"numba", "scipy", "pyarrow", "matplotlib"} & set(sys.modules)
    assert not loaded, f"a rule was learned, and loaded {loaded}: the first second is for what it needs"
    print(rule)
    print(pp.plan(pp.Thresholds(pp.Integers(0, 1000)), epsilon=1.0, alpha=0.1, beta=0.1, records_per_user=4))
    print(pp.evaluate(rule, data, epsilon=1))
    with tempfile.TemporaryDirectory() as room:
        place = Path(room, "rule.json")
        rule.save(place)
        again = pp.load(place)
        assert again.predict(frame).tolist() == rule.predict(frame).tolist()
        table = Path(room, "table.csv")
        frame.write_csv(table)
        frame.write_parquet(Path(room, "table.parquet"))
        refused(lambda: pp.UserData.read(table, user="who", features=features, label="late"), "pyarrow")
        refused(lambda: pp.scan(Path(room, "table.parquet"), user="who", features=features, label="late"), "pyarrow")

        from privpac.cli.options import check_targets

        refused(lambda: check_targets({"--report": Path(room, "a.html")}, {}), "matplotlib")

        def report() -> None:
            from privpac.report import write_report

            write_report(rule, None, Path(room, "a.html"))

        refused(report, "matplotlib")
        words = ("learn", str(table), "-u", "who", "-y", "late", "-f", "x=0:1000", "-e", "1")
        assert command("learn", "--help") == (0, "")
        for more, package in (((), "tables"), (("--report", str(Path(room, "a.html"))), "plots")):
            code, said = command(*words, *more)
            assert code == 2, said
            assert f'pip install "privpac[{package}]"' in " ".join(said.split()), said

    def estimator() -> None:
        import privpac.sklearn

        print(privpac.sklearn)

    refused(estimator, "sklearn")
    if timed:
        print(f"{time.process_time():.2f} s of processor")
        script = [str(Path(sys.executable).with_name("privpac"))]
        for words in (["--help"], ["methods"], ["plan", "threshold", "--domain", "1000", "--epsilon", "1", "--json"]):
            subprocess.run([*script, *words], check=True, stdout=subprocess.DEVNULL)
    print("the base install works")


if __name__ == "__main__":
    main()
