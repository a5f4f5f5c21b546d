"""--notify: webhooks and commands are told how a command has ended."""

from __future__ import annotations

import http.server
import json
import pathlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that keeps what it is told; its address, and that."""
    told: list[dict[str, Any]] = []

    class Keep(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if "refuse" in self.path else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Keep) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", told
        server.shutdown()


RETURNS = """
    import tensorflow as tf

    def run_fn(fn_args):
        module = tf.Module()
        module.weight = tf.Variable(1.0)
        serve = tf.function(lambda x: {"y": module.weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
        tf.saved_model.save(module, fn_args.serving_model_dir, signatures=serve)
        return {"eval_auc": 0.75}
"""


def test_a_webhook_and_a_command_are_told_of_success(
    command: Any, module: Any, iris: Any, tmp_path: pathlib.Path, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, told = webhook
    script = tmp_path / "note.py"
    script.write_text(
        "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2] + chr(10) + sys.stdin.read())"
    )
    note = tmp_path / "a note"
    path = module(RETURNS)
    done = command(
        "train", path, "--train-files", iris.train, "--output", tmp_path / "out",
        "--notify", f"{url}/secret", "--notify", f"{sys.executable} {script} '{note}'", "--notify", f"{url}/refuse",
        "--notify", "false", "--notify", "/no/such/command",
    )  # fmt: skip
    assert done.returncode == 0
    [first, refused] = told
    assert first["status"] == refused["status"] == "succeeded"
    assert first["metrics"] == {"eval": {"auc": 0.75}}
    assert first["model_run"] == f"{tmp_path}/out/model_run"
    assert first["text"].startswith(f"generic-trainer train {path} succeeded after ")
    assert first["text"].endswith(f" on {socket.gethostname()}: auc 0.75")
    sentence, _, rest = note.read_text().partition("\n")
    assert (sentence, json.loads(rest)) == (first["text"], first)
    assert f"--notify {url.rpartition(':')[0]} was not told: HTTP Error 500" in done.stderr
    assert "secret" not in done.stderr
    assert "--notify false ended with status 1." in done.stderr
    assert "--notify /no/such/command was not told" in done.stderr


def test_failures_and_interrupts_are_told_too(
    command: Any, signalled: Any, module: Any, iris: Any, tmp_path: pathlib.Path, webhook: Any
) -> None:
    url, told = webhook
    arguments = ["--train-files", iris.train, "--output", str(tmp_path / "out"), "--notify", url]
    broken = module("def run_fn(fn_args):\n    raise KeyError('price')\n", "broken.py")
    assert command("train", broken, *arguments).returncode == 1
    waiting = module("import time\n\ndef run_fn(fn_args):\n    time.sleep(60)\n", "waiting.py")
    _, code = signalled(["train", waiting, *arguments], "Dialect", signal.SIGTERM)
    assert code == 143
    assert [one["status"] for one in told] == ["failed", "interrupted"]
    assert told[0]["error"] == "KeyError: 'price'"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ftp://host/secret", "--notify ftp://host: give an address with http or https, or a command"),
        ("", "--notify is empty"),
        ("'unfinished", "is no command: No closing quotation"),
    ],
)
def test_what_nobody_can_be_told_by_is_refused_before_the_run(
    command: Any, tiny_module: str, iris: Any, tmp_path: pathlib.Path, value: str, message: str
) -> None:
    done = command("train", tiny_module, "--train-files", iris.train, "--output", tmp_path / "out", "--notify", value)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_webhook_is_not_shown_among_the_options(command: Any) -> None:
    arguments = ("train", "m", "--train-files", "x", "--output", "o", "--notify", "https://host/secret")
    assert "secret" not in command(*arguments, "--print-config").stdout
