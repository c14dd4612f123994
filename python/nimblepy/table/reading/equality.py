"""Applies equality deletes, which other engines write: rows whose columns have certain values.

An equality delete file has a row for each deleted key. It applies to data files with a smaller
sequence number. Here each file is turned into row numbers, so that everything else handles
equality deletes like position deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import CorruptFileError
from nimblepy.file.open import open_source
from nimblepy.files.mapped import MappedRows
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.io.lru_cache import LruCache
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rowset import RowNumbers, RowSet, ascending_once
from nimblepy.rows.source import RowSource
from nimblepy.schema.columns import key_name, resolve_column
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.names import Path, output_name
from nimblepy.schema.plain import plain_array
from nimblepy.schema.types import SortKey
from nimblepy.table.base.model import DataFile, PartitionField
from nimblepy.table.base.places import readable_path

# Bytes of keys of delete files that a process caches.
_KEPT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that equality deletes compare.

    Attributes:
        schema: top-level columns with only these columns in them, with field ids.
        ids: field ids of the columns.
        defaults: values of columns that a file does not have, by field id.
    """

    schema: pa.Schema
    ids: tuple[int, ...]
    defaults: dict[int, pa.Scalar] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """The paths of the columns, in the order of ``ids``."""
        paths = dict(_leaves((), list(self.schema)))
        return [paths[number] for number in self.ids]

    @property
    def sort_keys(self) -> tuple[SortKey, ...]:
        columns = (resolve_column(self.schema, path) for path in self.paths)
        return tuple(SortKey(key_name(self.schema, column)) for column in columns)


def _leaves(above: Path, fields: Sequence[pa.Field]) -> list[tuple[int, Path]]:
    """Returns (field id, path) of all columns that are not structs."""
    leaves: list[tuple[int, Path]] = []
    for item in fields:
        path = (*above, item.name)
        if pt.is_struct(item.type):
            inner = [item.type.field(i) for i in range(item.type.num_fields)]
            leaves += _leaves(path, inner)
        elif (number := field_id_of(item)) is not None:
            leaves.append((number, path))
    return leaves


# Returns the columns with these field ids, even if they were renamed or dropped.
FindColumns = Callable[[tuple[int, ...]], KeyColumns]


def no_columns(ids: tuple[int, ...]) -> KeyColumns:
    """The columns of rows that are in no table, and so have no equality deletes."""
    raise AssertionError(f"equality deletes of the fields {ids}")


def is_global(spec: Sequence[PartitionField]) -> bool:
    """Returns whether equality deletes of a partition spec apply to all partitions."""
    return all(item.transform == "void" for item in spec)


def partition_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns partition values for comparisons: NaN equals NaN, and 0.0 does not equal -0.0."""
    return tuple(value.hex() if isinstance(value, float) else value for value in values)


# Keys of delete files, by path and columns.
_keys: LruCache[pa.Table] = LruCache(_KEPT_BYTES, lambda keys: keys.nbytes + 1)


def forget_keys() -> None:
    """Clears the cache of delete files."""
    _keys.clear()


def keys_of(file: DataFile, columns: KeyColumns, names: dict[tuple[str, ...], int]) -> pa.Table:
    """Returns the keys in an equality delete file.

    Args:
        names: field ids by path, for files without field ids.

    Cost: a process reads the file once.
    """
    cached = (file.path, columns.ids, str(columns.schema))
    keys = _keys.get(cached)
    if keys is None:
        keys = _read(file, columns, names)
        _keys.put(cached, keys)
    return keys


def verify_keys(file: DataFile, columns: KeyColumns, names: dict[tuple[str, ...], int]) -> pa.Table:
    """Checks an equality delete file in storage, and returns its keys. Uses no cache."""
    path = readable_path(file.path)
    if file.format == "NIMBLEPY":
        with SourceHandle(open_source(path)) as source:
            source.verify()
    return _read(file, columns, names)


def _read(file: DataFile, columns: KeyColumns, names: dict[tuple[str, ...], int]) -> pa.Table:
    path = readable_path(file.path)
    source = open_source(path) if file.format == "NIMBLEPY" else ParquetRows(path)

    def missing(column: pa.Field, place: str) -> pa.Scalar:
        raise CorruptFileError(
            f"{path}: an equality delete file needs {place} (field id {field_id_of(column)}), "
            "which its manifest names"
        )

    with SourceHandle(source):
        have = source.schema
        if names and not has_field_ids(have):
            have = with_field_ids(have, names)
        mapped = MappedRows(source, columns.schema, (), missing, have)
        keys = mapped.read(mapped.all_rows(), tuple(columns.paths))
    if keys.num_rows != file.rows:
        raise CorruptFileError(
            f"{path}: {keys.num_rows} deletes, but the table's metadata says {file.rows}; the "
            "file is damaged"
        )
    return keys


def rows_with_keys(rows: RowSource, columns: KeyColumns, keys: pa.Table) -> RowNumbers:
    """Returns the rows of a data file that have one of the keys, ascending.

    As in Iceberg's own library, null equals null, NaN equals NaN, and 0.0 does not equal -0.0.

    Args:
        rows: the columns of the data file, as ``columns`` describes them.

    Cost: a lookup of the keys if the file has an index on the columns. Otherwise reads the columns.
    """
    if not keys.num_rows or not rows.num_rows:
        return np.empty(0, dtype=np.uint64)
    keys = _without_duplicates(keys)
    names = [key.column for key in columns.sort_keys]
    request = rows.keys_request(
        keys.rename_columns([output_name(name) for name in names]), names, null_equals=True
    )
    matches = rows.find(request).expand()
    found, probe = matches.begin, matches.probe
    assert probe is not None
    for i, path in enumerate(columns.paths):
        wanted = keys.column(i).combine_chunks()
        if not len(found) or not pt.is_floating(wanted.type):
            continue
        # Keys compare 0.0 and -0.0 as equal.
        order, back = np.unique(found, return_inverse=True)
        stored = rows.read(RowSet(order), (path,)).column(0).combine_chunks()
        same = _signs(stored)[back] == _signs(wanted)[probe]
        found, probe = found[same], probe[same]
    return ascending_once(found)


def _without_duplicates(keys: pa.Table) -> pa.Table:
    """Returns each key once. Keeps 0.0 and -0.0 apart."""
    plain: dict[str, Any] = {"row": np.arange(keys.num_rows)}
    for i, column in enumerate(keys.columns):
        values = plain_array(column.combine_chunks())
        if pt.is_floating(values.type):
            plain[f"sign {i}"] = _signs(values)
        plain[str(i)] = values
    table = pa.table(plain)
    once = table.group_by(table.column_names[1:]).aggregate([("row", "min")])
    return keys.take(pa.array(np.sort(once.column("row_min").to_numpy())))


def _signs(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which values are -0.0."""
    plain: np.ndarray[Any, Any] = pc.fill_null(values, 1.0).to_numpy(zero_copy_only=False)
    negative: np.ndarray[Any, np.dtype[np.bool_]] = np.signbit(plain) & (plain == 0)
    return negative
