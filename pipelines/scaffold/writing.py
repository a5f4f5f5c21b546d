"""Renders the files of a project from the templates, and writes them atomically."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import jinja2
import yaml

from ...executors.errors import InputError
from ...executors.runtime.files.output_file import output_file
from ..definition.pipeline_root import PLAIN_DATA
from .literals import assignment, literal
from .planning import Plan
from .project import Project
from .template_values import template_values

_MODULES = {True: "transform.py.j2", False: "numbers.py.j2"}


def render_files(project: Project, plan: Plan) -> dict[str, bytes]:
    """Renders the templates; returns {path in the project: content}.

    Args:
      project: Names and paths.
      plan: The module's plan.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or ""),
        # The templates are Python, YAML and Markdown, not HTML; values from the data pass through filters.
        autoescape=False,  # noqa: S701  # nosec B701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["literal"] = literal
    environment.filters["yaml_line"] = _yaml_line
    environment.globals["assignment"] = assignment
    values = {**plan.constants(), **template_values(plan), **project.names()}
    templates = {
        f"{project.module}.py": _MODULES[plan.transforms],
        f"test_{project.module}.py": "test.py.j2",
        "pipeline.yaml": "pipeline.yaml.j2",
        "README.md": "README.md.j2",
        ".gitignore": "gitignore.j2",
    }
    return {path: environment.get_template(name).render(values).encode() for path, name in templates.items()}


def _yaml_line(entry: dict[str, str]) -> str:
    return str(yaml.safe_dump(entry, allow_unicode=True, width=10**6)).strip()


def require_empty_folder(folder: str, force: bool) -> None:
    """Checks that a project can be written to a folder without overwriting the user's files.

    Raises:
      InputError: When the folder is a file, or is not empty and `force` is not set.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{folder} is a file. Choose a folder.")
    if not force and target.exists() and any(target.iterdir()):
        raise InputError(f"{folder} is not empty. Choose another folder, or overwrite its files with --force.")


@contextlib.contextmanager
def scratch_folder_near(folder: str) -> Iterator[str]:
    """Creates a temporary folder for the duration of the block, on the same file system as the project's folder.

    Raises:
      InputError: When the parent folder cannot be written to.
    """
    there = Path(folder).absolute().parent
    while not there.is_dir():
        there = there.parent
    try:
        scratch = tempfile.TemporaryDirectory(prefix=".generic-trainer-", dir=there)
    except OSError as error:
        raise InputError(f"{folder}: cannot write there ({error.strerror}). Choose another folder.") from error
    with scratch as name:
        yield name


def converted_files(scratch: str) -> dict[str, Path]:
    """Returns {path in the project: file} for the converted CSV files in a scratch folder."""
    return {f"{PLAIN_DATA}/{path.name}": path for path in Path(scratch, PLAIN_DATA).glob("[!.]*")}


def write_project(folder: str, files: Mapping[str, bytes | Path], *, force: bool = False) -> None:
    """Writes the files to a staging directory beside the folder, then renames it to the folder.

    If the folder exists, the files are renamed one by one.

    Args:
      folder: The project's folder.
      files: {path in the folder: content, or a file to move there}.
      force: Whether to write into a non-empty folder and overwrite files with the same names.

    Raises:
      InputError: When the folder is not empty and `force` is not set, or it cannot be written.
    """
    require_empty_folder(folder, force)
    target = Path(folder).absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            for path, content in files.items():
                file = Path(scratch, "project", path)
                file.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    file.write_bytes(content)
                else:
                    shutil.move(content, file)
            _move(Path(scratch, "project"), target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder}: cannot write there ({reason}). Choose another folder.") from error


def _move(source: Path, target: Path) -> None:
    """Renames the whole folder, or writes file by file if the target exists."""
    if not target.exists():
        source.rename(target)
        return
    for folder, _, names in os.walk(source):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            with output_file(str(there / name)) as part:
                shutil.move(Path(folder, name), part)
