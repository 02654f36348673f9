"""Loops over people and records, compiled: how users are folded into the scores of rules."""

from __future__ import annotations

from typing import Any

Bundle = tuple[Any, ...]
"""Arrays and numbers that travel together into a compiled loop."""
