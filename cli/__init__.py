"""The command `generic-trainer`, one file a sub-command."""
