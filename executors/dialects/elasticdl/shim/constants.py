"""The constants of `elasticdl.python.common.constants` that model files and readers use."""

from __future__ import annotations


class Mode:
    """What `feed` or `dataset_fn` is called for. A mode is its string, as in ElasticDL."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"

    # ElasticDL's own guide writes `Mode.Prediction`, which its releases never had.
    Training = TRAINING
    Evaluation = EVALUATION
    Prediction = PREDICTION


class JobType:
    """What a job does."""

    TRAINING_ONLY = "training_only"
    EVALUATION_ONLY = "evaluation_only"
    PREDICTION_ONLY = "prediction_only"
    TRAINING_WITH_EVALUATION = "training_with_evaluation"


class DistributionStrategy:
    """The values of `--distribution_strategy`."""

    LOCAL = "Local"
    PARAMETER_SERVER = "ParameterServerStrategy"
    ALLREDUCE = "AllreduceStrategy"


class MaxComputeConfig:
    """Environment variables that name a MaxCompute project and its keys."""

    PROJECT_NAME = "MAXCOMPUTE_PROJECT"
    ACCESS_ID = "MAXCOMPUTE_AK"
    ACCESS_KEY = "MAXCOMPUTE_SK"
    ENDPOINT = "MAXCOMPUTE_ENDPOINT"
    TUNNEL_ENDPOINT = "MAXCOMPUTE_TUNNEL_ENDPOINT"


class ODPSConfig:
    """The same variables as ElasticDL 0.1.0 called them."""

    PROJECT_NAME = "ODPS_PROJECT_NAME"
    ACCESS_ID = "ODPS_ACCESS_ID"
    ACCESS_KEY = "ODPS_ACCESS_KEY"
    ENDPOINT = "ODPS_ENDPOINT"


class ReaderType:
    """The values of `reader_type` among the data reader's parameters."""

    CSV_READER = "CSV"
    ODPS_READER = "ODPS"
    RECORDIO_READER = "RecordIO"


class MetricsDictKey:
    """Keys of what an evaluation collects; a model's only output is called "output"."""

    MODEL_OUTPUT = "output"
    LABEL = "label"


class SaveModelConfig:
    """Keys of a callback's parameters."""

    SAVED_MODEL_PATH = "saved_model_path"
