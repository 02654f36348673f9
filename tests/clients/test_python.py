"""The Python client as a distribution of its own: built, installed alone, and the same to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cases import TASKS, drawn

import privpac
from privpac.data import Integers
from privpac.device.correlated_sampling import rate
from privpac.protocols import AnalyzerKey, CoordinatorKey, LocalProtocol
from privpac.protocols.collect import Collector
from privpac.protocols.files import read_folder

HOME = Path(__file__).parents[2] / "clients" / "python"
VECTORS = Path(__file__).parents[2] / "docs" / "wire-vectors.json"
pytestmark = pytest.mark.slow


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    done = _pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(HOME))
    if done.returncode:
        pytest.skip("the wheel of clients/python cannot be built here: hatchling is not to be had")
    (found,) = place.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs."""
    home = tmp_path_factory.mktemp("alone")
    venv.create(home, with_pip=False)
    binary = home / "bin" / "python"
    if _pip("--python", str(binary), "install", "--quiet", str(wheel)).returncode:
        pytest.skip("the package 'cryptography' cannot be installed into a fresh environment here")
    return binary


def _ask(python: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = Path(__file__).parent / "answer.py"
    done = subprocess.run(
        [str(python), "-I", str(script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_wheel_holds_what_a_device_needs_and_nothing_else(wheel: Path) -> None:
    print(f"\n{wheel.name}: {wheel.stat().st_size} bytes")
    assert wheel.stat().st_size < 1 << 18
    assert wheel.name.split("-")[1] == privpac.__version__
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.endswith(".py")]
        for name in names:
            lines = packed.read(name).decode().splitlines()
            imports = [
                line.split()[1]
                for line in lines
                if line.strip().startswith(("import ", "from ")) and len(line.split()) > 1
            ]
            strange = {each.split(".")[0] for each in imports} & {"numpy", "privpac", "scipy", "attrs", "polars"}
            assert not strange, (name, strange)
    assert not [name for name in names if "analyzer" in name or "collect" in name]


def test_published_vectors(python: Path) -> None:
    runs = json.loads(VECTORS.read_text())["runs"]
    for case, found in zip(runs, _ask(python, runs)):
        assert found["run"] == case["run_id"], case["name"]
        assert (found["item"] or "") == case["item"], case["name"]
        assert found["messages"] == case["messages"], case["name"]
        assert found["silent"] == case["messages_of_nothing_to_say"], case["name"]


def test_the_same_as_with_numpy(python: Path) -> None:
    more = [
        ("threshold", {"x": Integers(0, 19)}, {"learner": "reduction", "alpha": "9/10", "parts": 1, "Gamma": rate(9)})
    ]
    cases, expected = drawn([*TASKS, *more], 2)
    for case, found, wanted in zip(cases, _ask(python, cases), expected):
        assert found == wanted, case["manifest"]


def test_the_command_alone(python: Path, tmp_path: Path) -> None:
    """A store, a message, the same message again, and a collector that takes it."""
    key = AnalyzerKey(bytes(range(32)))
    run = LocalProtocol("threshold", {"age": Integers(0, 99)}, 1, label="ill", analyzer=key.public)
    coordinator = CoordinatorKey(bytes(range(1, 33)))
    (tmp_path / "run.json").write_bytes(run.manifest.signed(coordinator).published())
    (tmp_path / "coordinator.pub").write_bytes(coordinator.write()[1])
    (tmp_path / "mine.csv").write_text("age,ill\n" + "".join(f"{i},{int(i > 40)}\n" for i in range(100)))
    command = [str(python.parent / "privpac-client")]

    def call(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    assert "make one with: privpac-client device" in call(
        "send", "run.json", "mine.csv", "a", "--store", "mine", code=2
    )
    call("device", "mine", "--person", "ann", "--epsilon", "1", "--coordinator-key", "coordinator.pub")
    (tmp_path / "bare.json").write_bytes(run.manifest.write())
    assert "is not signed" in call("send", "bare.json", "mine.csv", "a.bin", "--store", "mine", code=2)
    (tmp_path / "eve.json").write_bytes(run.manifest.signed(CoordinatorKey(bytes(32))).published())
    said = call("send", "eve.json", "mine.csv", "a.bin", "--store", "mine", code=2)
    assert "add it with: privpac-client trust" in said
    assert "costs epsilon = 1" in call("send", "run.json", "mine.csv", "a.bin", "--store", "mine")
    with Collector(run.manifest, tmp_path / "in") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        call("send", "run.json", "mine.csv", "b.bin", "--store", "mine", "--url", address)
        server.shutdown()
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    ((name, (message,)),) = read_folder(run.manifest, tmp_path / "in")
    assert name == "ann"
    assert key.open(run.manifest.run, 2, message) is not None
    again = LocalProtocol("threshold", {"age": Integers(0, 99)}, 1, label="ill").manifest
    (tmp_path / "other.json").write_bytes(again.signed(coordinator).published())
    assert "1 of your total 1 are spent" in call("send", "other.json", "mine.csv", "c.bin", "--store", "mine", code=2)
