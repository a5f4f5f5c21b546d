"""The distributed package: contents of the wheel, cost of an import, and requirements."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def test_importing_it_imports_neither_tensorflow_nor_tfx() -> None:
    program = "import sys, json, generic_trainer; dir(generic_trainer); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert imported.isdisjoint({"tensorflow", "tfx", "tfx_bsl", "keras", "apache_beam", "numpy", "click"})


def test_every_public_name_resolves() -> None:
    import generic_trainer

    for name in generic_trainer.__all__:
        assert getattr(generic_trainer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Trianer'"):
        generic_trainer.Trianer  # noqa: B018


def test_the_command_needs_no_tensorflow_until_it_runs_something() -> None:
    program = "import sys; import generic_trainer.cli.main; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone_and_works_in_an_empty_environment(tmp_path: pathlib.Path) -> None:
    hidden = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    clean = shutil.copytree(REPOSITORY, tmp_path / "clean", ignore=hidden)
    line = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(clean)]
    subprocess.run(line, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "generic_trainer",
        f"{wheel.name.partition('-py3')[0]}.dist-info",
    }
    assert not [name for name in names if "tests/" in name or "/test_" in name]
    folders = {str(pathlib.PurePath(name).parent) for name in names if name.endswith(".py")}
    expected = {f"generic_trainer/{path.parent.relative_to(REPOSITORY)}".removesuffix("/.")
                for path in REPOSITORY.glob("*/**/__init__.py")
                if path.relative_to(REPOSITORY).parts[0] not in (".venv", "build", "fuzz", "tests")
                and not path.relative_to(REPOSITORY).parts[0].startswith(".")}  # fmt: skip
    assert folders == expected | {"generic_trainer"}
    assert "generic_trainer/py.typed" in names
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    zipfile.ZipFile(wheel).extractall(site)
    program = "import generic_trainer; print(generic_trainer.__version__)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() in wheel.name


def test_the_overrides_are_equal_in_both_files() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    import tomllib

    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["uv"]["override-dependencies"]
    lines = (REPOSITORY / "requirements" / "overrides.txt").read_text().splitlines()
    assert stated == [line for line in lines if line and not line.startswith("#")]


def test_the_published_requirements_are_as_wide_as_promised() -> None:
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    assert config["options"]["python_requires"] == ">=3.10,<3.14"
    assert "tfx>=1.15,<1.22" in config["options"]["install_requires"].split()


def test_the_locks_contain_no_index_address() -> None:
    for lock in (REPOSITORY / "requirements").glob("*.txt"):
        assert "://" not in lock.read_text(), lock


# Names that packages provide for others at run time (the dialects' shims), and of a neighboring example module.
_NOT_INSTALLED = {"dlrover", "elasticdl", "generic_trainer", "iris_keras", "recordio"}
# Distributions that a test lane may lack, by import name.
_OF_EXTRAS = {
    "airflow": "apache-airflow",
    "kfp": "kfp",
    "mlflow": "mlflow",
    "odps": "pyodps",
    "ray": "ray",
    "tensorflow_estimator": "tensorflow-estimator",
    "tf_keras": "tf-keras",
}
_NOT_IMPORTED = {"dill"}  # setup.cfg explains why


def test_each_import_is_a_declared_requirement() -> None:
    imported, providers = _imported(), _providers()
    declared = set(_declared("options", "install_requires"))
    for extra in ("airflow", "estimator", "kfp", "kuberay", "maxcompute", "mlflow", "ray", "s3"):
        declared |= set(_declared("options.extras_require", extra))
    of_imports = {name: providers.get(name) or {_OF_EXTRAS.get(name, "")} for name in imported}
    undeclared = {name: imported[name] for name, found in of_imports.items() if not found & declared}
    assert undeclared == {}, "neither install_requires nor an extra of setup.cfg names the package"
    used = set().union(*of_imports.values())
    assert set(_declared("options", "install_requires")) - used == _NOT_IMPORTED


def _declared(section: str, key: str) -> list[str]:
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    lines = config[section][key].split("\n")
    return [_normal(match[0]) for line in lines if (match := re.match(r"[\w.-]+", line))]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _imported() -> dict[str, str]:
    """Returns the imported names of other packages, such as "google.cloud.storage", each with one file."""
    found: dict[str, str] = {}
    folders = ("cli", "components", "executors", "module_files", "pipelines")
    for path in (
        *REPOSITORY.glob("*.py"),
        *(file for folder in folders for file in REPOSITORY.glob(f"{folder}/**/*.py")),
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _names(node):
                if name.partition(".")[0] not in sys.stdlib_module_names | _NOT_INSTALLED:
                    found.setdefault(_shortened(name), str(path.relative_to(REPOSITORY)))
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _shortened(name: str) -> str:
    """Returns the prefix of a dotted name that identifies the distribution: many share Google's namespace packages."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[:2] == ["google", "cloud"] else 2 if parts[0] == "google" else 1])


def _providers() -> dict[str, set[str]]:
    """Returns the installed distributions by their import names, shortened with `_shortened`."""
    found: dict[str, set[str]] = {}
    for distribution in importlib.metadata.distributions():
        files = (str(file) for file in distribution.files or () if file.suffix in (".py", ".so"))
        for name in {_shortened(file.partition(".")[0].replace("/", ".")) for file in files}:
            found.setdefault(name, set()).add(_normal(distribution.metadata["Name"]))
    return found
