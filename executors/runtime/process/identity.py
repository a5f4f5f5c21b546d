"""Which process has written something, and whether it is still there.

note = ProcessIdentity.current()    # kept as JSON beside what the process writes
note.is_gone()                      # asked by another process, later
"""

from __future__ import annotations

import dataclasses
import os
import socket


@dataclasses.dataclass(frozen=True)
class ProcessIdentity:
    """A process among all that there have been on a machine.

    Attributes:
      host: The machine's name.
      number: The process's.
      started: When it began, in the machine's own count; tells it from a later one of the same number.
    """

    host: str
    number: int
    started: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Returns this process's."""
        return cls(socket.gethostname(), os.getpid(), start_of(os.getpid()))

    def is_gone(self) -> bool:
        """Returns whether the process ran on this machine and does not any longer; nobody knows of other machines."""
        return self.host == socket.gethostname() and start_of(self.number) != self.started


def start_of(process: int) -> str:
    """Returns when a process began, in clock ticks since the machine did; "" when it doesn't run."""
    if not os.path.isdir("/proc/self"):
        return "?" if _exists(process) else ""  # no Linux
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
    """Returns the name of the process that runs a worker: "training_worker" for `….training.worker`."""
    return "_".join(worker.split(".")[-2:])
