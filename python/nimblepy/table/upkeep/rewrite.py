"""Rewrites manifests: groups files by partition into few manifests and writes a plan index."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import PLAN_INDEX, Manifest, Snapshot
from nimblepy.table.base.places import remove_file
from nimblepy.table.iceberg.manifests import Numbers
from nimblepy.table.reading import plan_index
from nimblepy.table.reading.plan_index import (
    Layout,
    clustered,
    index_rows,
    layout_of,
    tail,
    write_index,
)
from nimblepy.table.writing.commit import Commit, report, run

# Maximum entries of a manifest; manifests with at least _ENOUGH entries need not be merged.
MOST_ENTRIES = 4096
_ENOUGH = MOST_ENTRIES // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRewrite:
    """The result of a rewrite of manifests.

    Attributes:
        snapshot: id of the new snapshot, or of the current one if there was nothing to do.
        manifests_before, manifests_after: number of data manifests before and after.
        rewritten: number of manifests that were replaced.
        files: number of data files in the plan index.
        retries: number of attempts that lost against another commit.
        seconds: duration of the call, including the commit.
    """

    snapshot: int | None
    manifests_before: int = 0
    manifests_after: int = 0
    rewritten: int = 0
    files: int = 0
    retries: int = 0
    seconds: float = 0.0


def rewrite_manifests(
    metadata: ice.Metadata, reload: Callable[[], ice.Metadata], *, whole: bool
) -> tuple[ice.Metadata, ManifestRewrite]:
    """See :meth:`nimblepy.table.table.Table.rewrite_manifests`."""
    begin = time.perf_counter()
    change = _Rewrite(whole)
    done = run(change, metadata, reload)
    head = metadata.head()
    if done is None:
        snapshot = None if head is None else head.id
        return metadata, ManifestRewrite(
            snapshot=snapshot,
            manifests_before=change.before,
            manifests_after=change.before,
            seconds=time.perf_counter() - begin,
        )
    newest, retries = done
    result = ManifestRewrite(
        snapshot=change.commit.snapshot,
        manifests_before=change.before,
        manifests_after=change.before - len(change.commit.replaced) + len(change.commit.made),
        rewritten=len(change.commit.replaced),
        files=change.files,
        retries=retries,
        seconds=time.perf_counter() - begin,
    )
    commit = Commit(snapshot=result.snapshot, retries=retries, seconds=result.seconds)
    report(".".join(newest.name), "rewrite_manifests", commit)
    return newest, result


class _Rewrite:
    """Replaces manifests by others with the same files, and writes the plan index."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._is_planned = False
        self.commit = ice.ManifestsCommit("replace")
        self.before = 0
        self.files = 0
        self._part: str | None = None  # path of the new part of the index

    def is_done(self, metadata: ice.Metadata) -> bool:
        return False

    def plan(self, metadata: ice.Metadata) -> bool:
        """Writes new manifests and the index, unless those of a lost attempt are still correct.

        Returns:
            ``False`` if nothing needs to change.
        """
        if self._is_planned:
            head = metadata.head()
            current = set() if head is None else {item.path for item in metadata.manifests(head)}
            if self.commit.replaced <= current:
                # Other commits only added manifests, so the written ones are still correct. This
                # also holds after an attempt with unknown outcome: the head is still the base's.
                return True
            self.commit.abandon(metadata)
            self.discard()
        self.commit = ice.ManifestsCommit("replace")
        self._is_planned = self._plan(metadata)
        return self._is_planned

    def _plan(self, metadata: ice.Metadata) -> bool:
        head = metadata.head()
        if head is None:
            return False
        types = metadata.partition_types()
        listed = metadata.manifests(head)
        manifests = [item for item in listed if item.files and not item.deletes]
        self.before = len(manifests)
        bad = _to_rewrite(manifests, metadata)
        if self._whole and any(item.removed for item in listed):
            # Entries of removed files contain values of their rows, so rewrite these manifests. Any
            # commit drops manifests that contain only removed files.
            if not manifests:
                self._describe(0, 0)
                return True
            chosen = {item.path for item in bad}
            bad += [item for item in manifests if item.removed and item.path not in chosen]
            bad = bad or manifests[:1]
        parts = plan_index.parts_of(metadata, head)
        current = [item for item in manifests if item.spec_id in types]
        _, beside = plan_index.covered(parts, current)
        again_all = self._whole and bool(parts) and bool(current)
        if not (again_all or _gains(bad, manifests, beside)):
            return False
        layout = layout_of(metadata)
        self.commit.replaced = {item.path for item in bad}
        try:
            index_rows_made = self._write_manifests(metadata, layout, bad)
            kept = [item for item in current if item.path not in self.commit.replaced]
            answering, beside = plan_index.covered(parts, kept)
            live = [
                sum(item.files for item in replaced_manifests) for replaced_manifests in answering
            ]
            new = sum(rows.num_rows for rows in index_rows_made) + sum(
                item.files for item in beside
            )
            again = [True] * len(parts) if again_all else plan_index.merged_parts(parts, live, new)
            self.files = new + sum(live)
            for replaced_manifests, merged in zip(answering, again, strict=True):
                beside += replaced_manifests if merged else []
            tables = [
                *index_rows_made,
                *_kept_rows(metadata, head, layout, beside, len(index_rows_made)),
            ]
            rows = pa.concat_tables(tables).combine_chunks()
            self._part = write_index(metadata, layout, rows, [*self.commit.made, *beside])
            left = [part.path for part, merged in zip(parts, again, strict=True) if not merged]
        except BaseException:
            self.commit.abandon(metadata)
            raise
        self._describe(len(bad), len(manifests) - len(bad))
        self.commit.summary |= ice.key_record(metadata)
        self.commit.summary[PLAN_INDEX] = plan_index.summary_of([*left, self._part])
        return True

    def _describe(self, replaced: int, kept: int) -> None:
        self.commit.summary = {
            "engine-name": "nimblepy",
            "nimblepy.user": ice.who(),
            "manifests-created": str(len(self.commit.made)),
            "manifests-replaced": str(replaced),
            "manifests-kept": str(kept),
        }

    def _write_manifests(
        self, metadata: ice.Metadata, layout: Layout, bad: list[Manifest]
    ) -> list[pa.Table]:
        """Writes new manifests; returns the rows of the index for each of them, in their order."""
        tables: list[pa.Table] = []
        for spec_id in sorted({item.spec_id for item in bad}):
            parts, entries = [], []
            for manifest in bad:
                if manifest.spec_id == spec_id:
                    files, encoded = metadata.encoded_entries(manifest)
                    parts.append(index_rows(files, layout))
                    entries += encoded
            rows = pa.concat_tables(parts).combine_chunks()
            order = clustered(rows, layout)
            rows, places = rows.take(order), order.to_numpy()
            names = [f"p{number}" for number, _ in layout.partitions[spec_id]]
            for first, last in _cuts(_changes(rows, names), rows.num_rows):
                rows_of_manifest = rows.slice(first, last - first)
                self.commit.write(
                    metadata,
                    spec_id,
                    [entries[place] for place in places[first:last]],
                    partitions=_partitions(rows_of_manifest, layout, spec_id),
                    rows=pc.sum(rows_of_manifest.column("rows")).as_py(),
                    sequence=pc.min(rows_of_manifest.column("sequence")).as_py(),
                )
                number = pa.array(np.full(last - first, len(tables), np.int32))
                tables.append(rows_of_manifest.append_column("manifest", number))
        return tables

    def discard(self) -> None:
        if self._part is not None and not self.commit.doubtful:
            with contextlib.suppress(OSError):
                remove_file(self._part)


