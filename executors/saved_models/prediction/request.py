"""Arguments of `generic-trainer predict`, validated before TensorFlow is imported."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence

from ...errors import InputError
from ...inputs.example_files import find_example_files
from ...inputs.input_format import ExampleFile
from ...runtime.files import file_io
from ...runtime.files.artifact_layout import SERVING_DIRS
from ...runtime.files.output_file import is_stream
from ..base_model import base_model_path
from ..readable_files import first_problem

PUSHED = "serving"  # the push destination in a pipeline root
_SHOWN = 10  # maximum number of a folder's entries in an error
OUTPUT_ENDINGS = (".jsonl", ".csv", ".parquet", ".tfrecord", ".tfrecord.gz")


@dataclasses.dataclass(frozen=True)
class PredictionRequest:
    """A batch prediction: model, examples and output.

    Attributes:
      model: Folder of a SavedModel.
      files: Files of examples; predictions are in their order.
      output: A file name with one of the extensions in OUTPUT_ENDINGS, or STDOUT for JSON lines on standard output.
      signature: The signature to use; None for `serving_default`, `predict`, or the only one.
      batch_size: Examples in a batch; default 512. Ignored if the signature has a fixed batch size.
      op_packages: Packages to import first because they register TensorFlow ops.
      ids: Columns or features of the examples to write with each prediction.
      with_inputs: Whether to write all columns or features of the examples.
      thresholds, class_names: See `classes.PredictedClasses`.
      escape_formulas: Whether texts in CSV that a spreadsheet would run as a formula get a leading quote mark.

    Raises:
      InputError: From the constructor, if the output has another extension, is a folder, is one of the input files, or
        is not CSV although `escape_formulas` is set.
    """

    model: str
    files: tuple[ExampleFile, ...]
    output: str
    signature: str | None = None
    batch_size: int = 512
    op_packages: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    with_inputs: bool = False
    thresholds: Mapping[str, float] | None = None
    class_names: Mapping[str, Mapping[str, str | int]] | None = None
    escape_formulas: bool = False

    @property
    def joins(self) -> bool:
        """Whether columns of the examples are written beside the predictions."""
        return self.with_inputs or bool(self.ids)

    def __post_init__(self) -> None:
        if self.escape_formulas and not self.output.endswith(".csv"):
            raise InputError(
                f"--escape-formulas: --output {self.output} is not CSV, which spreadsheets open. Use a name that ends "
                "in .csv, or omit --escape-formulas."
            )
        if is_stream(self.output):
            return
        if not self.output.endswith(OUTPUT_ENDINGS):
            endings = ", ".join(OUTPUT_ENDINGS)
            raise InputError(f"--output {self.output}: its name must end in {endings}, or be - for standard output.")
        if file_io.isdir(self.output):
            raise InputError(f"--output {self.output} is a folder; specify a file.")
        if os.path.realpath(self.output) in [os.path.realpath(file.path) for file in self.files]:
            raise InputError(f"--output {self.output} is one of the input files.")

    @classmethod
    def of(cls, model: str, examples: Sequence[str], output: str, **others: object) -> PredictionRequest:
        """Creates a request after finding the model and the files.

        Args:
          model: A folder for `find_model`.
          examples: Patterns of files with examples.
          output: As the attribute.
          **others: Further attributes.

        Raises:
          InputError: If there is no SavedModel, or a file of it cannot be read; if no file matches; or if the output is
            not usable.
        """
        folder = find_model(model)
        if problem := first_problem(folder):
            raise InputError(f"--model {folder}: {problem}.")
        return cls(folder, tuple(find_example_files(examples)), output, **others)  # type: ignore[arg-type]


def find_model(folder: str) -> str:
    """Returns the folder of the SavedModel in a folder given by the user.

    Searches as `base_model_path` in the folder, then in its subfolder `serving`: in a pipeline root, this finds the
    newest pushed model.

    Raises:
      InputError: If there is none; lists the folder's content.
    """
    for place in (folder, os.path.join(folder, PUSHED)):
        with contextlib.suppress(InputError):
            return base_model_path(place)
    if not file_io.isdir(folder):
        raise InputError(f"--model {folder}: there is no such folder.")
    raise InputError(
        f"--model {folder}: no SavedModel in it, nor in its {', '.join(SERVING_DIRS)}, export/NAME/TIMESTAMP, model, "
        f"{PUSHED}, or a folder with a numeric name. It contains {_listed(folder)}."
    )


def _listed(folder: str) -> str:
    names = file_io.listdir(folder)
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])]) or "nothing"
