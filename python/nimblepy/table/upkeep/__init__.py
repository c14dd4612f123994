"""What keeps a table fast and small: compaction, manifests, layouts, expiry, orphans, health."""
