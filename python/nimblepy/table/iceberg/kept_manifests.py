"""Caches decoded manifests that this process has read or written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from nimblepy.io.fork import renew_after_fork
from nimblepy.table.base.model import Manifest
from nimblepy.table.iceberg.manifests import ManifestFiles
from nimblepy.table.iceberg.metadata import Metadata, forget_lists

# Maximum bytes of all manifests.
_MOST_BYTES = 128 << 20
# Estimated bytes of a manifest's Python objects, in addition to its values.
_OVERHEAD = 40 << 10
# Number of a table's manifests to keep in addition to twice as many as a snapshot has. Each commit
# writes two manifests, and a compaction replaces all of them, so most older manifests are in no
# recent snapshot.
_PAST = 64


def _key(path: str, first_row_id: int | None) -> str:
    """Returns the key of a manifest in the cache.

    A manifest from before a table had row ids gets its first row id from a later manifest list.
    """
    return path if first_row_id is None else f"{path}#{first_row_id}"


class _Manifests:
    """Caches decoded manifests, which never change, by table and key. Thread-safe.

    Keeps the most recently used manifests of each table, about as many as a snapshot has. If all
    manifests take too many bytes, removes those of the least recently used tables.
    """

    def __init__(self) -> None:
        self._tables: OrderedDict[str, OrderedDict[str, ManifestFiles]] = OrderedDict()
        self._bytes = 0
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, table: str, key: str) -> ManifestFiles | None:
        with self._lock:
            kept = self._tables.get(table)
            if kept is None or key not in kept:
                return None
            self._tables.move_to_end(table)
            kept.move_to_end(key)
            return kept[key]

    def put(self, table: str, files: ManifestFiles, wanted: int) -> None:
        """Keeps a manifest.

        Args:
            wanted: number of manifests of a snapshot of the table.
        """
        with self._lock:
            kept = self._tables.setdefault(table, OrderedDict())
            self._tables.move_to_end(table)
            key = _key(files.path, files.first_row_id)
            if key not in kept:
                kept[key] = files
                self._bytes += files.num_bytes + _OVERHEAD
            while len(kept) > 2 * wanted + _PAST:
                self._remove_oldest(kept)
            while self._bytes > _MOST_BYTES and len(self._tables) + len(kept) > 2:
                oldest = next(iter(self._tables))
                self._remove_oldest(self._tables[oldest])
                if not self._tables[oldest]:
                    del self._tables[oldest]

    def _remove_oldest(self, kept: OrderedDict[str, ManifestFiles]) -> None:
        self._bytes -= kept.popitem(last=False)[1].num_bytes + _OVERHEAD


_manifests = _Manifests()


def decoded(metadata: Metadata, manifests: Sequence[Manifest]) -> Iterator[ManifestFiles]:
    """Returns the live files of each manifest.

    Cost: one read of each manifest that is not cached. All reads are started before this function
    returns.
    """
    kept = [_manifests.get(metadata.uuid, _key(item.path, item.first_row_id)) for item in manifests]
    missing = [item for item, there in zip(manifests, kept, strict=True) if there is None]
    wanted = max(len(manifests), metadata.known_manifests)
    read = metadata.columns(missing)
    return (_kept(metadata, next(read), wanted) if there is None else there for there in kept)


def live_files(metadata: Metadata, manifest: Manifest) -> ManifestFiles:
    """Returns the live files of one manifest; see :func:`decoded`."""
    return next(decoded(metadata, [manifest]))


def keep_manifest(metadata: Metadata, files: ManifestFiles) -> None:
    """Caches the contents of a manifest that this process wrote."""
    _kept(metadata, files, metadata.known_manifests)


def forget_manifests() -> None:
    """Clears the caches of manifests and manifest lists."""
    global _manifests
    _manifests = _Manifests()
    forget_lists()


def _kept(metadata: Metadata, files: ManifestFiles, wanted: int) -> ManifestFiles:
    _manifests.put(metadata.uuid, files, wanted)
    return files
