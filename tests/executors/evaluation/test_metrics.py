"""TFMA's configuration for a plan."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from google.protobuf import json_format
from tensorflow_model_analysis.proto import config_pb2

from generic_trainer import InputError
from generic_trainer.executors.evaluation.corrected_metrics import corrected
from generic_trainer.executors.evaluation.metrics import eval_config, has_threshold, read_eval_config, value_ranges
from generic_trainer.executors.evaluation.plan import BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from generic_trainer.executors.evaluation.trivial_comparison import Comparison, comparison_of
from generic_trainer.executors.evaluation.trivial_models import TRIVIAL_MODELS

TIP = EvaluationPlan("serving_default", outputs=(OutputPlan("probability", BINARY, "big_tip"),))


def test_slices_are_added_to_the_overall_metrics() -> None:
    config = eval_config(TIP, slice_by=["trip_start_hour", "payment_type"])
    assert [list(spec.feature_keys) for spec in config.slicing_specs] == [[], ["trip_start_hour"], ["payment_type"]]


def test_the_first_metric_may_not_be_worse_than_the_blessed_models() -> None:
    count, own = eval_config(TIP, max_degradation=0.01).metrics_specs
    assert [metric.class_name for metric in count.metrics] == ["ExampleCount"]
    auc, *others = own.metrics
    assert auc.class_name == "RankedAUC"
    [over_all] = auc.per_slice_thresholds
    assert list(over_all.slicing_specs) == [config_pb2.SlicingSpec()]
    assert over_all.threshold.change_threshold.absolute.value == -0.01
    *others, trivial = others
    assert not any(metric.HasField("threshold") or metric.per_slice_thresholds for metric in others)
    assert trivial.per_slice_thresholds[0].threshold.value_threshold.lower_bound.value > 0
    assert not eval_config(TIP, allow_trivial=True).metrics_specs[1].metrics[-1].per_slice_thresholds
    price = EvaluationPlan("serving_default", outputs=(OutputPlan("output_0", REGRESSION, "price"),))
    error = eval_config(price, max_degradation=0.1).metrics_specs[1].metrics[0]
    change = error.per_slice_thresholds[0].threshold.change_threshold
    assert change.direction == config_pb2.MetricDirection.Value("LOWER_IS_BETTER")
    assert change.absolute.value == 0.1


def test_the_first_of_several_outputs_decides_and_none_may_be_trivial() -> None:
    two = EvaluationPlan(
        "serving_default", outputs=(OutputPlan("price", REGRESSION, "price"), OutputPlan("click", BINARY, "click"))
    )
    _, price, click = eval_config(two).metrics_specs
    assert (list(price.output_names), list(click.output_names)) == (["price"], ["click"])
    assert price.metrics[0].per_slice_thresholds
    assert [metric.class_name for metric in click.metrics if metric.per_slice_thresholds] == ["OverTrivial"]


def test_the_plots_fit_the_task() -> None:
    outputs = (
        OutputPlan("click", BINARY, "click"),
        OutputPlan("price", REGRESSION, "price"),
        OutputPlan("constant", REGRESSION, "price"),
        OutputPlan("species", MULTICLASS, "species", classes=3),
    )
    plan = EvaluationPlan("serving_default", outputs=outputs)
    scores = {one.output: np.array([[0.0], [1.0]]) for one in outputs} | {"constant": np.zeros((2, 1))}
    specs = eval_config(plan, ranges=value_ranges(plan, scores)).metrics_specs[1:]
    plots = [[metric for metric in spec.metrics if metric.class_name.endswith("Plot")] for spec in specs]
    assert [[plot.class_name for plot in found] for found in plots] == [
        ["RankedConfusionMatrixPlot", "CalibrationPlot"],
        ["CalibrationPlot"],
        [],
        ["MultiClassConfusionMatrixPlot"],
    ]
    # The range is never TFMA's default of 0 to 1, for which it requires labels of 0 to 1.
    assert plots[1][0].config == '{"left": -1.0, "right": 2.0}'


def test_without_a_known_task_there_is_no_threshold() -> None:
    unknown = EvaluationPlan("serving_default", outputs=(OutputPlan("output_0", label="y"),))
    assert [metric.class_name for metric in eval_config(unknown).metrics_specs[0].metrics] == ["ExampleCount"]
    assert not has_threshold(unknown)
    assert has_threshold(TIP)
    assert not has_threshold(EvaluationPlan("serving_default", outputs=(OutputPlan("probability", BINARY),)))


def test_a_configuration_of_the_user(tmp_path: pathlib.Path) -> None:
    config = eval_config(TIP)
    (tmp_path / "eval.json").write_text(json_format.MessageToJson(config))
    assert read_eval_config(str(tmp_path / "eval.json")) == config
    wrong = {"{": "is not JSON", '{"metric": 1}': "is not a tfma.EvalConfig in JSON", "[]": "must hold a JSON object"}
    for broken, text in wrong.items():
        (tmp_path / "eval.json").write_text(broken)
        with pytest.raises(InputError, match=f"eval.json {text}"):
            read_eval_config(str(tmp_path / "eval.json"))


@pytest.mark.parametrize(("options", "compares"), [("", True), ('{"class_id": 0}', False), ('{"top_k": 2}', False)])
def test_only_a_metric_of_whole_predictions_has_a_trivial_value(options: str, compares: bool) -> None:
    metric = config_pb2.MetricConfig(class_name="AUC", config=options)
    [own] = corrected(config_pb2.EvalConfig(metrics_specs=[{"metrics": [metric]}])).metrics_specs[0].metrics
    assert (comparison_of(own, allow_trivial=False) is not None) == compares


def test_the_text_of_equal_labels_says_that_there_is_no_area() -> None:
    comparison = Comparison("auc", 0.0, 0.0, None, TRIVIAL_MODELS["RankedAUC"])
    assert comparison.text == "auc is not defined: the labels of all evaluated examples are equal"
    assert "is not better" in dataclasses.replace(comparison, value=0.5).text
