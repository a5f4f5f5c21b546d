"""Reading of Parquet files as records, rows and tensors."""
