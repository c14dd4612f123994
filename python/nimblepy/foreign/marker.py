"""What tells index files from nimble files with rows of their own."""

from __future__ import annotations

from collections.abc import Mapping

INDEX_KEY = "nimblepy.parquet-index"


def is_index(metadata: Mapping[str, bytes]) -> bool:
    """Whether a nimble file with this metadata is an index of Parquet files."""
    return INDEX_KEY in metadata
