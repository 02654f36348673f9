"""Settings for all tests: no test is timed, so hypothesis has no deadline; where a change is judged (``CI`` is set) the
examples are the same in every run, so that the judgement is one of the change.  ``make test`` (``-m "not slow"``) tries
an eighth of the examples of every property, ``make test-slow`` all of them."""

import os

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow]
settings.register_profile("privpac", deadline=None, suppress_health_check=_QUIET)
settings.register_profile("judged", deadline=None, suppress_health_check=_QUIET, derandomize=True)
settings.load_profile("judged" if os.environ.get("CI") else "privpac")
# A call that would have to compile in an installed package is a mistake.
os.environ.setdefault("PRIVPAC_KERNELS", "listed")

_SETTINGS = "_hypothesis_internal_use_settings"


@pytest.hookimpl(trylast=True)  # after hypothesis has marked its own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr") != "not slow":
        return
    for test in {item.obj for item in items if item.get_closest_marker("hypothesis")}:  # type: ignore[attr-defined]
        all_of_them: settings = getattr(test, _SETTINGS)
        setattr(test, _SETTINGS, settings(all_of_them, max_examples=max(10, all_of_them.max_examples // 8)))
