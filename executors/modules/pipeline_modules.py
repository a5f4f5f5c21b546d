"""The modules of a pipeline: one to train with, and where they are kept apart, one for Transform and one for the Tuner.

    with tempfile.TemporaryDirectory() as scratch:
        modules = find_modules("model.py", scratch, transform_module="preprocessing.py")
        modules.transform       # the ModuleSource with preprocessing_fn; None when there is no Transform

TFX takes a `module_file` for each component. Here the training module serves all steps unless another is named. A
training module that reads Transform's output and has no `preprocessing_fn` gets the one of a file nearby, if exactly
one file can be meant.
"""

from __future__ import annotations

import ast
import dataclasses
import os

from ..errors import ModuleError, did_you_mean
from .defined_names import functions_of, has
from .related_modules import reference_to, with_function
from .source import ModuleSource, find_source, parsed

PREPROCESSING_FN, TUNER_FN = "preprocessing_fn", "tuner_fn"
_READS_TRANSFORM = ("transform_output", "transform_graph_path", "TFTransformOutput")


@dataclasses.dataclass(frozen=True)
class PipelineModules:
    """The modules of a pipeline, found and not yet run.

    Attributes:
      trainer: The training module.
      transform: The module with `preprocessing_fn`; None when there is no Transform.
      tuner: The module with `tuner_fn`; None when there is none.
      notice: Which file Transform uses, when nobody named it; else "".
      hint: What may be missing when the training module fails for want of Transform's output; else "".
    """

    trainer: ModuleSource
    transform: ModuleSource | None
    tuner: ModuleSource | None
    notice: str = ""
    hint: str = ""

    @property
    def sources(self) -> list[ModuleSource]:
        """All modules, each once."""
        named = (self.trainer, self.transform, self.tuner)
        return list({source.path: source for source in named if source is not None}.values())

    def functions_called(self, source: ModuleSource) -> list[str]:
        """Returns the functions of one of the modules that Transform and the Tuner call, if it has them."""
        of_transform = [PREPROCESSING_FN, "stats_options_updater_fn"] if source == self.transform else []
        return [*of_transform, *([TUNER_FN] if source == self.tuner else [])]

    @property
    def fingerprint(self) -> str:
        """The fingerprints of all modules, joined."""
        return " ".join(source.fingerprint for source in self.sources)


def find_modules(module_file: str, scratch: str, transform_module: str = "", tuner_module: str = "") -> PipelineModules:
    """Finds the modules of a pipeline by what the user calls them.

    Args:
      module_file: The training module, in any form that `find_source` takes.
      scratch: A folder of the caller's for copies; it must live as long as the modules are in use.
      transform_module: The module with `preprocessing_fn`, in the same forms; "" for the training module, or a file
        nearby.
      tuner_module: The module with `tuner_fn`; "" for the training module.

    Raises:
      ModuleError: When there is no such module, or it lacks its function.
    """
    trainer = find_source(module_file, scratch)
    transform, notice, hint = _transform_of(trainer, transform_module, scratch)
    tuner = trainer if has(trainer, TUNER_FN) else None
    if tuner_module:
        tuner = _named("--tuner-module", tuner_module, TUNER_FN, "fn_args", os.path.join(scratch, "tuner"))
    return PipelineModules(trainer, transform, tuner, notice, hint)


def _transform_of(trainer: ModuleSource, named: str, scratch: str) -> tuple[ModuleSource | None, str, str]:
    """Returns the module for Transform, a notice and a hint; see `PipelineModules`."""
    folder = os.path.join(scratch, "transform")
    if named:
        return _named("--transform-module", named, PREPROCESSING_FN, "inputs", folder), "", ""
    if has(trainer, PREPROCESSING_FN):
        return trainer, "", ""
    if not (reads := reads_transform(trainer)):
        return None, "", ""
    found = [reference_to(file, trainer) for file in with_function(trainer, PREPROCESSING_FN)]
    if len(found) == 1:
        notice = (
            f"Transform uses {found[0]}: {trainer.reference} reads Transform's output and defines no "
            f"{PREPROCESSING_FN}. --transform-module names another file."
        )
        return find_source(found[0], folder), notice, ""
    where = f"{', '.join(found)} define one" if found else "no file beside it defines one"
    return None, "", (
        f"The module reads Transform's output ({reads}) and has no {PREPROCESSING_FN}; {where}. Name the file for "
        "Transform with --transform-module FILE (transform_module in Python)."
    )  # fmt: skip


def reads_transform(source: ModuleSource) -> str:
    """Returns where a module's files read Transform's output, as "model.py, line 12"; "" when they never do."""
    for file in (source.path, *source.files):
        for node in ast.walk(parsed(file)):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in _READS_TRANSFORM and isinstance(node, (ast.Attribute, ast.Name)):
                return f"{os.path.basename(file)}, line {node.lineno}"
    return ""


def tuner_candidates(trainer: ModuleSource) -> list[str]:
    """Returns the files near a training module that define a `tuner_fn`, as one can name them."""
    return [reference_to(file, trainer) for file in with_function(trainer, TUNER_FN)]


def _named(flag: str, reference: str, function: str, parameters: str, scratch: str) -> ModuleSource:
    source = find_source(reference, scratch)
    if not has(source, function):
        functions = functions_of(source.path)
        there = f"its functions are {', '.join(functions)}" if functions else "it defines no function"
        raise ModuleError(
            f"{flag} {reference}: there is no {function}({parameters}); {there}.{did_you_mean(function, functions)}"
        )
    return source
