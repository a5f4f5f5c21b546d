"""A run without a pipeline: what it leaves behind when it works, and what it does not when it fails."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import (
    FnArgs,
    InputError,
    ModelCheckError,
    ModuleError,
    TrainerError,
    TrainingOptions,
    TrainingProcessError,
    train,
)
from generic_trainer.executors.options import check_names

from ...world.data import outputs_in
from ...world.records import example

HERE = TrainingOptions(isolate=False)


@pytest.fixture
def fn_args(iris: Any, tmp_path: pathlib.Path) -> Callable[..., FnArgs]:
    def make(**changes: Any) -> FnArgs:
        values = {
            "train_files": [iris.train],
            "eval_files": [iris.eval],
            "schema_path": iris.schema,
            "train_steps": 5,
            "serving_model_dir": str(tmp_path / "out" / "model" / "Format-Serving"),
            "eval_model_dir": str(tmp_path / "out" / "model" / "Format-TFMA"),
            "model_run_dir": str(tmp_path / "out" / "model_run"),
        }
        return FnArgs(**{**values, **changes})

    return make


def record_of(fn_args: FnArgs) -> dict[str, Any]:
    return json.loads(pathlib.Path(str(fn_args.model_run_dir), "run.json").read_text())


def nothing_published(fn_args: FnArgs) -> bool:
    """Returns whether there is no model, and nothing that was staged for one."""
    folder = pathlib.Path(str(fn_args.serving_model_dir)).parent
    return not folder.exists() or os.listdir(folder) == []


def test_a_checked_model_is_published_and_recorded(tiny_module: str, fn_args: Callable[..., FnArgs]) -> None:
    import tensorflow as tf

    args = fn_args(custom_config={"learning_rate": 0.1, "api_key": "abc"})
    record = train(tiny_module, args, TrainingOptions(seed=3))
    model = tf.saved_model.load(args.serving_model_dir)
    answer = model.signatures["serving_default"](tf.constant([example(sepal_length=2.0)]))
    assert answer["y"].numpy().tolist() == [[6.0]]
    assert os.listdir(os.path.dirname(str(args.serving_model_dir))) == ["Format-Serving"]
    assert record_of(args) == json.loads(json.dumps(record.to_json()))
    assert record.status == "succeeded"
    assert record.check["checks"]["answers"] == "passed"
    assert record.dialect == {"name": "run_fn", "reason": "it defines run_fn"}
    assert record.arguments["custom_config"] == {"learning_rate": 0.1, "api_key": "***"}
    training = {"training", "training/load", "training/run_fn"}
    assert set(record.phases) == {"inputs", *training, "check", "publish", "analysis"}
    assert record.stack["tensorflow"] == tf.__version__


def test_the_module_is_given_what_it_was_promised(
    module: Callable[..., str], fn_args: Callable[..., FnArgs], tmp_path: pathlib.Path
) -> None:
    path = module("""
        import json, os, random
        import numpy as np
        import tensorflow as tf

        def run_fn(fn_args):
            seen = {name: fn_args[name] for name in (
                "train_files", "train_steps", "eval_steps", "serving_model_dir", "eval_model_dir", "checkpoint_dir",
                "seed", "is_chief", "worker_index", "num_workers", "schema_file", "custom_config")}
            seen["random"] = [random.random(), float(np.random.rand()), float(tf.random.uniform([]))]
            seen["pid"] = os.getpid()
            print("SEEN", json.dumps(seen))
            os.makedirs(fn_args.model_run_dir, exist_ok=True)
            with open(os.path.join(fn_args.model_run_dir, "seen.json"), "w") as file:
                json.dump(seen, file)
            class M(tf.Module):
                @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
                def serve(self, examples):
                    return {"n": tf.strings.length(examples)}
            m = M()
            tf.saved_model.save(m, fn_args.serving_model_dir, signatures=m.serve)
            tf.saved_model.save(m, fn_args.eval_model_dir, signatures=m.serve)
            return {"loss": 0.5, "val_auc": 0.9}
    """)
    seen = []
    for number in range(2):
        args = fn_args(custom_config={"a": [1]}, model_run_dir=str(tmp_path / f"run-{number}"))
        record = train(path, args, TrainingOptions(seed=7))
        seen.append(json.loads(pathlib.Path(str(args.model_run_dir), "seen.json").read_text()))
    first, second = seen
    assert first["pid"] != os.getpid()
    assert first["random"] == second["random"]
    assert os.path.basename(first["serving_model_dir"]) == "Format-Serving"
    assert first["serving_model_dir"] != args.serving_model_dir
    assert first["checkpoint_dir"] == str(tmp_path / "run-0" / "checkpoints")
    assert (first["seed"], first["is_chief"], first["worker_index"], first["num_workers"]) == (7, True, 0, 1)
    assert (first["train_steps"], first["eval_steps"]) == (5, None)
    assert first["schema_file"] == args.schema_path
    assert record.metrics == {"train": {"loss": 0.5}, "eval": {"auc": 0.9}}
    folder = os.path.dirname(str(args.serving_model_dir))
    assert sorted(os.listdir(folder)) == ["Format-Serving", "Format-TFMA"]


def test_a_second_run_replaces_the_model_only_with_a_checked_one(
    tiny_module: str, module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    train(tiny_module, fn_args(), HERE)
    graph = pathlib.Path(str(fn_args().serving_model_dir), "saved_model.pb")
    before = graph.stat().st_ino
    with pytest.raises(ModelCheckError):
        train(module("def run_fn(fn_args): pass", "empty.py"), fn_args(), HERE)
    assert graph.stat().st_ino == before
    train(tiny_module, fn_args(), HERE)
    assert graph.stat().st_ino != before
    assert os.listdir(graph.parent.parent) == ["Format-Serving"]


# The module is to blame


def test_trainings_of_several_threads_in_one_process_run_one_after_the_other(
    module: Callable[..., str], fn_args: Callable[..., FnArgs], tmp_path: pathlib.Path
) -> None:
    path = module(f"""
        import os, time
        import tensorflow as tf
        def run_fn(fn_args):
            mark = {str(tmp_path / "in_model_run_dir")!r}
            os.mkdir(mark)  # raises if another one is at work
            time.sleep(0.5)
            model = tf.Module()
            model.weight = tf.Variable(float(fn_args.custom_config["number"]))
            model.serve = tf.function(
                lambda examples: {{"y": model.weight + tf.zeros(tf.shape(examples))}},
                input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
            )
            tf.saved_model.save(model, fn_args.serving_model_dir, signatures={{"serving_default": model.serve}})
            os.rmdir(mark)
    """)
    jobs = [
        fn_args(custom_config={"number": number}, **outputs_in(tmp_path / f"out{number}"), eval_model_dir=None)
        for number in range(3)
    ]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        records = list(pool.map(lambda job: train(path, job, HERE), jobs))
    assert [record.status for record in records] == ["succeeded"] * 3

    import tensorflow as tf

    for number, job in enumerate(jobs):
        served = tf.saved_model.load(str(job.serving_model_dir)).signatures["serving_default"]
        assert served(examples=tf.constant([b""]))["y"].numpy().tolist() == [number]


@pytest.mark.parametrize("options", [HERE, TrainingOptions()], ids=["here", "isolated"])
def test_an_exception_keeps_type_and_traceback_and_names_the_module(
    options: TrainingOptions, module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    path = module("""
        class NoSuchColumn(KeyError):
            pass

        def run_fn(fn_args):
            raise NoSuchColumn("fare")
    """)
    args = fn_args()
    with pytest.raises(KeyError, match="fare") as caught:
        train(path, args, options)
    assert type(caught.value).__name__ == "NoSuchColumn"
    assert f"Raised by the training module {path}" in caught.value.__notes__
    if options.isolate:
        assert f'File "{path}", line 6, in run_fn' in str(caught.value.__cause__)
    assert nothing_published(args)
    record = record_of(args)
    assert record["status"] == "failed"
    assert record["error"] == {"type": "NoSuchColumn", "message": "'fare'"}


def test_the_rfcs_module_runs_on_the_keras_it_was_written_for(
    module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    path = module("""
        import tensorflow as tf

        def _build_keras_model():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,), name="y")])
            model.compile(loss="mse", optimizer=tf.keras.optimizers.legacy.SGD())
            return model

        def run_fn(args):
            model = _build_keras_model()
            model.fit(tf.ones([8, 1]), tf.ones([8, 1]), verbose=0)
            model.save(args.serving_model_dir)
    """)
    record = train(path, fn_args())
    assert record.keras["version"] == "2"
    checks = {name: outcome.partition(":")[0] for name, outcome in record.check["checks"].items()}
    skipped = dict.fromkeys(["batches", "evaluation"], "skipped")  # no feature has the input's name
    assert checks == {**dict.fromkeys(check_names(), "passed"), **skipped}


def test_the_wrong_keras_is_hinted_at(module: Callable[..., str], fn_args: Callable[..., FnArgs]) -> None:
    from generic_trainer.executors.modules.keras_version import choose

    if choose("auto", []).reason.startswith("tf.keras is Keras 2 before"):
        pytest.skip("one Keras only")
    path = module("""
        import tensorflow as tf
        def run_fn(fn_args):
            model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
            where = fn_args.serving_model_dir
            model.save(where)
    """)
    with pytest.raises(ValueError, match="Invalid filepath extension") as caught:
        train(path, fn_args(), TrainingOptions(keras="3"))
    assert any("use --keras 2" in note for note in caught.value.__notes__)


def test_an_error_of_the_wrong_keras_that_the_module_catches_is_named(
    module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    from generic_trainer.executors.modules.keras_version import choose

    if choose("auto", []).reason.startswith("tf.keras is Keras 2 before"):
        pytest.skip("one Keras only")
    path = module("""
        import sys
        import tensorflow_transform as tft
        import tensorflow as tf
        try:
            add = getattr(tf.keras, "o" + "ps").add
        except AttributeError:
            print("Please install a newer version.")
            sys.exit(1)
        def run_fn(fn_args):
            pass
    """)
    with pytest.raises(
        TrainingProcessError, match=r"SystemExit\(1\) while it handled AttributeError: .*'ops'"
    ) as caught:
        train(path, fn_args())
    assert "tf.keras was Keras 2 here (trainer_module.py, line 3: import tensorflow_transform)" in str(caught.value)
    assert "--keras 3" in str(caught.value)


def test_a_name_of_keras_3_alone_wins_over_an_import_that_is_usual_with_keras_2(
    module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    from generic_trainer.executors.modules.keras_version import choose

    if choose("auto", []).reason.startswith("tf.keras is Keras 2 before"):
        pytest.skip("one Keras only")
    path = module("""
        import sys
        import tensorflow_transform as tft
        from tensorflow import keras as K
        try:
            add = K.ops.add
        except AttributeError:
            sys.exit("Please install a newer version.")
        def run_fn(fn_args):
            model = K.Sequential([K.Input((1,)), K.layers.Dense(1)])
            model.export(fn_args.serving_model_dir)
    """)
    record = train(path, fn_args())
    assert record.keras["version"] == "3"


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("def run_fn(fn_args:\n  pass", SyntaxError, "was never closed"),
        ("import no_such_library_anywhere", ModuleNotFoundError, "no_such_library_anywhere"),
        ("raise RuntimeError('at import')", RuntimeError, "at import"),
        ("def run_fun(fn_args): pass", ModuleError, r"Did you mean 'run_fun'\?"),
        ("def run_fn(): pass", ModuleError, r"run_fn\(\) cannot be called with fn_args alone"),
        ("import sys\ndef run_fn(fn_args): sys.exit(0)", TrainingProcessError, r"ended with SystemExit\(0\)"),
    ],
)
def test_modules_that_do_not_get_to_train(
    source: str, error: type[BaseException], text: str, module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    args = fn_args()
    with pytest.raises(error, match=text):
        train(module(source), args, HERE)
    assert nothing_published(args)
    assert record_of(args)["status"] == "failed"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("pass", "run_fn wrote no model: .*Format-Serving does not exist"),
        ("os.makedirs(fn_args.serving_model_dir)", "Format-Serving is empty"),
        ("tf.saved_model.save(tf.Module(), fn_args.serving_model_dir)", "it has no signatures"),
        (
            "save(fn_args, 1.0); os.truncate(fn_args.serving_model_dir + '/saved_model.pb', 300)",
            "failed the check 'parses'",
        ),
        ("save(fn_args, float('nan'))", "failed the check 'finite'"),
    ],
    ids=["nothing", "empty folder", "no signatures", "truncated", "NaN"],
)
def test_models_that_are_none(body: str, text: str, module: Callable[..., str], fn_args: Callable[..., FnArgs]) -> None:
    source = textwrap.dedent("""
        import os
        import tensorflow as tf

        class Tiny(tf.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = tf.Variable(weight)

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
            def serve(self, examples):
                return {"y": self.weight * tf.cast(tf.strings.length(examples), tf.float32)}

        def save(fn_args, weight):
            model = Tiny(weight)
            tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)

        def run_fn(fn_args):
            BODY
    """).replace("BODY", body)
    args = fn_args()
    with pytest.raises(ModelCheckError, match=text) as caught:
        train(module(source), args, HERE)
    assert str(args.serving_model_dir) in str(caught.value)
    assert nothing_published(args)
    kept = record_of(args)["rejected"]
    assert (f"The module's outputs are kept in {kept}." in str(caught.value)) == bool(kept)
    assert bool(kept) == ("save" in body)
    assert caught.value.exit_code == 3


def test_a_timeout_publishes_nothing(module: Callable[..., str], fn_args: Callable[..., FnArgs]) -> None:
    args = fn_args()
    with pytest.raises(TrainingProcessError, match="did not end within timeout=4 s"):
        train(module("import time\ndef run_fn(fn_args): time.sleep(1000)"), args, TrainingOptions(timeout=4))
    assert nothing_published(args)


# The input is to blame: nothing of the module's runs

NEVER = "raise AssertionError('this module must not be loaded')"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"train_files": ["/nowhere/part-*"]}, r"train_files: no file matches '/nowhere/part-\*'"),
        ({"eval_files": ["/nowhere/part-*"]}, "eval_files: no file matches"),
        ({"schema_path": "/nowhere/schema.pbtxt"}, "schema /nowhere/schema.pbtxt does not exist"),
        ({"transform_graph_path": "/nowhere"}, "transform_graph_path=/nowhere: there is no such folder"),
        ({"base_model": "/nowhere"}, "base_model=/nowhere: there is no such folder"),
        (
            {"serving_model_dir": "/dev/null/model/Format-Serving"},
            r"serving_model_dir=/dev/null/\S*: cannot write there",
        ),
        ({"model_run_dir": "/dev/null/run"}, r"model_run_dir=/dev/null/run: cannot write there \(Not a directory\)"),
        ({"serving_model_dir": None}, "fn_args.serving_model_dir is not set"),
    ],
)
def test_bad_input_is_named_before_anything_runs(
    changes: dict[str, Any], text: str, module: Callable[..., str], fn_args: Callable[..., FnArgs]
) -> None:
    with pytest.raises(InputError, match=text) as caught:
        train(module(NEVER), fn_args(**changes), HERE)
    assert caught.value.exit_code == 2


def test_a_schema_that_is_none(
    module: Callable[..., str], fn_args: Callable[..., FnArgs], tmp_path: pathlib.Path
) -> None:
    for name, content in {"text": b"column: fare", "binary": b"\xff\xfe\x00"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"schema .*{name} is not a Schema in protobuf's text format"):
            train(module(NEVER), fn_args(schema_path=str(tmp_path / name)), HERE)


def test_a_missing_module(fn_args: Callable[..., FnArgs]) -> None:
    with pytest.raises(ModuleError, match=r"nowhere\.py does not exist") as caught:
        train("nowhere.py", fn_args(), HERE)
    assert isinstance(caught.value, TrainerError)
    assert caught.value.exit_code == 2
