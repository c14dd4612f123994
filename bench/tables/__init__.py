"""Tables: commits, changes by key, lookups, plans of many files."""
