"""Distinguishes index files from nimble files that store rows."""

from __future__ import annotations

from collections.abc import Mapping

INDEX_KEY = "nimblepy.parquet-index"


def is_index(metadata: Mapping[str, bytes]) -> bool:
    """Returns whether a nimble file with this metadata is an index of Parquet files."""
    return INDEX_KEY in metadata
