"""Full, read-only, unmounted and slow disks in each phase of a training: remaining files, messages, and recovery.

System calls fail in all processes of a run; see failing_calls.cc.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from storage_faults import CommandResult, Commands, Faults

from ..world.modules import with_counter

# Six steps with a checkpoint after each, and a model whose output is the number of steps.
MODULE = with_counter("""
    import os
    import time

    from generic_trainer import AsyncCheckpoints

    def run_fn(fn_args):
        model = Counter()
        state = tf.train.Checkpoint(model=model)
        with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
            checkpoints.restore()
            print("begins after step", int(model.step), flush=True)
            while model.step < 6:
                model.step.assign_add(1)
                checkpoints.save(int(model.step))
                checkpoints.wait()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        if os.path.exists(f"{__file__}.hold"):
            os.rename(f"{__file__}.hold", f"{__file__}.held")
            while os.path.exists(f"{__file__}.held"):
                time.sleep(0.05)
""")


@dataclasses.dataclass
class Training:
    """Repeated `train` runs of the module above with the same outputs."""

    commands: Commands
    faults: Faults
    module: str
    out: pathlib.Path

    def start(self, *more: str) -> None:
        self.commands.start(
            "train", self.module, "--train-files", self.module, "--output", self.out, *more
        )  # it reads no data

    def run(self) -> CommandResult:
        """Runs it with the enabled faults, and disables them at its end."""
        self.start()
        return self.result()

    def result(self) -> CommandResult:
        done = self.commands.result()
        self.met = self.faults.hits()
        self.faults.clear()
        return done

    def run_once(self) -> dict[str, bytes]:
        """Runs it without faults; returns the output of the published model."""
        done = self.run()
        assert done.code == 0, done.said
        return content(self.out / "model")

    def fails_then_succeeds(self, code: int, *said: str) -> CommandResult:
        """Runs it twice: with faults that make it fail, and without."""
        before, checkpoints = content(self.out / "model"), self.checkpoints()
        done = self.run()
        assert self.met, done.said
        assert done.code == code, done.said
        for text in said:
            assert text in done.message  # the last line is shortened if paths are long
        assert content(self.out / "model") == before, "the earlier model, and nothing else"
        whole = self.checkpoints()
        assert whole[:1] >= checkpoints[:1]
        was_trained = list(self.out.glob("model_run/rejected/*/.finished.json"))
        again = self.run()
        assert again.code == 0, again.said
        assert (f"begins after step {whole[-1] if whole else 0}\n" in again.said) != bool(was_trained)
        assert sorted(content(self.out / "model")) == MODEL
        assert self.status() == "succeeded"
        return done

    def checkpoints(self) -> list[int]:
        """Returns the steps of the last training's checkpoints in its state file, in order."""
        folder = self.out / "model_run" / "checkpoints"
        if not (folder / "checkpoint").exists() or self.status() == "succeeded":
            return []
        names = [
            line.split('"')[1]
            for line in (folder / "checkpoint").read_text().splitlines()
            if "all_model_checkpoint_paths" in line
        ]
        for name in names:
            assert (folder / f"{name}.index").exists()
            assert (folder / f"{name}.data-00000-of-00001").exists()
        return [int(name.rpartition("-")[2]) for name in names]

    def staging(self) -> str:
        """Returns a pattern of the paths of its staging directories."""
        return f"{self.out}/model/.staging-????????"

    def status(self) -> str:
        path = self.out / "model_run" / "run.json"
        return json.loads(path.read_text())["status"] if path.exists() else ""


MODEL = [
    "Format-Serving/fingerprint.pb",
    "Format-Serving/saved_model.pb",
    "Format-Serving/variables/variables.data-00000-of-00001",
    "Format-Serving/variables/variables.index",
]


