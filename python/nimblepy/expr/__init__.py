"""Parses filters, and derives from them bounds, pushdown, and the rows that pass."""
