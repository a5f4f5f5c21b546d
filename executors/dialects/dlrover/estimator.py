"""Creates the Estimator of a conf from its `classifier_class`.

* A custom Estimator is called with (model_dir, config, params), as in DLRover. For a class without a constructor, as in
  DLRover's documentation, the `model_fn` method is the model function, and the attribute `run_config` is set.
* A premade Estimator, such as `tf.estimator.DNNClassifier` or a function like DeepCTR's `DeepFMEstimator`, has other
  parameters first: it is called with the conf's `params` and with `model_dir` and `config` as keyword arguments.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from ...errors import ModuleError, did_you_mean
from ...fn_args import FnArgs
from .conf import Conf

_MODEL_DIR = "model_dir"


def make_estimator(conf: Conf, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    """Returns the conf's Estimator.

    Args:
      conf: The conf; its `classifier_class` is a class, a function, or the dotted name of one.
      config: The RunConfig, with the Estimator's `model_dir`.

    Raises:
      ModuleError: When `classifier_class` is not found, or the result is not an Estimator.
    """
    factory = _resolve_class(conf)
    if _takes_model_dir_later(factory):
        estimator = factory(**conf.params, model_dir=config.model_dir, config=config)
    else:
        estimator = _with_constructor(factory)(config.model_dir, config, dict(conf.params))
    if not isinstance(estimator, tf.estimator.Estimator):
        raise ModuleError(
            f"{conf.where}: classifier_class={_name_of(factory)} returned a {type(estimator).__name__}, not a "
            "tf.estimator.Estimator. Make it a subclass whose constructor takes (model_dir, config, params)."
        )
    return estimator


def make_run_config(conf: Conf, model_dir: str, fn_args: FnArgs) -> tf.estimator.RunConfig:
    """Returns the RunConfig with the conf's settings, the given model directory and the run's seed, if it has none."""
    given = conf.run_config
    config = tf.estimator.RunConfig(**given) if isinstance(given, dict) else given or tf.estimator.RunConfig()
    session = conf.session_config
    if isinstance(session, dict):
        session = tf.ConfigProto(**session)
    return config.replace(
        model_dir=model_dir,
        tf_random_seed=config.tf_random_seed if config.tf_random_seed is not None else fn_args.seed,
        session_config=session or config.session_config,
        log_step_count_steps=conf.log_steps,
        keep_checkpoint_max=conf.keep_checkpoint_max,
        save_checkpoints_steps=conf.save_steps,
        save_checkpoints_secs=conf.save_secs,
        # By default, workers delay their start to find the chief's variables; here they query the chief instead.
        experimental_max_worker_delay_secs=0,
    )


def _resolve_class(conf: Conf) -> Callable[..., tf.estimator.Estimator]:
    factory = conf.classifier_class
    if isinstance(factory, str):
        module_name, _, name = factory.rpartition(".")
        if not module_name:
            raise ModuleError(f"{conf.where}: classifier_class={factory!r} must be a class, or 'module.Class'.")
        module = importlib.import_module(module_name)
        if not hasattr(module, name):
            hint = did_you_mean(name, [known for known, value in vars(module).items() if callable(value)])
            raise ModuleError(f"{conf.where}: classifier_class={factory!r}: {module_name} has no {name!r}.{hint}")
        factory = getattr(module, name)
    if not callable(factory) or (inspect.isclass(factory) and not issubclass(factory, tf.estimator.Estimator)):
        raise ModuleError(
            f"{conf.where}: classifier_class={_name_of(factory)} is not a tf.estimator.Estimator. Make it a subclass "
            "whose constructor takes (model_dir, config, params), or a function of these that returns an Estimator."
        )
    return factory


def _takes_model_dir_later(factory: Callable[..., tf.estimator.Estimator]) -> bool:
    """Returns whether a callable has a parameter `model_dir` that is not its first one."""
    if inspect.isclass(factory) and _lacks_constructor(factory):
        return False
    return _MODEL_DIR in list(inspect.signature(factory).parameters)[1:]


def _lacks_constructor(factory: type) -> bool:
    """Returns whether a subclass defines a `model_fn` method, but no `__init__` that passes it to the Estimator."""
    package = "tensorflow_estimator"
    own = [cls for cls in factory.__mro__ if not cls.__module__.startswith(package) and cls is not object]
    return any("model_fn" in vars(cls) for cls in own) and not any("__init__" in vars(cls) for cls in own)


def _with_constructor(factory: Callable[..., tf.estimator.Estimator]) -> Callable[..., tf.estimator.Estimator]:
    if not inspect.isclass(factory) or not _lacks_constructor(factory):
        return factory

    def __init__(
        self: tf.estimator.Estimator, model_dir: str, config: tf.estimator.RunConfig, params: dict[str, object]
    ) -> None:
        self.run_config = config
        takes_params = {"params": params} if "params" in inspect.signature(self.model_fn).parameters else {}
        tf.estimator.Estimator.__init__(self, self.model_fn, model_dir, config, **takes_params)

    return type(factory.__name__, (factory,), {"__init__": __init__, "__module__": factory.__module__})


def _name_of(factory: object) -> str:
    return str(getattr(factory, "__qualname__", repr(factory)))
