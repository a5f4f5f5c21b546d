"""Eval examples that the training process has evaluated itself, because only the module can compute their labels.

An Estimator's `input_fn`, like `feed` of other dialects, turns rows of a CSV file, or records of any other kind, into
features and labels. After training, the dialect calls:

    collect(batches)        # a function that yields (labels, {"output": outputs}, {"age": ages}) for each batch

The worker around it:

    with collecting(lambda: 2.0) as collected:
        run_fn(fn_args)
    collected.examples      # None if there are none
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from absl import logging

from .. import run_context
from ..runtime.files import file_io
from ..runtime.logs.exceptions import one_line_message

if TYPE_CHECKING:
    import numpy as np

# Labels, outputs by name and features by name of some examples.
Batch: TypeAlias = "tuple[np.ndarray | None, Mapping[str, np.ndarray], Mapping[str, np.ndarray]]"

_MAX_EXAMPLES, _MAX_BYTES = 10_000, 1 << 26
_MAX_NUMBERS, _MAX_CHARACTERS = 64, 200  # of a feature for each example: more does not fit into a table
_FILE_NAME = "evaluated_examples.npz"
_LABELS, _IS_COMPLETE, _OUTPUT, _FEATURE = "labels", "is_complete", "output:", "feature:"


@dataclasses.dataclass(frozen=True)
class EvaluatedExamples:
    """Labels, outputs and features of examples; each array's first dimension is the number of examples.

    Attributes:
      labels: The labels.
      outputs: {output of the model's signature: its values}.
      features: {feature: numbers or strings}, to show with the largest errors.
      is_complete: Whether these are all examples of the split, not only the first ones.
    """

    labels: np.ndarray
    outputs: Mapping[str, np.ndarray]
    features: Mapping[str, np.ndarray]
    is_complete: bool = True

    def write(self, folder: str) -> None:
        """Writes the examples into a folder, for `read`."""
        import numpy as np

        content = io.BytesIO()
        outputs = {f"{_OUTPUT}{name}": values for name, values in self.outputs.items()}
        features = {f"{_FEATURE}{name}": values for name, values in self.features.items()}
        arrays = {_LABELS: self.labels, _IS_COMPLETE: np.array(self.is_complete), **outputs, **features}
        np.savez_compressed(content, **arrays)
        file_io.write_bytes(os.path.join(folder, _FILE_NAME), content.getvalue())


def read(folder: str) -> EvaluatedExamples:
    """Reads the examples in a folder.

    Raises:
      ValueError: If the file is damaged.
    """
    import numpy as np

    with np.load(io.BytesIO(file_io.read_bytes(os.path.join(folder, _FILE_NAME))), allow_pickle=False) as arrays:
        found = {
            start: {name.removeprefix(start): arrays[name] for name in arrays.files if name.startswith(start)}
            for start in (_OUTPUT, _FEATURE)
        }
        return EvaluatedExamples(arrays[_LABELS], found[_OUTPUT], found[_FEATURE], bool(arrays[_IS_COMPLETE]))


def are_in(folder: str) -> bool:
    """Whether a folder contains examples."""
    return file_io.exists(os.path.join(folder, _FILE_NAME))


def delete(folder: str) -> None:
    """Deletes the examples in a folder, if there are any."""
    path = os.path.join(folder, _FILE_NAME)
    if file_io.exists(path):
        file_io.file_system(path).remove(path)


@dataclasses.dataclass
class Collected:
    """The part of the run's context that holds the examples.

    Attributes:
      seconds: Returns the time limit for evaluating them; 0 if they are not wanted.
      examples: The examples; None if there are none.
    """

    seconds: Callable[[], float]
    examples: EvaluatedExamples | None = None

    def save(self, folder: str) -> None:
        """Writes the examples, if there are any; a full disk must not fail the run, whose model is trained."""
        try:
            if self.examples:
                self.examples.write(folder)
        except OSError as error:
            logging.warning("There will be no analysis of the model's errors: %s", error)


@contextlib.contextmanager
def collecting(seconds: Callable[[], float]) -> Iterator[Collected]:
    """Lets the code in the block collect examples; yields the object that they are in afterwards.

    Args:
      seconds: Returns the time limit, 0 for none; not called unless a dialect has examples to evaluate.
    """
    collected = Collected(seconds)
    with run_context.extended(collected):
        yield collected


def collect(batches: Callable[[], Iterator[Batch]]) -> None:
    """Collects the first 10,000 examples (64 MiB at most), as far as the time suffices; never raises.

    Does not call `batches` outside of `collecting`, or if no time is allowed.

    Args:
      batches: Returns labels, {output: values} and {feature: values} of each batch, as arrays. The labels are None if
        they are not one dense tensor; then nothing is collected.
    """
    collected = run_context.part(Collected)
    if collected is None:
        return
    try:
        if seconds := collected.seconds():
            collected.examples = _first(batches(), time.monotonic() + seconds)
    except Exception as error:  # user code; the model is trained, and an analysis must not fail the run
        logging.info("The errors of the model will not be analyzed: %s", one_line_message(error))


def _first(batches: Iterator[Batch], deadline: float) -> EvaluatedExamples | None:
    import numpy as np

    columns: dict[tuple[str, str], list[np.ndarray]] = {}
    count = size = 0
    is_complete = True
    for labels, outputs, features in batches:
        if count >= _MAX_EXAMPLES or size >= _MAX_BYTES or time.monotonic() > deadline:
            is_complete = False
            break
        if labels is None:
            return None
        arrays = {(_LABELS, ""): _storable(labels)}
        arrays |= {(_OUTPUT, name): _storable(values) for name, values in outputs.items()}
        shown = {name: _storable(values) for name, values in features.items()}
        arrays |= {(_FEATURE, name): values for name, values in shown.items() if _fits_table(values)}
        for key, values in arrays.items():
            columns.setdefault(key, []).append(values)
        count += len(labels)
        size += sum(values.nbytes for values in arrays.values())
    if not count:
        return None
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    of_kind: dict[str, dict[str, np.ndarray]] = {_LABELS: {}, _OUTPUT: {}, _FEATURE: {}}
    for (kind, name), values in joined.items():
        if len(values) == count:  # a feature may have been too large in some of the batches
            of_kind[kind][name] = values
    return EvaluatedExamples(of_kind[_LABELS][""], of_kind[_OUTPUT], of_kind[_FEATURE], is_complete)


def _storable(values: np.ndarray) -> np.ndarray:
    """Returns an array in a type that NumPy can store without pickling: strings as bytes, bfloat16 as float32."""
    import numpy as np

    if values.dtype.kind == "O":
        return values.astype(bytes)
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def _fits_table(values: np.ndarray) -> bool:
    """Whether a feature is small enough for a table; images and documents are not."""
    is_short = values.dtype.kind != "S" or values.itemsize <= _MAX_CHARACTERS
    return values.ndim > 0 and is_short and math.prod(values.shape[1:]) <= _MAX_NUMBERS
