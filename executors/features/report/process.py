"""The process that writes the report of a run that has succeeded."""

from __future__ import annotations

from collections.abc import Mapping

from ...reporting.writing import write_report

ENDS_AT_ONCE = True


def execute(state: Mapping[str, str]) -> dict[str, object]:
    """Entry point of the process: writes the report into the model run `folder`."""
    write_report(state["folder"])
    return {}
