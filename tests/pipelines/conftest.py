"""Published schemas of manifests, a server that imitates a platform's API, and a pipeline's ML Metadata."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..world import manifests
from ..world.data import iris_csv as iris_as_csv

# The check takes seconds for each `run`, so only the demo's runs enable it, by the option.
os.environ.setdefault("GENERIC_TRAINER_RUN_CHECK", "false")


@pytest.fixture(scope="session")
def require_valid() -> Callable[[Any, str], None]:
    """Checks a manifest against a published schema."""
    return manifests.require_valid


@pytest.fixture(scope="session")
def iris_csv(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with iris as CSV."""
    folder = tmp_path_factory.mktemp("iris_csv")
    (folder / "data.csv").write_text(iris_as_csv())
    return folder


class Api:
    """A local HTTP server that records its requests and returns configured answers."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[tuple[str, str, Any]] = []
        self.answer: Callable[[Any], tuple[int, Any]] = lambda body: (200, body)


@contextlib.contextmanager
def _serving() -> Iterator[Api]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            api.requests.append((self.command, self.path, body))
            status, answer = api.answer(body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_DELETE = do_POST

        def log_message(self, *arguments: Any) -> None:
            del arguments

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api = Api(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield api
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def api() -> Iterator[Api]:
    with _serving() as api:
        yield api


@dataclasses.dataclass
class Metadata:
    """A store of ML Metadata in a pipeline root, written step by step as TFX does."""

    root: pathlib.Path

    def __post_init__(self) -> None:
        import ml_metadata as mlmd
        from ml_metadata.proto import metadata_store_pb2

        self.proto = metadata_store_pb2
        self.root.mkdir(parents=True, exist_ok=True)
        sqlite = metadata_store_pb2.SqliteMetadataSourceConfig(
            filename_uri=str(self.root / "metadata.sqlite"),
            connection_mode=metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE_OPENCREATE,
        )
        self.store = mlmd.MetadataStore(metadata_store_pb2.ConnectionConfig(sqlite=sqlite))

    def step(
        self,
        pipeline_run: str,
        node: str,
        inputs: dict[str, Any] | None = None,
        outputs: dict[str, tuple[str, dict[str, Any]] | Any] | None = None,
        state: str = "COMPLETE",
        **properties: Any,
    ) -> dict[str, Any]:
        """Writes an execution; outputs are (type, properties), or artifacts from the cache."""
        execution = self.proto.Execution(type_id=self._execution_type(node), name=str(uuid.uuid4()))
        execution.last_known_state = self.proto.Execution.State.Value(state)
        _set(execution.custom_properties, properties)
        names = {"pipeline": "taxi", "pipeline_run": pipeline_run, "node": f"taxi.{node}"}
        contexts = [self._context(kind, name) for kind, name in names.items()]
        [number] = self.store.put_executions([execution])
        written = {key: self._artifact(node, key, number, output) for key, output in (outputs or {}).items()}
        pairs = [(one, self._event(key, "INPUT")) for key, one in (inputs or {}).items()]
        pairs += [(one, self._event(key, "OUTPUT")) for key, one in written.items()]
        execution.id = number
        _, ids, _ = self.store.put_execution(execution, pairs, contexts, reuse_context_if_already_exist=True)
        by_id = {one.id: one for one in self.store.get_artifacts_by_id(ids)}
        return {key: by_id[one] for key, one in zip(written, ids[len(inputs or {}) :], strict=True)}

    def _execution_type(self, node: str) -> int:
        kind = self.proto.ExecutionType(name=f"tfx.components.{node}")
        if node == "Trainer":
            kind = self.proto.ExecutionType(name="generic_trainer.components.trainer.Trainer")
            kind.base_type = self.proto.ExecutionType.TRAIN
        return self.store.put_execution_type(kind)

    def _context(self, kind: str, name: str) -> Any:
        type_id = self.store.put_context_type(self.proto.ContextType(name=kind))
        return self.proto.Context(type_id=type_id, name=name)

    def _artifact(self, node: str, key: str, execution: int, output: Any) -> Any:
        if not isinstance(output, tuple):
            return output
        type_id = self.store.put_artifact_type(self.proto.ArtifactType(name=output[0]))
        artifact = self.proto.Artifact(type_id=type_id, uri=f"{self.root}/{node}/{key}/{execution}")
        _set(artifact.custom_properties, output[1])
        return artifact

    def _event(self, key: str, kind: str) -> Any:
        event = self.proto.Event(type=self.proto.Event.Type.Value(kind))
        event.path.steps.add().key = key
        event.path.steps.add().index = 0
        return event


def _set(properties: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        kind = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(properties[name], kind, value)


@pytest.fixture
def new_metadata(tmp_path: pathlib.Path) -> Metadata:
    """An empty store."""
    return Metadata(tmp_path / "root")


@pytest.fixture(scope="session")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Metadata:
    """Five runs of a pipeline: a pushed model; the same model from the cache, not blessed; a failure; a model trained
    from the first, compared with it and pushed; and a run in progress.
    """
    written = Metadata(tmp_path_factory.mktemp("history") / "root")
    examples = written.step("run-1", "ExampleGen", {}, {"examples": ("Examples", {"span": 7})})
    module = {"module_file": "code/taxi.py", "module_fingerprint": "ab" * 32, "custom_config": '{"api_key": "hush"}'}
    model = {"eval/auc": 0.93, "eval/loss": 0.2, "train/auc": 0.95, "dialect": "run_fn"}
    outputs = {"model_run": ("ModelRun", {"run_id": "1" * 32}), "model": ("Model", model)}
    first = written.step("run-1", "Trainer", examples, outputs, **module)
    _evaluate(written, "run-1", {**examples, "model": first["model"]}, blessed=1)
    written.step("run-2", "ExampleGen", {}, examples, "CACHED")
    written.step("run-2", "Trainer", examples, first, "CACHED", **module)
    _evaluate(written, "run-2", {**examples, "model": first["model"]}, blessed=0)
    written.step("run-3", "Trainer", examples, {}, "FAILED", **module)
    outputs = {"model_run": ("ModelRun", {"run_id": "4" * 32}), "model": ("Model", {**model, "eval/auc": 0.91})}
    inputs = {**examples, "base_model": first["model"]}
    second = written.step("run-4", "Trainer", inputs, outputs, **{**module, "module_file": "code/taxi_wide.py"})
    inputs = {**examples, "model": second["model"], "baseline_model": first["model"]}
    _evaluate(written, "run-4", inputs, blessed=1)
    written.step("run-5", "Trainer", examples, {}, "RUNNING", **module)
    return written


def _evaluate(written: Metadata, pipeline_run: str, inputs: dict[str, Any], *, blessed: int) -> None:
    blessing = ("ModelBlessing", {"blessed": blessed, "current_model": inputs["model"].uri})
    outputs = {"evaluation": ("ModelEvaluation", {}), "blessing": blessing}
    made = written.step(pipeline_run, "Evaluator", inputs, outputs)
    pushed = {
        "pushed": blessed,
        **({"pushed_destination": f"{written.root}/serving/{pipeline_run}"} if blessed else {}),
    }
    inputs = {"model": inputs["model"], "model_blessing": made["blessing"]}
    written.step(pipeline_run, "Pusher", inputs, {"pushed_model": ("PushedModel", pushed)})
