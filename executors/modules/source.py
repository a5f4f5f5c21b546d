"""Finds a training module's source files without running any of them.

`find_source` resolves a user's reference (a file, a dotted module, `module.function`, `module@archive.zip`, local or
remote) to a `ModuleSource`: a local file, the folders that it imports from, all user files that it imports directly or
indirectly, and a fingerprint of all of them. Everything that is decided before the module runs is read from these
files: the cache key, the Keras version, and the process to run it in.

Usage:

    with tempfile.TemporaryDirectory() as scratch:
        source = find_source("trainers/taxi.py", scratch)
        source.fingerprint  # changes when taxi.py or a helper that it imports changes
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import posixpath
import sys
import sysconfig
from collections.abc import Iterator, Sequence

from ..errors import InputError, ModuleError, did_you_mean
from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData
from .archive import archive_in
from .project_root import project_folder
from .source_text import require_text

_WEB_SCHEMES = ("http://", "https://", "ftp://")
_NOT_THE_USERS = sys.stdlib_module_names | {__name__.partition(".")[0]}


@dataclasses.dataclass(frozen=True)
class ModuleSource(JsonData):
    """A training module on this machine, found but not yet run.

    Attributes:
      reference: The reference that the user gave.
      path: The module's file.
      name: Its import name, `taxi` or `project.trainers.taxi`.
      roots: Folders to put in front of `sys.path` while it runs: the module's own folder first, then the folder above
        its package and those folders of its project that absolute imports need, the topmost last.
      function: The function named in the reference (`module.function`), or None.
      files: The module's file and every user file that it imports, as sorted absolute paths.
      relative_imports: Whether the module itself uses `from . import x`.
      fingerprint: SHA-256 (hex) of the names and contents of `files`.
    """

    reference: str
    path: str
    name: str
    roots: tuple[str, ...]
    function: str | None
    files: tuple[str, ...]
    relative_imports: bool
    fingerprint: str


def find_source(reference: str, scratch: str) -> ModuleSource:
    """Finds a training module by the user's reference.

    Args:
      reference: `path/to/module.py`, `package.module`, `package.module.function`, or either of the last two followed by
        `@archive.zip` or `@archive.whl`, and optionally by `#sha256=` and the archive's hash. Files and archives may be
        on any file system that TFX's fileio supports.
      scratch: A folder of the caller for local copies of remote files; it must exist as long as the module is in use.

    Raises:
      ModuleError: When the file, module or function does not exist; the message suggests similar names.
      InputError: When the reference is a web address, or an archive is corrupt, does not match its hash, or has members
        with paths outside of it.
    """
    archive = archive_in(reference)
    if (place := archive.place if archive else reference).startswith(_WEB_SCHEMES):
        raise InputError(
            f"{place}: code is not downloaded from the web. Copy it to a folder or a bucket, and give that path."
        )
    if archive is not None:
        if not archive.module:
            raise ModuleError(f"{reference}: name the module in the archive, as in 'my_module@{reference}'.")
        return _find_dotted(reference, archive.module, [archive.unpack(os.path.join(scratch, "archive"))])
    if reference.endswith(".py") or "/" in reference or os.sep in reference:
        return _find_file(reference, scratch)
    return _find_dotted(reference, reference, sys.path)


def _find_file(reference: str, scratch: str) -> ModuleSource:
    folder, name = posixpath.split(reference)
    if not file_io.exists(reference) or file_io.isdir(reference):
        beside = [entry for entry in _listdir(folder or ".") if entry.endswith(".py")]
        kind = "is a folder" if file_io.exists(reference) else "does not exist"
        raise ModuleError(f"Training module {reference} {kind}.{did_you_mean(name, beside)}")
    if not name.endswith(".py"):
        raise ModuleError(f"Training module {reference} is not a Python file: its name must end in .py.")
    if file_io.is_remote(reference):
        copy = os.path.join(scratch, "source")
        _download_python_files(folder, copy)
        path = os.path.join(copy, name)
    else:
        path = os.path.realpath(reference)
    top, module_name = os.path.dirname(path), os.path.splitext(name)[0]
    roots = [top]
    relative_imports = _has_relative_imports(path)
    if relative_imports and os.path.exists(os.path.join(top, "__init__.py")):
        # `from ..x import y` only works under the name that the package itself gives the module.
        while os.path.exists(os.path.join(top, "__init__.py")):
            top, package = os.path.split(top)
            module_name = f"{package}.{module_name}"
        roots.append(top)
    return _source(reference, path, module_name, roots, None)


def _find_dotted(reference: str, dotted: str, search: Sequence[str]) -> ModuleSource:
    """Finds `package.module` or `package.module.function` in a list of folders."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ModuleError(f"{reference}: {dotted!r} is not a module's name. Give a .py file or package.module.")
    importlib.invalidate_caches()
    specs = list(_specs(parts, search))
    spec = specs[-1] if len(specs) >= max(len(parts) - 1, 1) else None
    if spec is None or not (spec.origin or "").endswith(".py"):
        missing = parts[min(len(specs), len(parts) - 1)]
        inside = specs[-1].submodule_search_locations if specs else None
        entries = (name for place in inside or search for name in _listdir(place or "."))
        found = [name.removesuffix(".py") for name in entries if name.endswith(".py") or name.isidentifier()]
        raise ModuleError(
            f"Training module {reference}: there is no {missing!r} in "
            f"{'.'.join(parts[: len(specs)]) or 'the folders on sys.path'}.{did_you_mean(missing, found)}"
        )
    path = os.path.realpath(str(spec.origin))
    top = path
    for _ in range(len(specs) + (os.path.basename(path) == "__init__.py")):
        top = os.path.dirname(top)
    roots = list(dict.fromkeys([os.path.dirname(path), top]))
    function = parts[-1] if len(specs) < len(parts) else None
    return _source(reference, path, ".".join(parts[: len(specs)]), roots, function)


