"""Each feature can be deleted with its folder and its entry points: what is left imports, has its help, and trains."""

from __future__ import annotations

import configparser
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from .world.data import Examples

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ("__init__.py", "version.py", "cli", "components", "executors", "module_files", "pipelines")
FEATURES = sorted(path.parent.name for path in (REPOSITORY / "executors" / "features").glob("*/__init__.py"))
# import-linter holds that nothing outside of a feature imports it; what is registered is imported by name.
IMPORT_REGISTERED = """
from generic_trainer.executors import plugins
from importlib.metadata import entry_points
for group in entry_points().groups:
    if group.startswith("generic_trainer."):
        plugins.load(group)
"""


def with_dependents(feature: str) -> set[str]:
    """Returns a feature and those that declare an arrow to it in pyproject.toml."""
    arrows = [
        [name.split(".")[3] for name in line.strip().strip('",').split(" -> ")]
        for line in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").splitlines()
        if "executors.features." in line and " -> " in line
    ]
    return {feature, *(dependent for dependent, needed in arrows if needed == feature)}


def install_without(deleted: set[str], folder: pathlib.Path) -> None:
    """Installs the package without some features into a folder."""
    for name in PACKAGE:
        source, target = REPOSITORY / name, folder / "generic_trainer" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for feature in deleted:
        shutil.rmtree(folder / "generic_trainer" / "executors" / "features" / feature)
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    parts = tuple(f".features.{feature}." for feature in deleted)
    groups = [
        f"[{group}]\n" + "\n".join(line for line in lines.split("\n") if not any(part in line for part in parts))
        for group, lines in config["options.entry_points"].items()
    ]
    information = folder / "generic_trainer-0.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: generic-trainer\nVersion: 0.0\n")
    (information / "entry_points.txt").write_text("\n".join(groups))


@pytest.mark.thorough_but("display", "module_logs")
@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_can_be_deleted(feature: str, iris: Examples, tmp_path: pathlib.Path) -> None:
    deleted = with_dependents(feature)
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
    module = str(REPOSITORY / "module_files" / "iris_keras.py")
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", "20"]
    run("-m", "generic_trainer.cli.main", "train", module, *data, "--output", "out")
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()
    assert (tmp_path / "out" / "model_run" / "run.json").exists()


def test_features_with_an_arrow_are_deleted_together() -> None:
    assert with_dependents("module_logs") == {"module_logs", "metrics"}
