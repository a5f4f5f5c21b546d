"""Describes whether the loading of a published model was checked, for the summary, `--json` and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run_record import RunRecord


def unchecked_line(record: RunRecord) -> str:
    """Returns why nothing has loaded the model; "" if the check did, or without a check.

        the model was not loaded, because --skip-check was given
        the model was not loaded: tensorflow_text cannot be imported: …

    Args:
      record: The content of run.json.
    """
    outcome = (record.check.get("checks") or {}).get("loads", "passed")
    if outcome == "passed":
        return ""
    if outcome == "skipped":
        return "the model was not loaded, because --skip-check was given"
    return f"the model was not loaded: {outcome.removeprefix('could not be run: ')}"
