"""What people bring: frames, readers, files of other formats, as batches of one schema."""
