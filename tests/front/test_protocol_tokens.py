"""``privpac protocol tokens``, a page's origin, and parameters that are what the rule needs."""

from __future__ import annotations

import http.client
import io
import json
import threading
from pathlib import Path

import pytest
from commands import Command

from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.protocols import LocalProtocol, Manifest
from privpac.protocols.collect import Collector

NEW = ("protocol", "new", "run.json", "--feature", "age=0:9", "--epsilon", "1", "--sign", "c.key")


def test_everyone_has_a_token_of_their_own(command: Command, tmp_path: Path) -> None:
    (tmp_path / "people.txt").write_text("ann\n\n bob \n")
    assert "3 tokens" in command("protocol", "tokens", "t.txt", "--names", "people.txt", "--name", "eve").out
    pairs = [line.split() for line in (tmp_path / "t.txt").read_text().splitlines()]
    assert [name for name, _ in pairs] == ["eve", "ann", "bob"]
    assert len({token for _, token in pairs}) == 3
    assert all(len(token) == 32 for _, token in pairs)
    assert (tmp_path / "t.txt").stat().st_mode & 0o077 == 0
    before = (tmp_path / "t.txt").read_bytes()
    refused = command("protocol", "tokens", "t.txt", "--name", "eve")
    assert refused.code == 2
    assert "never overwritten" in refused.err
    assert (tmp_path / "t.txt").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "tokens for whom"),
        (["--name", "a/b"], "1 of 1 names"),
        (["--name", "ann", "--name", "ann"], "occurs twice"),
        (["--names", "none.txt"], "cannot read"),
    ],
)
def test_bad_names_make_no_tokens(command: Command, tmp_path: Path, words: list[str], said: str) -> None:
    run = command("protocol", "tokens", "t.txt", *words)
    assert run.code == 2
    assert said in run.err
    assert not (tmp_path / "t.txt").exists()


@pytest.mark.parametrize(
    ("words", "parameter", "value"),
    [
        (["--rule", "threshold", "--set", "learner=lists", "--set", "alpha=1"], "alpha", "1"),
        (["--rule", "threshold", "--set", "learner=lists", "--set", "parts=3"], "parts", 3),
        (["--rule", "halfspace", "--set", "ridge=1", "--set", "grid=8"], "ridge", "1"),
        (["--rule", "halfspace", "--set", "grid=8"], "grid", 8),
    ],
)
def test_a_parameter_is_what_the_rule_needs(
    command: Command, tmp_path: Path, words: list[str], parameter: str, value: object
) -> None:
    command("protocol", "keys", "c", "--coordinator")
    run = command(*NEW, *words)
    assert run.code == 0, run.err
    assert json.loads((tmp_path / "run.json").read_text())["manifest"]["parameters"][parameter] == value


def test_a_token_is_no_argument(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file, from standard input or from the environment: what stands among the arguments everyone can read."""
    command("protocol", "keys", "c", "--coordinator")
    command(*NEW)
    command("protocol", "device", "mine", "--person", "ann", "--epsilon", "1", "--coordinator-key", "c.pub")
    (tmp_path / "mine.csv").write_text("age,label\n3,1\n")
    secret = "the-token-of-ann"
    manifest = Manifest.read((tmp_path / "run.json").read_bytes())
    with Collector(manifest, tmp_path / "in", tokens={"ann": secret}, operator="the-operator's-own") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        client = ("protocol", "client", "run.json", "mine.csv", "--store", "mine", "--url", url)
        for words, variable in (
            ((*client, "--token", secret), "PRIVPAC_TOKEN"),
            ((*client, f"--token={secret}"), "PRIVPAC_TOKEN"),
            (("protocol", "shuffle", "run.json", url, "--out", "x", "--operator", secret), "PRIVPAC_OPERATOR"),
            (("protocol", "collect", "run.json", "--out", "x", "--operator", secret), "PRIVPAC_OPERATOR"),
        ):
            refused = command(*words)
            assert refused.code == 2
            assert variable in refused.err
            assert "-file PATH" in refused.err
            assert secret not in refused.err
        assert "401" in command(*client).err
        (tmp_path / "two").write_text("two words\n")
        (tmp_path / "empty").write_text("\n")
        for name in ("two", "empty", "none"):
            refused = command(*client, "--token-file", name)
            assert (refused.code, "token" in refused.err, "words" in refused.err) == (2, True, False)
        assert server.clients == 0
        (tmp_path / "token").write_text(f"{secret}\n")
        assert command(*client, "--token-file", "token").code == 0
        assert server.clients == 1
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
        assert command(*client, "--token-file", "-").code == 0
        monkeypatch.setenv("PRIVPAC_TOKEN", secret)
        assert command(*client).code == 0
        server.shutdown()


def _answer(server: Collector, method: str, path: str) -> http.client.HTTPResponse:
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    link.request(method, path, headers={"Origin": "https://study.example"})
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer


def test_browsers_may_send_from_the_origin_that_is_named(tmp_path: Path) -> None:
    manifest = LocalProtocol("threshold", {"age": Integers(0, 9)}, 1).manifest
    for origin in (None, "https://study.example"):
        with Collector(manifest, tmp_path, origin=origin) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            asked, given = _answer(server, "OPTIONS", "/submit/ann"), _answer(server, "GET", "/manifest")
            server.shutdown()
        assert asked.status == (404 if origin is None else 204)
        for answer in (asked, given):
            assert answer.getheader("Access-Control-Allow-Origin") == origin
            assert answer.getheader("Access-Control-Expose-Headers") == (origin and "Privpac-Run")
    with pytest.raises(ParameterError, match="without a path"):
        Collector(manifest, tmp_path, origin="https://study.example/page")
    with pytest.raises(ParameterError, match="without a path"):
        Collector(manifest, tmp_path, origin="*")
