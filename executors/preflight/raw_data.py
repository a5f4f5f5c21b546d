"""Subprocess that prepares a sample of a pipeline's raw data, with the results of ExampleGen, SchemaGen and Transform.

TFDV infers the schema from the sample, and Transform runs on it if there is a module with a preprocessing_fn.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from ..dialects.loading import loaded
from ..errors import InputError
from ..evaluation.labels import problem_of_labels
from ..inputs.example_kinds import RAW, TRANSFORMED
from . import raw_examples, trial
from .events import EventWriter
from .example_facts import facts_of
from .module_checks import require_step_functions
from .request import CheckRequest, PartRequest
from .verdicts import PASSED, WARNING, Verdict

if TYPE_CHECKING:
    from ..evaluation.features import FeatureSummary


class Prepared(TypedDict, total=False):
    """A sample of raw data, as JSON values; empty after a failure, which is written as a verdict.

    Attributes:
      fn_args: Values to set in `fn_args`: `schema_path`, `transform_graph_path`, and estimated `num_examples`.
      examples: {"raw" and, with a Transform, "transformed": {"train_files": …, "eval_files": …}}.
      kinds: {the same keys: {feature: "BYTES", "FLOAT" or "INT"}}.
      features: {the same keys: {feature: statistics}}.
    """

    fn_args: dict[str, object]
    examples: dict[str, dict[str, list[str]]]
    kinds: dict[str, dict[str, str]]
    features: dict[str, dict[str, FeatureSummary]]


def execute(state: dict[str, object]) -> Prepared:
    """Entry point of the process: prepares a sample of the raw data of a `PartRequest`."""
    request = PartRequest.from_json(state)
    events = EventWriter(request.folder)
    preparation = _Preparation(request.check, request.folder)
    try:
        return preparation.run(events)
    except (Exception, SystemExit) as error:
        source = request.check.modules.transform if request.check.modules else None
        verdict = trial.failure(preparation.item, error, source, request.check.fn_args)
        text = verdict.text.partition(" [while running")[0]  # which Beam appends to messages
        events.verdict(dataclasses.replace(verdict, text=text))
        return {}


class _Preparation:
    """The preparation of raw data.

    Attributes:
      item: The item of the report that is being prepared.
    """

    def __init__(self, check: CheckRequest, folder: str) -> None:
        self.item = "data"
        self._check = check
        self._folder = folder
        self._prepared: Prepared = {"fn_args": {}, "examples": {}, "kinds": {}, "features": {}}

    def run(self, events: EventWriter) -> Prepared:
        """Prepares the data; writes a verdict on each item that passes."""
        check, folder = self._check, self._folder
        read = raw_examples.read_splits(check.data, os.path.join(folder, "sample"))
        splits = {name: split.records for name, split in read.items()}
        totals = {name: split.total for name, split in read.items()}
        warnings = dict.fromkeys(warning for split in read.values() for warning in split.warnings)
        schema_path = check.fn_args.schema_path or raw_examples.infer_schema(splits, folder, check.schema_shapes)
        names = self._add(RAW, splits, totals, schema_path)
        counts = " and ".join(f"{len(records):,} {name}" for name, records in splits.items())
        text = f"{counts} examples, {len(names)} features: {', '.join(names[:12])}"
        events.verdict(Verdict("data", WARNING if warnings else PASSED, ". ".join([text, *warnings])))
        modules, graph = check.modules, None
        if modules and modules.transform:
            self.item = "transform"
            from .raw_transform import transform

            with loaded(modules.transform) as module:
                require_step_functions(module, modules.functions_called(modules.transform))
                graph, transformed = transform(module, splits, schema_path, check.fn_args, folder)
            transformed_schema = os.path.join(graph, "transformed_metadata", "schema.pbtxt")
            names = self._add(TRANSFORMED, transformed, totals, transformed_schema)
            text = f"applied to these examples; output features: {', '.join(names[:12])}"
            events.verdict(Verdict("transform", PASSED, text))
        features = self._prepared["features"]
        if problem := problem_of_labels(check.label, features[RAW], features.get(TRANSFORMED)):
            raise InputError(f"--label: {problem}")
        self._prepared["fn_args"] = {
            "schema_path": schema_path,
            "transform_graph_path": graph,
            "num_examples": totals,
        }
        return self._prepared

    def _add(
        self, kind: str, splits: Mapping[str, list[bytes]], totals: Mapping[str, int], schema_path: str
    ) -> list[str]:
        """Adds examples of a kind to the prepared data; returns the names of their features."""
        facts = facts_of(itertools.chain(*splits.values()))
        self._prepared["features"][kind] = {name: fact.summary() for name, fact in facts.items()}
        self._prepared["kinds"][kind] = raw_examples.kinds_of(facts, schema_path)
        self._prepared["examples"][kind] = raw_examples.write_splits(kind, splits, totals, self._folder)
        return sorted(facts)
