"""Executes the code blocks of the pages in one process, in which later trainings start at once.

It reads one request per line of standard input, as JSON, and prints one line for each:

    {"folder": "/tmp/page", "command": "generic-trainer train … | tail -5"}  ->  {"code": 0, "output": "…"}
    {"folder": "/tmp/page", "python": "/tmp/page/.block-3.py"}               ->  {"code": 0, "output": ""}

The output of commands and their child processes is redirected to the file given as argument, and read from there.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import zipfile

from generic_trainer.cli import main as command_line

_NAMES: dict[str, dict[str, object]] = {}  # the names defined by the Python blocks of a page, by its folder
_ASSIGNMENT = re.compile(r"[A-Z_]+=")


def execute(order: dict[str, str], log: int) -> int:
    """Executes a request; returns its exit code. `log` is the output, as commands redirect standard error in here."""
    os.chdir(order["folder"])
    if "python" in order:
        return run_python(pathlib.Path(order["python"]), _NAMES.setdefault(order["folder"], {"__name__": "__main__"}))
    words = shlex.split(order["command"])
    while _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
    if words[0] in ("generic-trainer", "python") and any(pathlib.Path().glob("*.dist-info")):
        # The options of an installed package are declared when a process imports them.
        program = ["-m", "generic_trainer.cli.main"] if words[0] == "generic-trainer" else []
        line = [sys.executable, *program, *words[1:]]
        return subprocess.run(line, check=False, stdout=log, stderr=log).returncode
    if words[0] == "generic-trainer":
        sys.argv = words
        return command_line._exit_code()
    if words[0] == "python" and len(words) == 2:
        return run_python(pathlib.Path(words[1]), {"__name__": "__main__"})
    if words[:2] == ["pip", "install"]:
        return install(words[-1])
    return subprocess.run(["bash", "-c", order["command"]], check=False).returncode


def run_python(path: pathlib.Path, names: dict[str, object]) -> int:
    """Runs a block with the names defined by the previous blocks of its page."""
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), names)  # noqa: S102
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def install(project: str) -> int:
    """Builds the wheel of a project and unpacks it into this folder, from which modules are imported; needs no pip."""
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", build, folder], cwd=project, check=False)
        for wheel in pathlib.Path(folder).glob("*.whl"):
            zipfile.ZipFile(wheel).extractall()
    return done.returncode


def main(log: str) -> None:
    """Executes requests until the end of standard input."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    for line in orders:
        before, path, environment = os.path.getsize(log), list(sys.path), dict(os.environ)
        order = json.loads(line)
        command, _, filtered = order.get("command", "").partition(" | ")
        code = execute({**order, "command": command} if command else order, printed)
        sys.stdout.flush()
        sys.stderr.flush()
        with open(log, encoding="utf-8", errors="replace") as file:
            file.seek(before)
            output = file.read()
        if filtered:
            output = subprocess.run(
                ["bash", "-c", filtered], input=output, capture_output=True, text=True, check=False
            ).stdout
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        print(json.dumps({"code": code, "output": output}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
