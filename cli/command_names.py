"""The sub-commands, in the order in which the help lists them; each is in the module of its name."""

COMMANDS = ("train", "run", "predict", "convert", "elasticdl", "dlrover", "submit", "compile", "completion")
