"""Shared types of tables: files, snapshots, column types, partition values and locations."""
