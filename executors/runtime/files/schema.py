"""Reads Schema files."""

from __future__ import annotations

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2

from ...errors import InputError
from . import file_io
from .user_text import read_user_file

_MAX_BYTES = 16_000_000  # parsing takes 10 s; 20,000 features have 2 MB, domains of strings may be large


def read_schema(path: str) -> schema_pb2.Schema:
    """Reads a Schema in protobuf text format.

    Raises:
      InputError: When the file does not exist, is too large, or is not a Schema.
    """
    if not file_io.exists(path):
        raise InputError(f"schema {path} does not exist.")
    text = read_user_file(path, "schema", _MAX_BYTES)
    try:
        schema = text_format.Parse(text.decode("utf-8"), schema_pb2.Schema())
    except (text_format.ParseError, ValueError) as error:
        raise InputError(f"schema {path} is not a Schema in protobuf's text format: {error}") from error
    except RecursionError as error:
        raise InputError(f"schema {path}: its messages are nested too deeply.") from error
    try:
        return schema_pb2.Schema.FromString(schema.SerializeToString())  # other programs read it in the binary form
    except DecodeError as error:
        raise InputError(f"schema {path}: its messages are nested more than 100 levels deep.") from error
