"""Datasets for tests: tables staged as files and published together."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import nimblepy as nb
from nimblepy.files.commit import publish, staging_folder
from nimblepy.files.manifest import FileEntry, describe
from nimblepy.files.statistics import Collector
from nimblepy.schema.types import as_sort_keys


def stage(
    directory: str | Path, tables: Sequence[pa.Table], cluster_by: Any, **keywords: Any
) -> tuple[str, list[FileEntry]]:
    """Writes one staged file a table; returns the job and its entries."""
    job = uuid.uuid4().hex[:8]
    folder = staging_folder(str(directory), job)
    os.makedirs(folder)
    entries = []
    for i, table in enumerate(tables):
        name = f"{i:05d}.nimble"
        nb.write(table, os.path.join(folder, name), cluster_by=cluster_by, **keywords)
        statistics = Collector(table.schema)
        for batch in table.to_batches():
            statistics.add(batch)
        with nb.open(os.path.join(folder, name)) as file:
            entries.append(describe(file, name, statistics.result()))
    return job, entries


def make_dataset(
    directory: str | Path,
    tables: Sequence[pa.Table],
    cluster_by: Any,
    *,
    overwrite: bool = False,
    batch: tuple[str, int] | None = None,
    **keywords: Any,
) -> nb.Dataset:
    """Publishes the tables as files and opens the dataset."""
    job, entries = stage(directory, tables, cluster_by, **keywords)
    publish(
        str(directory),
        job,
        entries,
        schema=tables[0].schema,
        cluster_by=as_sort_keys(cluster_by),
        overwrite=overwrite,
        batch=batch,
    )
    return nb.open_dataset(directory)
