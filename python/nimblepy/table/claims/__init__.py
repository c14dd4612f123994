"""Claims about tables: what they are, where they are stored, and how they are checked."""
