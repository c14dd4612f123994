"""Things that have rows: requests, row sets, scans, and what is written once on top of them."""
