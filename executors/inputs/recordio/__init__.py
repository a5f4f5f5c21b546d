"""RecordIO files, the format of ElasticDL."""
