"""Explains messages of TensorFlow and Keras that do not name the cause."""

from __future__ import annotations

import re

from .exceptions import text_of

_INNER_ERROR = re.compile(r"^[ \t]*(?:\w+\.)*(\w*(?:Error|Exception)): (.+)", re.MULTILINE | re.DOTALL)

# Messages of Keras, TensorFlow and tf.estimator for None instead of a tensor, none of which names the function.
NONE_PATTERN = r"None values not supported|convert a value \(None\)|Missing loss\."
NONE_REMEDY = (
    "None stands where a tensor is needed: the result of a function without `return`, an argument that nothing set, or "
    "`get` of a missing name."
)


def none_hint(error: BaseException) -> str:
    """Returns advice if an error means that a function returned None; "" for other errors."""
    return NONE_REMEDY if isinstance(error, (TypeError, ValueError)) and re.search(NONE_PATTERN, str(error)) else ""


def inner_error(error: BaseException) -> tuple[str, str] | None:
    """Returns type and message of the error that a message of AutoGraph or Keras quotes; None for other errors."""
    text = text_of(getattr(error, "message", None) or error)
    is_quoted = "in user code" in text or "Exception encountered" in text
    inner = _INNER_ERROR.findall(text) if is_quoted else []
    return inner[-1] if inner else None
