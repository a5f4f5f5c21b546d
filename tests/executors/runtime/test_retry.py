"""Which errors are retried, how often and for how long, and the messages for the others."""

from __future__ import annotations

import errno
import os
import pathlib
import time
from collections.abc import Callable

import pytest
import tensorflow as tf

from generic_trainer.executors.errors import StorageError
from generic_trainer.executors.runtime.files import storage_errors
from generic_trainer.executors.runtime.files.retry import TRIES, retry_call


class _Disk:
    """Raises errors one after the other, then returns."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.calls = 0
        self.pauses: list[float] = []

    def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "content"

    def read(self, done: Callable[[], bool] | None = None) -> str:
        return retry_call(self, "Reading", "/data/file", done=done, sleep=self.pauses.append)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/data/file")


def _of_tensorflow(kind: type[tf.errors.OpError], text: str) -> tf.errors.OpError:
    return kind(None, None, text)


@pytest.mark.parametrize(
    "error",
    [
        *map(_error, (errno.EIO, errno.EAGAIN, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EBUSY)),
        _of_tensorflow(tf.errors.UnavailableError, "503 from the bucket"),
        _of_tensorflow(tf.errors.DeadlineExceededError, "no answer"),
        _of_tensorflow(tf.errors.AbortedError, "/data/file; Stale file handle"),
        _of_tensorflow(tf.errors.UnknownError, "{{function}} /data/file; Input/output error [Op:SaveV2]"),
    ],
    ids=repr,
)
def test_transient_errors_are_retried(error: Exception) -> None:
    disk = _Disk(error, error)
    assert disk.read() == "content"
    assert disk.calls == 3


@pytest.mark.parametrize(
    "error",
    [
        *map(_error, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)),
        _of_tensorflow(tf.errors.ResourceExhaustedError, "/data/file; No space left on device"),
        _of_tensorflow(tf.errors.PermissionDeniedError, "403 from the bucket"),
    ],
    ids=repr,
)
def test_permanent_errors_are_not_retried(error: Exception) -> None:
    disk = _Disk(error)
    with pytest.raises(StorageError, match="Reading /data/file failed: ") as caught:
        disk.read()
    assert disk.calls == 1
    assert isinstance(caught.value, OSError)
    assert caught.value.filename == "/data/file"
    assert caught.value.strerror == os.strerror(caught.value.errno)


@pytest.mark.parametrize(
    "error",
    [
        _error(errno.ENOENT),
        _error(errno.EISDIR),
        ValueError("no error of a disk"),
        _of_tensorflow(tf.errors.ResourceExhaustedError, "OOM when allocating tensor with shape[3]"),
        _of_tensorflow(tf.errors.NotFoundError, "/data/file; No such file or directory"),
    ],
    ids=repr,
)
def test_errors_unrelated_to_storage_propagate_unchanged(error: Exception) -> None:
    disk = _Disk(error)
    with pytest.raises(type(error)) as caught:
        disk.read()
    assert caught.value is error
    assert disk.calls == 1


def test_attempts_are_bounded_with_exponential_backoff() -> None:
    disk = _Disk(*[_error(errno.EIO)] * TRIES)
    with pytest.raises(StorageError, match=r"Reading /data/file failed, 6 times: Input/output error\. Check the disk"):
        disk.read()
    assert disk.calls == TRIES == 6
    # 0.2 s, multiplied by 2.5 each time, with a jitter of 50 to 150 %.
    middles = [0.2 * 2.5**number for number in range(5)]
    assert all(0.5 * m <= pause <= 1.5 * m for m, pause in zip(middles, disk.pauses, strict=True))


def test_a_call_that_failed_after_taking_effect_counts_as_done() -> None:
    disk = _Disk(_error(errno.EIO), FileNotFoundError(errno.ENOENT, "gone"))
    assert disk.read(done=lambda: True) is None
    assert disk.calls == 2

    disk = _Disk(FileNotFoundError(errno.ENOENT, "gone"))
    with pytest.raises(FileNotFoundError):
        disk.read(done=lambda: True)  # it was missing before the first attempt


def test_a_full_disk_error_contains_the_free_space(tmp_path: pathlib.Path) -> None:
    def write() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = str(tmp_path / "not" / "yet" / "there")
    with pytest.raises(StorageError, match=r"B of \S+ [kMGT]B are free there\. Free disk space, or choose a folder on"):
        retry_call(write, "Writing", path)


def test_no_thread_is_left_running_after_the_calls() -> None:
    import threading

    retry_call(lambda: None, "Reading", "/data/file")
    end = time.monotonic() + 30
    while any(thread.name == "file watch" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_disk_error_of_a_module_has_a_hint_and_a_lost_worker_has_none() -> None:
    full = tf.errors.ResourceExhaustedError(None, None, "/out/model; No space left on device")
    assert "Free disk space" in storage_errors.hint(full, "/out")
    lost = tf.errors.UnavailableError(None, None, "The following tasks are unhealthy (stopped sending heartbeats)")
    assert storage_errors.hint(lost, "/out") == ""
    reset = tf.errors.UnavailableError(None, None, "Collective ops is aborted by: recvmsg:Connection reset by peer")
    assert storage_errors.hint(reset, "/out") == ""
    mount = tf.errors.UnavailableError(None, None, "/mnt/model; Connection reset by peer")
    assert "/mnt/model" in storage_errors.hint(mount, "/out")
