"""A file's digest follows its content, whatever its size and times say, and unchanged files are not read again."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from generic_trainer.executors.checkpoints.data_fingerprint import DataFiles
from generic_trainer.executors.features.data_files.run import changes_of, description_of
from generic_trainer.executors.runtime.files import content_digests, file_io
from generic_trainer.executors.runtime.files.content_digests import FILE_NAME, ContentDigests, stamp_of

CONTENT, OTHER = b"label,1\n" * 1000, b"label,2\n" * 1000


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "data.csv"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def digests(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> ContentDigests:
    """Digests that are kept although the files have just been written."""
    monkeypatch.setattr(content_digests, "_SETTLED_NS", -(10**9))
    return ContentDigests(str(tmp_path))


def rewrite(path: pathlib.Path) -> None:
    """Writes other content of the same size, and restores the times."""
    status = path.stat()
    path.write_bytes(OTHER)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: pathlib.Path) -> None:
    (other := path.with_name("other")).write_bytes(OTHER)
    shutil.copystat(path, other)
    other.replace(path)


def write_mapped(path: pathlib.Path) -> None:
    import mmap

    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:] = OTHER
        view.flush()


@pytest.mark.parametrize("change", [rewrite, replace, write_mapped])
def test_the_digest_follows_content_of_equal_size(
    data: pathlib.Path, digests: ContentDigests, change: Callable[[pathlib.Path], None]
) -> None:
    before = digests.of([str(data)])
    digests.save()
    change(data)
    assert digests.of([str(data)]) != before
    assert ContentDigests(str(data.parent)).of([str(data)]) != before  # a later process


@pytest.mark.parametrize("change", [os.utime, lambda path: path.chmod(0o600), lambda path: path.write_bytes(CONTENT)])
def test_the_digest_does_not_depend_on_times_mode_and_inode(
    data: pathlib.Path, digests: ContentDigests, change: Callable[[pathlib.Path], object]
) -> None:
    before, stamp = digests.of([str(data)]), stamp_of(str(data))
    change(data)
    assert stamp_of(str(data)) != stamp
    assert digests.of([str(data)]) == before


def test_an_unchanged_file_is_read_once_however_its_path_is_written(
    data: pathlib.Path, digests: ContentDigests, monkeypatch: pytest.MonkeyPatch
) -> None:
    [digest] = digests.of([str(data)]).values()
    digests.save()
    (data.parent / "link").symlink_to(data.parent)
    monkeypatch.setattr(file_io, "opened", _must_not_be_called)
    monkeypatch.chdir(data.parent)
    paths = ["data.csv", "./data.csv", f"{data.parent}//data.csv", "link/data.csv", f"file://{data}"]
    assert set(ContentDigests(str(data.parent)).of(paths).values()) == {digest}


def _must_not_be_called(path: str) -> None:
    raise AssertionError(path)


def test_a_file_that_was_just_written_is_read_again(data: pathlib.Path) -> None:
    digests = ContentDigests(str(data.parent))
    before = digests.of([str(data)])
    digests.save()
    assert not (data.parent / FILE_NAME).exists()  # its times are too coarse to show a change in the same instant
    assert ContentDigests(str(data.parent)).of([str(data)]) == before


@pytest.mark.parametrize("content", ["", "[", "[]", "{}", '{"a": 1}', '{"a": {"stamp": 3, "digest": ""}}', "\x00"])
def test_garbled_digests_are_computed_again(data: pathlib.Path, digests: ContentDigests, content: str) -> None:
    expected = digests.of([str(data)])
    (data.parent / FILE_NAME).write_text(content)
    again = ContentDigests(str(data.parent))
    assert again.of([str(data)]) == expected
    again.save()
    assert str(data) in (data.parent / FILE_NAME).read_text()


def test_digests_of_deleted_files_are_dropped(data: pathlib.Path, digests: ContentDigests) -> None:
    other = data.with_name("other")
    other.write_bytes(OTHER)
    digests.of([str(data), str(other)])
    other.unlink()
    digests.save()
    assert str(other) not in (data.parent / FILE_NAME).read_text()


def grow(path: pathlib.Path) -> None:
    with path.open("ab") as file:
        file.write(CONTENT)


CHANGES = {
    "replaced": (replace, "replaced"),
    "rewritten": (rewrite, "replaced"),
    "grown": (grow, "grown from 8 kB to 16 kB"),
    "cut": (lambda path: os.truncate(path, 4000), "cut from 8 kB to 4 kB"),
    "deleted": (pathlib.Path.unlink, "deleted"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_since_the_beginning_are_described(data: pathlib.Path, digests: ContentDigests, change: str) -> None:
    (data.parent / "folder").mkdir()
    inner = data.parent / "folder" / "inner.csv"
    inner.write_bytes(CONTENT)
    files = DataFiles.read([f"{data.parent}/*.csv", f"{data.parent}/fold*"], digests)
    described = description_of(files)
    os.utime(data)
    assert changes_of(files) == []
    make, text = CHANGES[change]
    for path in (data, inner):
        make(path)
    assert changes_of(files) == [f"{path} ({text})" for path in (data, inner)]
    assert description_of(files) == described
