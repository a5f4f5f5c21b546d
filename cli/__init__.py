"""The command line interface `generic-trainer`, with one module per sub-command."""
