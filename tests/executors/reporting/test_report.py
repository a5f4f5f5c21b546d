"""Each run writes a report with everything from its record and logs, and escapes all user text."""

from __future__ import annotations

import html.parser
import json
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, ModuleError, TrainingOptions, train
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.report_file import FILE_NAME
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.reporting.comparison import comparison
from generic_trainer.executors.reporting.document import (
    Chart,
    Code,
    Facts,
    Graph,
    Histogram,
    Node,
    Note,
    Report,
    Section,
)
from generic_trainer.executors.reporting.failure import failure_location
from generic_trainer.executors.reporting.outcome_sections import headline_metrics
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.executors.reporting.quantities import difference, seconds, size
from generic_trainer.executors.reporting.writing import keep_failed_run, write_report

from ...world.data import outputs_in

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
NASTY = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&"


class Page(html.parser.HTMLParser):
    """A parsed page: texts by heading, tables by caption, and the elements that occur."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {"": ""}
        self.tables: dict[str, list[list[str]]] = {}
        self._inside: list[str] = []
        self._heading = self._caption = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self._inside.append(tag)
        if tag == "h2":
            self._heading = ""
        if tag == "caption":
            self._caption = ""
        if tag == "tr" and self._caption:
            self.tables.setdefault(self._caption, []).append([])
        if tag in ("td", "th") and self._caption:
            self.tables[self._caption][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass
        if tag == "table":
            self._caption = ""

    def handle_data(self, data: str) -> None:
        if {"style", "script"} & set(self._inside):
            return
        if "h2" in self._inside:
            self._heading += data
            self.sections[self._heading] = ""
        elif "caption" in self._inside:
            self._caption += data
        elif self._caption and {"td", "th"} & set(self._inside):
            self.tables[self._caption][-1][-1] += data.strip()
        else:
            self.sections[self._heading] += data

    def table(self, caption: str) -> dict[str, list[str]]:
        """Returns a table's rows by their first cell."""
        return {row[0]: row[1:] for row in self.tables[caption]}


def page_of(folder: pathlib.Path) -> Page:
    return Page((folder / FILE_NAME).read_text())


def fn_args(folder: pathlib.Path, iris: Any, **fields: Any) -> FnArgs:
    return FnArgs(train_files=[iris.train], eval_files=[iris.eval], **outputs_in(folder), **fields)


