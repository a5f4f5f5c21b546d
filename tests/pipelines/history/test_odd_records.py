"""One odd record is skipped, named, and does not break the commands on other runs; each release's records are read."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generic_trainer.cli.main import cli
from generic_trainer.executors.errors import TrainerError
from generic_trainer.executors.evaluation import plan, verdict
from generic_trainer.executors.evaluation.evidence import TrainingEvidence
from generic_trainer.executors.monitoring import live_state
from generic_trainer.executors.reporting.document import Report
from generic_trainer.executors.reporting.live import live_report
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.executors.reporting.writing import write_report
from generic_trainer.executors.training import metadata_pointer
from generic_trainer.pipelines.history.evaluation_results import read_evaluation
from generic_trainer.pipelines.reporting.evaluation import evaluation_sections, prediction_sections
from generic_trainer.pipelines.reporting.trials import trials_section
from generic_trainer.version import __version__

RECORDS = pathlib.Path(__file__).parents[2] / "executors" / "monitoring" / "records"
RELEASES = sorted(path.stem for path in RECORDS.glob("*.json"))
# Parts that few runs have.
PARTS = {
    "bad_records": {
        "limit": 3,
        "count": 2,
        "readers": ["tfrecord"],
        "records": [{"file": "a", "place": "byte 1", "problem": "its checksum is wrong", "count": 1}],
    },
    "cluster": {
        "workers": [2, 4],
        "failures": ["worker 1 was lost"],
        "tries": [{"workers": 2, "began": 0.1, "first_step": 0, "last_step": 9, "seconds": 1.5}],
        "restarts": 1,
        "replaced": 1,
        "redone_steps": 12,
        "goodput": 0.9,
        "speeds": {"worker 0": {"examples_per_second": 12.5}},
        "stragglers": {"worker 1": "half as fast"},
    },
    "error": {"type": "ValueError", "message": "odd"},
    "traceback": 'Traceback\n  File "/data/trainer.py", line 3, in run_fn\n    odd()\nValueError: odd',
    "rejected": "/data/out/model_run/rejected/1",
}
LIVE = {
    "time": 1795000000.5,
    "line": "Step 1 of 2",
    "share": 0.5,
    "steps": [1, 2],
    "curves": {"loss": [0.5, None]},
    "resources": {"seconds": [0.1, 1.0], "cpu": [1.0, 2.0], "memory_bytes": [1, 2], "machine": {"cpus": 2}},
}
ODD_TEXTS: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"id": "\xff"}',
    "a list": b"[]",
    "null": b"null",
    "5,000 digits": b'{"id": ' + b"9" * 5000 + b"}",
    "deeply nested": b'{"arguments": ' + b'{"a": ' * 90_000 + b"1" + b"}" * 90_001,
    "nested 500 levels deep": b'{"arguments": {"custom_config": ' + b'{"a": ' * 500 + b"1" + b"}" * 502,
    "100 MB": b" " * 100_000_000,
}


def record_of(release: str, run: str = "") -> dict[str, Any]:
    record = json.loads((RECORDS / f"{release}.json").read_text())
    return {**record, "id": run} if run else record


def write_run(folder: pathlib.Path, record: object) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--verbose", *arguments])


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "runs": lambda first, second: ("runs",),
    "runs --sort": lambda first, second: ("runs", "--sort", "eval/loss"),
    "runs --json": lambda first, second: ("runs", "--json"),
    "show": lambda first, second: ("show", first),
    "show --json": lambda first, second: ("show", first, "--json"),
    "diff": lambda first, second: ("diff", first, second, "--no-drift", "--no-predictions"),
    "lineage": lambda first, second: ("lineage", first),
    "report": lambda first, second: ("report", first, "--output", "report.html"),
    "report --compare": lambda first, second: ("report", first, "--compare", second, "--output", "both.html"),
}


def reads_of(first: str, second: str) -> Iterator[tuple[str, Result]]:
    for name, arguments in COMMANDS.items():
        yield name, invoke(*arguments(first, second))


@pytest.mark.parametrize("release", RELEASES)
def test_records_of_every_release_are_read(release: str, place: pathlib.Path) -> None:
    write_run(place / "old" / "model_run", record_of(release, "old00000"))
    write_run(place / "new" / "model_run", record_of(RELEASES[-1], "new00000"))
    for name, result in reads_of("old00000", "new00000"):
        assert result.exit_code == 0, (name, result.output, result.exception)
        assert "Skipped" not in result.output
    assert "trainer.py" in html_of(live_report(str(place / "old" / "model_run")))
    assert "eval/loss" in invoke("lineage", "old00000").output


def test_there_is_a_sample_of_this_release() -> None:
    assert __version__ in RELEASES


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_file_that_is_no_record_is_skipped_and_named(
    text: str, place: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(place / "first" / "model_run", record_of("unreleased", "first000"))
    write_run(place / "second" / "model_run", record_of("unreleased", "second00"))
    odd = write_run(place / "odd" / "model_run", {}) / "run.json"
    odd.write_bytes(ODD_TEXTS[text])
    for name, result in reads_of("first000", "second00"):
        assert result.exit_code == 0, (name, result.output, result.exception)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="absl"):
        invoke("runs")
    [line] = [entry.getMessage() for entry in caplog.records if str(odd) in entry.getMessage()]
    assert len(line) < 300 + len(str(odd))
    asked = invoke("show", str(odd.parent))
    assert isinstance(asked.exception, TrainerError)
    assert str(odd) in str(asked.exception)


@pytest.mark.parametrize("kind", ["FIFO", "folder", "dangling link", "unreadable"])
def test_what_is_no_file_is_skipped(kind: str, place: pathlib.Path) -> None:
    write_run(place / "first" / "model_run", record_of("unreleased", "first000"))
    write_run(place / "second" / "model_run", record_of("unreleased", "second00"))
    odd = write_run(place / "odd" / "model_run", {}) / "run.json"
    odd.unlink()
    if kind == "FIFO":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    elif kind == "dangling link":
        odd.symlink_to("nowhere")
    else:
        odd.write_text("{}")
        odd.chmod(0)
    for name, result in reads_of("first000", "second00"):
        assert result.exit_code == 0, (name, result.output, result.exception)


def test_an_odd_field_is_named(place: pathlib.Path) -> None:
    record = record_of("unreleased")
    record["metrics"]["eval"]["loss"] = 10**400
    folder = write_run(place / "out" / "model_run", record)
    for arguments in (("show", str(folder)), ("report", str(folder)), ("diff", str(folder), str(folder))):
        result = invoke(*arguments)
        assert isinstance(result.exception, TrainerError)
        assert f"{folder}/run.json: metrics.eval.loss: expected a number, not 1000" in str(result.exception)
        assert "(401 characters)" in str(result.exception)


def test_newer_and_missing_fields_are_no_error(place: pathlib.Path) -> None:
    record = record_of("unreleased")
    newer = {**record, "id": "newer000", "quantum": [1, {"a": None}], "process": {**record["process"], "gpu": 1}}
    newer["evaluation_plan"] = {**record["evaluation_plan"], "fairness": {}}
    write_run(place / "newer" / "model_run", newer)
    write_run(place / "least" / "model_run", {"id": "least000", "status": "succeeded", "started": "odd"})
    for first, second in (("newer000", "least000"), ("least000", "newer000")):
        for name, result in reads_of(first, second):
            assert result.exit_code == 0, (name, result.output, result.exception)


def paths_of(value: object, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield before
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths_of(item, (*before, key))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(2**63) - 1, 2**63 - 1, 1e308, -1e308]),
    st.floats(),
    st.text(),
    st.sampled_from(["\ud800", "a\0b", "9" * 500, "\x1b[2J", "mysql://odd", "../" * 40]),
    st.lists(st.one_of(st.none(), st.integers(), st.text(), st.floats()), max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(), st.floats()), max_size=3),
    st.just({"a": {"b": [{"c": None}]}}),
)
STATUSES = st.sampled_from(["failed", "succeeded"])


def mutated(record: dict[str, Any], path: tuple[Any, ...], value: object, is_removed: bool) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(record)
    parent: Any = changed
    for key in path[:-1]:
        parent = parent[key]
    if is_removed:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed


FULL = {**record_of("unreleased", "odd00000"), **PARTS}
PATHS = list(paths_of(FULL))
FUZZED = settings(
    max_examples=int(os.environ.get("ODD_RECORDS", "60")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FUZZED
@given(path=st.sampled_from(PATHS), value=VALUES, is_removed=st.booleans(), status=STATUSES)
def test_no_change_of_a_record_breaks_a_command(
    path: tuple[Any, ...], value: object, is_removed: bool, status: str, place: pathlib.Path
) -> None:
    base = {**FULL, "status": status}
    if status == "succeeded":
        base |= {"error": None, "rejected": ""}
    record = mutated(FULL if path and path[0] in PARTS else base, path, value, is_removed)
    odd = write_run(place / "odd" / "model_run", record)
    write_run(place / "sound" / "model_run", record_of("unreleased", "sound000"))
    for name, result in reads_of("sound000", "sound000"):
        assert result.exit_code == 0, (name, result.output, result.exception)
    for name, result in reads_of(str(odd), "sound000"):
        if result.exception is not None and not isinstance(result.exception, TrainerError):
            raise AssertionError(f"{name}: {path} {value!r}") from result.exception
    html_of(live_report(str(odd)))
    shutil.rmtree(place / "odd")


@FUZZED
@given(path=st.sampled_from(list(paths_of(LIVE))), value=VALUES, is_removed=st.booleans())
def test_no_change_of_the_live_state_breaks_watch(
    path: tuple[Any, ...], value: object, is_removed: bool, tmp_path: pathlib.Path
) -> None:
    folder = write_run(tmp_path / "model_run", {**FULL, "status": "running"})
    (folder / live_state.FILE_NAME).write_text(json.dumps(mutated(LIVE, path, value, is_removed)))
    html_of(live_report(str(folder)))


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_live_state_that_is_none_is_named(text: str, tmp_path: pathlib.Path) -> None:
    folder = write_run(tmp_path / "model_run", {**FULL, "status": "running"})
    (folder / live_state.FILE_NAME).write_bytes(ODD_TEXTS[text])
    assert f"{folder}/live.json" in html_of(live_report(str(folder)))
    write_report(str(folder))


COUNTS = [[0, 0, 5.0], [0, 1, 1.0], [1, 0, 2.0], [1, 1, 4.0]]
RATES = {"precision": 0.8, "recall": 0.5, "false_positive_rate": 0.1, "f1": 0.6, "confusion": COUNTS}
RANGE = {"low": 0.1, "high": 0.5, "examples": 9.0, "prediction": 0.3, "label": 0.2, "error": 0.1}
PLOTS = {"output": "y", "thresholds": [], "ranges": [], "confusion": [], "residuals": []}
ANALYSIS = {
    "examples": 12, "sampled": 14, "total": 20, "is_complete": True, "split": "eval", "plan_line": "y: binary",
    "outputs": [
        {
            "task": "binary",
            "plots": {**PLOTS, "thresholds": [{"threshold": 0.5, **RATES}, {"threshold": 0.9, **RATES}]},
            "errors": {"columns": ["label", "x"], "rows": [["1", 0.5], ["0", None]]},
            "class_names": {"0": "no", "1": "yes"},
        },
        {
            "task": "multiclass",
            "plots": {**PLOTS, "confusion": [*COUNTS, [2, 1, 3.0]]},
            "errors": {"columns": [], "rows": []},
            "class_names": {},
        },
        {
            "task": "regression",
            "plots": {**PLOTS, "ranges": [RANGE, {**RANGE, "low": 0.5}], "residuals": [[-0.5, 3.0], [0.5, 2.0]]},
            "errors": {"columns": [], "rows": []},
            "class_names": {},
        },
    ],
    "importance": {
        "metric": "roc_auc", "value": 0.9, "examples": 12, "unmeasured": ["z"],
        "features": [{"name": "x", "drop": 0.1, "spread": None, "repeats": 1}],
    },
    "problem": "",
}  # fmt: skip
VERDICT = {
    "blessed": False, "plan": FULL["evaluation_plan"], "reason": "too low", "has_threshold": True, "failed": False,
    "notes": ["no baseline"], "class_names": {"y": {"0": "no"}},
}  # fmt: skip
TRIALS = [{"trial_id": "0", "score": 0.5, "units": 8}, {"trial_id": "1", "score": 0.4, "units": 16}]


def write_analysis(folder: pathlib.Path, text: bytes) -> pathlib.Path:
    write_run(folder, {**FULL, "status": "succeeded", "error": None, "rejected": ""})
    (folder / plan.ANALYSIS_FILE).write_bytes(text)
    return folder / plan.ANALYSIS_FILE


def evaluation_page(folder: pathlib.Path, text: bytes) -> pathlib.Path:
    (folder / verdict.FILE_NAME).write_bytes(text)
    evaluation = read_evaluation(str(folder))
    html_of(Report("", "", [], [*evaluation_sections(evaluation, None), *prediction_sections(evaluation)]))
    return folder / verdict.FILE_NAME


def trials_page(folder: pathlib.Path, text: bytes) -> pathlib.Path:
    (folder / "tuner_results.json").write_bytes(text)
    html_of(Report("", "", [], [trials_section(str(folder), "loss")]))
    return folder / "tuner_results.json"


def analysis_page(folder: pathlib.Path, text: bytes) -> pathlib.Path:
    path = write_analysis(folder / "out" / "model_run", text)
    html_of(live_report(str(path.parent)))
    return path


def stores_of(folder: pathlib.Path, text: bytes) -> pathlib.Path:
    path = folder / metadata_pointer.FILE_NAME
    path.write_bytes(text)
    assert all(isinstance(store.metadata, str) for store in metadata_pointer.read_stores(str(folder)))
    return path


FILES: dict[str, tuple[object, Callable[[pathlib.Path, bytes], pathlib.Path]]] = {
    "error analysis": (ANALYSIS, analysis_page),
    "verdict": (VERDICT, evaluation_page),
    "trials": (TRIALS, trials_page),
    "store": ({"stores": [{"metadata": "m.sqlite", "pipeline": "p"}]}, stores_of),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", sorted(set(ODD_TEXTS) - {"null", "a list"}))
def test_an_odd_file_beside_a_record_is_skipped_and_named_once(
    name: str, text: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="absl"):
        path = FILES[name][1](tmp_path, ODD_TEXTS[text])
    [line] = [record.getMessage() for record in caplog.records if str(path) in record.getMessage()]
    assert len(line) < 300 + len(str(path))


@pytest.mark.parametrize("name", FILES)
def test_files_beside_a_record_are_read(name: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    content, page = FILES[name]
    with caplog.at_level(logging.WARNING, logger="absl"):
        page(tmp_path, json.dumps(content).encode())
        page(tmp_path, json.dumps({**content, "newer": []} if isinstance(content, dict) else content).encode())
    assert not caplog.records


@pytest.mark.parametrize("name", FILES)
@FUZZED
@given(data=st.data(), value=VALUES, is_removed=st.booleans())
def test_no_change_of_a_file_beside_a_record_breaks_a_page(
    name: str, data: st.DataObject, value: object, is_removed: bool, tmp_path: pathlib.Path
) -> None:
    content, page = FILES[name]
    path = data.draw(st.sampled_from(list(paths_of(content))))
    page(tmp_path, json.dumps(mutated(content, path, value, is_removed)).encode())  # type: ignore[arg-type]


@FUZZED
@given(path=st.sampled_from(list(paths_of(FULL["evaluation_evidence"]))), value=VALUES, is_removed=st.booleans())
def test_odd_evidence_of_a_task_is_an_input_error(path: tuple[Any, ...], value: object, is_removed: bool) -> None:
    with contextlib.suppress(TrainerError):
        TrainingEvidence.from_json(mutated(FULL["evaluation_evidence"], path, value, is_removed))


def test_commands_skip_an_odd_error_analysis(place: pathlib.Path) -> None:
    odd = write_analysis(place / "odd" / "model_run", b'{"examples": "many"}')
    write_run(place / "sound" / "model_run", record_of("unreleased", "sound000"))
    for name, result in reads_of(str(odd.parent), "sound000"):
        assert result.exit_code == 0, (name, result.output, result.exception)
        if name == "report":
            assert f'{odd}: examples: expected an integer, not "many"' in result.output


def test_a_command_that_searches_twice_warns_once(place: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    write_run(place / "first" / "model_run", record_of("unreleased", "first000"))
    write_run(place / "second" / "model_run", record_of("unreleased", "second00"))
    odd = write_run(place / "odd" / "model_run", {}) / "run.json"
    for arguments in (COMMANDS["diff"], COMMANDS["report --compare"]):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="absl"):
            assert invoke(*arguments("first000", "second00")).exit_code == 0
        assert [str(odd) in record.getMessage() for record in caplog.records].count(True) == 1
