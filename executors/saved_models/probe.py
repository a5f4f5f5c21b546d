"""Subprocess that loads a SavedModel and runs one of its signatures; see `check.py`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from ..compat.tensorflow import parse_saved_model
from ..errors import InputError, ModelCheckError
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import closest_names
from ..options import BATCHES, CHECKS
from ..runtime.logs.exceptions import one_line_message
from . import probe_examples
from .batch_dependence import compare_in_batch
from .custom_ops import needed_packages
from .feeding import Feeding, feeding_of
from .fitting_examples import kind_for
from .input_names import feature_for
from .missing_files import missing_files
from .op_package_imports import import_op_package
from .prediction.arrays import input_array
from .probe_examples import Example
from .sample_input import features_of
from .signatures import dtype_of, signature_in
from .tensor_values import UnreadableTensorError, all_finite, excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorflow.core.protobuf import meta_graph_pb2

    from .batch_dependence import Feed
    from .check import ProbeReport, ProbeRequest, SignatureTensors
    from .sample_input import Value
    from .signatures import LoadedModel, ServedSignature
    from .tensor_values import Tensor

_INTERNAL_SIGNATURES = ("__saved_model_init_op", "__saved_model_train_op")
_NO_MEMORY = (MemoryError, tf.errors.ResourceExhaustedError)  # not a fault of the model
_UNREGISTERED = "not registered"  # in TensorFlow's message about an unknown op
_INTERRUPTED = (
    "Writing it was interrupted, for example by a full disk or a killed process, or a file was lost. Save it again."
)
_TIMED_SECONDS, _TIMED_CALLS = 0.25, 200  # limits of the latency measurement; the first one reached ends it


def execute(request: ProbeRequest) -> ProbeReport:
    """Entry point of the subprocess: runs the checks that `check.check_saved_model` requests."""
    shown, skip = request["shown_as"], request["skip"]
    checks = {name: "skipped" if name in skip else "passed" for name in CHECKS} | {BATCHES: "skipped"}
    meta_graph = _parse(request["model"], shown)
    ops = [op.name for op in meta_graph.meta_info_def.stripped_op_list.op]
    op_packages = needed_packages(ops, request["op_packages"])
    missing = _import_op_packages(op_packages)
    signatures = _signatures(meta_graph)
    if "signatures" not in skip:
        _require_signatures(signatures, request["required_signatures"], shown)
    report: ProbeReport = {"checks": checks, "signatures": signatures, "example": "none", "answer": {}}
    report["op_packages"] = op_packages
    if "loads" in skip:
        checks["answers"] = checks["finite"] = "skipped"
        return report
    try:
        model = _load(request["model"], meta_graph, shown)
    except ModelCheckError as error:
        if not missing or _UNREGISTERED not in str(error):
            raise
        checks["loads"] = f"could not be run: {missing}"
        checks["answers"] = checks["finite"] = "skipped"
        return report
    if "finite" not in skip:
        checks["finite"] = _finite_variables(model, shown)
    name = _signature_to_run(model.signatures, request["required_signatures"])
    if "answers" in skip or name is None:
        checks["answers"] = "skipped"
        return report
    served = _served(meta_graph, name, request["transform_graph_path"])
    run = _run_signature(model.signatures[name], served, request)
    report["example"] = run.example.source
    if run.problem:
        checks["answers"] = f"could not be run: {run.problem}"
        return report
    if "finite" not in skip and (outcome := _finite_answer(run, name, shown)) != "passed":
        checks["finite"] = outcome
    report["answer"] = {name: excerpt(run.answer[name]) for name in sorted(run.answer)}  # TensorFlow's order is random
    if BATCHES not in skip:
        comparison = compare_in_batch(model.signatures[name], run.feeds, run.answer)
        checks[BATCHES], report["batch_dependence"] = comparison.outcome, comparison.dependence
    report["inputs"] = {name: excerpt(values) for name, values in sorted(run.example.features.items())}
    return {**report, "asked": name, "fed": run.fed, "latency": _latency(run.repeat)}


def _import_op_packages(packages: Mapping[str, Sequence[str]]) -> str:
    """Imports packages that register ops; returns the import errors as text, or "".

    A failed import does not fail the check: the model may load without the package.
    """
    problems = []
    for package, files in packages.items():
        try:
            import_op_package(package, files)
        except Exception as error:
            problems.append(f"{package} cannot be imported: {type(error).__name__}: {one_line_message(error)}")
            logging.warning("The model check continues without a package: %s", problems[-1])
    return "; ".join(problems)


def _parse(model: str, shown: str) -> meta_graph_pb2.MetaGraphDef:
    """Returns the meta graph with the tag "serve"."""
    saved_model = saved_model_pb2.SavedModel()
    path = os.path.join(model, "saved_model.pb")
    if not tf.io.gfile.exists(path):
        saved_model = parse_saved_model(model)  # reads the .pbtxt form
    else:
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
        if not content:
            raise _failed("parses", shown, f"saved_model.pb is empty (0 bytes). {_INTERRUPTED}")
        try:
            saved_model.ParseFromString(content)
        except DecodeError as error:
            what = f"saved_model.pb ({len(content):,} bytes) is truncated or corrupted: {error}"
            raise _failed("parses", shown, what) from error
    for meta_graph in saved_model.meta_graphs:
        if "serve" in meta_graph.meta_info_def.tags:
            return meta_graph
    tags = [list(meta_graph.meta_info_def.tags) for meta_graph in saved_model.meta_graphs]
    raise _failed("parses", shown, f"none of its graphs has the tag 'serve'; their tags are {tags}")


def _signatures(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, SignatureTensors]:
    def described(tensors: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, str]:
        return {name: _describe(info) for name, info in sorted(tensors.items())}

    return {
        name: {"inputs": described(definition.inputs), "outputs": described(definition.outputs)}
        for name, definition in sorted(meta_graph.signature_def.items())
        if name not in _INTERNAL_SIGNATURES
    }


def _describe(info: meta_graph_pb2.TensorInfo) -> str:
    sizes = "?" if info.tensor_shape.unknown_rank else [d.size if d.size >= 0 else "?" for d in info.tensor_shape.dim]
    shape = sizes if sizes == "?" else f"({', '.join(map(str, sizes))})"
    return f"{dtype_of(info)} {shape}"


def _require_signatures(signatures: Mapping[str, object], required: list[str], shown: str) -> None:
    if not signatures:
        raise _failed("signatures", shown, "it has no signatures. Pass signatures={...} when saving it")
    missing = [name for name in required if name not in signatures]
    if missing:
        raise _failed("signatures", shown, f"it lacks {', '.join(missing)}; it has {', '.join(signatures)}")


def _load(model: str, meta_graph: meta_graph_pb2.MetaGraphDef, shown: str) -> LoadedModel:
    try:
        loaded: LoadedModel = tf.saved_model.load(model, tags=list(meta_graph.meta_info_def.tags))
        return loaded
    except _NO_MEMORY:
        raise
    except Exception as error:  # TensorFlow raises whatever the broken part of it raises
        said = f"{type(error).__name__}: {error}"
        if missing := missing_files(model, meta_graph):
            raise _failed("loads", shown, f"{'; '.join(missing)}. {_INTERRUPTED} TensorFlow: {said}") from error
        raise _failed("loads", shown, f"a fresh process cannot load it: {said}") from error


def _finite_variables(model: LoadedModel, shown: str) -> str:
    """Returns "passed", or why a variable of the signatures cannot be tested; raises ModelCheckError for NaN."""
    used = {id(variable): variable for signature in model.signatures.values() for variable in signature.variables}
    odd, problem = _tested((f"variable {variable.name} {variable.shape}", variable) for variable in used.values())
    if odd:
        raise _failed("finite", shown, f"its {odd} contains NaN or infinity")
    return f"is inconclusive: its {problem}" if problem else "passed"


def _finite_answer(run: _SignatureRun, name: str, shown: str) -> str:
    """Returns "passed", or why the answer is inconclusive; raises ModelCheckError for NaN."""
    odd, problem = _tested(run.answer.items())
    if not odd:
        return f"is inconclusive: its output {problem}" if problem else "passed"
    what = f"{name!r} returns {odd}=[{', '.join(map(str, excerpt(run.answer[odd])))}] for {run.example.source}"
    if run.example.is_certain:
        raise _failed("finite", shown, what)
    return f"is inconclusive: {what}"


def _tested(tensors: Iterable[tuple[str, Tensor]]) -> tuple[str, str]:
    """Returns the name of the first tensor with NaN or infinity, or "", and why one cannot be tested, or ""."""
    problem = ""
    for name, tensor in tensors:
        try:
            if not all_finite(tensor):
                return name, ""
        except UnreadableTensorError as error:
            problem = problem or f"{name}: {error}"
    return "", problem


def _signature_to_run(signatures: Mapping[str, object], required: list[str]) -> str | None:
    wanted = ("serving_default", *required, "predict", *sorted(signatures))
    return next((name for name in wanted if name in signatures), None)


def _served(meta_graph: meta_graph_pb2.MetaGraphDef, name: str, transform_graph: str | None) -> ServedSignature:
    try:
        return signature_in(meta_graph, name, transform_graph)
    except (OSError, ValueError) as error:  # a fault of the Transform graph, not of the model
        logging.warning("The Transform graph in %s cannot be read: %s", transform_graph, one_line_message(error))
        return signature_in(meta_graph, name)


@dataclasses.dataclass(frozen=True)
class _SignatureRun:
    """The result of running a signature.

    Attributes:
      example: The example, or the last one that was tried.
      answer: {output: tensor}; {} after a problem.
      feeds: {source: inputs} of the call, then those for other examples.
      problem: Why no example could be used, or why the model failed on a synthetic one; "" on success.
      fed: The source of each input, with the reason, in words; see `Feeding.line`.
      repeat: Repeats the call with the same inputs.
    """

    example: Example
    answer: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    feeds: Mapping[str, Feed] = dataclasses.field(default_factory=dict)
    problem: str = ""
    fed: str = ""
    repeat: Callable[[], object] = dict


def _run_signature(
    function: tf.types.experimental.ConcreteFunction, signature: ServedSignature, request: ProbeRequest
) -> _SignatureRun:
    """Runs a signature on the first of the available examples that it accepts.

    Raises:
      ModelCheckError: If the model fails on a real example that fits its signature.
    """
    specs = function.structured_input_signature[1]
    problem = "there is no example to run it on"
    for example in _examples(request, signature):
        try:
            feeding = _feeding(signature, example)
            tensors = _tensors(specs, feeding, example)
        except InputError as error:
            problem = str(error)
            continue
        if feeding.is_assumed:
            example = dataclasses.replace(example, source=f"{example.source}; {feeding.line()}", is_certain=False)
        try:
            call = functools.partial(function, **tensors)
            feeds = {example.source: tensors, **_other_feeds(specs, feeding, example)}
            return _SignatureRun(example, call(), feeds, fed=feeding.line(), repeat=call)
        except _NO_MEMORY:
            raise
        except Exception as error:  # a traced function raises whatever is in it
            problem = f"{type(error).__name__}: {one_line_message(error)}"
            if example.is_certain:
                text = f"its signature {signature.name!r} fails on {example.source}: {type(error).__name__}: {error}"
                raise _failed("answers", request["shown_as"], text) from error
    return _SignatureRun(example, problem=problem)


def _latency(call: Callable[[], object]) -> dict[str, float]:
    """Measures the latency of a call that has been made once before; returns {} if a repeated call raises.

    Calls for 0.25 seconds, at most 200 times. Returns `median` and `p90` in seconds, and the number of `calls`.
    """
    took: list[float] = []
    end = time.perf_counter() + _TIMED_SECONDS
    while not took or (len(took) < _TIMED_CALLS and time.perf_counter() < end):
        begin = time.perf_counter()
        try:
            call()
        except Exception:  # a stateful model; repeated calls are not part of the check
            return {}
        took.append(time.perf_counter() - begin)
    p90 = sorted(took)[math.ceil(0.9 * len(took)) - 1]
    return {"median": round(statistics.median(took), 7), "p90": round(p90, 7), "calls": len(took)}


def _examples(request: ProbeRequest, signature: ServedSignature) -> Iterator[Example]:
    """Yields examples to try: real ones first, then the sample input, a synthetic example, and zeros."""
    yield from _real_examples(request, signature)
    if sample := request["example"]:
        first, *others = (
            Example(f"example {number} from {sample['source']} on", b"", features, is_certain=False, is_real=False)
            for number, features in enumerate(features_of(sample), 1)
        )
        yield dataclasses.replace(first, source=sample["source"], others=tuple(others))
    synthetic = probe_examples.from_schema(request["schema_path"], request["transform_graph_path"])
    if synthetic is not None:
        yield synthetic
    yield Example("an input of zeros", b"", {}, is_certain=False, is_real=False)


def _real_examples(request: ProbeRequest, signature: ServedSignature) -> Iterator[Example]:
    """Yields the first eval examples, if there is a Transform graph in the form that the signature takes."""
    payload = request["examples_format"]["payload"]
    real = probe_examples.first_examples(request["eval_files"], payload)
    if not request["transform_graph_path"]:
        yield from real
        return
    raw = probe_examples.first_examples(request["raw_eval_files"], payload)
    examples = {kind: some for kind, some in ((RAW, raw), (TRANSFORMED, real)) if some}
    kind, _ = kind_for(signature, {kind: some[0].dtypes for kind, some in examples.items()})
    for example in examples.get(kind, ()):
        # Examples of the other kind may fit too, if all features that the signature parses are optional.
        source = example.source.replace("eval example", f"{kind} eval example")
        yield dataclasses.replace(example, source=source, is_certain=False)


def _tensors(specs: Mapping[str, tf.TensorSpec], feeding: Feeding, example: Example) -> dict[str, tf.Tensor]:
    """Returns the input tensors for a signature; raises InputError if the example does not fit."""
    for name, spec in specs.items():
        if not isinstance(spec, tf.TensorSpec) or spec.dtype in (tf.variant, tf.resource):
            kind = f"a {type(spec).__name__} of {spec.dtype.name}"
            raise InputError(f"there is no example of the input {name!r}, which is {kind}")
    tensors = {name: _records(example.serialized, specs[name]) for name in feeding.records}
    for name, feature in feeding.features.items():
        try:
            if example.is_real:
                tensors[name] = _fitted(example.features.get(feature, ()), specs[name])
            else:
                zero: list[Value] = [b"" if specs[name].dtype == tf.string else 0]
                tensors[name] = _reshaped(example.features.get(feature, zero), specs[name])
        except (TypeError, ValueError) as error:
            raise InputError(f"feature {feature!r} does not match the signature's {specs[name]}: {error}") from error
    return tensors


def _other_feeds(specs: Mapping[str, tf.TensorSpec], feeding: Feeding, example: Example) -> dict[str, Feed]:
    feeds: dict[str, Feed] = {}
    for other in example.others:
        with contextlib.suppress(InputError):
            feeds[other.source] = _tensors(specs, feeding, other)
    return feeds


def _feeding(signature: ServedSignature, example: Example) -> Feeding:
    """Returns what the signature is fed; a sample input has values for the inputs, and zeros fit all but records."""
    if example.serialized:
        features = {name for row in (example, *example.others) for name in row.features} or None
        return feeding_of(
            signature, features, lambda: [name for name, dtype in example.dtypes.items() if dtype == "string"]
        )
    named = {served.name: feature_for(served.name, example.features) for served in signature.inputs}
    if missing := [name for name, feature in named.items() if example.features and feature is None]:
        known = closest_names(sorted(example.features), near=missing[0])
        raise InputError(f"the example has no feature {missing[0]!r}; it has {known}")
    if not example.features and signature.takes_examples:
        raise InputError("the signature takes serialized examples, but none is available")
    return Feeding(features={name: feature or name for name, feature in named.items()})


def _records(record: bytes, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.fill([size or 1 for size in spec.shape.as_list()] if spec.shape.rank is not None else [1], record)


def _fitted(values: Sequence[Value], spec: tf.TensorSpec) -> tf.Tensor:
    """Returns an example's values as the tensor that `predict` feeds; a fixed batch repeats the example."""
    array = input_array(pa.array([values]), spec)
    if spec.shape.rank == 0:
        return tf.constant(array[0], dtype=spec.dtype)
    return tf.constant(np.repeat(array, (spec.shape[0] or 1) if spec.shape.rank else 1, axis=0), dtype=spec.dtype)


def _reshaped(values: Sequence[Value], spec: tf.TensorSpec) -> tf.Tensor:
    """Returns values as a tensor of the spec's shape.

    Unknown sizes become 1, except the last of several, which becomes the number of values.
    """
    if spec.shape.rank is None:
        shape = [1, len(values)]
    else:
        shape = [size or 1 for size in spec.shape.as_list()]
        if spec.shape.rank > 1 and spec.shape[-1] is None:
            shape[-1] = max(len(values), 1)
    flat = np.asarray(values, dtype=object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)
    return tf.constant(np.resize(flat, shape), dtype=spec.dtype)


def _failed(check: str, shown: str, what: str) -> ModelCheckError:
    return ModelCheckError(
        f"The model in {shown} failed the check {check!r}: {what}. (To skip it: --skip-check {check}; "
        "skip_checks in Python.)"
    )
