"""The process that writes the report of a run that has succeeded; the fork server imports this module in advance."""

from __future__ import annotations

from collections.abc import Mapping

from ...reporting import build, page
from ...reporting.writing import write_report

__all__ = ["build", "execute", "page"]  # those that `write_report` imports
ENDS_AT_ONCE = True
page.template()


def execute(state: Mapping[str, str]) -> dict[str, object]:
    """Entry point of the process: writes the report into the model run `folder`."""
    write_report(state["folder"])
    return {}
