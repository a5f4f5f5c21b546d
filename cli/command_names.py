"""The names of the sub-commands in the order of the help; each is defined in the module of the same name."""

COMMANDS = (
    *("init", "check", "train", "script", "run", "predict"),
    *("watch", "runs", "show", "report", "diff", "lineage"),
    *("convert", "elasticdl", "dlrover", "submit", "compile", "completion"),
)
