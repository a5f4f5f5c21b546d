"""Runs the process that prepares raw data in the background."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ..engines import child_process
from ..engines.forwarding import LastText
from ..errors import ProcessTimeoutError
from .events import EventWriter, crash_verdict
from .request import PartRequest
from .verdicts import WARNING, Verdict

_WORKER = f"{__name__.rpartition('.')[0]}.raw_data"


def start(request: PartRequest, environment: Mapping[str, str], output: LastText) -> threading.Thread:
    """Starts the process; returns the thread that waits for it and then writes the result as an event.

    Args:
      request: What to prepare.
      environment: Environment variables of the process.
      output: Captures the output of the process.
    """
    thread = threading.Thread(target=_run, args=(request, environment, output), daemon=True)
    thread.start()
    return thread


def _run(request: PartRequest, environment: Mapping[str, str], output: LastText) -> None:
    events, limit = EventWriter(request.folder), request.check.limit
    prepared: dict[str, Any] = {}
    try:
        prepared = child_process.run(
            _WORKER,
            request.to_json(),
            environment=environment,
            timeout=limit,
            what="raw data",
            forked=True,
            output=output,
        )
    except ProcessTimeoutError:
        events.verdict(Verdict("data", WARNING, f"preparation was stopped after {limit:g} s (--limit)"))
    except Exception as error:  # the process itself failed: it reports errors of data and module as verdicts
        events.verdict(crash_verdict("data", error, output))
    events.write("prepared", prepared)
