"""Evaluates SQL over Arrow batches with DuckDB, in this process."""
