"""A drop-in for TFX's Transform with this project's module loader instead of a wheel that pip builds and installs.

The training module that defines `run_fn` may also define `preprocessing_fn`. As in `Trainer`, the module can import
sibling modules and sub-packages, and an edit to any of them invalidates the cache.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tfx.components.transform import component, executor, executor_utils
from tfx.dsl.components.base import executor_spec

from ..executors.dialects.loading import loaded
from ..executors.errors import ModuleError
from ..executors.modules.source import find_source
from ..executors.runtime.logs.remembered_error import remember_error
from .module_component import fingerprint

if TYPE_CHECKING:
    import tensorflow_data_validation as tfdv
    from tfx import types


class TransformExecutor(executor.Executor):
    """TFX's executor; loads `preprocessing_fn` from a module reference in any form that `Trainer` accepts."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Runs Transform; the module stays importable until the last Beam worker has finished."""
        with contextlib.ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="generic-trainer-"))
            reference = exec_properties["preprocessing_fn"]
            self._module = stack.enter_context(loaded(find_source(reference, scratch)))
            super().Do(input_dict, output_dict, exec_properties)

    _module: ModuleType | None = None

    def _GetPreprocessingFn(
        self, inputs: Mapping[str, object], unused_outputs: Mapping[str, object]
    ) -> Callable[..., object]:
        del unused_outputs
        function = getattr(self._module, "preprocessing_fn", None)
        if function is None:
            raise ModuleError(f"{self._module} has no function preprocessing_fn(inputs), which Transform needs.")
        bound: Callable[..., object] = executor_utils.MaybeBindCustomConfig(inputs, function)
        return bound

    def _GetStatsOptionsUpdaterFn(self, inputs: Mapping[str, object]) -> Callable[..., tfdv.StatsOptions] | None:
        function = getattr(self._module, "stats_options_updater_fn", None)
        return executor_utils.MaybeBindCustomConfig(inputs, function) if function else None


class Transform(component.Transform):
    """`tfx.components.Transform` for a training module that defines `preprocessing_fn`."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(TransformExecutor)

    def __init__(self, module_file: str, **arguments: object) -> None:
        """Constructs the component.

        Args:
          module_file: The module: a file, `package.module`, or `name@archive.zip`.
          **arguments: Arguments of `tfx.components.Transform` except `preprocessing_fn`.

        Raises:
          ModuleError: When there is no such module, but its folder or package is here.
        """
        # TFX would build a wheel from an argument named module_file, but not from preprocessing_fn.
        super().__init__(preprocessing_fn=module_file, **arguments)
        if found := fingerprint(module_file):
            self.spec.exec_properties["module_fingerprint"] = found
