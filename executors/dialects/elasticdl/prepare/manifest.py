"""The manifest of a data preparation: records planned and completed work in `_preparation` inside the output directory.

The files are divided into groups before any work begins, so that the same directory tree gives the same shards and an
interrupted job can resume. Files that are added later, and files that failed, form new groups.

    _preparation/plan.json          the groups, and the settings of the shards
    _preparation/group-00003.json   the result of a group, written after all of its shards
    _preparation/bad_files.jsonl    the files that failed, with their errors
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from ....errors import InputError
from ....runtime.files import file_io

FOLDER = "_preparation"  # readers ignore names that start with "_"
BAD_FILES = "bad_files.jsonl"


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of files that one worker prepares together.

    Attributes:
      number: The group's number, from 0, which is part of the names of its shards.
      files: File paths relative to the input directory.
    """

    number: int
    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """The result of preparing a group.

    Attributes:
      records: The number of records written.
      shards: The file names of the shards.
      bad: {"file", "error", "traceback"} of each file that failed.
      finished: False if the worker stopped because too many files failed.
    """

    records: int = 0
    shards: tuple[str, ...] = ()
    bad: tuple[dict[str, str], ...] = ()
    finished: bool = True


class Plan(TypedDict, total=False):
    """The content of `plan.json`; empty before the first call.

    Attributes:
      settings: The job's settings by option name.
      groups: The files of each group, by group number.
    """

    settings: Mapping[str, object]
    groups: Mapping[str, Sequence[str]]


class Manifest:
    """The manifest of one output directory.

    Attributes:
      bad_files: The path of `bad_files.jsonl`.
    """

    def __init__(self, output: str) -> None:
        self._folder = posixpath.join(output, FOLDER)
        self.bad_files = posixpath.join(self._folder, BAD_FILES)

    def plan(self, files: Sequence[str], group_size: int, settings: Mapping[str, object]) -> list[Group]:
        """Writes the plan and returns the groups of files that remain to be prepared.

        Args:
          files: All input files, relative to the input directory.
          group_size: The number of files per group.
          settings: Settings by option name, which must be the same in all calls for an output directory.

        Raises:
          InputError: When the output directory was started with other settings.
        """
        self._check(settings)
        existing = set(files)
        done, pending = [], []
        assigned: set[str] = set()
        for group in self._groups():
            result = self._result(group.number)
            if result is not None and result.finished and (result.records or not result.bad):
                done.append(group)
                assigned |= set(group.files) - {bad["file"] for bad in result.bad}
            else:
                self._delete_result(group.number)
                pending.append(Group(group.number, tuple(file for file in group.files if file in existing)))
        assigned |= {file for group in pending for file in group.files}
        rest = [file for file in files if file not in assigned]
        first = max((group.number for group in [*done, *pending]), default=-1) + 1
        for index, begin in enumerate(range(0, len(rest), group_size)):
            pending.append(Group(first + index, tuple(rest[begin : begin + group_size])))
        groups = sorted([*done, *pending], key=lambda group: group.number)
        plan = {"settings": settings, "groups": {str(group.number): group.files for group in groups}}
        file_io.write_text(self._path("plan.json"), json.dumps(plan))
        return [group for group in pending if group.files]

    def write(self, group: Group, result: GroupResult) -> None:
        """Writes the result of a group; must be called after its shards have been written."""
        file_io.write_text(self._group_path(group.number), json.dumps(dataclasses.asdict(result)))

    def done(self) -> set[int]:
        """Returns the numbers of the groups that have a result."""
        names = file_io.listdir(self._folder)
        return {int(name[6:-5]) for name in names if name.startswith("group-") and name.endswith(".json")}

    def results(self) -> Iterator[tuple[Group, GroupResult]]:
        """Yields the groups that have a result, in the order of the plan."""
        for group in self._groups():
            if (result := self._result(group.number)) is not None:
                yield group, result

    def list_bad_files(self) -> list[dict[str, str]]:
        """Returns the entries of files whose last attempt failed, sorted by name, and writes them to `bad_files`."""
        bad: dict[str, dict[str, str]] = {}
        for group, result in self.results():
            for file in group.files:
                bad.pop(file, None)  # a later attempt overrides earlier ones
            bad.update({entry["file"]: entry for entry in result.bad})
        listed = [bad[file] for file in sorted(bad)]
        file_io.write_text(self.bad_files, "".join(f"{json.dumps(entry)}\n" for entry in listed))
        return listed

    def _check(self, settings: Mapping[str, object]) -> None:
        before = self._plan().get("settings", settings)
        for option, value in settings.items():
            if before.get(option) != value:
                raise InputError(
                    f"{self._folder}: its files were prepared with {option}={before.get(option)!r}, not {value!r}. Set "
                    f"{option}={before.get(option)!r} to continue, or choose another --output."
                )

    def _groups(self) -> list[Group]:
        groups = self._plan().get("groups", {})
        return [Group(int(number), tuple(files)) for number, files in groups.items()]

    def _plan(self) -> Plan:
        path = self._path("plan.json")
        plan: Plan = json.loads(file_io.read_text(path)) if file_io.exists(path) else {}
        return plan

    def _result(self, number: int) -> GroupResult | None:
        path = self._group_path(number)
        if not file_io.exists(path):
            return None
        values = json.loads(file_io.read_text(path))
        return GroupResult(values["records"], tuple(values["shards"]), tuple(values["bad"]), values["finished"])

    def _delete_result(self, number: int) -> None:
        if file_io.exists(path := self._group_path(number)):
            file_io.file_system(path).remove(path)

    def _group_path(self, number: int) -> str:
        return self._path(f"group-{number:05d}.json")

    def _path(self, name: str) -> str:
        return posixpath.join(self._folder, name)
