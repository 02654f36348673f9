"""Where each command lives; a module adds its commands to the app when it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

__all__ = ["load"]

_HOMES = {
    "audit": "audit",
    "bounds": "bounds",
    "choose": "evaluate",
    "compare": "compare",
    "distribution": "distribution",
    "domains": "domains",
    "evaluate": "evaluate",
    "learn": "learn",
    "least-error": "evaluate",
    "ledger": "ledger",
    "methods": "methods",
    "plan": "plan",
    "predict": "predict",
    "protocol": "protocol_commands.demo",
    "quantile": "quantile",
    "select": "distribution",
    "serve": "serve",
    "studio": "studio",
    "user-level": "user_level",
}


def load(words: Sequence[str]) -> None:
    """Import the command that these words begin with; all of them for the overview, or if there is no such command."""
    named = _HOMES.get(words[0]) if words else None
    for home in sorted(set(_HOMES.values())) if named is None else [named]:
        import_module(f"privpac.cli.{home}")
