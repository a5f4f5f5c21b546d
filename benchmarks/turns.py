"""Two sides that train all the time in processes of their own, but take turns epoch by epoch.

A pair is so short that whatever else the machine does meets both, and no epoch is spent on warming up twice.

Usage, in a benchmark's parent process, and in what its sides train:

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

from pairs import say

WARM_UP_EPOCHS = 2  # they compile


@contextlib.contextmanager
def side(script: str, name: str, variables: Mapping[str, str]) -> Iterator[Callable[[], float]]:
    """Starts `script --measure name`; yields a function that lets it train an epoch and returns examples per second.

    Args:
      script: A benchmark's file.
      name: The side.
      variables: Of the process's environment, beside this one's.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # imports take three times as long where it is set
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
            for said in process.stdout:
                if said.startswith("measured:"):
                    return float(said.removeprefix("measured:"))
            errors.seek(0)
            sys.exit(f"{' '.join(line)} ended with code {process.wait()}:\n{errors.read()[-3000:]}")

        try:
            yield turn
        finally:
            process.kill()
            process.wait()


class Turns:
    """What a side calls at the beginning and at the end of each epoch.

    Args:
      examples: In an epoch.
    """

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._epoch = 0

    def begin(self) -> None:
        """Waits for the turn, unless this is the warm-up."""
        self._epoch += 1
        if self._epoch > WARM_UP_EPOCHS:
            sys.stdin.readline()
        self._begin = time.perf_counter()

    def end(self) -> None:
        """Says how fast the epoch was."""
        if self._epoch > WARM_UP_EPOCHS:
            say(self._examples / (time.perf_counter() - self._begin))


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
