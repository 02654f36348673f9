"""``privpac protocol``: every role a command of its own, files and loopback HTTP between them, one clear line for every
error."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command, Run

import privpac as pp
from privpac.device.client import Client, bundle
from privpac.device.submit import submit
from privpac.device.wire import unbundle
from privpac.errors import ParameterError
from privpac.protocols import CoordinatorKey, Manifest, fingerprint
from privpac.protocols.collect import Collector
from privpac.protocols.files import limit_of, read_folder, read_shuffled
from privpac.result import Released

SECRET = 987654
SIGN = ["--sign", "coordinator.key"]
NEW = ["--feature", "age=0:99", "--label", "ill", "--gamma", "20", *SIGN]
PIN = ["--coordinator-key", "coordinator.pub"]
COORDINATOR = CoordinatorKey(bytes(range(1, 33)))


@pytest.fixture
def privpac(command: Command, tmp_path: Path) -> Command:
    """Runs the command in this process, from the temporary folder, where a coordinator's keys are."""
    for name, data in zip(("coordinator.key", "coordinator.pub"), COORDINATOR.write()):
        (tmp_path / name).write_bytes(data)
    return command


def one_line(run: Run, code: int = 2) -> str:
    assert run.code == code, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert run.err.startswith("privpac: ")
    for never in ("Traceback", str(SECRET), 'File "'):
        assert never not in run.err
    return run.err


def csv(path: Path, seed: int, records: int = 120) -> Path:
    age = np.random.default_rng(seed).integers(0, 100, records)
    path.write_text("age,ill\n" + "".join(f"{a},{int(a >= 41)}\n" for a in age))
    return path


def fill(folder: Path, manifest: Path, people: int) -> None:
    """Submissions as the clients' files."""
    folder.mkdir(exist_ok=True)
    client = Client(Manifest.read(manifest.read_bytes()))
    rows = [{"age": a, "ill": int(a >= 41)} for a in range(100)]
    said = client.item(rows)
    for i in range(people):
        (folder / f"u{i}").write_bytes(bundle(client.send(said)))


# Files


def test_a_local_run_from_manifest_to_rule(privpac: Command, tmp_path: Path) -> None:
    made = privpac("protocol", "new", "run.json", *NEW, "--epsilon", "4")
    assert made.code == 0
    assert "(4, 0)-DP per user, replace, local model" in made.out
    fill(tmp_path / "in", tmp_path / "run.json", 150)
    assert fingerprint(COORDINATOR.public) in made.out
    device = privpac("protocol", "device", "mine", "--person", "ann", "--epsilon", "4", *PIN)
    assert device.code == 0
    assert f"trusts the coordinator {fingerprint(COORDINATOR.public)}" in device.out
    sent = privpac(
        "protocol", "client", "run.json", csv(tmp_path / "mine.csv", 1), "--out", "in/ann", "--store", "mine"
    )
    assert "private by itself" in sent.out
    assert "epsilon 4 of 4" in sent.out
    assert sent.code == 0
    assert str(SECRET) not in sent.out
    first = (tmp_path / "in/ann").read_bytes()
    csv(tmp_path / "mine.csv", 2)
    again = privpac("protocol", "client", "run.json", "mine.csv", "--out", "in/ann", "--store", "mine")
    assert "again, the same bytes" in again.out
    assert (tmp_path / "in/ann").read_bytes() == first
    (tmp_path / "in/eve").write_bytes(b"garbage")
    (tmp_path / "in/large").write_bytes(bytes(100_000))
    (tmp_path / "in/folder").mkdir()
    (tmp_path / "in/link").symlink_to("/dev/zero")
    (tmp_path / "in/bad name").write_bytes(first)
    (tmp_path / "in/.hidden").write_bytes(first)
    said = one_line(privpac("protocol", "analyze", "run.json", "in", "--out", "rule.json"))
    assert "5 of 156 submissions in the folder 'in' are not whole ones of this run (5 not messages)" in said
    found = privpac("protocol", "analyze", "run.json", "in", "--out", "rule.json", "--skip-damaged")
    assert (found.code, found.err) == (0, "")
    assert "151 messages, 5 dropped (5 malformed)" in found.out
    assert "named by about" in found.out
    rule = Released.load(tmp_path / "rule.json")
    assert rule.outcome == "released"
    assert rule.predict([[99]]).tolist() == [1]
    shown = json.loads(privpac("protocol", "analyze", "run.json", "in", "--json", "--skip-damaged").out)
    assert (shown["received"], shown["dropped"], shown["released"]["outcome"]) == (151, 5, "released")
    assert shown["reasons"] == {"malformed": 5}
    assert shown["support"]["people"] == 151


