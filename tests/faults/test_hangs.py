"""A module that never ends, ignores SIGTERM and starts other processes: no process remains."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time
from typing import Any

import psutil
import pytest

from generic_trainer import FnArgs, TrainingOptions, TrainingProcessError, train
from generic_trainer.executors.engines import child_process

# A child in the group, one in another session, an orphaned one, and one that ignores signals.
HANGING = """
    import multiprocessing, os, signal, subprocess, sys, time

    def execute(request):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        subprocess.run(["sh", "-c", "setsid sleep 1000 & setsid sh -c 'trap : TERM HUP; sleep 1000; sleep 1000' &"])
        multiprocessing.get_context("spawn").Process(target=time.sleep, args=(1000,)).start()
        deadline = time.monotonic() + 60
        while family() < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        open(request["started"], "w").write(str(family()))
        if request["ends"] == "sleep":
            while True:
                time.sleep(1000)
        os._exit(9)

    def family():
        import psutil
        return sum(is_ours(process) for process in psutil.process_iter())

    def is_ours(process):
        import psutil
        try:
            return process.environ().get("OF_THIS_TEST") == os.environ["OF_THIS_TEST"]
        except psutil.Error:
            return False
"""


def running(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OF_THIS_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "message"), [("sleep", r"did not end within timeout=5 s and was stopped"), ("exit", "ended with status 9")]
)
def test_no_processes_remain(ends: str, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hanging_worker.py").write_text(textwrap.dedent(HANGING))
    monkeypatch.syspath_prepend(str(tmp_path))
    started = tmp_path / "started"
    with pytest.raises(TrainingProcessError, match=message):
        child_process.run(
            "hanging_worker",
            {"started": str(started), "ends": ends},
            environment={"OF_THIS_TEST": str(tmp_path)},
            timeout=5 if ends == "sleep" else 60,
        )
    assert int(started.read_text()) >= 6
    assert running(str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and PR_SET_PDEATHSIG")
@pytest.mark.parametrize("forked", [True, False], ids=["fork server", "new Python"])
def test_no_processes_remain_when_the_command_is_killed(forked: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "hanging_worker.py").write_text(textwrap.dedent(HANGING))
    started, mark = tmp_path / "started", str(tmp_path)
    program = (
        "import os, threading, time\n"
        "from generic_trainer.executors.engines import child_process\n"
        "variables = {'OF_THIS_TEST': os.environ['MARK']}\n"
        f"request = {{'started': {str(started)!r}, 'ends': 'sleep'}}\n"
        "def fork_when_it_runs():\n"  # a child of the command does not keep it from ending
        "    while not os.path.exists(request['started']):\n"
        "        time.sleep(0.05)\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        time.sleep(1000)\n"
        "threading.Thread(target=fork_when_it_runs).start()\n"
        f"child_process.run('hanging_worker', request, environment=variables, forked={forked})"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MARK": mark}
    command = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    assert command.stdout is not None
    deadline = time.monotonic() + 60
    while not (started.exists() and started.read_text()):
        assert command.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert int(started.read_text()) >= 6
    assert running(mark)
    child = int(command.stdout.readline())
    command.kill()
    command.wait()
    try:
        while running(mark):
            assert time.monotonic() < deadline, running(mark)
            time.sleep(0.05)
    finally:
        os.kill(child, 9)
        command.stdout.close()


# Saves its model, and leaves an endless thread and a child that keeps its output open.
FINISHED = """
    import subprocess, threading, time

    train_and_save = run_fn

    def run_fn(fn_args):
        train_and_save(fn_args)
        print("." * 3_000_000, end="")
        threading.Thread(target=time.sleep, args=(1000,), name="uploader").start()
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        open(f"{fn_args.model_run_dir}/child", "w").write(str(child.pid))
"""


@pytest.mark.slow
def test_a_saved_model_is_published_even_if_its_process_does_not_exit(
    tiny_module: str, iris: Any, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fn_args = FnArgs(
        train_files=[iris.train],
        eval_files=[iris.eval],
        serving_model_dir=str(tmp_path / "model"),
        model_run_dir=str(tmp_path / "model_run"),
    )
    with pathlib.Path(tiny_module).open("a") as file:
        file.write(textwrap.dedent(FINISHED))
    record = train(tiny_module, fn_args, TrainingOptions(skip_checks=("answers",)))
    assert record.status == "succeeded"
    assert (tmp_path / "model" / "saved_model.pb").exists()
    printed = capfd.readouterr()
    assert printed.out.count(".") >= 3_000_000
    assert "more for the non-daemon thread 'uploader' (at " in printed.err
    psutil.Process(int((tmp_path / "model_run" / "child").read_text())).kill()
