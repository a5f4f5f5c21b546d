"""Detects local disks, where flock(2) excludes every other process that can access the path.

On network and FUSE mounts a lock may be visible in one mount only, so acquiring it does not guarantee exclusive access.
"""

from __future__ import annotations

import os
import re

_MOUNTS = "/proc/self/mountinfo"
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs", "tmpfs", "xfs", "zfs"}
)
_ESCAPED = re.compile(r"\\([0-7]{3})")  # octal escapes of spaces and similar characters in mountinfo


def is_on_local_disk(path: str, mounts: str = _MOUNTS) -> bool:
    """Whether a path is known to be on a local disk; False if the system does not list its mounts."""
    return disk_kind(path, mounts) in _LOCAL


def disk_kind(path: str, mounts: str = _MOUNTS) -> str:
    """Returns the type of the file system that a path is on, such as "nfs4"; "" if the system does not list its mounts.

    Args:
      path: The path.
      mounts: The list of mounts, in the format of proc_pid_mountinfo(5).
    """
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    place, kinds = os.path.realpath(path), dict(map(_mount, lines))  # the later of two mounts on one path counts
    while place not in kinds and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return kinds.get(place, "")


def _mount(line: str) -> tuple[str, str]:
    """Returns a mount's path and file system type."""
    before, _, after = line.partition(" - ")
    path = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), before.split(" ")[4])
    return path, after.split(" ")[0]
