"""Explains failures whose cause is outside of the program and its inputs: the working folder, limits of the shell.

    require_working_folder()                  # before a command runs
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

from ...errors import InputError
from ..files import temporary_folder
from ..quantities import size_text

_GENERAL = "Out of memory: the machine's memory or a limit (container or ulimit) is exhausted."
_NO_THREAD = "can't start new thread"
# Of the dynamic loader, when it cannot map a library.
_NO_MAPPING = ("failed to map segment from shared object", "cannot allocate memory in static TLS block")


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


def explain(error: BaseException) -> InputError | None:
    """Returns an InputError with the cause and the remedy for an error of the surroundings; None for other errors."""
    if isinstance(error, FileNotFoundError) and (message := _deleted_working_folder()):
        return InputError(message)
    return temporary_folder.explain(error)


def explain_limit(error: BaseException) -> InputError | None:
    """Returns an InputError for a library that cannot be loaded within the limit of the address space; or None."""
    is_library = isinstance(error, ImportError) and any(part in str(error) for part in _NO_MAPPING)
    return InputError(limit) if is_library and (limit := address_limit()) else None


def memory_hint(error: BaseException) -> str:
    """Returns what to do about an error for lack of memory or threads; "" for other errors."""
    text = str(error)
    if _NO_THREAD in text:
        return thread_limit() or _GENERAL
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return address_limit() or _GENERAL
    return ""


def address_limit() -> str:
    """Returns a sentence on the limit of this process's address space; "" without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    return (
        f"The address space is limited to {size_text(limit)} (ulimit -v), which is too little: TensorFlow reserves "
        "more than it uses. Remove that limit; to limit memory, use a container or a cgroup."
    )


def thread_limit() -> str:
    """Returns a sentence on the limits that keep this process from starting a thread or process; "" without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY and os.geteuid() != 0:
        return f"This user may have {limit:,} processes and threads (ulimit -u). End some, or raise the limit."
    return address_limit()


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
