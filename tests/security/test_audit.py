"""`make audit` fails on findings, ignores accepted ones with a reason, and reports if no service is available."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
from collections.abc import Iterator

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
ACCEPTED = REPOSITORY / "requirements" / "accepted-vulnerabilities.txt"
HAS_TOOLS = (REPOSITORY / ".venv-tools" / "bin" / "pip-audit").exists()
KNOWN = {("jinja2", "2.10"), ("six", "1.17.0")}  # versions with findings, and their data
LOCK = "six==1.17.0 --hash=sha256:" + "0" * 64 + "\nzipp==4.1.2 --hash=sha256:" + "1" * 64 + "\n"


class Osv(http.server.BaseHTTPRequestHandler):
    """Responds as OSV does."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        package = {"name": asked["package"]["name"], "ecosystem": "PyPI"}
        found = {
            "id": f"PYSEC-2026-{package['name']}",
            "affected": [{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}],
        }
        answer = {"vulns": [found]} if (package["name"], asked["version"]) in KNOWN else {}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *words: object) -> None:
        """Logs nothing."""


@pytest.fixture
def osv() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Osv) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOOLS, reason="make audit makes .venv-tools")
def test_a_vulnerable_version_in_a_lock_fails_the_audit(osv: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lock.txt").write_text(LOCK)
    environment = {**os.environ, "OSV_URL": osv, "NO_PROXY": "*"}
    line = ["scripts/audit.sh", str(tmp_path / "lock.txt")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"six +1\.17\.0 +PYSEC-2026-six", done.stdout)
    assert "zipp" not in done.stdout


def test_accepted_vulnerabilities_have_a_reason() -> None:
    lines = [line for line in ACCEPTED.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Z]+-[\w-]+\s+# .{20,}", line)] == []


def test_an_exception_from_bandit_has_its_reason() -> None:
    """Exceptions in pyproject.toml have a comment; those in code have ruff's mark or a comment."""
    section = (REPOSITORY / "pyproject.toml").read_text().partition("[tool.bandit]")[2].partition("\n[")[0]
    skipped = re.findall(r'"B\d+",? *(# .{10,})?', section)
    assert skipped
    assert all(skipped)
    found = subprocess.run(
        ["git", "grep", "-nE", "# nosec", "--", "*.py", ":!tests"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    for line in found.stdout.splitlines():
        assert re.search(r"# noqa: S\d+.*# nosec B\d+", line), line
