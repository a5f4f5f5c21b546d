"""Runs `generic-trainer` in forked processes that have already imported TensorFlow, for faster tests.

    commands = WarmCommands()
    done = commands.run(["train", "module.py", "--output", "out"], {**os.environ, "TMPDIR": "/tmp/x"}, folder)
    done = commands.run_program("import tensorflow as tf; print(tf.__version__)", [], dict(os.environ), folder)

A server imports TensorFlow once, and forks for each command; the command's fork server for its workers is forked, too.
Both use the package's fork server (`executors/engines/fork_server.py`). There is one server per Keras version, because
training commands need that of their module. If a variable that is read during imports differs, `run` returns None: such
a command needs a new process.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from typing import IO, Any, NoReturn

from generic_trainer.executors.dialects.needs import choose_keras
from generic_trainer.executors.engines import fork_server, fork_server_main
from generic_trainer.executors.modules import keras_version

LONGEST = 600.0  # seconds for a command
_OF_A_MODULE = ("dlrover", "elasticdl", "run", "script", "train")
_HERE = str(pathlib.Path(__file__).parent)
_MODULES = ("generic_trainer.cli.main", "generic_trainer.cli.train", __name__)
_READ_LATE = frozenset({"PYTEST_CURRENT_TEST", "TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "TMPDIR", "COLUMNS"})
# Set by importing TensorFlow, TFX or Ray in the process of the tests.
_SET_BY_IMPORTS = frozenset(
    {
        "ENABLE_RUNTIME_UPTIME_TELEMETRY", "HDF5_PLUGIN_PATH", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
        "RAY_CLIENT_MODE", "TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK", "TF2_BEHAVIOR", "TPU_ML_PLATFORM",
        "TPU_ML_PLATFORM_VERSION",
    }
)  # fmt: skip
_MESSAGE_BYTES = 1 << 17


def _imported_with(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that may be read during imports."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _READ_LATE | _SET_BY_IMPORTS
        if name == fork_server._SWITCH or not name.startswith("GENERIC_TRAINER_")
        if (name, value) != (keras_version.VARIABLE, "0")  # as without it
    }


_ENVIRONMENT = _imported_with(os.environ)  # before a test changes it


def _variables(keras: str) -> dict[str, str]:
    return keras_version.KerasChoice(keras, "").environment()


class WarmCommands:
    """Forks commands from one server per Keras version, which is started on first use."""

    def __init__(self) -> None:
        self._servers: dict[str, fork_server._Server] = {}
        line = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
        said = subprocess.run(line, capture_output=True, check=True, env=_ENVIRONMENT)
        self._path: list[str] = json.loads(said.stdout)  # of a new process, after the folder of `python -m`

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> subprocess.CompletedProcess[str] | None:
        """Runs a command; returns its exit code, output and error output."""
        keras = _keras_of(arguments, folder)
        if not keras or _imported_with(environment) != _ENVIRONMENT:
            return None
        return self._run({"arguments": [*arguments]}, keras, environment, folder)

    def run_program(
        self, source: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> subprocess.CompletedProcess[str] | None:
        """Runs a program as `python -c` does, with the Keras version of the environment."""
        keras = "2" if environment.get(keras_version.VARIABLE) == "1" else "3"
        if _imported_with({**environment, keras_version.VARIABLE: "0"}) != _ENVIRONMENT:
            return None
        return self._run({"arguments": [*arguments], "program": source}, keras, environment, folder)

    def _run(
        self, request: Mapping[str, object], keras: str, environment: Mapping[str, str], folder: str
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as own:
            path = pathlib.Path(own, "request.json")
            path.write_text(json.dumps({**request, "keras": keras, "sys_path": [folder, *self._path], "argv": []}))
            failure = pathlib.Path(own, "failure.json")  # of this file; the command ends its process itself
            order = {"worker": __name__, "files": [str(path), str(failure)], "folder": folder}
            started = self._started(keras, {**order, "environment": dict(environment)})
            done = _ended(started, request["arguments"])
            assert not failure.exists(), failure.read_text()
            return done

    def _started(self, keras: str, order: Mapping[str, object]) -> fork_server.ForkedProcess:
        for _ in range(2):  # a server that was idle for long has ended
            if keras not in self._servers or not self._servers[keras].is_running():
                self._servers[keras] = self._new_server(keras)
            if process := self._servers[keras].start(order, LONGEST):
                return process
        raise AssertionError("the server ended")

    def _new_server(self, keras: str) -> fork_server._Server:
        import pytest  # the servers must not import it

        with pytest.MonkeyPatch.context() as patch:
            modules = [*fork_server.preloaded_modules(), *_MODULES]
            patch.setattr(fork_server, "preloaded_modules", lambda: modules)
            patch.setattr(sys, "path", [_HERE, *self._path])
            return fork_server._Server({**_ENVIRONMENT, **_variables(keras)})

    def close(self) -> None:
        for server in self._servers.values():
            server.dismiss()
            server._process.wait(LONGEST)


def _keras_of(arguments: Sequence[str], folder: str) -> str:
    """Returns the Keras version of the module that a command trains; "" for a pipeline without a module argument.

    The module of a pipeline also determines the Keras version of its process; other commands use the environment.
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command not in _OF_A_MODULE:
        return "3"
    files = [pathlib.Path(folder, word.rpartition("=")[2]) for word in arguments if word.endswith(".py")]
    if not files:
        return {"elasticdl": "2", "run": ""}.get(command, "3")
    return choose_keras("auto", [str(file) for file in files if file.exists()]).version


