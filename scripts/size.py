"""Measures the kernel and what a training reaches, and compares each figure with its limit in pyproject.toml.

    python scripts/size.py             # from the sources: the kernel, static closures, imports of a file
    python scripts/size.py --loaded    # also trains iris and counts the modules loaded in the calling process

The static closure of a module is what imports reach from it, those in functions included; those under TYPE_CHECKING and
modules named in strings (entry points, workers) are not. Therefore a training is measured as well. `__init__` files are
followed but not counted, except in the kernel, which is a list of files.

A limit is today's figure. A change that lowers the figure lowers the limit; a commit that raises it gives the reason.
A file imports at most 12 modules of the package, unless `[tool.size.roots]` names it; no two files import each other.
"""

from __future__ import annotations

import ast
import configparser
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

import tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "generic_trainer"
TRAINING = f"{PACKAGE}.executors.training"
TRAIN, WORKER, STEP = f"{TRAINING}.run", f"{TRAINING}.worker", f"{TRAINING}.step"
# What starts code of the kernel: it belongs to the kernel only if one of these reaches it.
_STARTS = (
    *(TRAIN, WORKER, STEP, f"{PACKAGE}.executors.generic_executor", f"{PACKAGE}.executors.saved_models.probe"),
    *(f"{PACKAGE}.executors.engines.{name}" for name in ("local", "child_main", "fork_server_main")),
    f"{PACKAGE}.executors.dialects.run_fn",
)
# They attach features to a training: MLflow, a cluster, options of the command line.
_VARIABLES = ("GENERIC_TRAINER_", "MLFLOW_", "TF_CONFIG")
_MOST_IMPORTS = 12
_TRAIN_IRIS = f"""
import sys
from {PACKAGE} import FnArgs, train
files = dict(train_files=["iris/train/*"], eval_files=["iris/eval/*"])
train(sys.argv[1], FnArgs(**files, train_steps=20, serving_model_dir="model/Format-Serving", model_run_dir="model_run"))
own = (name for name in sys.modules if name.startswith("{PACKAGE}."))
print(*(name for name in own if not hasattr(sys.modules[name], "__path__")))
"""


class Sources:
    """The modules of the package, from their source files; nothing is imported."""

    def __init__(self, repository: pathlib.Path) -> None:
        self._repository = repository
        settings = configparser.ConfigParser()
        settings.read(repository / "setup.cfg", encoding="utf-8")
        self._files: dict[str, pathlib.Path] = {}
        for package in settings["options"]["packages"].split():
            for file in repository.joinpath(*package.split(".")[1:]).glob("*.py"):
                self._files[package if file.stem == "__init__" else f"{package}.{file.stem}"] = file
        self._imports = {module: set(self._imported(module)) for module in self._files}

    def modules(self) -> list[str]:
        """Returns the names of all modules that are not packages."""
        return [name for name, file in self._files.items() if file.stem != "__init__"]

    def file(self, module: str) -> pathlib.Path:
        """Returns the file of a module."""
        return self._files[module]

    def lines(self, module: str) -> int:
        """Returns the number of lines of a module's file."""
        return line_count(self._files[module])

    def shown(self, module: str) -> str:
        """Returns the path of a module's file in the repository."""
        return self._files[module].relative_to(self._repository).as_posix()

    def own_imports(self, module: str) -> set[str]:
        """Returns the package's modules that a module imports."""
        return {name for name in self._imports[module] if self._files[name].stem != "__init__"}

    def closure(self, module: str) -> set[str]:
        """Returns the modules that imports reach from a module, itself included."""
        reached: set[str] = set()
        pending = {module}
        while pending:
            name = pending.pop()
            reached.add(name)
            pending |= (self._imports[name] | self._packages_of(name)) - reached
        return {name for name in reached if self._files[name].stem != "__init__"}

    def _imported(self, module: str) -> Iterator[str]:
        """Yields the package's modules that a module imports; `from a import b` imports a.b if that is a module."""
        for node in _running(ast.parse(self._files[module].read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node, module)
                inner = [f"{origin}.{alias.name}" for alias in node.names]
                names = [name if name in self._files else origin for name in inner]
            yield from (name for name in names if name in self._files and name != module)

    def _origin(self, node: ast.ImportFrom, module: str) -> str:
        """Returns the absolute name of the module after `from`."""
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        parts = parts if self._files[module].stem == "__init__" else parts[:-1]
        return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])

    def _packages_of(self, module: str) -> set[str]:
        """Returns the packages that a module's import runs first."""
        parts = module.split(".")
        return {".".join(parts[:count]) for count in range(1, len(parts))}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a tree's nodes, without those that only type checkers read."""
    yield node
    skipped = node.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") else []
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from _running(child)


