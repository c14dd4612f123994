"""From a snapshot to its rows: plans, the files of one, their deleted rows, changes, samples."""
