"""The cluster that TF_CONFIG describes, and the place of this process in it."""
