"""Trains example modules in this process with TFX's own Trainer executor.

    python tfx_trainer.py FOLDER JSON       # JSON: {module file: {"train": pattern, "eval": pattern}}

With `{"csv": folder}` instead, the module's `preprocessing_fn` transforms the rows first. The model of `iris_keras.py`
is written to `FOLDER/iris_keras/model`.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
import sys
from typing import Any

import tensorflow as tf
from tfx.components.trainer.executor import GenericExecutor
from tfx.types import standard_artifacts

from generic_trainer.executors.fn_args import FnArgs
from generic_trainer.executors.preflight.raw_csv import csv_examples
from generic_trainer.executors.preflight.raw_transform import transform

KINDS = {"int64_list": "INT", "float_list": "FLOAT", "bytes_list": "BYTES"}
STEPS = {"train_args": '{"num_steps": 20}', "eval_args": '{"num_steps": 2}'}


def artifact(kind: type, path: pathlib.Path) -> Any:
    """Returns an artifact at a path."""
    made = kind()
    made.uri = str(path)
    return made


def train(module: str, data: dict[str, str], folder: pathlib.Path) -> None:
    """Trains a module for a few steps, as the Trainer step of a pipeline does."""
    inputs = {"examples": [artifact(standard_artifacts.Examples, folder / "examples")]}
    inputs["examples"][0].split_names = '["train", "eval"]'
    if "csv" in data:
        graph = transformed(module, data["csv"], folder)
        inputs["transform_graph"] = [artifact(standard_artifacts.TransformGraph, graph)]
    else:
        for split, pattern in data.items():
            shutil.copytree(os.path.dirname(pattern), folder / "examples" / f"Split-{split}")
    outputs = {
        "model": [artifact(standard_artifacts.Model, folder / "model")],
        "model_run": [artifact(standard_artifacts.ModelRun, folder / "model_run")],
    }
    GenericExecutor().Do(inputs, outputs, {**STEPS, "module_file": module, "custom_config": "null"})
    assert tf.saved_model.load(str(folder / "model" / "Format-Serving")).signatures["serving_default"]


def transformed(module: str, table: str, folder: pathlib.Path) -> pathlib.Path:
    """Transforms rows of a CSV file into both splits with the module's `preprocessing_fn`; returns the graph's path."""
    records = csv_examples([str(path) for path in pathlib.Path(table).glob("*.csv")])[0][:300]
    features = {
        name: KINDS[feature.WhichOneof("kind")]
        for record in records
        for name, feature in tf.train.Example.FromString(record).features.feature.items()
        if feature.WhichOneof("kind")
    }
    schema = folder / "schema.pbtxt"
    schema.write_text("".join(f'feature {{ name: "{name}" type: {kind} }}\n' for name, kind in features.items()))
    source = importlib.import_module(pathlib.Path(module).stem)
    splits = {"train": records, "eval": records[:64]}
    graph, made = transform(source, splits, str(schema), FnArgs(), str(folder))
    for split, examples in made.items():
        (folder / "examples" / f"Split-{split}").mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "examples" / f"Split-{split}" / "part-0.gz"), "GZIP") as writer:
            for example in examples:
                writer.write(example)
    return pathlib.Path(graph)


if __name__ == "__main__":
    failures = {}
    for path, where in json.loads(sys.argv[2]).items():
        place = pathlib.Path(sys.argv[1]) / pathlib.Path(path).stem
        place.mkdir()
        try:
            train(path, where, place)
        except Exception as error:
            failures[pathlib.Path(path).name] = f"{type(error).__name__}: {error}"
    print(json.dumps(failures))
