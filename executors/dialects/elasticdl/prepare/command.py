"""Data preparation: runs an ElasticDL model file's `prepare_data_for_a_single_file` over a directory tree.

Groups of files are prepared in parallel with Beam, on this machine or on a cluster with access to the same paths.

Usage:

    outcome = prepare(PreparationJob("zoo/mnist.py", input="images", output="records", workers=4))
    outcome.records, outcome.bad_files
"""

from __future__ import annotations

import dataclasses
import os
import posixpath
import tempfile

from ....engines import child_process
from ....errors import InputError, TrainerError
from ....modules.source import find_source
from ....number_range import POSITIVE, STEPS, NumberRange
from ....runtime.files import file_io
from ....runtime.logs.exceptions import RemoteTraceback
from ....runtime.process.surroundings import require_shared_memory
from ...needs import choose_keras
from .manifest import Manifest

FUNCTION = "prepare_data_for_a_single_file"
TF_RECORD, RECORD_IO = "tfrecord", "recordio"
FORMATS = (TF_RECORD, RECORD_IO)
_PIPELINE = f"{__package__}.pipeline"
_SHARE = NumberRange(0, 1, is_whole=False)


class BadFilesError(TrainerError):
    """Raised when preparation failed for more files than `max_bad` allows."""

    exit_code = 1


@dataclasses.dataclass(frozen=True)
class PreparationJob:
    """The options of a preparation job.

    Attributes:
      module: The model file.
      input: The input directory; all files below it are prepared, except paths with a component that starts with ".".
      output: The directory for the shards.
      records_per_shard: The maximum number of records per shard, and the number of files per group; at least 1.
      format: One of FORMATS.
      max_bad: The number of files that may fail ("10"), or, with a decimal point, a fraction of all files ("0.01").
      workers: The number of local processes; 0 for one per core. Never more than there are groups of files.
      beam_args: Additional Beam arguments, such as "--runner=DataflowRunner".
    """

    module: str
    input: str
    output: str
    records_per_shard: int = 1024
    format: str = TF_RECORD
    max_bad: str = "0.01"
    workers: int = 0
    beam_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not POSITIVE.includes(self.records_per_shard):
            raise InputError(f"records_per_shard={self.records_per_shard!r}: give {POSITIVE}.")
        if self.format not in FORMATS:
            raise InputError(f"format={self.format!r}: must be one of {', '.join(FORMATS)}.")
        self.allowed_bad(0)

    def allowed_bad(self, files: int) -> int:
        """Returns how many of `files` files may fail.

        "0.01" allows 2 of 250 files, "10" allows 10 of any number of files.

        Raises:
          InputError: When `max_bad` is neither a number of files nor a fraction between 0 and 1.
        """
        share = _SHARE.parse(self.max_bad) if "." in self.max_bad else None
        count = STEPS.parse(self.max_bad) if share is None else share * files
        if count is None:
            raise InputError(f"max_bad={self.max_bad!r}: must be a number of files (10) or a fraction of them (0.01).")
        return int(count)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The state of an output directory after a call of `prepare`.

    Attributes:
      files: The number of input files.
      prepared: The number of input files that this call processed.
      records: The total number of records, including those of earlier calls.
      shards: The total number of shards.
      bad: The number of input files that failed.
      bad_files: The path of the JSON lines file that lists these with their errors.
    """

    files: int
    prepared: int
    records: int
    shards: int
    bad: int
    bad_files: str


def prepare(job: PreparationJob) -> Outcome:
    """Prepares all files that have not been prepared by an earlier call.

    Raises:
      InputError: When there are no input files, or the output directory was started with other options.
      ModuleError: When the model file is missing, or does not define `prepare_data_for_a_single_file`.
      BadFilesError: When more files failed than allowed; its cause has the traceback of the first one.
    """
    require_shared_memory()
    files = _files(job)
    manifest = Manifest(job.output)
    settings = {"input": job.input, "records_per_shard": job.records_per_shard, "format": job.format}
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        source = find_source(job.module, scratch)
        groups = manifest.plan(files, job.records_per_shard, settings)
        if groups:
            keras = choose_keras("auto", source.files)
            request = {
                "job": dataclasses.asdict(job),
                "groups": [dataclasses.asdict(group) for group in groups],
                "allowed_bad": job.allowed_bad(len(files)),
            }
            child_process.run(_PIPELINE, request, environment=keras.environment(), what="preparation")
    bad = manifest.list_bad_files()
    results = [result for _, result in manifest.results()]
    if len(bad) > (allowed := job.allowed_bad(len(files))):
        raise _bad_files_error(job, bad, allowed, len(files), manifest.bad_files)
    return Outcome(
        files=len(files),
        prepared=sum(len(group.files) for group in groups),
        records=sum(result.records for result in results),
        shards=sum(len(result.shards) for result in results),
        bad=len(bad),
        bad_files=manifest.bad_files,
    )


def _files(job: PreparationJob) -> list[str]:
    if not file_io.isdir(job.input):
        raise InputError(f"input={job.input}: there is no such folder.")
    inside = os.path.relpath(job.output, job.input)
    files = sorted(
        file
        for file in file_io.files_below(job.input)
        if not any(part.startswith(".") for part in file.split("/")) and not file.startswith(f"{inside}/")
    )
    if not files:
        raise InputError(f"input={job.input}: there are no files in this folder.")
    return files


def _bad_files_error(
    job: PreparationJob, bad: list[dict[str, str]], allowed: int, files: int, listed: str
) -> BadFilesError:
    first = bad[0]
    error = BadFilesError(
        f"{posixpath.join(job.input, first['file'])}: {first['error']}. At least {len(bad)} of {files} files failed, "
        f"and max_bad={job.max_bad} allows {allowed}; {listed} lists them. Prepared files are kept: fix the input "
        f"files or {FUNCTION}, and run the command again."
    )
    error.__cause__ = RemoteTraceback(first["traceback"])
    return error
