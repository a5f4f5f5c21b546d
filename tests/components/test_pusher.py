"""Models are pushed once: by TFX's own runner and metadata store, with SavedModels."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.saved_models.pushed_models import already_pushed, newest_version, push

from ..world.models import save_function


def saved_model(folder: pathlib.Path, value: float) -> str:
    import tensorflow as tf

    factor = tf.Variable(value)
    save_function(lambda x: factor * x, folder / "Format-Serving", tf.TensorSpec([None], tf.float32), tracked=factor)
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    return [saved_model(folder / str(factor), factor) for factor in (1.0, 2.0)]


@pytest.fixture
def pushes(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """Runs a pipeline that imports a model and pushes it; returns what came of it."""
    from ml_metadata.proto import metadata_store_pb2
    from tfx.dsl.components.common.importer import Importer
    from tfx.orchestration import metadata, pipeline
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner
    from tfx.proto import pusher_pb2
    from tfx.types.standard_artifacts import Model

    from generic_trainer.components.pusher import Pusher
    from generic_trainer.pipelines.local.outcome import Outcome, outcome_of

    def run(model: str, folder: pathlib.Path, batch_dependence: str = "", **options: bool) -> Outcome:
        properties = {"batch_dependence": batch_dependence} if batch_dependence else {}
        importer = Importer(source_uri=model, artifact_type=Model, custom_properties=properties)
        given = importer.with_id("given")
        place = pusher_pb2.PushDestination.Filesystem(base_directory=str(folder))
        destination = pusher_pb2.PushDestination(filesystem=place)
        config = metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.sqlite"))
        dag = pipeline.Pipeline(
            "pushes",
            str(tmp_path / "root"),
            components=[given, Pusher(model=given.outputs["result"], push_destination=destination, **options)],
            enable_cache=True,
            metadata_connection_config=config,
        )
        LocalDagRunner().run(dag)
        assert isinstance(config, metadata_store_pb2.ConnectionConfig)
        return outcome_of(config, "pushes", "")

    return run


def test_a_model_is_pushed_when_it_is_not_what_is_served(
    pushes: Callable[..., Any], models: list[str], tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    serving = tmp_path / "serving"

    def served() -> float:
        model = tf.saved_model.load(str(serving / str(newest_version(str(serving)))))
        return float(model.serve(tf.ones(1))[0])

    first = pushes(models[0], serving)
    assert (first.already_pushed, served()) == (False, 1.0)
    second, third = pushes(models[0], serving), pushes(models[0], serving)
    assert second.already_pushed
    assert third.already_pushed
    assert ("Pusher" in second.cached, "Pusher" in third.cached) == (False, True)
    assert {run.pushed_model for run in (first, second, third)} == {first.pushed_model}
    assert len(os.listdir(serving)) == 1

    other = pushes(models[1], serving)
    assert (other.already_pushed, served(), len(os.listdir(serving))) == (False, 2.0, 2)
    back = pushes(models[0], serving)  # the newest version is another model
    assert (back.already_pushed, served(), len(os.listdir(serving))) == (False, 1.0, 3)

    shutil.rmtree(serving)
    again = pushes(models[0], serving)
    assert (again.already_pushed, served()) == (False, 1.0)
    assert os.listdir(serving) == [pathlib.Path(again.pushed_model).name]
    elsewhere = pushes(models[0], tmp_path / "elsewhere")
    assert not elsewhere.already_pushed
    assert pathlib.Path(elsewhere.pushed_model).parent == tmp_path / "elsewhere"


def test_a_model_whose_answers_depend_on_the_batch_is_pushed_with_an_option_only(
    pushes: Callable[..., Any], models: list[str], tmp_path: pathlib.Path
) -> None:
    found = "found that y is 1 alone, but 2 in a batch"
    refused = pushes(models[0], tmp_path / "serving", found)
    assert (refused.pushed_model, (tmp_path / "serving").exists()) == (None, False)
    assert refused.reason.startswith(f"the model's check {found}. ")
    assert "--allow-batch-dependent" in refused.reason
    allowed = pushes(models[0], tmp_path / "serving", found, allow_batch_dependent=True)
    assert (os.listdir(tmp_path / "serving"), allowed.reason) == ([pathlib.Path(allowed.pushed_model).name], "")


def test_a_version_that_was_changed_is_another_model(models: list[str], tmp_path: pathlib.Path) -> None:
    model, folder = os.path.join(models[0], "Format-Serving"), str(tmp_path / "serving")
    assert already_pushed(model, folder) is None
    place = pathlib.Path(push(model, folder))
    (place / "assets.extra").mkdir()
    (place / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"warm")
    assert already_pushed(model, folder) == str(place)
    [values] = (place / "variables").glob("variables.data*")
    content = values.read_bytes()
    values.write_bytes(bytes([content[0] ^ 1]) + content[1:])  # of the same size
    assert already_pushed(model, folder) is None
    values.unlink()
    assert already_pushed(model, folder) is None


def test_versions_ascend_when_the_clock_was_set_back(models: list[str], tmp_path: pathlib.Path) -> None:
    ahead = int(time.time()) + 10**6
    shutil.copytree(models[1], tmp_path / str(ahead))
    place = push(os.path.join(models[0], "Format-Serving"), str(tmp_path))
    assert place == str(tmp_path / str(ahead + 1))
    assert sorted(os.listdir(tmp_path)) == [str(ahead), str(ahead + 1)]


@pytest.mark.parametrize("ending", ["os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt"])
def test_a_push_that_ends_before_its_last_step_leaves_no_version(
    ending: str, models: list[str], tmp_path: pathlib.Path
) -> None:
    program = f"""
        import os, signal, sys
        from generic_trainer.executors.saved_models import pushed_models

        def end(event, arguments):  # when everything is copied, and gets its number
            if event == "os.rename" and os.path.basename(arguments[1]).isdigit():
                {ending}

        sys.addaudithook(end)
        pushed_models.push(*sys.argv[1:])
    """
    model, folder = os.path.join(models[0], "Format-Serving"), str(tmp_path / "serving")
    first = push(os.path.join(models[1], "Format-Serving"), folder)
    line = [sys.executable, "-c", textwrap.dedent(program), model, folder]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode in (-signal.SIGKILL, -signal.SIGINT), done.stderr
    assert [name for name in os.listdir(folder) if not name.startswith(".")] == [pathlib.Path(first).name]
    assert len(os.listdir(folder)) == (2 if done.returncode == -signal.SIGKILL else 1)
    second = push(model, folder)
    assert int(pathlib.Path(second).name) > int(pathlib.Path(first).name)
    assert {os.path.join(folder, name) for name in os.listdir(folder)} == {first, second}  # the next push tidies up


def test_models_that_are_pushed_at_the_same_time_get_versions_of_their_own(
    models: list[str], tmp_path: pathlib.Path
) -> None:
    pushed = [os.path.join(model, "Format-Serving") for model in models] * 4
    with concurrent.futures.ThreadPoolExecutor(len(pushed)) as pool:
        places = list(pool.map(lambda model: push(model, str(tmp_path)), pushed))
    assert len(set(places)) == len(pushed)
    for place, model in zip(places, pushed, strict=True):
        [values] = pathlib.Path(place, "variables").glob("variables.data*")
        assert values.read_bytes() == pathlib.Path(model, "variables", values.name).read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(place) for place in places)
