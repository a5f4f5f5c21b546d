"""The option of bad records."""

from __future__ import annotations

from ...inputs.bad_records import ERROR, limit_of
from ...option import DATA, option


class BadRecordsOptions:
    """What happens to bad records."""

    on_bad_records: str = option(
        ERROR,
        "Handling of unreadable records: 'error', or skip:N to skip and list at most N of them.",
        group=DATA,
        order=70,
        check=limit_of,
        tuner=True,
    )
