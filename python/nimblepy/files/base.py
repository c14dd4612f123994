"""What a dataset says of itself, and how its rows are fetched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.directory import open_in
from nimblepy.files.manifest import Manifest, read_manifest
from nimblepy.files.open_files import OpenFiles
from nimblepy.rows.closing import Scoped
from nimblepy.rows.gather import gather_array
from nimblepy.rows.plan import Plan
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey

Rows = np.ndarray[Any, np.dtype[np.uint64]]


class DatasetBase(Scoped):
    """A manifest and the files of it that are open."""

    def __init__(
        self,
        directory: str,
        manifest: Manifest,
        filesystem: Any,
        options: dict[str, Any],
        *,
        source: Any,
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._remote = filesystem
        self._options = options
        self._source = source
        self._keys = manifest.cluster_by
        self._key_types = tuple(resolve_column(manifest.schema, k.column).type for k in self._keys)

        def open_file(name: str) -> File:
            return open_in(
                directory,
                name,
                filesystem,
                mmap=options["mmap"],
                cache_bytes=options["cache_bytes"],
            )

        self._open_files = OpenFiles(open_file, options["max_open_files"])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of every file."""
        return self._manifest.schema

    @property
    def num_rows(self) -> int:
        return int(self._manifest.first_rows[-1])

    @property
    def num_files(self) -> int:
        return self._manifest.num_files

    @property
    def size_bytes(self) -> int:
        """Of all data files."""
        return int(self._manifest.table.column("size_bytes").to_numpy().sum())

    @property
    def files(self) -> list[str]:
        """Paths of the data files relative to the directory, by first key."""
        return list(self._manifest.names)

    @property
    def version(self) -> int:
        """Version of the manifest; 0 where there is none."""
        return self._manifest.version

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key of every file, empty where they have none."""
        return list(self._keys)

    def take(self, rows: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their number over all files, in the given order, repeats included."""
        array = np.asarray(rows)
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise InvalidArgumentError(
                f"rows: expected integers in one dimension, got {array.dtype}"
            )
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self.num_rows:
            raise InvalidArgumentError(f"rows: not all in a dataset of {self.num_rows} rows")
        return self._take(array.astype(np.uint64), columns)

    def close(self) -> None:
        """Closes all files; they open again when they are asked for."""
        self._open_files.clear()

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        key = f", cluster by {', '.join(map(str, self._keys))}" if self._keys else ""
        return (
            f"<nimblepy.Dataset {self._directory!r}: {self.num_files:,} files, "
            f"{self.num_rows:,} rows, {len(self.schema)} columns{key}>"
        )

    # ------------------------------------------------------------------ rows

    def _file(self, index: int) -> File:
        entry = self._manifest.entry(index)
        return self._open_files.get(entry.file, entry.identity)

    @cached_property
    def _statistics(self) -> pa.ChunkedArray | None:
        """Of every file; ``None`` where the manifest has none. Read when first asked for."""
        if not self.version:
            return None
        with_them = read_manifest(self._directory, self.version, self._remote, statistics=True)
        table = with_them.table
        return table.column("statistics") if "statistics" in table.column_names else None

    def _first_row(self, index: int) -> int:
        return int(self._manifest.first_rows[index])

    def _take(self, rows: Rows, columns: Sequence[str] | None) -> pa.Table:
        """Rows by their number over all files."""
        if columns is not None and not columns:
            empty = pa.StructArray.from_buffers(pa.struct([]), len(rows), [None])
            return pa.Table.from_batches([pa.RecordBatch.from_struct_array(empty)])
        if not len(rows):
            return self._joined([], columns)
        files = np.searchsorted(self._manifest.first_rows, rows.astype(np.int64), side="right") - 1
        order = np.argsort(files, kind="stable")
        sorted_files = files[order]
        cuts = np.flatnonzero(np.diff(sorted_files)) + 1
        tables = []
        for mine in np.split(order, cuts):
            index = int(files[mine[0]])
            local = rows[mine] - np.uint64(self._first_row(index))
            tables.append(self._file(index)._take(local, columns))
        table = self._joined(tables, columns)
        if (np.diff(order) == 1).all():
            return table
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order), dtype=np.int64)
        positions = pa.array(back)
        arrays = [gather_array(column.combine_chunks(), positions) for column in table.columns]
        return pa.Table.from_arrays(arrays, schema=table.schema)

    def _joined(self, tables: list[pa.Table], columns: Sequence[str] | None) -> pa.Table:
        if tables:
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if columns is None:
            return self.schema.empty_table()
        found = [resolve_column(self.schema, name) for name in columns]
        fields = [
            self.schema.field(c.path[0]) if len(c.path) == 1 else pa.field(n, c.type)
            for n, c in zip(columns, found, strict=True)
        ]
        return pa.schema(fields).empty_table()

    def _plan(self, text: str, files: list[int], plans: list[Plan]) -> Plan:
        index = plans[0].index if plans else None
        return Plan(
            text=f"{text} in a dataset",
            details=(("files", self.num_files), ("files opened", len(files))),
            children=tuple(plans),
            reads=sum(plan.reads for plan in plans),
            bytes=sum(plan.bytes for plan in plans),
            index=index,
        )