def line_count(file: pathlib.Path) -> int:
    """Returns the number of lines of a file."""
    return len(file.read_text(encoding="utf-8").splitlines())


def kernel_files(repository: pathlib.Path, patterns: list[str]) -> set[pathlib.Path]:
    """Returns the files of the kernel; a pattern that matches nothing is an error."""
    matches = {pattern: set(repository.glob(pattern)) for pattern in patterns}
    empty = [pattern for pattern, files in matches.items() if not files]
    if empty:
        sys.exit(f"error: no file matches {', '.join(empty)}, in `kernel` of [tool.size] in pyproject.toml.")
    return set().union(*matches.values())


def figures(repository: pathlib.Path, kernel: list[str]) -> dict[str, int]:
    """Returns the figures of the sources by name."""
    sources = Sources(repository)
    files = kernel_files(repository, kernel)
    measured = {"kernel_files": len(files), "kernel_lines": sum(map(line_count, files))}
    started = set().union(*map(sources.closure, _STARTS))
    spare = [file for file in files if file.stem != "__init__" and file not in map(sources.file, started)]
    measured["kernel_spare"] = len(spare)
    for name, module in (("train", TRAIN), ("worker", WORKER), ("step", STEP)):
        reached = sources.closure(module)
        measured |= {f"{name}_files": len(reached), f"{name}_lines": sum(map(sources.lines, reached))}
    return measured


def wrong_imports(sources: Sources, roots: Mapping[str, int]) -> list[str]:
    """Returns which files import too many modules of the package, or each other.

    Args:
      sources: The package's sources.
      roots: Files that may import more than 12 modules, with their number: commands and others that compose a program.
    """
    counts = {module: len(sources.own_imports(module)) for module in sources.modules()}
    over = {sources.shown(module): count for module, count in counts.items() if count > _MOST_IMPORTS}
    wrong = [f"{name} imports {count} modules of the package" for name, count in over.items() if name not in roots]
    for name, limit in roots.items():
        if (count := over.get(name, 0)) != limit:
            wrong.append(f"{name} imports {count or 'at most 12'} modules, and its entry in `roots` is {limit}")
    for module in sources.modules():
        for other in sorted(sources.own_imports(module)):
            if module < other and module in sources.own_imports(other):
                wrong.append(f"{sources.shown(module)} and {sources.shown(other)} import each other")
    return wrong


def loaded_by_train() -> int:
    """Trains iris in a new process, and returns how many of the package's modules that process has loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_VARIABLES)}
    with tempfile.TemporaryDirectory() as folder:

        def run(*arguments: str) -> str:
            done = subprocess.run(
                [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"error: {' '.join(arguments)[-200:]} failed:\n{done.stderr[-3000:]}")
            return done.stdout

        run(str(REPOSITORY / "scripts" / "try_stack.py"), "write_iris")
        output = run("-c", _TRAIN_IRIS, str(REPOSITORY / "module_files" / "iris_keras.py"))
    return len(output.splitlines()[-1].split())


def compare(measured: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """Prints each figure with its limit; returns what is wrong."""
    wrong = [f"{name} has no limit" for name in measured.keys() - limits.keys()]
    for name, value in measured.items():
        limit = limits.get(name, value)
        print(f"{name:<16}{value:>7,}   limit {limit:>7,}{'   lower the limit' if value < limit else ''}")  # noqa: T201
        if value > limit:
            wrong.append(f"{name} is {value:,}, more than its limit {limit:,}")
    return wrong


def main(arguments: list[str]) -> None:
    """Measures, prints and compares; exits with code 1 if a figure is over its limit."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["size"]
    measured = figures(REPOSITORY, settings["kernel"])
    if "--loaded" in arguments:
        measured["train_loaded"] = loaded_by_train()
    wrong = compare(measured, settings["limits"]) + wrong_imports(Sources(REPOSITORY), settings["roots"])
    if wrong:
        sys.exit("\n".join(["error: see [tool.size] in pyproject.toml:", *wrong]))


if __name__ == "__main__":
    main(sys.argv[1:])