@pytest.fixture(scope="module")
def iris_run(iris: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The model run of twelve epochs on iris."""
    folder = tmp_path_factory.mktemp("report")
    config = {"epochs": 12, "api_token": "hush-hush"}
    train(str(REPOSITORY / "module_files" / "iris_keras.py"), fn_args(folder, iris, custom_config=config))
    return folder / "model_run"


def test_a_run_writes_a_report_that_begins_with_its_outcome(iris_run: pathlib.Path) -> None:
    page, record = page_of(iris_run), run_record.read(str(iris_run))
    titles = [title for title in page.sections if title not in ("", "Errors")]  # there may be no errors
    assert titles == [
        *("Outcome", "Predictions and labels", "Importance of features"),
        *("Metrics", "Curves", "Time", "Resources", "Model", "Arguments", "Code and versions"),
    ]
    accuracy = record.metrics["eval"]["accuracy"]
    outcome = " ".join(page.sections["Outcome"].split())
    assert f"accuracy (eval){accuracy:.5g}" in outcome
    assert str(iris_run.parent / "model" / "Format-Serving") in outcome
    assert "succeeded" in page.sections[""]
    assert page.table("Recorded metrics")["accuracy"] == [
        f"{record.metrics['train']['accuracy']:.5g}",
        f"{accuracy:.5g}",
    ]


def test_curves_have_the_logged_values(iris_run: pathlib.Path) -> None:
    [header, *rows] = page_of(iris_run).tables["loss by epoch"]
    assert header == ["epoch", "train", "eval"]
    assert [row[0] for row in rows] == [str(epoch) for epoch in range(12)]
    record = run_record.read(str(iris_run))
    assert float(rows[-1][1]) == pytest.approx(record.metrics["train"]["loss"], rel=1e-5)
    assert float(rows[-1][2]) == pytest.approx(record.metrics["eval"]["loss"], rel=1e-5)
    assert float(rows[0][1]) > float(rows[-1][1])


def test_the_model_section_has_an_example_a_prediction_and_the_latency(iris_run: pathlib.Path) -> None:
    page, check = page_of(iris_run), run_record.read(str(iris_run)).check
    assert page.table("Checks in a fresh process")["loads"] == ["passed"]
    assert ["serving_default", "input", "examples", "string (?)"] in page.tables["Signatures"]
    assert set(page.table("Input")) >= {"petal_length", "sepal_width", "variety"}
    values = [float(value) for value in page.table("Prediction")["probabilities"][0].split(", ")]
    assert values == pytest.approx(check["answer"]["probabilities"], rel=1e-3)
    assert check["asked"] == "serving_default"
    latency = check["latency"]
    assert 0 < latency["median"] <= latency["p90"] < 5
    assert latency["calls"] >= 1
    assert seconds(latency["median"]).text in page.sections["Outcome"]


def test_resource_usage_is_recorded_and_drawn(iris_run: pathlib.Path) -> None:
    resources = run_record.read(str(iris_run)).parts["resources"]
    assert len(resources["seconds"]) == len(resources["cpu"]) == len(resources["memory_bytes"]) > 1
    assert max(resources["memory_bytes"]) > 1e8  # TensorFlow
    assert "CPUs in use" in page_of(iris_run).sections["Resources"]
    # One list, one line: the file should be readable.
    assert re.search(r'"seconds": \[ ?[\d.]+, [^\n]*\]', (iris_run / "run.json").read_text())


def test_arguments_versions_and_the_modules_text_are_there_and_no_secret(iris_run: pathlib.Path) -> None:
    page = page_of(iris_run)
    given = page.table("fn_args")
    assert given["custom_config.epochs"] == ["12"]
    assert given["custom_config.api_token"] == ["***"]
    assert page.table("Options at their defaults")["engine"] == ["local"]
    assert "Options that differ from their defaults" not in page.tables
    record = run_record.read(str(iris_run))
    assert page.table("Versions")["tensorflow"] == [record.stack["tensorflow"]]
    assert record.code["fingerprint"] in page.sections["Code and versions"]
    assert "def build_model(learning_rate" in page.sections["Code and versions"]
    assert "hush-hush" not in (iris_run / FILE_NAME).read_text()


def test_a_page_needs_no_other_file_and_cannot_fetch_one(iris_run: pathlib.Path) -> None:
    page = page_of(iris_run)
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert not {"link", "iframe", "object", "img", "base", "form"} & {tag for tag, _ in page.elements}
    for _, attrs in page.elements:
        assert "src" not in attrs
        assert not [name for name in attrs if name.startswith("on")]
        assert str(attrs.get("href", "#")).startswith("#")


def test_tables_and_charts_have_names_and_descriptions(iris_run: pathlib.Path) -> None:
    page = page_of(iris_run)
    counts = {name: sum(tag == name for tag, _ in page.elements) for name in ("table", "caption", "main", "nav", "h1")}
    assert counts["table"] == counts["caption"] > 10
    assert (counts["main"], counts["nav"], counts["h1"]) == (1, 1, 1)
    plots = [attrs for _, attrs in page.elements if attrs.get("class") == "plot"]
    described = [str(plot["aria-label"]) for plot in plots]
    assert len(plots) >= 5
    assert any(re.match(r"loss by epoch\. train: from [\d.]+ to [\d.]+, lowest [\d.]+ at \d+", it) for it in described)


def test_the_epoch_of_the_published_weights_is_marked(iris_run: pathlib.Path) -> None:
    page = page_of(iris_run)
    marked = [attrs for tag, attrs in page.elements if tag == "figure" and "data-mark" in attrs]
    assert marked
    assert {attrs["data-mark"] for attrs in marked} == {"11"}  # TensorBoard counts epochs from 0
    assert "epoch 12 of 12, whose weights were published" in page.sections["Metrics"]


def test_the_report_of_a_failed_run_has_the_error_and_its_location(
    iris: Any, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module("""
        from helper import columns

        def run_fn(fn_args):
            return columns(fn_args)
    """, helper="""
        def columns(fn_args):
            return {}["fare"]  # not there
    """)  # fmt: skip
    with pytest.raises(KeyError):
        train(path, fn_args(tmp_path, iris))
    page, record = page_of(tmp_path / "model_run"), run_record.read(str(tmp_path / "model_run"))
    assert record.error == {"type": "KeyError", "message": "'fare'"}
    outcome = page.sections["Outcome"]
    assert "KeyError: 'fare'" in outcome
    assert """helper.py, line 3, in columns: return {}["fare"]""" in outcome
    assert outcome.index("Traceback") > outcome.index("Location")
    assert "failed" in page.sections[""]
    assert not {"Metrics", "Curves", "Model", "Cluster", "Data"} & set(page.sections)


def test_a_module_without_a_dialect_is_reported_without_a_traceback(
    iris: Any, module: Callable[..., str], tmp_path: Any
) -> None:
    with pytest.raises(ModuleError, match="run_fn"):
        train(module("learning_rate = 0.1"), fn_args(tmp_path, iris))
    page = page_of(tmp_path / "model_run")
    assert "ModuleError" in page.sections["Outcome"]
    assert "Traceback" not in page.sections["Outcome"]


def test_a_report_that_cannot_be_written_does_not_fail_the_run(iris: Any, tiny_module: str, tmp_path: Any) -> None:
    (tmp_path / "model_run" / FILE_NAME / "in_the_way").mkdir(parents=True)
    record = train(tiny_module, fn_args(tmp_path, iris))
    assert record.status == "succeeded"
    assert (tmp_path / "model" / "Format-Serving" / "saved_model.pb").exists()


def test_the_report_of_a_failed_step_is_kept_when_tfx_deletes_its_folder(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "Trainer" / "model_run"
    for number in range(1, 14):
        folder = place / str(number)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"status": "failed", "id": str(number)}))
        write_report(str(folder))
        with pytest.raises(ValueError, match="gone"), keep_failed_run(str(folder)):
            raise ValueError("gone")
    kept = sorted((place / ".failed").iterdir(), key=lambda folder: int(folder.name))
    assert [folder.name for folder in kept] == [str(number) for number in range(4, 14)]  # the last ten
    assert run_record.read(str(kept[-1])).id == "13"
    assert page_of(kept[-1]).sections[""]


@pytest.mark.thorough
@pytest.mark.slow
def test_an_estimators_run_has_its_curves_and_eval_metrics(iris: Any, tmp_path: pathlib.Path) -> None:
    arguments = fn_args(tmp_path, iris, train_steps=300, eval_steps=2, schema_path=iris.schema)
    arguments.eval_model_dir = str(tmp_path / "model" / "Format-TFMA")
    record = train(str(REPOSITORY / "module_files" / "iris_estimator.py"), arguments, TrainingOptions(seed=1))
    page = page_of(tmp_path / "model_run")
    assert "trainer_fn" in page.sections[""]
    header, *rows = page.tables["loss by step"]
    assert header == ["step", "train", "eval"]  # its own summaries use the name loss_1 for the first
    assert [row[0] for row in rows] == ["1", "101", "201", "300"]
    assert [bool(row[2]) for row in rows] == [False, False, False, True]
    assert page.table("Recorded metrics")["accuracy"][-1] == f"{record.metrics['eval']['accuracy']:.5g}"


def test_the_record_of_an_older_release_makes_a_report(iris_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    record = run_record.read(str(iris_run)).to_json()
    for name in ("resources", "traceback", "process", "data", "profile", "cluster"):
        record.pop(name, None)
    for name in ("asked", "inputs", "latency"):
        del record["check"][name]
    (tmp_path / "run.json").write_text(json.dumps(record))
    write_report(str(tmp_path))
    page = page_of(tmp_path)
    assert [title for title in page.sections if title] == [
        *("Outcome", "Metrics", "Time", "Model", "Arguments", "Code and versions"),
    ]
    assert "The model was run on the first eval example" in page.sections["Model"]


@pytest.mark.parametrize("record", [{}, {"status": "running"}, {"status": "failed", "error": None, "check": {}}])
def test_a_nearly_empty_record_makes_a_report(record: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = write_report(str(tmp_path / "gone"), RunRecord.from_json(record), path=str(tmp_path / "page.html"))
    page = Page(pathlib.Path(path).read_text())
    assert "Training of a module" in page.sections[""]
    if record.get("status") == "running":
        assert "killed before it could record its outcome" in page.sections["Outcome"]


def test_a_cluster_and_a_profile_are_shown(tmp_path: pathlib.Path) -> None:
    record = {
        "cluster": {
            "workers": [2, 4],
            "tries": [{"workers": 2, "began": 0.1, "lost_steps": 3}, {"workers": 4, "began": 9.5}],
            "restarts": 1,
            "redone_steps": 3,
            "goodput": 0.875,
            "speeds": {"worker 0": {"steps_per_second": 12.5, "examples_per_second": 800.0}},
            "stragglers": {"worker 3": "it makes 2 steps/s over 60 s, the others 9"},
            "failures": ["worker 1 was ended by SIGKILL"],
        },
        "profile": {"steps": 41, "shares": {"input": 0.712, "host": 0.2}, "step_ms": {"input": 34.8, "host": 9.8}},
    }
    page = Page(html_of_record(tmp_path, record))
    assert "2, then 4" in page.sections["Cluster"]
    assert "87.5 %" in page.sections["Cluster"]
    assert page.table("Attempts")["4"] == ["9.5", "\u2013"]
    assert page.table("Throughput by worker")["worker 0"] == ["12.5", "800"]
    assert page.table("Stragglers")["worker 3"] == ["it makes 2 steps/s over 60 s, the others 9"]
    assert page.table("Time by category in 41 profiled steps")["input"] == ["71.2 %", "34.8"]


def html_of_record(folder: pathlib.Path, record: dict[str, Any]) -> str:
    path = write_report(str(folder), RunRecord.from_json(record), path=str(folder / "page.html"))
    return pathlib.Path(path).read_text()


def nasty_record() -> dict[str, Any]:
    """A record in which every user-defined name is markup."""
    return {
        "id": NASTY,
        "status": NASTY,
        "started": NASTY,
        "arguments": {"custom_config": {NASTY: NASTY}, NASTY: [NASTY], "options": {"keras": NASTY, NASTY: NASTY}},
        "code": {"reference": NASTY, "function": NASTY, "fingerprint": NASTY, "files": [NASTY]},
        "stack": {NASTY: NASTY},
        "dialect": {"name": NASTY, "reason": NASTY},
        "keras": {"version": NASTY, "reason": NASTY},
        "phases": {NASTY: 1.0},
        "profile": {"steps": 41, "shares": {NASTY: 0.5}, "folder": NASTY},
        "metrics": {"eval": {NASTY: 0.5}, "train": {NASTY: 0.25}},
        "cluster": {
            **{"workers": [2], "tries": [{NASTY: NASTY}], "speeds": {NASTY: {NASTY: 1.0}}},
            **{"stragglers": {NASTY: NASTY}, "failures": [NASTY]},
        },
        "check": {
            **{"checks": {NASTY: NASTY}, "size_bytes": 1, "example": NASTY, "answer": {NASTY: [NASTY]}},
            **{"signatures": {NASTY: {"inputs": {NASTY: NASTY}, "outputs": {}}}, "asked": NASTY},
            "inputs": {NASTY: [NASTY]},
        },
        "resources": {"seconds": [0, 1], "cpu": [0.5, 1.0], "memory_bytes": [1e9, 2e9], "machine": {}},
        "error": {"type": NASTY, "message": NASTY},
        "traceback": f'  File "{NASTY}", line 3, in {NASTY}\n    {NASTY}\n',
    }


def require_escaped(text: str) -> None:
    """Asserts that the page has only our elements, and shows every name verbatim."""
    page = Page(text)
    assert not {"img", "iframe", "object"} & {tag for tag, _ in page.elements}
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert "<img" not in re.sub("<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "alert(&#39;x&#39;)" in text
    assert text.count("</script>") == 2


def test_all_user_defined_names_are_escaped(tmp_path: pathlib.Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "<img src=x>.py").write_text(NASTY)
    text = html_of_record(tmp_path, nasty_record())
    require_escaped(text)
    assert text.count("alert(&#39;x&#39;)") > 50


def test_all_parts_of_a_page_escape() -> None:
    chart = Chart(NASTY, NASTY, [NASTY], {NASTY: [1.0]}, unit=NASTY, intervals={NASTY: [(0.5, 1.5)]}, dashed=[NASTY])
    blocks = [
        chart,
        Facts([(NASTY, NASTY)], tiles=True),
        Note(NASTY, NASTY),
        Code(NASTY, f"+{NASTY}\n-{NASTY}", is_diff=True),
        Graph(NASTY, [Node(NASTY, [NASTY])], [(0, 0)]),
        Section(NASTY, NASTY, ()) and Facts([(NASTY, NASTY)]),
    ]
    require_escaped(html_of(Report(NASTY, NASTY, [(NASTY, NASTY)], [Section(NASTY, NASTY, blocks)])))


def test_two_runs_are_compared(iris_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first, other = (run_record.read(str(iris_run)) for _ in range(2))
    other.metrics["eval"]["loss"] += 0.5
    other.arguments["custom_config"]["epochs"] = 6  # type: ignore[index]
    other.arguments["serving_model_dir"] = "elsewhere"  # no difference in what is trained
    other.stack["numpy"] = "1.0"
    other.code["fingerprint"] = "other"
    text = (iris_run / "source" / "iris_keras.py").read_text()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "iris_keras.py").write_text(text.replace("Adam(", "Nadam("))
    shutil.copytree(iris_run / "train", tmp_path / "train")
    is_higher_better = {"loss": False, "accuracy": True}.get
    report = comparison([(str(iris_run), first), (str(tmp_path), other)], higher_is_better=is_higher_better)
    page = Page(html_of(report))
    assert page.tables["Evaluation"][0] == ["metric", "A", "B", "B vs. A"]
    assert page.table("Evaluation")["loss"][2].startswith("+0.5 (+")
    assert page.table("Arguments that differ") == {"name": ["A", "B"], "custom_config.epochs": ["12", "6"]}
    assert page.table("Versions that differ")["numpy"] == [first.stack["numpy"], "1.0"]
    assert "+        optimizer=keras.optimizers.Nadam(learning_rate)," in page.sections["Code and versions"]
    assert "-        optimizer=keras.optimizers.Adam(learning_rate)," in page.sections["Code and versions"]
    # The second run has no eval logs: its train curve is next to the first run's two.
    assert page.tables["loss by epoch"][0] == ["epoch", "A, train", "A, eval", "B, train"]


def test_runs_with_equal_code_and_with_missing_code_are_distinguished(tmp_path: pathlib.Path) -> None:
    one, same, other = (RunRecord(code={"fingerprint": fingerprint}) for fingerprint in ("x", "x", "y"))
    page = Page(html_of(comparison([(str(tmp_path), record) for record in (one, same, other)])))
    assert "B ran the same code as A." in page.sections["Code and versions"]
    assert (
        "C ran different code from A; the source of at least one run is not available."
        in page.sections["Code and versions"]
    )


def test_the_failure_location_is_the_last_frame_in_the_users_files() -> None:
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "/work/taxi.py", line 12, in run_fn\n    model.fit(data)\n'
        '  File "/site-packages/keras/fit.py", line 99, in fit\n    raise ValueError()\n'
    )
    assert failure_location(traceback, ["/work/taxi.py"]) == "taxi.py, line 12, in run_fn: model.fit(data)"
    assert failure_location(traceback, []) == "fit.py, line 99, in fit: raise ValueError()"
    assert failure_location("", []) == ""


def test_headline_metrics_exclude_counts_and_duplicates() -> None:
    metrics = {"loss": 0.2, "example_count": 100.0, "binary_accuracy": 0.9, "auc": 0.95, "accuracy": 0.9, "odd": 3.0}
    assert headline_metrics(metrics) == ["auc", "binary_accuracy", "loss", "odd"]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (seconds(0.0000432), "43.2 µs"),
        (seconds(0.00142), "1.42 ms"),
        (seconds(12.34), "12.3 s"),
        (seconds(245), "4 min 5 s"),
        (seconds(7380), "2 h 3 min"),
        (size(999), "999 B"),
        (size(47_725), "47.7 kB"),
        (size(999_900), "1 MB"),
        (difference(0.6, 0.5), "+0.1 (+20 %)"),
        (difference(0.5, 0.5), "0"),
        (difference(1.0, 0.0), "+1"),
    ],
)
def test_quantities_have_readable_units(shown: Any, text: str) -> None:
    assert shown.text == text


def test_a_difference_has_a_tone_where_the_direction_is_known() -> None:
    tones = [difference(2.0, 1.0, direction).tone for direction in (True, False, None)]
    assert tones == ["good", "bad", ""]


def test_a_histogram_has_a_description() -> None:
    bars = Histogram({"train": [0.5, 0.5], "eval": [1.0, 0.0]}, "train, eval: shares of values from 0 to 1")
    from generic_trainer.executors.reporting.document import Table

    text = html_of(Report("x", "", (), [Section("data", "Data", [Table("Numbers", ("feature", ""), [("f", bars)])])]))
    assert 'aria-label="train, eval: shares of values from 0 to 1"' in text
    assert [text.count(f'class="split{number}"') for number in (0, 1)] == [2, 1]  # a bar of zero height is not drawn
