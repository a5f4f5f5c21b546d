"""Trains on s3:// paths by local copies: TensorFlow reads and writes files there only through them.

    with local_copies(fn_args) as (local, outputs):  # inputs were downloaded
        with outputs.uploaded():
            train(module, local)  # outputs are uploaded, the model's saved_model.pb last

Inputs are copied before the training, so they must fit on the local disk. The model run, with checkpoints, logs and the
record, is uploaded every minute and at the end, also after a failure; an earlier one is downloaded first, so that a
training on another machine resumes from its checkpoint.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import os
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from ...errors import InputError
from ...fn_args import FnArgs
from ...monitoring import run_record
from ...runtime.files import file_io
from ...runtime.files.content_digests import Stamp, stamp_of
from ...runtime.files.object_store import is_in_store, object_store
from ...runtime.logs.exceptions import add_note, one_line_message
from ...runtime.quantities import size_text

_FILES = ("train_files", "eval_files")
_INPUTS = ("schema_path", "transform_graph_path", "base_model")
_UPLOAD_SECONDS = 60.0
_LAST = ("checkpoint", run_record.FILE_NAME, "saved_model.pb")  # readers take the others as complete when these exist


def needs_copies(fn_args: FnArgs) -> bool:
    """Whether a path of the arguments is in an object store that TensorFlow cannot read."""
    return any(map(is_in_store, _paths(fn_args)))


def require_single_machine(fn_args: FnArgs) -> None:
    """Raises an InputError: workers on other machines do not see local copies."""
    path = next(path for path in _paths(fn_args) if is_in_store(path))
    raise InputError(
        f"{path}: a cluster's workers need files that all of them see, and TensorFlow has no file system for this "
        "scheme. Mount the bucket as a folder, or train on one machine."
    )


@contextlib.contextmanager
def local_copies(fn_args: FnArgs) -> Iterator[tuple[FnArgs, UploadedOutputs]]:
    """Yields arguments with local paths instead of those in object stores, and the outputs to upload.

    If the upload fails, the local folder is kept, and the error's notes name it.

    Args:
      fn_args: The arguments.

    Raises:
      InputError: If a pattern matches no file.
      StorageError: If files cannot be copied.
    """
    key = hashlib.sha256("\n".join(_paths(fn_args)).encode()).hexdigest()[:16]
    # The same folder for the same paths: checkpoints are only resumed with the same arguments.
    folder = os.path.join(tempfile.gettempdir(), f"generic-trainer-copies-{key}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.lstat(folder).st_uid != os.getuid():  # the name can be guessed
        raise InputError(f"{folder} belongs to another user. Set TMPDIR to a folder of your own.")
    local = copy.copy(fn_args)
    inputs = _Downloads(os.path.join(folder, "inputs"))
    for name in _FILES:
        setattr(local, name, inputs.add_patterns(name, fn_args.get(name) or []))
    for name in _INPUTS:
        if (path := fn_args.get(name)) and is_in_store(path):
            setattr(local, name, inputs.add_below(name, path))
    local.schema_file, local.transform_output = local.schema_path, local.transform_graph_path
    if (view := fn_args.examples_format.data_view) and is_in_store(view):
        local.examples_format = dataclasses.replace(
            local.examples_format, data_view=inputs.add_below("data_view", view)
        )
    vars(local).pop("data_accessor", None)  # that of the format before
    inputs.download()
    outputs = UploadedOutputs(os.path.join(folder, "outputs"), local)
    try:
        yield local, outputs
    finally:
        shutil.rmtree(os.path.join(folder, "inputs") if outputs.is_incomplete else folder, ignore_errors=True)


def _paths(fn_args: FnArgs) -> list[str]:
    found = [path for name in _FILES for path in fn_args.get(name) or ()]
    found += [fn_args.examples_format.data_view, *(fn_args.get(name) for name in _INPUTS)]
    found += [fn_args.get(name) for name in ("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir")]
    return [path for path in found if path]


class _Downloads:
    """Objects to copy below a local folder, at the place that their URI names."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}

    def place(self, uri: str) -> str:
        """Returns the local path for a URI."""
        return os.path.join(self._folder, *uri.replace("://", "/").split("/"))

    def add_patterns(self, name: str, patterns: Sequence[str]) -> list[str]:
        """Adds the files that match patterns; returns local patterns."""
        local = []
        for pattern in patterns:
            if not is_in_store(pattern):
                local.append(pattern)
                continue
            found = file_io.glob(pattern)
            if not found:
                raise InputError(f"{name}: no file matches {pattern!r}. Check the path, or the split's name.")
            self._sizes |= {uri: file_io.size_of(uri) for uri in found}
            local.append(self.place(pattern))
        return local

    def add_below(self, name: str, uri: str) -> str:
        """Adds an object, or all objects below a folder; returns the local path."""
        store = object_store(uri.partition("://")[0])
        found = {one: status.length for one, status in store.find(uri)}
        if not found:
            raise InputError(f"{name}: {uri} does not exist.")
        self._sizes |= found
        return self.place(uri)

    def download(self) -> None:
        """Copies all added objects."""
        if not self._sizes:
            return
        space, needed = shutil.disk_usage(os.path.dirname(self._folder)).free, sum(self._sizes.values())
        if needed > space:
            raise InputError(
                f"the inputs have {size_text(needed)}, and {size_text(space)} are free in {self._folder}. TensorFlow "
                "reads s3:// from local copies only: set TMPDIR to a larger disk, or mount the bucket as a folder."
            )
        logging.info("Copying %d input files (%s) from the object store.", len(self._sizes), size_text(needed))
        shutil.rmtree(self._folder, ignore_errors=True)
        for uri in self._sizes:
            _download(uri, self.place(uri))


