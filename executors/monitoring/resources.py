"""Samples the CPU, memory and GPU usage of a training process over time, in a thread of this process.

    usage = Usage()
    with usage.sampled() as watch:
        start_training(on_start=watch)   # called with the process id
    usage.columns                        # {"seconds": [0.0, 1.0], "cpu": [0.9, 1.8], "memory_bytes": [...], ...}

Samples are taken once a second at first. Whenever there are more than `POINTS`, every second sample is dropped and the
interval is doubled. A sample costs less than a millisecond. On machines with thousands of processes, where finding the
child processes takes longer, the interval is extended so that sampling uses at most 1 % of a CPU.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

POINTS = 300
_FIRST_SECONDS = 1.0
_LEAST_SHARE = 100  # an interval is at least this many times a sample's CPU time
_CHILDREN_EVERY = 5  # samples; finding a process's children scans all processes of the machine
_GPU_TIMEOUT_SECONDS = 5.0
_GPU_QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Machine:
    """The size of a machine."""

    cpus: int | None = None
    memory_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class UsageRecord:
    """The columns of `Usage` in the run record, and the machine."""

    seconds: Sequence[float] = ()
    cpu: Sequence[float] = ()
    memory_bytes: Sequence[float] = ()
    gpu_percent: Sequence[float] = ()
    gpu_memory_bytes: Sequence[float] = ()
    machine: Machine = dataclasses.field(default_factory=Machine)


class Usage:
    """Resource usage of the training process and its descendants.

    Attributes:
      columns: Lists of equal length: `seconds` since the start, `cpu` (mean number of busy CPUs since the previous
        sample), `memory_bytes` (resident); with GPUs also `gpu_percent` (mean over all GPUs) and `gpu_memory_bytes`
        (sum over all GPUs), including use by other processes.
    """

    def __init__(self, interval: float = _FIRST_SECONDS) -> None:
        self.columns: dict[str, list[float]] = {}
        self._interval = interval
        self._gpus = shutil.which("nvidia-smi")

    @contextlib.contextmanager
    def sampled(self) -> Iterator[Callable[[int], None]]:
        """Yields a function to be called with the process id; samples that process until the block ends."""
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

    def to_json(self) -> dict[str, object]:
        """Returns the columns and the machine's size, a `UsageRecord`; {} without samples."""
        if not self.columns.get("seconds"):
            return {}
        return {**self.columns, "machine": {"cpus": os.cpu_count(), "memory_bytes": psutil.virtual_memory().total}}

    def _sample(self, pid: int, ended: threading.Event) -> None:
        tree, begin, wait = _ProcessTree(pid), time.monotonic(), 0.0
        while not ended.wait(wait):
            before = time.thread_time()
            found = tree.sample()
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
            output = subprocess.run(
                [self._gpus, *_GPU_QUERY], capture_output=True, text=True, timeout=_GPU_TIMEOUT_SECONDS, check=True
            ).stdout
            rows = [(float(busy), float(used)) for busy, used in csv.reader(output.splitlines())]
            busy, used = sum(row[0] for row in rows) / len(rows), sum(row[1] for row in rows) * _MIB
        except (OSError, subprocess.SubprocessError, ValueError, ZeroDivisionError):
            self._gpus = None  # no driver, or values not supported by the GPU; columns must not have gaps
            for name in ("gpu_percent", "gpu_memory_bytes"):
                self.columns.pop(name, None)
            return {}
        return {"gpu_percent": round(busy, 1), "gpu_memory_bytes": used}


class _ProcessTree:
    """A process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._processes: dict[int, psutil.Process] = {}
        self._seconds: dict[int, float] = {}
        self._samples = 0
        self._last = time.monotonic()

    def sample(self) -> dict[str, float] | None:
        """Returns busy CPUs since the last call, and bytes of memory; None when the process has ended."""
        try:
            head = self._processes.setdefault(self._pid, psutil.Process(self._pid))
            if self._samples % _CHILDREN_EVERY == 0:
                children = {child.pid: self._processes.get(child.pid, child) for child in head.children(recursive=True)}
                self._processes = {self._pid: head, **children}
            if head.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        self._samples += 1
        now, took, memory = time.monotonic(), 0.0, 0
        for pid, process in self._processes.items():
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                spent, memory = times.user + times.system, memory + process.memory_info().rss
                # Ignore the CPU time of a process before it was first seen; its interval is unknown.
                took += spent - self._seconds.get(pid, spent)
                self._seconds[pid] = spent
        elapsed, self._last = now - self._last, now
        return {"cpu": round(took / elapsed, 3) if elapsed > 0 else 0.0, "memory_bytes": memory}