def _specs(parts: Sequence[str], search: Sequence[str]) -> Iterator[importlib.machinery.ModuleSpec]:
    """Yields the specs of `a`, `a.b`, … without importing a parent package, as far as they are found."""
    spec = importlib.machinery.PathFinder.find_spec(parts[0], list(search))
    if spec is None and search is sys.path:
        spec = importlib.util.find_spec(parts[0])  # editable installs use their own meta path finders
    for depth in range(1, len(parts) + 1):
        if spec is None:
            return
        yield spec
        if depth == len(parts) or spec.submodule_search_locations is None:
            return
        locations = list(spec.submodule_search_locations)
        # Only the last part: below two folders without __init__.py, finding the full name would import its parents.
        spec = importlib.machinery.PathFinder.find_spec(parts[depth], locations)


def _source(reference: str, path: str, name: str, roots: Sequence[str], function: str | None) -> ModuleSource:
    require_text(path)
    files, roots = _files_of_the_user(path, name, roots)
    digest = hashlib.sha256()
    base = roots[-1]
    for file in files:
        content = hashlib.sha256(file_io.read_bytes(file)).hexdigest()
        digest.update(f"{os.path.relpath(file, base)}\0{content}\n".encode())
    relative = _has_relative_imports(path)
    return ModuleSource(reference, path, name, tuple(roots), function, tuple(files), relative, digest.hexdigest())


def own_folders(roots: Sequence[str]) -> list[str]:
    """Returns the roots that contain user files; for an installed package only the module's own folder."""
    return [root for number, root in enumerate(roots) if number == 0 or not is_installed(root)]


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a file is below one of the folders, but not in an environment inside of it."""
    path = os.path.realpath(path)
    return any(
        _below(path, folder) and not is_installed(os.path.relpath(path, os.path.realpath(folder))) for folder in folders
    )


def is_installed(path: str) -> bool:
    """Whether a path is in an environment's folder of installed packages."""
    return any(part in ("site-packages", "dist-packages") for part in path.split(os.sep))


