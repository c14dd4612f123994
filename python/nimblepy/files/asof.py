"""As-of searches in many files, and in sources without a suitable index."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.file.open import open_source
from nimblepy.file.source import FileSource
from nimblepy.file.write import Writer
from nimblepy.files.bounds import EncodedKeys
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import AsofIndex
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.key_values import key_array
from nimblepy.schema.types import SortKey

_BATCH_ROWS = 1 << 16
# The type of a column, and its minimum and maximum in each file.
ValueEnds: TypeAlias = tuple[pa.DataType, Positions, Positions]


class SortedCopy:
    """Copies the searched columns of a source to a sorted temporary file with an index.

    Args:
        order: the sort keys of the copy.
        deleted: rows that are not copied.
    """

    def __init__(
        self,
        source: RowSource,
        keys: AsofKeys,
        order: Sequence[SortKey],
        deleted: _core.RowBitmap | None,
    ) -> None:
        names = keys.columns if keys.known is None else (*keys.columns, keys.known)
        self.names = tuple(dict.fromkeys(names))
        self.deleted = deleted
        live = source.all_rows()
        if deleted is not None:
            live = live.minus(deleted)
        # A column may have the name of the row numbers ("row"), so all columns are renamed.
        self._renamed = {name: str(i) for i, name in enumerate(self.names)}
        types = [field.type for field in source.projected(self.names)]
        fields = [*zip(self._renamed.values(), types, strict=True), ("row", pa.uint64())]
        schema = pa.schema(fields)
        cluster_by = [replace(key, column=self._renamed[key.column]) for key in order]
        descriptor, path = tempfile.mkstemp(suffix=".nimble", prefix="asof-")
        os.close(descriptor)
        try:
            with Writer(path, schema, cluster_by=cluster_by) as writer:
                for at in range(0, live.num_rows, _BATCH_ROWS):
                    part = live.slice(at, at + _BATCH_ROWS)
                    columns = source.read(part, self.names).columns
                    writer.write(pa.table([*columns, pa.array(part.rows)], schema=schema))
            self._file: FileSource = open_source(path)
        finally:
            os.unlink(path)

    def find_asof(self, keys: AsofKeys) -> RowSet:
        """Returns the matching rows, as row numbers of the source."""
        matches = self._file.find_asof(keys.renamed(self._renamed))
        rows = self._file.read(matches, ("row",)).column(0).to_numpy()
        return RowSet(rows, None, matches.probe, len(keys))


class FilesSearch:
    """Finds the best row of each key in many files.

    Args:
        order: the sort keys of the index that most files have.
    """

    def __init__(self, keys: AsofKeys, order: Sequence[SortKey]) -> None:
        self._keys = keys
        self._order = tuple(order)
        self._search = keys.search(order)
        self._bounds: _core.KeyBounds | None = None
        self._ends: _core.KeyBounds | None = None

    def files(self, bounds: _core.KeyBounds, ends: ValueEnds | None) -> list[int]:
        """Returns the files that may contain a row for one of the keys.

        Files with nearer rows precede files with more distant rows.

        Args:
            bounds: the first and last key of each file.
            ends: the minimum and maximum of the as-of column in each file, if known.
        """
        self._bounds = bounds
        if ends is not None:
            self._ends = _encoded_ends(ends, self._order[-1])
        files = self._search.files(bounds, self._ends)
        if ends is not None:
            nearness = -ends[2][files] if self._keys.backward else ends[1][files]
            files = files[np.argsort(nearness, kind="stable")]
        elif self._keys.backward != self._order[-1].descending:
            files = files[::-1]
        return list(files.tolist())

    def wanted(self, file: int) -> Positions:
        """Returns the keys for which this file may contain a better row than earlier files did."""
        return self._search.wanted(file, self._bounds, self._ends)

    def search(
        self,
        file: int,
        source: RowSource,
        wanted: Positions,
        deleted: _core.RowBitmap | None,
        *,
        is_only: bool,
    ) -> None:
        """Searches a file for the keys ``wanted``, and keeps each row that is the best so far."""
        keys = self._keys
        opened = source.compiled(AsofIndex(keys.by, keys.on, keys.known))
        if opened is not None and opened[1] == self._order and self._search.fits(opened[0]):
            self._search.search(file, opened[0], wanted, deleted, opened[2], is_only)
            return
        rows = source.find_asof(keys.take(wanted), deleted)
        if rows.num_rows:
            assert rows.probe is not None
            self._offer(file, wanted[rows.probe], rows, source)

    def offer(self, rows: RowSet, source: RowSource, numbers: Sequence[int]) -> None:
        """Keeps each row that is the best so far.

        Args:
            rows: rows that another search for all keys found in a source of many files.
            numbers: the number of each of these files in this search.
        """
        if not rows.num_rows:
            return
        assert rows.file is not None
        assert rows.probe is not None
        for file in np.unique(rows.file).tolist():
            some = rows.entries(rows.file == file)
            assert some.probe is not None
            self._offer(numbers[file], some.probe, some, source)

    def _offer(self, file: int, probes: Positions, rows: RowSet, source: RowSource) -> None:
        keys = self._keys
        values = source.read(rows, (keys.on,)).column(0).combine_chunks()
        on, _ = key_array(values, keys.at.type)
        batch = pa.RecordBatch.from_arrays([on], ["on"])
        self._search.offer(file, probes, rows.begin, batch)

    def rows(self) -> RowSet:
        """Returns the best row of each key that has one."""
        rows, probes, files = self._search.matches()
        return RowSet(rows, None, probes, len(self._keys), files)


def _encoded_ends(ends: ValueEnds, key: SortKey) -> _core.KeyBounds:
    """Returns the minimum and maximum of each file as encoded keys, in index order."""
    data_type, least, greatest = ends
    encoded = []
    for numbers in (greatest, least) if key.descending else (least, greatest):
        stored = np.dtype(f"int{data_type.bit_width}")
        # Unknown ends are the limits of int64, so clip them to the column's type.
        clipped = np.clip(numbers, np.iinfo(stored).min, np.iinfo(stored).max)
        values = pa.array(clipped.astype(stored)).view(data_type)
        batch = pa.RecordBatch.from_arrays([values], ["on"])
        encoded.append(EncodedKeys(batch, [key]).to_array())
    return _core.KeyBounds(pa.RecordBatch.from_arrays(encoded, ["lower", "upper"]))
