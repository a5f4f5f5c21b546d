"""The modules of a pipeline: the training module and, if separate, those of Transform and the Tuner.

    with tempfile.TemporaryDirectory() as scratch:
        modules = find_modules("model.py", scratch, transform_module="preprocessing.py")
        modules.transform       # the ModuleSource with preprocessing_fn; None when there is no Transform

TFX takes a `module_file` for each component. Here the training module serves all steps unless another one is given. If
a training module reads the output of Transform or the Tuner, but has no `preprocessing_fn` or `tuner_fn`, a file nearby
with that function is used, if there is exactly one.
"""

from __future__ import annotations

import ast
import dataclasses
import os

from ..errors import ModuleError, did_you_mean
from ..runtime.files.json_data import JsonData
from .defined_names import functions_of, has
from .related_modules import reference_to, with_function
from .source import ModuleSource, find_source, parsed

PREPROCESSING_FN, STATISTICS_OPTIONS_FN = "preprocessing_fn", "stats_options_updater_fn"
TUNER_FN = "tuner_fn"


@dataclasses.dataclass(frozen=True)
class _Step:
    """A step that may have its own module.

    Attributes:
      name: Name of the step in a sentence.
      function: The function that its module defines.
      parameters: The parameters of that function.
      option: The option for its module.
      output: Its output, described for messages.
      read_as: The attribute names by which a training module reads the output.
      has_names: Whether plain variables with these names count as well.
      instead: The alternative without such a module, for messages.
    """

    name: str
    function: str
    parameters: str
    option: str
    output: str
    read_as: tuple[str, ...]
    has_names: bool = False
    instead: str = ""

    def read_in(self, source: ModuleSource) -> str:
        """Returns where the module's files read the output, as "model.py, line 12"; "" if they don't."""
        for file in (source.path, *source.files):
            for node in ast.walk(parsed(file)):
                if not isinstance(node, (ast.Attribute, ast.Name)):
                    continue
                name = node.attr if isinstance(node, ast.Attribute) else node.id if self.has_names else ""
                if name in self.read_as:
                    return f"{os.path.basename(file)}, line {node.lineno}"
        return ""


_TRANSFORM = _Step(
    "Transform", PREPROCESSING_FN, "inputs", "--transform-module", "Transform's output",
    ("transform_output", "transform_graph_path", "TFTransformOutput"), has_names=True,
)  # fmt: skip
_TUNER = _Step(
    "the Tuner", TUNER_FN, "fn_args", "--tuner-module", "hyper-parameters", ("hyperparameters",),
    instead=" Alternatively, pass the values with --hyperparameters FILE.",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PipelineModules(JsonData):
    """The modules of a pipeline, found but not yet run.

    Attributes:
      trainer: The training module.
      transform: The module with `preprocessing_fn`; None without Transform.
      tuner: The module with `tuner_fn`; None without one.
      notice: A message naming Transform's file if it was found automatically; else "".
      tuner_notice: The same for the Tuner.
      hints: What to add if the training module fails because a step's output is missing.
    """

    trainer: ModuleSource
    transform: ModuleSource | None
    tuner: ModuleSource | None
    notice: str = ""
    tuner_notice: str = ""
    hints: tuple[str, ...] = ()

    @property
    def sources(self) -> list[ModuleSource]:
        """All modules, without duplicates."""
        named = (self.trainer, self.transform, self.tuner)
        return list({source.path: source for source in named if source is not None}.values())

    @property
    def files(self) -> list[str]:
        """The files of all modules, such as `beside` for `choose_keras`."""
        return [file for source in self.sources for file in source.files]

    def functions_called(self, source: ModuleSource) -> list[str]:
        """Returns the names of the functions that Transform and the Tuner call in one of the modules, if defined."""
        of_transform = [PREPROCESSING_FN, STATISTICS_OPTIONS_FN] if source == self.transform else []
        return [*of_transform, *([TUNER_FN] if source == self.tuner else [])]

    @property
    def fingerprint(self) -> str:
        """The fingerprints of all modules, joined."""
        return " ".join(source.fingerprint for source in self.sources)


def find_modules(module_file: str, scratch: str, transform_module: str = "", tuner_module: str = "") -> PipelineModules:
    """Finds the modules of a pipeline by the user's references.

    Args:
      module_file: The training module, in any form that `find_source` accepts.
      scratch: A folder of the caller for copies; it must exist as long as the modules are in use.
      transform_module: The module with `preprocessing_fn`, in the same forms; "" for the training module or a file
        nearby.
      tuner_module: The module with `tuner_fn`; "" likewise.

    Raises:
      ModuleError: When a module does not exist or lacks its function.
    """
    trainer = find_source(module_file, scratch)
    transform, notice, hint = _find_step_module(
        _TRANSFORM, trainer, transform_module, os.path.join(scratch, "transform")
    )
    tuner, tuner_notice, tuner_hint = _find_step_module(_TUNER, trainer, tuner_module, os.path.join(scratch, "tuner"))
    return PipelineModules(trainer, transform, tuner, notice, tuner_notice, tuple(filter(None, (hint, tuner_hint))))


def _find_step_module(
    step: _Step, trainer: ModuleSource, named: str, scratch: str
) -> tuple[ModuleSource | None, str, str]:
    """Returns a step's module, a notice and a hint; see `PipelineModules`."""
    if named:
        return _find_named_module(step, named, scratch), "", ""
    if has(trainer, step.function):
        return trainer, "", ""
    if not (reads := step.read_in(trainer)):
        return None, "", ""
    found = [reference_to(file, trainer) for file in with_function(trainer, step.function)]
    if len(found) == 1:
        notice = (
            f"{step.name[0].upper()}{step.name[1:]} uses {found[0]}: {trainer.reference} reads {step.output} but does "
            f"not define {step.function}. To use another file, pass {step.option}."
        )
        return find_source(found[0], scratch), notice, ""
    where = f"{', '.join(found)} define one" if found else "no file near it defines one"
    keyword = step.option.strip("-").replace("-", "_")
    return None, "", (
        f"The module reads {step.output} ({reads}) but does not define {step.function}; {where}. Give the file for "
        f"{step.name} with {step.option} FILE ({keyword} in Python).{step.instead}"
    )  # fmt: skip


def tuner_candidates(trainer: ModuleSource) -> list[str]:
    """Returns references to the files near a training module that define a `tuner_fn`."""
    return [reference_to(file, trainer) for file in with_function(trainer, TUNER_FN)]


def _find_named_module(step: _Step, reference: str, scratch: str) -> ModuleSource:
    source = find_source(reference, scratch)
    if not has(source, step.function):
        functions = functions_of(source.path)
        there = f"its functions are {', '.join(functions)}" if functions else "it defines no function"
        raise ModuleError(
            f"{step.option} {reference}: there is no {step.function}({step.parameters}); {there}."
            f"{did_you_mean(step.function, functions)}"
        )
    return source
