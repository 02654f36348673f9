"""Users that do not fit into memory: Parquet streamed from disk, and tables on an Apache Spark cluster.

Both keep the contract of :class:`privpac.data.Users`: a learner asks for a fold and does not know where the rows are.
An engine only decides *which whole users* form a chunk; every chunk is an ordinary ``UserData`` made by the same code
as in memory, and chunks are merged by integer addition.  So the profile, and with it the law that is sampled, is the
same on every engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"SparkUsers": "spark", "StreamedUsers": "stream"}

__all__ = ["SparkUsers", "StreamedUsers"]  # resolved on first use


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'privpac.engines' has no attribute {name!r}")
    return getattr(import_module(f"privpac.engines.{_HOME[name]}"), name)
