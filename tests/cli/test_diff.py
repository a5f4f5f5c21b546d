"""`diff` compares the data and the predictions of two trained runs, as far as these exist."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.cli.diff import print_drift
from generic_trainer.pipelines.history.drift import VALUES, DataDrift, Distance

from ..world.data import outputs_in

Command = Callable[..., subprocess.CompletedProcess[str]]

MODULE = """
    import tensorflow as tf

    class Nearest(tf.Module):
        '''The variety of iris whose petals are nearest in length; the third one's length is an argument.'''

        def __init__(self, third):
            self._lengths = [1.5, 4.3, third]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            parsed = tf.io.parse_example(examples, {"petal_length": tf.io.FixedLenFeature([1], tf.float32)})
            return {"variety": tf.nn.softmax(-tf.square(parsed["petal_length"] - [self._lengths]))}

    def run_fn(fn_args):
        model = Nearest(fn_args.custom_config["third"])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
"""


@pytest.fixture(scope="module")
def lab(iris: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Three runs: of a `poor` model, of a `good` one on the same data, and of a `small` one on shorter petals."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("lab")
    (folder / "trainer.py").write_text(textwrap.dedent(MODULE))
    for split in ("train", "eval"):
        (folder / "short" / split).mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "short" / split / "part-0")) as writer:
            for record in tf.data.TFRecordDataset(tf.io.gfile.glob(getattr(iris, split)), "GZIP"):
                found = tf.train.Example.FromString(record.numpy())
                found.features.feature["petal_length"].float_list.value[0] /= 4
                writer.write(found.SerializeToString())
    short = tuple(f"{folder}/short/{split}/*" for split in ("train", "eval"))
    for name, third, (training, evaluation) in (
        ("poor", 20.0, (iris.train, iris.eval)),
        ("good", 5.8, (iris.train, iris.eval)),
        ("small", 5.8, short),
    ):
        fn_args = FnArgs(
            train_files=[training], eval_files=[evaluation], **outputs_in(folder / name), custom_config={"third": third}
        )
        train(str(folder / "trainer.py"), fn_args, TrainingOptions(analysis_seconds=0))
    return folder


def test_a_better_model_on_the_same_data(command: Command, lab: pathlib.Path) -> None:
    done = command("diff", lab / "poor", lab / "good")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    start = lines.index("Data drift: none, both runs have the same data.")
    _, title, _, heads, accuracy, loss, counts, _, columns, *changes = lines[start + 1 :]
    assert title == "Predictions of both models on all 30 examples of the second run's eval split."
    assert heads.split() == ["Label", "variety", "first", "second", "difference", "95", "%", "interval"]
    assert (accuracy.split()[0], accuracy.split()[-1], loss.split()[-1]) == ("accuracy", "better", "better")
    assert counts.startswith("Changed predictions: ")
    assert columns.split() == ["Label", "first", "second", "features"]
    assert 5 <= len(changes) <= 10
    assert all(change.split()[1:3] == ["1", "2"] and "petal_length=" in change for change in changes)


def test_the_difference_as_json(command: Command, lab: pathlib.Path) -> None:
    found = json.loads(command("diff", lab / "good", lab / "good", "--json").stdout)
    assert found["drift"]["is_same"] is True
    assert found["predictions"]["problem"] == "both runs have the same model"
    found = json.loads(command("diff", lab / "good", lab / "small", "--json").stdout)
    assert {one["feature"] for one in found["drift"]["distances"] if one["is_drift"]} == {"petal_length"}
    [output] = found["predictions"]["outputs"]
    assert [(one["difference"], one["is_better"]) for one in output["metrics"]] == [(0, None), (0, None)]


def test_drift_and_metrics_that_do_not_differ_significantly(command: Command, lab: pathlib.Path) -> None:
    text = command("diff", lab / "poor", lab / "small").stdout
    assert "\nData drift: 1 feature. Examples: train 120 and 120; eval 30 and 30.\n" in text
    assert "\npetal_length  train " in text
    assert "The runs' data differs: the first model may have been trained on some of these examples.\n" in text
    assert "\nNot significant with 30 examples: accuracy" in text


def test_what_does_not_exist_is_not_compared_and_tensorflow_not_imported(
    lab: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("good", "small"):
        shutil.copytree(lab / name, tmp_path / name)
    shutil.rmtree(tmp_path / "good" / "model")
    for name in ("good", "small"):
        record = tmp_path / name / "model_run" / "run.json"
        record.write_text(record.read_text().replace(str(lab), f"{tmp_path}/nothing"))
    program = """
        import sys
        from generic_trainer.cli.main import _exit_code
        code = _exit_code()
        assert not {"tensorflow", "tfx.v1", "numpy"} & set(sys.modules)
        sys.exit(code)
    """
    line = [sys.executable, "-c", textwrap.dedent(program), "diff", str(tmp_path / "good"), str(tmp_path / "small")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-3:] == [
        "Data drift: not compared: the second run has no statistics, and its examples do not exist.",
        "",
        "Predictions: not compared: the first run's model was deleted, or replaced by a later run.",
    ]
    done = subprocess.run(
        [*line, "--no-drift", "--no-predictions", "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["drift"], found["predictions"]) == (None, None)


def test_control_characters_of_a_feature_name_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_drift(DataDrift({"train": (9, 9)}, [Distance("a\x1b[2J", "train", VALUES, 0.05, 0.1)]))
    assert "\x1b" not in capsys.readouterr().out