def content(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns every file below a folder, staging directories included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def training(
    commands: Commands, faults: Faults, module: Callable[..., str], tmp_path: pathlib.Path
) -> Iterator[Training]:
    yield Training(commands, faults, module(MODULE), tmp_path / "out")
    faults.clear()


@pytest.mark.thorough_but("publish-full")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "error"),
    [
        ("checkpoint", errno.ENOSPC),
        ("checkpoint", errno.EROFS),
        ("publish", errno.ENOSPC),
        ("publish", errno.EDQUOT),
        ("sync", errno.ENOSPC),
    ],
    ids=["checkpoint-full", "checkpoint-read-only", "publish-full", "publish-quota", "sync-full"],
)
def test_a_full_disk_keeps_existing_files(training: Training, phase: str, error: int) -> None:
    training.run_once()
    said = {
        errno.ENOSPC: ("No space left on device", "are free there. Free disk space"),
        errno.EDQUOT: ("Disk quota exceeded", "are free there. Delete files that are not needed"),
        errno.EROFS: ("Read-only file system", "Mount it for writing"),
    }[error]
    if phase == "checkpoint":
        training.faults.fail("write create", "*/checkpoints/ckpt-3*", error)
        path = training.out / "model_run" / "checkpoints" / "ckpt-3"
        training.fails_then_succeeds(
            1, f"Writing the checkpoint {path} failed: {said[0]}", said[1], "the next run resumes"
        )
    else:
        operation = "Syncing" if phase == "sync" else "Renaming"
        if phase == "sync":  # as on a file system that allocates space only then
            training.faults.fail("sync", "*/outputs/Format-Serving", error)
        else:
            training.faults.fail("exchange", "*/model/Format-Serving", errno.ENOSYS, rule=1)
            # After the earlier model was moved; it is then moved back.
            training.faults.fail("rename", "*/model/Format-Serving", error, skip=1, count=1)
        kept = "The module's outputs are kept"
        training.fails_then_succeeds(2, f"{operation} ", "/Format-Serving failed: ", *said, kept)
        assert list((training.out / "model_run" / "rejected").iterdir()) == []  # it was published by the next run


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_that_cannot_be_restored_is_restored_by_the_next_run(training: Training) -> None:
    before = training.run_once()
    training.faults.fail("exchange", "*/model/Format-Serving", errno.ENOSYS, rule=1)
    training.faults.fail("rename", "*/model/Format-Serving", errno.EROFS, skip=1)
    done = training.run()
    assert done.code == 2, done.said
    assert re.search(r"Could not delete .*/model/\.staging-[0-9a-f]{8}; the next run deletes it\.", done.said)
    left = content(training.out / "model")
    assert {name.partition("replaced-")[2]: data for name, data in left.items() if "/replaced-" in name} == before

    shutil.rmtree(training.out / "model_run" / "rejected")  # otherwise the next run publishes the model in it
    training.faults.fail("write", "*/.staging-*/variables/*", errno.ENOSPC)  # publishes nothing
    assert training.run().code == 1
    assert content(training.out / "model") == before
    training.run_once()


@pytest.mark.slow
def test_a_disk_that_is_full_when_the_model_is_exported(training: Training) -> None:
    training.run_once()
    training.faults.fail("write", "*/.staging-*/variables/*", errno.ENOSPC)
    done = training.fails_then_succeeds(
        1, "failed: ResourceExhaustedError: No space left on device: ", "are free there. Free disk space"
    )
    assert "Raised by the training module" in done.said


@pytest.mark.slow
def test_a_disk_that_is_full_from_the_start_ends_the_run_before_it_trains(training: Training) -> None:
    before = training.run_once()
    training.faults.fail("write", "*/run.json.part-*", errno.ENOSPC)
    done = training.run()
    assert training.met
    assert done.code == 2
    assert f"Writing {training.out}/model_run/run.json failed: No space left on device." in done.message
    assert "begins after" not in done.said
    assert content(training.out / "model") == before
    training.run_once()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "pattern", "skip", "said"),
    [
        ("write", "*/run.json.part-*", 2, "Could not update the run record. Writing "),
        ("write", "*/report.html.part-*", 0, "Could not write the report: StorageError: Writing "),
        ("create write", "*/generic-trainer.log", 0, ""),
        ("remove", "STAGING", 0, "; the next run deletes it. Deleting "),
    ],
    ids=["record", "report", "log", "staging"],
)
def test_a_trained_model_is_published_if_only_its_records_cannot_be_written(
    training: Training, calls: str, pattern: str, skip: int, said: str
) -> None:
    training.faults.fail(calls, pattern.replace("STAGING", training.staging()), errno.ENOSPC, skip=skip)
    done = training.run()
    assert training.met, done.said
    assert done.code == 0, done.said
    assert said in done.said
    assert sorted(content(training.out / "model")) == MODEL
    assert ("Report:" in done.said) == (training.out / "model_run" / "report.html").exists()
    training.run_once()


