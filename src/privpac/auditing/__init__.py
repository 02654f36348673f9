"""Is a privacy claim true?  Decided exactly where the outputs are finite, put to a statistical test elsewhere.

The call for most people is ``pp.audit(learner_or_function, ...)``, :func:`privpac.api.audit.audit`.  Promises of
accuracy are put to the test by :func:`privpac.auditing.refute`, which looks for a law of people on which they are
false; ``plan_claims`` and ``rule_claims`` make such promises out of plans and rules.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
