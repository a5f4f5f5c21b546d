"""Signals that end like SIGTERM, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

LIKE_SIGTERM = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
BEGIN = """
    import faulthandler, os, signal, sys
    from generic_trainer.executors.runtime.process import preemption

    number = signal.{name}
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
"""


def run(program: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    text = textwrap.dedent(BEGIN.format(name=number.name)) + textwrap.dedent(program)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", LIKE_SIGTERM)
def test_it_lets_a_training_save_its_checkpoint(number: signal.Signals) -> None:
    done = run(
        """
        preemption.handle_like_sigterm()
        with preemption.deferred_sigterm():
            os.kill(os.getpid(), number)
            assert preemption.is_preempted()
            error = preemption.Preempted("ckpt-3")
        print(error.exit_code, error)
        """,
        number,
    )
    text = f"ended by {number.name}, saved at ckpt-3. The next run resumes from there."
    assert done.stdout == f"{128 + number} {text}\n", done.stderr


def test_without_a_checkpoint_to_save_it_ends_the_process() -> None:
    done = run("preemption.handle_like_sigterm()\nos.kill(os.getpid(), number)\n", signal.SIGUSR1)
    assert done.returncode == -signal.SIGUSR1


@pytest.mark.parametrize("before", ["signal.signal(number, handler)", "pass"])
def test_a_handler_of_the_module_wins(before: str) -> None:
    done = run(
        f"""
        def handler(number, frame):
            print("handled")

        {before}
        preemption.handle_like_sigterm()
        signal.signal(number, handler)
        with preemption.deferred_sigterm():
            os.kill(os.getpid(), number)
            assert not preemption.is_preempted()
        """,
        signal.SIGUSR2,
    )
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr


def test_the_faulthandler_of_a_module_wins() -> None:
    done = run(
        """
        preemption.handle_like_sigterm()
        faulthandler.register(number)
        with preemption.deferred_sigterm():
            os.kill(os.getpid(), number)
            assert not preemption.is_preempted()
        """,
        signal.SIGUSR1,
    )
    assert done.returncode == 0, done.stderr
    assert "most recent call first" in done.stderr
