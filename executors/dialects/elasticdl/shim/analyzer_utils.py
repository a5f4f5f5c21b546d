"""`elasticdl_preprocessing.utils.analyzer_utils`: feature statistics from environment variables set by SQLFlow.

    get_min("age", 0.0)        # float(os.environ["_age_min"]), or 0.0 if it is not set

Each function takes the feature's name and a default value. The variable names of the module's first version,
`analyzer_util`, have no leading "_" and partly other suffixes; they are used if the current variables are not set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class AnalysisEnvTemplate:
    """The names of the environment variables, `elasticdl_preprocessing.constants.AnalysisEnvTemplate`."""

    MIN_ENV = "_{}_min"
    MAX_ENV = "_{}_max"
    AVG_ENV = "_{}_avg"
    STDDEV_ENV = "_{}_stddev"
    BUCKET_BOUNDARIES_ENV = "_{}_boundaries"
    DISTINCT_COUNT_ENV = "_{}_distinct_count"
    VOCABULARY_ENV = "_{}_vocab"


def get_min(feature_name: str, default_value: _Default) -> float | _Default:
    """Returns the minimum."""
    return _read(float, feature_name, default_value, AnalysisEnvTemplate.MIN_ENV, "{}_min")


def get_max(feature_name: str, default_value: _Default) -> float | _Default:
    """Returns the maximum."""
    return _read(float, feature_name, default_value, AnalysisEnvTemplate.MAX_ENV, "{}_max")


def get_avg(feature_name: str, default_value: _Default) -> float | _Default:
    """Returns the mean."""
    return _read(float, feature_name, default_value, AnalysisEnvTemplate.AVG_ENV, "{}_avg")


def get_stddev(feature_name: str, default_value: _Default) -> float | _Default:
    """Returns the standard deviation."""
    return _read(float, feature_name, default_value, AnalysisEnvTemplate.STDDEV_ENV, "{}_stddev")


def get_bucket_boundaries(feature_name: str, default_value: _Default) -> list[float] | _Default:
    """Returns the bucket boundaries, sorted and without duplicates."""
    names = (AnalysisEnvTemplate.BUCKET_BOUNDARIES_ENV, "{}_bkt_boundaries")
    return _read(lambda text: sorted(set(map(float, text.split(",")))), feature_name, default_value, *names)


def get_distinct_count(feature_name: str, default_value: _Default) -> int | _Default:
    """Returns the number of distinct values."""
    return _read(int, feature_name, default_value, AnalysisEnvTemplate.DISTINCT_COUNT_ENV)


def get_value_count(feature_name: str, default_value: _Default) -> int | _Default:
    """Returns the number of values."""
    return _read(int, feature_name, default_value, "{}_count")


def get_vocabulary(feature_name: str, default_value: _Default) -> str | list[str] | _Default:
    """Returns the path of a vocabulary file with one term per line; the terms if only the old variable is set."""
    old = _read(_terms, feature_name, default_value, "{}_vocab_path")
    return _read(str, feature_name, old, AnalysisEnvTemplate.VOCABULARY_ENV)


def _read(
    parse: Callable[[str], _Value], feature_name: str, default_value: _Default, *templates: str
) -> _Value | _Default:
    for template in templates:
        name = template.format(feature_name)
        if name in os.environ:
            try:
                return parse(os.environ[name])
            except ValueError as error:
                raise ValueError(
                    f"The environment variable {name}={os.environ[name]!r} cannot be read: {error}"
                ) from error
    return default_value


def _terms(path: str) -> list[str]:
    with tf.io.gfile.GFile(path) as file:
        return [line.strip() for line in file if line.strip()]
