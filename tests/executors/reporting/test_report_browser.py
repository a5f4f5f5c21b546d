"""The report as it is opened: in Chromium, without a network, in light and dark, on a phone, on paper, by keyboard."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from generic_trainer import FnArgs, train
from generic_trainer.executors.evaluation.error_analysis import ErrorAnalysis, LargestErrors, OutputAnalysis
from generic_trainer.executors.evaluation.permutation_importance import FeatureImportance, Importance
from generic_trainer.executors.evaluation.plots import OutputPlots, Range, Threshold
from generic_trainer.executors.monitoring import live_state, run_record
from generic_trainer.executors.reporting.comparison import comparison
from generic_trainer.executors.reporting.document import (
    Chart,
    Code,
    Graph,
    Histogram,
    Node,
    Note,
    Report,
    Section,
    Table,
)
from generic_trainer.executors.reporting.live import live_report
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.executors.reporting.prediction_sections import analysis_sections
from generic_trainer.executors.runtime.logs.setup import LOG_NAME
from generic_trainer.pipelines.reporting.trials import trials_section

from ...world.data import outputs_in

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
NASTY = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
PAGES = ("report", "compared", "everything", "analyzed", "live")
# The charts that are declared, and those that are drawn: each line or point is a path.
DRAWN = """() => {
    const charts = [...document.querySelectorAll("figure.chart")];
    const lines = (chart) => [...chart.querySelectorAll(".plot svg path")].filter((path) => path.getTotalLength() > 3);
    return [charts.length, charts.filter((chart) => lines(chart).length >= 3).length];
}"""

pytestmark = pytest.mark.usefixtures("browser")


@pytest.fixture(scope="module")
def report(iris: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The report of twenty epochs on iris."""
    folder = tmp_path_factory.mktemp("browser")
    arguments = FnArgs(
        train_files=[iris.train], eval_files=[iris.eval], **outputs_in(folder), custom_config={"epochs": 20}
    )
    train(str(REPOSITORY / "module_files" / "iris_keras.py"), arguments)
    return folder / "model_run" / "report.html"


@pytest.fixture(scope="module")
def compared(report: pathlib.Path) -> pathlib.Path:
    """That run beside itself, as if its code had been changed."""
    folder, record = str(report.parent), run_record.read(str(report.parent))
    other = dataclasses.replace(record, code={**record.code, "fingerprint": "other"}, metrics={"eval": {"loss": 0.5}})
    path = report.parent.parent / "comparison.html"
    path.write_text(html_of(comparison([(folder, record), (folder, other)], higher_is_better=lambda name: False)))
    return path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A page of every kind of part, with markup for names."""
    slices = [f"{NASTY}={number}" for number in range(12)]
    intervals = {NASTY: [(0.0, 1.0)] * 12}
    columns, row = [f"column {number}" for number in range(12)], [NASTY, Histogram({"a": [0.5]}, NASTY), *range(12)]
    blocks = [
        Note(NASTY, "bad"),
        Note("Something to look at", "warn"),
        Chart("by slice", "slice", slices, {NASTY: [0.1 * number for number in range(12)]}, intervals=intervals),
        Chart(NASTY, NASTY, [0, 1, 2], {NASTY: [1.0, None, 300.0], "other": [2.0, 1.0, 0.5]}, unit=NASTY),
        Table(NASTY, ("feature", "bars", *columns), [row]),
        Code(NASTY, f"+{NASTY}\n-{NASTY}\n@@ 1 @@", folded=False, is_diff=True),
        Graph(NASTY, [Node(NASTY, [NASTY], "step"), Node("Model", (), "artifact", 1)], [(0, 1)]),
    ]
    path = tmp_path_factory.mktemp("everything") / "page.html"
    path.write_text(html_of(Report(NASTY, "failed", [(NASTY, NASTY)], [Section("all", NASTY, blocks)])))
    return path


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A page with all that is known of predictions: of a classifier, and of a regression; and with a search."""
    folder = tmp_path_factory.mktemp("analyzed")
    rates = [(0.0, 0.4, 1.0, 1.0), (0.5, 0.8, 0.75, 0.2), (1.0, 1.0, 0.1, 0.0)]
    counts = {(0, 0): 50.0, (0, 1): 10.0, (1, 0): 10.0, (1, 1): 30.0}
    thresholds = [Threshold(at, precision, recall, false, 0.6, counts) for at, precision, recall, false in rates]
    ranges = [Range(0.1 * step, 0.1 * step + 0.1, 20.0, 0.1 * step, 0.09 * step, 0.05) for step in range(10)]
    residuals = [(0.5 * step, 20.0 - step * step) for step in range(-4, 5)]
    errors = LargestErrors(("label", "prediction", "error", NASTY), [["1", "0", 0.9, NASTY]] * 3)
    features = [FeatureImportance(NASTY, 0.3, 0.01, 5), FeatureImportance("fare", -0.001, None, 1)]
    analysis = ErrorAnalysis(
        examples=100,
        sampled=100,
        total=1000,
        plan_line=NASTY,
        outputs=[
            OutputAnalysis("binary", OutputPlots("click", thresholds, ranges), errors),
            OutputAnalysis("regression", OutputPlots("price", (), ranges, {}, residuals), errors),
        ],
        importance=Importance("roc_auc", 0.9, 100, features, ["tip"]),
    )
    trials = [{"trial_id": str(number), "score": 1 / (1 + number), NASTY: number} for number in range(25)]
    (folder / "tuner_results.json").write_text(json.dumps(trials[::-1]))
    sections = [*analysis_sections(analysis, has_plots=False), trials_section(str(folder), "val_loss")]
    (folder / "page.html").write_text(html_of(Report("Predictions", "succeeded", [], sections)))
    return folder / "page.html"


