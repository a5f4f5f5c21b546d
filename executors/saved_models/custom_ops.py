"""Imports packages that register TensorFlow custom ops, which models with such ops need before they can be loaded."""

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


_ESTIMATOR = "tensorflow_estimator"  # provides tf.estimator, which other packages may use at import


def imported_op_packages() -> list[str]:
    """Returns the op packages that this process has imported, in an order suitable for import in another process.

    `tensorflow_estimator` comes first if it is imported too.
    """
    found = [name for name in (*_PACKAGES, "tensorflow_ranking") if name in sys.modules]
    return [_ESTIMATOR, *found] if found and _ESTIMATOR in sys.modules else found


def packages_for(ops: Iterable[str]) -> list[str]:
    """Returns the packages that register a model's ops that are not registered in this process."""
    unknown = [op for op in ops if not is_registered_op(op)]
    return [name for name, pattern in _PACKAGES.items() if any(re.match(pattern, op) for op in unknown)]


def import_op_package(package: str) -> None:
    """Imports a package; restores `tf.estimator`, removed from TensorFlow, if the package needs it.

    Raises:
      Exception: Any exception of the package's import.
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
    """Imports the packages that register a model's ops that TensorFlow itself does not have.

    Args:
      ops: Names of all ops in the model.
      named: Packages from --op-package; imported first.
      model: The model's folder, for messages.

    Raises:
      InputError: If a package cannot be imported, or an op is still not registered; names the op and the package.
    """
    for name in named:
        _import(name, f"--op-package {name}")
    for op in sorted(ops):
        if is_registered_op(op):
            continue
        package = next((name for name, pattern in _PACKAGES.items() if re.match(pattern, op)), None)
        if package is None:
            raise InputError(
                f"--model {model} uses the op {op!r}, which is not registered. Specify the package that registers it "
                "with --op-package."
            )
        _import(package, f"--model {model} uses the op {op!r}, which the package {package} registers")
        if not is_registered_op(op):
            raise InputError(f"--model {model} uses the op {op!r}, which this release of {package} does not register.")


def _import(package: str, why: str) -> None:
    try:
        import_op_package(package)
    except ModuleNotFoundError as error:
        raise InputError(f"{why}: no module named {error.name!r}. Install it: pip install {package}") from error
    except Exception as error:  # TensorFlow raises its own errors for a library built for another release
        raise InputError(f"{why}: import failed: {type(error).__name__}: {error}") from error
