"""The section on a hyperparameter search."""

from __future__ import annotations

import json
import pathlib

import pytest

from generic_trainer.executors.reporting.document import GOOD, Cell, Chart, Table
from generic_trainer.pipelines.reporting.trials import trials_section

TRIALS = [
    {"trial_id": "2", "score": 0.25, "units": 64, "learning_rate": 0.003},
    {"trial_id": "0", "score": 0.5, "units": 32, "learning_rate": 0.01},
    {"trial_id": "1", "score": 0.75, "units": 128, "learning_rate": 0.1},
]


@pytest.mark.parametrize("text", [json.dumps(TRIALS), json.dumps(json.dumps(TRIALS))])
def test_trials_have_a_table_and_a_chart(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "tuner_results.json").write_text(text)  # as this project's Tuner writes it, and as TFX's
    section = trials_section(str(tmp_path), "val_loss")
    [chart] = [block for block in section.blocks if isinstance(block, Chart) and block]
    assert (chart.title, list(chart.x)) == ("val_loss by trial", [1, 2, 3])
    assert chart.series == {"val_loss": [0.5, 0.75, 0.25], "best so far": [0.5, 0.5, 0.25]}
    [table] = [block for block in section.blocks if isinstance(block, Table) and block]
    assert table.columns == ("trial", "val_loss", "units", "learning_rate")
    assert table.rows[0][0] == Cell("3", is_number=True, tone=GOOD)  # as in the log
    assert len(table.rows) == 3


def test_the_best_of_a_maximized_score_is_the_highest(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tuner_results.json").write_text(json.dumps([*reversed(TRIALS)]))
    [chart] = [block for block in trials_section(str(tmp_path)).blocks if isinstance(block, Chart) and block]
    assert chart.series == {"score": [0.5, 0.75, 0.25], "best so far": [0.5, 0.75, 0.75]}


def test_many_trials_are_folded(tmp_path: pathlib.Path) -> None:
    trials = [{"trial_id": str(number), "score": float(number)} for number in range(30)]
    (tmp_path / "tuner_results.json").write_text(json.dumps(trials))
    shown, folded = (block for block in trials_section(str(tmp_path)).blocks if isinstance(block, Table))
    assert (len(shown.rows), len(folded.rows), folded.folded) == (20, 10, True)


def test_without_a_search_there_is_no_section(tmp_path: pathlib.Path) -> None:
    assert not trials_section(str(tmp_path))
    (tmp_path / "tuner_results.json").write_text("[]")
    assert not trials_section(str(tmp_path))
