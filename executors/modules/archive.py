"""Parses references to archives of training modules, and unpacks untrusted archives safely.

    archive = archive_in("taxi@gs://bucket/code/taxi.zip#sha256=3f2a…")
    archive.module                       # "taxi"
    archive.unpack(scratch)              # the folder that it is imported from

The hash is optional. The file names of archives uploaded by `code_archive.py` contain the first digits of the hash,
which are verified as well.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
import shutil
import zipfile
import zlib

from ..errors import InputError, ModuleError
from ..runtime.files import file_io

ARCHIVE_ENDINGS = (".zip", ".whl")
MAX_ARCHIVE_BYTES = 1 << 30  # packed or unpacked; far above the size of user code, and a limit for zip bombs
MAX_MEMBERS = 100_000
NAME_CHARACTERS = 16  # characters of the content's hash in a file name
HASH = "#sha256="
_NAMED = re.compile(rf"-([0-9a-f]{{{NAME_CHARACTERS}}})\.zip$")
_EXTRACTION_ERRNOS = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)
# Raised for files that are not zip files, are truncated or encrypted, or have invalid member names.
_READ_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, UnicodeError)


@dataclasses.dataclass(frozen=True)
class ModuleArchive:
    """An archive named by a module reference.

    Attributes:
      module: The module in it, optionally with a function; "" if the reference names none.
      place: The archive's path or URI.
      sha256: The expected hash of its content, or its beginning; "" if unknown.
    """

    module: str
    place: str
    sha256: str

    def read(self) -> bytes:
        """Returns the content, verified against its hash.

        Raises:
          InputError: When it does not match, or is too large.
        """
        if (size := file_io.size_of(self.place)) > MAX_ARCHIVE_BYTES:
            raise InputError(f"Archive {self.place} has {size:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}.")
        content = file_io.read_bytes(self.place)
        digest = hashlib.sha256(content).hexdigest()
        if not digest.startswith(self.sha256):
            raise InputError(
                f"Archive {self.place}: its content has the SHA-256 {digest}, but {self.sha256} is expected. It is "
                "another archive, or was changed or truncated in transfer."
            )
        return content

    def unpack(self, target: str) -> str:
        """Unpacks the archive below a folder and returns the folder to import from.

        Raises:
          ModuleError: When the archive does not exist.
          InputError: As `read`; and when it is not a readable zip file, has too many members, unpacks to too many
            bytes, or has members that would be written outside of the folder.
        """
        if not file_io.exists(self.place):
            raise ModuleError(f"Archive {self.place} does not exist.")
        os.makedirs(target, exist_ok=True)
        local = os.path.join(target, "archive.zip")  # a private copy, which can't change between check and use
        with open(local, "wb") as file:
            file.write(self.read())
        folder = os.path.join(os.path.realpath(target), "files")
        try:
            with zipfile.ZipFile(local) as members:
                self._check_members(members, folder)
                for member in members.infolist():
                    _extract(members, member, os.path.join(folder, member.filename))
        except _READ_ERRORS as error:
            raise InputError(f"Archive {self.place} is not a readable zip file: {error}.") from error
        except OSError as error:
            if error.errno not in _EXTRACTION_ERRNOS:
                raise
            raise InputError(
                f"Archive {self.place}: a member cannot be extracted as a file ({error.strerror})."
            ) from error
        return folder

    def _check_members(self, members: zipfile.ZipFile, folder: str) -> None:
        found = members.infolist()
        if len(found) > MAX_MEMBERS:
            raise InputError(f"Archive {self.place} has {len(found):,} members; the limit is {MAX_MEMBERS:,}.")
        if (size := sum(member.file_size for member in found)) > MAX_ARCHIVE_BYTES:
            raise InputError(f"Archive {self.place} unpacks to {size:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}.")
        for member in found:
            place = os.path.normpath(os.path.join(folder, member.filename))
            if place != folder and not place.startswith(folder + os.sep):
                raise InputError(
                    f"Archive {self.place} has a member with a path outside of the archive: {member.filename!r}."
                )


def archive_in(reference: str) -> ModuleArchive | None:
    """Returns the archive named by a module reference, or None without one.

    Raises:
      InputError: When the text after `#sha256=` is not a SHA-256 hash.
    """
    named, separator, sha256 = reference.rpartition(HASH)
    named = named if separator else reference
    if not named.lower().endswith(ARCHIVE_ENDINGS):
        return None
    if separator and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise InputError(f"{reference}: {HASH!r} must be followed by 64 hexadecimal digits; got {sha256!r}.")
    module, _, place = named.rpartition("@")
    by_name = _NAMED.search(place)
    return ModuleArchive(module, place, sha256.lower() if separator else by_name[1] if by_name else "")


def _extract(members: zipfile.ZipFile, member: zipfile.ZipInfo, place: str) -> None:
    """Writes a member as a regular file; for a symbolic link, its target path becomes the content."""
    if member.is_dir():
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with members.open(member) as packed, open(place, "wb") as file:
        shutil.copyfileobj(packed, file)
