"""From a snapshot to the files that have its rows, and what is deleted of each."""

from __future__ import annotations

import errno
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.cached import cached_property
from nimblepy.errors import InvalidArgumentError, StaleFileError
from nimblepy.expr.nodes import Node
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import (
    DELETED_PATH_ID,
    DataFile,
    Distinct,
    Entry,
    Manifest,
    Snapshot,
)
from nimblepy.table.iceberg.manifests import FileColumns, Numbers, Selection
from nimblepy.table.iceberg.pruning import Mask, may_match, partition_passes
from nimblepy.table.reading import plan_index
from nimblepy.table.reading.deletes import check_readable, forget_deletes
from nimblepy.table.reading.members import Member

# Descriptions of files that a list of them keeps.
_KEPT_MEMBERS = 4096


class Members(Sequence[Member]):
    """Data files of a snapshot; each is described when it is asked for. Thread-safe."""

    def __init__(self, files: Selection, deletes: Callable[[Entry], tuple[DataFile, ...]]) -> None:
        """``deletes`` gives the delete files that may name rows of a file."""
        self.files = files
        self._deletes = deletes
        self._known: dict[int, Member] = {}

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, at: int) -> Member: ...
    @overload
    def __getitem__(self, at: slice) -> Members: ...
    def __getitem__(self, at: int | slice) -> Member | Members:
        if type(at) is int and (kept := self._known.get(at)) is not None:
            return kept
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at = int(at) % len(self)
        known = self._known.get(at)
        if known is None:
            if len(self._known) >= _KEPT_MEMBERS:
                self._known.clear()
            entry = self.files.entry(at)
            known = self._known[at] = Member(entry, self._deletes(entry))
        return known

    def have(self, paths: Sequence[str]) -> Mask:
        """Which of some paths are those of files in here."""
        asked = pa.array(paths, pa.string())
        parts = [part.paths for part in self.files.parts if len(part.paths)]
        found = pc.is_in(asked, value_set=pa.chunked_array(parts, pa.string()))
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def take(self, order: Numbers | Sequence[int]) -> Members:
        """Some of them, by place."""
        return Members(self.files.take(np.asarray(order, dtype=np.int64)), self._deletes)

    def beside(self, part: FileColumns) -> Members:
        """These, then files that no snapshot has yet."""
        return Members(self.files.beside(part), self._deletes)


def clear_caches() -> None:
    """Forgets what was read of manifests and delete files, so that it is read again."""
    ice.forget_manifests()
    forget_deletes()
    plan_index.clear_cache()


Method = TypeVar("Method", bound=Callable[..., Any])


