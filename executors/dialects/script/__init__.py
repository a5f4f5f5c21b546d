"""Training scripts, which are run as `python FILE` does."""
