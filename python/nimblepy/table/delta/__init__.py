"""Publishes Iceberg tables of Parquet files as Delta tables."""
