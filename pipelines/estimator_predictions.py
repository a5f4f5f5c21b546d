"""Which of an Estimator's outputs the Evaluator has to look at, read off the module's source.

A ready-made classifier answers with probabilities, logits, classes and more, and metrics want one of them. Which one
follows from its class and its head; for a `model_fn` of the module's own, from the dict that it exports. A class may
be called, or only named, as DLRover's confs do it; what its call leaves to `params` is looked for in the file's dicts.

    predictions_of(["taxi_estimator.py"])  # Predictions(task="binary", key="logistic", labelled=True)
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..executors.estimator_use import estimator_use
from ..executors.module_source import imports_in, parsed

_READY_MADE = re.compile(r"^(DNN|Linear|DNNLinearCombined|Baseline|RNN)(Classifier|Regressor)(V2)?$")
_HEADS = {
    "BinaryClassHead": ("binary", "logistic"),
    "MultiClassHead": ("multiclass", "probabilities"),
    "LogisticRegressionHead": ("regression", "predictions"),
    "PoissonRegressionHead": ("regression", "predictions"),
    "RegressionHead": ("regression", "predictions"),
}
# DeepCTR's Estimators are functions that make one, with a head of DeepCTR's own.
_DEEPCTR = "deepctr"
_OF_DEEPCTR = {task: (task, "pred") for task in ("binary", "regression")}
# In a dict of a module's own, the first of these is what metrics are computed from.
_KEYS = ("logistic", "probabilities", "probability", "predictions", "prediction", "scores", "score", "pred", "prob")
_RECEIVER = "eval_input_receiver_fn"


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What is known of an Estimator's answers before it exists.

    Attributes:
      task: "binary", "multiclass" or "regression"; "unknown" when only the loss can tell.
      key: The output to evaluate, or "" for the only one.
      labelled: Whether the module says by `eval_input_receiver_fn` how to get from a raw example to its label.
    """

    task: str
    key: str
    labelled: bool


def predictions_of(files: Sequence[str]) -> Predictions | None:
    """Returns what an Estimator in these source files predicts, or None when there is no Estimator in them."""
    if not any(estimator_use(file) for file in files):
        return None
    nodes = [node for file in files for node in ast.walk(parsed(file))]
    constants = {name: value for node in nodes for name, value in _constants(node)}
    labelled = any(_gives_receiver(node) for node in nodes)
    of_deepctr = any(name.partition(".")[0] == _DEEPCTR for file in files for _, name in imports_in(file))
    calls = (_by_class(node, constants, of_deepctr) for node in nodes if isinstance(node, ast.Call))
    names = (_by_name(node, constants) for node in nodes)
    for found in filter(None, itertools.chain(calls, names)):
        return Predictions(*found, labelled)
    own = {key for node in nodes for key in _exported_keys(node)}
    return Predictions("unknown", next((key for key in _KEYS if key in own), ""), labelled)


def _by_class(call: ast.Call, constants: dict[str, Any], of_deepctr: bool) -> tuple[str, str] | None:
    name = _last_name(call.func)
    if name in _HEADS:
        return _HEADS[name]
    given = {keyword.arg: _value(keyword.value, constants) for keyword in call.keywords}
    if of_deepctr and name.endswith("Estimator"):
        return _OF_DEEPCTR.get(given.get("task", "binary"))
    # With **params, the number may be among these.
    return _ready_made(name, given.get("n_classes", constants.get("n_classes", 2) if None in given else 2))


def _by_name(node: ast.AST, constants: dict[str, Any]) -> tuple[str, str] | None:
    """As _by_class for a class that something else calls, such as `classifier_class` in a conf."""
    return _ready_made((_text(node) or _last_name(node)).rpartition(".")[2], constants.get("n_classes", 2))


def _ready_made(name: str, classes: Any) -> tuple[str, str] | None:
    if not (match := _READY_MADE.match(name)):
        return None
    if match[2] == "Regressor":
        return _HEADS["RegressionHead"]
    return _HEADS["BinaryClassHead" if classes == 2 else "MultiClassHead"]


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Returns what is written out, or what a constant of the module's or an entry of its dicts stands for."""
    if isinstance(node, ast.Constant):
        return node.value
    name = _text(node.slice) if isinstance(node, ast.Subscript) else None
    return constants.get(name or _last_name(node))


def _constants(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yields names and values: of `N = 3`, and of the entries of `{"n_classes": 3, "task": "binary"}`."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        for target in node.targets:
            yield _last_name(target), node.value.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if (name := _text(key)) and isinstance(value, ast.Constant):
                yield name, value.value


def _gives_receiver(node: ast.AST) -> bool:
    """Returns whether a node hands over an `eval_input_receiver_fn`: as a dict's entry, or as an argument."""
    if isinstance(node, ast.Dict):
        pairs = [(_text(key), value) for key, value in zip(node.keys, node.values, strict=True)]
    elif isinstance(node, ast.Call):
        pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
    else:
        return False
    return any(name == _RECEIVER and not _is_none(value) for name, value in pairs)


def _exported_keys(node: ast.AST) -> Iterator[str]:
    """Yields the keys of a dict of predictions: `predictions = {…}`, `predictions={…}`, `PredictOutput({…})`."""
    if isinstance(node, ast.Assign):
        values = [node.value] if any("prediction" in _last_name(target) for target in node.targets) else []
    elif isinstance(node, ast.keyword):
        values = [node.value] if node.arg == "predictions" else []
    elif isinstance(node, ast.Call) and _last_name(node.func) == "PredictOutput":
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
    else:
        return
    for value in values:
        if isinstance(value, ast.Dict):
            yield from filter(None, map(_text, value.keys))


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
