"""The front door is typed: a checker and an editor know every public name without running anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

import privpac

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

ROOMS = {"auditing", "bounds"}
"""Public names that are packages; all others are classes, functions and one value."""

USES = """
def uses(data: pp.UserData, cuts: pp.Thresholds, claim: pp.auditing.Claim) -> None:
    made: pp.Released = pp.learn(data, "threshold", epsilon=1)
    made = pp.learn(data, cuts, epsilon="1/2")
    sure: bool = bool(pp.audit(len, datasets=([1], []), runs=40))
    least: pp.auditing.Audit = pp.audit(len, datasets=([1], []))
    worst: pp.auditing.Refutation = pp.auditing.refute(claim)
    print(pp.plan(cuts, epsilon=1, alpha="0.1", records_per_user=4))
"""

MISUSES = [
    "pp.learn(data, 3, epsilon=1)",
    "pp.learn(data, cuts)",
    "pp.learn([1, 2], cuts, epsilon=1)",
    "pp.learn(data, cuts, epsilon=[1])",
    "pp.audit(len, universe=3)",
    "pp.audit(len, datasets=([1], []), runs='many')",
    "pp.audit.refute",
    "pp.auditing(len)",
    "pp.plan(cuts, epsilon=[1])",
    "pp.quantile(data, 3, q='1/2', epsilon=1)",
    "pp.evaluate(made, 3, epsilon=1)",
    "pp.load(3)",
    "pp.Thresholds(3)",
    "pp.Integers('a', 3)",
    "pp.no_such_name",
    "pp.AgreementLearner(cuts, 1, repeats='many')",
    "pp.AgnosticReduction(None, 1, 2, split=3)",
    "pp.DeletionStability(len, 1)",
    "pp.FriendlyMean(1, '1e-6')",
    "pp.NamedReduction(cuts, 1)",
    "pp.TreeLearner(cuts, 1)",
    "pp.TrimmedMean(1, '1e-6', width=1, trim='all')",
    "pp.TrimmedSelection(cuts, 1)",
]


def checked(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    """What ``mypy --strict`` says of a module that uses the library: lines and messages."""
    file = tmp_path / "user.py"
    file.write_text(text)
    options = ["--strict", "--config-file=", "--ignore-missing-imports", "--follow-imports=normal"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", str(tmp_path / "cache"), str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    said = re.findall(r"^.*user\.py:(\d+): (.*)$", run.stdout, flags=re.MULTILINE)
    return [(int(line), message) for line, message in said]


@pytest.mark.slow
def test_mypy_knows_every_public_name_and_rejects_misuse(tmp_path: Path) -> None:
    """One run: the type of each name of ``pp``, a correct use without complaint, and an error in each misuse."""
    names = list(privpac.__all__)
    top = ["import privpac as pp", *(f"reveal_type(pp.{name})" for name in names), *USES.splitlines()]
    wrong = ["def wrong(data: pp.UserData, cuts: pp.Thresholds, made: pp.Released) -> None:"]
    text = "\n".join([*top, *wrong, *(f"    {use}" for use in MISUSES)])
    said = checked(tmp_path, text + "\n")

    shown = {line: message for line, message in said if message.startswith("note: Revealed type is")}
    types = {name: shown[number + 2].removeprefix("note: Revealed type is ") for number, name in enumerate(names)}
    assert len(types) == len(names)
    for name, kind in types.items():
        assert kind != '"Any"', name
        if name in ROOMS:
            assert "ModuleType" in kind
        elif name == "BOTTOM":
            assert kind == '"privpac.law.blocks.Bottom"'
        elif name[0].isupper():
            assert re.search(rf"-> privpac\.[\w.]*\.{name}\W", kind.replace("[", " ")), f"{name}: {kind}"
        else:
            assert kind.startswith(('"def (', '"Overload(')), f"{name}: {kind}"
            assert not re.search(r'-> Any"$', kind), f"{name}: {kind}"

    errors = {line: message for line, message in said if message.startswith("error:")}
    first = len(top) + len(wrong) + 1
    assert not {line: message for line, message in errors.items() if line < first}
    accepted = [use for number, use in enumerate(MISUSES) if first + number not in errors]
    assert not accepted


def test_an_editor_completes_the_front_without_running_it() -> None:
    """Jedi reads the stubs: each public name, with what it is, and the names of the rooms."""
    script = jedi.Script("import privpac as pp\npp.")
    kinds = {found.name: found.type for found in script.complete(2, 3)}
    assert set(privpac.__all__) <= set(kinds)
    for name in privpac.__all__:
        expected = "module" if name in ROOMS else "class" if name[0].isupper() else "function"
        assert kinds[name] == ("instance" if name == "BOTTOM" else expected), name
    for room in sorted(ROOMS):
        listed = {found.name for found in jedi.Script(f"import privpac as pp\npp.{room}.").complete()}
        assert set(getattr(privpac, room).__all__) <= listed
    (signature,) = jedi.Script("import privpac as pp\npp.learn(").get_signatures()
    assert [each.name for each in signature.params[:2]] == ["data", "rule"]
