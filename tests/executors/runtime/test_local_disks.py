"""Locks count as proof on disks of this machine only."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer.executors.runtime.files.local_disks import is_on_local_disk

MOUNTS = r"""
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:40 / FOLDER/nfs rw,relatime - nfs4 server:/export rw,local_lock=none
41 27 0:41 / FOLDER/a\040bucket rw,nosuid - fuse.gcsfuse bucket rw
42 27 254:1 / FOLDER/a\040bucket/disk rw - xfs /dev/vdb rw
43 27 0:43 / FOLDER/twice rw - ext4 /dev/vdc rw
44 43 0:44 / FOLDER/twice rw - virtiofs share rw
"""


@pytest.mark.parametrize(
    ("name", "is_local"),
    [
        ("here", True),
        ("nfs/model", False),
        ("a bucket", False),
        ("a bucket/disk/model", True),
        ("twice/model", False),
        ("link", False),
    ],
)
def test_the_nearest_mount_decides(tmp_path: pathlib.Path, name: str, is_local: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.strip().replace("FOLDER", str(tmp_path)) + "\n")
    (tmp_path / "nfs").mkdir()
    (tmp_path / "link").symlink_to("nfs")
    assert is_on_local_disk(str(tmp_path / name), str(mounts)) == is_local


def test_without_a_list_of_mounts_no_disk_is_local(tmp_path: pathlib.Path) -> None:
    assert not is_on_local_disk(str(tmp_path), str(tmp_path / "no list"))
