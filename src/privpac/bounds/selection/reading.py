"""Public numbers that several certificates of clipped votes read: the rate, the records they compute for, the clip."""

from __future__ import annotations

from typing import Any

from privpac.bounds.certificate import positive
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.parameters import MAX_EPSILON

__all__ = ["read_clip", "read_records", "read_theta"]


def read_theta(value: Any) -> float:
    """The rate at which votes are weighed."""
    rate = positive(value, "theta")
    if rate > MAX_EPSILON:
        raise ParameterError(f"theta must be at most {MAX_EPSILON}, got {value}; beyond that nothing is protected")
    return rate


def read_records(value: Any, most: int) -> int:
    """Records per user, as many as the certificate is computed for."""
    m = positive_int(value, "records_per_user")
    if m > most:
        raise TooLargeError(
            f"this certificate is computed for at most {most} records per user, got {m}; declare max_records"
        )
    return m


def read_clip(value: Any, records: int) -> int:
    """A clip that is no larger than what a user holds."""
    clip = positive_int(value, "tau")
    if clip > records:
        raise ParameterError(
            f"tau must be at most records_per_user = {records}, got {clip}; larger clips cut nothing off"
        )
    return clip
