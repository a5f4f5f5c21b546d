"""A trained model in the process that checks it; whatever the checks ask for is determined once, when it is asked for.

model = CheckedModel(ModelCheckRequest("model/Format-Serving", "model/Format-Serving", ["eval/*"]))
model.signatures  # {"serving_default": {"inputs": {"examples": "string (?)"}, "outputs": {"y": "float32 (?, 1)"}}}
model.answer.outputs  # {"y": <tf.Tensor: …>}, by a model that is loaded then
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

from ..errors import ModelCheckError
from ..runtime.files import file_io
from ..runtime.logs.exceptions import one_line_message
from .custom_ops import needed_packages
from .locations import MODEL_FILES
from .missing_files import missing_files
from .model_check import ModelCheckRequest
from .op_package_imports import import_problems
from .signatures import described_signatures, meta_graph_of, signature_in
from .tensor_values import first_nonfinite
from .trial import NO_MEMORY, Answer, answer_of

if TYPE_CHECKING:
    from tensorflow.core.protobuf import meta_graph_pb2

    from ..monitoring.run_json import SignatureTensors
    from .signatures import LoadedModel, ServedSignature

_INTERRUPTED = (
    "Writing it was interrupted, for example by a full disk or a killed process, or a file was lost. Save it again."
)


class CheckedModel:
    """A SavedModel that is being checked.

    Attributes:
      request: The request.
    """

    def __init__(self, request: ModelCheckRequest) -> None:
        self.request = request

    def failed(self, check: str, what: str) -> ModelCheckError:
        """Returns the error of a check that the model fails, with the name of the model and how to skip the check."""
        return ModelCheckError(
            f"The model in {self.request.shown_as} failed the check {check!r}: {what}. (To skip it: "
            f"--skip-check {check}; skip_checks in Python.)"
        )

    @functools.cached_property
    def meta_graph(self) -> meta_graph_pb2.MetaGraphDef:
        """The graph with the tag "serve"; raises the error of the check "parses"."""
        name = next(name for name in MODEL_FILES if file_io.exists(os.path.join(self.request.model, name)))
        size = file_io.size_of(os.path.join(self.request.model, name))
        if not size:
            raise self.failed("parses", f"{name} is empty (0 bytes). {_INTERRUPTED}")
        try:
            return meta_graph_of(self.request.model)
        except ValueError as error:
            raise self.failed("parses", str(error)) from error
        except OSError as error:
            what = f"{name} ({size:,} bytes) is truncated or corrupted: {error.__cause__ or error}"
            raise self.failed("parses", what) from error

    @functools.cached_property
    def ops(self) -> list[str]:
        """Names of the ops in its graph."""
        return [op.name for op in self.meta_graph.meta_info_def.stripped_op_list.op]

    @functools.cached_property
    def op_packages(self) -> dict[str, list[str]]:
        """The packages to import before it is loaded, with their known libraries."""
        return needed_packages(self.ops, self.request.op_packages)

    @functools.cached_property
    def signatures(self) -> dict[str, SignatureTensors]:
        """Its signatures, as in the report."""
        return described_signatures(self.meta_graph)

    @functools.cached_property
    def import_problems(self) -> str:
        """Why packages that register its ops cannot be imported; "" without. It may load without them."""
        return "; ".join(import_problems(self.op_packages))

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model; raises the error of the check "loads"."""
        _ = self.import_problems
        model = self.request.model
        try:
            loaded: LoadedModel = tf.saved_model.load(model, tags=list(self.meta_graph.meta_info_def.tags))
            return loaded
        except NO_MEMORY:
            raise
        except Exception as error:  # TensorFlow raises whatever the broken part of it raises
            said = f"{type(error).__name__}: {error}"
            if missing := missing_files(model, self.meta_graph):
                raise self.failed("loads", f"{'; '.join(missing)}. {_INTERRUPTED} TensorFlow: {said}") from error
            raise self.failed("loads", f"a fresh process cannot load it: {said}") from error

    @functools.cached_property
    def nonfinite_variable(self) -> tuple[str, str]:
        """As by `first_nonfinite`, of the variables that its signatures use."""
        used = {id(variable): variable for each in self.loaded.signatures.values() for variable in each.variables}
        return first_nonfinite((f"variable {each.name} {each.shape}", each) for each in used.values())

    @functools.cached_property
    def answer(self) -> Answer | None:
        """Its answer to an example; None if it has no signature, or if the check "answers" is skipped.

        Raises the error of that check if it fails on a real example.
        """
        request, functions = self.request, self.loaded.signatures
        wanted = ("serving_default", *request.required_signatures, "predict", *sorted(functions))
        name = next((name for name in wanted if name in functions), None)
        if name is None or "answers" in request.skip:
            return None
        return answer_of(functions[name], self._served(name), request, functools.partial(self.failed, "answers"))

    def _served(self, name: str) -> ServedSignature:
        graph = self.request.transform_graph_path
        try:
            return signature_in(self.meta_graph, name, graph)
        except (OSError, ValueError) as error:  # a fault of the Transform graph, not of the model
            logging.warning("The Transform graph in %s cannot be read: %s", graph, one_line_message(error))
            return signature_in(self.meta_graph, name)
