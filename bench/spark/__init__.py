"""Spark workloads: index joins, scans and writes beside Spark's own over Parquet."""
