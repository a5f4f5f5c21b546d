"""Strategies in RunConfig on two logical CPUs, and the TPUEstimator on the CPU."""

from __future__ import annotations

import json
import os
from typing import Any

import lifecycle
import people
import tensorflow as tf

v1 = tf.compat.v1
_TWO_CPUS = ["/cpu:0", "/cpu:1"]


def _two_cpus() -> None:
    """Gives this process two CPU devices; TensorFlow accepts this only before first use, so every row calls it."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if not tf.config.get_logical_device_configuration(cpu):
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def _train(folder: str, **options: Any) -> dict[str, float]:
    """Each replica takes a batch of 16 in each step, so the input must be endless."""
    estimator = tf.estimator.DNNClassifier(
        [8],
        people.numeric(),
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.1),
        config=lifecycle.config(folder, **options),
    )
    estimator.train(_numeric(), steps=40)
    metrics = estimator.evaluate(_numeric(), steps=4)
    assert metrics["global_step"] == 40
    predictions = list(estimator.predict(_numeric(1)))
    lifecycle.same_answers(estimator.export_saved_model(os.path.join(folder, "export"), people.receiver()), predictions)
    return lifecycle.numbers(metrics)


def _numeric(epochs: int | None = None) -> Any:
    return people.batches(people.OLD, {name: people.FEATURES[name] for name in ("age", "hours")}, epochs)


def mirrored_with_device_count(folder: str) -> dict[str, float]:
    """Without `device_count` or ReductionToOneDevice, a session has one CPU and the replicas wait forever."""
    _two_cpus()
    strategy = tf.distribute.MirroredStrategy(_TWO_CPUS)
    session_config = v1.ConfigProto(device_count={"CPU": 2})
    return _train(folder, train_distribute=strategy, eval_distribute=strategy, session_config=session_config)


def mirrored_with_reduction_to_one_device(folder: str) -> dict[str, float]:
    _two_cpus()
    strategy = tf.distribute.MirroredStrategy(_TWO_CPUS, tf.distribute.ReductionToOneDevice())
    session_config = v1.ConfigProto(device_count={"CPU": 2})
    return _train(folder, train_distribute=strategy, eval_distribute=strategy, session_config=session_config)


def mirrored_on_one_device(folder: str) -> dict[str, float]:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    return _train(folder, train_distribute=strategy, eval_distribute=strategy)


def one_device(folder: str) -> dict[str, float]:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    return _train(folder, train_distribute=strategy, eval_distribute=strategy)


def strategies_by_distribute_config(folder: str) -> dict[str, float]:
    from tensorflow.python.distribute.distribute_config import DistributeConfig

    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    return _train(folder, experimental_distribute=DistributeConfig(strategy, strategy))


_CLUSTER = {"chief": ["host0:0"], "worker": ["host1:1", "host2:2"], "ps": ["host3:3"]}
_TF_CONFIGS: dict[str, dict[str, Any]] = {
    "no cluster": {},
    "chief": {"cluster": _CLUSTER, "task": {"type": "chief", "index": 0}},
    "second worker": {"cluster": _CLUSTER, "task": {"type": "worker", "index": 1}},
    "ps": {"cluster": _CLUSTER, "task": {"type": "ps", "index": 0}},
    "evaluator": {"cluster": _CLUSTER, "task": {"type": "evaluator", "index": 0}},
    "master": {"cluster": {"master": ["host0:0"], "worker": ["host1:1"]}, "task": {"type": "worker", "index": 0}},
    "no chief": {"cluster": {"worker": ["host1:1"]}, "task": {"type": "worker", "index": 0}},
}


def what_a_run_config_knows_of_its_cluster(folder: str) -> dict[str, str]:
    """Each TF_CONFIG with each way to pass strategies, including rejected combinations."""
    from tensorflow.python.distribute.distribute_config import DistributeConfig

    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    ways: dict[str, dict[str, Any]] = {
        "no strategy": {},
        "train": {"train_distribute": strategy},
        "eval": {"eval_distribute": strategy},
        "both": {"train_distribute": strategy, "eval_distribute": strategy},
        "experimental": {"experimental_distribute": DistributeConfig(strategy, strategy)},
        "remote": {"experimental_distribute": DistributeConfig(strategy, None, {"worker": ["host9:9"]})},
        "twice": {"train_distribute": strategy, "experimental_distribute": DistributeConfig(strategy)},
    }
    known = {}
    for task, tf_config in _TF_CONFIGS.items():
        os.environ["TF_CONFIG"] = json.dumps(tf_config)
        for way, options in ways.items():
            known[f"{task}, {way}"] = _cluster_of(options)
    del os.environ["TF_CONFIG"]
    return known


def _cluster_of(options: dict[str, Any]) -> str:
    try:
        config = tf.estimator.RunConfig(**options)
    except ValueError:
        return "ValueError"
    names = (
        *("task_type", "task_id", "master", "evaluation_master", "is_chief", "global_id_in_cluster"),
        *("num_worker_replicas", "num_ps_replicas", "_distribute_coordinator_mode"),
    )
    facts = {name: getattr(config, name, "missing") for name in names}
    facts["filters"] = list(config.session_config.device_filters) if config.session_config else None
    strategies = [type(strategy).__name__ for strategy in (config.train_distribute, config.eval_distribute)]
    jobs = config.cluster_spec.as_dict() if hasattr(config.cluster_spec, "as_dict") else config.cluster_spec
    return f"{sorted(jobs.items())} {strategies} {facts}"


def _tpu_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    assert params["batch_size"] in (8, 16)
    logits = v1.layers.dense(tf.concat([features["age"], features["hours"]], 1), 1)
    spec = v1.estimator.tpu.TPUEstimatorSpec
    if mode == tf.estimator.ModeKeys.PREDICT:
        return spec(mode, predictions={"probability": tf.sigmoid(logits)})
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:

        def metric_fn(labels: Any, logits: Any) -> Any:
            return {"auc": v1.metrics.auc(labels, tf.sigmoid(logits))}

        return spec(mode, loss=loss, eval_metrics=(metric_fn, [labels, logits]))
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    return spec(mode, loss=loss, train_op=optimizer.minimize(loss, v1.train.get_global_step()))


def _tpu_estimator(folder: str, use_tpu: bool) -> Any:
    config = v1.estimator.tpu.RunConfig(
        model_dir=folder, tf_random_seed=1, tpu_config=v1.estimator.tpu.TPUConfig(iterations_per_loop=5)
    )
    return v1.estimator.tpu.TPUEstimator(
        _tpu_model_fn, config=config, use_tpu=use_tpu, train_batch_size=16, eval_batch_size=8, predict_batch_size=8
    )


def _sized(epochs: int | None = None) -> Any:
    features = {name: people.FEATURES[name] for name in ("age", "hours")}

    def input_fn(params: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices((features, people.OLD)).repeat(epochs).batch(params["batch_size"])

    return input_fn


def tpu_estimator_on_the_cpu(folder: str) -> dict[str, float]:
    estimator = _tpu_estimator(folder, use_tpu=False)
    estimator.train(_sized(), max_steps=40)
    metrics = estimator.evaluate(_sized(), steps=8)
    assert len(list(estimator.predict(_sized(1)))) == people.COUNT
    return lifecycle.numbers(metrics)


def tpu_estimator_on_a_tpu(folder: str) -> None:
    """Only where tf.estimator is restored: TensorFlow 2.16 removed TPU Estimators, and the error explains this."""
    try:
        _tpu_estimator(folder, use_tpu=True).train(_sized(), max_steps=4)
    except NotImplementedError as error:
        assert "use_tpu=False" in str(error)  # noqa: PT017 (not in pytest's process)
    else:
        raise AssertionError
