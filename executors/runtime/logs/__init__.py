"""Log setup, redaction of secrets, and exceptions that cross process boundaries."""
