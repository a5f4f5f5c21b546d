"""Checks that another package registers: their outcomes, their values, the order of errors, and `skip_checks`."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from generic_trainer import InputError, ModelCheckError, TrainingOptions, check_saved_model

from ...world.models import save_function
from ...world.records import write_examples

CHECKS = """
from generic_trainer import ModelCheck


class Ops(ModelCheck):
    needs = ("parses",)

    def applies(self, model):
        return "ops" in model.request.parts

    def check(self, model):
        most = model.request.parts["ops"]["most"]
        if len(model.ops) > most:
            raise model.failed("ops", f"it has {len(model.ops)} ops, more than {most}")
        self.part = {"count": len(model.ops)}


class Output(ModelCheck):
    needs = ("answers",)

    def check(self, model):
        return f"is inconclusive: y is {model.answer.outputs['y'].numpy().tolist()}"


class AfterOutput(ModelCheck):
    order = 60
    needs = ("output",)

    def check(self, model):
        raise AssertionError("The check that it needs has not passed.")


class NeedsUnknown(ModelCheck):
    needs = ("unknown",)


class Odd(ModelCheck):
    def applies(self, model):
        return "odd" in model.request.parts

    def check(self, model):
        kind = model.request.parts["odd"]
        if kind == "raises":
            raise ValueError("out of range")
        if kind == "returns":
            return True
        self.part = {"sets": {1, 2}, "is NaN": float("nan")}[kind]
"""
NAMES = {"ops": "Ops", "output": "Output", "after_output": "AfterOutput", "needs_unknown": "NeedsUnknown"}
SCALAR = tf.TensorSpec([None], tf.float32, name="x")


@pytest.fixture(autouse=True)
def package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "packages" / "checks-1.0.dist-info"
    information.mkdir(parents=True)
    (information.parent / "more_checks.py").write_text(CHECKS)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: checks\nVersion: 1.0\n")
    entries = [f"{name} = more_checks:{check}" for name, check in (NAMES | {"odd": "Odd"}).items()]
    (information / "entry_points.txt").write_text("\n".join(["[generic_trainer.model_checks]", *entries]))
    monkeypatch.syspath_prepend(information.parent)


@pytest.fixture
def examples(tmp_path: pathlib.Path) -> str:
    return write_examples(tmp_path / "examples", [{"x": 2.0}])


@pytest.fixture
def model(tmp_path: pathlib.Path) -> str:
    return save_function(lambda x: {"y": 2.0 * x}, tmp_path / "model", SCALAR)


def test_a_check_passes_warns_or_is_skipped(model: str, examples: str) -> None:
    report = check_saved_model(model, [examples], parts={"ops": {"most": 1000}})
    assert list(report.checks)[:5] == ["parses", "signatures", "loads", "answers", "finite"]
    outcomes = {name: report.checks[name] for name in NAMES}
    warning = "is inconclusive: y is [4.0]"
    unknown = "skipped: it needs 'unknown', which no installed package registers"
    assert outcomes == {"ops": "passed", "output": warning, "after_output": "skipped", "needs_unknown": unknown}
    assert report.warnings == {"output": warning}
    assert report.to_json()["parts"] == {"ops": report.parts["ops"]} != {"ops": {"count": 0}}
    assert "ops" not in check_saved_model(model, [examples]).checks


def test_a_check_is_skipped_by_its_name(model: str, examples: str) -> None:
    report = check_saved_model(model, [examples], parts={"ops": {"most": 0}}, skip=["ops", "answers"])
    assert [report.checks[name] for name in ("ops", "answers", "output")] == ["skipped"] * 3
    assert TrainingOptions(skip_checks=("ops", "answers")).skip_checks == ("ops", "answers")
    with pytest.raises(InputError, match="Did you mean 'output'"):
        TrainingOptions(skip_checks=("outputs",))


def test_a_check_that_fails_is_named_with_the_model(model: str, examples: str) -> None:
    said = r"The model in /shown failed the check 'ops': it has \d+ ops, more than 0\. \(To skip it: --skip-check ops; "
    with pytest.raises(ModelCheckError, match=said):
        check_saved_model(model, [examples], parts={"ops": {"most": 0}}, shown_as="/shown")


def test_nan_in_a_variable_explains_a_signature_that_fails(tmp_path: pathlib.Path, examples: str) -> None:
    class Scale(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(float("nan"), name="weight")

        @tf.function(input_signature=[SCALAR])
        def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"y": tf.debugging.check_numerics(self.weight * x, "y")}

    module = Scale()
    tf.saved_model.save(module, str(tmp_path / "nan"), signatures=module.serve)
    with pytest.raises(ModelCheckError, match=r"'finite': its variable weight.* contains NaN"):
        check_saved_model(str(tmp_path / "nan"), [examples])
    with pytest.raises(ModelCheckError, match="'answers': its signature 'serving_default' fails on the first eval"):
        check_saved_model(str(tmp_path / "nan"), [examples], skip=["finite"])


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("raises", "the check raised ValueError: out of range"),
        ("returns", "the check returned True, neither None nor a text"),
        ("sets", "what the check adds to the report is not JSON: Object of type set is not JSON serializable"),
        ("is NaN", "what the check adds to the report is not JSON: Out of range float values are not JSON compliant"),
    ],
)
def test_a_mistake_in_a_check_is_named_with_it(kind: str, problem: str, model: str, examples: str) -> None:
    with pytest.raises(ModelCheckError, match=rf"failed the check 'odd': {problem}\. \(To skip it: --skip-check odd;"):
        check_saved_model(model, [examples], parts={"odd": kind})
