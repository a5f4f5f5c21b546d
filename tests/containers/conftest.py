"""Runs the image in real containers; `scripts/containers.sh test` builds it and sets TEST_IMAGE."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

collect_ignore_glob = [] if "TEST_IMAGE" in os.environ else ["test_*.py"]
USER = 1000


@dataclasses.dataclass(frozen=True)
class Engine:
    """Podman, as configured by `scripts/containers.sh`.

    Attributes:
      image: The image to test.
    """

    image: str

    def __call__(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a podman command."""
        command = ["podman", *map(str, arguments)]
        # conmon writes a file `oom` into the working directory when a container hits its memory limit
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def run(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a container to its end: podman's flags, the image, and the command."""
        return self("run", "--rm", *arguments, check=check)

    @contextlib.contextmanager
    def container(self, *arguments: object) -> Iterator[str]:
        """Starts a container; yields its name, and removes it at the end."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        self("run", "--detach", "--name", name, *arguments)
        try:
            yield name
        finally:
            self("rm", "--force", "--time", "0", "--ignore", name)

    def logs(self, name: str) -> str:
        """Returns the output of a container so far."""
        done = self("logs", name)
        return done.stdout + done.stderr

    def state(self, name: str) -> Mapping[str, Any]:
        """Returns a container's State, with Status and ExitCode."""
        [found] = json.loads(self("inspect", name).stdout)
        state: Mapping[str, Any] = found["State"]
        return state


@pytest.fixture(scope="session")
def podman() -> Engine:
    return Engine(os.environ["TEST_IMAGE"])


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Folders `iris` and `digits` with Examples, readable by every user."""
    folder = tmp_path_factory.mktemp("data")
    script = pathlib.Path(__file__).resolve().parents[2] / "scripts"
    code = f"import sys; sys.path.insert(0, {str(script)!r}); import try_image; try_image.write_data()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, capture_output=True)
    for parent in (folder, *folder.parents[:2]):  # pytest's folders are private
        parent.chmod(0o755)
    return folder


@pytest.fixture
def out(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder that belongs to the image's user."""
    folder = tmp_path / "out"
    folder.mkdir()
    os.chown(folder, USER, USER)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    tmp_path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def train_iris(podman: Engine, examples: pathlib.Path, out: pathlib.Path) -> Callable[..., list[object]]:
    """Returns the arguments of a container that trains on iris: podman's flags, then those of `train`."""

    def arguments(*flags: object, steps: int = 20, more: tuple[object, ...] = ()) -> list[object]:
        return [
            *("--volume", f"{examples}:/data:ro", "--volume", f"{out}:/out", *flags, podman.image),
            *("generic-trainer", "train", "generic_trainer.module_files.iris_keras"),
            *("--train-files", "/data/iris/Split-train/*", "--eval-files", "/data/iris/Split-eval/*"),
            *("--train-steps", steps, "--output", "/out/run", *more),
        ]

    return arguments
