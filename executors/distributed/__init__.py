"""The cluster described by TF_CONFIG, and this process's task in it."""
