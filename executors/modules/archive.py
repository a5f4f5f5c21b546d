"""Archives of training modules: what a reference says of one, and how it is unpacked. Nothing in one is trusted.

    archive = archive_in("taxi@gs://bucket/code/taxi.zip#sha256=3f2a…")
    archive.module                       # "taxi"
    archive.unpack(scratch)              # the folder that it is imported from

The hash is optional. `code_archive.py` names what it uploads by the content's, and that is held against it, too.
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
MAX_ARCHIVE_BYTES = 1 << 30  # unpacked; user code is small, and a zip bomb is not
MAX_MEMBERS = 100_000
NAME_CHARACTERS = 16  # of the hash, in the name of an archive that is named by its content
HASH = "#sha256="
_NAMED = re.compile(rf"-([0-9a-f]{{{NAME_CHARACTERS}}})\.zip$")
_NO_FILE = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)
# What a zip file can be that is none, or is not whole, or is encrypted, or has names that no file can have.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, UnicodeError)


@dataclasses.dataclass(frozen=True)
class ModuleArchive:
    """An archive that a reference names.

    Attributes:
      module: The module in it, with its function if there is one; "" when none is named.
      place: The archive's path or URI.
      sha256: What its content must have, or what that must begin with; "" when nothing was said.
    """

    module: str
    place: str
    sha256: str

    def read(self) -> bytes:
        """Returns the content, which is what its hash says.

        Raises:
          InputError: When it is not, or is too large.
        """
        if (size := file_io.size_of(self.place)) > MAX_ARCHIVE_BYTES:
            raise InputError(f"Archive {self.place} has {size:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}.")
        content = file_io.read_bytes(self.place)
        digest = hashlib.sha256(content).hexdigest()
        if not digest.startswith(self.sha256):
            raise InputError(
                f"Archive {self.place}: its content has the SHA-256 {digest}, and {self.sha256} was promised. It is "
                "another one, or was changed or cut off on its way."
            )
        return content

    def unpack(self, target: str) -> str:
        """Unpacks the archive below a folder, whatever is in it, and returns the folder to import from.

        Raises:
          ModuleError: When there is no such archive.
          InputError: As `read`; and when it is no zip file, or has members that would land outside of the folder.
        """
        if not file_io.exists(self.place):
            raise ModuleError(f"Archive {self.place} does not exist.")
        os.makedirs(target, exist_ok=True)
        local = os.path.join(target, "archive.zip")  # what is checked is what is unpacked, whoever writes to the place
        with open(local, "wb") as file:
            file.write(self.read())
        folder = os.path.join(os.path.realpath(target), "files")
        try:
            with zipfile.ZipFile(local) as members:
                self._require_sane(members, folder)
                for member in members.infolist():
                    _extract(members, member, os.path.join(folder, member.filename))
        except _BROKEN as error:
            raise InputError(f"Archive {self.place} is not a readable zip file: {error}.") from error
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise InputError(f"Archive {self.place}: a member cannot be a file ({error.strerror}).") from error
        return folder

    def _require_sane(self, members: zipfile.ZipFile, folder: str) -> None:
        found = members.infolist()
        if len(found) > MAX_MEMBERS:
            raise InputError(f"Archive {self.place} has {len(found):,} members; the limit is {MAX_MEMBERS:,}.")
        if (size := sum(member.file_size for member in found)) > MAX_ARCHIVE_BYTES:
            raise InputError(f"Archive {self.place} unpacks to {size:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}.")
        for member in found:
            place = os.path.normpath(os.path.join(folder, member.filename))
            if place != folder and not place.startswith(folder + os.sep):
                raise InputError(f"Archive {self.place} has a member outside of itself: {member.filename!r}.")


def archive_in(reference: str) -> ModuleArchive | None:
    """Returns the archive that a module's reference names, or None when it names none.

    Raises:
      InputError: When what should be a hash is none.
    """
    named, separator, sha256 = reference.rpartition(HASH)
    named = named if separator else reference
    if not named.lower().endswith(ARCHIVE_ENDINGS):
        return None
    if separator and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise InputError(f"{reference}: after {HASH!r} come 64 hexadecimal digits; got {sha256!r}.")
    module, _, place = named.rpartition("@")
    by_name = _NAMED.search(place)
    return ModuleArchive(module, place, sha256.lower() if separator else by_name[1] if by_name else "")


def _extract(members: zipfile.ZipFile, member: zipfile.ZipInfo, place: str) -> None:
    """Writes a member as a plain file, a symbolic link too: what it points to is its content."""
    if member.is_dir():
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with members.open(member) as packed, open(place, "wb") as file:
        shutil.copyfileobj(packed, file)
