"""Plans a snapshot: finds its data files and the delete files of each."""

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
from nimblepy.errors import ConflictError, InvalidArgumentError, StaleFileError
from nimblepy.expr.nodes import Node
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import (
    DELETED_PATH_ID,
    DataFile,
    Distinct,
    Entry,
    Manifest,
    PartitionField,
    Snapshot,
)
from nimblepy.table.base.moved import translation_of
from nimblepy.table.iceberg.manifests import FileColumns, Numbers, Selection
from nimblepy.table.iceberg.pruning import Mask, may_match, partition_passes
from nimblepy.table.reading import plan_index
from nimblepy.table.reading.deletes import check_readable, forget_deletes
from nimblepy.table.reading.equality import is_global, partition_key
from nimblepy.table.reading.members import Member

# Number of file descriptions that a list of files caches.
_KEPT_MEMBERS = 4096


class Members(Sequence[Member]):
    """Data files of a snapshot, described on access. Thread-safe."""

    def __init__(self, files: Selection, deletes: Callable[[Entry], tuple[DataFile, ...]]) -> None:
        """Makes a list of data files.

        Args:
            deletes: returns the delete files that may list rows of a file.
        """
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
        member = self._known.get(at)
        if member is None:
            if len(self._known) >= _KEPT_MEMBERS:
                self._known.clear()
            entry = self.files.entry(at)
            member = self._known[at] = Member(entry, self._deletes(entry))
        return member

    def have(self, paths: Sequence[str]) -> Mask:
        """Returns which of ``paths`` are paths of these files."""
        given = pa.array(paths, pa.string())
        parts = [part.paths for part in self.files.parts if len(part.paths)]
        is_member = pc.is_in(given, value_set=pa.chunked_array(parts, pa.string()))
        return np.asarray(is_member.to_numpy(zero_copy_only=False))

    def take(self, order: Numbers | Sequence[int]) -> Members:
        """Returns the files at some positions."""
        return Members(self.files.take(np.asarray(order, dtype=np.int64)), self._deletes)

    def beside(self, part: FileColumns) -> Members:
        """Returns these files, followed by files that are in no snapshot yet."""
        return Members(self.files.beside(part), self._deletes)


def clear_caches() -> None:
    """Clears the caches of manifests and delete files."""
    ice.forget_manifests()
    forget_deletes()
    plan_index.clear_cache()


Method = TypeVar("Method", bound=Callable[..., Any])


