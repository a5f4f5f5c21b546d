"""Notices when a server of Ray dies, which may end the process that drives the run without an exception.

with recorded_servers(session):               # in that process, while the servers must run
    …

watch = ServerWatch(session)                  # in the process that waits for it
child_process.run(…, on_start=watch.begin)
watch.lost()                                  # [Server("raylet", process=4711)]

Servers that the driving process has started are watched by their process ids. They end with it, so that the order of
the ends counts. Servers of any other cluster outlive it: they are lost if they accept no connections afterwards.
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

import psutil
from absl import logging

from ...distributed.address import Address
from ...runtime.files import file_io
from ...runtime.rate_limiter import RateLimiter

_FILE = "servers.json"
_NAMES = ("gcs_server", "raylet")  # the names of their processes
_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 2.0
_CONNECT_INTERVAL = 5.0  # between two attempts to connect to the servers of a cluster


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of Ray's; `str` gives its name, and its process or address.

    Attributes:
      name: Its name.
      process: The id of the process, if the driving process has started it; otherwise 0.
      address: "host:port", if the driving process has not started it; otherwise "".
    """

    name: str
    process: int = 0
    address: str = ""

    def __str__(self) -> str:
        return f"Ray's {self.name} (process {self.process})" if self.process else f"Ray's {self.name} at {self.address}"

    def is_unreachable(self) -> bool:
        """Whether it has an address that accepts no connections."""
        address = Address.parse(self.address)
        return address is not None and not address.accepts_connections(_CONNECT_SECONDS)


@contextlib.contextmanager
def recorded_servers(session: str, cluster_address: str = "") -> Iterator[None]:
    """Keeps the servers that a run needs in the session folder: if this process has started them, during the block.

    Args:
      session: The session folder.
      cluster_address: The address of the cluster that this process has connected to; "" if it has started one.
    """
    path = os.path.join(session, _FILE)
    servers = _servers_of_cluster(cluster_address) if cluster_address else _started_servers()
    file_io.write_text(path, json.dumps([dataclasses.asdict(server) for server in servers]), synced=False)
    try:
        yield
    finally:
        if not cluster_address:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


class ServerWatch:
    """Watches the servers while the process that drives the run lives."""

    def __init__(self, session: str) -> None:
        self._path = os.path.join(session, _FILE)
        self._lost: list[Server] = []
        self._unreachable: list[Server] = []
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
        return self._lost + [server for server in _read(self._path) if server.is_unreachable()]

    def _watch(self, driver: int) -> None:
        with contextlib.ExitStack() as files, contextlib.suppress(OSError):  # no pidfd_open before Linux 5.3
            poll, started = select.poll(), dict[int, Server]()

            def add(process: int) -> int:
                file = os.pidfd_open(process)
                files.callback(os.close, file)
                poll.register(file, select.POLLIN)
                return file

            end = add(driver)
            ended: set[int] = set()
            due = RateLimiter(_CONNECT_INTERVAL)
            while end not in ended:
                started = started or {add(server.process): server for server in _read(self._path) if server.process}
                ended = {file for file, _ in poll.poll(_POLL_SECONDS * 1000)}
                for file in ended & started.keys():
                    poll.unregister(file)
                    self._note(started[file])
                if due.is_due():
                    self._warn_of_unreachable()

    def _note(self, server: Server) -> None:
        if os.path.exists(self._path):
            self._lost.append(server)
            logging.warning("%s has died. The run ends as soon as Ray's other processes notice it.", server)

    def _warn_of_unreachable(self) -> None:
        unreachable = [server for server in _read(self._path) if server.is_unreachable()]
        for server in unreachable:
            if server not in self._unreachable:
                logging.warning("%s accepts no connections. The run waits for it, or ends when Ray gives up.", server)
        self._unreachable = unreachable


def _read(path: str) -> list[Server]:
    try:
        with open(path, encoding="utf-8") as file:
            return [Server(**server) for server in json.load(file)]
    except (OSError, ValueError):  # not written yet
        return []


def _servers_of_cluster(cluster_address: str) -> list[Server]:
    """Returns the servers of the cluster that this process is connected to, without which it cannot continue."""
    import ray

    context = ray.get_runtime_context()
    here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    raylet = f"{here['NodeManagerAddress']}:{here['NodeManagerPort']}"
    servers = [Server("gcs_server", address=context.gcs_address), Server("raylet", address=raylet)]
    if ray.util.client.ray.is_connected():
        servers.append(Server("client server", address=cluster_address.rpartition("/")[2]))
    return [server for server in servers if not server.is_unreachable()]  # some may never be reachable from here


def _started_servers() -> list[Server]:
    processes = [process for process in psutil.process_iter(["name", "ppid"]) if process.info["ppid"] == os.getpid()]
    return [Server(process.info["name"], process.pid) for process in processes if process.info["name"] in _NAMES]
