"""Serves Google Cloud Storage under Google's names, in a network namespace; gcp-storage-emulator keeps the objects.

    unshare --net --mount python google_storage_server.py FOLDER
    nsenter --target PID --net --mount COMMAND

TensorFlow's gs:// accepts only Google's names, and requires TLS. In the namespace, /etc/hosts maps the names to
this server, whose certificate is FOLDER/server.pem. The server creates these files:

- `ready`, once it serves
- `.cloudstorage/bucket/`, with the objects of the bucket `bucket`
- `written`, with the name of each object that was written, in order

FOLDER/fault selects the requests that are answered with status 503: `first` (the first one to each address), `uploads`
(all uploads) or, as without the file, `nothing`.
"""

from __future__ import annotations

import functools
import pathlib
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import Storage

NAMES = ("www.googleapis.com", "storage.googleapis.com")


class Objects(Storage):
    """The objects as files; the object of a folder, which TensorFlow creates, is the file `.folder` in it."""

    def _object_path(self, bucket_name: str, file_name: str) -> str:
        path: str = super()._object_path(bucket_name, file_name)
        return f"{path}/.folder" if file_name.endswith("/") else path

    def create_file(self, bucket_name: str, file_name: str, *more: Any) -> None:
        super().create_file(bucket_name, file_name, *more)
        with pathlib.Path(self.get_storage_base(), "written").open("a") as log:
            log.write(f"{file_name}\n")


class Handler(server.RequestHandler):
    """Answers the requests; refuses those that FOLDER/fault selects."""

    protocol_version = "HTTP/1.1"  # in which curl expects an answer to "Expect: 100-continue"
    log_message = BaseHTTPRequestHandler.log_message  # to standard error
    seen: set[tuple[str, str]] = set()  # noqa: RUF012

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        self.close_connection = True
        if self.headers.get("Transfer-Encoding") == "chunked":
            del self.headers["Content-Length"]  # TensorFlow sends both; the emulator would read this many bytes
        if self._is_refused():
            server._read_raw_data(self)
            self.send_error(503)
            return False
        return True

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Location":  # of an upload's session
            value = value.replace("http://", "https://")
        super().send_header(keyword, value)

    def end_headers(self) -> None:
        self.send_header("Connection", "close")
        super().end_headers()

    def _is_refused(self) -> bool:
        file = pathlib.Path(self.storage.get_storage_base(), "fault")
        fault = file.read_text() if file.exists() else ""
        request = (self.command, self.path)
        is_first = request not in self.seen
        self.seen.add(request)
        return (fault == "first" and is_first) or (fault == "uploads" and "/upload/" in self.path)


def repair_emulator() -> None:
    """Patches what the emulator does differently from Google Cloud Storage.

    It rejects empty uploads, by which TensorFlow creates folders, and it answers that a session without data has
    received one byte (`Range: bytes=0-0`), so that the client's next attempt leaves that byte out.
    """
    read_data, incomplete = server._read_data, objects._resumable_incomplete

    def read(handler: Any, query: Any) -> Any:
        data = read_data(handler, query)
        return b"" if data is None and query.get("uploadType") == ["media"] else data

    def without_range(response: Any, storage: Any, upload_id: str, fallback_end: int = 0) -> None:
        incomplete(response, storage, upload_id, fallback_end)
        if not storage.get_resumable_byte_count(upload_id):
            del response._headers["Range"]

    server._read_data = read
    objects._resumable_incomplete = without_range


def enter_network(folder: pathlib.Path) -> None:
    """Starts the loopback device, and maps Google's names to it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(NAMES)}\n")
    subprocess.run(["mount", "--bind", folder / "hosts", "/etc/hosts"], check=True)


def certificate(folder: pathlib.Path) -> ssl.SSLContext:
    """Creates a certificate with which Google's names can be served."""
    names = ",".join(f"DNS:{name}" for name in NAMES)
    files = ("-keyout", folder / "server.key", "-out", folder / "server.pem")
    request = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={names}")
    subprocess.run(["openssl", "req", "-x509", *request, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def main(folder: pathlib.Path) -> None:
    """Serves until the process is killed."""
    enter_network(folder)
    repair_emulator()
    storage = Objects(data_dir=str(folder))
    buckets.create_bucket("bucket", storage)
    served = ThreadingHTTPServer(("127.0.0.1", 443), functools.partial(Handler, storage))
    served.socket = certificate(folder).wrap_socket(served.socket, server_side=True)
    (folder / "ready").touch()
    served.serve_forever()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
