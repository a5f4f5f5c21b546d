"""A worker in a subprocess: its result, its output, its exception and its exit."""

from __future__ import annotations

import concurrent.futures
import io
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from generic_trainer import TrainingProcessError
from generic_trainer.executors.engines import child_process, local
from generic_trainer.executors.runtime.process.forwarding import LastText
from generic_trainer.executors.runtime.process.preemption import Preempted


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
    assert local.run_in_process(name, {"n": 4}, environment={"SEEN": "yes"}) == {"twice": 8, "seen": "yes"}
    assert "SEEN" not in os.environ


def test_a_worker_that_may_end_at_once_shows_its_output_and_skips_the_interpreters_shutdown(worker) -> None:
    name = worker(
        """
        import atexit

        ENDS_AT_ONCE = True


        def execute(request):
            atexit.register(print, "shutdown")
            print("last line", end="")
            return {"done": True}
        """
    )
    shown = LastText()
    assert child_process.run(name, {}, output=shown) == {"done": True}
    assert shown.getvalue() == "last line"


def test_the_process_inherits_the_arguments_unless_others_are_given(worker, monkeypatch: pytest.MonkeyPatch) -> None:
    name = worker("import sys\ndef execute(request): return {'argv': sys.argv, 'request': request}")
    monkeypatch.setattr(sys, "argv", ["pipeline.py", "--units=3"])
    assert child_process.run(name, {}) == {"argv": ["pipeline.py", "--units=3"], "request": {}}
    assert child_process.run(name, {"argv": ["driver.py"]}, forked=True) == {"argv": ["driver.py"], "request": {}}


def test_a_preempted_worker_reports_its_checkpoint_despite_a_second_signal(worker) -> None:
    name = worker("""
        import os, signal
        from generic_trainer.executors.runtime.process.preemption import Preempted, deferred_sigterm, is_preempted

        def execute(request):
            try:
                with deferred_sigterm():
                    os.kill(os.getpid(), signal.SIGTERM)
                    assert is_preempted()
                    raise Preempted("/ckpt-3")
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
    """)
    with pytest.raises(Preempted, match="saved at /ckpt-3"):
        child_process.run(name, {})


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


def test_quiet_shows_the_lines_only_on_failure(worker, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_killed_process_is_reported_as_killed(worker, number: signal.Signals) -> None:
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


HANGING_AT_THE_END = """
    import atexit, ctypes, multiprocessing, threading, time

    def forever():
        time.sleep(1000)

    def execute(request):
        print("trained", end="")
        if request["by"] == "thread":
            threading.Thread(target=forever, name="uploader").start()
        if request["by"] == "atexit":
            atexit.register(forever)
        if request["by"] == "child":
            multiprocessing.get_context("fork").Process(target=forever).start()
        if request["by"] == "native":
            atexit.register(ctypes.PyDLL(None).sleep, 1000)  # keeps the interpreter's lock
        if request["by"] == "error":
            threading.Thread(target=forever, name="uploader").start()
            raise ValueError("not good")
        return {"done": request["by"]}
"""
WAITED_FOR = {
    "thread": "more for the non-daemon thread 'uploader' (at ",
    "atexit": "more for the atexit handler 'forever' (at ",
    "child": "more for the child process 'ForkProcess-1' (process ",
    "native": "",  # the command kills it
    "error": "more for the non-daemon thread 'uploader' (at ",
}


@pytest.mark.thorough
@pytest.mark.slow
def test_a_process_with_a_result_is_ended_whatever_keeps_it_from_exiting(worker, caplog) -> None:
    name = worker(HANGING_AT_THE_END)
    outputs = {by: io.StringIO() for by in WAITED_FOR}

    def run(by: str) -> object:
        try:
            return child_process.run(name, {"by": by}, output=outputs[by], what=by)
        except ValueError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = dict(zip(WAITED_FOR, pool.map(run, WAITED_FOR), strict=True))
    assert answers.pop("error") == "not good"
    assert answers == {by: {"done": by} for by in answers}
    for by, message in WAITED_FOR.items():
        printed = outputs[by].getvalue()
        assert "trained" in printed
        assert message in printed
    assert "The native process has finished, but does not exit; killing it." in caplog.text


def test_a_detached_child_may_outlive_a_training_without_delaying_it(worker, caplog) -> None:
    name = worker("""
        import subprocess
        def execute(request):
            print("trained", end="")
            return {"child": subprocess.Popen(["sleep", "1000"], start_new_session=True).pid}
    """)
    output = io.StringIO()
    child = child_process.run(name, {}, output=output, what="training")["child"]
    assert is_running(child)
    os.kill(child, signal.SIGKILL)
    assert output.getvalue() == "trained"
    if sys.platform == "linux":
        assert f"training process has ended; further output of process {child} (sleep 1000) is not shown" in caplog.text


def test_a_timeout_after_the_result_loses_nothing(worker) -> None:
    name = worker("""
        import atexit, time
        def execute(request):
            atexit.register(time.sleep, 4)
            return {"done": True}
    """)
    assert child_process.run(name, {}, timeout=3) == {"done": True}


def test_a_child_forked_by_the_module_returns_no_result(worker) -> None:
    name = worker("""
        import os, time
        def execute(request):
            for ends in ("returns", "raises"):
                child = os.fork()
                if child == 0:
                    if ends == "raises":
                        raise ValueError("of the child")
                    return {"by": "the child"}
                os.waitpid(child, 0)
                assert not os.path.exists(request["result"])
            return {"by": "the module"}
    """)
    assert child_process.run(name, {"result": "unknown"}) == {"by": "the module"}


@pytest.mark.parametrize("forked", [False, True])
def test_the_request_is_not_on_disk_while_the_worker_runs(
    worker, forked: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process must not leave its configuration on disk in plain text."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    name = worker(f"""
        import os, pathlib
        def execute(request):
            found = [path for path in pathlib.Path({str(scratch)!r}).rglob("*") if path.is_file()]
            return {{"files": [path.name for path in found if b"tulip" in path.read_bytes()]}}
    """)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert child_process.run(name, {"password": "tulip"}, forked=forked) == {"files": []}


def test_workers_of_several_threads_run_one_after_the_other_in_one_process(worker) -> None:
    name = worker("""
        import os, time
        inside = []
        def execute(request):
            inside.append(request["n"])
            seen = []
            for _ in range(20):
                seen += [len(inside), os.environ["SEEN"] == str(request["n"])]
                time.sleep(0.005)
            inside.remove(request["n"])
            return {"seen": seen}
    """)
    results = []

    def train(number: int) -> None:
        results.append(local.run_in_process(name, {"n": number}, environment={"SEEN": str(number)}))

    threads = [threading.Thread(target=train, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["seen"] for one in results] == [[1, True] * 20] * 4
