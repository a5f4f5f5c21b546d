"""The steps before training run during the check, in the same pipeline run as the others."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Mapping

import ml_metadata as mlmd
import pytest

from generic_trainer.executors.modules.pipeline_modules import find_modules
from generic_trainer.pipelines.history.metadata_store import connection_config
from generic_trainer.pipelines.local import LocalPipeline, Outcome
from generic_trainer.pipelines.local.pipeline import run_with_modules

BEFORE_TRAINING = {"CsvExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator"}


class FinishedCheck:
    """A check with given findings; `folders` are the steps' folders that existed when it was waited for."""

    def __init__(self, findings: Mapping[str, object], root: pathlib.Path) -> None:
        self._findings, self._root = findings, root
        self.folders: set[str] = set()

    @contextlib.contextmanager
    def stops_on_failure(self) -> Iterator[None]:
        yield

    def require_passed(self) -> Mapping[str, object]:
        self.folders = {path.name for path in self._root.iterdir() if path.name[0].isupper()}
        return self._findings


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "root"


def run(options: LocalPipeline, check: FinishedCheck) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        return run_with_modules(options, find_modules(options.module_file, scratch), check)


def executed(root: pathlib.Path) -> list[set[str]]:
    """Returns the steps of each pipeline run, oldest first; those from the cache in parentheses."""
    store = mlmd.MetadataStore(connection_config(str(root / "metadata.sqlite")))
    runs = sorted(store.get_contexts_by_type("pipeline_run"), key=lambda run: run.id)
    return [
        {
            f"({name})" if one.last_known_state == mlmd.proto.Execution.CACHED else name
            for one in store.get_executions_by_context(run.id)
            for name in [one.type.rpartition(".")[2]]
        }
        for run in runs
    ]


@pytest.mark.slow
def test_both_parts_are_one_pipeline_run(tiny_module: str, iris_csv: pathlib.Path, root: pathlib.Path) -> None:
    check = FinishedCheck({}, root)
    options = LocalPipeline(str(iris_csv), tiny_module, pipeline_root=str(root), push=False, runner="local")
    outcome = run(options, check)
    assert check.folders == BEFORE_TRAINING
    assert outcome.model_run
    assert executed(root) == [{*BEFORE_TRAINING, "Trainer"}]


@pytest.mark.slow
def test_a_finding_that_changes_a_data_step_runs_it_again(
    tiny_module: str, iris_csv: pathlib.Path, root: pathlib.Path
) -> None:
    check = FinishedCheck({"schema_shapes": "no"}, root)
    outcome = run(LocalPipeline(str(iris_csv), tiny_module, pipeline_root=str(root), push=False), check)
    changed = {"SchemaGen", "ExampleValidator", "Trainer"}
    assert executed(root) == [BEFORE_TRAINING, {"(CsvExampleGen)", "(StatisticsGen)", *changed}]
    assert outcome.cached == ("CsvExampleGen", "StatisticsGen")
