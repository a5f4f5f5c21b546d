"""Notebook displays of runs, models and results, also in TFX's own InteractiveContext."""

from __future__ import annotations

import math
import pathlib
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from tfx import types
from tfx.orchestration.experimental.interactive import visualizations
from tfx.types import standard_artifacts

from generic_trainer import Trainer
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.reporting.writing import write_report
from generic_trainer.pipelines.history.runs import find_runs
from generic_trainer.pipelines.local.outcome import Outcome

NASTY = "<script>alert('&')</script>"


class Cells(HTMLParser):
    """The text of a table, cell by cell, links and lines, and whether every opened element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.links: list[str] = []
        self.lines: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "tr", "th", "td", "div", "a", "svg", "title", "path", "text")
        self.open.append(tag)
        values = {name: value or "" for name, value in attrs}
        assert not any(name.startswith("on") for name in values)
        self.links += [values["href"]] if tag == "a" else []
        self.lines += [values["d"]] if tag == "path" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.cells.append(data)


@pytest.fixture
def shown() -> Iterator[Callable[[Callable[[], None]], str]]:
    """Returns the HTML that a notebook receives during a call."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    def run(call: Callable[[], None]) -> str:
        with capture_output() as captured:
            call()
        return "".join(output.data["text/html"] for output in captured.outputs)

    InteractiveShell.instance()
    yield run
    InteractiveShell.clear_instance()


def recorded(folder: pathlib.Path) -> RunRecord:
    record = RunRecord(
        code={"reference": NASTY},
        metrics={"train": {"auc": 0.95}, "eval": {"auc": 0.925, "loss": 0.25}},
        check={"signatures": {"serving_default": {}}, "checks": {"loads": "passed"}},
        phases={"training": 8.0, "training/load": 1.0},
    )
    with pytest.raises(ValueError, match="no such"), record.written_to(str(folder)):
        raise ValueError("no such column: <b>")
    return record


def test_a_run_has_a_display(tmp_path: pathlib.Path) -> None:
    record = recorded(tmp_path)
    cells = Cells(record._repr_html_()).cells
    assert cells[0] == f"Run {record.id[:8]}"
    pairs = dict(zip(cells[1::2], cells[2::2], strict=False))
    assert (pairs["status"], pairs["module"], pairs["seconds"]) == ("failed", NASTY, "training 8")
    assert pairs["error"] == "ValueError: no such column: <b>"
    assert cells[-8:] == ["metric", "train", "eval", "auc", "0.95", "0.925", "loss", "0.25"]


def write_losses(folder: pathlib.Path, values: list[float]) -> None:
    import tensorflow as tf

    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for epoch, value in enumerate(values):
            tf.summary.scalar("epoch_loss", value, step=epoch)
    writer.close()


def test_a_run_shows_its_loss_and_links_its_report(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a run"
    record = recorded(folder)
    write_losses(folder / "train", [1.0, 0.5, 0.25])
    write_losses(folder / "validation", [0.75, math.nan, 0.5])
    write_report(str(folder))
    view = Cells(record._repr_html_())
    assert view.cells[-9:] == ["loss by epoch", "1", "0.25", "loss", "0", "epoch 2", "train", "eval", "Report"]
    assert "M58.0,24.0 L194.0,85.3 L330.0,116.0" in view.lines
    assert "M58.0,54.7 M330.0,85.3" in view.lines  # interrupted at NaN
    assert view.links == [(folder / "report.html").as_uri()]
    monkeypatch.chdir(tmp_path)
    assert Cells(record._repr_html_()).links == ["a%20run/report.html"]
    outcome = Outcome(None, str(folder), None, None, "metadata.sqlite", {}, ())
    assert Cells(outcome._repr_html_()).links == ["a%20run/report.html"]
    [run] = find_runs([str(tmp_path)])
    assert "loss by epoch" in Cells(run._repr_html_()).cells
    shutil.rmtree(folder)
    assert Cells(run._repr_html_()).links == []


def test_an_outcome_has_a_display() -> None:
    outcome = Outcome("m", "r", NASTY, True, "metadata.sqlite", {"eval": {"auc": 0.5}}, ("Transform",))
    cells = Cells(outcome._repr_html_()).cells
    assert cells[:5] == ["Pipeline run", "pushed model", NASTY, "blessed", "yes"]
    assert cells[-4:] == ["metric", "eval", "auc", "0.5"]


def test_the_interactive_context_shows_the_trainers_outputs(
    tiny_module: str, tmp_path: pathlib.Path, shown: Callable[[Callable[[], None]], str]
) -> None:
    from tfx.orchestration.experimental.interactive.interactive_context import InteractiveContext

    trainer = Trainer(module_file=tiny_module, examples=types.Channel(type=standard_artifacts.Examples))
    model_run, model = standard_artifacts.ModelRun(), standard_artifacts.Model()
    model_run.uri, model.uri = str(tmp_path / "model_run"), str(tmp_path / "model")
    record = recorded(tmp_path / "model_run")
    model.set_float_custom_property("eval/auc", 0.925)
    model.set_string_custom_property("signatures", NASTY)
    model.set_int_custom_property("size_bytes", 4711)
    trainer.outputs["model_run"].set_artifacts([model_run])
    trainer.outputs["model"].set_artifacts([model])
    context = InteractiveContext(pipeline_root=str(tmp_path / "root"))
    assert f"<caption>Run {record.id[:8]}</caption>" in shown(lambda: context.show(trainer.outputs["model_run"]))
    table = shown(lambda: context.show(trainer.outputs["model"])).partition("<table>")
    cells = Cells(table[1] + table[2]).cells
    assert cells == ["Model", "signatures", NASTY, "size_bytes", "4711", "metric", "eval", "auc", "0.925"]


def test_a_third_party_visualization_is_unchanged() -> None:
    from generic_trainer.components import notebook_display

    class Theirs(visualizations.ArtifactVisualization):
        ARTIFACT_TYPE = standard_artifacts.Model

        def display(self, artifact: types.Artifact) -> None:
            pass

    registry = visualizations.get_registry()
    ours = registry.get_visualization("Model")
    assert isinstance(ours, notebook_display.ModelVisualization)
    registry.register(Theirs)
    try:
        notebook_display.register()
        assert isinstance(registry.get_visualization("Model"), Theirs)
    finally:
        registry.visualizations["Model"] = ours
