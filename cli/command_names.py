"""The sub-commands, in the order in which the help lists them; each is in the module of its name."""

COMMANDS = (
    *("init", "check", "train", "run", "predict"),
    *("runs", "show", "report", "diff", "lineage"),
    *("convert", "elasticdl", "dlrover", "submit", "compile", "completion"),
)
