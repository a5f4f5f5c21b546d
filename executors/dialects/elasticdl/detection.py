"""Detects ElasticDL model files by their source, before they are imported.

Detection cannot wait for the import: the shims for ElasticDL's packages must be installed before the module's first
line runs, and ElasticDL model files need Keras 2.
"""

from __future__ import annotations

from ...modules.defined_names import defines, first_import

_PARTS = ("loss", "optimizer")
FEED_NAMES = ("feed", "dataset_fn")
CUSTOM_READER = "custom_data_reader"  # default name of the function that returns a reader
_PACKAGES = ("elasticdl", "elasticdl_preprocessing", "elasticdl_client", "elasticai_api")


def find_elasticdl_use(path: str) -> tuple[int, str] | None:
    """Returns the line number and the code that identify a source file as an ElasticDL model file, or None.

    A model file imports an ElasticDL package, or defines `loss`, `optimizer` and either `feed` or `dataset_fn`.
    """
    found = first_import(path, _PACKAGES)
    if found or not all(defines(path, name) for name in _PARTS):
        return found
    feeds = [feed for feed in FEED_NAMES if defines(path, feed)]
    return (1, f"loss, optimizer and {min(feeds)}, as in ElasticDL") if feeds else None
