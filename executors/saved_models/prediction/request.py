"""What `generic-trainer predict` was asked for, looked over before TensorFlow is imported."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

from ...errors import InputError
from ...inputs.example_files import ExampleFile, find_example_files
from ...runtime.files import file_io
from ...runtime.files.artifact_layout import SERVING_DIRS
from ..locations import base_model_path

STDOUT = "-"
PUSHED = "serving"  # in a pipeline root
_SHOWN = 10  # names of what is in a folder
OUTPUT_ENDINGS = (".jsonl", ".csv", ".tfrecord", ".tfrecord.gz")


@dataclasses.dataclass(frozen=True)
class PredictionRequest:
    """A model, the examples to put to it, and where its answers go.

    Attributes:
      model: Folder of a SavedModel.
      files: The files of examples, in the order in which they are answered.
      output: A file whose name ends in one of OUTPUT_ENDINGS, or STDOUT for JSON lines there.
      signature: The signature to ask; None for `serving_default`, `predict`, or the only one.
      batch_size: How many examples are put to the model at once.
      op_packages: Packages to import first because they register TensorFlow ops.

    Raises:
      InputError: From the constructor, when the output is not usable.
    """

    model: str
    files: tuple[ExampleFile, ...]
    output: str
    signature: str | None = None
    batch_size: int = 512
    op_packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.output == STDOUT:
            return
        if not self.output.endswith(OUTPUT_ENDINGS):
            endings = ", ".join(OUTPUT_ENDINGS)
            raise InputError(f"--output {self.output}: its name must end in {endings}, or be - for standard output.")
        if file_io.isdir(self.output):
            raise InputError(f"--output {self.output} is a folder; give a file's name.")
        if os.path.realpath(self.output) in [os.path.realpath(file.path) for file in self.files]:
            raise InputError(f"--output {self.output} is one of the files with examples.")

    @classmethod
    def of(cls, model: str, examples: Sequence[str], output: str, **others: object) -> PredictionRequest:
        """Finds the model and the files first.

        Raises:
          InputError: When there is no SavedModel, no file matches, or the output is not usable.
        """
        return cls(find_model(model), tuple(find_example_files(examples)), output, **others)  # type: ignore[arg-type]


def find_model(folder: str) -> str:
    """Returns the folder of the SavedModel that a person means by a folder.

    That is what `locations.base_model_path` finds in it, or else in the newest of its sub-folders that are called by a
    number, as the Pusher and the Trainer component leave them. In a pipeline root, that is the newest pushed model.

    Raises:
      InputError: When there is none; it lists what the folder holds.
    """
    for place in _places(folder):
        with contextlib.suppress(InputError):
            return base_model_path(place)
    if not file_io.isdir(folder):
        raise InputError(f"--model {folder}: there is no such folder.")
    raise InputError(
        f"--model {folder}: no SavedModel in it, nor in its {', '.join(SERVING_DIRS)}, export/NAME/TIMESTAMP, model, "
        f"{PUSHED}, or a folder called by a number. It holds {_listed(folder)}."
    )


def _places(folder: str) -> Iterator[str]:
    yield folder
    for place in (folder, os.path.join(folder, PUSHED)):
        if file_io.isdir(place):
            versions = [name for name in file_io.listdir(place) if name.isdigit()]
            yield from (os.path.join(place, name) for name in sorted(versions, key=int, reverse=True))


def _listed(folder: str) -> str:
    names = file_io.listdir(folder)
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])]) or "nothing"
