"""Reads Schema files."""

from __future__ import annotations

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from ...errors import InputError
from . import file_io


def read_schema(path: str) -> schema_pb2.Schema:
    """Reads a Schema in protobuf text format.

    Raises:
      InputError: When the file does not exist or is not a Schema.
    """
    if not file_io.exists(path):
        raise InputError(f"schema {path} does not exist.")
    text = file_io.read_bytes(path)
    try:
        return text_format.Parse(text.decode("utf-8"), schema_pb2.Schema())
    except (text_format.ParseError, ValueError) as error:
        raise InputError(f"schema {path} is not a Schema in protobuf's text format: {error}") from error