def _kept_rows(
    metadata: ice.Metadata,
    head: Snapshot,
    layout: Layout,
    kept: list[Manifest],
    first: int,
) -> list[pa.Table]:
    """Returns the index rows of the kept manifests, which are numbered from ``first``."""
    numbers = {item.path: first + i for i, item in enumerate(kept)}
    tables = []
    parts, rest = plan_index.indexed_files(metadata, head, kept)
    for part in parts:
        new = np.array([numbers.get(path, -1) for path in part.manifest_paths], dtype=np.int32)
        numbers_of_rows = new[part.manifest_numbers]
        tables.append(index_rows(part, layout).append_column("manifest", pa.array(numbers_of_rows)))
    for item in rest:
        rows = index_rows(ice.live_files(metadata, item), layout)
        numbers_of_rows = np.full(rows.num_rows, numbers[item.path], np.int32)
        tables.append(rows.append_column("manifest", pa.array(numbers_of_rows)))
    return tables


def can_be_better(
    manifests: list[Manifest], beside: Sequence[Manifest], metadata: ice.Metadata
) -> bool:
    """Returns whether a rewrite would change anything.

    Args:
        manifests: all data manifests.
        beside: data manifests that the plan index does not cover.
    """
    return _gains(_to_rewrite(manifests, metadata), manifests, beside)