def test_a_shuffled_run_needs_its_clients_and_is_mixed_once(privpac: Command, tmp_path: Path) -> None:
    options = ["--model", "shuffle", "--epsilon", "2", "--delta", "1e-6", "--n-min", "40", "--n-max", "60"]
    assert "privpac protocol keys" in one_line(privpac("protocol", "new", "run.json", *NEW, *options))
    made = privpac("protocol", "keys", "analyzer")
    assert (made.code, (tmp_path / "analyzer.key").stat().st_mode & 0o077) == (0, 0)
    assert "never overwritten" in one_line(privpac("protocol", "keys", "analyzer"))
    assert privpac("protocol", "new", "run.json", *NEW, *options, "--key", "analyzer.pub").code == 0
    fill(tmp_path / "in", tmp_path / "run.json", 39)
    assert "39 clients are fewer than n_min = 40" in one_line(
        privpac("protocol", "shuffle", "run.json", "in", "--out", "mixed.bin"), 3
    )
    assert not (tmp_path / "mixed.bin").exists()
    fill(tmp_path / "in", tmp_path / "run.json", 45)
    (tmp_path / "in/eve").write_bytes(b"garbage")
    assert "1 of 46" in one_line(privpac("protocol", "shuffle", "run.json", "in", "--out", "mixed.bin"))
    mixed = privpac("protocol", "shuffle", "run.json", "in", "--out", "mixed.bin", "--skip-damaged").out
    assert "of 45 clients; dropped: 1 malformed" in mixed
    first = (tmp_path / "mixed.bin").read_bytes()
    fill(tmp_path / "in", tmp_path / "run.json", 50)
    assert privpac("protocol", "shuffle", "run.json", "in", "--out", "again.bin").code == 0
    assert (tmp_path / "again.bin").read_bytes() == first
    assert "private key" in one_line(privpac("protocol", "analyze", "run.json", "mixed.bin"))
    assert "private file" in one_line(privpac("protocol", "analyze", "run.json", "mixed.bin", "--key", "analyzer.pub"))
    privpac("protocol", "keys", "other")
    assert "not the private key" in one_line(
        privpac("protocol", "analyze", "run.json", "mixed.bin", "--key", "other.key")
    )
    found = privpac("protocol", "analyze", "run.json", "mixed.bin", "--key", "analyzer.key")
    assert found.code == 0
    assert "ε = 2, δ = 1e-06 for each person, shuffle model" in found.out
    (tmp_path / "cut.bin").write_bytes(first[: len(first) // 2])
    said = one_line(privpac("protocol", "analyze", "run.json", "cut.bin", "--key", "analyzer.key"))
    assert "cut or damaged" in said
    assert "messages are there" in said


def test_a_central_run_is_selected_from_once(privpac: Command, tmp_path: Path) -> None:
    assert (
        privpac(
            *("protocol", "new", "run.json", *NEW, "--model", "central", "--epsilon", "1", "--delta", "1e-6"),
            "--unsealed",
        ).code
        == 0
    )
    fill(tmp_path / "in", tmp_path / "run.json", 60)
    first = privpac("protocol", "analyze", "run.json", "in")
    assert first.code == 0
    assert "60" not in first.out.split("named by")[0].split("beta")[0]
    assert "the number of messages is private" in first.out
    assert "certain" in first.out
    fill(tmp_path / "in", tmp_path / "run.json", 80)
    assert privpac("protocol", "analyze", "run.json", "in") == first
    pure = privpac(
        "protocol",
        "new",
        "pure.json",
        *NEW,
        "--model",
        "central",
        "--epsilon",
        "1",
        "--neighbours",
        "replace",
        "--unsealed",
        "--json",
    )
    assert json.loads(pure.out)["manifest"]["mechanism"] == {"selector": "pure"}


def test_separate_processes_without_the_heavy_libraries(tmp_path: Path, privpac: Command) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    names = ["send", "run.json", str(csv(tmp_path / "r.csv", 3)), "ann", "--store", "mine"]
    for words in (["device", "mine", "--person", "ann", "--epsilon", "1", *PIN], names):
        done = subprocess.run(
            [sys.executable, "-m", "privpac.device.client", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "")
    assert len(unbundle((tmp_path / "ann").read_bytes())) == 1


# Bad input

MORE = ["--epsilon", "1"]
BAD: dict[str, tuple[list[str], str]] = {
    "model": ([*NEW, *MORE, "--model", "open"], "local, shuffle or central"),
    "epsilon": ([*NEW, "--epsilon", "-1"], "epsilon"),
    "rule": ([*NEW, *MORE, "--rule", "oracle"], "one of"),
    "delta for local": ([*NEW, *MORE, "--delta", "1e-6"], "does not use --delta"),
    "shuffle without n": ([*NEW, *MORE, "--model", "shuffle", "--delta", "1e-6", "--unsealed"], "--n-min"),
    "parameter": ([*NEW, *MORE, "--set", "grid"], "name=value"),
    "unknown parameter": ([*NEW, *MORE, "--set", "speed=3"], "speed"),
    "gamma": (["--feature", "age=0:99", *MORE, *SIGN, "--gamma", "-1"], "gamma"),
    "width": ([*NEW, *MORE, "--width", "0"], "width"),
    "sealed and not": ([*NEW, *MORE, "--unsealed", "--key", "x"], "one of the two"),
    "no such key": ([*NEW, *MORE, "--key", "none.pub"], "cannot read"),
    "two columns": (["--feature", "a=0:9", "--feature", "b=0:9", *MORE, *SIGN], "one column"),
    "label is a feature": (["--feature", "ill=0:9", "--label", "ill", *MORE, *SIGN], "different names"),
    "nobody signs": (["--feature", "age=0:99", *MORE], "--sign coordinator.key"),
    "signed by a public key": (["--feature", "age=0:99", *MORE, "--sign", "coordinator.pub"], "private file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_make_no_manifest(privpac: Command, tmp_path: Path, name: str) -> None:
    words, said = BAD[name]
    assert said in one_line(privpac("protocol", "new", "run.json", *words))
    assert {path.name for path in tmp_path.iterdir()} == {"coordinator.key", "coordinator.pub"}


def test_bad_files_and_places(privpac: Command, tmp_path: Path) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    mine = csv(tmp_path / "mine.csv", 1)
    privpac("protocol", "device", "s", "--person", "ann", "--epsilon", "1", *PIN)

    def client(*words: object) -> str:
        return one_line(privpac("protocol", "client", *words, "--store", "s"))

    assert "exists" in one_line(privpac("protocol", "new", "run.json", *NEW, "--epsilon", "2"))
    assert "cannot read the manifest" in client("none.json", mine, "--out", "x")
    assert "cannot read the records" in client("run.json", "none.csv", "--out", "x")
    assert "--out FILE or --url" in client("run.json", mine)
    assert "belongs to 'ann'" in client("run.json", mine, "--out", "x", "--name", "bob")
    assert "there is no store" in one_line(
        privpac("protocol", "client", "run.json", mine, "--out", "x", "--store", "none")
    )
    assert "a store already" in one_line(privpac("protocol", "device", "s", "--person", "bob", "--epsilon", "1", *PIN))
    assert "above your limit" in client("run.json", mine, "--out", "x", "--max-epsilon", "1/2")
    assert "same file" in client("run.json", mine, "--out", "mine.csv")
    assert "cannot read the folder" in one_line(privpac("protocol", "analyze", "run.json", "nowhere"))
    assert "nothing to shuffle" in one_line(privpac("protocol", "shuffle", "run.json", ".", "--out", "x"))
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    weak = manifest.write().replace(b'"epsilon":"1"', b'"epsilon":"1/2"')
    signature = COORDINATOR.sign(weak).value.hex().encode()
    head = b'{"coordinator":"' + COORDINATOR.public.hex().encode() + b'","manifest":'
    (tmp_path / "weak.json").write_bytes(head + weak + b',"signature":"' + signature + b'"}')
    assert "lose more" in client("weak.json", mine, "--out", "x")
    # Nobody but the coordinator changes a manifest, and nobody else signs one.
    (tmp_path / "changed.json").write_text((tmp_path / "run.json").read_text().replace('"ill"', '"i1l"'))
    assert "not what its coordinator signed" in client("changed.json", mine, "--out", "x")
    (tmp_path / "bare.json").write_bytes(manifest.write())
    assert "is not signed" in client("bare.json", mine, "--out", "x")
    privpac("protocol", "keys", "eve", "--coordinator")
    eve = CoordinatorKey.read((tmp_path / "eve.key").read_bytes())
    assert (tmp_path / "eve.key").stat().st_mode & 0o077 == 0
    (tmp_path / "eve.json").write_bytes(manifest.signed(eve).published())
    refused = client("eve.json", mine, "--out", "x")
    assert fingerprint(eve.public) in refused
    assert fingerprint(COORDINATOR.public) in refused
    assert "public file of a coordinator's key" in one_line(
        privpac("protocol", "trust", "s", "--coordinator-key", "eve.key")
    )
    (tmp_path / "latin.csv").write_bytes(b"age,ill\n\xff\xff,1\n")
    assert "UTF-8" in client("run.json", "latin.csv", "--out", "x")
    (tmp_path / "typo.csv").write_text("Age,ill\n3,1\n")
    assert "no column 'age'; there is 'Age'" in client("run.json", "typo.csv", "--out", "x")
    assert not (tmp_path / "x").exists()


# HTTP on loopback


@contextmanager
def collecting(manifest: Manifest, folder: Path, **more: Any) -> Iterator[Collector]:
    with Collector(manifest, folder, **more) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def ask(server: Collector, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_clients_submit_over_http_and_the_analysis_finds_them(privpac: Command, tmp_path: Path) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "4")
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    fill(tmp_path / "in", tmp_path / "run.json", 100)
    with collecting(manifest, tmp_path / "in") as server:
        url = f"http://127.0.0.1:{server.server_port}"
        assert ask(server, "GET", "/manifest") == (200, manifest.published())
        privpac("protocol", "device", "mine", "--person", "ann", "--epsilon", "4", *PIN)
        words = ["protocol", "client", "run.json", csv(tmp_path / "mine.csv", 5), "--url", url, "--store", "mine"]
        assert privpac(*words).code == 0
        assert privpac(*words, "--name", "ann").code == 0  # the same bytes again
        submit(url, "bob", bundle(Client(manifest).send(None)), run=manifest.run)
        with pytest.raises(ParameterError, match="409"):
            submit(url, "bob", b"something else", run=manifest.run)
        assert server.clients == 102
    assert "102 messages, 0 dropped" in privpac("protocol", "analyze", "run.json", "in").out
    with pytest.raises(ParameterError, match="could not be reached"):
        submit(url, "carl", b"x", run=manifest.run)


def test_the_collector_refuses_and_never_echoes(privpac: Command, tmp_path: Path) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    body = bundle(Client(manifest).send(None))
    with collecting(manifest, tmp_path / "in", tokens={"ann": "t" * 20}) as server:
        good = {"Authorization": "Bearer " + "t" * 20}
        for path in (
            "/submit/",
            "/submit/../x",
            "/submit/.x",
            "/submit/a%20b",
            "/submit/" + "x" * 200,
            "/other",
            "/submit/a/b",
        ):
            assert ask(server, "POST", path, body, **good) == (404, b"")
        assert ask(server, "GET", "/submit/ann") == (404, b"")
        assert ask(server, "DELETE", "/submit/ann")[0] == 501
        for token in ("", "Bearer ", "Bearer " + "u" * 20, "t" * 20):
            assert ask(server, "POST", "/submit/ann", body, Authorization=token) == (401, b"")
            assert ask(server, "POST", "/submit/eve", body, Authorization=token) == (401, b"")
        assert ask(server, "POST", "/submit/ann", bytes(limit_of(manifest) + 1), **good) == (413, b"")
        for length, status in (("x", 400), ("-1", 400), ("9" * 30, 400), ("", 400), (None, 411)):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as raw:
                framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
                head = f"POST /submit/ann HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {'t' * 20}\r\n{framing}\r\n\r\n"
                raw.sendall(head.encode())
                assert f" {status} ".encode() in raw.recv(100)
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as raw:
            raw.sendall(b"\x00\xff secret nonsense\r\n\r\n")
            raw.shutdown(socket.SHUT_WR)
            assert b"secret" not in b"".join(iter(lambda: raw.recv(1000), b""))
        assert ask(server, "POST", "/submit/ann", body, **good) == (204, b"")
        assert (server.clients, [path.name for path in (tmp_path / "in").iterdir()]) == (1, ["ann"])
    assert list(read_folder(manifest, tmp_path / "in")) == [("ann", unbundle(body))]


def test_collect_command_serves_until_enough_came(tmp_path: Path, privpac: Command) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from privpac.cli.app import main; main()",
            "protocol",
            "collect",
            "run.json",
            "--out",
            "in",
            "--port",
            "0",
            "--until",
            "2",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = server.stdout.readline().split()[2]
        for name in ("ann", "bob"):
            submit(url, name, bundle(Client(manifest).send(None)), run=manifest.run)
        assert server.wait(30) == 0
        assert "without --tokens" in server.stderr.read()
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["ann", "bob"]


def test_tokens_are_read_and_checked(privpac: Command, tmp_path: Path) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    for text in ("ann\n", "ann short\n", f"a/b {'t' * 20}\n", f"ann {'t' * 20}\nann {'u' * 20}\n"):
        (tmp_path / "tokens").write_text(text)
        assert "token" in one_line(
            privpac("protocol", "collect", "run.json", "--out", "in", "--port", "0", "--tokens", "tokens")
        )
    assert "cannot read 'none' as lines of text" in one_line(
        privpac("protocol", "collect", "run.json", "--out", "in", "--tokens", "none")
    )


def test_a_shuffled_file_of_another_run_is_an_error(privpac: Command, tmp_path: Path) -> None:
    privpac("protocol", "new", "run.json", *NEW, "--epsilon", "1")
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    for data in (b"", b"PPS1", b"PPS2", b"PPS2" + bytes(50), bytes(100), b"PPS2" + manifest.run + bytes(90)):
        with pytest.raises(ParameterError, match=r"nothing was analysed|one release"):
            read_shuffled(manifest, data)


def test_a_protocol_by_the_name_of_its_model_refuses_what_it_does_not_use() -> None:
    from privpac.protocols import CentralProtocol, LocalProtocol, ShuffleProtocol, new_protocol

    age: dict[str, Any] = {"rule": "threshold", "features": {"age": pp.Integers(0, 9)}, "epsilon": 1}
    shuffled: dict[str, Any] = {"model": "shuffle", "delta": "1e-6", "n_min": 500}
    made = new_protocol(**age, **shuffled)
    assert isinstance(made, ShuffleProtocol)
    assert made.n_max == 5000
    assert isinstance(new_protocol(**age), LocalProtocol)
    central = new_protocol(**age, model="central", neighbours="replace")
    assert isinstance(central, CentralProtocol)
    assert str(central.guarantee.neighbours) == "replace"
    for wrong, said in (
        ({"delta": "1e-6"}, "does not use delta"),
        ({"neighbours": "replace"}, "does not use neighbours"),
        ({"model": "central", "width": 3, "n_min": 4}, "does not use n_min, width"),
        ({"model": "shuffle", "delta": "1e-6"}, "needs delta .* and n_min"),
        ({"model": "open"}, "local, shuffle or central"),
    ):
        with pytest.raises(ParameterError, match=said):
            new_protocol(**{**age, **wrong})
