"""Advice on common errors, matched by their messages."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Sequence

from ..errors import did_you_mean
from ..runtime.logs.exceptions import one_line_message
from ..runtime.logs.framework_messages import NONE_PATTERN, NONE_REMEDY, inner_error

_MAX_LENGTH = 400
# Decoration that Keras and TensorFlow add to messages.
_DECORATION = re.compile(
    r"\x1b\[\d*m|\{\{function_node [^{}]*\}\}|\[Op:\w+\]( name:\s*$)?|\[\[\{\{node [^]]*\]\]|Name: <unknown>, "
    r"|Arguments received by .*|<stack traces unavailable>|Graph execution error:"
    r"|Detected at node \S+ defined at[^:]*:",
    re.DOTALL,
)

_DATA_LIBRARIES = ("tensorflow", "tensorflow_transform", "keras", "tf_keras")
_MISSING_NAME = "The name is not in the data; the item `examples` lists the features."

_REMEDIES = (
    (NONE_PATTERN, NONE_REMEDY),
    (
        r"Shapes? .* (?:are|is) incompatible|must have the same shape|logits and labels|`logits` and `labels`"
        r"|same first dimension|labels.*shape|rank mismatch",
        "The model's output does not fit the label. For a label of class ids use SparseCategoricalCrossentropy and as "
        "many outputs as classes; for 0 or 1, BinaryCrossentropy and one output; for one-hot "
        "labels, CategoricalCrossentropy.",
    ),
    (
        r"expected axis|incompatible with the layer|Dimensions must be equal|Matrix size-incompatible|expected shape"
        r"|Incompatible shapes|Cannot reshape|shape mismatch",
        "A layer received another shape than it was built for; compare it with the features of the item `examples`.",
    ),
    (
        r"indices\[[^\]]*\] = -?\d+ is not in|outside of the valid range|Received a label value of|out.of.range"
        r"|label.* (?:outside|not in)",
        "An id or label in the data exceeds the size of the embedding table or the output: set the size to the number "
        "of distinct values (plus one for unknown values), or clip the ids.",
    ),
    (
        r"[Dd]ata ?types? don't match|Data types|Can't parse serialized|(?:is|but) required but could not be found",
        "The feature spec does not match the examples; the item `examples` lists their features and types.",
    ),
    (r"label_key .* is not among|is not among the tensors", _MISSING_NAME),
    (
        r"corrupted record|truncated record|DataLoss|inflate",
        "A file of examples is damaged, or its name does not match its compression: names of gzipped TFRecord files "
        "must end in .gz, and those of uncompressed ones must not.",
    ),
    (
        r"Op type not registered|No registered '.*' Op",
        "The op is defined by a package that is not imported; import the package at the top of the module.",
    ),
    (r"ResourceExhausted|OOM when allocating|MemoryError", "Out of memory: use smaller batches."),
    (
        r"[Nn]a[Nn]|^FloatingPointError",
        "Check for a logarithm of zero, a division by zero or NaN in the data, or lower the learning rate.",
    ),
)


def error_line(error: BaseException) -> str:
    """Returns an exception in one line: its type and message, without TensorFlow's stack frames, and its notes."""
    name, message = inner_error(error) or (type(error).__name__, one_line_message(error))
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("Raised by")]
    return f"{name}: {'; '.join([shorten_message(message), *notes])}"


def shorten_message(text: str) -> str:
    """Returns a message in one line of at most 400 characters, without what Keras and TensorFlow add to it."""
    line = " ".join(_DECORATION.sub(" ", text).split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


def remedy_for_message(text: str) -> str:
    """Returns advice on an error message, or ""."""
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), "")


def remedy_for(
    error: BaseException, files: Sequence[str], siblings: Sequence[str], config: Sequence[str], line: str
) -> str:
    """Returns advice on an exception that the module raised, or "".

    Args:
      error: The exception.
      files: The user's files.
      siblings: Names of Python modules in the training module's folder, for suggestions.
      config: Keys of custom_config.
      line: Text of the user's line that raised it.
    """
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        return (
            f"Install the package, or put {name.partition('.')[0]}.py next to the module.{did_you_mean(name, siblings)}"
        )
    if "config" in line and isinstance(error, KeyError if config else (KeyError, TypeError, AttributeError)):
        key = str(error.args[0]) if isinstance(error, KeyError) and error.args else ""
        keys = ", ".join(config) or "nothing"
        return f"custom_config contains {keys}.{did_you_mean(key, config)} Set the key with --custom-config."
    if isinstance(error, KeyError):
        return _MISSING_NAME if _is_raised_on_data(error, files) else ""
    return remedy_for_message(f"{type(error).__name__}: {error}")


def _is_raised_on_data(error: BaseException, files: Sequence[str]) -> bool:
    """Whether the user's code or TensorFlow raised an exception; the keys of other libraries are no features."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames:  # raised in another process
        return True
    package = frames[-1].f_globals.get("__name__", "").partition(".")[0]
    own = set(map(os.path.realpath, files))
    return os.path.realpath(frames[-1].f_code.co_filename) in own or package in _DATA_LIBRARIES
