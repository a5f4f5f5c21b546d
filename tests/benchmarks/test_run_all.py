"""The table of results: ratios of pairs, and rows from the programs' files. No speed is asserted."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "benchmarks"

# A benchmark with fixed measurements.
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from pairs import arguments, compare, report

options = arguments(__doc__, pairs=3)
if options.quick:
    sys.exit("it cannot be quick")
ours, peer = iter([30.0, 10.0, 80.0]), iter([10.0, 5.0, 20.0])
report([compare("rows", "the peer", options, ours=lambda: next(ours), peer=lambda: next(peer), at_least=3)], options)
"""


@pytest.fixture(scope="module")
def pairs() -> Any:
    spec = importlib.util.spec_from_file_location("pairs_of_benchmarks", FOLDER / "pairs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_ratio_is_the_median_of_the_pairs_ratios(pairs: Any) -> None:
    row = pairs.Row("rows", "peer", "1/s", ours=[30.0, 10.0, 80.0], peer=[10.0, 5.0, 20.0], at_least=3)
    assert row.ratios == [3.0, 2.0, 4.0]
    assert row.ratio == 3.0
    assert row.is_met is True
    assert row.cells() == ["rows", "peer", "30 1/s", "10 1/s", "3 (2 to 4, 3 pairs)", "at least 3", "yes"]

    sooner = pairs.Row("start", "peer", "s", ours=[1.0, 4.0, 5.0], peer=[2.0, 4.0, 20.0], inverse=True, at_most=1.5)
    assert sooner.ratio == 2.0  # of 2, 1 and 4; the medians are 4 and 4
    assert sooner.is_met is False
    assert sooner.cells()[-2:] == ["at most 1.5", "**no**"]
    assert pairs.Row("x", "y", "", [1.0], [1.0]).is_met is None


def test_one_table_of_all_programs_even_if_one_fails(tmp_path: pathlib.Path) -> None:
    (tmp_path / "good.py").write_text(PROGRAM.format(folder=str(FOLDER)))
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    output = tmp_path / "out" / "RESULTS.md"
    line = [sys.executable, str(FOLDER / "run_all.py"), "--output", str(output)]
    programs = [str(tmp_path / name) for name in ("bad.py", "good.py")]

    done = subprocess.run([*line, *programs], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1, done.stderr
    table = [text for text in output.read_text().splitlines() if text.startswith("|")]
    assert table[2].startswith("| bad.py | **failed**: exit code 3 |")
    assert table[3] == "| rows | the peer | 30 | 10 | 3 (2 to 4, 3 pairs) | at least 3 | yes |"
    assert {text.count("|") for text in table} == {8}
    assert f"Python {sys.version.split()[0]}, tensorflow " in output.read_text()

    quick = subprocess.run([*line, programs[1], "--quick"], capture_output=True, text=True, check=False, timeout=60)
    assert quick.returncode == 1
    assert "it cannot be quick" in quick.stderr

    assert subprocess.run([*line, programs[1]], check=False, timeout=60, capture_output=True).returncode == 0
    assert "failed" not in output.read_text()
