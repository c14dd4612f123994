"""Lists the files that the metadata of a table references."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Manifest
from nimblepy.table.otree.blocks import named_blobs
from nimblepy.table.reading.parquet_index import index_paths
from nimblepy.table.reading.plan_index import indexed_files, named_parts


def reachable_files(metadata: ice.Metadata, besides: Container[int] = ()) -> Iterator[pa.Array]:
    """Yields all files that a snapshot or the metadata references, and the metadata files.

    Some files are yielded twice.

    Args:
        besides: ids of snapshots to skip.

    Cost: reads the manifest list of every snapshot that is not skipped, and each manifest once.
    """
    yield pa.array([*metadata.metadata_files(), *(p for p, _ in metadata.statistics_files())])
    yield pa.array([*ice.files_beside(metadata), *index_paths(metadata)], pa.string())
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        if snapshot.id in besides:
            continue
        blobs = [metadata.blob_path(name) for name in named_blobs(snapshot)]
        yield pa.array([snapshot.manifest_list, *named_parts(metadata, snapshot), *blobs])
        manifests = [item for item in metadata.manifests(snapshot) if item.path not in seen]
        seen.update(item.path for item in manifests)
        yield pa.array([item.path for item in manifests], pa.string())
        for item in manifests:
            if item.files:
                yield ice.live_files(metadata, item).paths


def reachable_by_kind(metadata: ice.Metadata) -> dict[str, dict[str, list[int]]]:
    """Returns, for each kind of file, the paths and the ids of the snapshots that reference each
    path.

    Cost: reads the manifest list of every snapshot, and every manifest once.
    """
    lists: dict[str, list[int]] = {}
    manifests: dict[str, list[int]] = {}
    blobs: dict[str, list[int]] = {}
    files: dict[str, dict[str, list[int]]] = {"data": {}, "deletes": {}}
    files_of_manifest: dict[str, list[tuple[str, str]]] = {}
    for snapshot in metadata.snapshots:
        lists.setdefault(snapshot.manifest_list, []).append(snapshot.id)
        for manifest in metadata.manifests(snapshot):
            manifests.setdefault(manifest.path, []).append(snapshot.id)
            if manifest.path not in files_of_manifest:
                kind = "deletes" if manifest.deletes else "data"
                paths = (
                    ice.live_files(metadata, manifest).paths.to_pylist() if manifest.files else []
                )
                files_of_manifest[manifest.path] = [(kind, path) for path in paths]
            for kind, path in files_of_manifest[manifest.path]:
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
        "version hint": {path: [] for path in ice.files_beside(metadata)},
        "manifest list": lists,
        "manifest": manifests,
        "plan index": indexes,
        "cubes": blobs,
        "key index": {path: [] for path in index_paths(metadata)},
        "statistics": statistics,
        **files,
    }


def unreachable(metadata: ice.Metadata, expired: Collection[int]) -> list[str]:
    """Returns the files that only expired snapshots reference, including their manifests and
    statistics.

    Args:
        expired: ids of the expired snapshots.

    Cost: reads the manifest lists of all snapshots, and the manifests that only expired snapshots
    name. If there are any, also reads the remaining manifests, or the plan index instead.
    """
    kept_snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.id not in expired]
    expired_snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.id in expired]
    kept = {item.path: item for snapshot in kept_snapshots for item in metadata.manifests(snapshot)}
    dropped: dict[str, Manifest] = {}
    for snapshot in expired_snapshots:
        # Another process that expires snapshots may already have removed the file.
        with contextlib.suppress(FileNotFoundError):
            named = metadata.manifests(snapshot)
            dropped |= {item.path: item for item in named if item.path not in kept}
    paths_found = list(dict.fromkeys(snapshot.manifest_list for snapshot in expired_snapshots))
    lists = {snapshot.manifest_list for snapshot in kept_snapshots}
    paths_found = [path for path in paths_found if path not in lists]
    paths_found += dropped
    indexes = {path for snapshot in kept_snapshots for path in named_parts(metadata, snapshot)}
    parts = dict.fromkeys(
        path for snapshot in expired_snapshots for path in named_parts(metadata, snapshot)
    )
    paths_found += [path for path in parts if path not in indexes]
    blobs = {name for snapshot in kept_snapshots for name in named_blobs(snapshot)}
    expired_blobs = dict.fromkeys(
        name for snapshot in expired_snapshots for name in named_blobs(snapshot)
    )
    paths_found += [metadata.blob_path(name) for name in expired_blobs if name not in blobs]
    described = {path for path, number in metadata.statistics_files() if number not in expired}
    moved = ice.moved_statistics(metadata, expired)
    if moved is not None:
        described.add(moved.statistics_path)
    lost_too = dict.fromkeys(
        path for path, number in metadata.statistics_files() if number in expired
    )
    paths_found += [path for path in lost_too if path not in described]
    files = []
    for item in dropped.values():
        with contextlib.suppress(FileNotFoundError):
            files.append(ice.live_files(metadata, item).paths)
    candidates = pc.unique(pa.chunked_array(files, pa.string()))
    for paths in _named(metadata, list(kept.values())) if len(candidates) else ():
        candidates = candidates.filter(pc.invert(pc.is_in(candidates, value_set=paths)))
    paths_found += candidates.to_pylist()
    return paths_found


def _named(metadata: ice.Metadata, manifests: list[Manifest]) -> Iterator[pa.Array]:
    """Yields the paths of the files in some manifests."""
    data = [item for item in manifests if not item.deletes]
    parts, rest = indexed_files(metadata, metadata.head(), data)
    yield from (part.paths for part in parts)
    manifests = [*rest, *(item for item in manifests if item.deletes)]
    for item in manifests:
        if item.files:
            yield ice.live_files(metadata, item).paths
