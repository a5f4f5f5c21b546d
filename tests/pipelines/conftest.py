"""Published schemas of manifests, and a server that answers as a platform's API does."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SCHEMAS = pathlib.Path(__file__).resolve().parent / "schemas"


def _strict(schema: Any) -> Any:
    """Forbids fields that the schema does not list, which Kubernetes itself would drop without a word."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        strict.setdefault("additionalProperties", schema.get("x-kubernetes-preserve-unknown-fields", False))
    return strict


@pytest.fixture(scope="session")
def require_valid() -> Callable[[Any, str], None]:
    """Checks a manifest against a published schema: `require_valid(manifest, "rayjob_v1")`."""
    import jsonschema

    schemas: dict[str, Any] = {}

    def check(manifest: Any, name: str) -> None:
        if name not in schemas:
            schema = _strict(json.loads(gzip.decompress((SCHEMAS / f"{name}.json.gz").read_bytes())))
            schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own, which the definition leaves out
            schemas[name] = schema
        jsonschema.Draft7Validator(schemas[name]).validate(manifest)

    return check


class Api:
    """An HTTP server on this machine that keeps what it was asked, and answers as it is told."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[tuple[str, str, Any]] = []
        self.answer: Callable[[Any], tuple[int, Any]] = lambda body: (200, body)


@contextlib.contextmanager
def _serving() -> Iterator[Api]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.requests.append((self.command, self.path, body))
            status, answer = api.answer(body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

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
