"""The package as it is shipped: what the wheel holds, what an import costs, what the requirements say."""

from __future__ import annotations

import configparser
import json
import pathlib
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


def test_the_overrides_stand_the_same_in_both_places() -> None:
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


def test_the_locks_name_no_address() -> None:
    for lock in (REPOSITORY / "requirements").glob("*.txt"):
        assert "://" not in lock.read_text(), lock
