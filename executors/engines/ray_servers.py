"""Notices when a server of a local Ray cluster dies, which ends the process that drives the run without an exception.

record_servers(session)                       # in that process, when the cluster has started
forget_servers(session)                       # there, before the cluster is ended

with watched_servers(session) as lost:        # in the process that waits for it
    …
if lost:
    lost[0]                                   # Ray's raylet (process 4711)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import sys
import threading
from collections.abc import Iterator

from absl import logging

_FILE = "servers.json"
_NAMES = ("gcs_server", "raylet")  # the names of their processes
_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of Ray's; `str` gives its name and process."""

    name: str
    process: int

    def __str__(self) -> str:
        return f"Ray's {self.name} (process {self.process})"


def record_servers(session: str) -> None:
    """Writes the processes of the servers that this process has started to the session folder."""
    servers = {name: process for process in _children() if (name := _name_of(process)) in _NAMES}
    with open(os.path.join(session, _FILE), "w", encoding="utf-8") as file:
        json.dump(servers, file)


def forget_servers(session: str) -> None:
    """Deletes what `record_servers` has written: from now on the servers may end."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(session, _FILE))


@contextlib.contextmanager
def watched_servers(session: str) -> Iterator[list[Server]]:
    """Yields a list to which servers that die in the block are added; empty except on Linux."""
    lost: list[Server] = []
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(session, lost, over), name="Ray's servers", daemon=True)
    if sys.platform == "linux":
        thread.start()
    try:
        yield lost
    finally:
        over.set()


def _watch(session: str, lost: list[Server], over: threading.Event) -> None:
    path = os.path.join(session, _FILE)
    while not (servers := _read(path)):
        if over.wait(_POLL_SECONDS):
            return
    with contextlib.ExitStack() as files, contextlib.suppress(OSError):  # no pidfd_open before Linux 5.3
        poll = select.poll()
        by_file = {}
        for server in servers:
            file = os.pidfd_open(server.process)
            files.callback(os.close, file)
            poll.register(file, select.POLLIN)
            by_file[file] = server
        while by_file and not over.is_set():
            for file, _ in poll.poll(_POLL_SECONDS * 1000):
                poll.unregister(file)
                server = by_file.pop(file)
                if os.path.exists(path) and not over.is_set():
                    lost.append(server)
                    logging.warning("%s has died. The run ends as soon as Ray's other processes notice it.", server)


def _read(path: str) -> list[Server]:
    try:
        with open(path, encoding="utf-8") as file:
            return [Server(name, process) for name, process in json.load(file).items()]
    except (OSError, ValueError):  # not written yet
        return []


def _children() -> list[int]:
    processes = [int(name) for name in os.listdir("/proc") if name.isdecimal()] if sys.platform == "linux" else []
    return [process for process in processes if _status_of(process).get("PPid") == str(os.getpid())]


def _name_of(process: int) -> str:
    return _status_of(process).get("Name", "")


def _status_of(process: int) -> dict[str, str]:
    """Returns the fields of a process in /proc; {} if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
        pairs = (line.partition(":") for line in file)
        return {key: value.strip() for key, _, value in pairs}
    return {}
