"""Writes rows to files, and commits them."""
