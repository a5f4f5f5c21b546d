"""Runs TensorFlow Model Analysis (TFMA) on predictions of this package's batch inference.

TFMA's own inference supports only signatures that take serialized raw examples. Here a `Scorer` runs the signature that
the plan names, and TFMA gets labels, predictions and slicing features as extracts. Slices, thresholds, confidence
intervals and result files are computed and written by TFMA.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow_model_analysis as tfma
from absl import logging
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.utils.shared import Shared
from tensorflow_model_analysis.proto import config_pb2

from ..errors import InputError
from ..examples_format import TF_EXAMPLE
from ..inputs.input_format import format_of_payload
from ..runtime.files import file_io
from ..runtime.logs.exceptions import one_line_message
from ..runtime.work import advance
from .class_names import class_names
from .error_analysis import analyze_errors
from .eval_sample import sample_of
from .inference import ExampleReader, Features, Scored, Scorer, bisected, require_all_comparable, score
from .metrics import eval_config, value_ranges
from .plan import EvaluationPlan
from .run_error_analysis import write_error_analysis

_BATCH = 512
_LOADED = "loaded"
_FEW = 100  # examples, below which chance matters more than most differences between models
_TOTAL, _SKIPPED = "examples_total", "examples_skipped"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model to evaluate: its SavedModel's folder, and its evaluation plan."""

    model: str
    plan: EvaluationPlan


@dataclasses.dataclass(frozen=True)
class Analysis:
    """An evaluation: models, data and options.

    Attributes:
      files: The eval split's files of raw examples.
      candidate: The trained model.
      baseline: The model to compare with, or None. Its plan must have the candidate's outputs in the same order.
      transform_graph: The Transform graph's folder, or None.
      slice_by: Raw or transformed features; metrics are computed for each of their values too.
      max_degradation: How much worse than the baseline's the deciding metric may be, as an absolute difference.
      allow_trivial: Whether a model may be no better than the trivial model.
      split: The split of the files, "eval" or "test".
      error_seconds: Time limit of the error analysis of the candidate; 0 for none.
      payload: The payload format of the files.
    """

    files: Sequence[str]
    candidate: Candidate
    baseline: Candidate | None = None
    transform_graph: str | None = None
    slice_by: Sequence[str] = ()
    max_degradation: float = 0.0
    allow_trivial: bool = False
    split: str = "eval"
    error_seconds: float = 0.0
    payload: str = TF_EXAMPLE


@dataclasses.dataclass(frozen=True)
class AnalysisResult:
    """The result of `analyze`.

    Attributes:
      plan: The candidate's plan, corrected by its predictions.
      config: TFMA's configuration.
      notes: Sentences about a skipped baseline or skipped examples.
      class_names: {output: {class index: name}}; see `class_names`.
    """

    plan: EvaluationPlan
    config: config_pb2.EvalConfig
    notes: tuple[str, ...] = ()
    class_names: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)


