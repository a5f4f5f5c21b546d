"""The report's section on a hyperparameter search: a table and a chart of its trials."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

from absl import logging

from ...executors.errors import InputError
from ...executors.reporting.document import GOOD, Block, Cell, Chart, Section, Table, Value, as_cell
from ...executors.runtime.files import file_io
from ...executors.runtime.files.json_data import from_json, read_json
from ...executors.runtime.files.plain_values import parsed_json

_FILE = "tuner_results.json"  # as in tfx.components.tuner.executor
_NUMBER, _SCORE = "trial_id", "score"
_NUMERIC = re.compile(r"[0-9]{1,9}")
_BEST = "best so far"
_SHOWN = 20  # trials in the table that is not folded


class TrialJson(TypedDict, total=False):
    """A trial; further keys are the values of its hyperparameters."""

    trial_id: object
    score: float | None


def trials_section(folder: str, objective: str = "") -> Section:
    """Returns the section on the trials in a TunerResults artifact; empty without trials.

    Args:
      folder: The artifact's folder.
      objective: Name of the score; "" if unknown.
    """
    trials, name = _read(folder), objective or _SCORE
    values = list(dict.fromkeys(one for trial in trials for one in trial if one not in (_NUMBER, _SCORE)))
    rows: list[Sequence[Value]] = []
    for place, trial in enumerate(trials):
        first = Cell(_number_of(trial), is_number=True, tone=GOOD if not place else "")
        rows.append((first, as_cell(trial.get(_SCORE)), *(as_cell(trial.get(one)) for one in values)))
    columns = ("trial", name, *values)
    blocks: list[Block] = [
        _chart(trials, name),
        Table("Trials, the best first", columns, rows[:_SHOWN]),
        Table("Further trials", columns, rows[_SHOWN:], folded=True),
    ]
    return Section("trials", "Hyperparameter search", blocks if trials else [])


def _read(folder: str) -> list[TrialJson]:
    path = os.path.join(folder, _FILE)
    try:
        content = read_json(path, object, "The trials", finite=False) if file_io.exists(path) else []
        # TFX's own Tuner writes pandas' JSON text, as a string in a string.
        trials = parsed_json(content, path) if isinstance(content, str) else content
        return from_json(list[TrialJson], trials, path, finite=False)  # a score may be NaN
    except (InputError, OSError) as error:
        logging.warning("Skipped a file: %s", error)
        return []


def _number_of(trial: Mapping[str, object]) -> str:
    """Returns a trial's number from 1, as in the log; KerasTuner's ids are numbers from 0, or other texts."""
    text = str(trial.get(_NUMBER, ""))
    return str(int(text) + 1) if _NUMERIC.fullmatch(text) else text


def _chart(trials: Sequence[Mapping[str, object]], name: str) -> Chart:
    """Returns the scores in the order of the trials, and the best one so far."""
    scores = {
        int(_number_of(trial)): float(str(trial[_SCORE]))
        for trial in trials
        if _NUMERIC.fullmatch(_number_of(trial)) and isinstance(trial.get(_SCORE), (int, float))
    }
    ordered = [scores[number] for number in sorted(scores)]
    if len(ordered) < 2:
        return Chart("", "", [], {})
    best_first = list(scores.values())
    better = min if best_first[0] <= best_first[-1] else max
    series = {name: ordered, _BEST: list(itertools.accumulate(ordered, better))}
    return Chart(f"{name} by trial", "trial", sorted(scores), series, dashed=(_BEST,))
