"""Shows what coordination costs per step, and how recovery grows, from 1 to 16 workers on one machine.

    python benchmarks/coordination.py --workers 1 2 4 8 16
    python benchmarks/coordination.py --reports 20000      # what the collector of a run needs per progress report

A local Ray cluster runs the loop of `workers.py`, with all-reduce, 20 steps per second if the cores allow it, and one
death. All workers share the machine's cores, so the figures are CPU time, by kind of process: what a worker costs on a
cluster where it has its own cores, except for the network. `docs/howto/scale.md` discusses the results.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import sys
import tempfile
import threading
import time

import workers
from recovery import stages

STEP_SECONDS, DEATH_SECONDS = 0.05, 15.0
_POLL_SECONDS = 1.0
# The names of processes, which Linux cuts to 15 bytes.
_KINDS = {
    "training_worker": "training",
    "ray::WorkerHost": "hosts",
    "ray::ReportColl": "collector",
    "engines_ray": "driver",
    "gcs_server": "Ray",
    "raylet": "Ray",
}


class CpuTimes(threading.Thread):
    """Samples the CPU seconds of the processes of a run, by kind, until `over` is set."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.over = threading.Event()
        self._mark = f'"{folder}"'.encode()

    def run(self) -> None:
        """Samples about once a second."""
        while not self.over.wait(_POLL_SECONDS):
            self.samples.append((time.time(), self._sample()))

    def _sample(self) -> dict[str, float]:
        found: dict[str, float] = collections.defaultdict(float)
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                kind = _KINDS.get((process / "comm").read_text().strip())
                if kind and self._mark in (process / "environ").read_bytes():
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    found[kind] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def between(self, begin: float, end: float) -> dict[str, float]:
        """Returns the CPU seconds between the first and the last sample in a period, per second."""
        inside = [sample for sample in self.samples if begin <= sample[0] <= end]
        (first, before), (last, after) = inside[0], inside[-1]
        return {kind: (after[kind] - before[kind]) / (last - first) for kind in after}


def measure(count: int) -> str:
    """Trains with a number of workers; returns the row of the table."""
    with tempfile.TemporaryDirectory(prefix="coordination-") as name:
        cpu = CpuTimes(name)
        cpu.start()
        begin = time.time()
        loop = workers.Loop(name, int(2 * DEATH_SECONDS / STEP_SECONDS), STEP_SECONDS)
        deaths = workers.Deaths(DEATH_SECONDS, 1, 1) if count > 1 else None
        try:
            steps = workers.ours(loop, count, deaths, cpus=(os.cpu_count() or 1) / count)
        finally:
            cpu.over.set()
            cpu.join()
        took = workers.seconds_per_step(steps)
        used = cpu.between(steps[workers.WARM_UP][0], steps[0][0] + DEATH_SECONDS)
        recovered = f"{stages(pathlib.Path(name), steps, count)['total'][0]:.1f}" if deaths else ""
    figures = [
        *(1000 * took, 1000 * used["training"] * took / count, 1000 * used["hosts"] / count),
        *(1000 * used["collector"], 1000 * used["driver"], 1000 * used["Ray"]),
    ]
    row = [str(count), f"{steps[0][0] - begin:.1f}", *(f"{figure:.1f}" for figure in figures), recovered]
    return f"| {' | '.join(row)} |\n"


def report_seconds(count: int) -> float:
    """Returns the CPU seconds of the collector per progress report, with 1,000 workers that report in turns."""
    import dataclasses

    import psutil
    import ray

    from generic_trainer.executors.engines.ray.worker import ReportCollector
    from generic_trainer.executors.monitoring.progress_reports import Progress

    ray.init("local", include_dashboard=False, object_store_memory=200 * 10**6, log_to_driver=False)
    collector = ray.remote(num_cpus=0)(ReportCollector).remote(0)
    ray.get(collector.begin.remote("try", 1000))
    [process] = [one for one in psutil.Process().children(recursive=True) if "ReportCollector" in one.name()]
    before = process.cpu_times()
    calls = [
        collector.advance.remote("try", number % 1000, f"worker {number % 1000}", state)
        for number in range(count)
        for state in [dataclasses.asdict(Progress(0, number // 1000, number // 1000, 0, 1, 0))]
    ]
    ray.get(calls)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / count


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--reports", type=int, help="Measure only the collector, with this many reports.")
    options = parser.parse_args()
    if options.reports:
        sys.stdout.write(f"collector: {1e6 * report_seconds(options.reports):.0f} µs of CPU time per report\n")
        return
    heads = [
        *("workers", "first step, s", "step, ms", "training, CPU ms a step and worker", "host, CPU ms/s"),
        *("collector, CPU ms/s", "driver, CPU ms/s", "Ray, CPU ms/s", "recovery, s"),
    ]
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n")
    for count in options.workers:
        sys.stdout.write(measure(count))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
