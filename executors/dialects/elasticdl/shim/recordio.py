"""Shim for the module `recordio` of the package pyrecordio, which data tools and custom readers import.

writer = Writer("train.recordio"); writer.write(b"…"); writer.close()
scanner = Scanner("train.recordio", 1000, 100)      # records 1000 to 1099
while record := scanner.record(): …
"""

from __future__ import annotations

from collections.abc import Iterator

from ..recordio.records import RecordWriter, read_chunks, read_index


class Writer(RecordWriter):
    """Writes records to a RecordIO file."""

    def __init__(self, path: str) -> None:
        """Creates or truncates the file."""
        super().__init__(path)

    def write(self, record: bytes | str) -> None:
        """Appends a record; a string is encoded as UTF-8."""
        super().write(record.encode() if isinstance(record, str) else record)


class Scanner:
    """Reads a range of a file's records."""

    def __init__(self, path: str, start: int = 0, length: int = -1) -> None:
        """Opens a file for reading a range of records.

        Args:
          path: The file.
          start: The 0-based index of the first record.
          length: The number of records; negative to read to the end.
        """
        chunks = read_chunks(path, start, None if length < 0 else start + length)
        self._records: Iterator[bytes] = (record for chunk in chunks for record in chunk)

    def record(self) -> bytes | None:
        """Returns the next record, or None after the last one."""
        return next(self._records, None)

    def close(self) -> None:
        """Stops reading; `record` returns None afterwards."""
        self._records = iter(())


class Index:
    """The index of a file's chunks with their numbers of records."""

    def __init__(self, path: str) -> None:
        """Reads the headers of the file's chunks."""
        self._chunks = read_index(path)

    def num_records(self) -> int:
        """Returns the number of records."""
        return sum(chunk.records for chunk in self._chunks)

    def num_chunks(self) -> int:
        """Returns the number of chunks."""
        return len(self._chunks)

    def chunk_len(self, number: int) -> int:
        """Returns the number of records in a chunk."""
        return self._chunks[number].records

    def close(self) -> None:
        """No-op; the file was closed after reading the index."""


class File:
    """Writes or reads a file, with the interface of the package's first releases.

    with File("train.recordio", "r") as records:
        records.count(), records.get(5), list(records)
    """

    def __init__(self, path: str, mode: str, **unused_options: object) -> None:
        """Opens the file.

        Args:
          path: The file.
          mode: "r" or "read", "w" or "write".
          **unused_options: Ignored (chunk size and compression).

        Raises:
          ValueError: When the mode is invalid.
        """
        if mode not in ("r", "read", "w", "write"):
            raise ValueError(f"recordio.File({path!r}): mode is {mode!r}; it must be 'r' or 'w'.")
        self._path = path
        self._writer = Writer(path) if mode in ("w", "write") else None

    def write(self, record: bytes | str) -> None:
        """Appends a record.

        Raises:
          RuntimeError: When the file is open for reading.
        """
        if self._writer is None:
            raise RuntimeError(f"recordio.File({self._path!r}) is open for reading; open it with mode 'w' to write.")
        self._writer.write(record)

    def count(self) -> int:
        """Returns the number of records."""
        return self.get_index().num_records()

    def get_index(self) -> Index:
        """Returns the index of the file's chunks."""
        return Index(self._path)

    def get(self, index: int) -> bytes:
        """Returns a record by its 0-based index.

        Raises:
          IndexError: When the index is negative or not less than the number of records.
        """
        record = Scanner(self._path, index, 1).record() if index >= 0 else None
        if record is None:
            raise IndexError(f"{self._path} has {self.count()} records; the index {index} is out of range.")
        return record

    def __iter__(self) -> Iterator[bytes]:
        for chunk in read_chunks(self._path):
            yield from chunk

    def close(self) -> None:
        """Flushes and closes the writer, if the file is open for writing."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