@pytest.fixture(scope="module")
def live(report: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The page of `watch` while that run is training."""
    folder = tmp_path_factory.mktemp("live")
    record = run_record.read(str(report.parent))
    (folder / "run.json").write_text(json.dumps({**record.to_json(), "status": "running"}))
    curves = {"loss": [1.0, None, 0.5], NASTY: [0.5, 0.75, 0.8]}
    usage = {"seconds": [0.0, 1.0, 2.0], "cpu": [0.5, 1.5, 2.0], "memory_bytes": [1e9, 2e9, 2e9]}
    state = {"time": 0, "line": NASTY, "share": 0.5, "steps": [1, 2, 3], "curves": curves, "resources": usage}
    (folder / live_state.FILE_NAME).write_text(json.dumps(state))
    (folder / LOG_NAME).write_text(f"{NASTY}\n" * 50)
    (folder / "page.html").write_text(html_of(live_report(str(folder))))
    return folder / "page.html"


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page, and asks at the end of the test for what its console has said."""
    contexts, said = [], []

    def open_page(path: pathlib.Path, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


@pytest.mark.thorough_but("report-light", "everything-dark", "analyzed-light", "live-dark")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", PAGES)
def test_every_chart_is_drawn_and_axe_finds_no_violation(
    which: str, scheme: str, opened: Any, request: pytest.FixtureRequest
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(request.getfixturevalue(which), color_scheme=scheme)
    declared, drawn = page.evaluate(DRAWN)
    assert declared == drawn > 1
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = Axe().run(page).response["violations"]
    assert [(one["impact"], one["id"], one["nodes"][0]["html"][:200]) for one in found] == []


@pytest.mark.parametrize("which", PAGES)
def test_a_phone_has_nothing_to_scroll_sideways(which: str, opened: Any, request: pytest.FixtureRequest) -> None:
    page = opened(request.getfixturevalue(which), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    declared, drawn = page.evaluate(DRAWN)
    assert declared == drawn > 1


def test_names_that_are_markup_are_only_names(everything: pathlib.Path, opened: Any) -> None:
    page = opened(everything)
    page.mouse.move(700, 500)  # a tooltip shows names, too
    page.locator(".plot").first.hover()
    page.wait_for_timeout(100)
    assert page.title() == f"{NASTY}: failed"
    assert page.locator("img").count() == 0
    assert page.locator("h2").inner_text() == NASTY


def test_a_script_that_got_into_the_page_would_not_run(
    report: pathlib.Path, tmp_path: pathlib.Path, browser: Any
) -> None:
    path = tmp_path / "page.html"
    path.write_text(report.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>"))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.title() != "taken"
    page.close()


def test_the_theme_is_switched_and_remembered(report: pathlib.Path, opened: Any) -> None:
    page = opened(report, color_scheme="light")
    before = page.locator(".plot svg").first.inner_html()
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator(".plot svg").first.inner_html() != before  # drawn in the other colours
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_frame_without_storage_has_a_switch_as_well(
    report: pathlib.Path, tmp_path: pathlib.Path, browser: Any
) -> None:
    """So Kubeflow's user interface shows the page."""
    import html

    path = tmp_path / "frame.html"
    framed = html.escape(report.read_text(), quote=True)
    path.write_text(f'<iframe sandbox="allow-scripts" width="900" height="700" srcdoc="{framed}"></iframe>')
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    frame = page.frames[1]
    frame.get_by_role("button", name="Dark theme").click()
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
    declared, drawn = frame.evaluate(DRAWN)
    assert declared == drawn > 1
    assert errors == []
    page.close()


def test_the_keyboard_reaches_every_control(report: pathlib.Path, opened: Any) -> None:
    page = opened(report)
    wanted = page.evaluate("""() => [...document.querySelectorAll("a, button, input, summary, [tabindex='0']")]
        .filter((one) => one.checkVisibility())
        .map((one, number) => { one.dataset.stop = number; return String(number); })""")
    reached = []
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.dataset.stop")
        if stop is None:
            break
        reached.append(stop)
    assert reached == wanted
    assert len(wanted) > 20


def test_a_curve_is_switched_off_and_smoothed(report: pathlib.Path, opened: Any) -> None:
    page = opened(report)
    chart = page.locator("figure.chart", has=page.locator("figcaption", has_text="loss"))
    plot = chart.locator(".plot svg")
    both = plot.inner_html()
    train = chart.get_by_role("button", name="train")
    train.focus()
    page.keyboard.press("Enter")
    assert train.get_attribute("aria-pressed") == "false"
    assert len(plot.inner_html()) < len(both)
    train.click()
    assert plot.inner_html().count("<path") == both.count("<path")
    page.get_by_label("Smoothing").fill("0.9")
    assert plot.inner_html() != both


def test_values_that_are_far_apart_have_a_logarithmic_scale(everything: pathlib.Path, opened: Any) -> None:
    page = opened(everything)
    [button] = page.get_by_role("button", name="Log scale").all()  # the other chart has names, and a zero
    plot = page.locator("figure.chart", has=page.get_by_role("button", name="Log scale")).locator(".plot svg")
    linear = plot.text_content()
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert "100" in plot.text_content()
    assert plot.text_content() != linear


def test_values_can_be_read_off_a_table(report: pathlib.Path, opened: Any) -> None:
    page = opened(report)
    chart = page.locator("figure.chart", has=page.locator("figcaption", has_text="loss"))
    assert not chart.locator("table").is_visible()
    chart.locator("summary").focus()
    page.keyboard.press("Enter")
    assert chart.locator("tbody tr").count() == 20
    assert chart.locator("caption").inner_text() == "loss by epoch"


def test_on_paper_it_is_light_and_has_no_controls(report: pathlib.Path, opened: Any) -> None:
    page = opened(report, color_scheme="dark")
    dark = page.locator(".plot svg").first.inner_html()
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator(".plot svg").first.inner_html() != dark
    assert page.get_by_role("button", name="theme").count() == page.get_by_role("button", name="Log scale").count() == 0
    assert page.get_by_role("button", name="train").first.is_visible()  # which line is which
    assert not page.get_by_role("navigation").is_visible()
    assert len(page.pdf()) > 20_000


def test_without_scripts_all_values_are_in_the_tables(report: pathlib.Path, opened: Any) -> None:
    page = opened(report, java_script_enabled=False)
    assert page.get_by_text("Charts require JavaScript").is_visible()
    chart = page.locator("figure.chart").first
    chart.locator("summary").click()
    assert chart.locator("tbody tr").count() == 20
