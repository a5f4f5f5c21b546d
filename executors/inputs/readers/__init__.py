"""Record readers: the format of files, and parsers of records."""
