"""The report's section on a hyperparameter search: a table and a chart of its trials."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from ...executors.reporting.document import GOOD, Block, Cell, Chart, Section, Table, Value, as_cell
from ...executors.runtime.files import file_io
from ...executors.runtime.files.json_text import parsed_json

_FILE = "tuner_results.json"  # as in tfx.components.tuner.executor
_NUMBER, _SCORE = "trial_id", "score"
_SHOWN = 20  # trials in the table that is not folded


def trials_section(folder: str | None) -> Section:
    """Returns the section on the trials in a TunerResults artifact; empty without one."""
    trials = _read(folder) if folder else []
    names = list(dict.fromkeys(name for trial in trials for name in trial if name not in (_NUMBER, _SCORE)))
    rows: list[Sequence[Value]] = []
    for place, trial in enumerate(trials):
        first = Cell(str(trial.get(_NUMBER, "")), tone=GOOD if not place else "")
        rows.append((first, as_cell(trial.get(_SCORE)), *(as_cell(trial.get(name)) for name in names)))
    columns = ("trial", _SCORE, *names)
    blocks: list[Block] = [
        _chart(trials),
        Table("Trials, the best first", columns, rows[:_SHOWN]),
        Table("Further trials", columns, rows[_SHOWN:], folded=True),
    ]
    return Section("trials", "Hyperparameter search", blocks if trials else [])


def _read(folder: str) -> list[Mapping[str, object]]:
    path = os.path.join(folder, _FILE)
    if not file_io.exists(path):
        return []
    found = parsed_json(file_io.read_bytes(path), path)
    # TFX's own Tuner writes pandas' JSON text, as a string in a string.
    trials = json.loads(found) if isinstance(found, str) else found
    return [trial for trial in trials if isinstance(trial, dict)] if isinstance(trials, list) else []


def _chart(trials: Sequence[Mapping[str, object]]) -> Chart:
    """Returns the scores in the order of the trials."""
    numbered = {
        int(str(trial[_NUMBER])): float(str(trial[_SCORE]))
        for trial in trials
        if str(trial.get(_NUMBER, "")).isdigit() and isinstance(trial.get(_SCORE), (int, float))
    }
    order = sorted(numbered)
    best = int(str(trials[0][_NUMBER])) if trials and str(trials[0].get(_NUMBER, "")).isdigit() else None
    series = {_SCORE: [numbered[number] for number in order]}
    x = [number + 1 for number in order] if len(order) > 1 else []
    return Chart("Score by trial", "trial", x, series, mark=None if best is None else best + 1, mark_label="best")
