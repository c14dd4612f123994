"""From a snapshot to the files that have its rows, and what is deleted of each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from nimblepy.expr.filter import Filter
from nimblepy.expr.nodes import Node
from nimblepy.io.fork import renew_after_fork
from nimblepy.table import _iceberg as ice
from nimblepy.table.deletes import check_readable
from nimblepy.table.members import Member
from nimblepy.table.model import DELETED_PATH_ID, DataFile, Entry, Manifest, Snapshot

# Entries of manifests that a process keeps.
_KEPT_ENTRIES = 200_000


class _Entries:
    """Entries by manifest: a manifest never changes. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[Entry]] = OrderedDict()
        self._count = 0
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, metadata: ice.Metadata, manifest: Manifest) -> list[Entry]:
        with self._lock:
            known = self._kept.get(manifest.path)
            if known is not None:
                self._kept.move_to_end(manifest.path)
                return known
        found = metadata.entries(manifest)
        with self._lock:
            self._kept[manifest.path] = found
            self._count += len(found)
            while self._count > _KEPT_ENTRIES and len(self._kept) > 1:
                self._count -= len(self._kept.popitem(last=False)[1])
        return found


_entries = _Entries()


def clear_caches() -> None:
    """Forgets what was read of manifests, so that it is read again."""
    global _entries
    _entries = _Entries()
    ice.forget_lists()


class SnapshotPlan:
    """The files of one snapshot, read as far as they are asked for.

    Cost: the manifest list when it is first needed, then each manifest once in a process, of
        those whose partitions may match.
    """

    def __init__(
        self, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int | None
    ) -> None:
        self._metadata = metadata
        self._snapshot = snapshot
        self._schema_id = schema_id
        self._manifests: list[Manifest] | None = None
        self._all: list[Member] | None = None

    @property
    def manifests(self) -> list[Manifest]:
        """Those with live files."""
        if self._manifests is None:
            found = [] if self._snapshot is None else self._metadata.manifests(self._snapshot)
            self._manifests = [item for item in found if item.files]
        return self._manifests

    @property
    def has_deletes(self) -> bool:
        return any(manifest.deletes for manifest in self.manifests)

    @property
    def is_complete(self) -> bool:
        """All manifests have been read."""
        return self._all is not None

    def members(self, conjuncts: Sequence[Node] = ()) -> list[Member]:
        """Files that may have rows for which all ``conjuncts`` are true."""
        if self._all is not None and not conjuncts:
            return self._all
        pruner = self._metadata.pruner(conjuncts, self._schema_id) if conjuncts else None
        if self._all is not None:
            assert pruner is not None
            return [member for member in self._all if pruner.entry(member.entry)]
        entries = [
            entry
            for manifest in self.manifests
            if not manifest.deletes and (pruner is None or pruner.manifest(manifest))
            for entry in _entries.get(self._metadata, manifest)
            if pruner is None or pruner.entry(entry)
        ]
        deletes = _Deletes(self._delete_entries()) if entries else None
        found = [Member(entry, () if deletes is None else deletes.of(entry)) for entry in entries]
        if pruner is None:
            self._all = found
        return found

    def proves(self, filter: Filter) -> Callable[[Entry], bool] | None:
        """Tells of which files all rows pass, by statistics; ``None``: they cannot prove it."""
        if not filter.exact:
            return None
        pruner = self._metadata.pruner(filter.conjuncts, self._schema_id)
        return pruner.whole if pruner.exact else None

    def _delete_entries(self) -> list[Entry]:
        name = ".".join(self._metadata.name)
        found = [
            entry
            for manifest in self.manifests
            if manifest.deletes
            for entry in _entries.get(self._metadata, manifest)
        ]
        for entry in found:
            check_readable(entry.file, name)
        return found

    def delete_files(self) -> list[Entry]:
        """All delete files of the snapshot."""
        return self._delete_entries()


class _Deletes:
    """Which delete files may name rows of a data file."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._one: dict[bytes, list[Entry]] = {}
        self._many: list[tuple[bytes | None, bytes | None, Entry]] = []
        for entry in entries:
            lower = entry.file.metrics.lower.get(DELETED_PATH_ID)
            upper = entry.file.metrics.upper.get(DELETED_PATH_ID)
            if lower is not None and lower == upper:
                self._one.setdefault(lower, []).append(entry)
            else:
                self._many.append((lower, upper, entry))

    def of(self, entry: Entry) -> tuple[DataFile, ...]:
        path = entry.file.path.encode()
        found = list(self._one.get(path, ()))
        for lower, upper, deletes in self._many:
            if (lower is None or lower <= path) and (upper is None or path <= upper):
                found.append(deletes)
        return tuple(d.file for d in found if d.sequence >= entry.sequence)
