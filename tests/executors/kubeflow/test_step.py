"""The trainer's own container command: what it takes, and what it says of bad input."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import threading
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.executors.kubeflow import step
from generic_trainer.executors.kubeflow.step import StepArtifact


def test_properties_come_from_metadata_and_from_older_forms() -> None:
    artifact = StepArtifact(
        {
            "uri": "gs://bucket/examples/5",
            "properties": {"split_names": {"stringValue": '["train"]'}, "span": {"intValue": "9007199254740993"}},
            "customProperties": {"payload_format": {"stringValue": "FORMAT_PROTO"}},
            "metadata": {"custom:span": 7.0, "data_view_uri": "gs://bucket/view"},
        }
    )
    assert artifact.split_names == '["train"]'
    assert artifact.metadata["span"] == 9007199254740993
    assert artifact.get_int_custom_property("span") == 7
    assert artifact.get_string_custom_property("payload_format") == "FORMAT_PROTO"
    assert artifact.has_custom_property("data_view_uri")
    assert (artifact.get_string_custom_property("nothing"), artifact.get_int_custom_property("nothing")) == ("", 0)
    assert artifact.to_json()["uri"] == "gs://bucket/examples/5"


def test_both_schemas_parameters_reach_the_trainer_with_their_types(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(step, "train_from_artifacts", lambda *args: asked.append(args))
    output = tmp_path / "deep" / "executor_output.json"
    invocation = {
        "inputs": {
            "parameters": {"module_file": {"stringValue": "a.py"}, "seed": {"intValue": "3"}},
            "parameterValues": {"timeout": 60, "isolate": 1.0},
        },
        "outputs": {
            "artifacts": {"model": {"artifacts": [{"name": "m", "uri": str(tmp_path / "model")}]}},
            "outputFile": str(output),
        },
    }
    step.run(invocation, {"parameters": {"isolate": {"parameterType": "NUMBER_INTEGER"}}})
    assert asked[0][2] == {"module_file": "a.py", "seed": 3, "timeout": 60, "isolate": 1}
    assert isinstance(asked[0][2]["isolate"], int)
    [model] = json.loads(output.read_text())["artifacts"]["model"]["artifacts"]
    assert (model["name"], model["uri"]) == ("m", str(tmp_path / "model"))

    # A driver that ran before leaves parameters in the same file; they come first.
    output.write_text(json.dumps({"parameterValues": {"module_file": "b.py"}}))
    step.run(invocation, {})
    assert asked[1][2]["module_file"] == "b.py"


def test_bad_input_says_which_argument_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match=r"outputs\.outputFile"):
        step.run({}, {})
    for text, said in (("{", "is not JSON"), ("[]", "must be a JSON object, not a list")):
        assert step.main(["--json_serialized_invocation_args", text]) == 2
        assert f"--json_serialized_invocation_args {said}" in caplog.text


def test_an_output_file_that_is_a_fifo_is_written_to(tmp_path: pathlib.Path) -> None:
    fifo, received = tmp_path / "output.json", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()), daemon=True)
    reader.start()
    step.write_output(str(fifo), {"model": [StepArtifact({"name": "m"})]})
    reader.join(10)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert list(json.loads(received[0])["artifacts"]) == ["model"]
