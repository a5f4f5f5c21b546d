"""A signal ends a command even if its exception is lost: Python drops it in hooks, libraries in a bare `except`."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# A command whose work sends itself a signal in a hook, and then goes on.
COMMAND = """
import atexit, contextlib, ctypes, gc, os, signal, sys, time, weakref
from generic_trainer.cli import main
from generic_trainer.executors.runtime.process import preemption

def send(*_):
    os.kill(os.getpid(), {number})
    for _ in range(1000):  # the handler runs here
        pass

class Thing:
    pass

class Sending:
    def __del__(self):
        send()

def generator():
    try:
        yield
    finally:
        send()

def work(*_, **options):
    {hook}
    for _ in range(100):
        time.sleep(0.02)
    print("worked to the end")

main.cli.main = work
main.main()
"""
HOOKS = {
    "a weakref callback": "thing = Thing(); reference = weakref.ref(thing, send); del thing",
    "__del__": "Sending()",
    "the end of a generator": "started = generator(); next(started); del started",
    "a ctypes callback": "ctypes.CFUNCTYPE(None)(send)()",
    "a callback of garbage collection": "gc.callbacks.append(send); gc.collect(); gc.callbacks.remove(send)",
    "an atexit function": "atexit.register(send); atexit._run_exitfuncs()",
    "a bare except": """
    try:
        send()
    except:
        pass""",
    "a finally that returns": """
    def swallow():
        try:
            send()
        finally:
            return
    swallow()""",
    "another exception": """
    with contextlib.suppress(ValueError):
        try:
            send()
        except BaseException:
            raise ValueError""",
    "many bare excepts": """
    with contextlib.suppress(BaseException):
        send()
    for _ in range(3):
        with contextlib.suppress(BaseException):
            time.sleep(1000)""",
    "a finalizer in a deferred block": """
    with preemption.deferred_signals():
        Sending()""",
}
SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
CASES = [(hook, signal.SIGTERM) for hook in HOOKS] + [("__del__", number) for number in SIGNALS[1:]]


def run(hook: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    text = COMMAND.format(number=int(number), hook=hook)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("hook", "number"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_lost_signal_is_raised_again(hook: str, number: signal.Signals) -> None:
    done = run(HOOKS[hook], number)
    assert done.returncode == 128 + number, done.stderr
    cause = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert done.stderr.splitlines()[-1] == f"generic-trainer: {cause}; nothing was published."
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_signal_that_is_lost_at_the_very_end_is_not_a_success() -> None:
    done = run("gc.callbacks.append(send); gc.collect(); return", signal.SIGTERM)
    assert done.returncode == 143
    assert done.stderr == "generic-trainer: ended by SIGTERM; nothing was published.\n"


CLEANUP = """
    try:
        send()
    finally:
        with contextlib.suppress(KeyError):
            {}["missing"]
        for _ in range(50):
            time.sleep(0.02)
            with contextlib.suppress(OSError):
                try:
                    os.stat("missing")
                finally:
                    send()
        print("cleaned up")"""


def test_the_cleanup_is_not_interrupted() -> None:
    done = run(CLEANUP, signal.SIGTERM)
    assert (done.returncode, done.stdout) == (143, "cleaned up\n"), done.stderr
