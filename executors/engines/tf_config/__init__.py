"""The engine of a process that TF_CONFIG makes a task of a cluster, and a whole cluster on this machine for testing."""
