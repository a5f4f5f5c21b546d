"""Whatever a module raises, returns or does to its process: the last line of the command names the real cause."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

RAISES = {
    "a lone surrogate": ("raise ValueError('bad \\udc80 byte')", "ValueError: bad "),
    "a __str__ that raises": (
        "class Mute(ValueError):\n    def __str__(self): raise RuntimeError\nraise Mute",
        "Mute: <no message: its __str__ raised RuntimeError>",
    ),
    "a __str__ that returns no text": (
        "class Odd(ValueError):\n    def __str__(self): return 7\nraise Odd",
        "Odd: <no message: its __str__ raised TypeError>",
    ),
    "arguments that are no text": (
        "raise ValueError(b'\\xff', object, 1.5)",
        "ValueError: (b'\\xff', <class 'object'>, 1.5)",
    ),
    "a huge text": ("raise ValueError('x' * 3_000_000 + ' the end')", "x the end"),
    "a class that cannot be made again": (
        "class Strict(ValueError):\n"
        "    def __new__(cls, *words, table): return super().__new__(cls, *words)\n"
        "    def __init__(self, *words, table): self.table = table\n"
        "raise Strict('no column', table='taxi')",
        "Strict: no column",
    ),
    "odd notes": ("error = ValueError('noted')\nerror.__notes__ = 7\nraise error", "ValueError: noted"),
    "attributes that raise": (
        "class Bare(ValueError):\n    @property\n    def args(self): raise RuntimeError\nraise Bare('bare')",
        "TrainingProcessError: The module raised ",
    ),
    "os._exit(0)": ("import os\nos._exit(0)", "ended with status 0 before it had finished, and without an exception"),
    "os.abort()": ("import os\nos.abort()", "was ended by SIGABRT before it had finished"),
    "sys.exit()": ("import sys\nsys.exit()", "ended with SystemExit(None)"),
    "C's exit()": ("import ctypes\nctypes.CDLL(None).exit(0)", "ended with status 0 before it had finished"),
    "a limit on the size of files": (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    with open(fn_args.model_run_dir + '/big', 'wb', buffering=0) as file:\n"
        "        for _ in range(9): file.write(b'x' * 900)\n"
        "finally:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))",
        "OSError: [Errno 27] File too large",
    ),
}


@pytest.mark.thorough_but("C's exit()", "a limit on the size of files")
@pytest.mark.parametrize("case", RAISES)
def test_the_last_line_names_the_cause_and_there_is_a_record_and_a_report(
    case: str, command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    body, said = RAISES[case]
    path = module("def run_fn(fn_args):\n" + "".join(f"    {line}\n" for line in body.split("\n")))

    done = command("train", path, "--train-files", iris.train, "--output", tmp_path / "out")

    assert done.returncode == 1, done.stderr[-3000:]
    last = done.stderr.splitlines()[-1]
    assert said.removeprefix("TrainingProcessError: ") in last, last[-3000:]
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["status"] == "failed"
    assert record["error"]["message"]
    assert "failed" in (tmp_path / "out" / "model_run" / "report.html").read_text("utf-8")


def test_an_exception_group_keeps_its_name(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("builtins", reason="Python 3.11").__dict__.get("ExceptionGroup") or pytest.skip("Python 3.11")
    path = module("def run_fn(fn_args):\n    raise ExceptionGroup('two', [ValueError('one'), KeyError('other')])\n")

    done = command("train", path, "--train-files", iris.train, "--output", tmp_path / "out")

    assert done.returncode == 1
    assert "ExceptionGroup: two (2 sub-exceptions)" in done.stderr.splitlines()[-1]
    assert "ValueError: one" in done.stderr


LAZY = {
    "async def": ("async def run_fn(fn_args):\n    pass\n", "is an `async def`"),
    "a generator": ("def run_fn(fn_args):\n    yield fn_args\n", "is a generator (it has a `yield`)"),
    "an asynchronous generator": ("async def run_fn(fn_args):\n    yield 1\n", "is an asynchronous generator"),
    "a partial of one": (
        "import functools\nasync def main(steps, fn_args):\n    pass\nrun_fn = functools.partial(main, 1)\n",
        "is an `async def`",
    ),
    "an object": (
        "class Run:\n    async def __call__(self, fn_args):\n        pass\nrun_fn = Run()\n",
        "is an `async def`",
    ),
    "a decorated one": (
        "import functools\n"
        "def logged(f):\n    @functools.wraps(f)\n    def call(*a):\n        return f(*a)\n    return call\n"
        "@logged\nasync def run_fn(fn_args):\n    pass\n",
        "is an `async def`",
    ),
    "a lambda": ("async def main(a):\n    pass\nrun_fn = lambda fn_args: main(fn_args)\n", "returned a coroutine"),
    "a generator expression": ("def run_fn(fn_args):\n    return (x for x in [1])\n", "returned a generator"),
}


@pytest.mark.thorough_but("async def", "a lambda")
@pytest.mark.parametrize("case", LAZY)
def test_a_function_whose_call_runs_nothing_is_refused(
    case: str, command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    source, said = LAZY[case]

    done = command("train", module(source), "--train-files", iris.train, "--output", tmp_path / "out")

    assert done.returncode == 2, done.stderr
    assert f"trainer_module.py: run_fn {said}" in done.stderr.replace("\n", " ")
    assert "call asyncio.run(main(fn_args)) in it" in done.stderr.replace("\n", " ")
