"""Claims about tables: their kinds, their storage and their checks."""
