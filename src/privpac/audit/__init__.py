"""Is a privacy claim true?  Decided exactly where the outputs are finite."""

from privpac.audit.exact import ExactAudit, Universe, audit_exact, datasets, neighbouring, user_universe

__all__ = ["ExactAudit", "Universe", "audit_exact", "datasets", "neighbouring", "user_universe"]
