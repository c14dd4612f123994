"""One file: open, look up, write, index."""
