"""Nothing is lost silently: whatever goes wrong between a device and a rule is said where it happens, with a count."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import COORDINATOR, CUT, run
from runs import store as new_store

from privpac.device.submit import fetch, submit
from privpac.device.wire import bundle, pack_report
from privpac.errors import ManifestError, ParameterError
from privpac.protocols import AnalyzerKey, Client, Manifest
from privpac.protocols.collect import Collector
from privpac.protocols.files import fault_of, pack_folder, read_folder, read_shuffled, unpack_folder, write_shuffled

KEY = AnalyzerKey(bytes(range(32)))
RECORDS = [{"age": age, "ill": int(age >= CUT)} for age in range(100)]
RIGHT = run("local", analyzer=KEY.public).manifest.signed(COORDINATOR)
WRONG = run("local", analyzer=KEY.public, seed=bytes(32)).manifest.signed(COORDINATOR)


def message(manifest: Manifest = RIGHT) -> bytes:
    return bundle(Client(manifest).send(None))


@contextmanager
def collecting(folder: Path, manifest: Manifest = RIGHT, **more: Any) -> Iterator[str]:
    with Collector(manifest, folder, **more) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"{'https' if 'certificate' in more else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


# On the way


def test_a_message_of_another_run_is_refused_on_arrival_and_the_right_one_is_still_taken(tmp_path: Path) -> None:
    with collecting(tmp_path / "in") as url:
        with pytest.raises(ParameterError, match="not that of a collector of this run"):
            submit(url, "ann", message(WRONG), run=WRONG.run)  # seen from the answer, before anything is sent
        with pytest.raises(ParameterError, match="421: the collector serves another run"):
            submit(url, "ann", message(WRONG), run=RIGHT.run)
        with pytest.raises(ParameterError, match="422: the messages are cut"):
            submit(url, "ann", message()[:-1], run=RIGHT.run)
        with pytest.raises(ParameterError, match="421"):  # the same run without its key is another run
            submit(url, "ann", bundle(Client(run("local").manifest).send(None)), run=RIGHT.run)
        with pytest.raises(ParameterError, match="422"):  # a message of this run that is not sealed
            submit(url, "ann", bundle([pack_report(RIGHT.run, 0, 0, 0)]), run=RIGHT.run)
        with pytest.raises(ParameterError, match="413"):
            submit(url, "ann", bytes(1000), run=RIGHT.run)
        later = message().replace(b"PPX1", b"PPX9")
        with pytest.raises(ParameterError, match="426: the collector speaks another version"):
            submit(url, "ann", later, run=RIGHT.run)
        assert list((tmp_path / "in").iterdir()) == []
        good = message()
        submit(url, "ann", good, run=RIGHT.run)
        submit(url, "ann", good, run=RIGHT.run)
    assert (tmp_path / "in" / "ann").read_bytes() == good


def test_a_client_with_an_emptied_store_is_told_before_a_second_message_leaves(tmp_path: Path) -> None:
    seen: list[int] = []
    with collecting(tmp_path / "in") as url:
        submit(url, "ann", message(), run=RIGHT.run)
        before = (tmp_path / "in" / "ann").read_bytes()
        original = Collector.take
        Collector.take = lambda self, name, body: seen.append(1) or original(self, name, body)  # type: ignore
        try:
            with pytest.raises(ParameterError, match=r"another store.*nothing was sent"):
                submit(url, "ann", message(), run=RIGHT.run)
        finally:
            Collector.take = original  # type: ignore[method-assign]
    assert seen == []
    assert (tmp_path / "in" / "ann").read_bytes() == before


class _Portal(BaseHTTPRequestHandler):
    """A network that asks for a login: every page is its own."""

    answers = 200

    def log_message(self, *args: Any) -> None:
        pass

    def _say(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.send_response(self.answers)
        if 300 <= self.answers < 400:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/login")  # type: ignore
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"login")

    do_GET = do_POST = _say


@pytest.mark.parametrize("status", [200, 301, 302, 303, 307, 308, 403, 500])
def test_redirects_and_captive_portals_are_errors(status: int) -> None:
    seen: list[str] = []

    class Portal(_Portal):
        answers = status

        def parse_request(self) -> bool:
            good = super().parse_request()
            seen.append(getattr(self, "path", ""))
            return good

    with ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(ParameterError, match=r"not that of a collector|did not take"):
                submit(f"http://127.0.0.1:{server.server_port}", "ann", message(), run=RIGHT.run)
        finally:
            server.shutdown()
    assert seen == ["/receipt/ann"]  # nothing was sent, and nothing was followed


def test_operators_tokens_limits_and_rates(tmp_path: Path) -> None:
    secret, mine = "o" * 20, "t" * 20
    with collecting(tmp_path / "in", tokens={"ann": mine}, operator=secret) as url:
        submit(url, "ann", message(), mine, run=RIGHT.run)
        for token in (None, mine, "x"):
            with pytest.raises(ParameterError, match="404"):
                fetch(url, "/submissions", RIGHT.run, token)
        (entry,) = unpack_folder(RIGHT, fetch(url, "/submissions", RIGHT.run, secret))
        assert entry[0] == "ann"
        with pytest.raises(ParameterError, match="401"):
            submit(url, "bob", message(), mine, run=RIGHT.run)
        assert Manifest.read(fetch(url, "/manifest", RIGHT.run)) == RIGHT
    with collecting(tmp_path / "few", rate=5) as url:
        for i in range(2):
            submit(url, f"p{i}", message(), run=RIGHT.run)
        said = []
        for i in range(4):
            try:
                submit(url, f"q{i}", message(), run=RIGHT.run)
            except ParameterError as error:
                said.append(str(error))
        assert any("429" in text for text in said)


def test_a_collector_beyond_this_machine_needs_tokens_and_encryption(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="tokens"):
        Collector(RIGHT, tmp_path, host="0.0.0.0")
    with pytest.raises(ParameterError, match="certificate"):
        Collector(RIGHT, tmp_path, host="0.0.0.0", tokens={})
    Collector(RIGHT, tmp_path, host="0.0.0.0", tokens={}, behind_proxy=True).server_close()
    with pytest.raises(ParameterError, match="could not be read"):
        Collector(RIGHT, tmp_path, certificate=(tmp_path / "none", tmp_path / "none"))


def _certificate(folder: Path) -> tuple[Path, Path]:
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "private.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


def test_a_collector_with_its_own_certificate(tmp_path: Path) -> None:
    chain, private = _certificate(tmp_path)
    with collecting(tmp_path / "in", certificate=(chain, private)) as url:
        submit(url, "ann", message(), run=RIGHT.run, authority=str(chain))
        with pytest.raises(ParameterError, match=r"verified|reached"):
            submit(url, "bob", message(), run=RIGHT.run)
        with pytest.raises(ParameterError, match="reached"):
            submit(url.replace("https", "http"), "bob", message(), run=RIGHT.run)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["ann"]
    assert isinstance(ssl.OPENSSL_VERSION, str)


# Files


def test_cut_and_foreign_files_are_an_error_with_a_count(tmp_path: Path) -> None:
    good = [message() for _ in range(5)]
    for i, data in enumerate(good):
        (tmp_path / f"p{i}").write_bytes(data)
    (tmp_path / "cut").write_bytes(message()[:-3])
    (tmp_path / "other").write_bytes(message(WRONG))
    (tmp_path / "photo").write_bytes(b"\x89PNG and more")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "newer").write_bytes(message().replace(b"PPX1", b"PPX2"))
    (tmp_path / "open").write_bytes(message(run("local").manifest))
    with pytest.raises(ParameterError) as told:
        read_folder(RIGHT, tmp_path)
    said = str(told.value)
    assert "6 of 11" in said
    for part in ("2 not messages", "1 of another version", "2 of another run", "1 cut or damaged", "right manifest"):
        assert part in said
    kept = read_folder(RIGHT, tmp_path, skip=True)
    assert sum(messages != [b""] for _, messages in kept) == 5
    with pytest.raises(ParameterError, match="10 of 11"):
        read_folder(WRONG, tmp_path)


@given(st.binary(max_size=120))
def test_no_bytes_but_a_submission_pass(data: bytes) -> None:
    assert fault_of(RIGHT, data) is not None


@given(st.data())
def test_a_submission_with_a_changed_outside_never_passes(data: Any) -> None:
    body = bytearray(message())
    place = data.draw(st.integers(0, 16))  # length and frame
    body[place] ^= data.draw(st.integers(1, 255))
    assert fault_of(RIGHT, bytes(body)) is not None


@pytest.mark.parametrize("model", ["local", "shuffle", "central"])
@pytest.mark.parametrize("key", [None, KEY.public])
def test_every_honest_submission_passes(model: str, key: bytes | None) -> None:
    made = run(model, analyzer=key).manifest
    universe = made.task.learner.universe
    for item in (None, universe.item(0), universe.item(100)):
        assert fault_of(made, bundle(Client(made).send(item))) is None
    if model == "shuffle":
        too_many = Client(made).send(None)[:1] * (made.shuffle.cap + 1)
        assert fault_of(made, bundle(too_many)) == "many"


def test_cut_and_foreign_shuffled_files_and_folders(tmp_path: Path) -> None:
    made = run("shuffle", analyzer=KEY.public).manifest
    messages = [m for _ in range(5) for m in Client(made).send(None)]
    whole = write_shuffled(made, messages, 5)
    assert read_shuffled(made, whole) == (messages, 5)
    for cut in (1, 40, len(whole) // 2):
        with pytest.raises(ParameterError, match=rf"cut or damaged \(at most \d+ of {len(messages)} messages"):
            read_shuffled(made, whole[:-cut])
    flipped = bytearray(whole)
    flipped[100] ^= 1
    with pytest.raises(ParameterError, match="cut or damaged"):
        read_shuffled(made, bytes(flipped))
    other = run("shuffle", analyzer=KEY.public, seed=bytes(32)).manifest
    with pytest.raises(ParameterError, match=f"are of run {made.run[:8].hex()}, this manifest is run"):
        read_shuffled(other, whole)
    (tmp_path / "ann").write_bytes(bundle(Client(made).send(None)))
    packed = pack_folder(made, tmp_path)
    assert unpack_folder(made, packed) == read_folder(made, tmp_path)
    for bad in (packed[:-1], b"", whole):
        with pytest.raises(ParameterError, match="nothing was analysed"):
            unpack_folder(made, bad)


# On the device


def test_a_missing_or_misspelt_column_is_an_error_on_the_device(tmp_path: Path) -> None:
    client = Client(RIGHT)
    for name, hint in (("Age", "there is 'Age'"), (" age", "there is ' age'"), ("alter", "no column 'age';")):
        with pytest.raises(ParameterError, match=hint):
            client.messages([{name: 3, "ill": 1}] * 50)
    with pytest.raises(ParameterError, match="no column 'ill'"):
        client.messages([{"age": 3, "sick": 1}] * 50)
    store = new_store(tmp_path / "mine", "ann", 1)
    with pytest.raises(ParameterError):
        client.messages([{"Age": 3, "ill": 1}], store=store)
    assert store.spent == (0, 0)
    # No records at all is nothing to say, and one record without a value is one record less.
    assert client.item([]) is None
    assert client.item([*RECORDS, {"ill": 1}]) == client.item(RECORDS)


def test_clients_of_another_version_say_so() -> None:
    for version in (1, 3):
        with pytest.raises(ManifestError, match=rf"version {version} of the protocol.*speaks version 2"):
            Manifest({**RIGHT.values, "v": version})
    old = {key: value for key, value in RIGHT.values.items() if key != "analyzer"} | {"v": 1}
    with pytest.raises(ManifestError, match="version 1"):  # and not that a key is missing
        Manifest(old)


def test_a_collector_killed_with_9_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    import os
    import signal
    import sys

    (tmp_path / "run.json").write_bytes(RIGHT.published())
    words = [sys.executable, "-c", "from privpac.cli.app import main; main()", "protocol", "collect", "run.json"]
    acknowledged: dict[str, bytes] = {}
    for round_ in range(2):
        with subprocess.Popen(
            [*words, "--out", "in", "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            url = server.stdout.readline().split()[2]
            for name, body in list(acknowledged.items()):
                submit(url, name, body, run=RIGHT.run)  # idempotent after a restart
            for i in range(10):
                body = message()
                submit(url, f"p{round_}-{i}", body, run=RIGHT.run)
                acknowledged[f"p{round_}-{i}"] = body
            os.kill(server.pid, signal.SIGKILL)
    found = {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir() if not path.name.startswith(".")}
    assert found == acknowledged
