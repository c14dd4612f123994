"""Which files the metadata of a table reaches."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Manifest
from nimblepy.table.otree.blocks import named_blobs
from nimblepy.table.reading.plan_index import indexed_files, named_parts


def reachable_files(metadata: ice.Metadata, besides: Container[int] = ()) -> Iterator[pa.Array]:
    """All files that any snapshot or the metadata names, and the metadata itself; some twice.

    Args:
        besides: snapshots whose files are known.

    Cost: reads the manifest list of every snapshot that is not known, and each manifest once.
    """
    yield pa.array([*metadata.metadata_files(), *(p for p, _ in metadata.statistics_files())])
    known: set[str] = set()
    for snapshot in metadata.snapshots:
        if snapshot.id in besides:
            continue
        blobs = [metadata.blob_path(name) for name in named_blobs(snapshot)]
        yield pa.array([snapshot.manifest_list, *named_parts(metadata, snapshot), *blobs])
        manifests = [item for item in metadata.manifests(snapshot) if item.path not in known]
        known.update(item.path for item in manifests)
        yield pa.array([item.path for item in manifests], pa.string())
        for item in manifests:
            if item.files:
                yield ice.live_files(metadata, item).paths


def reachable_by_kind(metadata: ice.Metadata) -> dict[str, dict[str, list[int]]]:
    """By kind, each file and the snapshots that name it.

    Cost: reads the manifest list of every snapshot, and every manifest once.
    """
    lists: dict[str, list[int]] = {}
    manifests: dict[str, list[int]] = {}
    blobs: dict[str, list[int]] = {}
    files: dict[str, dict[str, list[int]]] = {"data": {}, "deletes": {}}
    known: dict[str, list[tuple[str, str]]] = {}
    for snapshot in metadata.snapshots:
        lists.setdefault(snapshot.manifest_list, []).append(snapshot.id)
        for manifest in metadata.manifests(snapshot):
            manifests.setdefault(manifest.path, []).append(snapshot.id)
            if manifest.path not in known:
                kind = "deletes" if manifest.deletes else "data"
                paths = (
                    ice.live_files(metadata, manifest).paths.to_pylist() if manifest.files else []
                )
                known[manifest.path] = [(kind, path) for path in paths]
            for kind, path in known[manifest.path]:
                files[kind].setdefault(path, []).append(snapshot.id)
    indexes: dict[str, list[int]] = {}
    for snapshot in metadata.snapshots:
        for path in named_parts(metadata, snapshot):
            indexes.setdefault(path, []).append(snapshot.id)
        for name in named_blobs(snapshot):
            blobs.setdefault(metadata.blob_path(name), []).append(snapshot.id)
    statistics: dict[str, list[int]] = {}
    for path, number in metadata.statistics_files():
        statistics.setdefault(path, []).append(number)
    metadata_files: dict[str, list[int]] = {path: [] for path in metadata.metadata_files()}
    return {
        "metadata": metadata_files,
        "manifest list": lists,
        "manifest": manifests,
        "plan index": indexes,
        "cubes": blobs,
        "statistics": statistics,
        **files,
    }


def unreachable(metadata: ice.Metadata, gone: Collection[int]) -> list[str]:
    """Files that only some snapshots name, which are to go, and files that are about them.

    Cost: reads the manifest lists of all snapshots. Manifests that all snapshots share are not
        read; where one is named by snapshots that are gone alone, those that are left are, or the
        plan index in their place.
    """
    left = [snapshot for snapshot in metadata.snapshots if snapshot.id not in gone]
    lost = [snapshot for snapshot in metadata.snapshots if snapshot.id in gone]
    kept = {item.path: item for snapshot in left for item in metadata.manifests(snapshot)}
    dropped: dict[str, Manifest] = {}
    for snapshot in lost:
        # What another process that expires snapshots has removed already is no concern of ours.
        with contextlib.suppress(FileNotFoundError):
            named = metadata.manifests(snapshot)
            dropped |= {item.path: item for item in named if item.path not in kept}
    found = list(dict.fromkeys(snapshot.manifest_list for snapshot in lost))
    lists = {snapshot.manifest_list for snapshot in left}
    found = [path for path in found if path not in lists]
    found += dropped
    indexes = {path for snapshot in left for path in named_parts(metadata, snapshot)}
    parts = dict.fromkeys(path for snapshot in lost for path in named_parts(metadata, snapshot))
    found += [path for path in parts if path not in indexes]
    blobs = {name for snapshot in left for name in named_blobs(snapshot)}
    ours = dict.fromkeys(name for snapshot in lost for name in named_blobs(snapshot))
    found += [metadata.blob_path(name) for name in ours if name not in blobs]
    described = {path for path, number in metadata.statistics_files() if number not in gone}
    moved = ice.moved_statistics(metadata, gone)
    if moved is not None:
        described.add(moved.statistics_path)
    lost_too = dict.fromkeys(path for path, number in metadata.statistics_files() if number in gone)
    found += [path for path in lost_too if path not in described]
    files = []
    for item in dropped.values():
        with contextlib.suppress(FileNotFoundError):
            files.append(ice.live_files(metadata, item).paths)
    candidates = pc.unique(pa.chunked_array(files, pa.string()))
    for paths in _named(metadata, list(kept.values())) if len(candidates) else ():
        candidates = candidates.filter(pc.invert(pc.is_in(candidates, value_set=paths)))
    found += candidates.to_pylist()
    return found


def _named(metadata: ice.Metadata, manifests: list[Manifest]) -> Iterator[pa.Array]:
    """Paths of the files that some manifests list."""
    data = [item for item in manifests if not item.deletes]
    parts, rest = indexed_files(metadata, metadata.head(), data)
    yield from (part.paths for part in parts)
    manifests = [*rest, *(item for item in manifests if item.deletes)]
    for item in manifests:
        if item.files:
            yield ice.live_files(metadata, item).paths