def _gains(bad: list[Manifest], manifests: list[Manifest], beside: Sequence[Manifest]) -> bool:
    return bool(bad) or (bool(beside) and len(manifests) > 1)


def _to_rewrite(manifests: list[Manifest], metadata: ice.Metadata) -> list[Manifest]:
    """Returns the manifests that are small, or whose partitions overlap those of others."""
    kinds = metadata.partition_types()
    chosen: list[Manifest] = []
    for spec_id, fields in kinds.items():
        of_spec = [item for item in manifests if item.spec_id == spec_id]
        small_ones = [item for item in of_spec if item.files < _ENOUGH]
        small_ones.sort(key=lambda item: -item.files)
        merged = (
            tail([item.files for item in small_ones[:-1]], small_ones[-1].files, 4)
            if small_ones
            else 0
        )
        small = {item.path for item in small_ones[-1 - merged :]}
        if len(small) == 1 and len(of_spec) == 1:
            small = set()
        shared = _overlapping(of_spec, metadata) if fields else set()
        bad = [item for item in of_spec if item.path in small or item.path in shared]
        # A single small manifest is the remainder of the previous rewrite; leave it alone.
        chosen += bad if len(bad) > 1 else []
    return chosen


def _overlapping(manifests: list[Manifest], metadata: ice.Metadata) -> set[str]:
    """Returns the paths of manifests whose partition ranges overlap in more than an end point."""
    ends = []
    for item in manifests:
        lower, upper = metadata.first_partition_range(item)
        if lower is None or upper is None:
            continue
        ends.append((lower, upper, item.path))
    ends.sort(key=lambda end: (end[0], end[1]))
    overlapping: set[str] = set()
    reach: Any = None
    holder = ""
    for lower, upper, path in ends:
        if reach is not None and lower < reach:
            overlapping |= {path, holder}
        if reach is None or upper > reach:
            reach, holder = upper, path
    return overlapping


def _changes(rows: pa.Table, names: list[str]) -> Numbers:
    """Returns the row numbers at which the partition changes. The rows are grouped by partition."""
    changed = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in names:
        column = rows.column(name).combine_chunks().dictionary_encode("encode")
        codes = column.indices.to_numpy(zero_copy_only=False)
        changed[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changed)


def _cuts(changes: Numbers, count: int) -> list[tuple[int, int]]:
    """Returns the row ranges of the manifests.

    Cuts are between partitions if the range is large enough.
    """
    cuts = []
    begin = 0
    while begin < count:
        end = min(begin + MOST_ENTRIES, count)
        if end < count:
            at = int(np.searchsorted(changes, end, side="right")) - 1
            if at >= 0 and changes[at] - begin >= MOST_ENTRIES // 2:
                end = int(changes[at])
        cuts.append((begin, end))
        begin = end
    return cuts


def _partitions(rows: pa.Table, layout: Layout, spec_id: int) -> list[tuple[Any, ...]]:
    """Returns the distinct partitions of the rows, as Iceberg's in-memory values."""
    fields = layout.partitions[spec_id]
    if not fields:
        return []
    names = [f"p{number}" for number, _ in fields]
    unique = rows.select(names).group_by(names).aggregate([]).to_pylist()
    kinds = [kind for _, kind in fields]
    return [tuple(map(plan_index.python_value, row.values(), kinds)) for row in unique]