def analyze(analysis: Analysis, pipeline: beam.Pipeline, output: str) -> AnalysisResult:
    """Runs an evaluation, and writes TFMA's results and the candidate's error analysis.

    Evaluates the first batch in this process before the pipeline starts, so that early errors are raised with their
    original type. Skips examples without a label or prediction, and a baseline that fails on the first batch.

    Args:
      analysis: The evaluation.
      pipeline: An empty pipeline; it is run.
      output: The folder for the results.

    Raises:
      InputError: If labels, predictions and examples do not match, or there is no example.
      Exception: Any exception of Beam or TFMA.
    """
    notes: list[str] = []
    loaded = _Loaded(analysis)
    records = next(loaded.records(analysis.files), None)
    if records is None:
        raise InputError("the eval split has no examples.")
    [scored] = score(records, [loaded.candidate])
    first = loaded.reader.features(scored.records)
    if (baseline := loaded.baseline) is not None:
        try:
            baseline.correct_plan(scored.records)
            loaded.baseline_scores(first, scored)
        except Exception as error:
            logging.info("The baseline model cannot be evaluated.", exc_info=True, extra={"kept_only": True})
            notes.append(f"The baseline model was excluded from the comparison: {one_line_message(error)}")
            loaded.baseline = None
    loaded.evaluated(records)  # raises what would fail in the pipeline, with its original type
    handle = Shared()
    handle.acquire(lambda: loaded, _LOADED)  # this reference keeps it alive for the workers in this process
    plan = loaded.candidate.plan
    ranges = value_ranges(plan, scored.scores)
    corrected = dataclasses.replace(
        analysis,
        candidate=dataclasses.replace(analysis.candidate, plan=plan),
        baseline=Candidate(analysis.baseline.model, loaded.baseline.plan)
        if analysis.baseline and loaded.baseline
        else None,
    )
    config = tfma.utils.update_eval_config_with_defaults(
        eval_config(
            plan,
            slice_by=analysis.slice_by,
            max_degradation=analysis.max_degradation,
            allow_trivial=analysis.allow_trivial,
            ranges=ranges,
        ),
        has_baseline=corrected.baseline is not None,
        rubber_stamp=True,
    )
    tfma.utils.verify_eval_config(config)
    with pipeline:
        evaluation = (
            pipeline
            | "Predictions" >> _Predictions(corrected, handle)
            | "ExtractAndEvaluate"
            >> tfma.ExtractAndEvaluate(
                extractors=[tfma.extractors.SliceKeyExtractor(eval_config=config, materialize=False)],
                evaluators=[tfma.evaluators.MetricsPlotsAndValidationsEvaluator(eval_config=config)],
            )
        )
        # Plots of slices would take far more space than all metrics, and the report shows only those of all examples.
        evaluation[tfma.PLOTS_KEY] |= "OverallPlots" >> beam.Filter(lambda sliced: not sliced[0])
        evaluation | "WriteResults" >> tfma.WriteResults(writers=tfma.default_writers(output, eval_config=config))
    total, skipped = (_counter_value(pipeline, name) for name in (_TOTAL, _SKIPPED))
    if 0 < total - skipped < _FEW:
        notes.append(_note_on_few_examples(total - skipped))
    if skipped:
        why = f": {loaded.skip_reason}" if loaded.skip_reason else ""
        notes.append(f"The evaluation skipped {skipped:,} of {total:,} examples{why}")
    names = class_names(first, plan, analysis.transform_graph)
    _write_error_analysis(analysis, loaded, names, output)
    return AnalysisResult(plan, config, tuple(notes), names)


def _note_on_few_examples(count: int) -> str:
    # The half-width of a 95 % confidence interval for a proportion is at most 1.96 * sqrt(0.25 / count).
    return (
        f"Only {count} examples were evaluated: by chance alone, a metric such as accuracy can be off by "
        f"{0.98 / count**0.5:.2f}. Evaluate on more examples before you rely on the verdict"
    )


def _write_error_analysis(
    analysis: Analysis, loaded: _Loaded, names: Mapping[str, Mapping[str, str]], folder: str
) -> None:
    """Writes the candidate's error analysis, unless it fails, which must not discard the evaluation."""
    if not analysis.error_seconds or not loaded.candidate.plan.compares:
        return
    try:
        sample = sample_of(analysis.files, analysis.error_seconds, analysis.payload)
        errors = analyze_errors(
            loaded.candidate, sample, split=analysis.split, seconds=analysis.error_seconds, names=names
        )
        write_error_analysis(errors.to_json(), folder)
    except Exception as error:
        logging.warning("The errors of the model could not be analyzed: %s", one_line_message(error))


def _counter_value(pipeline: beam.Pipeline, name: str) -> int:
    found = pipeline.result.metrics().query(MetricsFilter().with_name(name))["counters"]
    return sum(counter.result for counter in found)


