"""Serves files and tables to clients of Redis."""
