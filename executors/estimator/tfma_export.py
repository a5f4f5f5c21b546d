"""`tfma.export` on TFMA releases that dropped it (0.47 and later).

Modules for TFX up to 0.29 describe an evaluation model with `tfma.export.EvalInputReceiver` and write it with
`tfma.export.export_eval_savedmodel`. No release after 0.46 reads such a model: TFMA evaluates the serving model from
raw examples instead. So the names resolve, the description is accepted, and writing it says that it is not needed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

from absl import logging


class EvalInputReceiver(NamedTuple):
    """What an `eval_input_receiver_fn` returns; see TFMA 0.46.

    Attributes:
      features: Tensors by name.
      labels: The label tensor, or tensors by name.
      receiver_tensors: The placeholders that serialized examples are fed to.
      input_refs: For each row, the example it came from.
    """

    features: Any
    labels: Any
    receiver_tensors: Any
    input_refs: Any = None


def export_eval_savedmodel(*unused_args: Any, **unused_options: Any) -> None:
    """Writes nothing: no release of TFMA from 0.47 on reads an evaluation SavedModel."""
    logging.info("No evaluation SavedModel is written: this TFMA evaluates the serving model from raw examples.")


def restore_tfma_export() -> None:
    """Makes `tfma.export` resolve in this process. Changes nothing where TFMA has it."""
    tfma: Any = importlib.import_module("tensorflow_model_analysis")
    if not hasattr(tfma, "export"):
        tfma.export = sys.modules["tensorflow_model_analysis.export"] = sys.modules[__name__]
