"""Workers forked from a process that has imported TensorFlow: isolated like new processes, and reliably ended."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import TrainingProcessError
from generic_trainer.executors.engines import child_process, fork_server
from generic_trainer.executors.modules.libraries import libraries_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")

ABOUT = """
    import os, random, sys, time

    IMPORTED = [*sys.modules]

    def execute(request):
        import numpy as np
        import tensorflow as tf
        if request.get("notes"):
            with open(request["notes"], "w") as file:
                file.write(f"{os.getpid()} {os.getppid()}")
            time.sleep(1000)
        return {
            "there": "tensorflow" in IMPORTED,
            "libraries": IMPORTED,
            "server": os.getppid(),
            "seen": os.environ.get("SEEN_BY_WORKER"),
            "folder": os.getcwd(),
            "threads": len(os.listdir("/proc/self/task")),
            "stand_ins": [name for name, module in sys.modules.items() if type(module).__name__ == "_LazyModule"],
            "random": [
                random.random(),
                float(np.random.random()),
                float(tf.random.uniform([])),
                float(tf.random.Generator.from_non_deterministic_state().uniform([])),
                float(tf.keras.initializers.GlorotUniform()([3, 3])[0, 0]),
            ],
        }
"""


@pytest.fixture
def worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "forked_worker.py").write_text(textwrap.dedent(ABOUT))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "forked_worker"


def run(worker: str, request: dict[str, Any] | None = None, **variables: str) -> dict[str, Any]:
    return child_process.run(worker, request or {}, environment=variables, forked=True)


def test_workers_of_one_server_are_isolated_from_each_other(
    worker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "")  # may differ from worker to worker
    first = run(worker)
    monkeypatch.chdir(tmp_path)
    second = run(worker)
    assert (first["there"], second["there"]) == (True, True)
    assert first["server"] == second["server"] != os.getpid()
    assert second["folder"] == str(tmp_path)
    assert first["stand_ins"] == []
    for one, other in zip(first["random"], second["random"], strict=True):
        assert one != other
    # The environment can affect imports, so a different one needs another server.
    third = run(worker, SEEN_BY_WORKER="yes")
    assert third["seen"] == "yes"
    assert third["server"] != second["server"]
    assert run(worker)["seen"] is None


def test_a_prepared_server_has_imported_what_a_module_imports(
    worker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEN_BY_WORKER", "a server of its own")
    (tmp_path / "trainer.py").write_text(
        "import tensorflow_transform as tft\n\ndef run_fn(fn_args):\n    import tfx_bsl\n"
    )
    libraries = libraries_of([str(tmp_path / "trainer.py")])
    assert libraries == ["tensorflow_transform", "tfx_bsl.public.tfxio"]
    fork_server.prepare({}, libraries)
    found = run(worker)
    assert set(libraries) <= set(found["libraries"])
    assert found["threads"] == run(worker, SEEN_BY_WORKER="a server without them")["threads"]


def test_the_next_worker_finds_what_a_short_one_has_imported(worker: str, tmp_path: pathlib.Path) -> None:
    report = "generic_trainer.executors.features.report.process"
    own_server = {"SEEN_BY_WORKER": "a server of its own for short workers"}
    run(report, {"folder": str(tmp_path)}, **own_server)
    assert report in run(worker, **own_server)["libraries"]


def test_a_caller_with_many_open_files_gets_a_forked_worker(worker: str) -> None:
    with open(os.devnull) as null, contextlib.ExitStack() as files:
        for _ in range(1100):  # `select.select` accepts no descriptors above 1023
            files.callback(os.close, os.dup(null.fileno()))
        assert run(worker, SEEN_BY_WORKER="beside many files")["server"] != os.getpid()


def is_running(process: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_worker_ends_with_its_server_and_the_next_one_gets_another(worker: str, tmp_path: pathlib.Path) -> None:
    server = run(worker)["server"]
    notes = tmp_path / "notes"
    program = (
        f"import os, pathlib, signal, time\nnotes = pathlib.Path({str(notes)!r})\n"
        "while not notes.exists() or len(notes.read_text().split()) < 2:\n    time.sleep(0.05)\n"
        f"os.kill({server}, signal.SIGKILL)"
    )
    killer = subprocess.Popen([sys.executable, "-c", program])
    with pytest.raises(TrainingProcessError, match="ended by SIGKILL before it had finished"):
        run(worker, {"notes": str(notes)})
    assert killer.wait() == 0
    process, its_server = map(int, notes.read_text().split())
    assert its_server == server
    wait_until(lambda: not is_running(process))
    assert run(worker)["server"] != server


def test_server_and_worker_end_with_the_process_that_started_them(worker: str, tmp_path: pathlib.Path) -> None:
    notes = tmp_path / "notes"
    program = (
        "from generic_trainer.executors.engines import child_process\n"
        f"child_process.run({worker!r}, {{'notes': {str(notes)!r}}}, forked=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    wait_until(lambda: notes.exists() and len(notes.read_text().split()) == 2)
    processes = [int(process) for process in notes.read_text().split()]
    assert all(map(is_running, processes))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not any(map(is_running, processes)))


def test_where_imports_fail_a_new_python_process_reports_the_reason(
    worker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('this TensorFlow is broken')")
    monkeypatch.setenv("BROKEN", "1")  # a separate server
    with pytest.raises(ImportError, match="this TensorFlow is broken"):
        run(worker)


@pytest.mark.thorough
def test_it_can_be_disabled(worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENERIC_TRAINER_FORK_SERVER", "0")
    found = run(worker)
    assert found["there"] is False
    assert found["server"] == os.getpid()
