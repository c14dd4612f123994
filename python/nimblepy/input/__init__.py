"""Input data: frames, readers and files of other formats, as batches of one schema."""
