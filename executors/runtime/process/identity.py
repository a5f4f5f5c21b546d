"""Identifies the process that wrote a file, and detects whether it has ended.

note = ProcessIdentity.current()    # stored as JSON beside the process's files
note.is_gone()                      # called later by another process
"""

from __future__ import annotations

import dataclasses
import os
import socket


@dataclasses.dataclass(frozen=True)
class ProcessIdentity:
    """A unique identity of a process, despite reused process ids.

    Attributes:
      host: The machine's host name.
      number: The process id.
      started: Start time in clock ticks since boot; distinguishes processes with the same id.
    """

    host: str = ""
    number: int = 0
    started: str = ""

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Returns the identity of this process."""
        return cls(socket.gethostname(), os.getpid(), start_time_of(os.getpid()))

    def is_gone(self) -> bool:
        """Whether the process has ended; False if it ran on another machine, where that is unknown."""
        return self.host == socket.gethostname() and start_time_of(self.number) != self.started


def start_time_of(process: int) -> str:
    """Returns the start time of a process in clock ticks since boot; "" if it doesn't run, "?" if unknown."""
    if not os.path.isdir("/proc/self"):
        return "?" if _exists(process) else ""  # not Linux
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def process_name(worker: str) -> str:
    """Returns the name for a worker's process: "training_worker" for `….training.worker`."""
    return "_".join(worker.split(".")[-2:])
