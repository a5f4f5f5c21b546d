"""Markup in names set by users is escaped in reports, notebooks and generated files."""

from __future__ import annotations

import ast
import pathlib
import re
from typing import Any

import pytest

from generic_trainer.executors.features.display import notebook
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.reporting.build import PipelineParts
from generic_trainer.executors.reporting.comparison import comparison
from generic_trainer.executors.reporting.document import Graph, Node, Section, Table
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.executors.reporting.writing import write_report
from generic_trainer.pipelines.history.evaluation_results import Evaluation, Measure
from generic_trainer.pipelines.reporting.evaluation import evaluation_sections

# Signs of injection: generated pages have no images or handlers, and one or two scripts without a source.
INJECTED = """() => [...document.querySelectorAll("*")].filter((one) =>
    ["IMG", "IFRAME", "OBJECT", "EMBED", "FORM", "BASE"].includes(one.tagName)
    || (one.tagName === "SCRIPT" && one.textContent.length < 1000)
    || [...one.attributes].some((it) => it.name.startsWith("on") || /^\\s*javascript:/i.test(it.value))
).map((one) => one.outerHTML.slice(0, 200))"""


def parts(markup: str) -> PipelineParts:
    """Data of a pipeline with markup in names: slices, features, vocabularies, and nodes of a store."""
    slices = {"all examples": {markup: Measure(0.9, (0.8, 1.0))}, f"{markup}={markup}": {markup: Measure(0.7)}}
    evaluation = evaluation_sections(Evaluation(slices, [(markup, markup, markup)]), blessed=False)
    data = [Section("data", "Data", [Table(markup, ("feature", markup), [[markup, markup]])])]
    graph = Graph(markup, [Node(markup, [markup], "step"), Node(markup, [markup], "artifact", 1)], [(0, 1)])
    return PipelineParts([(markup, markup)], {"eval": {markup: 0.5}}, evaluation, data, [Section("l", markup, [graph])])


@pytest.fixture(scope="module")
def pages(hostile: Any, hostile_failure: Any, markup: str, tmp_path_factory: Any) -> dict[str, pathlib.Path]:
    """The reports of a run and a failed run, their comparison, and the notebook display."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [(str(ran.model_run), RunRecord.from_json(ran.record)) for ran in (hostile, hostile_failure)]
    written = {
        "with a pipeline": write_report(*runs[0], parts(markup), str(folder / "pipeline.html")),
        "failed": str(hostile_failure.model_run / "report.html"),
    }
    views = "".join(
        notebook.html_of(RunRecord(metrics=record.metrics, path=f"{model_run}/run.json")) for model_run, record in runs
    )
    texts = {
        "compared": html_of(comparison(runs, higher_is_better=lambda name: False)),
        "notebook": f"<!DOCTYPE html><meta charset=utf-8>{views}",
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {**{name: pathlib.Path(path) for name, path in written.items()}, **{n: folder / f"{n}.html" for n in texts}}


@pytest.mark.parametrize("name", ["with a pipeline", "failed", "compared", "notebook"])
def test_injected_markup_creates_no_element_and_no_dialog_in_a_browser(
    name: str, pages: dict[str, pathlib.Path], browser: Any, markup: str
) -> None:
    opened: list[str] = []
    context = browser.new_context(offline=True, bypass_csp=True)  # only escaping protects here
    page = context.new_page()
    page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: opened.append(request.url) if request.url != pages[name].as_uri() else None)
    page.on("pageerror", lambda error: opened.append(str(error)))
    page.goto(pages[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for plot in page.locator(".plot").all()[:4]:
        plot.hover()  # a tooltip shows names, too
        page.wait_for_timeout(50)
    assert page.evaluate(INJECTED) == []
    assert opened == []
    text = page.evaluate("document.body.textContent")
    assert "<script>alert(1)</script>" in text
    assert "{{7*7}}" in text
    assert "49{%" not in text
    context.close()


def test_names_do_not_end_scripts_or_tags_in_a_page(pages: dict[str, pathlib.Path]) -> None:
    for path in pages.values():
        text = path.read_text()
        assert text.count("<script>") == text.count("</script>") <= 2
        text = re.sub("<script>.*?</script>", "", text, flags=re.DOTALL)  # of the page itself
        assert "<img" not in text
        assert "<svg onload" not in text


# Names that TFX's ExampleGen accepts: without commas and quotes.
COLUMNS = [
    *("'''", "x'); import os; os.abort() #", "\\", "{{7*7}}", "{% raw %}", "\u2028b", "#", "${HOME}", "%(x)s", "{x}"),
    *("__import__('os')", "<script>", "!!python/object/apply:os.system [id]", "- a: &b", "c: d", "\x1b[31m", "[red]"),
]


def test_columns_with_any_name_make_a_project_that_is_only_data(tmp_path: pathlib.Path) -> None:
    """A module that is generated from data contains the data's names only as strings."""
    import yaml
    from click.testing import CliRunner

    from generic_trainer.cli.main import cli

    rows = [
        [f"{name}{row % 3}" if n % 2 else row / 2 for n, name in enumerate(COLUMNS)] + [row % 2] for row in range(60)
    ]
    text = "".join(",".join(map(str, row)) + "\n" for row in [[*COLUMNS, "label"], *rows])
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    line = ["init", str(tmp_path / "project"), "--data", str(tmp_path / "data.csv"), "--label", "label"]
    done = CliRunner().invoke(cli, line)
    assert done.exit_code == 0, done.exception
    assert "\x1b" not in done.output
    for path in (tmp_path / "project").rglob("*.py"):
        called = {node.func.id for node in ast.walk(ast.parse(path.read_text())) if is_call_of_name(node)}
        assert not called & {"__import__", "eval", "exec", "abort"}
        assert ("os", "abort") not in attributes(ast.parse(path.read_text()))
    for path in (tmp_path / "project").rglob("*.yaml"):
        assert isinstance(yaml.safe_load(path.read_text()), dict)


def is_call_of_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def attributes(tree: ast.AST) -> set[tuple[str, str]]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {(node.value.id, node.attr) for node in found if isinstance(node.value, ast.Name)}
