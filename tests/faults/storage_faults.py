"""Full, failing and slow disks, simulated by `failing_calls.cc`, and a process that runs commands sequentially.

faults = Faults(folder)                                   # compiles the library
with Commands(faults.environment()) as commands:
    faults.fail("write", "*/run.json.part-*", errno.ENOSPC)
    commands.run("train", …).code
    assert faults.hits(0)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from types import TracebackType

_SOURCE = pathlib.Path(__file__).with_name("failing_calls.cc")
_CALLS = {
    name: 1 << place
    for place, name in enumerate(
        ("create", "open", "write", "sync", "rename", "mkdir", "remove", "stat", "list", "read", "exchange"),
    )
}
_RULE = struct.Struct("8i480s")
_RULES, _HITS = 8, 6 * 4
FOREVER = -1


class Faults:
    """Rules for the system calls of processes that are started with `environment()`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._library = folder / "failing_calls.so"
        subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-o", self._library, _SOURCE, "-ldl"], check=True)
        self.record = folder / "calls"
        self.record.touch()
        self.control = folder / "rules"
        self.control.write_bytes(bytes(_RULE.size * _RULES))
        with self.control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._library), "FAILING_CALLS": str(self.control)}

    def recording_environment(self) -> dict[str, str]:
        """Returns an environment whose processes also record their calls; see `recorded`."""
        return {**self.environment(), "RECORDED_CALLS": str(self.record)}

    def recorded(self) -> list[tuple[str, str, str]]:
        """Returns the calls since the last call of this method: name, path, and a rename's target."""
        names = {str(number): name for name, number in _CALLS.items()}
        lines = [line.split("\t") for line in self.record.read_text().splitlines()]
        os.truncate(self.record, 0)
        return [(names[number], path, other) for number, path, other in lines]

    def fail(
        self,
        calls: str,
        pattern: str,
        error: int,
        *,
        count: int = FOREVER,
        skip: int = 0,
        after: bool = False,
        seconds: float = 0,
        rule: int = 0,
    ) -> None:
        """Makes calls with a matching path fail.

        Args:
          calls: Names of `_CALLS`, separated by spaces.
          pattern: A glob pattern; * matches slashes, too.
          error: Number of the error, of `errno`; 0 for a call that is only slow.
          count: Number of calls that fail.
          skip: Number of calls that succeed before.
          after: Whether the call takes effect before it fails.
          seconds: Duration of the call.
          rule: Index of the rule; the first matching rule applies.
        """
        mask = sum(_CALLS[name] for name in calls.split())
        assert mask
        assert len(pattern) < 480
        values = (mask, error, skip, count, round(1000 * seconds), int(after), 0, 0)
        packed = _RULE.pack(*values, pattern.encode())
        start = rule * _RULE.size
        self._memory[start + 4 : start + _RULE.size] = packed[4:]
        self._memory[start : start + 4] = packed[:4]  # last: enables the rule

    def hits(self, rule: int = 0) -> int:
        """Returns the number of calls to which a rule was applied."""
        start = rule * _RULE.size + _HITS
        return int(struct.unpack("i", self._memory[start : start + 4])[0])

    def clear(self) -> None:
        self._memory[:] = bytes(len(self._memory))


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The result of a command: its exit code, and its standard output and error."""

    code: int
    said: str

    @property
    def message(self) -> str:
        """The output in one line; the last line shortens long paths, the lines before it have the whole message."""
        return self.said.replace("\n", " ")

    @property
    def last_line(self) -> str:
        return self.said.strip().splitlines()[-1]


_OUTPUT = "OUTPUT_OF_COMMANDS"  # path of the file with the output of the running command


class Commands:
    """A process that runs `generic-trainer` commands sequentially, so that TensorFlow is imported once."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._said = tempfile.NamedTemporaryFile()  # noqa: SIM115 (deleted with this object)
        self._environment = {**environment, "PYTHONUNBUFFERED": "1", _OUTPUT: self._said.name}
        self._process: subprocess.Popen[str] | None = None

    def start(self, *arguments: object) -> None:
        """Begins a command; `result` waits for its end."""
        self._begin()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
        self._process.stdin.flush()

    def _begin(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                text=True,
            )

    def result(self) -> CommandResult:
        assert self._process is not None
        assert self._process.stdout is not None
        done = CommandResult(**json.loads(self._process.stdout.readline()))
        os.truncate(self._said.name, 0)
        return done

    def output_so_far(self) -> str:
        return pathlib.Path(self._said.name).read_text(encoding="utf-8", errors="replace")

    def run(self, *arguments: object) -> CommandResult:
        self.start(*arguments)
        return self.result()

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()
            self._process.wait()


def _serve() -> None:
    """Runs the commands from standard input, a JSON list of arguments per line."""
    from generic_trainer.cli import main
    from generic_trainer.executors.runtime.logs.setup import LOG_FILE

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        sys.argv = ["generic-trainer", *json.loads(line)]
        os.environ.pop(LOG_FILE, None)  # unset for each command
        with open(os.environ[_OUTPUT], "w+b") as said:
            for number in (1, 2):  # C++ writes there, and `run` redirects them to its log
                os.dup2(said.fileno(), number)
            sys.stdout, sys.stderr = (open(os.dup(number), "w", buffering=1) for number in (1, 2))  # noqa: SIM115
            code = main._exit_code()
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        answers.write(json.dumps({"code": code, "said": text}) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    _serve()
