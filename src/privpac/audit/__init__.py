"""Is a privacy claim true?  Decided exactly where the outputs are finite, put to a statistical test elsewhere.

The room itself can be called: ``pp.audit(learner_or_function, ...)`` is :func:`privpac.api_audit.audit`.  Promises of
accuracy are put to the test by :func:`privpac.audit.refute`, which looks for a law of people on which they are false.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from privpac.audit.exact import ExactAudit, Universe, audit_exact, datasets, neighbouring, user_universe
from privpac.audit.refute import Claim, Failure, Refutation, refute
from privpac.audit.report import Audit, Outcome
from privpac.audit.statistical import StatisticalAudit, audit_statistical, detectable

__all__ = [
    "Audit",
    "Claim",
    "ExactAudit",
    "Failure",
    "Outcome",
    "Refutation",
    "StatisticalAudit",
    "Universe",
    "audit_exact",
    "audit_statistical",
    "datasets",
    "detectable",
    "neighbouring",
    "plan_claims",
    "refute",
    "rule_claims",
    "user_universe",
]


_CLAIMS = {"plan_claims": "privpac.audit.claims", "rule_claims": "privpac.audit.rule_laws"}


def __getattr__(name: str) -> Any:
    # The claims of plans need the learners and the planner: only who asks for them loads those.
    if name in _CLAIMS:
        return getattr(import_module(_CLAIMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Room(ModuleType):
    """``pp.audit`` is one name for a room and for its front door, whichever was imported first."""

    def __call__(self, *args: Any, **options: Any) -> Audit:
        made: Audit = import_module("privpac.api_audit").audit(*args, **options)
        return made


sys.modules[__name__].__class__ = _Room
