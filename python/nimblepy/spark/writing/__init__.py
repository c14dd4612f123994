"""Writes, merges and maintenance of tables in Spark's tasks."""
