"""Spark workloads: the index join, scans and writes beside Spark's own over Parquet."""
