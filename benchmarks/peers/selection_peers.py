"""One private selection by a peer library, timed inside its own process.

    python selection_peers.py LIBRARY SCORES.npy REPEATS

Scores are minimised at rate 1/20.  Each library gets the scores in the form it takes, made before the clock starts: a
list for OpenDP (its call copies it into its own vector) and a list of utilities for diffprivlib.  Prints one line of
JSON: median milliseconds and the peak memory of the process in MiB.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

RATE = 1 / 20


def opendp(scores: Any, measure: str) -> Callable[[], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    output = dp.max_divergence() if measure == "pure" else dp.zero_concentrated_divergence()
    select = dp.m.make_noisy_max(*space, output, scale=1 / RATE, negate=True)
    values = scores.tolist()
    return lambda: select(values)


def diffprivlib(scores: Any) -> Callable[[], object]:
    from diffprivlib.mechanisms import Exponential

    utility = (-scores).tolist()
    return lambda: Exponential(epsilon=RATE, sensitivity=1, monotonic=True, utility=utility).randomise()


def main() -> None:
    library, path, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    scores = np.load(path)
    run = {
        "opendp-permute-and-flip": lambda: opendp(scores, "pure"),
        "opendp-exponential": lambda: opendp(scores, "zcdp"),
        "diffprivlib": lambda: diffprivlib(scores),
    }[library]()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"ms": 1000 * statistics.median(times), "peak": peak}) + "\n")


if __name__ == "__main__":
    main()
