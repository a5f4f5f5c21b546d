"""Runs the steps of a tf.data pipeline again, so that its elements can be seen before and after them.

Private names of TensorFlow 2.15.1 to 2.21.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper

    Step: TypeAlias = Callable[[tf.data.Dataset], tf.data.Dataset]

_PYTHON_OPS = (b"PyFunc", b"PyFuncStateless")  # the end of EagerPyFunc, too


def element_pairs(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """Yields datasets of (element at an earlier place of a pipeline, the element of `dataset` that it becomes).

    The places are in order, from the source of the pipeline on. Functions of `map` and `filter`, `batch`,
    `padded_batch` and `unbatch` are repeated, so that both elements have the same number of rows. Steps that keep
    elements as they are, such as `shuffle`, `repeat`, `cache` and `take`, are left out. A dataset of several inputs, or
    one that is not known here, is the source.

    Nothing is yielded if Python code, such as a generator, produces the source: it may block or have side effects.
    """
    steps: list[Step] = []
    places: list[tuple[tf.data.Dataset, list[Step]]] = [(dataset, [])]
    place = _inner(dataset)
    while (above := _input_of(place)) is not None and (step := _step_of(place, above)) is not None:
        steps.insert(0, step)
        place = _inner(above)
        places.append((place, list(steps)))
    if not _runs_python(place):
        for start, repeated in reversed(places):
            both = start.map(lambda *parts: (_whole(parts), _whole(parts)))
            yield functools.reduce(lambda part, step: step(part), repeated, both)


def _whole(parts: tuple[object, ...]) -> object:
    return parts if len(parts) > 1 else parts[0]


def _inner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset in a `tf.compat.v1` dataset; others unchanged."""
    return getattr(dataset, "_dataset", dataset)


def _input_of(dataset: tf.data.Dataset) -> tf.data.Dataset | None:
    inputs = dataset._inputs()
    return inputs[0] if len(inputs) == 1 else None


def _functions_of(dataset: tf.data.Dataset) -> dict[str, StructuredFunctionWrapper]:
    from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper

    return {name: value for name, value in vars(dataset).items() if isinstance(value, StructuredFunctionWrapper)}


def _step_of(dataset: tf.data.Dataset, above: tf.data.Dataset) -> Step | None:
    """Returns a function that repeats the step from one dataset to the next on pairs; None if it is not known."""
    from tensorflow.python.data.ops.dataset_ops import UnaryUnchangedStructureDataset

    functions, kind = _functions_of(dataset), type(dataset).__name__
    if list(functions) == ["_map_func"] and functions["_map_func"].output_structure == dataset.element_spec:
        function = functions["_map_func"]
        return lambda pairs: pairs.map(lambda source, element: (source, _call(function, above.element_spec, element)))
    if list(functions) == ["_predicate"]:
        predicate = functions["_predicate"]
        return lambda pairs: pairs.filter(lambda _, element: _call(predicate, above.element_spec, element))
    if functions:
        return None
    if kind in ("_BatchDataset", "_ParallelBatchDataset"):
        return lambda pairs: pairs.batch(dataset._batch_size)
    if kind == "_PaddedBatchDataset":
        return lambda pairs: pairs.padded_batch(dataset._batch_size)
    if kind == "_UnbatchDataset":
        return lambda pairs: pairs.unbatch()
    if kind == "_RestructuredDataset":  # a part of `unbatch`
        return lambda pairs: pairs.map(lambda source, element: (source, _restructured(element, dataset.element_spec)))
    return (lambda pairs: pairs) if isinstance(dataset, UnaryUnchangedStructureDataset) else None


def _call(function: StructuredFunctionWrapper, spec: object, element: object) -> object:
    from tensorflow.python.data.util import structure

    answers = function.function(*structure.to_tensor_list(spec, element))
    return structure.from_compatible_tensor_list(function.output_structure, list(answers))


def _restructured(element: object, spec: object) -> object:
    import tensorflow as tf

    return tf.nest.pack_sequence_as(spec, tf.nest.flatten(element))


def _runs_python(dataset: tf.data.Dataset) -> bool:
    """Whether Python code produces the elements of a dataset or of one that it reads."""
    graphs = [function.function.graph.as_graph_def() for function in _functions_of(dataset).values()]
    return any(name in graph.SerializeToString() for graph in graphs for name in _PYTHON_OPS) or any(
        _runs_python(_inner(source)) for source in dataset._inputs()
    )
