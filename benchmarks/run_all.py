"""Runs the benchmarks sequentially, and writes their results to one table.

    make bench                                     all benchmarks, to benchmarks/RESULTS.md
    make bench BENCH_ARGS=--quick                  one pair of each, to build/RESULTS.md: a smoke test
    make bench BENCH_ARGS="scale.py --pairs 9"    one benchmark, to build/RESULTS.md
    make bench-pipelines                           pipelines.py, to benchmarks/PIPELINES.md

A failed benchmark gets a row with the failure; the others still run, and the exit code is 1.
"""

# ruff: noqa: T201 (prints progress)

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import pairs

PROGRAMS = (
    "start_up.py",
    "input_records.py",
    "input_columns.py",
    "training_loops.py",
    "checkpoints.py",
    "scale.py",
    "history.py",
)
_PACKAGES = ("tensorflow", "tfx", "tfx-bsl", "keras", "tf-keras", "numpy", "pyarrow", "protobuf")
_FOLDER = pathlib.Path(__file__).resolve().parent
_SECONDS = 1800  # timeout of a benchmark


def main() -> int:
    """Runs the given or all benchmarks and writes the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"default: {' '.join(PROGRAMS)}")
    parser.add_argument("--pairs", type=int, help="number of pairs to measure (default: set by each benchmark)")
    parser.add_argument("--quick", action="store_true", help="smoke test: one pair with less work")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help="output file of the table")
    options = parser.parse_args()
    flags = [*(["--pairs", str(options.pairs)] if options.pairs else []), *(["--quick"] if options.quick else [])]
    is_part = bool(options.programs or flags)
    output = options.output or (_FOLDER.parent / "build" if is_part else _FOLDER) / "RESULTS.md"
    start = time.monotonic()
    lines, failed = run([_FOLDER / program for program in options.programs or PROGRAMS], flags)
    command = " ".join(["make bench", *([f'BENCH_ARGS="{" ".join(sys.argv[1:])}"'] if sys.argv[1:] else [])])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(results(lines, command, time.monotonic() - start), encoding="utf-8")
    print(f"\nWrote the table to {output}.")
    return 1 if failed else 0


def run(programs: Sequence[pathlib.Path], flags: Sequence[str]) -> tuple[list[list[str]], bool]:
    """Runs benchmarks sequentially.

    Args:
      programs: Their files; each takes `--json FILE`, as all based on `pairs` do.
      flags: Further flags for the benchmarks.

    Returns:
      The cells of the table's lines, and whether a benchmark failed.
    """
    lines, has_failed = [], False
    for program in programs:
        print(f"== {program.name}", flush=True)
        start = time.monotonic()
        rows, problem = _rows_of(program, flags)
        lines += [row.cells() for row in rows]
        if problem:
            has_failed = True
            lines.append([program.name, f"**failed**: {problem}", *[""] * (len(pairs.HEADER) - 2)])
        print(f"== {program.name} ({problem or 'done'}, {time.monotonic() - start:.0f} s)", flush=True)
    return lines, has_failed


def results(lines: Sequence[Sequence[str]], command: str, seconds: float) -> str:
    """Returns the results as Markdown: date, command, table, software and hardware."""
    table = [pairs.HEADER, ["---"] * len(pairs.HEADER), *lines]
    return "\n".join(
        [
            "# Results of the benchmarks",
            "",
            f"Measured on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d} by `{command}`, in "
            f"{seconds / 60:.0f} minutes. [README.md](README.md) explains the table.",
            "",
            *(f"| {' | '.join(cells)} |" for cells in table),
            "",
            f"Software: {_software()}.",
            "",
            f"Hardware: {_hardware()}.",
            "",
        ]
    )


def _rows_of(program: pathlib.Path, flags: Sequence[str]) -> tuple[list[pairs.Row], str]:
    """Runs a benchmark; returns its rows, and a description of the failure or ""."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "rows.json")
        # A new session, so that all its processes can be killed after a failure.
        child = subprocess.Popen([sys.executable, program, "--json", str(file), *flags], start_new_session=True)
        try:
            code = child.wait(_SECONDS)
            problem = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"timed out after {_SECONDS} seconds"
        except BaseException:
            _end(child)
            raise
        if problem:
            _end(child)
        if not file.exists():
            return [], problem or "no rows were written"
        return [pairs.Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))], problem


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kills a benchmark and its child processes."""
    try:
        os.killpg(child.pid, 9)
    except ProcessLookupError:
        return
    child.wait()


def _software() -> str:
    versions = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join([*versions, f"{platform.system()} {platform.release()}"])


def _hardware() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {cores} core{'s' if cores > 1 else ''}, {memory:.1f} GiB of memory"


def _processor() -> str:
    """Returns the processor's name from /proc/cpuinfo, or from `platform` if there is no such file."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
