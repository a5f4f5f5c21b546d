"""Each guest can be deleted with its folder and its entry points: what is left imports, has its help, and trains."""

from __future__ import annotations

import configparser
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from generic_trainer.executors import plugins
from generic_trainer.executors.option import options_of
from generic_trainer.executors.options import OPTIONS

from .world.data import Examples

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ("__init__.py", "version.py", "cli", "components", "executors", "module_files", "pipelines")
FOLDERS = ("dialects", "engines", "features")
GUESTS = sorted(
    f"{folder}/{path.parent.name}"
    for folder in FOLDERS
    for path in (REPOSITORY / "executors" / folder).glob("*/__init__.py")
)
# import-linter holds that nothing outside of a guest imports it; what is registered is imported by name.
IMPORT_REGISTERED = """
from generic_trainer.executors import plugins
from importlib.metadata import entry_points
for group in entry_points().groups:
    if group.startswith("generic_trainer."):
        plugins.load(group)
"""


def owner_of(module: str) -> str:
    """Returns the guest that a module is part of, or the file of a command."""
    _, layer, *names = module.split(".")
    return f"cli/{names[0]}.py" if layer == "cli" else "/".join(names[:2])


def with_dependents(guest: str) -> set[str]:
    """Returns a guest, and the guests and files of commands that have an arrow to it in pyproject.toml."""
    arrows = [
        [owner_of(name) for name in line.strip().strip('",').split(" -> ")]
        for line in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").splitlines()
        if " -> " in line
    ]
    return {guest}.union(*(with_dependents(dependent) for dependent, needed in arrows if needed == guest))


def flags() -> dict[str, str]:
    """Returns the flag of each option that is not the kernel's, with its owner."""
    return {
        f"--{option.name.replace('_', '-')} ": owner_of(entry.module)
        for entry in plugins.entries(OPTIONS)
        for option in options_of(entry.load())
    }


def install_without(deleted: set[str], folder: pathlib.Path) -> None:
    """Installs the package without some guests and commands into a folder."""
    for name in PACKAGE:
        source, target = REPOSITORY / name, folder / "generic_trainer" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for name in deleted:
        if name in GUESTS:
            shutil.rmtree(folder / "generic_trainer" / "executors" / name)
        else:
            (folder / "generic_trainer" / name).unlink()
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    parts = tuple(f".{name.replace('/', '.')}." for name in deleted)
    groups = [
        f"[{group}]\n" + "\n".join(line for line in lines.split("\n") if not any(part in line for part in parts))
        for group, lines in config["options.entry_points"].items()
    ]
    information = folder / "generic_trainer-0.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: generic-trainer\nVersion: 0.0\n")
    (information / "entry_points.txt").write_text("\n".join(groups))


@pytest.mark.thorough_but("dialects/estimators", "engines/tf_config", "features/display", "features/early_stopping")
@pytest.mark.slow
@pytest.mark.parametrize("guest", GUESTS)
def test_a_guest_can_be_deleted(guest: str, iris: Examples, tmp_path: pathlib.Path) -> None:
    deleted = with_dependents(guest)
    install_without(deleted, tmp_path / "packages")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "packages")}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(tmp_path) in run("-c", "import generic_trainer; print(generic_trainer.__file__)")
    run("-c", IMPORT_REGISTERED)
    assert "train" in run("-m", "generic_trainer.cli.main", "--help")
    shown = run("-m", "generic_trainer.cli.main", "train", "--help")
    assert [flag for flag in flags() if flag in shown] == [
        name for name, owner in flags().items() if owner not in deleted
    ]
    module = str(REPOSITORY / "module_files" / "iris_keras.py")
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", "20"]
    run("-m", "generic_trainer.cli.main", "train", module, *data, "--output", "out")
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()
    assert (tmp_path / "out" / "model_run" / "run.json").exists()


def test_guests_and_commands_with_an_arrow_are_deleted_together() -> None:
    assert with_dependents("features/module_logs") == {"features/module_logs"}
    assert with_dependents("dialects/estimators") == {"dialects/estimators", "dialects/dlrover", "cli/dlrover.py"}


def test_the_contract_on_imports_names_each_guest() -> None:
    contract = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").partition("protected_modules = [")[2]
    names = {line.strip().strip('",') for line in contract.partition("]")[0].splitlines() if line}
    guests = {f"generic_trainer.executors.{'features/*' if 'features' in name else name}" for name in GUESTS}
    assert names == {guest.replace("/", ".") for guest in guests}
