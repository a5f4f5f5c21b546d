"""Worker process of a check: loads the module, reads its examples and tries a training; started by `attempt.py`.

Verdicts and progress are written immediately, one JSON object a line, so they survive a crash of the module.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from google.protobuf.message import DecodeError

from ..dialects.loading import loaded
from ..dialects.registry import functions_that_read_examples
from ..errors import InputError, LateVariableError
from ..evaluation.labels import label_problem
from ..evaluation.overrides import overrides_of, parse_labels
from ..examples_format import TF_EXAMPLE
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import join_names
from ..inputs.readers.reader_params import PARQUET, TF_RECORD
from ..modules import tensorflow_1
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource
from ..modules.source_text import text_of
from ..runtime.files.schema import read_schema
from ..saved_models.custom_ops import OpPackage, imported_op_packages, op_libraries_noted
from ..saved_models.sample_input import collect_sample_input
from ..tuning.search import TUNER_FN, defaults_of_search, hyperparameters_text, import_keras_tuner
from . import example_facts, input_watch, module_checks, synthetic_examples, trial
from .events import EventWriter
from .module_checks import CheckedModule
from .places import place_at, string_constants
from .request import CheckRequest
from .sample import RAW_EXAMPLES, Sample, holds_records, take
from .verdicts import FAILED, PASSED, SKIPPED, WARNING, Place, Verdict
from .watch import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..evaluation.features import FeatureSummary
    from ..evaluation.planning import PlanningFacts
    from ..saved_models.sample_input import SampleInput
    from .attempt import ExaminationRequest
    from .example_facts import FeatureFacts

R = TypeVar("R")

_LABELS = ("LABEL_KEY", "_LABEL_KEY", "label_key", "LABEL", "_LABEL")
# A module with one of these words in its source parses examples by the run's schema.
_SCHEMA_WORDS = ("schema_path", "schema_file", "preprocessing_fn", "feature_spec")
_SYNTHETIC_EXAMPLES = 256  # synthetic examples
_WAIT_SECONDS = 0.05


class Found(TypedDict, total=False):
    """Result of a trial and input of the SavedModel check, as JSON values; empty if no training was tried.

    Attributes:
      estimate: The `Verdict` on time and memory; None if the trial failed.
      op_packages: The imported packages with custom ops, by name.
      example: A sample input for the SavedModel check.
      eval_files: Patterns of the evaluation examples.
      raw_eval_files: Patterns of the raw evaluation examples; [] without raw data.
      schema_path: Schema of the raw examples, or None.
      transform_graph_path: The Transform graph, or None.
      saved_at: The `Place` in the user's files that saved the model, or None.
      evaluation: Facts from which the evaluation plan is made.
    """

    estimate: Any
    op_packages: dict[str, OpPackage]
    example: SampleInput
    eval_files: Sequence[str] | None
    raw_eval_files: list[str]
    schema_path: str | None
    transform_graph_path: str | None
    saved_at: dict[str, Any] | None
    evaluation: PlanningFacts


def execute(state: ExaminationRequest) -> Found:
    """Entry point of the worker process: runs the checks of a request."""
    request = CheckRequest.from_json(state["check"])
    source = ModuleSource.from_json(state["source"]) if state["source"] else None
    with open(state["events"], "a", encoding="utf-8") as events:
        return _Examination(request, source, state, EventWriter(events)).run()


class _Examination:
    def __init__(
        self, request: CheckRequest, source: ModuleSource | None, state: ExaminationRequest, events: EventWriter
    ) -> None:
        self._request = request
        self._source = source
        self._state = state
        self._events = events
        self._fn_args = request.fn_args
        self._hints: list[str] = list(state["hints"])
        self._originals: dict[str, str] = {}  # of the files that the module gets, which are copies
        self._features: dict[str, dict[str, FeatureSummary]] = {}  # by RAW and TRANSFORMED
        self._records = 0
        self._raw_eval_files: list[str] = []
        self._module: ModuleType | None = None

    def run(self) -> Found:
        """Loads the module, checks the examples, and tries a training if nothing has failed."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(op_libraries_noted())
            module = self._load(stack) if self._source else None
            self._attempt("examples", self._examine_examples)
            if module is not None and self._request.tunes and not self._events.has_failed:
                self._attempt("hyperparameters", self._use_search_defaults)
            if module is None or self._events.has_failed or not self._state["can_try"]:
                return {}
            assert self._source is not None
            self._events.stage("trial")
            with collect_sample_input() as example, input_watch.watching(self._events.reads):
                verdicts, watch = trial.try_training(
                    module, self._source, self._fn_args, self._records, self._events.progress, self._keras()
                )
            op_packages = imported_op_packages()  # while the user's modules are there
        estimated = None
        for verdict in verdicts:
            if verdict.item == "estimate":
                estimated = verdict.to_json()
            else:
                self._events.verdict(self._with_hints(verdict))
        place = trial.place_of_save(watch)
        return {
            "estimate": estimated,
            "op_packages": op_packages,
            "example": example,
            "eval_files": self._fn_args.eval_files,
            "raw_eval_files": self._raw_eval_files,
            "schema_path": self._fn_args.schema_path,
            "transform_graph_path": self._fn_args.transform_graph_path,
            "saved_at": vars(place) if place else None,
            "evaluation": self._facts_for_evaluation(watch),
        }

    def _facts_for_evaluation(self, watch: Watch) -> PlanningFacts:
        """Returns the facts from which the evaluation plan is made."""
        evidence = watch.fits.evidence() if watch.fits else None
        overrides = overrides_of({"label": self._request.label, **self._request.evaluation})
        return {
            "evidence": evidence.to_json() if evidence else {},
            "features": self._features,
            "overrides": dataclasses.asdict(overrides),
        }

    def _load(self, stack: contextlib.ExitStack) -> CheckedModule | None:
        """Loads the module, chooses its dialect and checks its functions; returns None after a failure."""
        assert self._source is not None
        self._events.stage("load")
        begin = time.perf_counter()
        try:
            keras = self._keras()
            keras.check_this_process()
            if self._request.tunes:
                import_keras_tuner(keras)
            can_restart = self._request.options.isolate and "variables" not in keras.restarts
            context = loaded(self._source, self._request.options.dialect, keras, is_restartable=can_restart)
            module = self._module = stack.enter_context(context)
        except LateVariableError:
            raise
        except (Exception, SystemExit) as error:
            self._fail("load", error)
            return None
        self._events.verdict(Verdict("load", PASSED, f"imported in {time.perf_counter() - begin:.1f} s"))
        dialect = self._attempt("dialect", lambda: self._dialect(module))
        return self._attempt("signatures", lambda: self._signatures(dialect, module)) if dialect else None

    def _keras(self) -> KerasChoice:
        return KerasChoice(**self._state["keras"])

    def _dialect(self, module: ModuleType) -> str:
        name, reason = module_checks.dialect_of(module, self._request)
        self._events.verdict(Verdict("dialect", PASSED, f"{name}: {reason}", details={"dialect": name}))
        return name

    def _signatures(self, dialect: str, module: ModuleType) -> CheckedModule:
        checked = module_checks.checked_module(dialect, module, self._request, self._state["step_functions"])
        text = " ".join(checked.warnings) or checked.signatures
        self._events.verdict(Verdict("signatures", WARNING if checked.warnings else PASSED, text))
        return checked

    def _use_search_defaults(self) -> None:
        fn_args = copy.copy(self._fn_args)
        # TFX's directory layout: some modules parse the path.
        working = ("Tuner", ".system", "executor_execution", "1", ".temp", "1")
        fn_args.working_dir = os.path.join(self._state["folder"], *working)
        tuner = ModuleSource.from_json(self._state["tuner"])
        with contextlib.ExitStack() as stack:
            module = self._module if tuner == self._source else stack.enter_context(loaded(tuner))
            assert module is not None
            module_checks.require_step_functions(module, [TUNER_FN])
            found = self._fn_args.hyperparameters = defaults_of_search(module, None, fn_args)
        self._events.verdict(
            Verdict("hyperparameters", PASSED, f"defaults of the search: {hyperparameters_text(found['values'])}")
        )

    def _attempt(self, item: str, check: Callable[[], R]) -> R | None:
        self._events.stage(item)
        try:
            return check()
        except (Exception, SystemExit) as error:
            self._fail(item, error)
            return None

    def _fail(self, item: str, error: BaseException) -> None:
        self._events.verdict(self._with_hints(trial.failure(item, error, self._source, self._fn_args)))

    # Examples

    def _examine_examples(self) -> None:
        if self._state["raw"]:
            self._await_raw_data()
        fn_args = self._fn_args
        if not fn_args.train_files and not fn_args.eval_files:
            self._generate_examples()
            return
        if "train files" in self._state["failed"] or "eval files" in self._state["failed"]:
            return
        columns_wanted = bool((fn_args.custom_config or {}).get("data_reader_params"))
        samples = {}
        for split in ("train", "eval"):
            if (patterns := getattr(fn_args, f"{split}_files")) and holds_records(patterns):
                samples[split] = take(patterns, self._examples_folder(split), columns_wanted)
                setattr(fn_args, f"{split}_files", samples[split].patterns)
                self._originals.update(samples[split].originals)
        if not samples:
            shown = join_names([*fn_args.train_files, *fn_args.eval_files])
            self._events.verdict(Verdict("examples", PASSED, f"{shown}: no records; the module reads them itself"))
            return
        if "train" in samples:
            counted = fn_args.num_examples["train"] if self._state["raw"] else samples["train"].estimated_records
            self._records = counted
        self._events.verdict(self._samples_verdict(samples))

    def _await_raw_data(self) -> None:
        """Waits for the process that prepares raw data, and sets the module's arguments from its result."""
        self._events.stage("data")
        while not os.path.exists(self._state["raw"]):
            time.sleep(_WAIT_SECONDS)
        with open(self._state["raw"], encoding="utf-8") as file:
            prepared = json.load(file)
        if not prepared:
            self._events.has_failed = True  # the other process has written the verdict
            self._state["failed"].append("train files")
            self._fn_args.train_files = ["-"]
            return
        self._features = prepared["features"]
        examples = prepared["examples"]
        self._raw_eval_files = examples[RAW]["eval_files"]
        wanted = TRANSFORMED if TRANSFORMED in examples and self._request.train_examples != RAW else RAW
        for name, value in {**prepared["fn_args"], **examples[wanted]}.items():
            setattr(self._fn_args, name, value)
        self._fn_args.transform_output = self._fn_args.transform_graph_path
        self._fn_args.schema_file = self._fn_args.schema_path

    def _generate_examples(self) -> None:
        """Generates synthetic examples from the schema, if there is one."""
        fn_args = self._fn_args
        path = self._examples_schema_path()
        if not path or "schema" in self._state["failed"] or fn_args.examples_format.payload != TF_EXAMPLE:
            text = "no examples (--train-files, --data) and no schema to generate synthetic ones from"
            self._hints.append(
                "No examples were given: set --train-files or --data, or --schema to generate synthetic ones."
            )
            self._events.verdict(Verdict("examples", SKIPPED, text))
            return
        records = synthetic_examples.generate(read_schema(path), _SYNTHETIC_EXAMPLES)
        for split in ("train", "eval"):
            pattern = _write_examples(records, self._examples_folder(split))
            setattr(fn_args, f"{split}_files", [pattern])
        shown = example_facts.facts_text(example_facts.facts_of(records), self._request.label)
        self._events.verdict(
            Verdict(
                "examples", WARNING, f"{len(records)} synthetic examples generated from {path}, no real ones: {shown}"
            )
        )

    def _samples_verdict(self, samples: dict[str, Sample]) -> Verdict:
        counts = " and ".join(
            f"{'all ' if sample.whole else ''}{sample.count:,} {split}" for split, sample in samples.items()
        )
        counts += " examples"
        misnamed = next((sample.misnamed for sample in samples.values() if sample.misnamed), "")
        problems = (
            [_misnamed_problem(misnamed)]
            if misnamed and self._mentions("data_accessor", *functions_that_read_examples())
            else []
        )
        records = [record for sample in samples.values() for record in sample.records]
        kinds = {sample.kind for sample in samples.values()}
        if self._fn_args.examples_format.payload not in (TF_EXAMPLE,) or kinds != {TF_RECORD}:
            names = sorted(records[0]) if kinds == {PARQUET} and records else []
            what = f": {join_names(names)}" if names else ""
            errors, warnings = self._compare_splits(samples, example_facts.facts_of_rows) if names else ([], [])
            return self._examples_verdict(
                problems, [*errors, *warnings], f"{counts}, {', '.join(sorted(kinds))}{what}", None
            )
        try:
            facts = example_facts.facts_of(records)
            split_errors, split_warnings = self._compare_splits(samples, example_facts.facts_of)
        except DecodeError as error:
            raise InputError(
                f"the records are not tf.Examples ({error}). Set their format with --payload-format."
            ) from error
        errors, warnings = self._compare_with_schema(facts)
        errors += split_errors
        warnings += split_warnings
        if not self._mentions(*_SCHEMA_WORDS, *functions_that_read_examples()):  # it may parse by its own feature spec
            self._hints += errors
            errors, warnings = [], [*errors, *warnings]
        kind = TRANSFORMED if self._reads_transformed() else RAW
        self._features.setdefault(kind, {name: fact.summary() for name, fact in facts.items()})
        label, place = self._label(facts)
        if label and (problem := self._label_problem(label)):
            if place is None:
                problems.append(problem)
            else:
                warnings.append(f"{place}: {problem}")
                self._hints.append(f"{place}: {problem}")
                label = ""
        shown = example_facts.facts_text(facts, label)
        text = shown if self._state["raw"] else f"{counts}: {shown}"
        return self._examples_verdict([*problems, *errors], warnings, text, facts)

    def _compare_splits(
        self, samples: dict[str, Sample], facts_of: Callable[[list[Any]], dict[str, FeatureFacts]]
    ) -> tuple[list[str], list[str]]:
        """Returns differences of train and eval that rule out a common feature spec, and other anomalies."""
        facts = {split: facts_of(sample.records) for split, sample in samples.items()}
        warnings = [
            warning
            for split, sample in samples.items()
            for warning in example_facts.value_warnings(
                facts[split], self._label(facts[split])[0], split, len(sample.records)
            )
        ]
        if len(facts) < 2:
            return [], warnings
        is_whole = all(sample.whole for sample in samples.values())
        errors, different = example_facts.differences(facts["train"], facts["eval"], is_whole)
        return errors, [*different, *warnings]

    def _examples_verdict(
        self, errors: Sequence[str], warnings: Sequence[str], text: str, facts: Mapping[str, FeatureFacts] | None
    ) -> Verdict:
        details = {"features": {name: fact.kind for name, fact in facts.items()}} if facts else {}
        if errors:
            return Verdict("examples", FAILED, "; ".join(errors), exit_code=2, details=details)
        if warnings:
            return Verdict("examples", WARNING, f"{text}. {'; '.join(warnings)}", details=details)
        return Verdict("examples", PASSED, text, details=details)

    def _compare_with_schema(self, facts: dict[str, FeatureFacts]) -> tuple[list[str], list[str]]:
        path = self._examples_schema_path()
        if not path or not os.path.exists(path) or "schema" in self._state["failed"]:
            return [], []
        return example_facts.contradictions(facts, read_schema(path))

    def _examples_schema_path(self) -> str | None:
        """Returns the schema path of the examples that the module reads."""
        if not self._reads_transformed():
            return self._fn_args.schema_path
        return os.path.join(self._fn_args.transform_graph_path or "", "transformed_metadata", "schema.pbtxt")

    def _reads_transformed(self) -> bool:
        return bool(self._fn_args.transform_graph_path) and self._request.train_examples != RAW

    def _label(self, facts: Mapping[str, FeatureFacts]) -> tuple[str, Place | None]:
        """Returns the requested label, or the module's LABEL_KEY or similar constant with its place."""
        if self._request.label:
            return self._request.label, None
        if self._fn_args.transform_graph_path:
            return "", None  # the module's constant may be the raw label's name
        for file in self._source.files if self._source else ():
            for name, value, line in string_constants(file):
                if name in _LABELS:
                    return value, place_at(file, line)
        return "", None

    def _label_problem(self, label: str) -> str:
        """Returns the problem with a label that is in neither raw nor transformed examples, or ""."""
        raw = set(self._features.get("raw", ()))
        graph = self._fn_args.transform_graph_path
        path = os.path.join(graph, "metadata", "schema.pbtxt") if graph else ""
        if path and os.path.exists(path):
            raw |= {feature.name for feature in read_schema(path).feature}
        problems = (label_problem(one, raw, self._features.get("transformed")) for one in parse_labels(label).values())
        return next(filter(None, problems), "")

    def _examples_folder(self, split: str) -> str:
        return os.path.join(self._state["folder"], RAW_EXAMPLES, f"Split-{split}")

    def _mentions(self, *words: str) -> bool:
        """Returns whether one of the module's files contains one of the words."""
        texts = [text_of(file) for file in self._source.files] if self._source else []
        return any(word in text for text in texts for word in words)

    def _with_hints(self, verdict: Verdict) -> Verdict:
        if verdict.status != FAILED:
            return verdict
        hints = [*self._hints, *filter(None, self._hints_for(verdict)), *filter(None, [verdict.remedy])]
        remedy = " ".join(f"{hint.rstrip('.')}." for hint in hints)
        return dataclasses.replace(verdict, text=self._with_original_paths(verdict.text), remedy=remedy)

    def _with_original_paths(self, text: str) -> str:
        """Replaces the paths of the sample's copies by those that the user gave."""
        for copied, original in sorted(self._originals.items(), reverse=True):  # a file before its folder
            text = text.replace(copied, original)
        return text

    def _hints_for(self, verdict: Verdict) -> list[str]:
        """Returns advice if a failure, or a chained exception in its traceback, suggests other versions."""
        raised = [line for line in verdict.traceback.splitlines() if line and not line[0].isspace()]
        text = "\n".join([verdict.text, *raised])
        keras = self._keras().hint_for_text(text) if self._state["keras"] else ""
        return [keras, tensorflow_1.hint_for_text(text)]


def _misnamed_problem(path: str) -> str:
    is_named = path.endswith(".gz")
    return (
        f"{path} is {'not ' if is_named else ''}gzipped, but its name {'ends' if is_named else 'does not end'} in .gz: "
        "data_accessor determines the compression by the name. Rename the file."
    )


def _write_examples(records: Sequence[bytes], folder: str) -> str:
    import tensorflow as tf

    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, "made-up.gz"), "GZIP") as writer:
        for record in records:
            writer.write(record)
    return os.path.join(folder, "*")
