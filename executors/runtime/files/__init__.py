"""Local and remote file systems, locks, retries and checks of paths."""
