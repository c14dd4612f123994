"""From a snapshot to its rows: plans, data files, deleted rows, changes and samples."""
