"""Checks that a training can run in this process and on this machine."""