def _download(uri: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    file_io.copy(uri, place)


class UploadedOutputs:
    """The local folders of a run's outputs, and where they are uploaded to.

    Args:
      folder: Local folder.
      local: The arguments, whose output folders are replaced by local ones.

    Attributes:
      is_incomplete: Whether the last upload failed or was interrupted, or there was none yet.
    """

    def __init__(self, folder: str, local: FnArgs) -> None:
        self._folder, self.is_incomplete = folder, True
        self._targets: dict[str, str] = {}  # {local folder: URI}
        self._uploaded: dict[str, Stamp] = {}  # {local file: its stamp at the last upload}
        for name in ("eval_model_dir", "serving_model_dir", "checkpoint_dir", "model_run_dir"):  # order of the upload
            if (uri := local.get(name)) and is_in_store(uri):
                place = os.path.join(folder, *uri.replace("://", "/").split("/"))
                setattr(local, name, place)
                self._targets[place] = uri.rstrip("/")
        # Without these, a training on another machine could not resume, and the history would lose earlier runs.
        models = (local.serving_model_dir, local.eval_model_dir)
        self._kept = [place for place in self._targets if place not in models]

    @contextlib.contextmanager
    def uploaded(self) -> Iterator[None]:
        """Uploads the model run from time to time, and all folders when the block ends, even if it raises."""
        for place in self._targets:  # the finished model of a killed run is beside these, see `saved_models.staging`
            shutil.rmtree(place, ignore_errors=True)
        for place in self._kept:
            self._download_earlier(place)
        ended = threading.Event()
        thread = threading.Thread(target=self._upload_until, args=(ended,), name="upload", daemon=True)
        thread.start()
        try:
            yield
        except BaseException as error:
            ended.set()
            thread.join()
            try:
                self._upload(self._kept)
                self.is_incomplete = False
            except Exception as other:  # must not hide the original exception
                add_note(error, f"the model run could not be uploaded ({one_line_message(other)}): see {self._folder}.")
            raise
        ended.set()
        thread.join()
        try:
            self._upload(self._targets)
            self.is_incomplete = False
        except BaseException as error:
            add_note(error, f"the complete outputs of the training are in {self._folder}.")
            raise

    def _download_earlier(self, place: str) -> None:
        target = self._targets[place]
        for uri, _ in object_store(target.partition("://")[0]).find(target):
            file = os.path.join(place, *posixpath.relpath(uri, target).split("/"))
            _download(uri, file)
            self._uploaded[file] = stamp_of(file) or ()

    def _upload_until(self, ended: threading.Event) -> None:
        while not ended.wait(_UPLOAD_SECONDS):
            try:
                self._upload(self._kept)
            except Exception as error:  # tried again after a minute, and at the end
                logging.warning("The model run could not be uploaded: %s", one_line_message(error))

    def _upload(self, places: Iterable[str]) -> None:
        for place in places:
            if place not in self._kept and os.path.isdir(place):
                file_io.rmtree(self._targets[place])  # an earlier model must not look complete meanwhile
            files = [os.path.join(base, name) for base, _, names in os.walk(place) for name in names]
            gone = [path for path in self._uploaded if path.startswith(f"{place}{os.sep}") and not os.path.exists(path)]
            for path in sorted(files, key=lambda path: (os.path.basename(path) in _LAST, path)):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, as old checkpoints are
                    stamp = stamp_of(path) or ()
                    if self._uploaded.get(path) != stamp:
                        file_io.copy(path, self._uri(place, path))
                        self._uploaded[path] = stamp
            for path in gone:
                file_io.file_system(self._targets[place]).remove(self._uri(place, path))
                del self._uploaded[path]

    def _uri(self, place: str, path: str) -> str:
        return posixpath.join(self._targets[place], *os.path.relpath(path, place).split(os.sep))
