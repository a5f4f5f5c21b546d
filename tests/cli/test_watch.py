"""`generic-trainer watch`: the page of a training while it runs, and after its end."""

from __future__ import annotations

import http.client
import http.server
import json
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from generic_trainer.executors.monitoring import live_state
from generic_trainer.executors.monitoring.progress_reports import Progress
from generic_trainer.executors.reporting.live import live_report

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULE = """
    import pathlib, time
    import tensorflow as tf
    from generic_trainer import report_progress

    def run_fn(fn_args):
        report_progress(0, total=1000)
        step = 0
        while not pathlib.Path("go on").exists():
            step += 1
            report_progress(step, examples=8, metrics={"loss": 1 / step})
            time.sleep(0.02)
        model = tf.Module()
        model.serve = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32)])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


def page_of(address: str) -> tuple[str, Any]:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 (http on this machine)
        return answer.read().decode(), answer.headers


def test_a_running_training_is_shown_until_its_end(iris: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "counting.py").write_text(textwrap.dedent(MODULE))
    program = [sys.executable, "-m", "generic_trainer.cli.main"]
    training = subprocess.Popen(
        [*program, "train", "counting.py", "--train-files", iris.train, "--output", "out"], cwd=tmp_path
    )
    state = tmp_path / "out" / "model_run" / live_state.FILE_NAME
    while not state.exists() or len(json.loads(state.read_text())["steps"]) < 3:
        assert training.poll() is None
        time.sleep(0.1)
    watching = subprocess.Popen([*program, "watch", "out"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    line = watching.stdout.readline()
    address = line.split()[0]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    assert "ssh -L" in line
    page, headers = page_of(address)
    assert headers["Refresh"] == "3"
    assert re.search(r"Step \d+ of 1,000, [\d.]+ steps/s", page)
    assert "Dialect run_fn" in page  # of the log
    assert "Memory" in page
    assert '<figure class="chart"' in page

    # A page of another site cannot read it through a name that resolves to this machine.
    connection = http.client.HTTPConnection(address.split("/")[2])
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 404

    (tmp_path / "go on").touch()
    assert training.wait() == 0
    page, headers = page_of(address)
    assert headers["Refresh"] is None
    assert "succeeded" in page
    assert not state.exists()
    watching.send_signal(signal.SIGINT)
    assert watching.wait() == 130


def test_a_killed_command_is_noticed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"id": "1", "status": "running", "code": {"reference": "a.py"}}))
    assert "No training process is running. Finished phases: none." in str(live_report(str(tmp_path)))
    state = {"time": time.time() - 100, "line": "Step 7", "share": 0.5, "steps": [], "curves": {}, "resources": {}}
    (tmp_path / live_state.FILE_NAME).write_text(json.dumps(state))
    assert "The last sign of life was 1 min 40 s ago" in str(live_report(str(tmp_path)))


def test_curves_are_bounded_and_forget_steps_that_are_done_again() -> None:
    history = live_state._History()

    def state(step: float) -> live_state.LiveState:
        found = Progress(0, step, step, 0, step, 0, {"metrics": {"loss": 1 / (1 + step)}})
        return history.state(found, {})

    for step in range(5000):
        last = state(step)
    assert 200 <= len(last["steps"]) <= 401
    assert last["steps"] == sorted(last["steps"])
    assert last["curves"]["loss"][0] == 1 / (1 + last["steps"][0])
    assert max(state(1000)["steps"]) <= 1000


def test_there_must_be_a_run_and_a_free_port(command: Command, tmp_path: pathlib.Path) -> None:
    done = command("watch", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing" in done.stderr
    (tmp_path / "out" / "model_run").mkdir(parents=True)
    record = {"id": "0123", "status": "succeeded", "started": "2026-11-01T00:00:00+00:00"}
    (tmp_path / "out" / "model_run" / "run.json").write_text(json.dumps(record))
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as taken:
        done = command("watch", "out", "--port", str(taken.server_port), cwd=tmp_path)
    assert done.returncode == 2
    assert "Choose another one" in done.stderr
