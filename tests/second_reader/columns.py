"""The decoded streams of one stripe, and the Arrow arrays they make: docs/format/streams.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa

from nimblepy.errors import CorruptFileError
from second_reader.arrow_types import storage_type
from second_reader.bits import Array
from second_reader.schema import Node, Plan
from second_reader.values import Strings, Values


@dataclass
class StripeData:
    """The values of each stream (None if it is absent) and the number of rows of each node."""

    plan: Plan
    rows: int
    streams: list[Values | None]
    lengths: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._measure(self.plan.nodes[0], self.rows)

    def array(self, stream: int | None) -> Array:
        """A stream of fixed-width values; empty if the stream is absent."""
        values = None if stream is None else self.streams[stream]
        return np.zeros(0, "<u8") if values is None else cast(Array, values)

    def ends(self, node: Node) -> Array:
        return self.array(node.ends).astype(np.int64)

    def valid(self, node: Node) -> Array | None:
        """A mask of the rows of a node that are not null; None if there are no nulls."""
        values = None if node.validity is None else self.streams[node.validity]
        return None if values is None else cast(Array, values)

    def _measure(self, node: Node, rows: int) -> None:
        """Checks the number of values in the streams of a node and, recursively, its children."""
        self.lengths[node.id] = rows
        self._expect(node, node.validity, rows, may_be_absent=True)
        self._expect(node, node.values, rows)
        if node.layout == "run_end":
            ends = self.ends(node)
            if (np.diff(ends, prepend=0) <= 0).any() or (ends[-1] if len(ends) else 0) != rows:
                raise CorruptFileError(f"column {node.schema.name!r}: run ends {ends[-3:]}")
            return self._measure(node.children[0], len(ends))
        self._expect(node, node.ends, rows)
        if node.layout == "list":
            ends = self.ends(node)
            if (np.diff(ends, prepend=0) < 0).any():
                raise CorruptFileError(f"column {node.schema.name!r}: list ends go down")
            rows = int(ends[-1]) if len(ends) else 0
        elif node.layout == "fixed_list":
            rows *= node.list_size
        elif node.layout == "union":
            return self._measure_union(node, rows)
        for child in node.children:
            self._measure(child, rows)

    def _measure_union(self, node: Node, rows: int) -> None:
        ids, places = self.array(node.values), self.ends(node)
        if not np.isin(ids, node.type_ids).all():
            raise CorruptFileError(f"column {node.schema.name!r}: a type id that no child has")
        for type_id, child in zip(node.type_ids, node.children, strict=True):
            count = int((ids == type_id).sum())
            if node.dense and (places[ids == type_id] != np.arange(count)).any():
                raise CorruptFileError(f"column {node.schema.name!r}: union rows skip some")
            self._measure(child, count if node.dense else rows)

    def _expect(
        self, node: Node, stream: int | None, rows: int, *, may_be_absent: bool = False
    ) -> None:
        if stream is None:
            return
        values = self.streams[stream]
        num_values = 0 if values is None else len(values)
        if num_values != rows and not (may_be_absent and num_values == 0):
            raise CorruptFileError(
                f"column {node.schema.name!r}: stream {stream} has {num_values} values, not {rows}"
            )


def _bitmap(bits: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little").tobytes())


def _buffer(values: Array, dtype: str | None = None) -> pa.Buffer:
    """The values, converted to `dtype` if given. Raises OverflowError if one does not fit."""
    if dtype is not None and len(values):
        if int(values.max()) > np.iinfo(dtype).max:
            raise OverflowError(f"{int(values.max())} does not fit {dtype}")
        values = values.astype(dtype)
    return pa.py_buffer(np.ascontiguousarray(values).tobytes())


def _views(strings: Strings) -> list[pa.Buffer]:
    """View structs of 16 bytes, and the bytes that they point to."""
    lengths, starts = np.diff(strings.offsets), strings.offsets[:-1]
    views = np.zeros((len(strings), 16), np.uint8)
    views[:, :4] = lengths.astype("<i4")[:, None].view(np.uint8)
    padded = np.concatenate([strings.data, np.zeros(12, np.uint8)])
    head = padded[starts[:, None] + np.arange(12)]
    inline = lengths <= 12
    head[np.arange(12) >= lengths[:, None]] = 0
    views[inline, 4:] = head[inline]
    views[~inline, 4:8] = head[~inline, :4]
    views[~inline, 12:] = starts[~inline].astype("<i4")[:, None].view(np.uint8)
    if int(strings.offsets[-1]) > 2**31 - 1:
        raise OverflowError("view offsets are 32-bit")
    return [pa.py_buffer(views.tobytes()), _buffer(strings.data)]


class Assembler:
    """Makes Arrow arrays of rows [begin, end) of a node.

    Raises OverflowError if there are too many rows for one array; call it with fewer rows.
    """

    def __init__(self, data: StripeData, dictionary_of: Callable[[Node], pa.Array]) -> None:
        self._data = data
        self._dictionary_of = dictionary_of

    def assemble(self, node: Node, begin: int, end: int) -> pa.Array:
        type_ = storage_type(node.schema)
        valid, count = self._data.valid(node), end - begin
        validity = None if valid is None else _bitmap(valid[begin:end])
        if node.layout == "null":
            return pa.nulls(count)
        if node.layout == "dictionary":
            codes = _buffer(self._data.array(node.values)[begin:end])
            indices = pa.Array.from_buffers(type_.index_type, count, [validity, codes])
            dictionary = self._dictionary_of(node)
            return pa.DictionaryArray.from_arrays(
                indices, dictionary, ordered=type_.ordered, safe=False
            )
        buffers, children = self._parts(node, begin, end)
        head = [] if node.layout == "run_end" else [validity]
        if node.layout == "run_end":
            head = [None]
        return pa.Array.from_buffers(type_, count, [*head, *buffers], children=children)

    def _parts(self, node: Node, begin: int, end: int) -> tuple[list[pa.Buffer], list[pa.Array]]:
        """The buffers after the validity bitmap, and the child arrays."""
        data = self._data
        if node.layout == "fixed":
            width = np.zeros((end - begin, 0), np.uint8)
            return [_buffer(data.array(node.values)[begin:end] if node.width else width)], []
        if node.layout == "bool":
            return [_bitmap(data.array(node.values)[begin:end].astype(bool))], []
        if node.layout == "bytes":
            return self._strings(node, begin, end), []
        if node.layout == "struct":
            return [], [self.assemble(c, begin, end) for c in node.children]
        if node.layout == "fixed_list":
            n = node.list_size
            return [], [self.assemble(node.children[0], begin * n, end * n)]
        if node.layout == "list":
            return self._lists(node, begin, end)
        if node.layout == "run_end":
            return [], self._runs(node, begin, end)
        return self._union(node, begin, end)

    def _strings(self, node: Node, begin: int, end: int) -> list[pa.Buffer]:
        stream = None if node.values is None else self._data.streams[node.values]
        strings = Strings.repeat(b"", 0) if stream is None else cast(Strings, stream)
        strings = strings.slice(begin, end)
        first, last = int(strings.offsets[0]), int(strings.offsets[-1])
        strings = Strings(strings.offsets - first, strings.data[first:last])
        if node.schema.format.startswith("v"):
            return _views(strings)
        dtype = "<i8" if node.schema.format in "UZ" else "<i4"
        return [_buffer(strings.offsets, dtype), _buffer(strings.data)]

    def _lists(self, node: Node, begin: int, end: int) -> tuple[list[pa.Buffer], list[pa.Array]]:
        edges = np.concatenate([[0], self._data.ends(node)])[begin : end + 1]
        if begin == end:
            edges = np.zeros(1, np.int64)
        child = self.assemble(node.children[0], int(edges[0]), int(edges[-1]))
        edges = edges - edges[0]
        dtype = "<i8" if node.schema.format.endswith("L") else "<i4"
        if node.schema.format.startswith("+v"):
            return [_buffer(edges[:-1], dtype), _buffer(np.diff(edges), dtype)], [child]
        return [_buffer(edges, dtype)], [child]

    def _runs(self, node: Node, begin: int, end: int) -> list[pa.Array]:
        ends = self._data.ends(node)
        first, last = np.searchsorted(ends, [begin, end - 1], "right")
        last = last + 1 if end > begin else first
        type_ = storage_type(node.schema.children[0])
        run_ends = np.minimum(ends[first:last], end) - begin
        dtype = f"<i{type_.bit_width // 8}"
        array = pa.Array.from_buffers(type_, len(run_ends), [None, _buffer(run_ends, dtype)])
        return [array, self.assemble(node.children[0], int(first), int(last))]

    def _union(self, node: Node, begin: int, end: int) -> tuple[list[pa.Buffer], list[pa.Array]]:
        all_ids = self._data.array(node.values)
        ids = all_ids[begin:end]
        buffers = [_buffer(ids.astype("<i1"))]
        if not node.dense:
            return buffers, [self.assemble(c, begin, end) for c in node.children]
        places, children = np.zeros(end - begin, np.int64), []
        for type_id, child in zip(node.type_ids, node.children, strict=True):
            first = int((all_ids[:begin] == type_id).sum())
            count = int((ids == type_id).sum())
            places[ids == type_id] = np.arange(count)
            children.append(self.assemble(child, first, first + count))
        return [*buffers, _buffer(places, "<i4")], children
