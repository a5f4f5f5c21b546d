"""Releases: reproducible builds, rejected preconditions, and an installable wheel."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterator

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TOOLS = REPOSITORY / ".venv-tools"
IDENTITY = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false"]

pytestmark = pytest.mark.skipif(
    not (REPOSITORY / ".git").exists() or not shutil.which("git"), reason="a release is made of a git repository"
)


def run(*line: object, **options: object) -> str:
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clone(source: pathlib.Path, folder: pathlib.Path, umask: int = 0o022) -> pathlib.Path:
    run("git", "clone", "--quiet", source, folder, umask=umask)
    return folder


def edit(path: pathlib.Path, pattern: str, text: str) -> None:
    old = path.read_text()
    path.write_text(re.sub(pattern, text, old, count=1, flags=re.MULTILINE))
    assert path.read_text() != old, f"{path} has no {pattern}"


def commit(folder: pathlib.Path) -> None:
    run("git", *IDENTITY, "commit", "--quiet", "--all", "--message", "A release", cwd=folder)


def build(folder: pathlib.Path, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "VENV": sys.prefix, "TOOLS": str(TOOLS), **options.pop("env", {})}
    line = [folder / "scripts" / "release.sh"]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, **options)


@pytest.fixture(scope="module")
def version() -> str:
    return re.search(r'__version__ = "(.*)"', (REPOSITORY / "version.py").read_text())[1]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, version: str) -> pathlib.Path:
    """A clone of the last commit whose changelog contains the version, as in a release."""
    folder = clone(REPOSITORY, tmp_path_factory.mktemp("ready") / "clone")
    if f"## [{version}] - " not in (folder / "CHANGELOG.md").read_text():
        edit(folder / "CHANGELOG.md", r"^## \[Unreleased\].*$", f"## [{version}] - 2026-01-31")
        commit(folder)
    return folder


@pytest.fixture(scope="module")
def released(ready: pathlib.Path) -> pathlib.Path:
    """The output folder of `make release`."""
    run(REPOSITORY / "scripts" / "tools.sh")
    done = build(ready)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2  # twine's check of sdist and wheel
    return ready / "dist"


def sums(folder: pathlib.Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    }


@pytest.mark.thorough
@pytest.mark.slow
def test_the_same_commit_gives_the_same_bytes(released: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = clone(released.parent, tmp_path / "another folder", umask=0o077)
    done = build(other, umask=0o077, env={"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert sums(other / "dist") == sums(released)
    stated = dict(reversed(line.split()) for line in (released / "SHA256SUMS").read_text().splitlines())
    assert stated == sums(released)


@pytest.mark.thorough
def test_a_release_has_sdist_wheel_constraints_bill_and_notes(released: pathlib.Path, version: str) -> None:
    constraints = {path.name for path in (released.parent / "requirements").glob("constraints-*.txt")}
    assert set(sums(released)) == constraints | {
        f"generic_trainer-{version}-py3-none-any.whl",
        f"generic_trainer-{version}.tar.gz",
        f"generic_trainer-{version}.cdx.json",
        "NOTES.md",
    }
    notes = (released / "NOTES.md").read_text()
    assert notes.startswith("### ")
    assert "\n## " not in notes


@pytest.mark.thorough
def test_the_sdist_holds_whatever_git_does(released: pathlib.Path, version: str) -> None:
    with tarfile.open(released / f"generic_trainer-{version}.tar.gz") as archive:
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    tracked = set(run("git", "ls-files", cwd=released.parent).splitlines())
    made = {name for name in files if name == "PKG-INFO" or name.startswith("generic_trainer.egg-info/")}
    assert files - made == tracked


@pytest.mark.thorough
def test_the_bill_of_materials_names_each_package_of_the_lock(released: pathlib.Path, version: str) -> None:
    bill = json.loads((released / f"generic_trainer-{version}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", version)
    lock = (released.parent / "requirements" / "image.txt").read_text()
    locked = set(re.findall(r"(?m)^([\w.-]+)(?:\[[^]]*\])?==(\S+)", lock))
    assert {(part["name"], part["version"]) for part in bill["components"]} == locked
    assert ("tfx", "1.21.0") in locked
    for part in bill["components"]:
        assert part["externalReferences"][0]["hashes"], part


@pytest.mark.parametrize(
    ("path", "pattern", "text", "committed", "said"),
    [
        ("README.md", r"^# .*$", "# Something else", False, "the tree is not clean.*\n M README.md"),
        ("setup.cfg", r"^version = .*$", "version = 9.9.9", True, "setup.cfg's version is not"),
        ("CITATION.cff", r"^version: .*$", "version: 9.9.9", True, "CITATION.cff's version is not"),
        ("CHANGELOG.md", r"^## \[[0-9.]+\] - .*$", "## [0.0.9] - 2026-01-31", True, r"no heading '## \[\S+\] - YYYY"),
    ],
)
def test_a_release_that_is_not_ready_is_rejected(
    ready: pathlib.Path, tmp_path: pathlib.Path, path: str, pattern: str, text: str, committed: bool, said: str
) -> None:
    folder = clone(ready, tmp_path / "clone")
    edit(folder / path, pattern, text)
    if committed:
        commit(folder)
    done = build(folder, env={"TOOLS": str(tmp_path)})
    assert done.returncode == 1
    assert re.search(f"^error: .*{said}", done.stderr), done.stderr
    assert not (folder / "dist").exists()


@pytest.fixture(scope="module")
def installed(released: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A fresh environment with the wheel installed by pip; other packages are those of this test."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    [wheel] = released.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # A line of a .pth file adds an import folder; .pth files in it, such as an editable install's, are ignored.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def from_wheel(installed: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program of that environment outside of the repository."""
    return lambda *line: run(installed / "bin" / line[0], *line[1:], cwd=tmp_path_factory.mktemp("elsewhere"))


def test_the_installed_wheel_is_what_runs(
    from_wheel: Callable[..., str], installed: pathlib.Path, version: str
) -> None:
    place = from_wheel("python", "-c", "import generic_trainer; print(generic_trainer.__file__)")
    assert place.startswith(str(installed))
    assert from_wheel("generic-trainer", "--version").startswith(f"generic-trainer {version}\n")


def test_the_installed_wheel_checks_its_own_example(from_wheel: Callable[..., str], iris) -> None:
    module = "generic_trainer.module_files.iris_keras"
    files = ["--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", 50]
    assert "The run would succeed" in from_wheel("generic-trainer", "check", module, *files)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_sdist_can_be_tested(
    released: pathlib.Path, from_wheel: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    [sdist] = released.glob("*.tar.gz")
    run("tar", "-xzf", sdist, "-C", tmp_path)
    [source] = tmp_path.iterdir()
    quick = [source / "tests" / "test_package.py", source / "tests" / "executors" / "test_options.py"]
    said = from_wheel("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *quick)
    assert re.search(r"\d+ passed", said)
    assert "failed" not in said


def test_the_wheel_is_for_any_python_3_and_names_its_licence(released: pathlib.Path, version: str) -> None:
    with zipfile.ZipFile(released / f"generic_trainer-{version}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"generic_trainer-{version}.dist-info/METADATA").decode()
        names = wheel.namelist()
    assert "Requires-Python: <3.14,>=3.10" in metadata
    assert "License: Apache-2.0" in metadata
    assert f"generic_trainer-{version}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.startswith(("tests", "fuzz", "scripts"))]