def explains_missing_files(method: Method) -> Method:
    """Makes a method raise ``self.missing(error)`` instead of FileNotFoundError."""

    @functools.wraps(method)
    def explained(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except FileNotFoundError as error:
            explanation = self.missing(error)
            if explanation is error:
                raise
            raise explanation from error

    return cast(Method, explained)


class SnapshotPlan:
    """The files of one snapshot, read on demand.

    If a file is missing because the snapshot has expired, or because the table was dropped, methods
    raise StaleFileError.

    Attributes:
        is_past: whether the handle has moved to another snapshot.

    Cost: one read of the manifest list, then one read per process of each manifest whose partitions
    can match.
    """

    def __init__(
        self,
        metadata: ice.Metadata,
        snapshot: Snapshot | None,
        schema_id: int | None,
        reload: Callable[[], ice.Metadata] | None = None,
    ) -> None:
        """Makes a plan that reads nothing yet.

        Args:
            reload: returns the newest metadata, which explains missing files.
        """
        self._metadata = self._statistics = metadata
        self._snapshot = snapshot
        self._schema_id = schema_id
        self._reload = reload
        self._manifests: list[Manifest] | None = None
        self._all: Members | None = None
        self.is_past = False

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot; ``None`` before the first commit."""
        return None if self._snapshot is None else self._snapshot.id

    @property
    def manifests(self) -> list[Manifest]:
        """Manifests with live files."""
        if self._manifests is None:
            manifests = [] if self._snapshot is None else self._listed(self._snapshot)
            self._manifests = [item for item in manifests if item.files]
        return self._manifests

    @explains_missing_files
    def _listed(self, snapshot: Snapshot) -> list[Manifest]:
        return self._metadata.manifests(snapshot)

    def missing(self, error: FileNotFoundError) -> OSError:
        """Explains a missing file: the snapshot expired, the table was dropped, or the file is
        lost.
        """
        if self._reload is None or self._snapshot is None:
            return error
        name, number = ".".join(self._metadata.name), self._snapshot.id
        try:
            newest = self._reload()
        except OSError:
            return error  # The catalog cannot be reached.
        except (InvalidArgumentError, ConflictError):
            newest = None
        if newest is None or newest.uuid != self._metadata.uuid:
            return StaleFileError(f"{name}: the table was dropped, and its files were removed")
        if newest.snapshot(number) is None:
            return StaleFileError(
                f"{name}: snapshot {number} has expired, and its files were removed; refresh() "
                "moves the handle to the newest snapshot"
            )
        path = error.filename or str(error)
        return FileNotFoundError(
            errno.ENOENT,
            f"{name}: a file of snapshot {number} is missing; another program may have removed it",
            path,
        )

    @cached_property
    def has_deletes(self) -> bool:
        return any(manifest.deletes for manifest in self.manifests)

    @property
    def metadata_reads(self) -> int:
        """Number of metadata files that were read for this version of the table."""
        return self._metadata.reads

    @property
    def is_complete(self) -> bool:
        """Whether all manifests have been read."""
        return self._all is not None

    @explains_missing_files
    def members(self, conjuncts: Sequence[Node] = ()) -> Members:
        """Returns the files that may have rows for which all ``conjuncts`` are true."""
        if self._all is not None:
            if not conjuncts:
                return self._all
            return self._all.take(np.flatnonzero(self.matches(self._all, conjuncts)))
        pruner = ice.Pruner(self._metadata, conjuncts, self._schema_id) if conjuncts else None
        files = self._selected(pruner)
        members = Members(files, self._deletes_of if len(files) else lambda _: ())
        if pruner is None:
            self._all = members
        return members

    def _selected(self, pruner: ice.Pruner | None) -> Selection:
        parts: list[FileColumns] = []
        rows: list[Numbers] = []
        index_parts = plan_index.asked_for(self._metadata, self._snapshot)
        waiting = [manifest for manifest in self.manifests if not manifest.deletes]
        index = index_parts()
        answering, others = plan_index.answered(self._metadata, index, waiting)
        if pruner is not None:
            others = pruner.manifests(others)
        # Start to load the delete manifests now, together with the others: loading them later would
        # cost another round trip.
        beside = (others or any(answering)) and self._metadata.distant
        deletes = [item for item in self.manifests if item.deletes] if beside else []
        decoded = ice.decoded(self._metadata, [*others, *deletes])
        indexed, unread = plan_index.files_of(self._metadata, index, answering, pruner)
        parts += indexed
        rows += [np.arange(part.num_files, dtype=np.int32) for part in indexed]
        if unread:
            decoded = itertools.chain(ice.decoded(self._metadata, unread), decoded)
        for part in itertools.islice(decoded, len(unread) + len(others)):
            left = np.arange(part.num_files) if pruner is None else _left(part, pruner)
            if len(left):
                parts.append(part)
                rows.append(left)
        if parts:
            for _ in decoded:  # Keeps the delete manifests for later.
                pass
        return Selection.of(parts, rows)

    def matches(self, members: Members, conjuncts: Sequence[Node]) -> Mask:
        """Returns which files may have rows for which all ``conjuncts`` are true."""
        pruner = ice.Pruner(self._metadata, conjuncts, self._schema_id)
        masks = [_mask(part, pruner) for part in members.files.parts]
        mask: Mask = members.files.gather(masks, np.bool_)
        return mask

    @cached_property
    def _deletes_of(self) -> Callable[[Entry], tuple[DataFile, ...]]:
        return Deletes(self.delete_files(), self._metadata.spec).of

    def deletes_of(self, entry: Entry) -> tuple[DataFile, ...]:
        """Returns the delete files of the snapshot that may list rows of a file."""
        return self._deletes_of(entry)

    def whole(self, members: Members, filter: Node) -> Mask:
        """Returns which files contain only passing rows, according to their statistics."""
        proof = ice.Proof(self._metadata, filter, self._schema_id)
        if not proof.possible:
            return np.zeros(len(members), dtype=np.bool_)
        masks = [proof.whole(part) for part in members.files.parts]
        mask: Mask = members.files.gather(masks, np.bool_)
        return mask

    @cached_property
    def distinct_values(self) -> dict[int, Distinct]:
        """Estimated distinct counts of columns, by field id, if the table has statistics."""
        return ice.distinct_values(self._statistics, self._snapshot)

    def learn(self, newest: ice.Metadata) -> None:
        """Takes over statistics of the same snapshot from newer metadata."""
        self._statistics = newest
        self.__dict__.pop("distinct_values", None)

    @explains_missing_files
    def delete_files(self) -> list[Entry]:
        """Returns all delete files of the snapshot."""
        name = ".".join(self._metadata.name)
        entries = []
        manifests = [manifest for manifest in self.manifests if manifest.deletes]
        for part in ice.decoded(self._metadata, manifests):
            entries += [part.entry(i) for i in range(part.num_files)]
        for entry in entries:
            check_readable(entry.file, name)
        return entries


def _mask(part: FileColumns, pruner: ice.Pruner) -> Mask:
    mask = partition_passes(part, pruner.partition_test(part.spec_id))
    return mask & may_match(part, pruner.metrics_test) if mask.any() else mask


def _left(part: FileColumns, pruner: ice.Pruner) -> Numbers:
    return np.flatnonzero(_mask(part, pruner))


class Deletes:
    """Finds the delete files that may apply to rows of a data file.

    Args:
        spec_of: returns the partition spec with a number.
    """

    def __init__(
        self, entries: Sequence[Entry], spec_of: Callable[[int], Sequence[PartitionField]]
    ) -> None:
        self._one: dict[bytes, list[Entry]] = {}
        self._many: list[tuple[bytes, bytes | None, int, DataFile]] = []
        # Equality deletes by partition; those of all partitions have the key None.
        self._by_key: dict[object, list[Entry]] = {}
        for entry in entries:
            if entry.file.content == "equality deletes":
                everywhere = is_global(spec_of(entry.file.spec_id))
                self._by_key.setdefault(None if everywhere else _place(entry), []).append(entry)
                continue
            if entry.file.vector is not None:
                path = entry.file.vector.data_file
                translation = translation_of(entry.file.path)
                path = path if translation is None else translation.path(path)
                self._one.setdefault(path.encode(), []).append(entry)
                continue
            lower = entry.file.metrics.lower.get(DELETED_PATH_ID)
            upper = entry.file.metrics.upper.get(DELETED_PATH_ID)
            translation = translation_of(entry.file.path)
            if translation is not None:
                # The bounds of several files may come from several roots.
                is_one = lower is not None and lower == upper
                lower = translation.path(lower.decode()).encode() if lower and is_one else None
                upper = lower
            if lower is not None and lower == upper:
                self._one.setdefault(lower, []).append(entry)
            else:
                self._many.append((lower or b"", upper, entry.sequence, entry.file))

    @property
    def is_empty(self) -> bool:
        """Whether there are no delete files."""
        return not (self._one or self._many or self._by_key)

    def of(self, entry: Entry) -> tuple[DataFile, ...]:
        path, sequence = entry.file.path.encode(), entry.sequence
        deletes = [item.file for item in self._one.get(path, ()) if item.sequence >= sequence]
        for lower, upper, deleted_at, file in self._many:
            if deleted_at >= sequence and lower <= path and (upper is None or path <= upper):
                deletes.append(file)
        if self._by_key:
            for place in (None, _place(entry)):
                # A commit that adds rows and deletes their keys deletes only older rows.
                deletes += [d.file for d in self._by_key.get(place, ()) if d.sequence > sequence]
        return tuple(deletes)


def _place(entry: Entry) -> object:
    return entry.file.spec_id, partition_key(entry.file.partition)
