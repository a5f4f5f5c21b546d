"""DLRover's constants: names of conf attributes, each with a default.

Usage:

    conf.get(TFConstants.SaveSteps.name, TFConstants.SaveSteps())    # the conf's value, or 100
"""

from __future__ import annotations

from typing import Any

_FIVE_DAYS = 5 * 24 * 3600  # seconds


class Constant:
    """A name with a default value, which is returned by calling the object.

    Attributes:
      name: The name in a conf or on a command line.
      default: The default value.
    """

    def __init__(self, name: str | int, default: object = None) -> None:
        """Sets name and default."""
        self._name = name
        self.default = default

    def __call__(self) -> Any:
        """Returns the default."""
        return self.default

    @property
    def name(self) -> Any:
        """The name."""
        return self._name


class Constants:
    """Executor names."""

    Executor = Constant("executor")
    PsExecutor = Constant("ps_executor")


class PlatformConstants:
    """Names of the platforms that jobs run on."""

    PlatformName = Constant("Platform")
    ExecutePlaform = Constant("ExecutePlaform")
    Local = Constant("LOCAL", "LOCAL")
    Kubernetes = Constant("KUBERNETES", "KUBERNETES")
    Ray = Constant("RAY", "RAY")
    WorkerActionRun = Constant("run", "run")


class TFConstants:
    """Path schemes, cluster roles, and the names and defaults of conf attributes."""

    FILE_SCHEME = Constant("file", "file://")
    FAKE_SCHEME = Constant("fake", "fake://")

    Worker = Constant("worker", "worker")
    Chief = Constant("chief", "chief")
    PS = Constant("ps", "ps")
    Evaluator = Constant("evaluator", "evaluator")

    EstimatorClassifier = Constant("estimator")
    ClassifierTypeEstimator = Constant("estimator", "estimator")
    EstimatorClassifierType = Constant("classifier_type", "estimator")
    EstimatorClassifierClass = Constant("classifier_class", "estimator")
    SessionConfig = Constant("session_config")
    RunConfig = Constant("run_config")
    TrainSet = Constant("train_set")
    EvalSet = Constant("eval_set")
    ModelDir = Constant("model_dir")
    BatchSize = Constant("log_steps", 64)  # the name is wrong in DLRover, too
    Epoch = Constant("epoch", 1)
    LogSteps = Constant("log_steps", 100)
    MaxSteps = Constant("max_steps")
    EvalSteps = Constant("eval_steps", 100)
    SaveSteps = Constant("save_steps", 100)
    SaveSecs = Constant("save_secs", None)
    SaveMinSecs = Constant("save_min_secs", 0)
    SaveMaxSecs = Constant("save_max_secs", _FIVE_DAYS)
    EvalMinSecs = Constant("eval_min_secs", 0)
    EvalMaxSecs = Constant("eval_max_secs", _FIVE_DAYS)
    KeepCheckpointMax = Constant("keep_checkpoint_max", 5)
    CheckpointIncrementalSaveSecs = Constant("checkpoint_incremental_save_secs", None)
    EnableIncrSavedModel = Constant("enable_incr_saved_model", False)
    EnableAutoScaling = Constant("enable_auto_scaling")
    EnableDynamicSharding = Constant("enable_dynamic_sharding", True)

    EstimatorTrainingHooks = Constant("training_hooks")
    EstimatorTrainingChiefHooks = Constant("training_chief_hooks")
    EstimatorEvaluationHooks = Constant("evaluation_hooks")
    EstimatorPredictionHooks = Constant("prediction_hooks")

    ANY_NODE_FO_LEVEL = Constant(1)
    RelaunchForPs = Constant("relaunch_for_ps", False)
    RelaunchForFailure = Constant("relaunch_for_failure", False)
    SaveCheckpoint = Constant("save_checkpoint_for_ps", False)
    ExitRecoverableSession = Constant("exit_recoverable_session", None)
    DataShardClient = Constant("data_shard_client", None)
    DataShardCheckpoint = Constant("data_shard_checkpoint", "data_shard_checkpoint.json")
