"""The location of an ML Metadata store in messages: a path, or a URL without user and password."""

from __future__ import annotations

from urllib.parse import urlsplit

from ...executors.runtime.files import file_io


def display_url(url: str) -> str:
    """Returns the store's location for display, without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if file_io.is_remote(url) else url
