"""Changes by key or condition: find the affected rows, and write the changed ones."""
