"""DuckDB in this process: conditions and values of SQL over Arrow batches."""
