"""Notes on a module's exception with which settings the module may succeed; see `restart.py`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from .. import run_context
from ..checkpoints.contents import has_checkpoints
from ..errors import LateVariableError
from ..modules.keras_version import KerasChoice, version_in_use
from ..modules.late_variables import LateVariables
from .restart import noted


@dataclasses.dataclass
class ImportWatch:
    """Part of the run context: what the dialects see of the module that this process imports and runs.

    A context of `Dialect.importing` adds functions to it.

    Attributes:
      keras_2_reasons: Return why the process has Keras 2 by now, if it was to have Keras 3; else "".
      explanations: Return the exception to raise instead of the module's; None to keep it.
    """

    keras_2_reasons: list[Callable[[], str]] = dataclasses.field(default_factory=list)
    explanations: list[Callable[[Exception], Exception | None]] = dataclasses.field(default_factory=list)

    @classmethod
    def current(cls) -> ImportWatch:
        """Returns that of the module that this process has loaded; an empty one without a module."""
        return run_context.part(cls) or cls()


@contextlib.contextmanager
def settings_noted(keras: KerasChoice | None, checkpoint_dir: str | None) -> Iterator[None]:
    """Notes other settings on an exception that leaves the block, if it is evidence for them.

    Args:
      keras: The settings of this process; None if it is not restarted with others.
      checkpoint_dir: The training's checkpoints. A training that has saved one works with its Keras version.

    Raises:
      LateVariableError: If the module has set variables too late for this process.
      Exception: What a dialect has seen to be the cause; see `ImportWatch.explanations`.
    """
    try:
        yield
    except LateVariables as late:
        raise _late_variable_error(late) from None
    except Exception as error:
        explained = next(filter(None, (explain(error) for explain in ImportWatch.current().explanations)), None)
        if explained:
            raise explained from error
        if keras and not (checkpoint_dir and has_checkpoints(checkpoint_dir)):
            _note_other_keras(error, keras)
        raise


def _late_variable_error(late: LateVariables) -> LateVariableError:
    names = ", ".join(late.variables)
    error = LateVariableError(
        f"The module sets {names}, which TensorFlow and Keras have read before in this process. Set it in the shell: "
        f"export {' '.join(f'{name}={value}' for name, value in late.variables.items())}"
    )
    return noted(error, {"variables": dict(late.variables), "reason": f"the module sets {names}", "is_certain": True})


def _note_other_keras(error: Exception, keras: KerasChoice) -> None:
    reason, is_certain = keras.evidence_against(error)
    if reason:
        version = "2" if keras.version == "3" else "3"
        noted(error, {"version": version, "reason": reason, "is_certain": is_certain})


def changed_keras(keras: KerasChoice) -> KerasChoice | None:
    """Returns Keras 2 if what the module uses has made `tf.keras` Keras 2; else None.

    Args:
      keras: The settings of this process. Called while the module is loaded.
    """
    reason = next(filter(None, (reason() for reason in ImportWatch.current().keras_2_reasons)), "")
    if keras.version == "2" or not reason or version_in_use() == "3":
        return None
    return dataclasses.replace(keras, version="2", reason=reason)
