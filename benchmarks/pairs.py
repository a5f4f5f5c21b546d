"""Measures two sides in turns and reports the ratios; the basis of the benchmarks in this folder.

Usage, as the end of a benchmark's file:

    def main() -> None:
        options = arguments(__doc__)  # --pairs, --quick, --json, --measure
        if options.measure:
            send(MEASURES[options.measure](options))  # in a child process: one side, once
        else:
            report([compare("examples per second", "TFX's factory", options, ours=…, peer=…, at_least=3)], options)

where a side is a function that returns a number, such as `lambda: measure_in_subprocess(__file__, "tfx", options)`.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

_SENTINEL = "measured:"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the results table.

    Attributes:
      what: Description of the measurement.
      against: Description of the peer.
      unit: Unit of the measurements.
      ours, peer: The measurements of both sides, pair by pair.
      inverse: Whether the ratio is peer / ours (a speed-up) instead of ours / peer.
      at_least, at_most: Target of the ratio; at most one of them is set.
    """

    what: str
    against: str
    unit: str
    ours: list[float]
    peer: list[float]
    inverse: bool = False
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each pair."""
        pairs = zip(self.ours, self.peer, strict=True)
        return [peer / ours if self.inverse else ours / peer for ours, peer in pairs]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios; other load on the machine affects both sides of a pair."""
        return statistics.median(self.ratios)

    @property
    def target(self) -> str:
        """The target of the ratio as text; "" without one."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}" if self.at_most is not None else ""

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio meets the target; None without a target."""
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return self.ratio <= self.at_most if self.at_most is not None else None

    def cells(self) -> list[str]:
        """Returns the cells: measurement, baseline, both medians, ratio with spread, target, and whether it is met."""
        low, high = min(self.ratios), max(self.ratios)
        met = {True: "yes", False: "**no**", None: ""}[self.is_met]
        medians = [f"{_short(statistics.median(side))} {self.unit}".strip() for side in (self.ours, self.peer)]
        ratio = f"{_short(self.ratio)} ({_short(low)} to {_short(high)}, {len(self.ours)} pairs)"
        return [self.what, self.against, *medians, ratio, self.target, met]


HEADER = ["measurement", "baseline", "this project", "baseline value", "ratio (spread)", "target", "met"]


def arguments(
    description: str | None,
    *,
    pairs: int = 5,
    switches: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """Parses the flags that all benchmarks have in common.

    Args:
      description: The benchmark's docstring.
      pairs: Default of `--pairs`, the number of pairs to measure; `--quick` sets it to 1.
      switches: Additional flags without a value: {flag: help text}.
      values: Additional flags with a value, "" by default: {flag: help text}.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=pairs, help=f"number of pairs to measure (default: {pairs})")
    parser.add_argument("--quick", action="store_true", help="smoke test: one pair with less work")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this JSON file")
    parser.add_argument("--measure", metavar="SIDE", help=argparse.SUPPRESS)  # for child processes
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)  # the data of child processes
    for switch, meaning in (switches or {}).items():
        parser.add_argument(switch, action="store_true", help=meaning)
    for name, meaning in (values or {}).items():
        parser.add_argument(name, default="", help=meaning)
    options = parser.parse_args()
    if options.quick:
        options.pairs = 1
    return options


def compare(  # noqa: PLR0913 (the columns of a row)
    what: str,
    against: str,
    options: argparse.Namespace,
    *,
    ours: Callable[[], float],
    peer: Callable[[], float],
    unit: str = "",
    inverse: bool = False,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Measures both sides `options.pairs` times in turns, and prints each pair.

    Args:
      what: See `Row`.
      against: See `Row`.
      options: The flags from `arguments`.
      ours: Measures this project's side once.
      peer: Measures the other side once.
      unit: See `Row`.
      inverse: See `Row`.
      at_least: See `Row`.
      at_most: See `Row`.
    """
    row = Row(what, against, unit, [], [], inverse, at_least, at_most)
    print(f"{what}, compared with {against}", flush=True)
    for pair in range(options.pairs):
        # Alternate the order, because the first side may run on a colder machine.
        sides = [(row.ours, ours), (row.peer, peer)]
        for measured, measure in sides if pair % 2 == 0 else reversed(sides):
            measured.append(measure())
        here, there, ratio = (_short(values[-1]) for values in (row.ours, row.peer, row.ratios))
        print(f"  pair {pair + 1}: {here} {unit}, {there} {unit}, ratio {ratio}", flush=True)
    return row


def report(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Prints the rows as a table, and writes them to `options.json` if it is given."""
    print("\n" + table(rows))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(row) for row in rows], file)


def table(rows: Sequence[Row]) -> str:
    """Returns the rows as a Markdown table."""
    lines = [HEADER, ["---"] * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def measure_in_subprocess(
    script: str,
    side: str,
    options: argparse.Namespace,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Runs a benchmark's file with `--measure SIDE` in a subprocess; returns the value that it passes to `send`."""
    line = [python, script, "--measure", side, *(["--quick"] if options.quick else [])]
    line += ["--folder", options.folder] if options.folder else []
    return float(json.loads(read_measurement(line, environment)))


def read_measurement(line: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs a command that calls `send`; returns the value as JSON."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # makes imports three times slower
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=variables)
    sent = [text for text in done.stdout.splitlines() if text.startswith(_SENTINEL)]
    if done.returncode or not sent:
        sys.exit(f"{' '.join(line)} exited with code {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return sent[-1].removeprefix(_SENTINEL)


def send(value: float | Mapping[str, float]) -> None:
    """Sends a measurement to the parent process, through standard output."""
    print(_SENTINEL, json.dumps(value), flush=True)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
