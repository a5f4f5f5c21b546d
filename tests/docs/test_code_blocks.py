"""All code blocks of README.md, benchmarks/README.md and docs/ are run in the order of their page, or checked.

The word after the fence is the kind of the block:

* `console`: commands after `$ `, and their output. They are run in a folder with iris/, iris.csv, digits/, taxi/ and
  module_files/; each line of the block must be printed. Numbers may differ, and `…` matches anything. If a line starts
  with `generic-trainer:`, the command must fail.
* `python`: is run with the names defined by the previous blocks of the page.
* `bash`: commands that need more than a test provides; they are checked.
* `yaml`, `json`, `toml`, `ini`, `dockerfile`, `csv`: are parsed.
* any of them with `title="path"`: is parsed, and written to that file for the following commands.
* `text`: needs a mark.

A comment on the line before the block marks it:

* `<!-- checked: why it is not run -->`: commands are parsed by click, Python is compiled and its imports are resolved.
* `<!-- needs: package -->`: it is run if the package is installed, else only parsed.
* `<!-- output -->`: it shows example output, and is neither run nor checked.
"""

from __future__ import annotations

import ast
import configparser
import csv
import dataclasses
import importlib.util
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import click
import pytest
import yaml

from ..world.data import iris_csv

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "benchmarks" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
LONGEST = 300.0  # seconds for one block
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
_MARK = re.compile(r"^ *<!-- (?P<name>checked|needs|output)(?:: (?P<why>.+))? -->$")
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*(?:e[-+]?\d+)?")
_PROGRAMS = (
    "gcloud",
    "kubectl",
    "tensorboard",
    "notify-send",
    "docker",
    "podman",
    "curl",
    "cd",
    "cat",
    "head",
    "ls",
    "uv",
    "python",
    "git",
    "export",
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its line, kind and content; `why` is the text of its mark."""

    line: int
    kind: str
    title: str
    mark: str
    why: str
    text: str

    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands of a session, each with its expected output lines."""
        found: list[tuple[str, list[str]]] = []
        lines = iter(self.text.split("\n"))
        for line in lines:
            if line.startswith("$ "):
                command = line[2:]
                while command.endswith("\\"):
                    command = command[:-1] + next(lines).strip()
                found.append((command, []))
            elif line.strip(" …"):
                found[-1][1].append(line)
        return found


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    blocks: list[Block] = []
    lines = text.split("\n")
    rows = iter(enumerate(lines, 1))
    for number, line in rows:
        if not (fence := _FENCE.match(line)):
            continue
        indent, info, body = len(fence["indent"]), fence["info"].strip(), []
        for _, inner in rows:
            if inner.strip() == "```":
                break
            body.append(inner[indent:])
        before = next((row for row in reversed(lines[: number - 1]) if row.strip()), "")
        title = re.search(r'title="([^"]+)"', info)
        mark = _MARK.match(before)
        kind = info.split(" ")[0] if info else ""
        name, why = (mark["name"], mark["why"] or "") if mark else ("", "")
        blocks.append(Block(number, kind, title[1] if title else "", name, why, "\n".join(body)))
    return blocks


# Checks of blocks that are not run; each raises an exception if the block is invalid.


def check_python(text: str) -> None:
    """Asserts that it compiles, and that its imported modules and names exist."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.Import):
            for name in names:
                assert importlib.util.find_spec(name), f"module {name} does not exist"
        elif isinstance(node, ast.ImportFrom) and node.module == "generic_trainer":
            public = importlib.import_module("generic_trainer").__all__
            assert set(names) <= set(public), f"generic_trainer has no {set(names) - set(public)}"
        elif isinstance(node, ast.ImportFrom):
            assert importlib.util.find_spec(node.module or ""), f"module {node.module} does not exist"


def check_shell(text: str) -> None:
    """Asserts that the program of each command is known, and accepts its arguments."""
    for line in text.replace("\\\n", " ").split("\n"):
        if line.strip() and not line.startswith("#"):
            check_command(line)


def check_command(line: str) -> None:
    """Parses a command of this project; other commands must be known."""
    words = shlex.split(line.partition(" | ")[0], comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    words = words[1:] if words[0] == "sudo" else words
    if words[0].endswith("generic-trainer"):
        parse_command(words[1:])
    elif words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, f"make has no target {words[1]}"
    elif words[0] == "pip":
        check_requirements(words[2:])
    elif words[0].startswith("scripts/"):
        assert (REPOSITORY / words[0]).exists(), words[0]
    elif words[0].endswith("/python"):
        assert (REPOSITORY / words[1]).exists(), words[1]
    else:
        assert words[0] in _PROGRAMS, f"{words[0]}: unknown program; add it to this test"


def check_requirements(words: list[str]) -> None:
    """Asserts that this project has the extras in the requirements."""
    extras = set(_config()["options.extras_require"])
    for word in words:
        if found := re.match(r"generic-trainer\[([a-z,]+)\]", word):
            assert set(found[1].split(",")) <= extras, f"{word}: the extras are {sorted(extras)}"


def parse_command(words: list[str]) -> None:
    """Parses a command line with click, and a submitted one in it, without running anything."""
    from generic_trainer.cli.main import cli

    command: click.Command = cli
    context = cli.make_context("generic-trainer", list(words))
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, list(rest), parent=context)
    if command.name == "submit" and context.params["command"]:
        parse_command([word for word in context.params["command"] if word != "--"])


def check_ini(text: str) -> None:
    configparser.ConfigParser().read_string(text)


def check_toml(text: str) -> None:
    if sys.version_info >= (3, 11):
        import tomllib

        tomllib.loads(text)


def check_dockerfile(text: str) -> None:
    for line in text.replace("\\\n", " ").strip().split("\n"):
        assert line.split(" ")[0] in ("FROM", "USER", "RUN", "COPY", "ENV", "WORKDIR", "CMD", "ENTRYPOINT"), line


def check_launch(text: str) -> None:
    """Asserts that each configuration of VS Code runs a valid command line of this project."""
    for entry in json.loads(text)["configurations"]:
        assert entry["module"] == "generic_trainer.cli.main", entry["module"]
        parse_command([word.replace("${file}", "mean_petal.py") for word in entry["args"]])


def check_csv(text: str) -> None:
    assert len({len(row) for row in csv.reader(text.split("\n"))}) == 1, "its rows have different lengths"


CHECKS: dict[str, Callable[[str], object]] = {
    "python": check_python,
    "bash": check_shell,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "json": json.loads,
    "toml": check_toml,
    "ini": check_ini,
    "dockerfile": check_dockerfile,
    "csv": check_csv,
}


def check(block: Block) -> None:
    """Checks a block that is not run.

    Raises:
      AssertionError: When its kind is unknown, or it is invalid.
    """
    if block.kind == "console":
        for command, _ in block.commands():
            check_command(command)
    elif block.mark == "needs":
        assert block.kind == "python", "only Python and commands may need a package"
        ast.parse(block.text)
    elif block.title == ".vscode/launch.json":
        check_launch(block.text)
    elif block.kind == "text":
        assert block.mark or block.title, "a block of text needs a mark, such as <!-- output -->"
    else:
        assert block.kind in CHECKS, f"{block.kind!r} is none of console, text, {', '.join(CHECKS)}"
        CHECKS[block.kind](block.text)


def _config() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    return config


def is_run(block: Block) -> bool:
    is_possible = not block.mark or (block.mark == "needs" and importlib.util.find_spec(block.why) is not None)
    return block.kind in ("console", "python") and is_possible and not block.title


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_blocks_are_well_formed(page: pathlib.Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        try:
            if not is_run(block):
                check(block)
        except (Exception, click.ClickException) as error:
            raise AssertionError(f"{page.name}, line {block.line}: {error}") from error


class Shell:
    """Runs the blocks of a page in its folder, in a subprocess."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def __call__(self, folder: pathlib.Path, **order: str) -> tuple[int, str]:
        assert self._program.stdin
        assert self._program.stdout
        self._program.stdin.write(json.dumps({"folder": str(folder), **order}) + "\n")
        self._program.stdin.flush()
        watchdog = threading.Timer(LONGEST, self._program.kill)
        watchdog.start()
        answer = json.loads(self._program.stdout.readline() or '{"code": -1, "output": "the shell process ended"}')
        watchdog.cancel()
        return answer["code"], answer["output"]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    program = [sys.executable, str(pathlib.Path(__file__).with_name("page_shell.py"))]
    log = tmp_path_factory.mktemp("shell") / "log"
    pipe = subprocess.PIPE
    with subprocess.Popen([*program, str(log)], stdin=pipe, stdout=pipe, text=True) as running:
        yield Shell(running)


@pytest.fixture
def folder(tmp_path: pathlib.Path, iris: object, digits: object, taxi_csv: pathlib.Path) -> pathlib.Path:
    """The folder in which the commands of the pages are run."""
    for name, examples in (("iris", iris), ("digits", digits)):
        shutil.copytree(pathlib.Path(examples.train).parents[1], tmp_path / name)
    shutil.copytree(taxi_csv, tmp_path / "taxi")
    shutil.copytree(REPOSITORY / "module_files", tmp_path / "module_files")
    (tmp_path / "iris.csv").write_text(iris_csv("sepal.length,sepal.width,petal.length,petal.width,variety"))
    return tmp_path


def require_printed(expected: list[str], code: int, output: str) -> None:
    """Asserts that each expected line was printed; numbers may differ, and `…` matches anything."""
    fails = any(line.startswith("generic-trainer:") for line in expected)
    assert (code != 0) is fails, f"exit code {code}:\n{output[-3000:]}"
    printed = [" ".join(line.split()) for line in output.split("\n")]
    for line in expected:
        pieces = [_NUMBER.split(piece) for piece in " ".join(line.split()).split("…")]
        pattern = ".*".join(_NUMBER.pattern.join(map(re.escape, piece)) for piece in pieces)
        found = any(re.fullmatch(pattern, one) for one in printed)
        errors = [one for one in printed if one.startswith("generic-trainer:")]  # before what goes to standard output
        assert found, "\n".join([f"not printed: {line}", "but:", *errors, output[-3000:]])


@pytest.mark.thorough_cases(
    "docs/gallery/tabular.md",
    "docs/howto/check.md",
    "docs/howto/goals.md",
    "docs/reference/run_json.md",
    "docs/dialects/model_fn.md",
    "docs/dialects/trainer_fn.md",
    "docs/howto/speed.md",
    "docs/howto/custom_dialect.md",
    "docs/howto/report.md",
    "docs/howto/history.md",
    "docs/howto/serving.md",
    "docs/howto/configuration.md",
    "docs/dialects/elasticdl.md",
    "docs/dialects/dlrover.md",
)
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(map(is_run, blocks_of(page.read_text(encoding="utf-8"))))],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_code_blocks_run_as_documented(page: pathlib.Path, folder: pathlib.Path, shell: Shell) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {block.line}"
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{block.text}\n", encoding="utf-8")
        elif is_run(block) and block.kind == "python":
            path = folder / f".block-{block.line}.py"
            path.write_text(block.text, encoding="utf-8")
            code, output = shell(folder, python=str(path))
            assert code == 0, f"{where}:\n{output[-3000:]}"
        elif is_run(block):
            for command, expected in block.commands():
                try:
                    require_printed(expected, *shell(folder, command=command))
                except AssertionError as error:
                    raise AssertionError(f"{where}: $ {command}\n{error}") from None


def test_an_invalid_block_is_detected() -> None:
    wrong = {
        "console": "$ generic-trainer train iris_keras.py --train-file iris/train",
        "python": "from generic_trainer import Trianer",
        "bash": "pip install 'generic-trainer[rya]'",
        "yaml": "a: [",
        "fortran": "PRINT *",
        "text": "no mark",
        'json title=".vscode/launch.json"': json.dumps(
            {"configurations": [{"module": "generic_trainer.cli.main", "args": ["train", "a.py", "--isolat"]}]}
        ),
    }
    for kind, text in wrong.items():
        [block] = blocks_of(f"Words.\n\n```{kind}\n{text}\n```\n")
        with pytest.raises((AssertionError, click.ClickException, yaml.YAMLError)):
            check(block)
    with pytest.raises(AssertionError, match=r"not printed: accuracy 0\.9"):
        require_printed(["accuracy 0.9"], 0, "loss 0.9")
    require_printed(["0.5,0.25,0.25"], 0, "0.99,3.7e-06,1e-12")
    require_printed(["  accuracy  0.9", "…/model/7 is published"], 0, "accuracy 0.87\n/tmp/model/12 is published\n")