def explains_missing_files(method: Method) -> Method:
    """Has a method raise ``self.missing(error)`` in place of a FileNotFoundError."""

    @functools.wraps(method)
    def explained(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except FileNotFoundError as error:
            found = self.missing(error)
            if found is error:
                raise
            raise found from error

    return cast(Method, explained)


class SnapshotPlan:
    """The files of one snapshot, read as far as they are asked for.

    If a file is missing since the snapshot has expired, a StaleFileError says so.

    Attributes:
        is_past: whether the handle that it is of has moved on.

    Cost: the manifest list when it is first needed, then each manifest once in a process, of
        those whose partitions may match.
    """

    def __init__(
        self,
        metadata: ice.Metadata,
        snapshot: Snapshot | None,
        schema_id: int | None,
        reload: Callable[[], ice.Metadata] | None = None,
    ) -> None:
        """``reload`` gives the newest metadata, by which a missing file is explained."""
        self._metadata = self._statistics = metadata
        self._snapshot = snapshot
        self._schema_id = schema_id
        self._reload = reload
        self._manifests: list[Manifest] | None = None
        self._all: Members | None = None
        self.is_past = False

    @property
    def manifests(self) -> list[Manifest]:
        """Those with live files."""
        if self._manifests is None:
            found = [] if self._snapshot is None else self._listed(self._snapshot)
            self._manifests = [item for item in found if item.files]
        return self._manifests

    @explains_missing_files
    def _listed(self, snapshot: Snapshot) -> list[Manifest]:
        return self._metadata.manifests(snapshot)

    def missing(self, error: FileNotFoundError) -> OSError:
        """What a file that is not there means: the snapshot has expired, or the file is lost."""
        if self._reload is None or self._snapshot is None:
            return error
        name, number = ".".join(self._metadata.name), self._snapshot.id
        try:
            newest = self._reload()
        except (InvalidArgumentError, OSError):
            return error  # the table was dropped, or nothing can be known
        if newest.uuid != self._metadata.uuid:
            return error
        if newest.snapshot(number) is None:
            return StaleFileError(
                f"{name}: snapshot {number} has expired, and its files were removed; refresh() "
                "moves the handle to the newest snapshot"
            )
        path = error.filename or str(error)
        return FileNotFoundError(
            errno.ENOENT,
            f"{name}: a file is missing, though snapshot {number} still names it",
            path,
        )

    @cached_property
    def has_deletes(self) -> bool:
        return any(manifest.deletes for manifest in self.manifests)

    @property
    def metadata_reads(self) -> int:
        """Metadata files that were read for this version of the table so far."""
        return self._metadata.reads

    @property
    def is_complete(self) -> bool:
        """All manifests have been read."""
        return self._all is not None

    @explains_missing_files
    def members(self, conjuncts: Sequence[Node] = ()) -> Members:
        """Files that may have rows for which all ``conjuncts`` are true."""
        if self._all is not None:
            if not conjuncts:
                return self._all
            return self._all.take(np.flatnonzero(self.matches(self._all, conjuncts)))
        pruner = ice.Pruner(self._metadata, conjuncts, self._schema_id) if conjuncts else None
        files = self._selected(pruner)
        found = Members(files, self._deletes_of if len(files) else lambda _: ())
        if pruner is None:
            self._all = found
        return found

    def _selected(self, pruner: ice.Pruner | None) -> Selection:
        parts: list[FileColumns] = []
        rows: list[Numbers] = []
        index_parts = plan_index.asked_for(self._metadata, self._snapshot)
        waiting = [manifest for manifest in self.manifests if not manifest.deletes]
        index = index_parts()
        answering, others = plan_index.answered(self._metadata, index, waiting)
        if pruner is not None:
            others = pruner.manifests(others)
        # They are wanted next, where there are files; waiting for them then would cost a round.
        beside = (others or any(answering)) and self._metadata.distant
        deletes = [item for item in self.manifests if item.deletes] if beside else []
        found = ice.decoded(self._metadata, [*others, *deletes])
        indexed, unread = plan_index.files_of(self._metadata, index, answering, pruner)
        parts += indexed
        rows += [np.arange(part.num_files, dtype=np.int32) for part in indexed]
        if unread:
            found = itertools.chain(ice.decoded(self._metadata, unread), found)
        for part in itertools.islice(found, len(unread) + len(others)):
            left = np.arange(part.num_files) if pruner is None else _left(part, pruner)
            if len(left):
                parts.append(part)
                rows.append(left)
        if parts:
            for _ in found:  # those of deletes are kept for when they are asked for
                pass
        return Selection.of(parts, rows)

    def matches(self, members: Members, conjuncts: Sequence[Node]) -> Mask:
        """Which of some files may have rows for which all ``conjuncts`` are true."""
        pruner = ice.Pruner(self._metadata, conjuncts, self._schema_id)
        masks = [_mask(part, pruner) for part in members.files.parts]
        found: Mask = members.files.gather(masks, np.bool_)
        return found

    @cached_property
    def _deletes_of(self) -> Callable[[Entry], tuple[DataFile, ...]]:
        return _Deletes(self.delete_files()).of

    def deletes_of(self, entry: Entry) -> tuple[DataFile, ...]:
        """The delete files of the snapshot that may name rows of a file."""
        return self._deletes_of(entry)

    def whole(self, members: Members, filter: Node) -> Mask:
        """Of which of some files all rows pass, as their statistics prove."""
        proof = ice.Proof(self._metadata, filter, self._schema_id)
        if not proof.possible:
            return np.zeros(len(members), dtype=np.bool_)
        masks = [proof.whole(part) for part in members.files.parts]
        found: Mask = members.files.gather(masks, np.bool_)
        return found

    @cached_property
    def distinct_values(self) -> dict[int, Distinct]:
        """About how many different values columns have, by field id, where statistics say it."""
        return ice.distinct_values(self._statistics, self._snapshot)

    def learn(self, newest: ice.Metadata) -> None:
        """Takes statistics of the same snapshot from newer metadata."""
        self._statistics = newest
        self.__dict__.pop("distinct_values", None)

    @explains_missing_files
    def delete_files(self) -> list[Entry]:
        """All delete files of the snapshot."""
        name = ".".join(self._metadata.name)
        found = []
        manifests = [manifest for manifest in self.manifests if manifest.deletes]
        for part in ice.decoded(self._metadata, manifests):
            found += [part.entry(i) for i in range(part.num_files)]
        for entry in found:
            check_readable(entry.file, name)
        return found


def _mask(part: FileColumns, pruner: ice.Pruner) -> Mask:
    found = partition_passes(part, pruner.partition_test(part.spec_id))
    return found & may_match(part, pruner.metrics_test) if found.any() else found


def _left(part: FileColumns, pruner: ice.Pruner) -> Numbers:
    return np.flatnonzero(_mask(part, pruner))


class _Deletes:
    """Which delete files may name rows of a data file."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._one: dict[bytes, list[Entry]] = {}
        self._many: list[tuple[bytes, bytes | None, int, DataFile]] = []
        for entry in entries:
            lower = entry.file.metrics.lower.get(DELETED_PATH_ID)
            upper = entry.file.metrics.upper.get(DELETED_PATH_ID)
            if lower is not None and lower == upper:
                self._one.setdefault(lower, []).append(entry)
            else:
                self._many.append((lower or b"", upper, entry.sequence, entry.file))

    def of(self, entry: Entry) -> tuple[DataFile, ...]:
        path, sequence = entry.file.path.encode(), entry.sequence
        found = [item.file for item in self._one.get(path, ()) if item.sequence >= sequence]
        for lower, upper, deleted_at, file in self._many:
            if deleted_at >= sequence and lower <= path and (upper is None or path <= upper):
                found.append(file)
        return tuple(found)
