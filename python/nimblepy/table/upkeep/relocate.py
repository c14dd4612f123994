"""Rewrites the metadata of a table whose lake was moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, DataFormat
from nimblepy.table.reading.deletes import names_old_places, positions
from nimblepy.table.writing.commit import Commit, report
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import write_deletes


def relocate(metadata: ice.Metadata) -> ice.Metadata | None:
    """Replaces old paths in all snapshots by current paths.

    Returns ``None`` if all paths are current.

    The old manifests, manifest lists and delete files become orphans.

    Cost: reads and writes the manifests of all snapshots, and their delete files.
    """
    start = time.perf_counter()
    newest = ice.Relocation(metadata, _rewriting(metadata)).run()
    if newest is not None:
        head = newest.head()
        done = Commit(
            snapshot=None if head is None else head.id, seconds=time.perf_counter() - start
        )
        report(".".join(newest.name), "relocate", done)
    return newest


def _rewriting(metadata: ice.Metadata) -> Callable[[DataFile], DataFile | None]:
    target = target_of(metadata)

    def rewritten(file: DataFile) -> DataFile | None:
        if not names_old_places(file):
            return None
        kind: DataFormat = "parquet" if file.format == "PARQUET" else "nimble"
        of_spec = replace(target, data_format=kind, spec_id=file.spec_id)
        return write_deletes(dict(positions(file)), of_spec, file.partition)

    return rewritten
