"""Parquet through pyarrow."""
