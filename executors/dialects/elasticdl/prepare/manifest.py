"""What of a tree of files has been prepared, and what is still to do: the folder `_preparation` beside the shards.

Files are prepared in groups that are planned before any work begins, so that the same tree gives the same shards, and a
job that was interrupted goes on where it was. Files that came later, and those that failed, get groups of their own.

    _preparation/plan.json          the groups, and what the shards look like
    _preparation/group-00003.json   what became of a group: it is there once all of its shards are
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

FOLDER = "_preparation"  # readers leave names with a "_" in front out
BAD_FILES = "bad_files.jsonl"


@dataclasses.dataclass(frozen=True)
class Group:
    """Files that one worker prepares in one go.

    Attributes:
      number: Of the group; its shards are named after it.
      files: Paths below the input's folder.
    """

    number: int
    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """What became of a group.

    Attributes:
      records: How many were written.
      shards: Names of the files that hold them.
      bad: {"file", "error", "traceback"} of each file that failed.
      finished: False when the worker gave up, since too many files were bad.
    """

    records: int = 0
    shards: tuple[str, ...] = ()
    bad: tuple[dict[str, str], ...] = ()
    finished: bool = True


class Plan(TypedDict, total=False):
    """What `plan.json` holds; nothing before the first call.

    Attributes:
      settings: By option.
      groups: The files by the group's number.
    """

    settings: Mapping[str, object]
    groups: Mapping[str, Sequence[str]]


class Manifest:
    """The manifest of one output folder."""

    def __init__(self, output: str) -> None:
        self._folder = posixpath.join(output, FOLDER)
        self.bad_files = posixpath.join(self._folder, BAD_FILES)

    def plan(self, files: Sequence[str], group_size: int, settings: Mapping[str, object]) -> list[Group]:
        """Returns the groups that are to be done; files that are done already are in none of them.

        Args:
          files: All files of the tree, below the input's folder.
          group_size: How many files make a group.
          settings: What must be the same in every call for an output, by option.

        Raises:
          InputError: When the output was begun with other settings.
        """
        self._check(settings)
        there = set(files)
        done, pending = [], []
        settled: set[str] = set()
        for group in self._groups():
            result = self._result(group.number)
            if result is not None and result.finished and (result.records or not result.bad):
                done.append(group)
                settled |= set(group.files) - {bad["file"] for bad in result.bad}
            else:
                self._forget(group.number)
                pending.append(Group(group.number, tuple(file for file in group.files if file in there)))
        settled |= {file for group in pending for file in group.files}
        rest = [file for file in files if file not in settled]
        first = max((group.number for group in [*done, *pending]), default=-1) + 1
        for index, begin in enumerate(range(0, len(rest), group_size)):
            pending.append(Group(first + index, tuple(rest[begin : begin + group_size])))
        groups = sorted([*done, *pending], key=lambda group: group.number)
        plan = {"settings": settings, "groups": {str(group.number): group.files for group in groups}}
        file_io.write_text(self._path("plan.json"), json.dumps(plan))
        return [group for group in pending if group.files]

    def write(self, group: Group, result: GroupResult) -> None:
        """Notes what became of a group, after its shards have been written."""
        file_io.write_text(self._of_group(group.number), json.dumps(dataclasses.asdict(result)))

    def done(self) -> set[int]:
        """Returns the numbers of the groups that something has become of."""
        names = file_io.listdir(self._folder)
        return {int(name[6:-5]) for name in names if name.startswith("group-") and name.endswith(".json")}

    def results(self) -> Iterator[tuple[Group, GroupResult]]:
        """Yields the groups that something has become of, in their order."""
        for group in self._groups():
            if (result := self._result(group.number)) is not None:
                yield group, result

    def list_bad_files(self) -> list[dict[str, str]]:
        """Returns the files whose last try failed, by their names, and writes them to `bad_files`."""
        bad: dict[str, dict[str, str]] = {}
        for group, result in self.results():
            for file in group.files:
                bad.pop(file, None)  # a later try counts
            bad.update({entry["file"]: entry for entry in result.bad})
        listed = [bad[file] for file in sorted(bad)]
        file_io.write_text(self.bad_files, "".join(f"{json.dumps(entry)}\n" for entry in listed))
        return listed

    def _check(self, settings: Mapping[str, object]) -> None:
        before = self._plan().get("settings", settings)
        for option, value in settings.items():
            if before.get(option) != value:
                raise InputError(
                    f"{self._folder}: what is there was made with {option}={before.get(option)!r}, not {value!r}. Give "
                    f"{option}={before.get(option)!r} to go on with it, or another --output."
                )

    def _groups(self) -> list[Group]:
        groups = self._plan().get("groups", {})
        return [Group(int(number), tuple(files)) for number, files in groups.items()]

    def _plan(self) -> Plan:
        path = self._path("plan.json")
        plan: Plan = json.loads(file_io.read_text(path)) if file_io.exists(path) else {}
        return plan

    def _result(self, number: int) -> GroupResult | None:
        path = self._of_group(number)
        if not file_io.exists(path):
            return None
        values = json.loads(file_io.read_text(path))
        return GroupResult(values["records"], tuple(values["shards"]), tuple(values["bad"]), values["finished"])

    def _forget(self, number: int) -> None:
        if file_io.exists(path := self._of_group(number)):
            file_io.file_system(path).remove(path)

    def _of_group(self, number: int) -> str:
        return self._path(f"group-{number:05d}.json")

    def _path(self, name: str) -> str:
        return posixpath.join(self._folder, name)
