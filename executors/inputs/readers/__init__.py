"""Record readers: the format of files, parsers, and reading by index range."""
