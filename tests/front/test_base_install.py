"""The base install does the main job without any extra, and each extra names itself where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.front import base_install

from privpac.data.loops import available
from privpac.lazy import EXTRAS


def test_every_extra_is_tried() -> None:
    assert base_install.EXTRAS == EXTRAS


@pytest.mark.skipif(not available(), reason="the loops are not compiled here: make kernels")
def test_the_main_job_without_any_extra() -> None:
    script = Path(__file__).with_name("base_install.py")
    done = subprocess.run([sys.executable, str(script), "--hide"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the base install works\n")
