"""Checks that a run's input files exist and have the expected content."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from ..errors import InputError, TrainerError, did_you_mean
from ..runtime.files import file_io
from ..runtime.files.artifact_files import read_hyperparameters
from ..runtime.files.schema import read_schema
from ..runtime.quantities import size_text
from ..saved_models.base_model import base_model_path
from .places import display_path
from .request import CheckRequest
from .verdicts import FAILED, PASSED, Verdict

_GRAPH_PARTS = ("transform_fn", "transformed_metadata")


def file_verdicts(request: CheckRequest) -> Iterator[Verdict]:
    """Yields a verdict on each file or folder that the request names.

    Sets `fn_args.base_model` and `fn_args.hyperparameters` of the request.
    """
    fn_args = request.fn_args
    given: list[tuple[str, object, Callable[[], str]]] = [
        ("train files", fn_args.train_files, lambda: _examples(fn_args.train_files)),
        ("eval files", fn_args.eval_files, lambda: _examples(fn_args.eval_files)),
        ("schema", fn_args.schema_path, lambda: _schema(str(fn_args.schema_path))),
        ("transform graph", fn_args.transform_graph_path, lambda: _graph(str(fn_args.transform_graph_path))),
        ("base model", request.base_model, lambda: _base_model(request)),
        ("hyperparameters", request.hyperparameters, lambda: _hyperparameters(request)),
        ("custom_config", fn_args.custom_config, lambda: _listed_names(fn_args.custom_config or {})),
    ]
    for item, value, check in given:
        if item in request.problems:
            yield Verdict(item, FAILED, request.problems[item], exit_code=2)
        elif value:
            try:
                yield Verdict(item, PASSED, check())
            except TrainerError as error:
                yield Verdict(item, FAILED, str(error), exit_code=error.exit_code)


def _examples(patterns: list[str]) -> str:
    files = []
    for pattern in patterns:
        matches = [file for path in file_io.glob(pattern) for file in _files_of(path)]
        if not matches:
            raise InputError(f"no file matches {pattern!r}.{_suggestion(pattern)} Check the path or the split name.")
        files += matches
    size = sum(map(file_io.size_of, files))
    return f"{len(files)} file{'s' * (len(files) != 1)}, {size_text(size)}: {', '.join(patterns)}"


def _files_of(path: str) -> list[str]:
    """Returns a path of a file itself, or all files below a folder."""
    return [posixpath.join(path, name) for name in file_io.files_below(path)] if file_io.isdir(path) else [path]


def _suggestion(pattern: str) -> str:
    """Returns " Did you mean …?" for the first path component that does not exist, or ""."""
    if file_io.is_remote(pattern):
        return ""
    path = pattern
    while not file_io.isdir(file_io.parent(path)) and file_io.parent(path) != path:
        path = file_io.parent(path)
    folder = file_io.parent(path)
    entries = file_io.listdir(folder) if file_io.isdir(folder) else []
    if path != pattern:
        entries = [entry for entry in entries if file_io.isdir(posixpath.join(folder, entry))]
    return did_you_mean(path.rpartition("/")[2], entries)


def _schema(path: str) -> str:
    schema = read_schema(path)
    if not schema.feature:
        raise InputError(f"schema {path} contains no features.")
    return f"{len(schema.feature)} features: {display_path(path)}"


def _graph(path: str) -> str:
    if not file_io.isdir(path):
        raise InputError(f"transform_graph_path={path}: the folder does not exist.{_suggestion(path)}")
    missing = [part for part in _GRAPH_PARTS if part not in file_io.listdir(path)]
    if missing:
        raise InputError(f"transform_graph_path={path} is not an output of Transform: it lacks {', '.join(missing)}.")
    return display_path(path)


def _base_model(request: CheckRequest) -> str:
    request.fn_args.base_model = base_model_path(request.base_model)
    return display_path(request.fn_args.base_model)


def _hyperparameters(request: CheckRequest) -> str:
    request.fn_args.hyperparameters = read_hyperparameters(request.hyperparameters, "--hyperparameters")
    return _listed_names(request.fn_args.hyperparameters.get("values", request.fn_args.hyperparameters))


def _listed_names(values: dict[str, object]) -> str:
    return ", ".join(map(str, values)) or "empty"
