"""Real data and real processes for the tests: TFRecords of iris and digits, and the command itself."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # child processes would compile TensorFlow again each time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by background jobs of a shell and their children

from .world.data import Examples, write_digits, write_iris  # noqa: E402
from .world.modules import SAVES_TINY  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parent))
from warm_command import WarmCommands  # noqa: E402

sys.path.pop()

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
_KERAS = os.environ.get("TF_USE_LEGACY_KERAS")  # of the whole session


@pytest.fixture(autouse=True)
def log_display() -> Iterator[None]:
    """Restores the variables by which a command shows and keeps logs; tests call entry points in their own process."""
    names = ("GENERIC_TRAINER_LOGS", "GENERIC_TRAINER_LOG_FILE")
    before = {name: os.environ.pop(name, None) for name in names}
    yield
    for name in names:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in before.items() if value is not None})


@pytest.fixture(scope="session")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Examples:
    """Iris in gzipped TFRecords: 120 training examples and 30 for evaluation, shuffled by a fixed seed."""
    return write_iris(tmp_path_factory.mktemp("iris"))


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Examples:
    """The 8x8 digits, pixels from 0 to 16 as floats."""
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def taxi_csv() -> pathlib.Path:
    """The folder with the Chicago taxi CSV that comes with TFX: 15,002 trips."""
    origin = find_spec("tfx").origin
    return pathlib.Path(origin).parent / "examples" / "chicago_taxi_pipeline" / "data" / "simple"


@pytest.fixture
def module(tmp_path: pathlib.Path) -> Callable[..., str]:
    """Writes a module, and further files by keyword, into a new folder; returns the module's path."""

    def write(source: str, name: str = "trainer_module.py", **others: str) -> str:
        folder = tmp_path / "user_code"
        for file, text in {name: source, **{f"{other}.py": text for other, text in others.items()}}.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return str(folder / name)

    return write


@pytest.fixture
def tiny_source() -> str:
    """A module whose last statement saves the model; further statements of `run_fn` can be appended."""
    return SAVES_TINY


@pytest.fixture
def tiny_module(module: Callable[..., str]) -> str:
    return module(SAVES_TINY, "tiny.py")


@pytest.fixture(scope="session")
def warm_commands() -> Iterator[WarmCommands]:
    commands = WarmCommands()
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def command(warm_commands: WarmCommands) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `generic-trainer` with arguments in a new process; returns code, output and error output.

    The process is forked from one that has imported TensorFlow, unless `new_python` is set.
    """

    def run(
        *arguments: object, new_python: bool = False, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        words, env = [*map(str, arguments)], {**os.environ} if env is None else env
        if not new_python and not options.keys() - {"cwd"} and sys.platform == "linux":
            done = warm_commands.run(words, env, str(options.get("cwd", os.getcwd())))
            if done is not None:
                return done
        line = [sys.executable, "-m", "generic_trainer.cli.main", *words]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=600, env=env, **options)

    return run


@pytest.fixture(scope="session")
def program(warm_commands: WarmCommands) -> Callable[..., str]:
    """Runs the source of a program with arguments, as `python -c` does, in such a process; returns its output.

    If the program fails, the test fails with its error output.
    """

    def run(source: str, *arguments: object, env: dict[str, str] | None = None, cwd: object = None) -> str:
        text, words = textwrap.dedent(source), [*map(str, arguments)]
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"} if env is None else env
        done = None
        if sys.platform == "linux":
            done = warm_commands.run_program(text, words, env, str(cwd or os.getcwd()))
        if done is None:
            line = [sys.executable, "-c", text, *words]
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600, env=env, cwd=cwd)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def signalled() -> Callable[[list[str], str, signal.Signals], tuple[str, int]]:
    """Sends `generic-trainer` a signal after it printed a line with a text; returns that line and the exit code."""

    def run(arguments: list[str], text: str, number: signal.Signals) -> tuple[str, int]:
        line = [sys.executable, "-m", "generic_trainer.cli.main", *arguments]
        with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
            assert running.stderr is not None
            said = next(row for row in running.stderr if text in row)
            running.send_signal(number)
            running.stderr.read()
        return said, running.returncode

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; if it or playwright is not installed, the test is skipped, except in CI."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if (chromium is None or find_spec("playwright") is None) and "CI" not in os.environ:
        pytest.skip("Chromium or playwright is not installed, and this is not CI")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def _of_the_users() -> list[str]:
    return [entry for entry in sys.path if "site-packages" not in entry]  # imported packages add entries


@pytest.fixture(autouse=True)
def _same_process_after_each_test() -> Iterator[None]:
    """Asserts that each test restores the process's import path, and restores the environment."""
    path = _of_the_users()
    _restore_keras()  # a fixture of a module or session may have imported TFX
    yield
    assert _of_the_users() == path
    _restore_keras()


def _restore_keras() -> None:
    """Removes what importing tfx.components sets for the process and its children."""
    os.environ.pop("TF_USE_LEGACY_KERAS", None)
    if _KERAS is not None:
        os.environ["TF_USE_LEGACY_KERAS"] = _KERAS


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Prints failures at once in CI, where a run may be stopped before its end."""
    if report.failed and "CI" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed:\n{report.longreprtext[-6000:]}", file=sys.__stderr__, flush=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        metavar="WHICH",
        default="all",
        help="tests marked as thorough to run: none, all, or a part such as 3/12",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects thorough tests by `--thorough`, and moves the files with most slow tests to the front.

    Then no worker still runs a slow file while the others are idle.
    """
    _mark_thorough_cases(items)
    wanted = _thorough_part(config.getoption("--thorough"))
    left_out = [item for item in items if item.get_closest_marker("thorough") and not wanted(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    files: dict[pathlib.Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    # For equal numbers, the pipeline tests are the slowest; they are alphabetically last.
    latest = sorted(files.items(), reverse=True)
    slow = {path: sum(item.get_closest_marker("slow") is not None for item in tests) for path, tests in latest}
    items[:] = [
        item for path, tests in sorted(latest, key=lambda file: (-slow[file[0]], -len(file[1]))) for item in tests
    ]


def _mark_thorough_cases(items: list[pytest.Item]) -> None:
    """Marks cases of parametrized tests: those in `thorough_cases`, and those that are not in `thorough_but`."""
    for item in items:
        case = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
        chosen, spared = item.get_closest_marker("thorough_cases"), item.get_closest_marker("thorough_but")
        if (chosen and case in chosen.args) or (spared and case not in spared.args):
            item.add_marker("thorough")


def _thorough_part(which: str) -> Callable[[pytest.Item], bool]:
    """Returns a predicate for the thorough tests to run; cases of a test, which may share a fixture, stay together."""
    if which in ("none", "all"):
        return lambda item: which == "all"
    number, _, parts = which.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise pytest.UsageError(f"--thorough={which!r}: must be none, all, or a part such as 3/12.")
    return lambda item: zlib.crc32(item.nodeid.partition("[")[0].encode()) % int(parts) == int(number) - 1
