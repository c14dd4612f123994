"""Lookups in Parquet files that other tools wrote, beside other systems."""
