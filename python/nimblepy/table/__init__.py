"""Tables: files that change together, with Iceberg's metadata and our own reading."""
