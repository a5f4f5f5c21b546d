"""Terminal control sequences and rich markup in names are printed as plain text."""

from __future__ import annotations

import io
import pathlib
import sys
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from generic_trainer.cli.live_display import LiveDisplay
from generic_trainer.cli.main import cli
from generic_trainer.cli.summary import print_summary
from generic_trainer.cli.tables import print_pairs, print_table
from generic_trainer.executors.monitoring.progress_reports import Progress
from generic_trainer.executors.runtime.logs.sanitize import printable, printable_lines

NASTY = "\x1b]0;taken\x07\x1b[2J\x9b31m[red]x[/] \u202edc \u2066 \r gone"


def is_clean(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def test_the_output_of_a_run_contains_no_terminal_control_sequences(hostile: Any, hostile_failure: Any) -> None:
    for ran in (hostile, hostile_failure):
        assert "\x1b" not in ran.printed
        assert "\x07" not in ran.printed
        assert "[red]taken[/]" in ran.printed


@pytest.mark.parametrize("line", ["show OUT", "diff OUT OTHER", "lineage OUT", "runs OUT"])
def test_history_commands_print_no_terminal_control_sequences(line: str, hostile: Any, hostile_failure: Any) -> None:
    places = {"OUT": str(hostile.folder), "OTHER": str(hostile_failure.folder)}
    done = CliRunner().invoke(cli, [places.get(word, word) for word in line.split()], catch_exceptions=False)
    assert is_clean(done.output)


def test_tables_pairs_and_summaries_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([NASTY, "b"], [[NASTY, NASTY]], right=["b"])
    print_pairs({"Label": f"{NASTY}\n{NASTY}"})
    print_summary({"Model": NASTY}, {"eval": {NASTY: 1.0}}, {NASTY: NASTY})
    said = capsys.readouterr().out
    assert is_clean(said)
    assert said.count("[red]x[/]") == 9


def test_tables_in_a_terminal_are_sanitized(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    print_table([NASTY], [[NASTY]])
    said = capsys.readouterr().out
    assert "\x07" not in said
    assert "]0;taken" in said
    assert "\x1b]" not in said


def test_the_live_line_is_clean() -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    with display.phase(NASTY):
        display.show(Progress(0.0, 10.0, 10.0, 0.0, 2.0, 0.0, {"metrics": {NASTY: 0.5}, "doing": NASTY}))
        console.print(display.line())
    display.step(NASTY, begins=True)
    display.step(NASTY, begins=False)
    said = console.file.getvalue()
    assert "\x07" not in said
    assert "\x1b]" not in said
    assert "\x1b[2J" not in said
    assert "[red]x[/]" in said


def test_an_error_about_a_file_with_such_a_name_is_clean(command: Any, tmp_path: pathlib.Path) -> None:
    done = command("train", f"\x1b[2J\x1b]0;x\x07{tmp_path}/a.py", "--train-files", "x", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "does not exist" in done.stderr


def test_ordinary_text_is_unchanged() -> None:
    for text in ("größe in µm², 温度 °C → ½", "emoji 🚕", "a\u0301"):
        assert printable(text) == text
    assert printable_lines("a\tb\r\n  c") == "a   b\n  c"
