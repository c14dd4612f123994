"""Finds the files that can contain a key, using the first and the last key of each file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import successor

# Number of files per block. The running maximum of the last keys is computed per block, because it
# is slow to compute for a million files.
_BLOCK = 1024

Indices = np.ndarray[Any, np.dtype[np.int64]]


class EncodedKeys:
    """Keys, or their first columns, as byte strings that compare like the keys."""

    def __init__(self, batch: pa.RecordBatch, keys: Sequence[SortKey]) -> None:
        """
        Args:
            batch: values of the first columns of ``keys``, in the order of ``keys``.
        """
        orders = [(key.descending, key.nulls_first) for key in keys[: batch.num_columns]]
        self._bytes, offsets = _core.encode_keys(batch, orders)
        self._offsets = offsets.astype(np.int64)
        widths = np.diff(self._offsets)
        self.width = int(widths[0]) if len(widths) and (widths == widths[0]).all() else 0

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def fixed(self) -> np.ndarray[Any, Any]:
        """Returns the keys as numpy byte strings. REQUIRES: all keys have the same width."""
        return self._bytes.view(f"S{self.width}")

    def to_array(self) -> pa.BinaryArray:
        offsets = pa.py_buffer(self._offsets.astype(np.int32))
        return pa.Array.from_buffers(
            pa.binary(), len(self), [None, offsets, pa.py_buffer(self._bytes)]
        )

    def same_as_next(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Returns whether each key except the last equals the next.

        NaN equals NaN, and 0.0 equals -0.0.
        """
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._bytes)]
        keys = pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
        same: np.ndarray[Any, np.dtype[np.bool_]] = np.array(pc.equal(keys[:-1], keys[1:]))
        return same

    def to_list(self) -> list[bytes]:
        raw = self._bytes.tobytes()
        at = self._offsets.tolist()
        return [raw[begin:end] for begin, end in pairwise(at)]


