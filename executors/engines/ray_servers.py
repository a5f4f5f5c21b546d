"""Notices when a server of a local Ray cluster dies, which ends the process that drives the run without an exception.

with recorded_servers(session):               # in that process, while the servers must run
    …

watch = ServerWatch(session)                  # in the process that waits for it
child_process.run(…, on_start=watch.begin)
watch.lost()                                  # [Server("raylet", 4711)]
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


@contextlib.contextmanager
def recorded_servers(session: str) -> Iterator[None]:
    """Keeps the processes of the servers that this process has started in the session folder during the block."""
    path = os.path.join(session, _FILE)
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump({name: process for process in _children() if (name := _name_of(process)) in _NAMES}, file)
    os.replace(f"{path}.part", path)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


class ServerWatch:
    """Watches the servers while the process that drives the run lives: with it, they are ended on purpose."""

    def __init__(self, session: str) -> None:
        self._path = os.path.join(session, _FILE)
        self._lost: list[Server] = []
        self._thread: threading.Thread | None = None

    def begin(self, driver: int) -> None:
        """Starts watching until the process `driver` ends; a no-op except on Linux."""
        if sys.platform == "linux":
            self._thread = threading.Thread(target=self._watch, args=(driver,), name="Ray's servers", daemon=True)
            self._thread.start()

    def lost(self) -> list[Server]:
        """Returns the servers that have died too early; called when the process has ended."""
        if self._thread is not None:
            self._thread.join(_POLL_SECONDS)
        return self._lost

    def _watch(self, driver: int) -> None:
        with contextlib.ExitStack() as files, contextlib.suppress(OSError):  # no pidfd_open before Linux 5.3
            poll, servers = select.poll(), dict[int, Server]()

            def add(process: int) -> int:
                file = os.pidfd_open(process)
                files.callback(os.close, file)
                poll.register(file, select.POLLIN)
                return file

            end = add(driver)
            ended: set[int] = set()
            while end not in ended:
                servers = servers or {add(server.process): server for server in _read(self._path)}
                ended = {file for file, _ in poll.poll(_POLL_SECONDS * 1000)}
                for file in ended & servers.keys():
                    poll.unregister(file)
                    self._note(servers[file])

    def _note(self, server: Server) -> None:
        if os.path.exists(self._path):
            self._lost.append(server)
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
