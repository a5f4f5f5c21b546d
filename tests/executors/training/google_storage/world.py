"""Runs a command in a world with Google Cloud Storage: an emulator under Google's names, in a network namespace.

    unshare --net --mount python world.py FOLDER FAULT COMMAND …

TensorFlow's gs:// knows no other address than Google's, and only TLS. So /etc/hosts maps Google's names to this
machine, where a server with a certificate of its own passes requests on to gcp-storage-emulator. The namespace has no
other network. FAULT is `none`, `once` (the first upload to each address fails) or `always` (all uploads fail).
"""

from __future__ import annotations

import collections
import http.client
import os
import pathlib
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

_NAMES = ("www.googleapis.com", "storage.googleapis.com")
_BACK = ("127.0.0.1", 29023)
_HOP_HEADERS = ("transfer-encoding", "content-length", "connection", "server", "date", "expect")


def make_certificates(folder: pathlib.Path) -> None:
    """Writes ca.pem, server.pem and server.key."""
    names = ",".join(f"DNS:{name}" for name in _NAMES)
    (folder / "names").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, cwd=folder, capture_output=True)

    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=test",
        "-days",
        "9",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    )
    openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        f"/CN={_NAMES[0]}",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    )
    openssl(
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "9",
        "-extfile",
        "names",
        "-out",
        "server.pem",
    )


def start_emulator() -> None:
    """Starts gcp-storage-emulator in a thread."""
    from gcp_storage_emulator import server

    read_data = server._read_data

    def read(handler: Any, query: Any) -> Any:
        data = read_data(handler, query)  # None for the upload of nothing, by which TensorFlow makes folders
        is_upload = handler.command in ("POST", "PUT") and "/upload/" in handler.path
        return b"" if data is None and is_upload and query.get("uploadType") == ["media"] else data

    server._read_data = read
    server.create_server(*_BACK, in_memory=True, default_bucket="bucket").start()


class Front(BaseHTTPRequestHandler):
    """Passes requests on to the emulator, or refuses uploads."""

    protocol_version = "HTTP/1.1"
    fault = "none"
    uploads: ClassVar[collections.Counter[str]] = collections.Counter()

    def answer(self) -> None:
        body = self._body()
        if self.command in ("POST", "PUT") and "/upload/" in self.path:
            Front.uploads[self.path] += 1
            if Front.fault == "always" or (Front.fault == "once" and Front.uploads[self.path] == 1):
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        connection = http.client.HTTPConnection(*_BACK)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() == "location":  # of an upload in parts
                value = value.replace("http://", "https://", 1).replace(f"{_BACK[0]}:{_BACK[1]}", _NAMES[0])
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = answer

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):  # TensorFlow sends a Content-Length beside it
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *arguments: object) -> None:
        pass


def start_front(folder: pathlib.Path) -> None:
    """Starts the server with TLS in a thread."""
    server = ThreadingHTTPServer(("127.0.0.1", 443), Front)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(folder: str, fault: str, *command: str) -> int:
    """Returns the command's exit code."""
    place = pathlib.Path(folder)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (place / "hosts").write_text(f"127.0.0.1 localhost {' '.join(_NAMES)}\n")
    subprocess.run(["mount", "--bind", str(place / "hosts"), "/etc/hosts"], check=True)
    make_certificates(place)
    start_emulator()
    Front.fault = fault
    start_front(place)
    certificates = str(place / "ca.pem")
    names = ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    environment = {**os.environ, **dict.fromkeys(names, certificates), "NO_GCE_CHECK": "true"}
    done = subprocess.run(
        command, check=False, env={k: v for k, v in environment.items() if not k.lower().endswith("_proxy")}
    )
    return done.returncode


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
