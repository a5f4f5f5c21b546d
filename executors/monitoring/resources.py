"""What a training takes of its machine over time: processors, memory, GPUs; sampled by a thread of this process.

    usage = Usage()
    with usage.sampled() as watch:
        start_training(on_start=watch)   # called with the process's number
    usage.columns                        # {"seconds": [0.0, 1.0], "cpu": [0.9, 1.8], "memory_bytes": [...], ...}

The first samples are a second apart. Of a long training every second one is forgotten time and again, and the distance
doubled, so that there are never more than `POINTS`. A sample costs less than a millisecond; where looking for its
children takes longer, because the machine runs thousands of processes, samples are further apart: 1 % of a processor
is what it may take.
"""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypedDict, cast

import psutil

POINTS = 300
_FIRST_SECONDS = 1.0
_LEAST_SHARE = 100  # an interval is at least this many times what a sample takes of a processor
_CHILDREN_EVERY = 5  # samples: to find a process's children all of the machine's are looked at
_GPU_TIMEOUT_SECONDS = 5.0
_GPU_QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")
_MIB = 1 << 20


class Machine(TypedDict, total=False):
    """The size of a machine."""

    cpus: int | None
    memory_bytes: int


class UsageJson(TypedDict, total=False):
    """What a training took, in the run's record: the columns of `Usage`, and the machine; {} without samples."""

    seconds: list[float]
    cpu: list[float]
    memory_bytes: list[float]
    gpu_percent: list[float]
    gpu_memory_bytes: list[float]
    machine: Machine


class Usage:
    """What the process that trains has taken, and everything that it started.

    Attributes:
      columns: One list each, as long as the others: `seconds` since the start, `cpu` (processors in use since the
        sample before), `memory_bytes` (resident); where there are GPUs `gpu_percent` (the mean of all GPUs) and
        `gpu_memory_bytes` (of all), of whoever uses them.
    """

    def __init__(self, interval: float = _FIRST_SECONDS) -> None:
        self.columns: dict[str, list[float]] = {}
        self._interval = interval
        self._gpus = shutil.which("nvidia-smi")

    @contextlib.contextmanager
    def sampled(self) -> Iterator[Callable[[int], None]]:
        """Gives a function to be told the process's number; samples it until the block ends."""
        ended = threading.Event()
        threads: list[threading.Thread] = []

        def watch(pid: int) -> None:
            thread = threading.Thread(target=self._sample, args=(pid, ended), name="resources", daemon=True)
            threads.append(thread)
            thread.start()

        try:
            yield watch
        finally:
            ended.set()
            for thread in threads:
                thread.join(_GPU_TIMEOUT_SECONDS)

    def to_json(self) -> UsageJson:
        """Returns the columns and the machine's size, for the run's record; {} when nothing was sampled."""
        if not self.columns.get("seconds"):
            return {}
        machine = {"cpus": os.cpu_count(), "memory_bytes": psutil.virtual_memory().total}
        return cast("UsageJson", {**self.columns, "machine": machine})

    def _sample(self, pid: int, ended: threading.Event) -> None:
        family, begin, wait = _Family(pid), time.monotonic(), 0.0
        while not ended.wait(wait):
            before = time.thread_time()
            found = family.look()
            if found is None:
                return
            self._add({"seconds": round(time.monotonic() - begin, 2), **found, **self._gpu()})
            took = time.thread_time() - before
            wait = max(self._interval, took * _LEAST_SHARE)

    def _add(self, sample: dict[str, float]) -> None:
        for name, value in sample.items():
            self.columns.setdefault(name, []).append(value)
        if len(self.columns["seconds"]) > POINTS:
            for values in self.columns.values():
                del values[1::2]
            self._interval *= 2

    def _gpu(self) -> dict[str, float]:
        if self._gpus is None:
            return {}
        try:
            told = subprocess.run(
                [self._gpus, *_GPU_QUERY], capture_output=True, text=True, timeout=_GPU_TIMEOUT_SECONDS, check=True
            ).stdout
            rows = [(float(busy), float(used)) for busy, used in csv.reader(told.splitlines())]
            busy, used = sum(row[0] for row in rows) / len(rows), sum(row[1] for row in rows) * _MIB
        except (OSError, subprocess.SubprocessError, ValueError, ZeroDivisionError):
            self._gpus = None  # no driver, or a card that does not tell; a column must not have gaps
            for name in ("gpu_percent", "gpu_memory_bytes"):
                self.columns.pop(name, None)
            return {}
        return {"gpu_percent": round(busy, 1), "gpu_memory_bytes": used}


class _Family:
    """A process and what it has started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: dict[int, psutil.Process] = {}
        self._seconds: dict[int, float] = {}
        self._looks = 0
        self._last = time.monotonic()

    def look(self) -> dict[str, float] | None:
        """Returns processors in use since the last look, and bytes of memory; None when the process has ended."""
        try:
            head = self._members.setdefault(self._pid, psutil.Process(self._pid))
            if self._looks % _CHILDREN_EVERY == 0:
                children = {child.pid: self._members.get(child.pid, child) for child in head.children(recursive=True)}
                self._members = {self._pid: head, **children}
            if head.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        self._looks += 1
        now, took, memory = time.monotonic(), 0.0, 0
        for pid, process in self._members.items():
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                spent, memory = times.user + times.system, memory + process.memory_info().rss
                # What a process took before it was first seen is nobody's at any moment.
                took += spent - self._seconds.get(pid, spent)
                self._seconds[pid] = spent
        elapsed, self._last = now - self._last, now
        return {"cpu": round(took / elapsed, 3) if elapsed > 0 else 0.0, "memory_bytes": memory}
