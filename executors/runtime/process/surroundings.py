"""Explains failures whose cause is outside of the program and its inputs: the working folder, limits of the shell.

    require_readable_names(sys.argv)          # before a command runs
    require_working_folder()
    require_tensorflow_can_run()
    …
    except Exception as error:
        error = explain(error) or error       # an InputError with the cause and the remedy

A limit is only named if it is set and the failure is of its kind: Python's and TensorFlow's own messages name neither.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import sys
import threading
from collections.abc import Sequence

from ...errors import InputError
from ..files import temporary_folder
from ..quantities import size_text

_GENERAL = "Out of memory: the machine's memory or a limit (container or ulimit) is exhausted."
_NO_PROCESS = (
    "No more threads or processes can be started in this container or on this machine. End some, or raise the limit "
    "(docker and podman: --pids-limit; Kubernetes: the kubelet's podPidsLimit)."
)
_NO_THREAD = "can't start new thread"
_NO_HOME = "Could not determine home directory."  # of `pathlib`, which libraries call when they are imported
# TensorFlow has a thread in each pool for each CPU. A prediction on two CPUs had 20 to 24 threads.
_POOLS = 2
_THREADS_BESIDE_POOLS = 16
# Of the dynamic loader, when it cannot map a library.
_NO_MAPPING = ("failed to map segment from shared object", "cannot allocate memory in static TLS block")


def require_readable_names(arguments: Sequence[str]) -> None:
    """Checks that TensorFlow, which encodes names of files in UTF-8, finds the files that the arguments name.

    Raises:
      InputError: When the locale has another encoding, and an argument or the working folder is not ASCII.
    """
    encoding = sys.getfilesystemencoding()
    folder = "" if _deleted_working_folder() else os.getcwd()
    for name in (*arguments, folder):
        if encoding != "utf-8" and not name.isascii():
            shown = os.fsencode(name).decode("utf-8", "replace")
            raise InputError(
                f"{shown}: names of files are read as {encoding} here, not as UTF-8, because of LC_ALL, LANG or "
                "PYTHONUTF8. Set LC_ALL=C.UTF-8, and unset PYTHONUTF8."
            )


def require_working_folder() -> None:
    """Checks that the working folder exists.

    Raises:
      InputError: When it was deleted, also for absolute paths: Python and its libraries need it in many places.
    """
    if message := _deleted_working_folder():
        raise InputError(message)


def require_shared_memory() -> None:
    """Checks that locks between processes can be made, which Beam needs.

    Raises:
      InputError: When they cannot, as with a read-only /dev/shm.
    """
    try:
        multiprocessing.get_context().Lock()
    except OSError as error:
        raise InputError(
            f"Shared memory in /dev/shm cannot be used: {error.strerror}. Mount a writable one (docker and podman: "
            "--shm-size 64m, or --tmpfs /dev/shm; Kubernetes: an emptyDir with medium Memory)."
        ) from error


def require_tensorflow_can_run() -> None:
    """Checks what TensorFlow needs to run, as it aborts the process otherwise: /proc, and some threads.

    Raises:
      InputError: When it is missing.
    """
    if missing := _missing_for_tensorflow():
        raise InputError(missing)


def explain(error: BaseException) -> InputError | None:
    """Returns an InputError with the cause and the remedy for an error of the surroundings; None for other errors."""
    if isinstance(error, FileNotFoundError) and (message := _deleted_working_folder()):
        return InputError(message)
    if str(error) == _NO_THREAD:
        return InputError(thread_limit())
    if str(error) == _NO_HOME and "HOME" not in os.environ:
        return InputError(
            f"The home folder is unknown: HOME is not set, and user {os.geteuid()} is not in /etc/passwd. Set HOME to "
            "a folder, such as HOME=/tmp."
        )
    return temporary_folder.explain(error)


def explain_limit(error: BaseException) -> InputError | None:
    """Returns an InputError for a library that cannot be loaded within the limit of the address space; or None."""
    is_library = isinstance(error, ImportError) and any(part in str(error) for part in _NO_MAPPING)
    return InputError(limit) if is_library and (limit := address_limit()) else None


def memory_hint(error: BaseException) -> str:
    """Returns what to do about an error for lack of memory or threads; "" for other errors."""
    text = str(error)
    if _NO_THREAD in text:
        return thread_limit()
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return address_limit() or _GENERAL
    return ""


def abort_cause() -> str:
    """Returns a sentence on what may have made TensorFlow abort a child of this process; "" if it is unknown."""
    return _missing_for_tensorflow() or address_limit()


def address_limit() -> str:
    """Returns a sentence on the limit of the memory that this process may reserve; "" without a limit."""
    for number, name, option in (
        (resource.RLIMIT_AS, "address space", "-v"),
        (resource.RLIMIT_DATA, "data segment", "-d"),
    ):
        limit = resource.getrlimit(number)[0]
        if limit != resource.RLIM_INFINITY:
            return (
                f"The {name} is limited to {size_text(limit)} (ulimit {option}), which is too little: TensorFlow "
                "reserves more than it uses. Remove that limit; to limit memory, use a container or a cgroup."
            )
    return ""


def thread_limit() -> str:
    """Returns a sentence on the limit that keeps this process from starting a thread or process."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY and os.geteuid() != 0:
        return f"This user may have at most {limit:,} processes and threads (ulimit -u). End some, or raise the limit."
    return address_limit() or _NO_PROCESS


def _missing_for_tensorflow() -> str:
    if sys.platform == "linux" and not os.path.exists("/proc/self"):
        return "TensorFlow needs /proc, which is not mounted. Mount it: mount -t proc proc /proc."
    return "" if _can_start_threads() else thread_limit()


def _can_start_threads() -> bool:
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        for _ in range(_THREADS_BESIDE_POOLS + _POOLS * (os.cpu_count() or 1)):
            thread = threading.Thread(target=over.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        return False
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return True


def _deleted_working_folder() -> str:
    try:
        os.getcwd()
    except FileNotFoundError:
        return (
            "The working folder of this command was deleted. Change to an existing one (cd), and run the command again."
        )
    except OSError as error:
        return f"The working folder of this command cannot be used: {error.strerror}. Change to another one (cd)."
    return ""
