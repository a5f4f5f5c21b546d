"""Reading and writing of RecordIO files."""
