"""Datasets for tests: tables written as files of a directory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import nimblepy as nb


def make_dataset(
    directory: str | Path,
    tables: Sequence[pa.Table],
    cluster_by: Any,
    *,
    overwrite: bool = False,
    **keywords: Any,
) -> nb.Dataset:
    """Adds one file per table to the directory and opens it as a dataset."""
    os.makedirs(directory, exist_ok=True)
    old = os.listdir(directory) if overwrite else []
    job = uuid.uuid4().hex[:8]
    for i, table in enumerate(tables):
        path = os.path.join(directory, f"{job}-{i:05d}.nimble")
        nb.write(table, path, cluster_by=cluster_by, **keywords)
    for name in old:
        os.remove(os.path.join(directory, name))
    return nb.open_dataset(directory)
