"""Runs the process that prepares raw data in the background, and writes a file on completion."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING, cast

from ..engines import child_process
from ..errors import ProcessTimeoutError
from ..runtime.process.forwarding import LastText
from .events import EventWriter, crash_verdict
from .verdicts import WARNING, Verdict

if TYPE_CHECKING:
    from .raw_data import Prepared, RawDataRequest

_WORKER = f"{__name__.rpartition('.')[0]}.raw_data"


class RawData:
    """A background process that prepares raw data; started by the constructor.

    Args:
      request: What to prepare.
      environment: Environment variables of the process.
      done: File for the result, created by an atomic rename on completion.
      output: Captures the output of the process.

    Attributes:
      done: The file for the result.
      events: The file for verdicts.
      thread: Waits for the process, and writes `done`.
    """

    def __init__(self, request: RawDataRequest, environment: dict[str, str], done: str, output: LastText) -> None:
        self.done = done
        self.events: str = request["events"]
        self._arguments = (request, environment, output)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def prepared(self) -> Prepared:
        """Returns the result; {} if the process is still running or has failed."""
        with contextlib.suppress(FileNotFoundError), open(self.done, encoding="utf-8") as file:
            prepared: Prepared = json.load(file)
            return prepared
        return {}

    def _run(self) -> None:
        request, environment, output = self._arguments
        prepared: Prepared = {}
        verdict = None
        try:
            returned = child_process.run(
                _WORKER,
                request,
                environment=environment,
                timeout=request["check"]["limit"],
                what="raw data",
                forked=True,
                output=output,
            )
            prepared = cast("Prepared", returned)
        except ProcessTimeoutError:
            text = f"preparation was stopped after {request['check']['limit']:g} s (--limit)"
            verdict = Verdict("data", WARNING, text)
        except Exception as error:  # the process itself failed: it reports errors of data and module as verdicts
            verdict = crash_verdict("data", error, output)
        if verdict is not None:
            with open(self.events, "a", encoding="utf-8") as file:
                EventWriter(file).verdict(verdict)
        part = f"{self.done}.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(prepared, file)
        os.replace(part, self.done)
