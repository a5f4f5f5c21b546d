"""Base class of components that run a training module: module fingerprint and serialized `custom_config`."""

from __future__ import annotations

import tempfile

from absl import logging
from tfx.dsl.components.base import base_component
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types.component_spec import ComponentSpec
from tfx.utils import json_utils

from ..executors.errors import InputError
from ..executors.modules.source import find_source
from ..executors.runtime.files.temporary_folder import require_temporary_folder
from ..executors.runtime.logs.redaction import masked_text, secret_names

FINGERPRINT = "module_fingerprint"


class ModuleComponent(base_component.BaseComponent):
    """A component whose module fingerprint is recomputed each time before it runs.

    In a notebook the module may be edited after the component was constructed; the new fingerprint then prevents a
    cache hit.
    """

    def __init__(self, spec: ComponentSpec, module_file: str | RuntimeParameter | None, **arguments: object) -> None:
        """Constructs the component.

        Args:
          spec: The component's spec.
          module_file: The `module_file` of the spec.
          **arguments: Further arguments of `BaseComponent`.
        """
        super().__init__(spec=spec, **arguments)
        self._module_file = module_file

    def _resolve_pip_dependencies(self, pipeline_root: str) -> None:
        """Called by every TFX runner, and by `InteractiveContext.run`, before the component runs."""
        super()._resolve_pip_dependencies(pipeline_root)
        # Compiling a pipeline for other machines replaces the reference; leave its fingerprint alone then.
        if self._module_file and self.exec_properties.get("module_file") == self._module_file:
            self.exec_properties[FINGERPRINT] = fingerprint(self._module_file)


def serialize_config(custom_config: dict[str, object] | RuntimeParameter | None) -> str | RuntimeParameter:
    """Returns `custom_config` as JSON, as TFX stores it; logs a warning if a key or value looks like a secret.

    Raises:
      InputError: When it is neither a dict nor None nor a RuntimeParameter.
    """
    if isinstance(custom_config, RuntimeParameter):
        return custom_config
    if custom_config is not None and not isinstance(custom_config, dict):
        shown = masked_text(repr(custom_config))
        raise InputError(f"custom_config must be a dict; got {type(custom_config).__name__}: {shown}.")
    if names := sorted(secret_names(custom_config)):
        logging.warning(
            "custom_config contains what looks like a secret: %s. ML Metadata and compiled pipelines store it in clear "
            "text. Read it in the module from the environment or from a secret manager.",
            ", ".join(names),
        )
    return json_utils.dumps(custom_config)


def fingerprint(module: str | RuntimeParameter | None) -> str | None:
    """Returns the fingerprint of the module and its imports, which invalidates TFX's cache after an edit.

    None for a module that is only known at run time (a RuntimeParameter, or a dotted path that is installed in the
    image only).

    Raises:
      ModuleError: When there is no such module.
    """
    if not isinstance(module, str):
        return None
    require_temporary_folder()
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        return find_source(module, scratch).fingerprint