class FileBounds:
    """First and last keys of files, sorted by first key.

    Attributes:
        disjoint: whether every file's last key precedes the next file's first key. Then no key is
            in two files.
    """

    def __init__(self, lower: pa.BinaryArray, upper: pa.BinaryArray) -> None:
        self._arrays = (lower, upper)
        self._count = len(lower)
        self._width = _common_width(lower, upper)
        self._cut: dict[int, tuple[Any, Any, Any]] = {}
        if self._width:
            first, last = _fixed(lower, self._width), _fixed(upper, self._width)
            self.disjoint = bool((last[:-1] < first[1:]).all())
        else:
            pairs = zip(self._upper, self._lower[1:], strict=False)
            self.disjoint = all(before < after for before, after in pairs)

    @property
    def keys(self) -> tuple[pa.BinaryArray, pa.BinaryArray]:
        """The first and the last key of each file."""
        return self._arrays

    def take(self, files: Sequence[int]) -> FileBounds:
        """Returns the bounds of the given files. ``files`` must be ascending."""
        at = pa.array(files, pa.int64())
        return FileBounds(self._arrays[0].take(at), self._arrays[1].take(at))

    @cached_property
    def core(self) -> _core.KeyBounds:
        """The bounds as an object of the core."""
        lower, upper = self._arrays
        return _core.KeyBounds(pa.RecordBatch.from_arrays([lower, upper], ["lower", "upper"]))

    @cached_property
    def _lower(self) -> list[bytes]:
        return list(self._arrays[0].to_pylist())

    @cached_property
    def _upper(self) -> list[bytes]:
        return list(self._arrays[1].to_pylist())

    @cached_property
    def _reach(self) -> list[bytes]:
        """The running maximum of the last keys. It is ascending, so it can be bisected."""
        return self._upper if self.disjoint else list(accumulate(self._upper, max))

    def candidates(self, low: EncodedKeys, high: EncodedKeys) -> tuple[Indices, Indices]:
        """Returns the files that can contain a key from ``low`` to ``high``, inclusive.

        Args:
            low, high: the ends of each range; a shorter key stands for all keys with that prefix.

        Returns:
            The ranges and the files of all (range, file) pairs, ordered by file, then by range.
        """
        if not self._count or not len(low):
            none = np.empty(0, dtype=np.int64)
            return none, none
        if 0 < low.width <= self._width and 0 < high.width <= self._width:
            first, last = self._fixed_places(low, high)
        else:
            first, last = self._places(low, high)
        counts = np.maximum(last - first, 0)
        ranges = np.repeat(np.arange(len(low), dtype=np.int64), counts)
        within = np.arange(len(ranges), dtype=np.int64) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        files = np.repeat(first, counts) + within
        if not self.disjoint:
            ranges, files = self._reached(ranges, files, low)
        order = np.argsort(files, kind="stable")
        return ranges[order], files[order]

    def between(self, low: bytes | None, high: bytes | None) -> range:
        """Returns a range of files that includes all files with keys from ``low`` to ``high``.

        ``None`` means that the range of keys has no limit on that side.
        """
        first = 0 if low is None else self._first(low)
        last = self._count if high is None else self._end(high)
        return range(first, max(first, last))

    def _first(self, low: bytes) -> int:
        """Returns the first file that can contain ``low`` or a greater key."""
        return bisect_left(self._reach, low)

    def _end(self, high: bytes) -> int:
        """Returns the end (exclusive) of the files that can contain ``high`` or a smaller key.

        Keys that begin with ``high`` count as equal to it.
        """
        after = successor(high)
        return self._count if after is None else bisect_left(self._lower, after)

    def _fixed_places(self, low: EncodedKeys, high: EncodedKeys) -> tuple[Indices, Indices]:
        _, reach, _ = self._cut_to(low.width)
        lower, _, _ = self._cut_to(high.width)
        first = np.searchsorted(reach, low.fixed(), side="left")
        if not self.disjoint:
            first *= _BLOCK  # the block may include files that end before the key
        last = np.searchsorted(lower, high.fixed(), side="right")
        return first.astype(np.int64), last.astype(np.int64)

    def _cut_to(self, width: int) -> tuple[Any, Any, Any]:
        """Returns the first keys, the running maxima and the last keys, truncated to ``width``.

        A requested key that is shorter than the bounds stands for all keys that begin with it. If
        files overlap, there is one running maximum per block of files.
        """
        truncated = self._cut.get(width)
        if truncated is None:
            lower, upper = (_fixed(array, self._width) for array in self._arrays)
            reach = upper
            if not self.disjoint:
                last = self._arrays[1]
                ends = [pc.max(last.slice(i, _BLOCK)).as_py() for i in range(0, len(last), _BLOCK)]
                reach = np.array(list(accumulate(ends, max)), dtype=upper.dtype)
            truncated = self._cut[width] = (
                _cut(lower, width),
                _cut(reach, width),
                _cut(upper, width),
            )
        return truncated

    def _places(self, low: EncodedKeys, high: EncodedKeys) -> tuple[Indices, Indices]:
        first = [self._first(key) for key in low.to_list()]
        last = [self._end(key) for key in high.to_list()]
        return np.array(first, dtype=np.int64), np.array(last, dtype=np.int64)

    def _reached(
        self, ranges: Indices, files: Indices, low: EncodedKeys
    ) -> tuple[Indices, Indices]:
        """Removes pairs whose file ends before the range begins.

        With overlapping files, such a file may follow a file that ends later.
        """
        if 0 < low.width <= self._width:
            keep = self._cut_to(low.width)[2][files] >= low.fixed()[ranges]
        else:
            keys = low.to_list()
            pairs = zip(ranges.tolist(), files.tolist(), strict=True)
            keep = np.array([self._upper[f] >= keys[r] for r, f in pairs], dtype=np.bool_)
        return ranges[keep], files[keep]


def _common_width(*arrays: pa.BinaryArray) -> int:
    """Returns the width in bytes of all keys; 0 if their widths differ."""
    widths = pc.min_max(pc.binary_length(pa.chunked_array(arrays)))
    least, most = widths["min"].as_py(), widths["max"].as_py()
    return least if least is not None and least == most else 0


def _fixed(array: pa.BinaryArray, width: int) -> np.ndarray[Any, Any]:
    data = array.buffers()[2]
    return np.frombuffer(data, f"S{width}", count=len(array), offset=array.offset * width)


def _cut(keys: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    if keys.dtype.itemsize == width:
        return keys
    raw = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)
    return np.ascontiguousarray(raw[:, :width]).view(f"S{width}").reshape(-1)
