"""Parquet files that others wrote: their pages, and nimble indexes over them."""
