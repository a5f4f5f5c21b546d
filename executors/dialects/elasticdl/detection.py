"""Whether a module's source is a model file of ElasticDL's, read off before it runs.

It has to be known before: the names that it imports have to be there for the module's first line, and ElasticDL's model
files were written for Keras 2.
"""

from __future__ import annotations

from ...modules.defined_names import defines
from ...modules.import_shims import first_import

_PARTS = ("loss", "optimizer")
FEED_NAMES = ("feed", "dataset_fn")
_PACKAGES = ("elasticdl", "elasticdl_preprocessing", "elasticdl_client", "elasticai_api")


def elasticdl_use(path: str) -> tuple[int, str] | None:
    """Returns the line and the words by which a source file is one of ElasticDL's, or None.

    It imports ElasticDL, or defines what every model file has to.
    """
    found = first_import(path, _PACKAGES)
    if found or not all(defines(path, name) for name in _PARTS):
        return found
    feeds = [feed for feed in FEED_NAMES if defines(path, feed)]
    return (1, f"loss, optimizer and {min(feeds)}, as in ElasticDL") if feeds else None
