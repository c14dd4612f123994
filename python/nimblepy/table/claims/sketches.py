"""Sketches of a snapshot's columns: from the last analysis, updated with rows added since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nimblepy.io.lru_cache import LruCache
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import Path
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, Snapshot
from nimblepy.table.base.sketch import Sketch
from nimblepy.table.changing.row_commit import KEEPS_KEYS
from nimblepy.table.reading.members import Reading, SomeRows, member_of
from nimblepy.table.upkeep.analyze import look

# A sketch is not updated if more rows than this were added since the analysis.
MOST_ADDED = 2_000_000
# Number of sketches, of 32 KiB each, that a process caches.
_KEPT = 512


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A sketch that includes all values of a column.

    Attributes:
        superset: whether rows were deleted since the analysis. If so, it may include values that no
            row has.
        live: a sketch of values that live rows certainly have; ``None`` if this is ``sketch``.
    """

    sketch: Sketch
    superset: bool
    live: Sketch | None = None


@dataclass(frozen=True, slots=True)
class NoSketch:
    """The reason why a column has no sketch."""

    reason: str


_kept: LruCache[Grown] = LruCache(_KEPT)
_stored: LruCache[dict[int, tuple[int, Sketch]]] = LruCache(16)


class Sketches:
    """The sketches of a snapshot, read and updated on demand.

    Attributes:
        rows_read: number of rows that were read to update sketches.
    """

    def __init__(
        self,
        metadata: ice.Metadata,
        snapshot: Snapshot | None,
        schema_id: int,
        reading: Reading,
    ) -> None:
        self._metadata = metadata
        self._snapshot = snapshot
        self._schema_id = schema_id
        self._reading = reading
        self._answers: dict[int, Grown | NoSketch] = {}
        self.rows_read = 0

    def get(self, number: int) -> Grown | NoSketch:
        """Returns the sketch of a column, or the reason why it has none."""
        if number not in self._answers:
            self.prepare([number])
        return self._answers[number]

    def prepare(self, numbers: Collection[int]) -> None:
        """Prepares the sketches of several columns together, so that new rows are read once."""
        waiting = [number for number in numbers if number not in self._answers]
        if not waiting:
            return
        if self._snapshot is None:
            self._answers |= {n: Grown(Sketch(), superset=False) for n in waiting}
            return
        stored = self._read_stored()
        by_base: dict[int, dict[int, Grown]] = {}
        for number in waiting:
            base = self._base(number, stored)
            if isinstance(base, NoSketch):
                self._answers[number] = base
            else:
                by_base.setdefault(base[0], {})[number] = base[1]
        for base_id, sketches in by_base.items():
            self._answers |= self._grown(base_id, sketches)

    def _read_stored(self) -> dict[int, tuple[int, Sketch]]:
        """Returns the analyzed snapshot and the sketch of each column, by field id."""
        assert self._snapshot is not None
        key = self._metadata.metadata_file, self._snapshot.id, self._schema_id
        stored = _stored.get(key)
        if stored is None:
            stored = {}
            kinds = self._metadata.leaf_types(self._schema_id)
            for blob in ice.read_sketches(self._metadata, self._snapshot):
                number = blob.fields[0]
                try:
                    sketch = Sketch.from_bytes(blob.payload)
                except ValueError:
                    continue  # damaged, or in a newer format
                stored[number] = blob.snapshot, sketch.with_one_zero(kinds.get(number, pa.null()))
            _stored.put(key, stored)
        return stored

    def _base(
        self, number: int, stored: Mapping[int, tuple[int, Sketch]]
    ) -> tuple[int, Grown] | NoSketch:
        """Returns the nearest ancestor with a sketch of a column, and the sketch."""
        analyzed = stored.get(number)
        if analyzed is None:
            return NoSketch("the column was not analyzed: t.analyze() does it")
        then = self._metadata.snapshot(analyzed[0])
        if then is not None and then.schema_id is not None:
            before = self._metadata.leaf_types(then.schema_id).get(number)
            if before != self._metadata.leaf_types(self._schema_id).get(number):
                return NoSketch("the type was changed since the column was analyzed")
        for snapshot in self._metadata.ancestors(self._snapshot):
            if snapshot.id == analyzed[0]:
                return snapshot.id, Grown(analyzed[1], superset=False)
            kept = _kept.get(self._key(snapshot.id, number, analyzed[0]))
            if kept is not None:
                return snapshot.id, kept
        return NoSketch("the snapshot that was analyzed has expired: t.analyze() renews it")

    def _key(self, snapshot: int, number: int, analyzed: int) -> tuple[Any, ...]:
        kind = str(self._metadata.leaf_types(self._schema_id).get(number))
        return self._metadata.uuid, snapshot, number, analyzed, kind

    def _grown(self, base_id: int, sketches: Mapping[int, Grown]) -> Mapping[int, Grown | NoSketch]:
        assert self._snapshot is not None
        if base_id == self._snapshot.id:
            return sketches
        files: list[DataFile] = []
        newest_files: list[DataFile] = []  # of the last commit: none of their rows is deleted
        lost_rows = lost_keys = before_newest = False
        for snapshot in self._metadata.ancestors(self._snapshot):
            if snapshot.id == base_id:
                break
            if snapshot.operation == "replace":
                continue
            try:
                added, removed = self._metadata.added_and_removed(snapshot)
            except FileNotFoundError:
                return dict.fromkeys(sketches, NoSketch("the history of its rows has expired"))
            is_newest, before_newest = not before_newest and _is_ours(snapshot), True
            data_files = [entry.file for entry in added if entry.file.content == "data"]
            (newest_files if is_newest else files).extend(data_files)
            only_added = not removed and all(entry.file.content == "data" for entry in added)
            lost_rows |= not only_added
            lost_keys |= not only_added and not _keeps_keys(snapshot)
        rows = sum(file.rows for file in (*files, *newest_files))
        if rows > MOST_ADDED:
            reason = f"{rows:,} rows were added since the column was analyzed: t.analyze()"
            return dict.fromkeys(sketches, NoSketch(reason))
        try:
            older = self._look(files, list(sketches))
            live = self._look(newest_files, list(sketches))
        except FileNotFoundError:
            reason = "files that were added since the column was analyzed are gone: t.analyze()"
            return dict.fromkeys(sketches, NoSketch(reason))
        keys = self._key_ids()
        grown: dict[int, Grown | NoSketch] = {}
        for number, old in sketches.items():
            lost = lost_keys if number in keys else lost_rows
            merged = Sketch.merged([old.sketch, older[number], live[number]])
            superset = old.superset or lost
            made = Grown(merged, superset, live[number] if superset else None)
            analyzed = self._read_stored()[number][0]
            _kept.put(self._key(self._snapshot.id, number, analyzed), made)
            grown[number] = made
        return grown

    def _look(self, files: list[DataFile], numbers: list[int]) -> dict[int, Sketch]:
        """Returns the sketches of the rows in some files, including deleted rows."""
        if not files:
            return {number: Sketch() for number in numbers}
        schema = self._reading.schema
        paths: dict[int, Path] = {field_id_at(schema, path): path for path in column_paths(schema)}
        rows = SomeRows(self._reading, [member_of(file) for file in files])
        sketches, count = look(rows, [paths[number] for number in numbers])
        self.rows_read += count
        kinds = self._metadata.leaf_types(self._schema_id)
        return {n: s.with_one_zero(kinds[n]) for n, s in zip(numbers, sketches, strict=True)}

    def _key_ids(self) -> set[int]:
        schema = self._metadata.ice_schema(self._schema_id)
        return set(schema.identifier_field_ids)


def _is_ours(snapshot: Snapshot) -> bool:
    return snapshot.summary.get("engine-name") == "nimblepy"


def _keeps_keys(snapshot: Snapshot) -> bool:
    """Returns whether a nimblepy commit only added rows, or replaced rows of the same keys."""
    return _is_ours(snapshot) and KEEPS_KEYS.items() <= snapshot.summary.items()
