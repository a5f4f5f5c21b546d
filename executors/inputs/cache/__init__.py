"""Parsed examples kept on local disk."""
