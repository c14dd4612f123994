"""Which files the metadata of a table reaches."""

from __future__ import annotations

from nimblepy.table import _iceberg as ice
from nimblepy.table.model import PLAN_INDEX


def reachable_files(metadata: ice.Metadata) -> list[str]:
    """All files that any snapshot names, and the metadata that names them."""
    found = dict.fromkeys(metadata.metadata_files())
    for kinds in reachable_by_kind(metadata).values():
        found.update(dict.fromkeys(kinds))
    return list(found)


def reachable_by_kind(metadata: ice.Metadata) -> dict[str, dict[str, list[int]]]:
    """By kind, each file and the snapshots that name it.

    Cost: reads the manifest list of every snapshot, and every manifest once.
    """
    lists: dict[str, list[int]] = {}
    manifests: dict[str, list[int]] = {}
    files: dict[str, dict[str, list[int]]] = {"data": {}, "deletes": {}}
    known: dict[str, list[tuple[str, str]]] = {}
    for snapshot in metadata.snapshots:
        lists.setdefault(snapshot.manifest_list, []).append(snapshot.id)
        for manifest in metadata.manifests(snapshot):
            manifests.setdefault(manifest.path, []).append(snapshot.id)
            if manifest.path not in known:
                kind = "deletes" if manifest.deletes else "data"
                entries = metadata.entries(manifest) if manifest.files else []
                known[manifest.path] = [(kind, entry.file.path) for entry in entries]
            for kind, path in known[manifest.path]:
                files[kind].setdefault(path, []).append(snapshot.id)
    indexes: dict[str, list[int]] = {}
    for snapshot in metadata.snapshots:
        if PLAN_INDEX in snapshot.summary:
            indexes.setdefault(snapshot.summary[PLAN_INDEX], []).append(snapshot.id)
    metadata_files: dict[str, list[int]] = {path: [] for path in metadata.metadata_files()}
    return {
        "metadata": metadata_files,
        "manifest list": lists,
        "manifest": manifests,
        "plan index": indexes,
        **files,
    }
