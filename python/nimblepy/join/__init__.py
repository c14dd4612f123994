"""Index joins and as-of joins."""
