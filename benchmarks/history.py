"""Measures the duration of `runs`, `show` and `lineage` on a store with 100,000 executions, with a target of 1 s.

    python benchmarks/history.py
    python benchmarks/history.py --quick
    python benchmarks/history.py --keep --folder FOLDER     create the store and keep it for inspection

The store contains 12,500 runs of a pipeline with eight steps, with the contexts, artifacts, events and properties that
TFX writes. The whole command is measured, from the start of Python to its end. Importing ML Metadata takes 0.05 s.
`--sort` reads the metrics of all 12,500 trainings, and so has no target. All queries are batched by thousands, except
for the names of pipeline and run, which ML Metadata returns for one execution per query, in 0.8 ms.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid
from typing import Any

import ml_metadata as mlmd
from ml_metadata.proto import metadata_store_pb2 as proto
from pairs import arguments, compare, report

_PIPELINE_RUNS, _QUICK = 12_500, 50
_SECONDS = 1.0  # maximum duration of a command
_TRAINER = "generic_trainer.components.trainer.Trainer"
# {step: (execution type, inputs, outputs with artifact types)}.
_STEPS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "CsvExampleGen": (
        "tfx.components.example_gen.csv_example_gen.component.CsvExampleGen",
        (),
        {"examples": "Examples"},
    ),
    "StatisticsGen": (
        "tfx.components.statistics_gen.component.StatisticsGen",
        ("examples",),
        {"statistics": "ExampleStatistics"},
    ),
    "SchemaGen": ("tfx.components.schema_gen.component.SchemaGen", ("statistics",), {"schema": "Schema"}),
    "ExampleValidator": (
        "tfx.components.example_validator.component.ExampleValidator",
        ("statistics", "schema"),
        {"anomalies": "ExampleAnomalies"},
    ),
    "Transform": (
        "generic_trainer.components.transform.Transform",
        ("examples", "schema"),
        {"transform_graph": "TransformGraph", "transformed_examples": "Examples"},
    ),
    "Trainer": (
        _TRAINER,
        ("transformed_examples", "transform_graph", "schema"),
        {"model_run": "ModelRun", "model": "Model"},
    ),
    "Evaluator": (
        "tfx.components.evaluator.component.Evaluator",
        ("examples", "model"),
        {"evaluation": "ModelEvaluation", "blessing": "ModelBlessing"},
    ),
    "Pusher": ("tfx.components.pusher.component.Pusher", ("model", "blessing"), {"pushed_model": "PushedModel"}),
}


def main() -> None:
    """Creates the store, then measures all rows and prints the table; with --keep only creates the store."""
    options = arguments(__doc__, switches={"--keep": "make the store in the folder that --folder names, and end"})
    runs = _QUICK if options.quick else _PIPELINE_RUNS
    if options.keep:
        make_store(pathlib.Path(options.folder or "history"), runs)
        return
    with tempfile.TemporaryDirectory() as options.folder:
        make_store(pathlib.Path(options.folder), runs)
        report(_rows(options), options)


def _rows(options: argparse.Namespace) -> list[Any]:
    executions = f"{len(_STEPS) * (_QUICK if options.quick else _PIPELINE_RUNS):,} executions"

    def seconds(*line: str) -> float:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "generic_trainer.cli.main", *line]
        subprocess.run(command, check=True, capture_output=True, cwd=options.folder)
        return time.perf_counter() - begin

    lines = {
        "runs": ("runs",),
        "runs --sort auc": ("runs", "--sort", "auc"),
        "show last": ("show", "last"),
        "lineage last": ("lineage", "last"),
    }
    return [
        compare(
            f"{name}, {executions}",
            f"{_SECONDS:g} s",
            options,
            ours=lambda line=line: seconds(*line),
            peer=lambda: _SECONDS,
            unit="s",
            at_most=None if "--sort" in line else 1,
        )
        for name, line in lines.items()
    ]


def make_store(root: pathlib.Path, runs: int) -> None:
    """Creates a pipeline root with the metadata of the given number of runs."""
    root.mkdir(parents=True, exist_ok=True)
    root.joinpath("generic_trainer_pipeline.json").write_text('{"pipeline_name": "taxi"}\n', encoding="utf-8")
    _Writer(mlmd.MetadataStore(_connection(root)), root).write(runs)


def _connection(root: pathlib.Path) -> proto.ConnectionConfig:
    sqlite = proto.SqliteMetadataSourceConfig(filename_uri=str(root / "metadata.sqlite"))
    sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    return proto.ConnectionConfig(sqlite=sqlite)


class _Writer:
    """Writes runs of a pipeline to a store in batches."""

    def __init__(self, store: Any, root: pathlib.Path) -> None:
        self.store, self.root = store, root
        self.contexts = {
            name: store.put_context_type(proto.ContextType(name=name)) for name in ("pipeline", "pipeline_run", "node")
        }
        artifacts = {kind for _, _, outputs in _STEPS.values() for kind in outputs.values()}
        self.artifacts = {name: store.put_artifact_type(proto.ArtifactType(name=name)) for name in sorted(artifacts)}
        self.executions = {name: self._execution_type(name, kind) for name, (kind, _, _) in _STEPS.items()}
        [self.pipeline] = store.put_contexts([self._context("pipeline", "taxi")])
        self.nodes = dict(
            zip(_STEPS, store.put_contexts([self._context("node", f"taxi.{name}") for name in _STEPS]), strict=True)
        )

    def write(self, runs: int) -> None:
        names = [f"20260101-{number:06}.000000" for number in range(runs)]
        contexts = self.store.put_contexts([self._context("pipeline_run", name) for name in names])
        executions = [self._execution(step, number) for number in range(runs) for step in _STEPS]
        ids = iter(self.store.put_executions(executions))
        by_run = [{step: next(ids) for step in _STEPS} for _ in range(runs)]
        outputs = [(number, step, key) for number in range(runs) for step in _STEPS for key in _STEPS[step][2]]
        written = self.store.put_artifacts(
            [self._artifact(step, key, by_run[number][step]) for number, step, key in outputs]
        )
        artifacts: list[dict[str, int]] = [{} for _ in range(runs)]
        for (number, _, key), artifact in zip(outputs, written, strict=True):
            artifacts[number][key] = artifact
        self.store.put_events(
            [event for number in range(runs) for event in self._events(by_run[number], artifacts[number])]
        )
        associations = [
            proto.Association(context_id=context, execution_id=execution)
            for number in range(runs)
            for step, execution in by_run[number].items()
            for context in (self.pipeline, contexts[number], self.nodes[step])
        ]
        self.store.put_attributions_and_associations([], associations)

    def _execution_type(self, step: str, name: str) -> int:
        kind = proto.ExecutionType(name=name)
        if step == "Trainer":
            kind.base_type = proto.ExecutionType.TRAIN
            for key in ("module_file", "module_fingerprint", "custom_config", "train_args"):
                kind.properties[key] = proto.STRING
            kind.properties["seed"] = proto.INT
        return int(self.store.put_execution_type(kind))

    def _context(self, kind: str, name: str) -> proto.Context:
        return proto.Context(type_id=self.contexts[kind], name=name)

    def _execution(self, step: str, number: int) -> proto.Execution:
        execution = proto.Execution(type_id=self.executions[step], name=str(uuid.uuid4()))
        execution.last_known_state = proto.Execution.COMPLETE
        if step == "Trainer":
            execution.properties["module_file"].string_value = "taxi_keras.py"
            execution.properties["module_fingerprint"].string_value = f"{number:064x}"
            execution.properties["train_args"].string_value = '{"num_steps": 500}'
            execution.properties["custom_config"].string_value = '{"learning_rate": 0.001}'
            execution.properties["seed"].int_value = number
        return execution

    def _artifact(self, step: str, key: str, execution: int) -> proto.Artifact:
        uri = f"{self.root}/{step}/{key}/{execution}"
        artifact = proto.Artifact(type_id=self.artifacts[_STEPS[step][2][key]], uri=uri, state=proto.Artifact.LIVE)
        artifact.custom_properties["tfx_version"].string_value = "1.21.0"
        if key == "model":
            for name in ("loss", "accuracy", "auc"):
                for split in ("train", "eval"):
                    artifact.custom_properties[f"{split}/{name}"].double_value = (execution % 997) / 997
            artifact.custom_properties["dialect"].string_value = "run_fn"
            artifact.custom_properties["signatures"].string_value = "serving_default, transform_features"
        elif key == "blessing":
            artifact.custom_properties["blessed"].int_value = execution % 2
        elif key == "pushed_model":
            artifact.custom_properties["pushed"].int_value = execution % 2
            artifact.custom_properties["pushed_destination"].string_value = f"{self.root}/serving/{execution}"
        return artifact

    def _events(self, executions: dict[str, int], artifacts: dict[str, int]) -> list[proto.Event]:
        events = []
        for step, (_, inputs, outputs) in _STEPS.items():
            for kind, keys in ((proto.Event.INPUT, inputs), (proto.Event.OUTPUT, tuple(outputs))):
                for key in keys:
                    event = proto.Event(artifact_id=artifacts[key], execution_id=executions[step], type=kind)
                    event.path.steps.add().key = key
                    event.path.steps.add().index = 0
                    events.append(event)
        return events


if __name__ == "__main__":
    main()
