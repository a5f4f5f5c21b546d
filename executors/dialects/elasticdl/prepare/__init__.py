"""Data preparation with an ElasticDL model file's `prepare_data_for_a_single_file`."""
