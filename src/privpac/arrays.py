"""Names for the arrays of the package: what stands in them, and how wide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Values of any type."""
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Floats64 = NDArray[np.float64]
Ints = NDArray[np.int64]
"""Counts, scores and places."""
Codes = NDArray[np.uint64]
"""Values of a domain, counted from its smallest."""
Words = NDArray[np.uint64]
"""64 bits each."""