class _Loaded:
    """The loaded models and Transform graph of an analysis.

    Attributes:
      reader: Decodes and transforms examples, for both models.
      candidate: The trained model.
      baseline: The model to compare with, or None.
      skip_reason: The error of the first skipped example; None if none was skipped.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._slice_by, self._form = analysis.slice_by, format_of_payload(analysis.payload)
        self.skip_reason: InputError | None = None
        self.reader = ExampleReader(analysis.transform_graph)
        self.candidate = Scorer(analysis.candidate.plan, analysis.candidate.model, self.reader)
        self.baseline: Scorer | None = None
        if analysis.baseline is not None:
            self.baseline = Scorer(analysis.baseline.plan, analysis.baseline.model, self.reader)

    def records(self, files: Sequence[str], count: Callable[[float], None] = lambda _: None) -> Iterator[list[bytes]]:
        """Yields batches of serialized examples from files, and counts the bytes that were read."""
        for file in files:
            position, size = 0.0, file_io.size_of(file)
            for batch in self._form.examples(file, _BATCH):
                yield batch.records
                count(min(batch.position, size) - position)
                position = min(batch.position, size)
            count(size - position)

    def evaluated(self, records: Sequence[bytes]) -> list[tfma.Extracts]:
        """Returns TFMA's extracts of the examples that have a label and a prediction of each model."""
        parts = bisected(records, lambda part: self.extracts(self.reader.features(part)), self._note_skip)
        return [extracts for part in parts for extracts in part]

    def _note_skip(self, error: InputError) -> None:
        self.skip_reason = self.skip_reason or error

    def extracts(self, features: Features) -> list[tfma.Extracts]:
        """Returns TFMA's extracts of a batch, one for each example.

        Raises:
          InputError: If an example has no label, or a model fails on it.
          ScoresError: If an output's values contradict the plan's kind of scores.
        """
        extracts: list[tfma.Extracts] = []
        scored = self.candidate.scored(features)
        outputs = [planned.output for planned in self.candidate.plan.outputs]
        none = np.zeros((len(features.records), 1))
        labels = list(zip(*(scored.labels.get(name, none) for name in outputs), strict=True))
        models = {tfma.CANDIDATE_KEY: [scored.scores[name] for name in outputs]}
        if self.baseline:
            models[tfma.BASELINE_KEY] = self.baseline_scores(features, scored)
        rows_of_models = {name: list(zip(*scores, strict=True)) for name, scores in models.items()}
        sliced = {name: _rows(features, name) for name in self._slice_by}
        for row in range(len(features.records)):
            predictions = {name: _by_output(outputs, rows[row]) for name, rows in rows_of_models.items()}
            extracts.append(
                {
                    tfma.INPUT_KEY: features.records[row],
                    tfma.LABELS_KEY: _by_output(outputs, labels[row]),
                    tfma.PREDICTIONS_KEY: predictions if self.baseline else predictions[tfma.CANDIDATE_KEY],
                    tfma.FEATURES_KEY: {name: rows[row] for name, rows in sliced.items()},
                }
            )
        return extracts

    def baseline_scores(self, features: Features, scored: Scored) -> list[np.ndarray]:
        """Returns the baseline's scores for a batch that the candidate has scored, one array for each output.

        Raises:
          InputError: If they do not match the candidate's labels, or the baseline fails on an example.
        """
        assert self.baseline is not None
        scores, plan = self.baseline.scores(features), self.candidate.plan
        ordered = [scores[planned.output] for planned in self.baseline.plan.outputs]
        named = dict(zip((planned.output for planned in plan.outputs), ordered, strict=True))
        require_all_comparable(scored.labels, named, plan)
        return ordered


class _Predictions(beam.PTransform):  # type: ignore[misc]
    """Returns TFMA's extracts of the examples in all files.

    Attributes:
      input_bytes: The size of the files, for progress; see `compat.beam.reads_counted`.
    """

    def __init__(self, analysis: Analysis, handle: Shared) -> None:
        super().__init__()
        self._analysis, self._handle = analysis, handle
        self.input_bytes = sum(map(file_io.size_of, analysis.files))

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | "Files" >> beam.Create(list(self._analysis.files))
            | "Reshuffle" >> beam.Reshuffle()
            | "Inference" >> beam.ParDo(_Inference(self._analysis, self._handle))
        )


class _Inference(beam.DoFn):  # type: ignore[misc]
    """Yields TFMA's extracts of the examples in a file, and counts examples and skipped examples."""

    def __init__(self, analysis: Analysis, handle: Shared) -> None:
        self._analysis = analysis
        self._handle = handle
        self._loaded: _Loaded | None = None
        self._total, self._skipped = (Metrics.counter(__name__, name) for name in (_TOTAL, _SKIPPED))

    def setup(self) -> None:
        """Loads models and Transform graph, once in a process."""
        self._loaded = self._handle.acquire(lambda: _Loaded(self._analysis), _LOADED)

    def process(self, file: str) -> Iterator[dict[str, Any]]:
        """Evaluates the examples in a file."""
        assert self._loaded is not None
        for records in self._loaded.records([file], advance):
            extracts = self._loaded.evaluated(records)
            self._total.inc(len(records))
            self._skipped.inc(len(records) - len(extracts))
            yield from extracts


def _by_output(outputs: Sequence[str], values: Sequence[np.ndarray]) -> np.ndarray | dict[str, np.ndarray]:
    """Returns values in TFMA's format: {output: value}, or the value itself for a single output."""
    return dict(zip(outputs, values, strict=True)) if len(outputs) > 1 else values[0]


def _rows(features: Features, name: str) -> list[np.ndarray]:
    """Returns the values of a feature as one array for each example, empty for a missing value."""
    column = features.column(name, is_transformed=name not in features.raw and name in features.transformed)
    if pa.types.is_null(column.type):
        return [np.array([])] * len(features.records)
    return [np.array(row if row is not None else []) for row in column.to_pylist()]
