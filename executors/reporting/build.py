"""Builds a run's report from its record, its event files, and data from the pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..evaluation.error_analysis import ErrorAnalysis, read_error_analysis
from ..monitoring.metrics import Metrics
from ..monitoring.resources import UsageRecord
from ..monitoring.series import read_metrics
from . import model_sections, outcome_sections, training_sections
from .document import Report, Section, Value
from .prediction_sections import PREDICTIONS, analysis_sections
from .quantities import seconds
from .values import module_name

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class PipelineParts:
    """Report content that only the pipeline around a training has.

    Attributes:
      facts: Rows for the outcome, such as the pushed model's location and whether it was blessed.
      metrics: Evaluation metrics, which take precedence over those from training.
      evaluation: Sections after the outcome.
      data: Sections after the model.
      lineage: Sections at the end.
      search: Sections before the curves, on the search for hyperparameters.
      errors: The evaluation's error analysis, which takes precedence over the training's.
    """

    facts: Sequence[tuple[str, Value]] = ()
    metrics: Metrics = dataclasses.field(default_factory=dict)
    evaluation: Sequence[Section] = ()
    data: Sequence[Section] = ()
    lineage: Sequence[Section] = ()
    search: Sequence[Section] = ()
    errors: ErrorAnalysis | None = None


def report_of(folder: str, record: RunRecord, pipeline: PipelineParts | None = None) -> Report:
    """Returns a run's report.

    Args:
      folder: Folder of the model run, with the event files.
      record: Content of its run.json.
      pipeline: Content from the pipeline, if the run is part of one.
    """
    pipeline = pipeline or PipelineParts()
    logged, metrics = read_metrics(folder), record.metrics
    analysis = pipeline.errors or read_error_analysis(folder) or ErrorAnalysis()
    has_plots = any(section.id == PREDICTIONS for section in pipeline.evaluation)
    sections = (
        outcome_sections.outcome(record, pipeline.metrics or metrics, pipeline.facts),
        *pipeline.evaluation,
        *analysis_sections(analysis, has_plots=has_plots),
        outcome_sections.metrics_section(record, metrics),
        outcome_sections.skipped_records_section(record),
        *pipeline.search,
        training_sections.curves(record, logged, metrics),
        training_sections.time_section(record, logged),
        training_sections.resources_section(record.part("resources", UsageRecord)),
        training_sections.cluster_section(record),
        model_sections.model_section(record),
        *pipeline.data,
        model_sections.arguments_section(record),
        model_sections.code_section(record, folder),
        *pipeline.lineage,
    )
    title = f"Training of {module_name(record)}"
    return Report(title, record.status, _facts(record), [section for section in sections if section])


def _facts(record: RunRecord) -> list[tuple[str, Value]]:
    started = record.started
    facts: list[tuple[str, Value]] = [("Started", f"{started[:19].replace('T', ' ')} UTC")] if started else []
    if took := sum(value for name, value in record.phases.items() if "/" not in name):
        facts.append(("Duration", seconds(took)))
    dialect, keras = record.dialect, record.keras
    facts += [(label, one) for label, one in (("Dialect", dialect.get("name")), ("Keras", keras.get("version"))) if one]
    versions = record.stack
    return [*facts, *((name, versions[name]) for name in ("tensorflow", "generic-trainer") if name in versions)]
