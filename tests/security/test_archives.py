"""Code archives are untrusted: they are extracted only into their folder, and verified against their hash."""

from __future__ import annotations

import hashlib
import pathlib
import re
import stat
import struct
import zipfile
from collections.abc import Callable

import pytest

from generic_trainer import InputError
from generic_trainer.executors.errors import ModuleError
from generic_trainer.executors.modules import archive as module_archive
from generic_trainer.executors.modules.archive import archive_in
from generic_trainer.executors.modules.source import find_source
from generic_trainer.pipelines.definition.code_archive import CodeArchive, make_archive

MODULE = "def run_fn(fn_args): pass\n"


@pytest.fixture
def archive(tmp_path: pathlib.Path) -> Callable[..., str]:
    """Writes a zip file with a module and other members; returns its path."""

    def write(members: dict[str, bytes | str] | None = None, name: str = "code.zip") -> str:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for member, content in {"taxi.py": MODULE, **(members or {})}.items():
                packed.writestr(member, content)
        return str(path)

    return write


def outside(tmp_path: pathlib.Path, *known: str) -> set[str]:
    """Returns the files around the scratch folder."""
    return {path.name for path in tmp_path.rglob("*") if path.is_file() and "scratch" not in path.parts} - set(known)


@pytest.mark.parametrize(
    "member",
    [
        "../taken.py",
        "../../taken.py",
        "a/../../taken.py",
        "/taken-by-an-archive.py",
        "//taken-by-an-archive.py",
        "./../files-beside/taken.py",
        "a/b/../../../taken.py",
    ],
)
def test_a_member_outside_of_the_archive_is_refused_and_nothing_is_written(
    member: str, archive: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = archive({member: "taken = True"})
    with pytest.raises(InputError, match=r"code\.zip has a member with a path outside of the archive: '"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    assert outside(tmp_path) == {"code.zip"}
    assert not list((tmp_path / "scratch").rglob("*.py"))
    assert not pathlib.Path("/taken-by-an-archive.py").exists()


@pytest.mark.parametrize("member", [r"..\taken.py", r"C:\taken.py", "...", "~/taken.py", "$HOME/taken.py"])
def test_safe_links_and_names_are_extracted(member: str, archive: Callable[..., str], tmp_path: pathlib.Path) -> None:
    find_source(f"taxi@{archive({member: 'taken = True'})}", str(tmp_path / "scratch"))
    assert outside(tmp_path) == {"code.zip"}


def test_a_symbolic_link_is_a_file_with_a_path_in_it(archive: Callable[..., str], tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    path = tmp_path / "links.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("taxi.py", MODULE)
        for name, target in {"door": str(secret), "helper.py": str(secret / "key.py")}.items():
            link = zipfile.ZipInfo(name)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            packed.writestr(link, target)
        packed.writestr("door/planted.py", "planted = True")
    with pytest.raises(InputError, match="a member cannot be extracted as a file"):  # the destination folder is a file
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    assert list(secret.iterdir()) == []
    assert [one for one in (tmp_path / "scratch").rglob("*") if one.is_symlink()] == []


def test_extracted_files_are_not_executable(archive: Callable[..., str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "modes.zip"
    with zipfile.ZipFile(path, "w") as packed:
        member = zipfile.ZipInfo("taxi.py")
        member.external_attr = (stat.S_IFREG | stat.S_ISUID | 0o777) << 16
        packed.writestr(member, MODULE)
    source = find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    assert not pathlib.Path(source.path).stat().st_mode & (stat.S_ISUID | 0o111)


def test_a_zip_bomb_is_rejected_before_extraction(
    archive: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_archive, "MAX_ARCHIVE_BYTES", 1_000_000)
    path = archive({"zeros.py": bytes(1_000_001)})
    assert pathlib.Path(path).stat().st_size < 5000
    with pytest.raises(InputError, match=r"unpacks to 1,000,027 bytes; the limit is 1,000,000"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch" / "archive" / "files").exists()


def test_extraction_stops_at_the_size_limit_if_a_zip_bomb_declares_a_false_size(
    archive: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = pathlib.Path(archive({"zeros.py": bytes(50_000_000)}))
    content = path.read_bytes()
    real, said = struct.pack("<I", 50_000_000), struct.pack("<I", 1000)
    assert content.count(real) >= 1
    path.write_bytes(content.replace(real, said))
    with pytest.raises(InputError, match="is not a readable zip file"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    assert sum(one.stat().st_size for one in (tmp_path / "scratch").rglob("zeros.py")) <= 1000


def test_too_many_members_and_too_large_a_file_are_refused(
    archive: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_archive, "MAX_MEMBERS", 10)
    path = archive({f"{number}.py": "" for number in range(10)})
    with pytest.raises(InputError, match="has 11 members; the limit is 10"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))
    monkeypatch.setattr(module_archive, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(InputError, match=r"has [\d,]+ bytes; the limit is 100"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "flipped", "encrypted", "another kind", "long name", "file in file"]
)
def test_a_damaged_zip_file_is_named(damage: str, archive: Callable[..., str], tmp_path: pathlib.Path) -> None:
    members = {"long name": {"n" * 300 + ".py": ""}, "file in file": {"taxi.py/inner.py": ""}}.get(damage, {})
    path = pathlib.Path(archive({**members, "data.py": bytes(range(256)) * 40}))
    content = bytearray(path.read_bytes())
    if damage == "empty":
        content.clear()
    elif damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "flipped":
        content[content.index(b"data.py") + 60] ^= 0xFF
    elif damage == "encrypted":
        for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            for found in re.finditer(re.escape(sign), bytes(content)):
                content[found.start() + place] |= 1
    elif damage == "another kind":
        content[:] = b"\x1f\x8b" + bytes(content[2:100])
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"Archive .*code\.zip"):
        find_source(f"taxi@{path}", str(tmp_path / "scratch"))


def test_the_hash_in_a_reference_is_verified(archive: Callable[..., str], tmp_path: pathlib.Path) -> None:
    path = archive()
    digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    for number, written in enumerate((digest, digest.upper())):
        source = find_source(f"taxi@{path}#sha256={written}", str(tmp_path / f"scratch{number}"))
        assert pathlib.Path(source.path).read_text() == MODULE
    with pytest.raises(InputError, match=f"has the SHA-256 {digest}, but {'0' * 64} is expected"):
        find_source(f"taxi@{path}#sha256={'0' * 64}", str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch" / "archive" / "files").exists()
    for text in ("", "abc", digest[:-1], f"{digest}0", "g" * 64):
        with pytest.raises(InputError, match="64 hexadecimal digits"):
            find_source(f"taxi@{path}#sha256={text}", str(tmp_path / "scratch"))


def test_an_archive_named_after_its_hash_is_verified(tmp_path: pathlib.Path) -> None:
    (tmp_path / "taxi.py").write_text(MODULE)
    packed = make_archive(find_source(str(tmp_path / "taxi.py"), str(tmp_path)), lambda place: False)
    assert packed is not None
    reference = packed.upload(str(tmp_path / "code"))
    assert find_source(reference, str(tmp_path / "scratch")).name == "taxi"
    path = pathlib.Path(reference.partition("@")[2])
    path.write_bytes(CodeArchive("taxi", path.read_bytes() + b" ").content)  # still a valid zip file
    with pytest.raises(InputError, match="is expected"):
        find_source(reference, str(tmp_path / "other"))


def test_an_archive_is_passed_to_a_job_only_if_it_matches_its_hash(
    archive: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = archive()
    digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    source = find_source(f"taxi@{path}#sha256={digest}", str(tmp_path / "scratch"))
    packed = make_archive(source, lambda place: False)
    assert packed is not None
    assert (packed.module, packed.content) == ("taxi", pathlib.Path(path).read_bytes())
    pathlib.Path(path).write_bytes(b"something else")
    with pytest.raises(InputError, match="is expected"):
        make_archive(source, lambda place: False)


@pytest.mark.parametrize("place", ["http://host/taxi.zip", "https://host/taxi.zip", "ftp://host/taxi.zip"])
def test_code_is_not_fetched_from_the_web(place: str, tmp_path: pathlib.Path) -> None:
    for reference in (f"taxi@{place}", f"taxi@{place}#sha256={'0' * 64}", place.replace(".zip", ".py")):
        with pytest.raises(InputError, match="code is not downloaded from the web"):
            find_source(reference, str(tmp_path))


def test_references_are_parsed() -> None:
    assert archive_in("taxi.py") is None
    assert archive_in("package.module") is None
    assert archive_in("zoo.ZIP") == module_archive.ModuleArchive("", "zoo.ZIP", "")
    found = archive_in(f"a.b@gs://bucket/x.whl#sha256={'A' * 64}")
    assert found == module_archive.ModuleArchive("a.b", "gs://bucket/x.whl", "a" * 64)
    named = archive_in("a@gs://bucket/a-0123456789abcdef.zip")
    assert named is not None
    assert named.sha256 == "0123456789abcdef"
    with pytest.raises(ModuleError, match="name the module in the archive"):
        find_source("zoo.zip", "/nowhere")
