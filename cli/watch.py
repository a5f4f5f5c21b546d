"""`generic-trainer watch RUN`: shows a running training in the browser."""

from __future__ import annotations

import http.server
import socket
import webbrowser

import click

from ..executors.errors import InputError
from ..executors.number_range import PORTS_OR_ANY
from ..executors.reporting.live import RUNNING, live_report
from ..executors.reporting.page import html_of
from ..pipelines.history.runs import find_run
from .history_flags import Locations, location_flags
from .number_type import NumberType
from .run_name import RunName

_HOST = "127.0.0.1"
_SECONDS = 3  # between two updates of the page


@click.command()
@click.argument("run", type=RunName(), default="last")
@click.option("--port", type=NumberType(PORTS_OR_ANY), default=0, help="Port (default: any free one).")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@location_flags
def watch(run: str, port: int, opened: bool, locations: Locations) -> None:
    """Shows progress, curves, resources and the log of a running training in the browser.

    RUN is as for `report`; by default the last run. The page is updated until the training ends, and is then its
    report. It is served to this machine only; Ctrl-C ends it. From another machine, use a tunnel:
    ssh -L PORT:127.0.0.1:PORT HOST.

    \b
    Example:
      generic-trainer watch out
    """  # noqa: D301 (click's mark of lines to keep)
    found = find_run(run, **locations)
    if not found.model_run or not found.record.id:
        raise InputError(f"{run}: the run {found.id[:12]} ({found.status}) has no run.json to watch.")
    try:
        server = http.server.ThreadingHTTPServer((_HOST, port), _handler(found.model_run))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}. Choose another one, or omit it.") from error
    number = server.server_address[1]
    tunnel = f"ssh -L {number}:{_HOST}:{number} {socket.gethostname()}"
    click.echo(f"http://{_HOST}:{number}/  (Ctrl-C ends it; from another machine: {tunnel})")
    if opened:
        webbrowser.open(f"http://{_HOST}:{number}/")
    with server:
        server.serve_forever()


def _handler(folder: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if self.path != "/" or host not in (_HOST, "localhost"):  # another name: a page of another site asks
                self.send_error(404)
                return
            report = live_report(folder)
            content = html_of(report).encode("utf-8", "backslashreplace")  # a lone surrogate in a record
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            if report.status == RUNNING:
                self.send_header("Refresh", str(_SECONDS))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Logs nothing: the terminal shows the address only."""

    return Handler
