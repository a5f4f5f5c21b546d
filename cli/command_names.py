"""The names of the sub-commands in the order of the help; each is defined in the module of the same name."""

import importlib.util

_ORDER = (
    *("init", "check", "train", "script", "run", "predict"),
    *("watch", "runs", "show", "report", "diff", "lineage"),
    *("convert", "elasticdl", "dlrover", "submit", "compile", "completion"),
)
# Without those that were deleted with their dialect.
COMMANDS = tuple(name for name in _ORDER if importlib.util.find_spec(f"{__package__}.{name}"))
