"""A module that never ends, takes no notice of SIGTERM, and has started others: the timeout ends all of them."""

from __future__ import annotations

import pathlib
import textwrap

import psutil
import pytest

from generic_trainer import TrainingProcessError
from generic_trainer.executors.engines import child_process

# A child in the group, one in a session of its own, one that has lost its parent, and one that has taken precautions.
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "message"), [("sleep", r"did not end within timeout=5 s and was stopped"), ("exit", "ended with status 9")]
)
def test_nothing_of_it_is_left(
    ends: str, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
