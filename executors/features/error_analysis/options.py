"""The option of the error analysis."""

from __future__ import annotations

from ...number_range import SECONDS_OR_NONE
from ...option import MODEL, option


class ErrorAnalysisOptions:
    """How long it may take."""

    analysis_seconds: float = option(
        2.0,
        "Time limit in seconds for comparing predictions with the labels of the eval split, and for the importance of "
        "features, in the report; 0 does neither.",
        group=MODEL,
        order=40,
        numbers=SECONDS_OR_NONE,
    )
