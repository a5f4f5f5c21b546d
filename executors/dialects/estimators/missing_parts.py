"""Lists what a module with an Estimator lacks for training and export, each with the lines to add."""

from __future__ import annotations

from collections.abc import Callable

LABELS = ("LABEL_KEY", "_LABEL_KEY", "label_key", "LABEL")

_INPUT_FN = """\
    def {name}(file_pattern, batch_size=32):
        examples = tf.data.TFRecordDataset(tf.io.gfile.glob(file_pattern), "GZIP").batch(batch_size)
        return examples.map(parse)  # to (features by name, label)"""
_LABEL = '    LABEL_KEY = "…"  # the feature with the label'
_RECEIVER_FN = """\
    def serving_input_receiver_fn():
        spec = {"…": tf.io.FixedLenFeature([1], tf.float32)}  # each feature, without the label
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)()"""
_SCHEMA = "so it needs the schema of the examples. Set the schema of the run"


def missing_parts(defines: Callable[[str], bool], has_schema: bool, has_label: bool) -> list[str]:
    """Returns descriptions of all missing parts, each followed by the lines to add.

    Args:
      defines: Whether the module defines a name.
      has_schema: Whether the run has a schema or a transform graph to parse the examples with.
      has_label: Whether the label's name is known.
    """
    inputs = [name for name in ("train_input_fn", "eval_input_fn") if defines(name)]
    has_input = defines("input_fn") or len(inputs) == 2
    found = []
    if inputs and not has_input:
        other = "eval_input_fn" if inputs == ["train_input_fn"] else "train_input_fn"
        found.append(f"It defines {inputs[0]}, but neither {other} nor input_fn. Add:\n{_INPUT_FN.format(name=other)}")
    elif not has_input and not has_label:
        found.append(
            "It has no input_fn. To read the examples by their schema, it needs the label's feature name. Set "
            f"label_key in params or custom_config, or add:\n{_LABEL}"
        )
    if not inputs and not has_input and not has_schema:
        found.append(f"It has no input_fn, {_SCHEMA}, or add:\n{_INPUT_FN.format(name='input_fn')}")
    if not defines("serving_input_receiver_fn") and not has_schema:
        found.append(f"It has no serving_input_receiver_fn, {_SCHEMA}, or add:\n{_RECEIVER_FN}")
    return found
