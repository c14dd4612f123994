"""Maintains tables: compaction, manifests, layouts, expiry, orphans and health."""