def _ended(process: fork_server.ForkedProcess, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    watch = threading.Timer(LONGEST, os.killpg, (process.pid, signal.SIGKILL))
    watch.start()
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(_text(process.stderr)))
    reader.start()
    output = _text(process.stdout)
    reader.join()
    code = process.wait()
    watch.cancel()
    return subprocess.CompletedProcess(["generic-trainer", *arguments], code, output, said[0])


def _text(stream: IO[bytes]) -> str:
    with io.TextIOWrapper(stream, encoding="utf-8") as text:
        return text.read()


# In the forked process


def execute(request: dict[str, Any]) -> None:
    """Runs the command or program, which ends the process itself."""
    from generic_trainer.cli import main

    tempfile.tempdir = None  # TMPDIR may have changed
    if "program" in request:
        _execute_program(request["program"], request["arguments"])
    sys.argv = [str(main.__file__), *request["arguments"]]
    imported_with = _imported_with({**os.environ, **_variables(request["keras"])})
    fork_server.subprocess = _Subprocess(_Spare(), imported_with)  # type: ignore[assignment]
    main.main()


def _execute_program(source: str, arguments: list[str]) -> NoReturn:
    sys.argv, sys.path[0] = ["-c", *arguments], ""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    code: Any = 0
    try:
        exec(compile(source, "<string>", "exec"), vars(main))  # noqa: S102
        threading._shutdown()  # type: ignore[attr-defined]
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


class _Subprocess:
    """Replaces the module `subprocess` for starting a fork server: the first one is forked if it would be equal."""

    def __init__(self, spare: _Spare, imported_with: dict[str, str]) -> None:
        self._spare: _Spare | None = spare
        self._imported_with = imported_with

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, line: list[str], *, env: dict[str, str], **options: Any) -> Any:
        if self._spare is None or _imported_with(env) != self._imported_with:
            return subprocess.Popen(line, env=env, **options)
        spare, self._spare = self._spare, None
        spare.become_server(int(line[-1]), env)
        return spare


class _Spare:
    """A process that is forked before the command runs, and becomes its fork server on demand.

    It provides the methods of `subprocess.Popen` that the command uses.
    """

    def __init__(self) -> None:
        self._order, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._order.close()
            _serve(theirs)
        theirs.close()

    def become_server(self, control: int, environment: dict[str, str]) -> None:
        socket.send_fds(self._order, [json.dumps(environment).encode()], [control])
        self._order.close()

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve(orders: socket.socket) -> None:
    """Runs the fork server and each of its workers; ends the process as an interpreter does."""
    code: Any = 1
    try:
        os.setsid()
        with open(os.devnull, "r+b") as nothing:
            for number in range(3):
                os.dup2(nothing.fileno(), number)
        message, files, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 1)
        orders.close()
        if not files:  # the command ended without using it
            os._exit(0)
        os.environ.clear()
        os.environ.update(json.loads(message))
        code = fork_server_main.main(socket.socket(fileno=files[0]))
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else 1)
