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
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..examples_format import TF_EXAMPLE

if TYPE_CHECKING:
    from ..monitoring.run_json import BatchDependenceJson, CheckJson, SignatureTensors
    from .checked_model import CheckedModel
    from .custom_ops import OpPackage
    from .sample_input import SampleInput

PASSED, SKIPPED = "passed", "skipped"


class ModelCheck:
    """A check of a trained model. A subclass defines `check`.

    Attributes:
      order: Checks run in this order; the last built-in one has 45.
      needs: Names of checks of a lower order. If one of them has not passed, this check is skipped.
    """

    order: ClassVar[int] = 50
    needs: ClassVar[tuple[str, ...]] = ()

    def applies(self, model: CheckedModel) -> bool:
        """Whether to run the check; otherwise it is not in the report."""
        return True

    def check(self, model: CheckedModel) -> str | None:
        """Checks the model.

        Args:
          model: The model. What the check adds to `model.parts` becomes part of the report and of `run.json`.

        Returns:
          None if the model passes, "skipped: REASON", or the words of a warning that follow the check's name, such as
          "is inconclusive: REASON".

        Raises:
          ModelCheckError: If the model must not be published; see `CheckedModel.failed`.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class CheckRequest:
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


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The result of a check.

    Attributes:
      checks: {check: outcome}: "passed", "skipped", "skipped: REASON", why the check could not be run or is
        inconclusive, or what it found.
      signatures: {signature: {"inputs": {name: "float32 (?, 4)"}, "outputs": {…}}}.
      size_bytes: Size of all files of the model.
      example: Source of the example that the model was run on; "none" if it was not run.
      answer: {output: flat list of its first 10 values}; {} if no signature was run.
      asked: The signature that was run; "" if none was.
      fed: The source of each input, with the reason, in words; see `feeding.Feeding.line`.
      inputs: {feature: its first 10 values} of the example; {} if it is not a tf.Example.
      latency: `median` and `p90` in seconds of repeated calls with that example on the CPU, and their number `calls`;
        {} if no signature was run.
      op_packages: Packages to import before the model is loaded, because they register ops of it, with the paths of
        their libraries as far as they are known.
      parts: {name: what a check has added}, such as `batch_dependence` and `evaluation_plan`.
    """

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors] = dataclasses.field(default_factory=dict)
    size_bytes: int = 0
    example: str = "none"
    answer: dict[str, list[str | float]] = dataclasses.field(default_factory=dict)
    asked: str = ""
    fed: str = ""
    inputs: dict[str, list[str | float]] = dataclasses.field(default_factory=dict)
    latency: dict[str, float] = dataclasses.field(default_factory=dict)
    op_packages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def batch_dependence(self) -> BatchDependenceJson | None:
        """The answer that depends on the other examples of its batch; None if no dependence was found."""
        return self.parts.get("batch_dependence")

    @property
    def warnings(self) -> dict[str, str]:
        """The checks that neither passed nor were skipped, with their outcome."""
        return {name: outcome for name, outcome in self.checks.items() if not outcome.startswith((PASSED, SKIPPED))}

    def to_json(self) -> CheckJson:
        """Returns the report for the run record, with the parts beside the other facts."""
        state = dataclasses.asdict(self)
        return cast("CheckJson", {**state.pop("parts"), "batch_dependence": self.batch_dependence, **state})
