"""Packages that register TensorFlow ops when they are imported; a model that uses such an op loads only after that."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence

from ..compat.tensorflow import is_registered_op
from ..errors import InputError
from ..estimator import restore_estimator

_PACKAGES = {
    "tensorflow_addons": r"Addons>",
    "tensorflow_decision_forests": r"SimpleML",
    "tensorflow_io": r"IO>",
    "tensorflow_recommenders_addons": r"(TFRA|Recommenders)>",
    "struct2tensor": r"DecodeProtoSparse|EquiJoin|RunLengthBefore",
    "tensorflow_text": (
        r"TFText>|Sentencepiece|\w*Tokenize\w*WithOffsets|TokenizerFromLogits|NormalizeUTF8|CaseFoldUTF8|Utf8Binarize"
        r"|ConstrainedSequence|MaxSpanningTree|RougeL|SentenceFragments|SplitMerge|RegexSplitWithOffsets|NgramsStringJoin"
    ),
}


_ESTIMATOR = "tensorflow_estimator"  # tf.estimator, which others may use when they are imported


def imported_op_packages() -> list[str]:
    """Returns those of these packages that this process has imported, in an order that another one can import them in.

    `tensorflow_estimator` stands before them where `tf.estimator` is in use.
    """
    found = [name for name in (*_PACKAGES, "tensorflow_ranking") if name in sys.modules]
    return [_ESTIMATOR, *found] if found and _ESTIMATOR in sys.modules else found


def packages_for(ops: Iterable[str]) -> list[str]:
    """Returns the packages that register those of a model's ops that this process does not have."""
    unknown = [op for op in ops if not is_registered_op(op)]
    return [name for name, pattern in _PACKAGES.items() if any(re.match(pattern, op) for op in unknown)]


def import_op_package(package: str) -> None:
    """Imports a package; `tf.estimator`, which TensorFlow has dropped, is restored for one that needs it.

    Raises:
      Exception: What the package raises.
    """
    if package == _ESTIMATOR:
        restore_estimator()
        return
    try:
        importlib.import_module(package)
    except (AttributeError, ImportError) as error:
        if "estimator" not in str(error):
            raise
        restore_estimator()
        importlib.import_module(package)


def import_packages_for(ops: Iterable[str], named: Sequence[str], model: str) -> None:
    """Imports the packages that register those of a model's ops that TensorFlow itself does not have.

    Args:
      ops: Names of all ops in the model.
      named: Packages that the user names; they are imported first.
      model: The model's folder, for messages.

    Raises:
      InputError: When an op is still unknown; it names the op and the package.
    """
    for name in named:
        _import(name, f"--op-package {name}")
    for op in sorted(ops):
        if is_registered_op(op):
            continue
        package = next((name for name, pattern in _PACKAGES.items() if re.match(pattern, op)), None)
        if package is None:
            raise InputError(
                f"--model {model} uses the op {op!r}, which this TensorFlow does not have. Name the package "
                "that registers it with --op-package."
            )
        _import(package, f"--model {model} uses the op {op!r}, which the package {package} registers")
        if not is_registered_op(op):
            raise InputError(f"--model {model} uses the op {op!r}, which {package} of this release does not register.")


def _import(package: str, why: str) -> None:
    try:
        import_op_package(package)
    except ModuleNotFoundError as error:
        raise InputError(f"{why}, and there is no {error.name!r} here. Install it: pip install {package}") from error
    except Exception as error:  # TensorFlow raises errors of its own for a library built for another release
        raise InputError(f"{why}, and that cannot be imported: {type(error).__name__}: {error}") from error
