"""Lets two sides train continuously in subprocesses, in turns of one epoch.

Pairs are short, so that other load on the machine affects both sides, and each side warms up only once.

Usage, in a benchmark's parent process and in the training code of its sides:

    with side(__file__, "fit") as turn:
        examples_per_second = turn()

    model.fit(…, callbacks=[epochs_as_turns(examples=256_000)])    # or Turns.begin and Turns.end
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pairs import send

WARM_UP_EPOCHS = 2  # epochs with compilation, not measured


@contextlib.contextmanager
def side(script: str, name: str, variables: Mapping[str, str]) -> Iterator[Callable[[], float]]:
    """Runs `script --measure name`; yields a function that lets it train an epoch and returns examples per second.

    Args:
      script: A benchmark's file.
      name: The side's name.
      variables: Additional environment variables of the subprocess.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # makes imports three times slower
    line = [sys.executable, script, "--measure", name]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )

        def turn() -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("go\n")
                process.stdin.flush()
            for line_of_output in process.stdout:
                if line_of_output.startswith("measured:"):
                    return float(line_of_output.removeprefix("measured:"))
            errors.seek(0)
            sys.exit(f"{' '.join(line)} exited with code {process.wait()}:\n{errors.read()[-3000:]}")

        try:
            yield turn
        finally:
            process.kill()
            process.wait()


class Turns:
    """Synchronizes a side with its parent process: call `begin` and `end` in each epoch.

    Args:
      examples: Number of examples per epoch.
    """

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._epoch = 0

    def begin(self) -> None:
        """Waits for the turn, except during warm-up."""
        self._epoch += 1
        if self._epoch > WARM_UP_EPOCHS:
            sys.stdin.readline()
        self._begin = time.perf_counter()

    def end(self) -> None:
        """Sends the epoch's examples per second to the parent process, except during warm-up."""
        if self._epoch > WARM_UP_EPOCHS:
            send(self._examples / (time.perf_counter() - self._begin))


def epochs_as_turns(examples: int) -> Any:
    """Returns a Keras callback that makes a turn of each epoch."""
    import tensorflow as tf

    class EpochsAsTurns(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._turns = Turns(examples)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._turns.begin()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self._turns.end()

    return EpochsAsTurns()
