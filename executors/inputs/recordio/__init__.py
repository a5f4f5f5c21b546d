"""Reading and writing of RecordIO files, the record format of ElasticDL."""
