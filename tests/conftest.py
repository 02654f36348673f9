"""Settings for all tests: no test is timed, so hypothesis has no deadline; where a change is judged (``CI`` is set) the
examples are the same in every run, so that the judgement is one of the change."""

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow]
settings.register_profile("privpac", deadline=None, suppress_health_check=_QUIET)
settings.register_profile("judged", deadline=None, suppress_health_check=_QUIET, derandomize=True)
settings.load_profile("judged" if os.environ.get("CI") else "privpac")
# A call that would have to compile in an installed package is a mistake.
os.environ.setdefault("PRIVPAC_KERNELS", "listed")
