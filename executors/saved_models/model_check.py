"""The interface of the checks of a trained SavedModel, which one fresh process runs on one model.

    class FewOps(ModelCheck):
        needs = ("parses",)

        def check(self, model: CheckedModel) -> None:
            if len(model.ops) > 100:
                raise model.failed("few_ops", f"its graph has {len(model.ops)} kinds of ops, more than 100")

A package registers its checks by entry point, in the group `generic_trainer.model_checks`. The name of an entry point
is a value of the option `skip_checks`. The fork server imports the registered modules in advance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..examples_format import TF_EXAMPLE

if TYPE_CHECKING:
    from .checked_model import CheckedModel
    from .custom_ops import OpPackage
    from .sample_input import SampleInput

BATCHES = "batches"  # the check whether the answer for an example is the same alone and in a batch
BATCH_DEPENDENCE = "batch_dependence"  # property of a Model artifact, with the outcome of that check


class ModelCheck:
    """A check of a trained model. A subclass defines `check`.

    Attributes:
      order: Checks run in this order; the last built-in one has 45.
      needs: Names of checks of a lower order. If one of them has not passed, this check is skipped.
      part: A JSON value that `check` adds to the report and to `run.json`, where it is in `check.parts`; None for none.
    """

    order: ClassVar[int] = 50
    needs: ClassVar[tuple[str, ...]] = ()
    part: Any = None

    def applies(self, model: CheckedModel) -> bool:
        """Whether to run the check; otherwise it is not in the report."""
        return True

    def check(self, model: CheckedModel) -> str | None:
        """Checks the model.

        Args:
          model: The model.

        Returns:
          None if the model passes, "skipped: REASON", or the words of a warning that follow the check's name, such as
          "is inconclusive: REASON".

        Raises:
          ModelCheckError: If the model must not be published; see `CheckedModel.failed`.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ModelCheckRequest:
    """A request to the fresh process, of JSON values; see `check_saved_model`.

    Attributes:
      model: The SavedModel's folder.
      shown_as: Its name in messages.
      payload: Encoding of the examples, one of `examples_format.payload_formats()`.
      parts: {check: what it takes}.
    """

    model: str
    shown_as: str
    eval_files: Sequence[str] = ()
    raw_eval_files: Sequence[str] = ()
    payload: str = TF_EXAMPLE
    schema_path: str | None = None
    transform_graph_path: str | None = None
    required_signatures: Sequence[str] = ()
    skip: Sequence[str] = ()
    op_packages: Mapping[str, OpPackage] = dataclasses.field(default_factory=dict)
    example: SampleInput | None = None
    parts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
