"""`generic-trainer dlrover`: the command of DLRover with its flags, and the ElasticJob of `submit --from`."""
