"""Object stores that TensorFlow cannot read, as TFX file systems: s3:// by fsspec.

TensorFlow's own file system for s3:// moved to tensorflow-io, which ended with TensorFlow 2.16. fsspec's is s3fs, in
the extra `s3`. Credentials, region and endpoint come from the places that boto3 reads, such as AWS_ACCESS_KEY_ID,
AWS_PROFILE and AWS_ENDPOINT_URL.

Readers and writers in TensorFlow's C++ code, such as `tf.data` and checkpoints, still need local copies; see
`features/object_stores/copies.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import posixpath
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import fsspec

PACKAGES = {"s3": "s3fs"}  # scheme, and the package with fsspec's file system
_VERSIONS = ("generation", "ETag", "etag", "LastModified", "mtime", "created")  # keys of fsspec's file systems


class Status(NamedTuple):
    """Status of an object.

    Attributes:
      length: Its size in bytes.
      version: Its generation or ETag, which differs after each change; else the time of the last one.
    """

    length: int
    version: str = ""

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Status:
        """Returns the status in fsspec's description of an object."""
        versions = (str(info[name]) for name in _VERSIONS if info.get(name))
        return cls(int(info.get("size") or 0), next(versions, ""))


def is_in_store(path: str) -> bool:
    """Whether a path is in an object store that TensorFlow cannot read."""
    return path.partition("://")[0] in PACKAGES


def is_installed(scheme: str) -> bool:
    """Whether the package for a scheme of PACKAGES is installed."""
    return importlib.util.find_spec(PACKAGES[scheme]) is not None


@functools.lru_cache
def object_store(scheme: str) -> ObjectStore:
    """Returns the file system of a scheme of PACKAGES."""
    import fsspec

    return ObjectStore(fsspec.filesystem(scheme, use_listings_cache=False))


class ObjectStore:
    """The methods of TFX's `Filesystem` that `file_io` calls, and `find`; no subclass of it, to avoid importing TFX."""

    def __init__(self, files: fsspec.AbstractFileSystem) -> None:
        self._files = files

    def open(self, name: str, mode: str = "r") -> IO[Any]:
        """Opens an object; writes appear when it is closed."""
        opened: IO[Any] = self._files.open(name, mode)
        return opened

    def copy(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Copies a file; one side may be a local path."""
        if not overwrite and self.exists(dst):
            raise FileExistsError(dst)
        if is_in_store(src) and is_in_store(dst):
            self._files.cp_file(src, dst)
        elif is_in_store(src):
            self._files.get_file(src, dst)
        else:
            self._files.put_file(src, dst)

    def exists(self, path: str) -> bool:
        """Whether there is an object, or any object below a folder."""
        return bool(self._files.exists(path))

    def glob(self, pattern: str) -> list[str]:
        """Returns the URIs that match a glob pattern."""
        return [self._uri(path) for path in self._files.glob(pattern)]

    def isdir(self, path: str) -> bool:
        """Whether there are objects below a path."""
        return bool(self._files.isdir(path))

    def listdir(self, path: str) -> list[str]:
        """Returns the names in a folder."""
        own = self._files._strip_protocol(path).rstrip("/")  # noqa: SLF001 (fsspec's documented way for file systems)
        paths = (path.rstrip("/") for path in self._files.ls(path, detail=False))
        return [posixpath.basename(path) for path in paths if path != own]

    def makedirs(self, path: str) -> None:
        """Does nothing: object stores have no folders."""

    def remove(self, path: str) -> None:
        """Deletes an object."""
        self._files.rm_file(path)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Copies an object, then deletes the original."""
        if not overwrite and self.exists(dst):
            raise FileExistsError(dst)
        self._files.mv(src, dst, recursive=self.isdir(src))

    def rmtree(self, path: str) -> None:
        """Deletes all objects below a path."""
        self._files.rm(path, recursive=True)

    def stat(self, path: str) -> Status:
        """Returns the status of an object."""
        return Status.of(self._files.info(path))

    def walk(self, top: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yields (folder, names of folders, names of files) of a folder and of those below."""
        for folder, folders, names in self._files.walk(top):
            yield self._uri(folder), list(folders), [name for name in names if name]

    def find(self, top: str) -> Iterator[tuple[str, Status]]:
        """Yields (URI, status) of each object below a folder."""
        for path, info in self._files.find(top, detail=True).items():
            yield self._uri(path), Status.of(info)

    def _uri(self, path: str) -> str:
        uri: str = self._files.unstrip_protocol(path)
        return uri
