"""A MariaDB server of a test's own, in a temporary folder, which it starts and stops."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import time

PASSWORD = "pa ss@1:w0rd/"  # noqa: S105 (with what a URL would have to quote)


def missing() -> str:
    """Returns why no server can be started; "" if it can."""
    names = [name for name in ("mariadbd", "mariadb-install-db", "mariadb") if not _path(name)]
    return f"not installed: {', '.join(names)} (apt-get install mariadb-server)" if names else ""


class MariaDb:
    """A server with a database `mlmd` for the user `trainer` with the password `PASSWORD`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self._port = one.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        options = ["--no-defaults", f"--datadir={folder}/data", *_user()]
        install = [_path("mariadb-install-db"), *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)
        self.start()
        self.execute(
            "CREATE DATABASE mlmd; "
            f"CREATE USER trainer@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; "
            f"CREATE USER trainer@localhost IDENTIFIED BY '{PASSWORD}'; "
            "GRANT ALL ON mlmd.* TO trainer@'127.0.0.1'; GRANT ALL ON mlmd.* TO trainer@localhost"
        )

    @property
    def url(self) -> str:
        return f"mysql://trainer@127.0.0.1:{self._port}/mlmd"

    def start(self) -> None:
        command = [_path("mariadbd"), "--no-defaults", f"--datadir={self._folder}/data", *_user()]
        command += [f"--socket={self._folder}/socket", f"--port={self._port}", "--bind-address=127.0.0.1"]
        command += [f"--pid-file={self._folder}/pid", "--innodb-buffer-pool-size=16M"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while self._client("SELECT 1").returncode:
            assert time.monotonic() < end, (self._folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()  # as a power cut: InnoDB recovers
            self._process.wait()
            self._process = None

    def execute(self, statements: str) -> str:
        done = self._client(statements)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _client(self, statements: str) -> subprocess.CompletedProcess[str]:
        command = [
            _path("mariadb"),
            "--no-defaults",
            f"--socket={self._folder}/socket",
            "-uroot",
            "-N",
            "-e",
            statements,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _path(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or ""
