"""Parses the user's options for the evaluation plan.

overrides_of({"label": "price=price_xf,click=click_xf", "task": "binary"})
# Overrides(labels={"price": "price_xf", "click": "click_xf"}, task="binary")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .plan import Overrides

_EXCEPT_LABEL = ("task", "scores", "eval_signature", "eval_output")


def overrides_of(options: Mapping[str, Any]) -> Overrides:
    """Returns the overrides that options set.

    Args:
      options: `label`, `task`, `scores`, `eval_signature` and `eval_output`, as in `PipelineOptions`; parts of missing
        options are derived from the evidence. Other options are ignored.

    Raises:
      InputError: If `label` is malformed.
    """
    return Overrides(
        labels=parse_labels(options.get("label") or ""),
        task=options.get("task") or "auto",
        scores=options.get("scores") or "auto",
        signature=options.get("eval_signature") or "",
        output=options.get("eval_output") or "",
    )


def options_except_label(options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options for `overrides_of` that are set, without the label."""
    return {name: options[name] for name in _EXCEPT_LABEL if options.get(name) not in (None, "", "auto")}


def parse_labels(text: str) -> dict[str, str]:
    """Parses `FEATURE`, or `OUTPUT=FEATURE,OUTPUT=FEATURE`, to {output: feature}.

    The output "" means the only or the main one. A text without "=" is a single feature's name, including any commas.

    Raises:
      InputError: If a part has no output or no feature, or an output occurs twice.
    """
    if "=" not in text:
        return {"": text} if text else {}
    labels = {}
    for part in text.split(","):
        output, separator, feature = (word.strip() for word in part.partition("="))
        if not separator:
            output, feature = "", output
        if not feature or (separator and not output) or output in labels:
            raise InputError(f"--label {text}: {part!r} is invalid. Use FEATURE, or OUTPUT=FEATURE,OUTPUT=FEATURE.")
        labels[output] = feature
    return labels
