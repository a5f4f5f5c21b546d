"""`run.json` exists from the start of a run, records how it ended, and contains no secrets."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import signal
from typing import Any

import pytest

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.run_record import (
    FAILED,
    INTERRUPTED,
    RUNNING,
    SUCCEEDED,
    RunRecord,
    status_of,
)
from generic_trainer.executors.runtime.logs.redaction import masked
from generic_trainer.executors.runtime.process.preemption import Preempted
from generic_trainer.executors.runtime.process.termination import Terminated


def written(folder: pathlib.Path) -> dict[str, Any]:
    return json.loads((folder / run_record.FILE_NAME).read_text())


def test_the_status_is_running_during_the_run(tmp_path: pathlib.Path) -> None:
    with RunRecord().written_to(str(tmp_path)):
        assert written(tmp_path)["status"] == RUNNING
        assert status_of(str(tmp_path)) == RUNNING


def test_the_final_record_has_all_fields_set_during_the_run(tmp_path: pathlib.Path) -> None:
    record = RunRecord()

    with record.written_to(str(tmp_path)):
        record.metrics = {"eval": {"auc": 0.93}}
        record.code = {"path": "taxi.py"}

    assert status_of(str(tmp_path)) == SUCCEEDED
    assert written(tmp_path)["metrics"] == {"eval": {"auc": 0.93}}
    assert written(tmp_path)["code"] == {"path": "taxi.py"}
    assert written(tmp_path)["error"] is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("no such column"), FAILED),
        (SystemExit("no such column"), FAILED),
        (KeyboardInterrupt("no such column"), INTERRUPTED),
    ],
)
def test_an_exception_is_recorded_and_reraised(tmp_path: pathlib.Path, error: BaseException, status: str) -> None:
    with pytest.raises(type(error)) as caught:
        with RunRecord().written_to(str(tmp_path)):
            raise error

    assert caught.value is error
    assert status_of(str(tmp_path)) == status
    assert written(tmp_path)["error"] == {"type": type(error).__name__, "message": "no such column"}


@pytest.mark.parametrize("error", [Terminated(signal.SIGTERM), Terminated(signal.SIGHUP), Preempted("/ckpt-3")])
def test_a_run_that_a_signal_ends_is_interrupted(tmp_path: pathlib.Path, error: BaseException) -> None:
    with pytest.raises(type(error)), RunRecord().written_to(str(tmp_path)):
        raise error

    assert status_of(str(tmp_path)) == INTERRUPTED
    assert "ended by SIG" in written(tmp_path)["error"]["message"]
    assert written(tmp_path)["traceback"] == ""


def test_an_exception_whose_str_raises_is_recorded(tmp_path: pathlib.Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    with pytest.raises(Mute), RunRecord().written_to(str(tmp_path)):
        raise Mute

    assert written(tmp_path)["error"] == {
        "type": "test_an_exception_whose_str_raises_is_recorded.<locals>.Mute",
        "message": "<no message: its __str__ raised RuntimeError>",
    }


def test_the_folder_is_created(tmp_path: pathlib.Path) -> None:
    with RunRecord().written_to(str(tmp_path / "model_run" / "7")):
        pass

    assert status_of(str(tmp_path / "model_run" / "7")) == SUCCEEDED


def test_nothing_but_the_record_is_left_in_the_folder(tmp_path: pathlib.Path) -> None:
    with RunRecord().written_to(str(tmp_path)):
        pass

    assert os.listdir(tmp_path) == ["run.json"]


def test_a_run_that_cannot_write_its_end_still_raises_its_own_error(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model_run"

    def run() -> None:
        with RunRecord().written_to(str(folder)):
            (folder / "run.json").unlink()
            folder.rmdir()
            folder.write_text("a file is in the way")
            raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        run()


def test_the_later_of_two_runs_owns_the_folder(tmp_path: pathlib.Path) -> None:
    first, second = RunRecord(), RunRecord()

    with pytest.raises(InputError, match="another run started in this folder"), first.written_to(str(tmp_path)):
        with second.written_to(str(tmp_path)):
            first.require_folder()
    assert first.status == FAILED
    assert run_record.read(str(tmp_path)).id == second.id
    with RunRecord().written_to(str(tmp_path)) as _:
        assert status_of(str(tmp_path)) == RUNNING


def test_the_record_has_the_time_and_the_versions(tmp_path: pathlib.Path) -> None:
    with RunRecord().written_to(str(tmp_path)):
        pass

    record = written(tmp_path)
    assert datetime.datetime.fromisoformat(record["started"]).utcoffset() == datetime.timedelta(0)
    assert {"python", "generic-trainer", "tensorflow", "tfx"} <= set(record["stack"])


def test_phases_are_kept_by_name_even_when_they_fail() -> None:
    record = RunRecord()

    with record.phase("inputs"):
        pass
    with pytest.raises(ValueError, match="wrong"), record.phase("training"):
        raise ValueError("wrong")

    assert list(record.phases) == ["inputs", "training"]
    assert all(seconds >= 0 for seconds in record.phases.values())


def test_values_that_json_lacks_are_written_as_text(tmp_path: pathlib.Path) -> None:
    record = RunRecord(arguments={"path": pathlib.Path("data"), "when": datetime.date(2025, 1, 2)})

    with record.written_to(str(tmp_path)):
        pass

    assert written(tmp_path)["arguments"] == {"path": "data", "when": "2025-01-02"}


@pytest.mark.parametrize("text", ["", "{", '{"status": ', "[]", "null", "{}", '{"status": null}', "\ud800"])
def test_a_corrupted_record_is_ignored(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("utf-8", "surrogatepass"))

    assert status_of(str(tmp_path)) is None


def test_a_folder_without_a_record_has_no_status(tmp_path: pathlib.Path) -> None:
    assert status_of(str(tmp_path)) is None
    assert status_of(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "passwd",
        "client_secret",
        "hf_token",
        "apiKey",
        "private_key",
        "access_key",
        "credentials",
    ],
)
def test_values_under_a_secret_name_are_masked(name: str) -> None:
    assert masked({"db": {name: "hunter2"}}) == {"db": {name: "***"}}


@pytest.mark.parametrize(
    "value", ["hunter2", 1234, ["hunter2"], {"user": "me", "value": "hunter2"}, [{"value": "hunter2"}]]
)
def test_nothing_below_a_secret_name_is_shown(value: Any) -> None:
    shown = json.dumps(masked({"credentials": value}))

    assert "***" in shown
    assert "hunter2" not in shown
    assert "1234" not in shown


def test_lists_are_searched_for_secrets() -> None:
    assert masked({"dbs": [{"password": "hunter2", "host": "h"}]}) == {"dbs": [{"password": "***", "host": "h"}]}


@pytest.mark.parametrize("value", [None, ""])
def test_an_empty_secret_is_shown_as_empty(value: str | None) -> None:
    assert masked({"password": value}) == {"password": value}


def test_other_values_are_shown() -> None:
    plain = {"train_files": ["a/*"], "train_steps": 7, "custom_config": {"learning_rate": 0.1}, "base_model": None}

    assert masked(plain) == plain


def test_the_record_given_is_not_changed_by_masking() -> None:
    config = {"password": "hunter2"}

    masked({"custom_config": config})

    assert config == {"password": "hunter2"}


def test_what_features_of_other_releases_have_recorded_is_kept(tmp_path: pathlib.Path) -> None:
    content = {"id": "1", "status": FAILED, "quantum": [1, {"a": None}], "parts": {"flops": {"count": 7}}}
    (tmp_path / "run.json").write_text(json.dumps(content))

    record = run_record.read(str(tmp_path))
    record.save()

    assert record.parts == {"quantum": [1, {"a": None}], "flops": {"count": 7}}
    assert {name: written(tmp_path)[name] for name in content} == content


def test_a_declared_part_is_beside_the_fields_and_another_below_parts(tmp_path: pathlib.Path) -> None:
    record = RunRecord()
    record.declare({"skipped": []})
    with record.written_to(str(tmp_path)):
        assert written(tmp_path)["skipped"] == []
        record.parts["skipped"] += [1]
        record.parts["flops"] = 7

    assert (written(tmp_path)["skipped"], written(tmp_path)["parts"]) == ([1], {"flops": 7})
    assert run_record.read(str(tmp_path)).parts == {"skipped": [1], "flops": 7}


def test_an_odd_part_is_skipped_and_named(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"id": "1", "damaged_checkpoints": [{"path": 5}]}))
    record = run_record.read(str(tmp_path))

    assert record.part("damaged_checkpoints", list[dict[str, str]]) == []
    assert f"{tmp_path}/run.json: damaged_checkpoints: [0].path: expected a text, not 5" in caplog.text
    assert record.part("none", dict[str, str]) == {}
