"""Constants of `elasticdl.python.common.constants` that model files and readers use."""

from __future__ import annotations


class Mode:
    """The modes in which `feed` or `dataset_fn` is called; plain strings, as in ElasticDL."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"

    # ElasticDL's guide uses `Mode.Prediction`, which was in none of its releases.
    Training = TRAINING
    Evaluation = EVALUATION
    Prediction = PREDICTION


class JobType:
    """The types of jobs."""

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
    """Names of the environment variables with a MaxCompute project and its access keys."""

    PROJECT_NAME = "MAXCOMPUTE_PROJECT"
    ACCESS_ID = "MAXCOMPUTE_AK"
    ACCESS_KEY = "MAXCOMPUTE_SK"
    ENDPOINT = "MAXCOMPUTE_ENDPOINT"
    TUNNEL_ENDPOINT = "MAXCOMPUTE_TUNNEL_ENDPOINT"


class ODPSConfig:
    """Names of the environment variables for MaxCompute in ElasticDL 0.1.0."""

    PROJECT_NAME = "ODPS_PROJECT_NAME"
    ACCESS_ID = "ODPS_ACCESS_ID"
    ACCESS_KEY = "ODPS_ACCESS_KEY"
    ENDPOINT = "ODPS_ENDPOINT"


class ReaderType:
    """The values of the data reader parameter `reader_type`."""

    CSV_READER = "CSV"
    ODPS_READER = "ODPS"
    RECORDIO_READER = "RecordIO"


class MetricsDictKey:
    """Keys of the tensors that an evaluation collects; the output of a single-output model is named "output"."""

    MODEL_OUTPUT = "output"
    LABEL = "label"


class SaveModelConfig:
    """Keys of callback parameters."""

    SAVED_MODEL_PATH = "saved_model_path"