@pytest.mark.thorough_but("rename-*/model/Format-Serving-11-options5")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "pattern", "error", "options"),
    [
        ("write", "*/checkpoints/ckpt-2*", errno.EIO, {"count": 2}),
        ("rename", "*/checkpoints/*", errno.ESTALE, {"count": 1, "skip": 4}),
        ("write", "*/run.json.part-*", errno.ETIMEDOUT, {"count": 2}),
        ("rename", "*/run.json", errno.EIO, {"count": 1, "after": True}),
        ("rename", "*/model/Format-Serving", errno.EIO, {"count": 1, "after": True}),
        ("rename", "*/model/Format-Serving", errno.EAGAIN, {"count": 2}),
        ("mkdir", "*/model/.staging-*", errno.ESTALE, {"count": 1}),
        ("stat", "*/out/model_run/run.json", errno.ESTALE, {"count": 3}),
        ("list", "*/model/.staging-*", errno.EIO, {"count": 1}),
        ("remove", "STAGING", errno.EIO, {"count": 1, "after": True}),
        ("sync", "*/checkpoints/ckpt-2*", errno.EIO, {"count": 1}),  # the data is written again, too
        ("sync", "*/run.json.part-*", errno.ETIMEDOUT, {"count": 1}),
    ],
)
def test_a_transient_failure_is_retried(
    training: Training, calls: str, pattern: str, error: int, options: dict[str, int]
) -> None:
    training.faults.fail(calls, pattern.replace("STAGING", training.staging()), error, **options)
    done = training.run()
    assert training.met == options["count"], done.said
    assert done.code == 0, done.said
    assert done.said.count("Retrying (2 of 6)") == 1
    assert sorted(content(training.out / "model")) == MODEL
    assert training.status() == "succeeded"


@pytest.mark.slow
def test_a_completed_exchange_that_is_reported_as_failed_is_not_repeated(training: Training) -> None:
    before = training.run_once()
    training.faults.fail("exchange", "*/model/Format-Serving", errno.EIO, after=True)
    done = training.run()
    assert (done.code, training.met) == (0, 1), done.said
    after = content(training.out / "model")
    assert sorted(after) == MODEL
    assert after["Format-Serving/fingerprint.pb"] != before["Format-Serving/fingerprint.pb"], "the new one"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_slow_call_is_waited_for_and_logged(training: Training) -> None:
    training.faults.fail("write", "*/checkpoints/ckpt-2*", 0, count=1, seconds=8)
    done = training.run()
    assert done.code == 0, done.said
    assert training.met == 1
    path = training.out / "model_run" / "checkpoints" / "ckpt-2"
    slow = rf"Writing the checkpoint {re.escape(str(path))} has taken [5-8] s so far; still waiting\."
    assert re.search(slow, done.said), done.said
    assert sorted(content(training.out / "model")) == MODEL


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["deleted", "replaced"])
def test_an_output_folder_that_is_deleted_during_the_run(training: Training, fault: str) -> None:
    held = begin_and_hold(training)
    folder = training.out / "model"
    if fault == "deleted":
        shutil.rmtree(folder)
    else:
        folder.rename(training.out / "elsewhere")
        folder.mkdir()
    held.unlink()
    done = training.result()
    assert done.code == 2, done.said
    assert f"{folder}: the staging directory .staging-" in done.message
    assert "disappeared during training: it was deleted, replaced or unmounted. Nothing was published." in done.said
    assert not content(folder)
    again = training.run()
    assert again.code == 0, again.said
    assert "begins after step 6" in again.said
    assert sorted(content(folder)) == MODEL


@pytest.mark.slow
def test_logs_that_are_deleted_during_the_run_do_not_prevent_publishing(training: Training) -> None:
    held = begin_and_hold(training)
    gone = (training.out / "model_run").rename(training.out / "gone")  # at once: the run goes on writing into it
    shutil.rmtree(gone, ignore_errors=True)
    held.unlink()
    done = training.result()
    assert done.code == 0, done.said
    assert sorted(content(training.out / "model")) == MODEL
    assert training.status() == "succeeded"


def begin_and_hold(training: Training) -> pathlib.Path:
    """Starts a training; after the module saved its model, returns the file that it waits for to be deleted."""
    hold, held = (pathlib.Path(f"{training.module}.{name}") for name in ("hold", "held"))
    hold.touch()
    training.start()
    end = time.monotonic() + 120
    while not held.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return held


@pytest.mark.slow
def test_a_full_temporary_folder_is_reported(training: Training) -> None:
    training.faults.fail("write", "*/result.json.part", errno.ENOSPC)
    folder = tempfile.gettempdir()
    done = training.fails_then_succeeds(1, f"could not write its result below {folder}. ", "or set TMPDIR")
    assert "It published no model." in done.message


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_a_small_disk_fills_up(training: Training, small_disk: pathlib.Path) -> None:
    training.out = small_disk / "out"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))  # the remaining space is enough for two of its checkpoints, not for three
    done = training.run()
    assert done.code == 1, done.said
    path = training.out / "model_run" / "checkpoints" / "ckpt-3"
    assert f"Writing the checkpoint {path} failed: No space left on device. " in done.message
    assert " of 2.1 MB are free there. Free disk space" in done.message
    assert training.checkpoints() == [1, 2]
    assert not content(training.out / "model")
    assert not list((training.out / "model_run" / "checkpoints").glob("*_temp")), "it would take the room that is left"
    ballast.unlink()
    again = training.run()
    assert again.code == 0, again.said
    assert "begins after step 2" in again.said
    assert sorted(content(training.out / "model")) == MODEL
