"""`--profile`: takes a TensorFlow profile of some seconds of training, and logs the time per step by category.

    profile = Profile(model_run_dir)
    with profile.taken():
        run_fn(fn_args)
    profile.record        # {"shares": {"input": 0.71, "host": …}, "step_ms": …, "steps": 41, …}

The module needs no change: a background thread starts and stops TensorFlow's profiler, for Keras `fit`, Estimators and
custom training loops alike. The first profile starts after one second and takes two. If it contains fewer than twenty
steps (because the function is still being traced, or steps are long), another, longer one is taken later. The profile
with the most steps is kept in `plugins/profile` of the model run folder, where TensorBoard's profile plug-in finds it.
`summary.py` defines the categories input, host, device, idle and checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from absl import logging

from ...runtime.files import file_io
from .summary import Shares, read_shares

_FOLDER = "plugins/profile"  # TensorBoard's
_WARM_UP = 1.0  # seconds before the first profile
_FIRST = 2.0  # seconds of the first profile, which has a few MB
_LONGEST = 16.0  # maximum seconds of a profile
_STEPS = 20  # steps that make a profile sufficient


class Profile:
    """Profiles the process, with the thread that creates this object as the training thread.

    Args:
      folder: The model run folder.

    Attributes:
      record: The profile for the run record; {} without one.
    """

    def __init__(self, folder: str) -> None:
        self.record: dict[str, object] = {}
        self._folder = folder
        self._training = threading.get_ident()
        self._ended = threading.Event()
        self._best: tuple[Shares, str] | None = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Profiles some seconds of the block; logs and records the best profile at its end."""
        thread = threading.Thread(target=self._profile_until_sufficient, name="profile", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._record()

    def _record(self) -> None:
        if self._best is None:
            logging.warning("--profile: training ended before a profile was taken.")
            return
        shares, folder = self._best
        self.record = {**shares.to_json(), "folder": folder}
        logging.info("Profile of %s\nSaved to %s; view it with TensorBoard's profile plug-in.", shares, folder)

    def _profile_until_sufficient(self) -> None:
        wait, seconds = _WARM_UP, _FIRST
        try:
            while not self._ended.wait(wait):
                self._keep_better(self._take_profile(seconds))
                if self._best is not None and self._best[0].steps >= _STEPS:
                    return
                wait, seconds = 2 * wait, min(2 * seconds, _LONGEST)
        except Exception as error:  # another profiler is active, such as the Keras TensorBoard callback's
            logging.warning("--profile: no profile could be taken: %s", error)

    def _take_profile(self, seconds: float) -> tuple[Shares | None, str]:
        import tensorflow as tf

        before = self._profile_names()
        clock = time.pthread_getcpuclockid(self._training)
        # Trace the runtime and its operations, but no Python calls, which would slow down training.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(self._folder, options)
        try:
            used = time.clock_gettime(clock)
            self._ended.wait(seconds)
            used = time.clock_gettime(clock) - used
        finally:
            tf.profiler.experimental.stop()
        [name] = self._profile_names() - before
        folder = os.path.join(self._folder, _FOLDER, name)
        return read_shares(folder, used), folder

    def _profile_names(self) -> set[str]:
        folder = os.path.join(self._folder, _FOLDER)
        return set(file_io.listdir(folder)) if file_io.isdir(folder) else set()

    def _keep_better(self, profile: tuple[Shares | None, str]) -> None:
        """Keeps the profile with more steps, and deletes the other one."""
        shares, folder = profile
        if shares is None or (self._best is not None and shares.steps <= self._best[0].steps):
            file_io.rmtree(folder)
            return
        if self._best is not None:
            file_io.rmtree(self._best[1])
        self._best = shares, folder
