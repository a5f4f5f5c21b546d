"""Fingerprints of a training: the code, data, options and arguments that its checkpoints depend on.

Resuming from the checkpoints of a different training would silently produce a wrong model. The fingerprint is therefore
written next to the checkpoints, in `checkpoint.json`, and compared before they are used.

Usage:

    now = compute_identity(fn_args, source, function, options, keras, read_inputs(fn_args, digests))
    now.key                              # a directory name, the same for all attempts of the same training
    now.differences(read(folder))        # ["code of taxi.py", "custom_config.learning_rate (0.01, now 0.1)"]
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from .. import plugins
from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource
from ..options import TrainingOptions, declared_options
from ..runtime.files import file_io
from ..runtime.logs.redaction import masked
from .contents import IDENTITY
from .data_fingerprint import INPUTS, PATTERNS, DataFiles

# Without the option `keras`: the chosen Keras version is a separate part of the fingerprint.
OPTIONS = tuple(option.name for option in declared_options() if option.changes_result)
# Arguments that differ between attempts: output directories, and the task's place in the cluster.
_ATTEMPT_ARGUMENTS = (
    *("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir", "working_dir"),
    *("is_chief", "worker_index", "num_workers"),
    *("schema_file", "transform_output"),  # aliases of other arguments
)
_CODE, _DATA = "code of ", "data of "
# Lengths of the training, and intervals. On the command line a run may resume with other values of these, in fn_args as
# well as in custom_config, and of those that dialects register.
_LENGTHS = ("train_steps", "eval_steps", "epochs", "num_epochs", "max_step", "max_steps", "save_steps", "log_steps")
_GROUP = "generic_trainer.resumable_arguments"
_EARLIER_ATTEMPT = ("custom_config.has_trained",)


@dataclasses.dataclass(frozen=True)
class Identity:
    """The fingerprint of a training.

    Attributes:
      parts: {name: JSON value} of all code, data, options and arguments; digests of code and data.
    """

    parts: Mapping[str, object]

    @property
    def key(self) -> str:
        """Hash of all parts, 16 hexadecimal digits."""
        text = json.dumps(self.parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def result_key(self) -> str:
        """Hash of the parts that the result depends on: also equal after an attempt that had finished training."""
        return Identity({name: part for name, part in self.parts.items() if name not in _EARLIER_ATTEMPT}).key

    def differences(self, earlier: Identity) -> list[str]:
        """Returns descriptions of the parts that differ from an earlier training, except for lengths and intervals."""
        registered = cast("Mapping[str, Sequence[str]]", plugins.load(_GROUP)).values()
        lengths = {*_LENGTHS, *itertools.chain(*registered)}
        found = []
        for name in sorted({*self.parts, *earlier.parts}):
            before, now = earlier.parts.get(name), self.parts.get(name)
            if before != now and name.rpartition(".")[2] not in lengths:
                is_short = not name.startswith((_CODE, _DATA)) and len(f"{before}{now}") < 200
                found.append(f"{name} ({before!r}, now {now!r})" if is_short else name)
        return found

    def write(self, folder: str) -> None:
        """Writes the fingerprint to `checkpoint.json` in a checkpoint directory."""
        content = {"key": self.key, "made_by": self.parts}
        file_io.write_text(os.path.join(folder, IDENTITY), json.dumps(content, indent=2, default=str) + "\n")


def is_code(differences: Iterable[str]) -> bool:
    """Returns whether the differences concern code only."""
    return all(name.startswith(_CODE) for name in differences)


def read(folder: str) -> Identity | None:
    """Reads the fingerprint of a checkpoint directory; returns None if it is missing or unreadable."""
    path = os.path.join(folder, IDENTITY)
    if not file_io.exists(path):
        return None
    try:
        parts = json.loads(file_io.read_text(path))["made_by"]
    except (ValueError, KeyError, TypeError):
        return None
    return Identity(parts) if isinstance(parts, dict) else None


def compute_identity(
    fn_args: FnArgs,
    source: ModuleSource,
    function: str | None,
    options: TrainingOptions,
    keras: KerasChoice,
    inputs: Mapping[str, DataFiles],
) -> Identity:
    """Computes the fingerprint of a training.

    Args:
      fn_args: Arguments of the module's function.
      source: The module and all of the user's files that it imports.
      function: Name of the function to run, if one was given.
      options: Training options; those that do not change the result are ignored.
      keras: The Keras version to use.
      inputs: The files that the training reads, as returned by `read_inputs`.
    """
    parts: dict[str, object] = {"function": function, "keras": keras.version}
    for file in source.files:
        name = os.path.relpath(file, source.roots[-1])
        parts[f"{_CODE}{name}"] = hashlib.sha256(file_io.read_bytes(file)).hexdigest()[:16]
    parts |= {f"options.{name}": getattr(options, name) for name in OPTIONS}
    arguments = {name: value for name, value in fn_args.to_json().items() if name not in _ATTEMPT_ARGUMENTS}
    for name in INPUTS:
        arguments[name] = _absolute(arguments.get(name))
    for name in ("custom_config", "hyperparameters"):
        config = masked(arguments.pop(name, None) or {})  # tokens may differ between attempts
        arguments |= {f"{name}.{key}": value for key, value in config.items()}
    parts |= arguments
    parts |= {f"{_DATA}{name}": files.digest for name, files in inputs.items() if files.stamps or name in PATTERNS}
    return Identity(json.loads(json.dumps(parts, default=str)))


def _absolute(value: object) -> object:
    if isinstance(value, str) and value and not file_io.is_remote(value):
        return os.path.realpath(value)
    return [_absolute(one) for one in value] if isinstance(value, (list, tuple)) else value
