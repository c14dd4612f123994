"""The index join."""