def _below(path: str, folder: str) -> bool:
    return path.startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep)


def _has_relative_imports(path: str) -> bool:
    return any(level > 0 for level, _ in imports_in(path))


def _files_of_the_user(path: str, name: str, roots: Sequence[str]) -> tuple[list[str], list[str]]:
    """Collects the user's files by following imports from file to file.

    Returns:
      The user's files, sorted; and the roots, extended by the project folders in which absolute imports were found.
    """
    importlib.invalidate_caches()
    own = own_folders(roots)
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    search = [*roots, *(os.path.realpath(entry) for entry in sys.path if not is_installed(entry))]
    found: set[str] = set()
    around: set[str] = set()
    pending = [path, *_packages_around(path, name, roots[-1])]
    while pending:
        file = pending.pop()
        if file in found:
            continue
        found.add(file)
        for level, target in imports_in(file):
            places = search
            if level:
                base = os.path.dirname(file)
                for _ in range(level - 1):
                    base = os.path.dirname(base)
                places = [base]
                pending.extend(init for init in [os.path.join(base, "__init__.py")] if os.path.exists(init))
            elif target.partition(".")[0] in _NOT_THE_USERS:
                continue
            elif place := project_folder(target, file, search):
                around.update([place] if _below(path, place) and not is_installed(place) else [])
                places = [place]
            for spec in _specs(target.split("."), places) if target else ():
                origin = os.path.realpath(spec.origin or "")
                if origin.endswith(".py") and (
                    is_below(origin, [*own, *around]) or not (is_installed(origin) or is_below(origin, library))
                ):
                    pending.append(origin)
    return sorted(found), [roots[0], *sorted({*roots[1:], *around} - {roots[0]}, key=len, reverse=True)]


def _packages_around(path: str, name: str, top: str) -> list[str]:
    """Returns the `__init__.py` files of the user packages that contain a module; importing it runs them first."""
    folder, around = os.path.dirname(path), []
    while name.partition(".")[0] not in _NOT_THE_USERS and _below(folder, top):
        around.append(os.path.join(folder, "__init__.py"))
        folder = os.path.dirname(folder)
    return [file for file in around if os.path.exists(file)]


def parsed(path: str) -> ast.Module:
    """Returns a file's syntax tree; an empty one if it does not parse.

    The SyntaxError is raised, with its own traceback, when the module is loaded.
    """
    return _tree(file_io.read_bytes(path))


@functools.lru_cache(maxsize=64)
def _tree(source: bytes) -> ast.Module:
    """Parses a source, cached: a module is analyzed about a dozen times, and no caller modifies the tree."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def imports_in(path: str) -> Iterator[tuple[int, str]]:
    """Yields (level, dotted name) of every import statement in a file, including those inside functions.

    `from a import b` yields `a` and `a.b`, since b may be a module.
    """
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
            for alias in node.names:
                yield node.level, f"{node.module}.{alias.name}" if node.module else alias.name


def _download_python_files(folder: str, target: str) -> None:
    """Copies the Python files of a remote module's folder, and of those of its sub-folders that are imported.

    The folder may be the root of a bucket, with too many files below it to list them all.
    """
    entries = set(file_io.listdir(folder))
    pending = [name for name in entries if name.endswith(".py")]
    while pending:
        name = pending.pop()
        copy = os.path.join(target, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "wb") as file:
            file.write(file_io.read_bytes(posixpath.join(folder, name)))
        for package in {imported.partition(".")[0] for _, imported in imports_in(copy)} & entries:
            entries.discard(package)
            below = (posixpath.join(package, file) for file in file_io.files_below(posixpath.join(folder, package)))
            pending += [file for file in below if file.endswith(".py")]


def _listdir(folder: str) -> list[str]:
    try:
        return file_io.listdir(folder)
    except OSError:
        return []
