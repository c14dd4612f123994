"""A cache of decoded manifests that this process has read or written."""

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
# Bytes of the Python objects of a manifest, besides its values: most have few files.
_OVERHEAD = 40 << 10


class _Manifests:
    """Decoded manifests by path: a manifest never changes. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ManifestFiles] = OrderedDict()
        self._bytes = 0
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, path: str) -> ManifestFiles | None:
        with self._lock:
            kept = self._kept.get(path)
            if kept is not None:
                self._kept.move_to_end(path)
            return kept

    def put(self, path: str, files: ManifestFiles) -> None:
        with self._lock:
            if path not in self._kept:
                self._kept[path] = files
                self._bytes += files.num_bytes + _OVERHEAD
            while self._bytes > _MOST_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].num_bytes + _OVERHEAD


_manifests = _Manifests()


def decoded(metadata: Metadata, manifests: Sequence[Manifest]) -> Iterator[ManifestFiles]:
    """The live files of each of some manifests.

    Cost: one read of each that this process neither read nor wrote just before; they are asked for
        before this returns.
    """
    kept = [_manifests.get(item.path) for item in manifests]
    missing = [item for item, there in zip(manifests, kept, strict=True) if there is None]
    read = metadata.columns(missing)
    return (
        _kept(item.path, next(read)) if there is None else there
        for item, there in zip(manifests, kept, strict=True)
    )


def live_files(metadata: Metadata, manifest: Manifest) -> ManifestFiles:
    """The live files of one manifest; see :func:`decoded`."""
    return next(decoded(metadata, [manifest]))


def keep_manifest(files: ManifestFiles) -> None:
    """Keeps what a manifest that was written says, so that it is not read."""
    _kept(files.path, files)


def forget_manifests() -> None:
    """Forgets manifests and lists of them, so that they are read again."""
    global _manifests
    _manifests = _Manifests()
    forget_lists()


def _kept(path: str, files: ManifestFiles) -> ManifestFiles:
    _manifests.put(path, files)
    return files
