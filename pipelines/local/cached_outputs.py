"""Verifies the outputs of a pipeline's steps before TFX takes them from its cache.

    with verified(dag):       # damaged outputs of earlier runs are named, and their steps run again
        runner.run(dag)       # afterwards, the digests of the new outputs are recorded in the root

TFX only checks that the folder of an output exists. Each later run would fail, or train on damaged examples.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping

import ml_metadata as mlmd
from absl import logging
from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration import pipeline

from ...executors.monitoring import run_record
from ...executors.runtime.files import file_io
from ...executors.runtime.files.content_digests import digests_in

FILE_NAME = "generic_trainer_outputs.json"
_LIVE, _ABANDONED = metadata_store_pb2.Artifact.LIVE, metadata_store_pb2.Artifact.ABANDONED
_LISTED = 3  # damaged outputs in a warning
# Reports are written again by later runs, and TensorBoard adds files to the logs.
_VERIFIED_FILES = {"model_run": (run_record.FILE_NAME,)}

Files = dict[str, str]  # digests by path relative to the output's folder


@contextlib.contextmanager
def verified(dag: pipeline.Pipeline) -> Iterator[None]:
    """Abandons damaged outputs before the block, and records the outputs after it, also if it raises."""
    outputs = _Outputs(dag)
    outputs.abandon_damaged()
    try:
        yield
    finally:
        outputs.record()


class _Outputs:
    """The outputs of a pipeline's steps in its root.

    Args:
      dag: The pipeline.
    """

    def __init__(self, dag: pipeline.Pipeline) -> None:
        self._root = os.path.realpath(dag.pipeline_info.pipeline_root)
        self._name = dag.pipeline_info.pipeline_name
        self._config = dag.metadata_connection_config
        self._digests = digests_in(self._root)
        self._path = os.path.join(self._root, FILE_NAME)
        self._recorded = _read(self._path)

    def abandon_damaged(self) -> None:
        """Marks damaged outputs in ML Metadata, so that neither the cache nor a Resolver returns them."""
        store = mlmd.MetadataStore(self._config)
        damaged = {}
        for name, artifact in self._live(store).items():
            if problem := self._problem(artifact.uri, self._recorded.get(name, {})):
                damaged[f"{name} ({problem})"] = artifact
                artifact.state = _ABANDONED
        if damaged:
            store.put_artifacts(list(damaged.values()))
            more = f" and {len(damaged) - _LISTED} more" if len(damaged) > _LISTED else ""
            logging.warning(
                "Cached outputs are damaged: %s%s. Their steps run again.", ", ".join([*damaged][:_LISTED]), more
            )

    def record(self) -> None:
        """Records the digests of new outputs. After an error, later runs reuse them without verification."""
        try:
            live = self._live(mlmd.MetadataStore(self._config))
            kept = {name: files for name, files in self._recorded.items() if name in live}
            new = {name: self._files(name, artifact.uri) for name, artifact in live.items() if name not in kept}
            if new or kept != self._recorded:
                file_io.write_text(self._path, json.dumps(kept | new) + "\n")
            self._digests.save()
        except Exception as error:  # of any kind of store; must not hide the original error
            logging.warning("The outputs of this run were not recorded, so damage is not detected later. %s", error)

    def _live(self, store: mlmd.MetadataStore) -> dict[str, metadata_store_pb2.Artifact]:
        """Returns the outputs that the cache may return, by their path in the root."""
        context = store.get_context_by_type_and_name("pipeline", self._name)
        artifacts = store.get_artifacts_by_context(context.id) if context else []
        places = {os.path.relpath(os.path.realpath(one.uri), self._root): one for one in artifacts if one.uri}
        return {
            place: artifact
            for place, artifact in places.items()
            if artifact.state == _LIVE and not place.startswith(os.pardir)
        }

    def _problem(self, folder: str, recorded: Mapping[str, str]) -> str:
        """Returns the first file of an output that is missing or has other content; "" if there is none."""
        paths = {name: os.path.join(folder, name) for name in recorded}
        for name, path in paths.items():
            if not os.path.isfile(path):
                return f"{name} is missing"
        try:
            digests = self._digests.of(paths.values())
        except OSError as error:
            return str(error)
        return next((f"{name} was changed" for name, path in paths.items() if digests[path] != recorded[name]), "")

    def _files(self, name: str, folder: str) -> Files:
        names = _VERIFIED_FILES.get(os.path.basename(os.path.dirname(name))) or _names_in(folder)
        paths = {name: os.path.join(folder, name) for name in names if os.path.isfile(os.path.join(folder, name))}
        # Those of the beginning: examples that change while the model is trained on them are damaged in the next run.
        digests = self._digests.first_of(paths.values())
        return {name: digests[path] for name, path in paths.items()}


def _names_in(folder: str) -> list[str]:
    return list(file_io.files_below(folder)) if file_io.isdir(folder) else []


def _read(path: str) -> dict[str, Files]:
    with contextlib.suppress(OSError, ValueError, TypeError):  # missing or garbled: nothing is known of the outputs
        return {name: dict(files) for name, files in json.loads(file_io.read_text(path)).items()}
    return {}
