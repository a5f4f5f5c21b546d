"""`generic-trainer run` of models that are trained and checked, and cannot be evaluated."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

MODULE = """
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def serve(self, examples):
            x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
            return {"score": answer(x)}

    def run_fn(fn_args):
        model = Model()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
"""
CENTERED = "\n    def answer(x): return x - tf.reduce_mean(x)\n"
SQUARES = "\n    def answer(x): return x * x\n"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_that_cannot_be_evaluated_is_kept_or_pushed_with_the_reason(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    data, root = tmp_path / "data", tmp_path / "root"
    data.mkdir()
    (data / "data.csv").write_text("x,y\n" + "".join(f"{x}.5,{x % 2}\n" for x in range(100)))
    arguments = ["run", "--data", data, "--label", "y", "--pipeline-root", root, "--no-check", "--module-file"]
    done = command(*arguments, module(SQUARES + MODULE), "--task", "binary", "--scores", "probabilities")
    assert done.returncode == 4, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert "The model was not pushed: The evaluation failed: " in done.stderr.splitlines()[-1]
    assert "which are not probabilities. Set --scores logits" in done.stderr
    assert f"It is kept in {root}/Trainer/model/" in done.stderr
    assert not (root / "serving").exists()
    [log] = (root / "logs").iterdir()
    assert "Traceback" in log.read_text()
    not_asked = command(*arguments, module(SQUARES + MODULE), "--task", "binary", "--no-push")
    assert not_asked.returncode == 0, not_asked.stderr[-3000:]
    assert "threshold" not in not_asked.stderr
    unknown = command(*arguments, module(SQUARES + MODULE), "--task", "unknown")
    assert unknown.returncode == 0, unknown.stderr[-3000:]
    assert "No quality threshold: the task is unknown; pushed because the SavedModel check passed." in unknown.stdout
    assert "Pushed model: " in unknown.stdout
    unchecked = command(*arguments, module(SQUARES + MODULE), "--task", "unknown", "--skip-check", "loads", "--json")
    summary = json.loads(unchecked.stdout)
    assert summary["not_checked"] == "the model was not loaded, because --skip-check was given"
    assert summary["reason"] == f"No quality threshold: the task is unknown; pushed although {summary['not_checked']}."


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_whose_answers_depend_on_the_batch_is_pushed_with_an_option_only(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    data, root = tmp_path / "data", tmp_path / "root"
    data.mkdir()
    (data / "data.csv").write_text("x\n" + "".join(f"{x}.5\n" for x in range(30)))
    arguments = ["run", "--data", data, "--pipeline-root", root, "--no-check"]
    done = command(*arguments, "--module-file", module(CENTERED + MODULE))
    assert done.returncode == 4, done.stderr[-3000:]
    assert "The model was not pushed: the model's check found that the answer for the first eval example" in done.stderr
    assert "score is [0] alone, but [" in done.stderr
    [report] = root.glob("Trainer/model_run/*/report.html")
    assert "depends on the other examples of its batch" in report.read_text()
    allowed = command(*arguments, "--module-file", module(CENTERED + MODULE), "--allow-batch-dependent")
    assert allowed.returncode == 0, allowed.stderr[-3000:]
    assert "Trainer" in allowed.stdout.partition("From the cache: ")[2].partition("\n")[0]
    assert "Pushed model: " in allowed.stdout
