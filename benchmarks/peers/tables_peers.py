"""A differentially private decision tree of a peer library on the table's feature and label, timed inside its own
process.

    python tables_peers.py FOLDER REPEATS

Reads ``x.npy`` and ``y.npy``.  The tree has depth 1; bounds and classes are given, so that nothing is read off the
data.  It protects one record.  Prints one line of JSON: best seconds, and memory in MiB before loading and at its peak.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from diffprivlib.models import DecisionTreeClassifier


def memory_mib(field: str) -> float:
    """Memory in use (VmRSS) or its peak (VmHWM)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    kib = next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if kib is None else kib) / 1024


def fit(x: Any, y: Any) -> object:
    return DecisionTreeClassifier(max_depth=1, epsilon=1.0, bounds=(0.0, 2.0**64), classes=[0, 1]).fit(x, y)


def main() -> None:
    folder, repeats = Path(sys.argv[1]), int(sys.argv[2])
    rng = np.random.default_rng(1)
    fit(rng.random((1000, 1)), rng.integers(0, 2, 1000))
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # a new peak from here on
    before = memory_mib("VmRSS")
    x, y = np.load(folder / "x.npy").astype(float)[:, None], np.load(folder / "y.npy")
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fit(x, y)
        times.append(time.perf_counter() - start)
    sys.stdout.write(json.dumps({"seconds": min(times), "before": before, "peak": memory_mib("VmHWM")}) + "\n")


if __name__ == "__main__":
    main()
