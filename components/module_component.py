"""Base class of components that run a training module: module fingerprint and serialized `custom_config`."""

from __future__ import annotations

import importlib.util
import os
import tempfile

from absl import logging
from tfx.dsl.components.base import base_component
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types.component_spec import ComponentSpec
from tfx.utils import json_utils

from ..executors.errors import InputError, ModuleError, StorageError
from ..executors.modules.source import find_source
from ..executors.runtime.files import file_io
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
            "custom_config contains what looks like a secret, under %s. ML Metadata and compiled pipelines store it in "
            "clear text. Read it in the module from the environment or from a secret manager.",
            ", ".join(names),
        )
    return json_utils.dumps(custom_config)


def fingerprint(module: str | RuntimeParameter | None) -> str | None:
    """Returns the fingerprint of the module and its imports, which invalidates TFX's cache after an edit.

    None for a module that is only known or readable at run time: a RuntimeParameter, a file or package of the image, or
    a file in a bucket that this machine cannot read.

    Raises:
      ModuleError: When there is no such module, but its folder or package is here.
    """
    if not isinstance(module, str):
        return None
    require_temporary_folder()
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        try:
            return find_source(module, scratch).fingerprint
        except (ModuleError, StorageError) as error:
            if not _is_elsewhere(module):
                raise
            logging.warning(
                "The training module cannot be read here: %s It must be readable where the pipeline runs. TFX's cache "
                "does not detect edits of it.", error,
            )  # fmt: skip
            return None


def _is_elsewhere(module: str) -> bool:
    """Returns whether a missing module may exist on other machines: not even its folder or package is here."""
    place = module.rpartition("@")[2]
    if file_io.is_remote(place):
        return True
    if "/" in place or os.sep in place or place.endswith((".py", ".zip")):
        return not os.path.isdir(os.path.dirname(place) or ".")
    return importlib.util.find_spec(place.partition(".")[0]) is None
