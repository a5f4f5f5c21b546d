"""A forked worker inherits what a new subprocess of the caller would at that moment: user, limits, umask, folder."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")

NOBODY = 65534

# A worker, and a program that prints the same facts about itself.
ABOUT = """
    import json, os, resource, sys

    STATUS = ("SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")

    def about():
        here = os.stat("/proc/self/cwd")
        umask = os.umask(0)
        os.umask(umask)
        with open("/proc/self/status") as file:
            status = dict(line.split(":", 1) for line in file)
        with open("/proc/self/oom_score_adj") as file:
            oom = file.read()
        return {
            "users": os.getresuid(),
            "groups": [os.getresgid(), sorted(os.getgroups())],
            "umask": umask,
            "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name],
            "processors": sorted(os.sched_getaffinity(0)),
            "nice": os.nice(0),
            "oom_score_adj": oom,
            "folder": [here.st_dev, here.st_ino],
            "status": {name: status[name] for name in STATUS},
            "uts": os.readlink("/proc/self/ns/uts"),
            "session": os.getsid(0) != int(os.environ["SESSION"]),
        }

    def execute(request):
        return {"about": about(), "server": os.getppid(), "seen": os.environ.get("SEEN")}

    if __name__ == "__main__":
        print(json.dumps(about()))
"""

# Compares the two after each change named in its arguments.
COMPARE = """
    import concurrent.futures, ctypes, json, os, resource, shutil, signal, subprocess, sys, tempfile, time
    from generic_trainer.executors.engines import child_process, fork_server

    fork_server.preloaded_modules = lambda: []  # what it imports takes long, and makes no difference here
    os.environ["SESSION"] = str(os.getsid(0))
    here = os.path.abspath(os.path.dirname(sys.argv[0]))
    answers = {}

    def run(seen="no"):
        return child_process.run("about_worker", {}, environment={"SEEN": seen}, forked=True)

    def compare(change):
        line = [sys.executable, os.path.join(here, "about_worker.py")]
        fresh = subprocess.run(line, stdout=subprocess.PIPE, start_new_session=True, check=True)
        forked = run()
        answers[change] = {"fresh": json.loads(fresh.stdout), "forked": forked["about"], "server": forked["server"]}

    compare("")
    for change in sys.argv[2:]:
        exec(change)
        compare(change)
    old = list(fork_server._servers._usable.values())
"""
THEN_THREADS = """
    with concurrent.futures.ThreadPoolExecutor(6) as pool:  # more environments than there may be servers
        seen = [answer["seen"] for answer in pool.map(run, "abcabc")]
    answers["threads"] = seen
    json.dump(answers, open(sys.argv[1], "w"))
"""
THEN_SETUID = """
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    order = {"worker": "about_worker", "files": [], "folder": ".", "environment": dict(os.environ)}
    refused = [server.start(order, 60) is None for server in old]
    compare("setuid")
    assert refused == [True], refused
    json.dump(answers, open(sys.argv[1], "w"))
"""
THEN_LOCKED = """
    os.mkdir(os.path.join(here, "locked"), 0o700)
    os.chdir(os.path.join(here, "locked"))
    os.setgroups([])
    os.setuid(65534)
    compare("locked")
    json.dump(answers, open(sys.argv[1], "w"))
"""
CHANGES = {
    "os.umask(0o027)": False,  # whether it needs another server
    "lost = tempfile.mkdtemp(); os.chdir(lost); os.rmdir(lost)": False,
    "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))": True,
    "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})": len(os.sched_getaffinity(0)) > 1,
    "os.nice(3)": True,
    "print(500, file=open('/proc/self/oom_score_adj', 'w'))": True,
    "signal.signal(signal.SIGHUP, signal.SIG_IGN)": True,
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD})": True,
}
OF_ROOT = {
    "os.setgroups([12345])": True,
    "os.setegid(12345)": True,
    "assert ctypes.CDLL(None).unshare(0x04000000) == 0": True,  # CLONE_NEWUTS
}


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """Yields a folder that all users can read; pytest's are private to one user."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        (folder / "about_worker.py").write_text(textwrap.dedent(ABOUT))
        yield folder
        folder.chmod(0o700)


def compared(folder: pathlib.Path, program: str, changes: tuple[str, ...], *before: str) -> dict[str, Any]:
    (folder / "compare.py").write_text(textwrap.dedent(program))
    answer = folder / "answer.json"
    line = [*before, sys.executable, str(folder / "compare.py"), str(answer), *changes]
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    environment.pop("GENERIC_TRAINER_WORKER", None)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(answer.read_text())
    return answers


def test_a_forked_worker_inherits_what_a_new_process_would(folder: pathlib.Path) -> None:
    changes = CHANGES | (OF_ROOT if os.geteuid() == 0 else {})
    answers = compared(folder, COMPARE + THEN_THREADS, tuple(changes))
    assert answers.pop("threads") == [*"abcabc"]
    before = answers.pop("")
    for (change, needs_another), answer in zip(changes.items(), answers.values(), strict=True):
        assert answer["forked"] == answer["fresh"], change
        assert answer["fresh"] != before["fresh"] or not needs_another, change
        assert (answer["server"] != before["server"]) == needs_another, change
        before = answer


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_module_never_runs_as_the_user_that_the_caller_was_before(folder: pathlib.Path) -> None:
    before = python_for_all(folder)
    answers = compared(folder, COMPARE + THEN_SETUID, (), *before)
    assert answers[""]["forked"]["users"] == [0, 0, 0]
    assert answers["setuid"]["forked"]["users"] == [NOBODY] * 3
    assert answers["setuid"]["forked"] == answers["setuid"]["fresh"]
    assert answers["setuid"]["server"] != answers[""]["server"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_worker_inherits_a_folder_that_its_user_may_not_enter(folder: pathlib.Path) -> None:
    answers = compared(folder, COMPARE + THEN_LOCKED, (), *python_for_all(folder))
    assert answers["locked"]["forked"] == answers["locked"]["fresh"]


def python_for_all(folder: pathlib.Path) -> list[str]:
    """Returns a command with which any user can run this Python, even if it is in root's home."""
    python = pathlib.Path(sys.executable).resolve()
    hidden = [parent for parent in reversed(python.parents) if not parent.stat().st_mode & 1]
    before: list[str] = []
    if hidden:
        shown = hidden[0] / python.relative_to(hidden[0]).parts[0]
        script = (
            f"set -e; mkdir '{folder}/kept'; mount --rbind '{hidden[0]}' '{folder}/kept'\n"
            f"mount -t tmpfs -o mode=755 none '{hidden[0]}'; mkdir '{shown}'\n"
            f"mount --rbind '{folder}/kept/{shown.name}' '{shown}'; umount -l '{folder}/kept'; rmdir '{folder}/kept'\n"
            'exec "$@"'
        )
        before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    line = [sys.executable, "-c", "import absl, json"]
    try_it = f"import os, subprocess; os.setuid({NOBODY}); subprocess.run({line!r}, check=True)"
    if not shutil.which("unshare") or subprocess.run([*before, *line[:2], try_it], check=False).returncode:
        pytest.skip(f"user {NOBODY} cannot run this Python")
    return before
