"""Maps by field id, one per file, stored as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.table.iceberg.avro import Reader, Source, map_items, reader_of, without_null

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Maps:
    """Maps from field ids to counts or bounds, one for each file."""

    def __init__(self, counts: _Numbers, keys: _Numbers, values: pa.Array) -> None:
        """Makes maps.

        Args:
            counts: number of items of each file's map.
            keys, values: all items, file by file.
        """
        self._counts = counts
        self._keys = keys
        self._values = values
        self._columns: dict[int, pa.Array] = {}

    @classmethod
    def from_dicts(cls, maps: Sequence[Mapping[int, Any] | None], kind: pa.DataType) -> Maps:
        """Converts one dict per file."""
        whole = [item or {} for item in maps]
        counts = np.array([len(item) for item in whole], dtype=np.int64)
        keys = np.array([key for item in whole for key in item], dtype=np.int64)
        return cls(counts, keys, pa.array([v for item in whole for v in item.values()], kind))

    @property
    def num_bytes(self) -> int:
        """Bytes in memory, including the columns of all keys."""
        return 2 * (8 * len(self._counts) + self._keys.nbytes + int(self._values.nbytes))

    @cached_property
    def numbers(self) -> frozenset[int]:
        """All keys of the maps."""
        keys = self._keys[: self._width] if self._width else np.unique(self._keys)
        return frozenset(keys.tolist())

    @cached_property
    def _width(self) -> int:
        """Number of keys per file, if all files have the same keys in the same order; otherwise
        ``None``.
        """
        if not len(self._counts) or not len(self._keys) or (self._counts != self._counts[0]).any():
            return 0
        table = self._keys.reshape(len(self._counts), -1)
        return table.shape[1] if (table == table[0]).all() else 0

    @cached_property
    def _by_key(self) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Items ordered by key, then by file; their keys; and the file of each item."""
        order = np.argsort(self._keys, kind="stable")
        files = np.repeat(np.arange(len(self._counts)), self._counts)
        return order, self._keys[order], files

    def column(self, number: int) -> pa.Array | None:
        """Returns the value of each file for one key, null in files without the key.

        ``None`` if all files are without it.
        """
        if number not in self._columns and number in self.numbers:
            if self._width:
                place = self._keys[: self._width].tolist().index(number)
                at = np.arange(place, len(self._keys), self._width)
                self._columns[number] = self._values.take(pa.array(at))
                return self._columns[number]
            order, keys, files = self._by_key
            first, last = np.searchsorted(keys, [number, number + 1])
            places = order[first:last]
            at = np.full(len(self._counts), -1, dtype=np.int64)
            at[files[places]] = places
            self._columns[number] = self._values.take(pa.array(at, mask=at < 0))
        return self._columns.get(number)

    @cached_property
    def _ends(self) -> _Numbers:
        ends: _Numbers = np.cumsum(self._counts)
        return ends

    def of(self, file: int) -> dict[int, Any]:
        """Returns the map of one file."""
        end = int(self._ends[file])
        begin = end - int(self._counts[file])
        keys = self._keys[begin:end].tolist()
        return dict(zip(keys, self._values.slice(begin, end - begin).to_pylist(), strict=True))

    def filter(self, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> Maps:
        """Returns the maps of some files."""
        items = np.repeat(keep, self._counts)
        return Maps(self._counts[keep], self._keys[items], self._values.filter(pa.array(items)))


class MapsReader:
    """Reads maps of consecutive Avro files into columns."""

    def __init__(self, kind: pa.DataType) -> None:
        """Makes a reader.

        Args:
            kind: type of the values, int64 or binary.
        """
        self._kind = kind
        self._counts: list[int] = []
        self._keys: list[int] = []
        self._values: list[Any] = []
        self._numbers: list[int] = []  # keys and values alternate if both are numbers

    def reader_of(self, schema: Any, source: Source) -> tuple[Reader, Callable[[Any], None]]:
        """Returns a function that reads a map, and a function that receives its result."""
        kinds = map_items(without_null(schema))
        if _is_counts(kinds) and pa.types.is_integer(self._kind):
            numbers, ints = self._numbers, source.ints
            read = _blocks(schema, source, lambda count: numbers.extend(ints(2 * count)))
            return read, self._counts.append
        if kinds == ["int", "bytes"] and pa.types.is_binary(self._kind):
            keys, values, pairs_into = self._keys, self._values, source.pairs_into
            read = _blocks(schema, source, lambda count: pairs_into(count, keys, values))
            return read, self._counts.append
        return reader_of(schema, source), self._end

    def _end(self, value: Any) -> None:
        entries = value or {}
        if not isinstance(entries, dict):
            raise ValueError(f"expected a map, got {entries!r}")
        self._counts.append(len(entries))
        self._keys += entries
        self._values += entries.values()

    def result(self, count: int) -> Maps:
        """Returns the maps of ``count`` files; empty if no map was read."""
        counts = np.array(self._counts or [0] * count, dtype=np.int64)
        if self._numbers:
            numbers = np.array(self._numbers, dtype=np.int64)
            keys, values = numbers[::2], pa.array(numbers[1::2])
        else:
            keys = np.array(self._keys, dtype=np.int64)
            values = pa.array(self._values, self._kind)
        if not len(counts) == count or not counts.sum() == len(keys) == len(values):
            raise ValueError(f"{len(keys)} items in {len(counts)} maps of {count} files")
        return Maps(counts, keys, values)


def skipper_of(schema: Any, source: Source) -> Reader:
    """Returns a function that skips a value."""
    if _is_counts(map_items(without_null(schema))):
        ints = source.ints
        return _blocks(schema, source, lambda count: ints(2 * count))
    return reader_of(schema, source)


def _is_counts(kinds: list[Any] | None) -> bool:
    return kinds in (["int", "long"], ["int", "int"])


def _blocks(schema: Any, source: Source, read: Callable[[int], object]) -> Reader:
    """Reads the blocks of an optional map, and returns the number of items.

    Args:
        read: reads a number of items, and checks the number.
    """
    read_int, checked = source.read_int, source.count

    def blocks() -> int:
        total = 0
        while count := read_int():
            if count < 0:
                count = checked(count)
            read(count)
            total += count
        return total

    if not isinstance(schema, list):
        return blocks
    there = next(i for i, item in enumerate(schema) if item != "null")
    null = schema.index("null") if "null" in schema else None

    def optional() -> int:
        branch = read_int()
        if branch == there:
            return blocks()
        if branch != null:
            raise ValueError(f"union branch {branch}, expected 0 to {len(schema) - 1}")
        return 0

    return optional
