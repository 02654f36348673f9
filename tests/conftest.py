"""Settings for all tests: no test is timed, so hypothesis has no deadline."""

from hypothesis import HealthCheck, settings

settings.register_profile("privpac", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("privpac")
