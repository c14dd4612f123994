"""Columns: paths, types, sort keys and exact values."""
