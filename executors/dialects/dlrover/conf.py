"""Reads a conf class into checked options, with the names, defaults and semantics of contract dlrover.md, 1.3.

DLRover ignored about half of the attributes in its documentation and examples. Here all of them take effect.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from absl import logging

from ...errors import InputError, ModuleError, did_you_mean
from ...fn_args import FnArgs
from ...monitoring.save_interval import measured_steps
from ...number_range import POSITIVE, SECONDS_OR_NONE, STEPS
from .conf_names import DATA_SET_KEYS, require_no_misspelling, unused_names

if TYPE_CHECKING:
    import tensorflow as tf

# Keys of custom_config that are not attributes of a conf; see `run.train`.
USE_CONF_MODEL_DIR = "use_conf_model_dir"
RESTART_DATA = "train_data_anew"
HAS_TRAINED = "has_trained"
LABEL_IN_SIGNATURE = "label_in_signature"

_REQUIRED = ("classifier_class", "train_set")
_DEEPREC_OPTIONS = ("enable_incr_saved_model", "checkpoint_incremental_save_secs")
_BATCH_SIZE = 64
_EPOCHS = 10
_NUMERIC_OPTIONS = ("max_steps", "eval_steps", "log_steps", "save_steps", "save_secs", "keep_checkpoint_max")


class ConfColumn(Protocol):
    """The interface of a conf's columns, whether of DLRover or of the shim; `Columns.of` checks name and dtype."""

    name: str
    dtype: str
    is_sparse: bool | None
    is_label: bool | None


class _Sizes(TypedDict):
    """The numeric settings of a data set."""

    batch_size: int
    epoch: int


@dataclasses.dataclass(frozen=True)
class DataSet:
    """The `train_set` or `eval_set` of a conf.

    The run's example files, if it has any, take precedence over `reader` and `path`.

    Attributes:
      name: "train_set" or "eval_set", for error messages.
      columns: The conf's columns, in the order of a row's fields.
      reader: An object, or a class of objects, with read_data_by_index_range and count_data, or with iterator(); a
        function that yields rows; or None to use `path`.
      path: "file://…", "fake://…" or a list of these.
      field_delim: The separator between a row's fields; one character.
      value_delim: The separator between the values in the field of a sparse column; one character.
      batch_size: Rows per batch; the last batch may have fewer.
      epoch: Number of passes over the data.
    """

    name: str
    columns: tuple[ConfColumn, ...]
    reader: object = None
    path: object = None
    field_delim: str = ","
    value_delim: str = "\x01"
    batch_size: int = _BATCH_SIZE
    epoch: int = _EPOCHS


@dataclasses.dataclass(frozen=True)
class Conf:
    """The settings of a conf class.

    Attributes:
      where: File and class, for error messages.
      classifier_class: An Estimator class, a function that returns an Estimator, or the dotted name of one; see
        `make_estimator` for its arguments.
      train_set: The training data.
      eval_set: The evaluation data; one pass, unless the set has its own `epoch`.
      params: Hyperparameters that are passed to the Estimator.
      model_dir: The Estimator's directory with `use_conf_model_dir`; None if the conf has none.
      max_steps: The global step at which training ends; None to train until the end of the data.
      eval_steps: Batches per evaluation; None for all.
      log_steps: Steps between log lines with the loss and steps per second.
      save_steps: Steps between checkpoints, or None. By default 100, as in DLRover; on Ray, after a worker's death, the
        number that loses the least time, see `save_interval.py`.
      save_secs: Seconds between checkpoints, or None.
      keep_checkpoint_max: The number of checkpoints to keep; 0 for all.
      session_config: A tf.compat.v1.ConfigProto, a dict of its fields, or None.
      run_config: The base tf.estimator.RunConfig, a dict of its fields, or None.
      compare_fn: A function (best so far, current) that returns whether the current evaluation is the best; None to
        compare the loss.
    """

    where: str
    classifier_class: Callable[..., tf.estimator.Estimator] | str
    train_set: DataSet
    eval_set: DataSet
    params: dict[str, object]
    model_dir: str | None = None
    max_steps: int | None = None
    eval_steps: int | None = 100
    log_steps: int = 100
    save_steps: int | None = 100
    save_secs: float | None = None
    keep_checkpoint_max: int = 5
    session_config: tf.compat.v1.ConfigProto | dict[str, object] | None = None
    run_config: tf.estimator.RunConfig | dict[str, object] | None = None
    compare_fn: Callable[..., object] | None = None


