"""The examples of a check, which the module gets: prepared raw data, a sample of real examples, or synthetic ones.

Splits are compared with each other, with the schema and with the label.
"""

from __future__ import annotations

import itertools
import os
import time
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
from ..inputs.tf_examples import write_gzipped
from ..modules.defined_names import definitions_of
from ..modules.snapshot import text_of
from ..modules.source import parsed
from ..runtime.files.schema import read_schema
from . import example_facts, synthetic_examples
from .events import EventReader, EventWriter
from .places import place_at
from .sample import RAW_EXAMPLES, Sample, holds_records, take
from .trial import failure
from .verdicts import FAILED, PASSED, SKIPPED, WARNING, Place, Verdict

if TYPE_CHECKING:
    from ..evaluation.features import FeatureSummary
    from .example_facts import FeatureFacts
    from .request import PartRequest

_SYNTHETIC_EXAMPLES = 256
_WAIT_SECONDS = 0.05
_LABELS = ("LABEL_KEY", "_LABEL_KEY", "label_key", "LABEL", "_LABEL")
# A module with one of these words in its source parses examples by the run's schema.
_SCHEMA_WORDS = ("schema_path", "schema_file", "preprocessing_fn", "feature_spec")


class Examples:
    """The examples of one attempt.

    Args:
      request: The request to this process; `fn_args` of its run get the files of the sample.
      events: Gets the verdict.

    Attributes:
      are_examined: Whether `examine` was called.
      records: Estimated number of training examples of a run; 0 if unknown.
      raw_eval_files: Patterns of the raw evaluation examples; [] without raw data.
      features: Statistics of the features, by RAW and TRANSFORMED.
      hints: Possible causes of a failure of the module.
    """

    def __init__(self, request: PartRequest, events: EventWriter) -> None:
        self.are_examined = False
        self.records = 0
        self.raw_eval_files: list[str] = []
        self.features: dict[str, dict[str, FeatureSummary]] = {}
        self.hints: list[str] = []
        self._request = request
        self._fn_args = request.check.fn_args
        self._files = request.check.modules.trainer.files if request.check.modules else ()
        self._events = events
        self._originals: dict[str, str] = {}  # of the files that the module gets, which are copies

    def examine(self) -> None:
        """Samples the examples, and adds the verdict on them."""
        self.are_examined = True
        if self._request.raw and not self._await_raw_data():
            return
        self._events.enter("examples")
        is_given = self._fn_args.train_files or self._fn_args.eval_files
        if is_given and {"train files", "eval files"} & set(self._request.failed):
            return
        try:
            verdict = self._real_verdict() if is_given else self._synthetic_verdict()
        except Exception as error:
            verdict = failure("examples", error, None, self._fn_args)
        self._events.verdict(verdict)

    def with_original_paths(self, text: str) -> str:
        """Replaces the paths of the sample's copies by those that the user gave."""
        for copied, original in sorted(self._originals.items(), reverse=True):  # a file before its folder
            text = text.replace(copied, original)
        return text

    def _await_raw_data(self) -> bool:
        """Waits for the process that prepares raw data; sets the module's arguments from its result if it has one."""
        self._events.enter("data")
        raw = EventReader([self._request.raw])
        while raw.prepared is None:
            time.sleep(_WAIT_SECONDS)
            raw.read()
        if not raw.prepared:
            self._events.has_failed = True  # the other process has written the verdict
            return False
        self.features = raw.prepared["features"]
        examples = raw.prepared["examples"]
        self.raw_eval_files = examples[RAW]["eval_files"]
        wanted = TRANSFORMED if TRANSFORMED in examples and self._request.check.train_examples != RAW else RAW
        for name, value in {**raw.prepared["fn_args"], **examples[wanted]}.items():
            setattr(self._fn_args, name, value)
        self._fn_args.transform_output = self._fn_args.transform_graph_path
        self._fn_args.schema_file = self._fn_args.schema_path
        return True

    def _synthetic_verdict(self) -> Verdict:
        """Generates synthetic examples from the schema, if there is one."""
        path = self._schema_path()
        if not path or "schema" in self._request.failed or self._fn_args.examples_format.payload != TF_EXAMPLE:
            self.hints.append(
                "No examples were given: set --train-files or --data, or --schema to generate synthetic ones."
            )
            text = "no examples (--train-files, --data) and no schema to generate synthetic ones from"
            return Verdict("examples", SKIPPED, text)
        records = synthetic_examples.generate(read_schema(path), _SYNTHETIC_EXAMPLES)
        for split in ("train", "eval"):
            folder = self._folder_of(split)
            write_gzipped(records, os.path.join(folder, "made-up.gz"))
            setattr(self._fn_args, f"{split}_files", [os.path.join(folder, "*")])
        shown = example_facts.facts_text(example_facts.facts_of(records), self._request.check.label)
        text = f"{len(records)} synthetic examples generated from {path}, no real ones: {shown}"
        return Verdict("examples", WARNING, text)

    def _real_verdict(self) -> Verdict:
        """Samples the examples, which the module gets instead of all."""
        fn_args = self._fn_args
        samples = {}
        for split in ("train", "eval"):
            if (patterns := getattr(fn_args, f"{split}_files")) and holds_records(patterns):
                samples[split] = take(patterns, self._folder_of(split))
                setattr(fn_args, f"{split}_files", samples[split].patterns)
                self._originals.update(samples[split].originals)
        if not samples:
            shown = join_names([*fn_args.train_files, *fn_args.eval_files])
            return Verdict("examples", PASSED, f"{shown}: no records; the module reads them itself")
        if "train" in samples:
            known = self._request.raw
            self.records = fn_args.num_examples["train"] if known else samples["train"].estimated_records
        return self._compare(samples)

    def _folder_of(self, split: str) -> str:
        return os.path.join(self._request.folder, RAW_EXAMPLES, f"Split-{split}")

    def _compare(self, samples: Mapping[str, Sample]) -> Verdict:
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
        path = self._schema_path()
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

    def _schema_path(self) -> str | None:
        """Returns the schema of the examples that the module reads."""
        if not self._reads_transformed:
            return self._fn_args.schema_path
        return os.path.join(self._fn_args.transform_graph_path or "", TRANSFORMED_SCHEMA)

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
            for name, node in definitions_of(parsed(file)).items():
                value = getattr(getattr(node, "value", None), "value", None)  # of an assignment of a literal
                if name in _LABELS and isinstance(value, str):
                    return value, place_at(file, node.lineno)
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
