"""Sources of rows, requests for rows, row sets, scans, and the reading methods of all handles."""