# All settings: the fields of `Conf`, the defaults of its data sets, and names that are read elsewhere.
_SETTINGS = (
    *(field.name for field in dataclasses.fields(Conf) if field.name != "where"),
    *("batch_size", "epoch", "name", "priority"),
    *(USE_CONF_MODEL_DIR, RESTART_DATA, HAS_TRAINED, LABEL_IN_SIGNATURE),
    *_DEEPREC_OPTIONS,
)


def conf_classes(module: ModuleType) -> list[str]:
    """Returns the names of the conf classes that a module defines or, if it defines none, of those it imports."""
    classes = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and all(hasattr(value, attribute) for attribute in _REQUIRED)
    }
    own = [name for name, value in classes.items() if value.__module__ == module.__name__]
    return own or list(classes)


def find_conf(module: ModuleType, name: str | None) -> tuple[type, str]:
    """Returns a module's conf class, and its file and name for error messages.

    Args:
      module: The imported module.
      name: The class's name; None if the module has only one conf class.

    Raises:
      ModuleError: When the class is missing or not a conf class, or when there are several and no name is given.
    """
    names = conf_classes(module)
    if name is None and len(names) == 1:
        [name] = names
    if name is None:
        what = f"contains several conf classes: {', '.join(names)}" if names else "contains no conf class"
        raise ModuleError(
            f"{module.__file__} {what}. A conf is a class with {' and '.join(_REQUIRED)}; select it as module.Class."
        )
    conf = getattr(module, name, None)
    where = f"{module.__file__}: {name}"
    if not inspect.isclass(conf):
        classes = [*names, *(own for own, value in vars(module).items() if inspect.isclass(value))]
        raise ModuleError(f"{module.__file__} has no conf class {name!r}.{did_you_mean(name, classes)}")
    missing = [attribute for attribute in _REQUIRED if getattr(conf, attribute, None) is None]
    if missing:
        raise ModuleError(
            f"{where} lacks {', '.join(missing)}: a conf requires classifier_class, train_set and eval_set."
            f"{did_you_mean(missing[0], vars(conf))}"
        )
    return conf, where


def read_conf(conf: type, fn_args: FnArgs, where: str) -> Conf:
    """Returns the checked settings of a conf class.

    Args:
      conf: The class.
      fn_args: The run's arguments. `train_steps` and `eval_steps` override `max_steps` and `eval_steps` of the conf;
        entries of `custom_config` override the attribute of their name, except `train_set` and `eval_set`, and the
        entry of their name in `params`.
      where: The file and class, for error messages.

    Raises:
      InputError: When a value has a wrong type or is out of range, or when the name of a setting is misspelled.
    """
    values = _merged_values(conf)
    require_no_misspelling(values, _SETTINGS, where)
    config: Mapping[str, object] = fn_args.custom_config or {}
    require_no_misspelling(config, [*_SETTINGS, *values, *(values.get("params") or ())], f"{where}: custom_config")
    values |= {name: value for name, value in config.items() if name not in ("train_set", "eval_set")}
    steps = {"max_steps": fn_args.train_steps, "eval_steps": fn_args.eval_steps}
    values |= {name: value for name, value in steps.items() if value}
    for name in _DEEPREC_OPTIONS:
        if values.get(name):
            logging.info("%s: %s applies only to DeepRec's TensorFlow, and is ignored.", where, name)
    params = values.get("params") or {}
    if not isinstance(params, Mapping):
        raise InputError(f"{where}: params must be a dict, not {params!r}.")
    return Conf(
        where,
        train_set=_data_set("train_set", values, where),
        eval_set=_data_set("eval_set", values, where),
        params={**params, **{name: value for name, value in config.items() if name in params}},
        **_settings(values, where),
    )


def unused_settings(conf: type, where: str) -> list[str]:
    """Returns a warning for each setting of a conf class that nothing reads; DLRover ignored them silently."""
    values = _merged_values(conf)
    warnings = list(unused_names(values, _SETTINGS, where))
    for name in ("train_set", "eval_set"):
        warnings += unused_names(values[name], DATA_SET_KEYS, f"{where}: {name}")
    return warnings


