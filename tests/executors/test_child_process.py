"""A worker in a process of its own: its result, its lines, its exception and its end."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from generic_trainer import TrainingProcessError
from generic_trainer.executors.engines import child_process, in_process


@pytest.fixture
def worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Writes a worker module and returns its name."""

    def write(source: str, name: str = "some_worker") -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    yield write
    sys.modules.pop("some_worker", None)


def test_the_result_comes_back_from_both_engines(worker) -> None:
    name = worker("import os\ndef execute(request): return {'twice': request['n'] * 2, 'seen': os.environ['SEEN']}")
    assert child_process.run(name, {"n": 4}, environment={"SEEN": "yes"}) == {"twice": 8, "seen": "yes"}
    assert in_process.run(name, {"n": 4}, environment={"SEEN": "yes"}) == {"twice": 8, "seen": "yes"}
    os.environ.pop("SEEN")


def test_lines_arrive_whole_and_in_order(worker, capsys: pytest.CaptureFixture[str]) -> None:
    name = worker("""
        import sys
        def execute(request):
            for i in range(2000):
                print(f"out {i} ü")
                print(f"error {i}", file=sys.stderr)
            sys.stdout.write("without an end")
            return {}
    """)
    child_process.run(name, {})
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [*(f"out {i} ü" for i in range(2000)), "without an end"]
    assert [line for line in captured.err.splitlines() if line.startswith("error")] == [
        f"error {i}" for i in range(2000)
    ]


def test_quiet_shows_the_lines_only_when_it_ends_badly(worker, capsys: pytest.CaptureFixture[str]) -> None:
    child_process.run(worker("def execute(request): print('hello'); return {}"), {}, quiet=True)
    assert "hello" not in "".join(capsys.readouterr())
    name = worker("import os\ndef execute(request): print('last words', flush=True); os._exit(7)", "bad_worker")
    with pytest.raises(TrainingProcessError, match="ended with status 7"):
        child_process.run(name, {}, quiet=True)
    assert "last words" in capsys.readouterr().err


def test_the_exception_keeps_its_type_and_traceback(worker) -> None:
    name = worker("""
        class MyError(ValueError):
            pass
        def deep():
            raise MyError("column", 3)
        def execute(request):
            deep()
    """)
    with pytest.raises(ValueError, match="column") as caught:
        child_process.run(name, {})
    assert type(caught.value).__name__ == "MyError"
    assert caught.value.args == ("column", 3)
    assert 'some_worker.py", line 5, in deep' in str(caught.value.__cause__)


@pytest.mark.parametrize("code", ["0", "3", "'stop'"])
def test_a_module_that_exits_has_failed(worker, code: str) -> None:
    name = worker(f"import sys\ndef execute(request): sys.exit({code})")
    with pytest.raises(TrainingProcessError, match=f"SystemExit\\({code}\\)"):
        child_process.run(name, {})


def test_a_crash_after_the_result_does_not_lose_it(worker) -> None:
    name = worker("""
        import atexit, os, signal
        def execute(request):
            atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
            return {"done": True}
    """)
    assert child_process.run(name, {}) == {"done": True}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_process_is_named_as_such(worker, number: signal.Signals) -> None:
    name = worker(f"import os\ndef execute(request): os.kill(os.getpid(), {int(number)})")
    with pytest.raises(TrainingProcessError, match=f"ended by {number.name} before it had finished"):
        child_process.run(name, {})


def is_running(process: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_timeout_ends_the_process_and_its_children(worker, tmp_path: pathlib.Path) -> None:
    name = worker(f"""
        import pathlib, subprocess, time
        def execute(request):
            child = subprocess.Popen(["sleep", "1000"])
            pathlib.Path({str(tmp_path / "child")!r}).write_text(str(child.pid))
            time.sleep(1000)
    """)
    with pytest.raises(TrainingProcessError, match=r"did not end within timeout=3 s and was stopped"):
        child_process.run(name, {}, timeout=3)
    assert not is_running(int((tmp_path / "child").read_text()))


def test_it_dies_with_the_process_that_started_it(worker, tmp_path: pathlib.Path) -> None:
    name = worker(f"""
        import os, pathlib, time
        def execute(request):
            pathlib.Path({str(tmp_path / "child")!r}).write_text(str(os.getpid()))
            time.sleep(1000)
    """)
    program = f"from generic_trainer.executors.engines import child_process; child_process.run({name!r}, {{}})"
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    deadline = time.monotonic() + 60
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int((tmp_path / "child").read_text())
    parent.kill()
    parent.wait()
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
