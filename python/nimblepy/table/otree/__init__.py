"""Layouts: which rows share a file, and samples of tables with an OTree."""