def _merged_values(conf: type) -> dict[str, Any]:
    """Returns the attributes of a conf class, merged with those of the other registered confs.

    As a side effect, this fills DLRover's global `Configuration`, which models may read.
    """
    values = {name: getattr(conf, name) for name in dir(conf) if not name.startswith("__")}
    conf_util = sys.modules.get("dlrover.trainer.util.conf_util")  # DLRover's own module, or its shim
    return values | (dict(conf_util.get_conf(conf).to_dict()) if conf_util else {})


def _settings(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the checked values of the scalar fields of `Conf`; None and 0 in a conf mean that a number is not set."""
    names = {field.name for field in dataclasses.fields(Conf)} - {"where", "train_set", "eval_set", "params"}
    given = {name: value for name, value in values.items() if name in names}
    for name in _NUMERIC_OPTIONS:
        value = given.get(name)
        numbers = SECONDS_OR_NONE if name == "save_secs" else STEPS
        if value is not None and not numbers.includes(value):
            raise InputError(f"{where}: {name}={value!r}: give {numbers}.")
    _fill_save_interval(given, where)
    for name in ("max_steps", "eval_steps"):
        if name in given:
            given[name] = given[name] or None
    if not given.get("log_steps", 1):
        del given["log_steps"]
    if given.get("model_dir") is not None:
        given["model_dir"] = os.fspath(given["model_dir"])
    if given.get("compare_fn") is not None and not callable(given["compare_fn"]):
        raise InputError(f"{where}: compare_fn={given['compare_fn']!r} is not a function of (best, current).")
    return given


def _fill_save_interval(given: dict[str, Any], where: str) -> None:
    """Fills `save_steps` and `save_secs`, of which TensorFlow accepts only one; a default is for neither given."""
    steps, seconds = given.get("save_steps"), given.get("save_secs")
    if steps and seconds:
        raise InputError(f"{where}: save_steps={steps} and save_secs={seconds}: set only one of them.")
    if not steps and not seconds and "save_steps" in given:
        raise InputError(f"{where}: save_steps={steps!r} without save_secs disables checkpoints; set one of them.")
    if seconds:
        given["save_steps"] = None
    else:
        given.pop("save_secs", None)
        if not steps and (measured := measured_steps()):
            given["save_steps"] = measured


def _data_set(name: str, values: Mapping[str, Any], where: str) -> DataSet:
    given = values.get(name)
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: {name} must be a dict with columns and a reader or path, not {given!r}.")
    require_no_misspelling(given, DATA_SET_KEYS, f"{where}: {name}")
    columns = given.get("columns")
    if not columns or isinstance(columns, (str, bytes, Mapping)) or not isinstance(columns, Iterable):
        raise InputError(f"{where}: {name} has no columns. Give a tuple of Column.create(name=…, dtype=…, is_label=…).")
    # An evaluation is one pass over its data, unless its own set has an `epoch`.
    epochs = _first(_size(values, "epoch", where), _EPOCHS) if name == "train_set" else 1
    sizes: _Sizes = {
        "batch_size": _first(
            _size(given, "batch_size", f"{where}: {name}"), _size(values, "batch_size", where), _BATCH_SIZE
        ),
        "epoch": _first(_size(given, "epoch", f"{where}: {name}"), epochs),
    }
    delims: dict[str, Any] = {key: given[key] for key in ("field_delim", "value_delim") if given.get(key)}
    for key, value in delims.items():
        if not isinstance(value, str) or len(value) != 1:
            raise InputError(f"{where}: {name}[{key!r}] is {value!r}; it must be one character.")
    reader = given.get("reader_fn") or given.get("reader")
    return DataSet(name, tuple(columns), reader, given.get("path"), **delims, **sizes)


def _size(values: Mapping[str, Any], name: str, where: str) -> int | None:
    value = values.get(name)
    if value is not None and not POSITIVE.includes(value):
        raise InputError(f"{where}: {name} is {value!r}; give {POSITIVE}.")
    return value


def _first(*sizes: int | None) -> int:
    return next(size for size in sizes if size is not None)
