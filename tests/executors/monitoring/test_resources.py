"""The resource use of a process and its children is sampled while they run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

from generic_trainer.executors.monitoring import resources
from generic_trainer.executors.monitoring.resources import Usage

BUSY = """
    import sys, time
    held = bytearray(200_000_000)
    for place in range(0, len(held), 4096):
        held[place] = 1
    print("ready", flush=True)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        pass
"""
PARENT = f"""
    import subprocess, sys
    subprocess.run([sys.executable, "-c", {textwrap.dedent(BUSY)!r}], check=True)
"""


def sampled(program: str, interval: float = 0.1) -> Usage:
    usage = Usage(interval)
    with usage.sampled() as watch:
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.DEVNULL)
        watch(process.pid)
        process.wait()
    return usage


def test_the_cpu_and_memory_use_of_a_process_is_sampled() -> None:
    usage = sampled(BUSY)
    columns = usage.columns
    assert len({len(values) for values in columns.values()}) == 1
    assert columns["seconds"] == sorted(columns["seconds"])
    assert len(columns["seconds"]) > 5
    assert max(columns["memory_bytes"]) > 200_000_000
    assert 0.05 < max(columns["cpu"]) < 2  # one thread, on a machine shared with other processes
    machine = usage.to_json()["machine"]
    assert machine["cpus"] == os.cpu_count()
    assert machine["memory_bytes"] > max(columns["memory_bytes"])


def test_child_processes_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(resources, "_CHILDREN_EVERY", 1)
    assert max(sampled(PARENT).columns["memory_bytes"]) > 200_000_000


def test_a_long_run_keeps_a_limited_number_of_points(monkeypatch) -> None:
    monkeypatch.setattr(resources, "POINTS", 8)
    monkeypatch.setattr(resources, "_LEAST_SHARE", 1)
    usage = Usage(0.01)
    with usage.sampled() as watch:
        watch(os.getpid())
        time.sleep(1)
    seconds = usage.columns["seconds"]
    assert 2 < len(seconds) <= 8
    assert seconds[0] < seconds[-1] / 4  # the first samples are still there
    assert {len(values) for values in usage.columns.values()} == {len(seconds)}


def test_a_process_that_has_ended_leaves_no_samples() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    usage = Usage()
    with usage.sampled() as watch:
        watch(process.pid)
    assert usage.to_json() == {}


def test_gpus_are_sampled_with_nvidia_smi(tmp_path, monkeypatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "$@" >> ' + str(tmp_path / "asked") + '\necho "50, 1000"\necho "100, 24"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    columns = sampled("import time; time.sleep(0.5)").columns
    assert set(columns["gpu_percent"]) == {75.0}  # the mean of both
    assert set(columns["gpu_memory_bytes"]) == {1024 * 2**20}
    assert "--query-gpu=utilization.gpu,memory.used" in (tmp_path / "asked").read_text()


def test_a_driver_that_fails_leaves_the_other_columns(tmp_path, monkeypatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    columns = sampled("import time; time.sleep(0.3)").columns
    assert set(columns) == {"seconds", "cpu", "memory_bytes"}
