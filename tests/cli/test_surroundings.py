"""Odd surroundings of a command end in one line with the cause: a deleted working folder, limits, missing mounts."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

from generic_trainer.executors.runtime.process import surroundings

DELETED = "The working folder of this command was deleted. Change to an existing one (cd)"
LIMITED = "The address space is limited to 1.02 GB (ulimit -v), which is too little"
CROWDED = "This user may have at most 12 processes and threads (ulimit -u). End some, or raise the limit."
NO_FOLDER = "Temporary files cannot be written: none of /tmp, /var/tmp, /proc is a writable folder with free space."
UNMOUNTED = "TensorFlow needs /proc, which is not mounted. Mount it: mount -t proc proc /proc."
UNWRITABLE = "Shared memory in /dev/shm cannot be used: Read-only file system. Mount a writable one"

# {surrounding: (shell command that creates it, beginning of the last line)}
SURROUNDINGS = {
    "deleted folder": ("mkdir gone && cd gone && rmdir ../gone", DELETED),
    "little address space": ("ulimit -v 1000000", LIMITED),
    "few processes": (
        # Root may exceed the limit; that capability makes Python readable for the other user.
        "ulimit -u 12 && set -- setpriv --reuid 65534 --clear-groups --inh-caps +dac_read_search "
        '--ambient-caps +dac_read_search "$@"',
        CROWDED,
    ),
    "no temporary folder": (
        "for folder in /tmp /var/tmp; do mount --bind $folder $folder && mount -o remount,ro,bind $folder; done; "
        "unset TMPDIR && cd /proc",
        NO_FOLDER,
    ),
    "other encoding": (
        "mkdir é && cd é && export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
        "{here}/é: names of files are read as ascii here, not as UTF-8, because of LC_ALL, LANG or PYTHONUTF8.",
    ),
    "no /proc": ("umount -l /proc", UNMOUNTED),
    "read-only shared memory": ("mount -t tmpfs -o ro tmpfs /dev/shm", UNWRITABLE),
}
COMMANDS = {
    "train": ["train", "{here}/tiny.py", "--train-files", "{iris}", "--output", "{here}/out"],
    "script": ["script", "{here}/tiny.py", "--output", "{here}/out"],
    "check": ["check", "{here}/tiny.py", "--train-files", "{iris}"],
    "run": ["run", "--data", "{here}/a.csv", "--module-file", "{here}/tiny.py", "--pipeline-root", "{here}/root"],
    "init": ["init", "{here}/new", "--data", "{here}/a.csv", "--label", "b"],
    "predict": ["predict", "--model", "{here}/model", "--examples", "{iris}", "--output", "{here}/predictions.csv"],
}
_CASES = [
    ("deleted folder", "train"),
    ("deleted folder", "check"),
    *(pytest.param("deleted folder", name, marks=pytest.mark.thorough) for name in ("script", "run", "init")),
    ("little address space", "train"),
    *(pytest.param("little address space", name, marks=pytest.mark.thorough) for name in ("script", "predict")),
    pytest.param("read-only shared memory", "run", marks=pytest.mark.thorough),
    ("few processes", "train"),
    pytest.param("few processes", "run", marks=pytest.mark.thorough),
    *(
        pytest.param(what, "train", marks=pytest.mark.thorough)
        for what in ("no temporary folder", "other encoding", "no /proc")
    ),
]


@pytest.fixture(scope="module")
def can_mount() -> bool:
    line = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
    )


@pytest.mark.parametrize(("what", "name"), _CASES)
def test_the_last_line_names_what_is_odd(
    what: str, name: str, iris: Any, can_mount: bool, tiny_source: str, tmp_path: pathlib.Path
) -> None:
    shell, expected = SURROUNDINGS[what]
    if ("mount" in shell or "setpriv" in shell) and not can_mount:
        pytest.skip("needs root")
    (tmp_path / "tiny.py").write_text(tiny_source)
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n3,4\n" * 20)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    words = [word.format(here=tmp_path, iris=iris.train) for word in COMMANDS[name]]
    line = ["bash", "-c", f'{shell} && exec "$@"', "bash", sys.executable, "-m", "generic_trainer.cli.main", *words]
    if "mount" in shell:
        line = ["unshare", "--mount", "--propagation", "private", *line]

    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"generic-trainer: {expected.format(here=tmp_path)}")
    assert "Traceback" not in done.stderr


def test_an_unknown_home_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    with pytest.raises(RuntimeError) as raised:
        pathlib.Path("~nobody-of-this-name").expanduser()  # as "~" for a user without an entry
    assert "HOME is not set, and user " in str(surroundings.explain(raised.value))
