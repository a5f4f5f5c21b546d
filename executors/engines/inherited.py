"""The state that a child process inherits from the thread that starts it, on Linux.

    before = inherited.state()
    ...
    inherited.state() == before     # whether a process started now would be the same as one started before

That is: user, groups, capabilities, resource limits, CPU affinity, priority, blocked and ignored signals, namespaces,
root directory, control group and security label. The working directory, the umask and the environment are excluded,
because a forked process can set them exactly.
"""

from __future__ import annotations

import contextlib
import os

_PROC = "/proc/thread-self"  # not /proc/self: a child inherits from the thread that starts it
_FILES = (
    "limits",
    "cgroup",
    "oom_score_adj",
    "coredump_filter",
    "personality",
    "attr/current",
    "loginuid",
)
_NAMESPACES = (
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid_for_children",
    "time_for_children",
    "user",
    "uts",
)
_STATUS = (
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Cpus_allowed",
    "Mems_allowed",
    "SigBlk",
    "SigIgn",
    "THP_enabled",
)


def state() -> tuple[str, ...]:
    """Returns the state that a child started now would inherit, for comparison; "" for what cannot be read."""
    status = _status()
    root = os.stat("/")
    return (
        *(status.get(name, "") for name in _STATUS),
        *(_content(name) for name in _FILES),
        *(_link(f"ns/{name}") for name in _NAMESPACES),
        f"{root.st_dev} {root.st_ino}",
        f"{os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)} {os.sched_getparam(0).sched_priority}",
    )


def umask() -> int:
    """Returns the umask without a temporary change of it, which would affect other threads."""
    return int(_status().get("Umask", "022"), 8)


def shares_process_ids() -> bool:
    """Whether children are in this process's PID namespace; False after `unshare(CLONE_NEWPID)`."""
    return _link("ns/pid") == _link("ns/pid_for_children")


def _status() -> dict[str, str]:
    lines = (line.partition(":") for line in _content("status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _content(name: str) -> str:
    with contextlib.suppress(OSError), open(f"{_PROC}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def _link(name: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"{_PROC}/{name}")
    return ""
