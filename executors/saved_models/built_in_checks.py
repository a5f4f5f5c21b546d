"""The checks that a model parses, has signatures, loads, answers, and has finite variables and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ModelCheckError
from ..monitoring.run_json import SKIPPED
from .model_check import ModelCheck
from .tensor_values import excerpt, first_nonfinite

if TYPE_CHECKING:
    from .checked_model import CheckedModel

_UNREGISTERED = "not registered"  # in TensorFlow's message about an unknown op


class Parses(ModelCheck):
    """The model's file can be parsed, and has a graph for serving."""

    order = 10

    def check(self, model: CheckedModel) -> None:
        """Parses it."""
        _ = model.meta_graph


class Signatures(ModelCheck):
    """It has signatures, and those that the run requires."""

    order = 20
    needs = ("parses",)

    def check(self, model: CheckedModel) -> None:
        """Compares their names."""
        if not model.signatures:
            raise model.failed("signatures", "it has no signatures. Pass signatures={...} when saving it")
        missing = [name for name in model.request.required_signatures if name not in model.signatures]
        if missing:
            what = f"it lacks {', '.join(missing)}; it has {', '.join(model.signatures)}"
            raise model.failed("signatures", what)


class Loads(ModelCheck):
    """A fresh process can load it."""

    order = 25
    needs = ("parses",)

    def check(self, model: CheckedModel) -> str | None:
        """Loads it; inconclusive if a package with its ops cannot be imported."""
        try:
            _ = model.loaded
        except ModelCheckError as error:
            if model.import_problems and _UNREGISTERED in str(error):
                return f"could not be run: {model.import_problems}"
            raise
        return None


class Answers(ModelCheck):
    """A signature answers an example."""

    order = 30
    needs = ("loads",)

    def check(self, model: CheckedModel) -> str | None:
        """Runs the signature."""
        if "finite" not in model.request.skip:
            _require_finite_variables(model)  # here, as NaN may explain why the signature fails
        if model.answer is None:
            return SKIPPED
        return f"could not be run: {model.answer.problem}" if model.answer.problem else None


class Finite(ModelCheck):
    """Neither the variables of its signatures nor its answer contain NaN or infinity."""

    order = 35
    needs = ("loads",)

    def check(self, model: CheckedModel) -> str | None:
        """Tests them; inconclusive if a dtype cannot be tested, or the example is not a real one."""
        _require_finite_variables(model)
        _, variable = model.nonfinite_variable
        outcome = f"is inconclusive: its {variable}" if variable else None
        if (answer := model.answer) is None or answer.problem:
            return outcome
        name, problem = first_nonfinite(answer.outputs.items())
        if not name:
            return f"is inconclusive: its output {problem}" if problem else outcome
        values = ", ".join(map(str, excerpt(answer.outputs[name])))
        what = f"{answer.signature!r} returns {name}=[{values}] for {answer.example.source}"
        if answer.example.is_certain:
            raise model.failed("finite", what)
        return f"is inconclusive: {what}"


def _require_finite_variables(model: CheckedModel) -> None:
    if name := model.nonfinite_variable[0]:
        raise model.failed("finite", f"its {name} contains NaN or infinity")
