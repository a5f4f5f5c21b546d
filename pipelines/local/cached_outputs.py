"""Verifies the outputs of a pipeline's steps before TFX takes them from its cache.

    with verified(dag):       # damaged outputs of earlier runs are named, and their steps run again
        runner.run(dag)       # afterwards, the digests of the new outputs are recorded in the root

TFX only checks that the folder of an output exists. Each later run would fail, or train on damaged examples.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

import ml_metadata as mlmd
from absl import logging
from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration import pipeline

from ...executors.inputs.message_text import join_names
from ...executors.monitoring import run_record
from ...executors.runtime.files import file_io
from ...executors.runtime.files.content_digests import digests_in
from ...executors.runtime.files.json_data import read_or_skip

FILE_NAME = "generic_trainer_outputs.json"
OUTPUTS_WITHOUT_METADATA = "outputs_without_metadata"
_LIVE, _ABANDONED = metadata_store_pb2.Artifact.LIVE, metadata_store_pb2.Artifact.ABANDONED
_LISTED = 3  # outputs in a warning
# Reports are written again by later runs, and TensorBoard adds files to the logs.
_VERIFIED_FILES = {"model_run": (run_record.FILE_NAME,)}

Files = dict[str, str]  # digests by path relative to the output's folder


class _Record(TypedDict):
    root: str
    outputs: dict[str, Files]


@contextlib.contextmanager
def verified(dag: pipeline.Pipeline) -> Iterator[None]:
    """Abandons damaged outputs before the block, and records the outputs after it, also if it raises."""
    outputs = _Outputs(dag)
    outputs.adopt_moved()
    outputs.abandon_damaged()
    outputs.move_unknown()
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
        self._steps = [node.id for node in dag.components]
        self._root = os.path.realpath(dag.pipeline_info.pipeline_root)
        self._name = dag.pipeline_info.pipeline_name
        self._config = dag.metadata_connection_config
        self._digests = digests_in(self._root)
        self._digests.start_run()
        self._path = os.path.join(self._root, FILE_NAME)
        record = read_or_skip(self._path, _Record, "The digests of cached outputs")
        self._recorded = record["outputs"] if record else {}
        self._recorded_root = record["root"] if record else self._root

    def adopt_moved(self) -> None:
        """Replaces the paths in ML Metadata after its file was moved or copied with the root.

        Without this, a copy would read the outputs of the original, and the outputs of a moved root would be lost.
        """
        file = self._config.sqlite.filename_uri
        if self._recorded_root == self._root or not os.path.realpath(file).startswith(self._root + os.sep):
            return
        store = mlmd.MetadataStore(self._config)
        moved = [artifact for artifact in self._artifacts(store) if _is_below(artifact.uri, self._recorded_root)]
        for artifact in moved:
            artifact.uri = os.path.join(self._root, os.path.relpath(artifact.uri, self._recorded_root))
        store.put_artifacts(moved)

    def abandon_damaged(self) -> None:
        """Marks damaged outputs in ML Metadata, so that neither the cache nor a Resolver returns them."""
        store = mlmd.MetadataStore(self._config)
        damaged = {}
        for name, artifact in self._live(store).items():
            if problem := self._problem(name, artifact.uri, self._recorded.get(name, {})):
                damaged[f"{name} ({problem})"] = artifact
                artifact.state = _ABANDONED
        if damaged:
            store.put_artifacts(list(damaged.values()))
            logging.warning("Cached outputs are damaged: %s. Their steps run again.", join_names(damaged, _LISTED))

    def move_unknown(self) -> None:
        """Moves outputs away whose numbers TFX will assign again, because ML Metadata was deleted or restored.

        A step would fail on existing files, or mix them with its own, and `latest` would be an old output.
        """
        store = mlmd.MetadataStore(self._config)
        newest = store.get_executions(mlmd.ListOptions(limit=1, order_by=mlmd.OrderByField.ID, is_asc=False))
        last = newest[0].id if newest else 0
        unknown = [place for place in self._numbered() if int(os.path.basename(place)) > last]
        if not unknown:
            return
        folder = os.path.join(self._root, OUTPUTS_WITHOUT_METADATA)
        folder = os.path.join(folder, str(len(file_io.listdir(folder)) + 1 if file_io.isdir(folder) else 1))
        for place in unknown:
            file_io.move(os.path.join(self._root, place), os.path.join(folder, place))
            self._recorded.pop(place, None)
        logging.warning(
            "The metadata do not list %s. These outputs were moved to %s.", join_names(unknown, _LISTED), folder
        )

    def _numbered(self) -> list[str]:
        """Returns the paths of the outputs of all executions in the root, `STEP/OUTPUT/NUMBER`."""
        folders = (os.path.join(self._root, step, "*", "*") for step in self._steps)
        paths = (path for folder in folders for path in file_io.glob(folder) if os.path.basename(path).isdigit())
        return [os.path.relpath(path, self._root) for path in paths]

    def record(self) -> None:
        """Records the digests of new outputs. After an error, later runs reuse them without verification."""
        try:
            live = self._live(mlmd.MetadataStore(self._config))
            kept = {name: files for name, files in self._recorded.items() if name in live}
            new = {name: self._files(name, artifact.uri) for name, artifact in live.items() if name not in kept}
            if new or kept != self._recorded or self._recorded_root != self._root:
                file_io.write_text(self._path, json.dumps(_Record(root=self._root, outputs=kept | new)) + "\n")
            self._digests.save()
        except Exception as error:  # of any kind of store; must not hide the original error
            logging.warning("The outputs of this run were not recorded, so damage is not detected later. %s", error)

    def _live(self, store: mlmd.MetadataStore) -> dict[str, metadata_store_pb2.Artifact]:
        """Returns the outputs that the cache may return, by their path in the root."""
        own = [artifact for artifact in self._artifacts(store) if _is_below(artifact.uri, self._root)]
        return {
            os.path.relpath(os.path.realpath(artifact.uri), self._root): artifact
            for artifact in own
            if artifact.state == _LIVE
        }

    def _artifacts(self, store: mlmd.MetadataStore) -> Sequence[metadata_store_pb2.Artifact]:
        context = store.get_context_by_type_and_name("pipeline", self._name)
        return store.get_artifacts_by_context(context.id) if context else []

    def _problem(self, place: str, folder: str, recorded: Mapping[str, str]) -> str:
        """Returns the first file of an output that is missing, was added or has other content; "" if there is none."""
        paths = {name: os.path.join(folder, name) for name in recorded}
        for name, path in paths.items():
            if not os.path.isfile(path):
                return f"{name} is missing"
        try:
            digests = self._digests.of(paths.values())
            added = set(self._names(place, folder)) - recorded.keys() if recorded else set()
        except OSError as error:
            return str(error)
        if added:
            return f"{min(added)} was added"
        return next((f"{name} was changed" for name, path in paths.items() if digests[path] != recorded[name]), "")

    def _files(self, name: str, folder: str) -> Files:
        paths = {file: os.path.join(folder, file) for file in self._names(name, folder)}
        # Those of the beginning: examples that change while the model is trained on them are damaged in the next run.
        digests = self._digests.first_of(paths.values())
        return {name: digests[path] for name, path in paths.items()}

    def _names(self, name: str, folder: str) -> list[str]:
        """Returns the files of an output to verify; hidden files, which no step reads, are left out."""
        names = _VERIFIED_FILES.get(os.path.basename(os.path.dirname(name))) or _names_in(folder)
        return [name for name in names if os.path.isfile(os.path.join(folder, name))]


def _names_in(folder: str) -> list[str]:
    names = file_io.files_below(folder) if file_io.isdir(folder) else ()
    return [name for name in names if not os.path.basename(name).startswith(".")]


def _is_below(uri: str, root: str) -> bool:
    return bool(uri) and os.path.realpath(uri).startswith(root + os.sep)
