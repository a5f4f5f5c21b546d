"""Sections that a pipeline adds to its training's report, from ML Metadata and the artifacts of a real run."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from generic_trainer import TrainingOptions
from generic_trainer.executors.reporting.document import Report
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.pipelines.history.evaluation_results import Evaluation, Measure
from generic_trainer.pipelines.history.runs import find_run
from generic_trainer.pipelines.local import LocalPipeline, run_pipeline
from generic_trainer.pipelines.reporting.evaluation import evaluation_sections
from generic_trainer.pipelines.reporting.sections import write_newest_report
from generic_trainer.pipelines.reporting.statistics import data_sections

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
NASTY = "</script><img src=x onerror=alert(1)>"
EVALUATION = {
    "model_specs": [{"signature_name": "serving_default", "label_key": "variety"}],
    "slicing_specs": [{}, {"feature_keys": ["variety"]}],
    "metrics_specs": [
        {
            "metrics": [
                {"class_name": "ExampleCount"},
                {"class_name": "SparseCategoricalAccuracy"},
                {
                    "class_name": "SparseCategoricalCrossentropy",
                    "threshold": {"value_threshold": {"upper_bound": 0.0001}},
                },
            ]
        }
    ],
    "options": {"compute_confidence_intervals": True},
}


@pytest.fixture(scope="module")
def pipeline(iris: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """The root of a pipeline that has run on iris, and its report; the schema lacks one of the varieties."""
    folder = tmp_path_factory.mktemp("reported")
    schema = text_format.Parse(pathlib.Path(iris.schema).read_text(), schema_pb2.Schema())
    [variety] = (feature for feature in schema.feature if feature.name == "variety")
    variety.int_domain.min, variety.int_domain.max = 0, 1
    (folder / "schema.pbtxt").write_text(text_format.MessageToString(schema))
    (folder / "evaluation.json").write_text(json.dumps(EVALUATION))
    outcome = run_pipeline(
        LocalPipeline(
            data=str(pathlib.Path(iris.schema).parent),
            module_file=str(REPOSITORY / "module_files" / "iris_keras.py"),
            pipeline_root=str(folder / "root"),
            schema=str(folder / "schema.pbtxt"),
            eval_config=str(folder / "evaluation.json"),
            runner="local",
            custom_config={"epochs": 3},
            training=TrainingOptions(seed=1),
        )
    )
    return folder / "root", (pathlib.Path(str(outcome.model_run)) / "report.html").read_text()


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_the_evaluation_has_slices_and_confidence_intervals(pipeline: tuple[pathlib.Path, str]) -> None:
    evaluation = section(pipeline[1], "evaluation")
    assert "The model was not blessed" in evaluation
    assert "Missed thresholds" in evaluation
    found = re.search(
        r"sparse_categorical_crossentropy</th>\s*<td[^>]*>([\d.]+)</td>\s*<td[^>]*>([\d.]+) to ([\d.]+)<", evaluation
    )
    assert found
    value, low, high = map(float, found.groups())
    assert low < value < high
    assert "sparse_categorical_accuracy by slice" in evaluation
    assert [f"variety={number}" in evaluation for number in (0, 1, 2)] == [True, True, True]
    assert "data-low" in evaluation  # the chart shows the confidence intervals, too
    assert f"{value:.5g}" in section(pipeline[1], "outcome")


@pytest.mark.thorough
@pytest.mark.slow
def test_train_and_eval_data_are_compared_with_anomalies_by_name(pipeline: tuple[pathlib.Path, str]) -> None:
    data = section(pipeline[1], "data")
    assert re.search(r"<code>variety</code></th>\s*<td>(train|eval)</td>\s*<td><span class=\"bad\">error", data)
    assert "Out-of-range values" in data
    assert "<code>petal_length</code>" in data
    assert 'aria-label="train, eval: shares of values from 0 to 2"' in data
    assert "missing (eval)" in data


@pytest.mark.slow
def test_lineage_and_paths_are_shown(pipeline: tuple[pathlib.Path, str]) -> None:
    root, page = pipeline
    lineage = section(page, "lineage")
    steps = [name for name in ("ImportExampleGen", "Trainer", "Model", "Evaluator") if f">{name}</text>" in lineage]
    assert steps == ["ImportExampleGen", "Trainer", "Model", "Evaluator"]
    outcome = section(page, "outcome")
    assert "not blessed" in outcome
    assert str(root / "metadata.sqlite") in outcome
    assert find_run(str(root)).pipeline_run in outcome


@pytest.mark.slow
def test_the_artifact_has_the_reports_path_and_the_report_can_be_regenerated(
    pipeline: tuple[pathlib.Path, str],
) -> None:
    from generic_trainer.pipelines.history.metadata_store import open_store

    root, page = pipeline
    run = find_run(str(root))
    path = pathlib.Path(str(run.model_run)) / "report.html"
    [artifact] = open_store(run.metadata).get_artifacts_by_type("ModelRun")
    assert artifact.custom_properties["report"].string_value == str(path)
    path.unlink()
    assert write_newest_report(run.metadata, run.pipeline) == str(path)
    assert path.read_text() == page
    assert write_newest_report(run.metadata, "another pipeline") is None


def statistics(folder: pathlib.Path, split: str, values: dict[str, int]) -> None:
    """Writes statistics of a text and a number, as TFDV does; one of ten examples has no number."""
    examples = sum(values.values())
    found = statistics_pb2.DatasetFeatureStatistics(num_examples=examples)
    text = found.features.add(name=NASTY, type=statistics_pb2.FeatureNameStatistics.STRING)
    text.string_stats.common_stats.CopyFrom(counted(examples, examples))
    text.string_stats.unique = len(values)
    for value, count in values.items():
        text.string_stats.top_values.add(value=value, frequency=count)
    number = found.features.add(name="fare", type=statistics_pb2.FeatureNameStatistics.FLOAT)
    number.num_stats.common_stats.CopyFrom(counted(examples, examples - examples // 10))
    number.num_stats.min, number.num_stats.max, number.num_stats.median, number.num_stats.mean = 0, 12, 3, 4
    for kind in (statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES):
        histogram = number.num_stats.histograms.add(type=kind)
        histogram.buckets.add(low_value=0, high_value=6, sample_count=30)
        histogram.buckets.add(low_value=6, high_value=12, sample_count=10)
    path = folder / f"Split-{split}" / "FeatureStats.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(statistics_pb2.DatasetFeatureStatisticsList(datasets=[found]).SerializeToString())


def counted(examples: int, values: int) -> statistics_pb2.CommonStatistics:
    return statistics_pb2.CommonStatistics(num_non_missing=examples, tot_num_values=values, max_num_values=1)


def test_distributions_are_compared_and_names_escaped(tmp_path: pathlib.Path) -> None:
    statistics(tmp_path, "train", {NASTY: 80, "cash": 20})
    statistics(tmp_path, "eval", {NASTY: 50, "cash": 50})
    [data] = data_sections(str(tmp_path), None)
    numbers, texts = (
        table
        for table in data.blocks
        if getattr(table, "caption", "") in ("Numeric features", "Categorical and text features")
    )
    [text], [fare] = texts.rows, numbers.rows
    assert text[1].splits == {"train": [0.8, 0.2], "eval": [0.5, 0.5]}
    assert (text[2].text, text[2].tone) == ("30.0 %", "warn")  # three of ten examples would have to move
    assert text[-2:] == (2, f"{NASTY} 80 %, cash 20 %")
    # TFDV's two buckets become twelve, from 0 to 6 and on to 12: six share 0.75, six share 0.25.
    assert fare[1].splits["train"] == pytest.approx([0.125] * 6 + [0.25 / 6] * 6)
    assert [cell.text for cell in fare[2:6] if hasattr(cell, "text")] == ["0.0 %", "10.0 %", "10.0 %"]
    page = html_of(Report("x", "", (), [data]))
    assert "<img" not in page.partition("<script>")[0]
    assert "&lt;img src=x" in page


def test_anomalies_or_their_absence_are_reported(tmp_path: pathlib.Path) -> None:
    found = anomalies_pb2.Anomalies()
    info = found.anomaly_info[NASTY]
    info.severity, info.short_description = anomalies_pb2.AnomalyInfo.ERROR, f"{NASTY} is new"
    for split, content in (("train", anomalies_pb2.Anomalies()), ("eval", found)):
        path = tmp_path / f"Split-{split}" / "SchemaDiff.pb"
        path.parent.mkdir()
        path.write_bytes(content.SerializeToString())
    [data] = data_sections(None, str(tmp_path))
    [table] = [block for block in data.blocks if block]
    assert [cell if isinstance(cell, str) else cell.text for cell in table.rows[0]] == [
        *(NASTY, "eval", "error"),
        *(f"{NASTY} is new", ""),
    ]
    assert "<img" not in html_of(Report("x", "", (), [data]))
    (tmp_path / "Split-eval" / "SchemaDiff.pb").write_bytes(b"")
    [data] = data_sections(None, str(tmp_path))
    assert [block.text for block in data.blocks if block] == [
        "No anomalies in train and eval: the data matches the schema."
    ]


def test_without_data_or_evaluation_there_are_no_sections() -> None:
    assert data_sections(None, None) == []
    assert evaluation_sections(Evaluation({}), None) == []


def test_slice_names_with_markup_are_escaped() -> None:
    overall = {"auc": Measure(0.9, (0.85, 0.95)), "example_count": Measure(100.0)}
    slices = {"all examples": overall, f"{NASTY}=1": {"auc": Measure(0.7)}}
    page = html_of(Report("x", "", (), evaluation_sections(Evaluation(slices, [(NASTY, "auc", NASTY)]), True)))
    assert "<img" not in re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "0.9 (0.85 to 0.95)" in page
    assert "The model was blessed." in page
