"""Compares samples of the examples with each other, with the schema, and with the label."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ..dialects.registry import functions_that_read_examples
from ..errors import InputError
from ..evaluation.features import TRANSFORMED_SCHEMA
from ..evaluation.labels import problem_of_labels
from ..examples_format import TF_EXAMPLE
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import join_names
from ..modules.snapshot import text_of
from ..runtime.files.schema import read_schema
from . import example_facts
from .places import place_at, string_constants
from .verdicts import FAILED, PASSED, WARNING, Place, Verdict

if TYPE_CHECKING:
    from ..evaluation.features import FeatureSummary
    from .example_facts import FeatureFacts
    from .request import PartRequest
    from .sample import Sample

_LABELS = ("LABEL_KEY", "_LABEL_KEY", "label_key", "LABEL", "_LABEL")
# A module with one of these words in its source parses examples by the run's schema.
_SCHEMA_WORDS = ("schema_path", "schema_file", "preprocessing_fn", "feature_spec")


class ExampleChecks:
    """The checks of one attempt's examples.

    Args:
      request: The request to this process.

    Attributes:
      features: Statistics of the features, by RAW and TRANSFORMED.
      hints: Possible causes of a failure of the module.
    """

    def __init__(self, request: PartRequest) -> None:
        self.features: dict[str, dict[str, FeatureSummary]] = {}
        self.hints: list[str] = []
        self._request = request
        self._fn_args = request.check.fn_args
        self._files = request.check.modules.trainer.files if request.check.modules else ()

    def schema_path(self) -> str | None:
        """Returns the schema of the examples that the module reads."""
        if not self._reads_transformed:
            return self._fn_args.schema_path
        return os.path.join(self._fn_args.transform_graph_path or "", TRANSFORMED_SCHEMA)

    def verdict(self, samples: Mapping[str, Sample]) -> Verdict:
        """Returns the verdict on samples, by split.

        Raises:
          InputError: If their records are not tf.Examples, but should be.
        """
        counts = " and ".join(
            f"{'all ' if sample.whole else ''}{sample.count:,} {split}" for split, sample in samples.items()
        )
        counts += " examples"
        problems = self._name_problems(samples)
        kinds = {sample.kind for sample in samples.values()}
        rows = [row for sample in samples.values() for row in sample.records]
        types = {type(row) for row in rows} if len(kinds) == 1 else set()
        if self._fn_args.examples_format.payload != TF_EXAMPLE or types != {bytes}:
            names = sorted(rows[0]) if types == {dict} else []
            errors, warnings = self._compare_splits(samples) if names else ([], [])
            text = f"{counts}, {', '.join(sorted(kinds))}{f': {join_names(names)}' if names else ''}"
            return _verdict(problems, [*errors, *warnings], text, {})
        try:
            facts = example_facts.facts_of(itertools.chain(*(sample.records for sample in samples.values())))
            errors, warnings = self._compare_splits(samples)
        except DecodeError as error:
            raise InputError(
                f"the records are not tf.Examples ({error}). Set their format with --payload-format."
            ) from error
        path = self.schema_path()
        if path and os.path.exists(path) and "schema" not in self._request.failed:
            contradictions, oddities = example_facts.contradictions(facts, read_schema(path))
            errors, warnings = [*contradictions, *errors], [*oddities, *warnings]
        if not self._mentions(*_SCHEMA_WORDS, *functions_that_read_examples()):  # it may parse by its own feature spec
            self.hints += errors
            errors, warnings = [], [*errors, *warnings]
        kind = TRANSFORMED if self._reads_transformed else RAW
        self.features.setdefault(kind, {name: fact.summary() for name, fact in facts.items()})
        label, place = self._label()
        if label and (problem := self._label_problem(label)):
            if place is None:
                problems.append(problem)
            else:
                warnings.append(f"{place}: {problem}")
                self.hints.append(f"{place}: {problem}")
                label = ""
        shown = example_facts.facts_text(facts, label)
        return _verdict([*problems, *errors], warnings, shown if self._request.raw else f"{counts}: {shown}", facts)

    def _name_problems(self, samples: Mapping[str, Sample]) -> list[str]:
        """Returns the problem with a file whose name contradicts its compression, if the module relies on names."""
        path = next((sample.misnamed for sample in samples.values() if sample.misnamed), "")
        if not path or not self._mentions("data_accessor", *functions_that_read_examples()):
            return []
        is_named = path.endswith(".gz")
        return [
            f"{path} is {'not ' if is_named else ''}gzipped, but its name {'ends' if is_named else 'does not end'} in "
            ".gz: data_accessor determines the compression by the name. Rename the file."
        ]

    def _compare_splits(self, samples: Mapping[str, Sample]) -> tuple[list[str], list[str]]:
        """Returns differences of train and eval that rule out a common feature spec, and other anomalies."""
        facts = {split: example_facts.facts_of(sample.records) for split, sample in samples.items()}
        warnings = [
            warning
            for split, sample in samples.items()
            for warning in example_facts.value_warnings(facts[split], self._label()[0], split, len(sample.records))
        ]
        if len(facts) < 2:
            return [], warnings
        is_whole = all(sample.whole for sample in samples.values())
        errors, different = example_facts.differences(facts["train"], facts["eval"], is_whole)
        return errors, [*different, *warnings]

    @property
    def _reads_transformed(self) -> bool:
        return bool(self._fn_args.transform_graph_path) and self._request.check.train_examples != RAW

    def _label(self) -> tuple[str, Place | None]:
        """Returns the requested label, or the module's LABEL_KEY or similar constant with its place."""
        if self._request.check.label:
            return self._request.check.label, None
        if self._fn_args.transform_graph_path:
            return "", None  # the module's constant may be the raw label's name
        for file in self._files:
            for name, value, line in string_constants(file):
                if name in _LABELS:
                    return value, place_at(file, line)
        return "", None

    def _label_problem(self, label: str) -> str:
        """Returns the problem with a label that is in neither raw nor transformed examples, or ""."""
        raw = set(self.features.get(RAW, ()))
        graph = self._fn_args.transform_graph_path
        path = os.path.join(graph, "metadata", "schema.pbtxt") if graph else ""
        if path and os.path.exists(path):
            raw |= {feature.name for feature in read_schema(path).feature}
        return problem_of_labels(label, raw, self.features.get(TRANSFORMED))

    def _mentions(self, *words: str) -> bool:
        """Returns whether one of the module's files contains one of the words."""
        return any(word in text for text in map(text_of, self._files) for word in words)


def _verdict(errors: Sequence[str], warnings: Sequence[str], text: str, facts: Mapping[str, FeatureFacts]) -> Verdict:
    details = {"features": {name: fact.kind for name, fact in facts.items()}} if facts else {}
    if errors:
        return Verdict("examples", FAILED, "; ".join(errors), exit_code=2, details=details)
    if warnings:
        return Verdict("examples", WARNING, f"{text}. {'; '.join(warnings)}", details=details)
    return Verdict("examples", PASSED, text, details=details)
