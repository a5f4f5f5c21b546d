"""Local and remote file systems, locks, retries and path validation."""
