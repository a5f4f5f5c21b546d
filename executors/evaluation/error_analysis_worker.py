"""Subprocess that analyzes the errors of a model; see `run_error_analysis.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import evaluated_examples
from .class_names import class_names
from .error_analysis import analyze_errors, analyze_evaluated
from .eval_sample import sample_of
from .inference import ExampleReader, Scorer
from .run_error_analysis import ErrorAnalysisRequest
from .unread_label import with_unread_label

ENDS_AT_ONCE = True
_NAMED_EXAMPLES = 512  # for the names of classes


def execute(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Entry point of the subprocess: returns an `ErrorAnalysis` as JSON values."""
    request = ErrorAnalysisRequest.from_json(state)
    plan, graph = request.plan, request.transform_graph
    if request.evaluated:
        return analyze_evaluated(plan, evaluated_examples.read(request.evaluated)).to_json()
    scorer = Scorer(plan, request.model, ExampleReader(graph), request.op_packages)
    sample = sample_of(request.files, request.seconds, request.payload)
    if not graph:
        scorer.plan = plan = with_unread_label(plan, sample.records, scorer.parsed_features)
    names = class_names(scorer.reader.features(sample.records[:_NAMED_EXAMPLES]), plan, graph)
    return analyze_errors(scorer, sample, seconds=request.seconds, names=names).to_json()
