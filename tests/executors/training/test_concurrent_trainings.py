"""Trainings in threads of one process depend on each other in nothing."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from generic_trainer import FnArgs, ModelCheckError, train
from generic_trainer.executors.monitoring.run_record import RunRecord

MODULE = """
    import tensorflow as tf
    from tiny import Tiny

    def run_fn(fn_args):
        number = fn_args.custom_config["number"]
        model = Tiny(float("nan") if number in (2, 5) else float(number))
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        return {"loss": float(number)}
"""


def process_state() -> tuple[object, ...]:
    mask = os.umask(0)
    os.umask(mask)
    variables = {name: value for name, value in os.environ.items() if name.startswith("GENERIC_TRAINER_")}
    return variables, os.getcwd(), mask, [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.thorough
@pytest.mark.slow
def test_of_eight_at_once_six_are_published_each_its_own_and_two_are_rejected_and_kept(
    tiny_module: str, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    path = module(MODULE, tiny=pathlib.Path(tiny_module).read_text())
    out = tmp_path / "out"
    before = process_state()

    def run(number: int) -> RunRecord | ModelCheckError:
        args = FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            custom_config={"number": number},
            serving_model_dir=str(out / f"model-{number}"),
            eval_model_dir=str(out / f"eval-{number}"),
            model_run_dir=str(tmp_path / "runs" / str(number)),
        )
        try:
            return train(path, args)
        except ModelCheckError as error:
            return error

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(run, range(8)))

    example = tf.train.Example()
    example.features.feature["sepal_length"].float_list.value.append(2.0)
    question = tf.constant([example.SerializeToString()])
    for number, result in enumerate(results):
        record = json.loads((tmp_path / "runs" / str(number) / "run.json").read_text())
        assert record["arguments"]["custom_config"] == {"number": number}
        assert record["metrics"]["train"] == {"loss": number}
        if number in (2, 5):
            assert isinstance(result, ModelCheckError)
            assert f"{out}/model-{number} failed the check 'finite'" in str(result)
            assert record["status"] == "failed"
            assert str(tmp_path / "runs" / str(number) / "rejected") in str(result)
            kept = tf.saved_model.load(os.path.join(record["rejected"], f"model-{number}"))
            assert tf.math.is_nan(kept.signatures["serving_default"](question)["y"])
        else:
            assert isinstance(result, RunRecord)
            assert record == json.loads(result.to_json())
            model = tf.saved_model.load(str(out / f"model-{number}"))
            assert model.signatures["serving_default"](question)["y"].numpy().tolist() == [[2.0 * number]]
    assert sorted(os.listdir(out)) == [f"model-{number}" for number in range(8) if number not in (2, 5)]
    assert process_state() == before
