"""DLRover conf classes: any attribute values are either accepted or rejected with an error that names the conf."""

from __future__ import annotations

import ast

from generic_trainer.executors.dialects.dlrover.columns import Columns
from generic_trainer.executors.dialects.dlrover.conf import read_conf
from generic_trainer.executors.dialects.dlrover.shim.column_info import Column
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.fn_args import FnArgs

_WHERE = "conf.py: TrainConf"
_SET = (
    b"{'reader': None, 'path': 'file://a.csv', 'field_delim': ',', 'batch_size': 8, 'epoch': 2, 'columns': "
    b"[{'name': 'x', 'dtype': 'float32', 'is_label': False}, {'name': 'y', 'dtype': 'int64', 'is_label': True}]}"
)
SEEDS = [
    b"{'train_set': " + _SET + b", 'eval_set': " + _SET + b", 'params': {'a': 1}, 'max_steps': 5}",
    b"{'train_set': {'columns': []}, 'eval_set': {}, 'save_steps': '5', 'model_dir': 5}",
    b"{'train_set': 5, 'log_steps': -1, 'session_config': {'a': 1}}",
]


def check(data: bytes) -> None:
    """Parses the data as a Python dict literal and reads it as the attributes of a conf class."""
    try:
        values = ast.literal_eval(data.decode())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, UnicodeDecodeError):
        return
    if not isinstance(values, dict):
        return
    values = {name: value for name, value in values.items() if isinstance(name, str) and name.isidentifier()}
    for name in ("train_set", "eval_set"):
        if isinstance(values.get(name), dict) and isinstance(values[name].get("columns"), list):
            values[name]["columns"] = list(map(_column, values[name]["columns"]))
    held = {"classifier_class": object, "train_set": {}, "eval_set": {}, **values}
    held = {name: value for name, value in held.items() if not name.startswith("__")}
    try:
        conf = read_conf(type("TrainConf", (), held), FnArgs(), _WHERE)
        Columns.of(conf.train_set, _WHERE)
    except InputError as error:
        assert _WHERE in str(error), error


def _column(properties: object) -> object:
    try:
        return Column.create(**properties)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return properties
