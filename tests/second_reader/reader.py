"""The second reader: a whole file to one Arrow table, by the docs alone."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from os import PathLike
from pathlib import Path

import pyarrow as pa

from nimblepy.errors import CorruptFileError
from second_reader import numbers  # noqa: F401  (it registers decoders, as strings do)
from second_reader.arrow_types import arrow_schema, as_type
from second_reader.bits import Cursor, checksum
from second_reader.columns import Assembler, StripeData
from second_reader.metadata import Footer, Group, Section, Stripe, read_footer, read_group
from second_reader.schema import Node, Plan, make_plan
from second_reader.strings import read_phrases
from second_reader.tree import SEGMENT, Body, Request, Shared, decode
from second_reader.values import BYTES, Values, ValueType, byte_size, concat

Source = str | PathLike[str] | bytes
MAX_SHARED_BYTES = 8 << 20  # of the values of a shared dictionary


class Container:
    """The bytes of a file, its footer, and a record of the bytes that were used."""

    def __init__(self, source: Source) -> None:
        self.data = source if isinstance(source, bytes) else Path(source).read_bytes()
        self.tally: Counter[str] = Counter()
        self.used: list[tuple[int, int, str]] = []
        self.footer: Footer = read_footer(self.data)
        self.plan: Plan = make_plan(self.footer.schema)
        self._dictionaries: dict[int, StripeData] = {}
        self.tally["checksums"] += 2

    @cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.footer.schema)

    def bytes_at(self, offset: int, size: int, what: str) -> bytes:
        """Reads bytes before the footer and records them as used."""
        limit = self.footer.place.offset
        if offset > limit or size > limit - offset:
            raise CorruptFileError(f"{what}: {size} bytes at {offset} reach past {limit}")
        if size:
            self.used.append((offset, offset + size, what))
        return self.data[offset : offset + size]

    def section(self, section: Section, what: str) -> bytes:
        raw = self.bytes_at(section.offset, section.size, what)
        self.tally["checksums"] += 1
        if checksum(raw) != section.checksum:
            raise CorruptFileError(f"{what} at {section.offset}: checksum does not match")
        return raw

    @cached_property
    def shared(self) -> dict[int, Shared]:
        """The data that segments share (dictionaries, phrases), by stream."""
        out = {stream: Shared(phrases) for stream, phrases in self._phrases().items()}
        before = -1
        for ref in self.footer.shared_dictionaries:
            what = f"shared dictionary of node {ref.node}"
            node = self.plan.nodes[ref.node] if ref.node < len(self.plan.nodes) else None
            possible = node is not None and node.layout in ("bytes", "fixed") and node.width <= 256
            if node is None or node.values is None or not possible:
                raise CorruptFileError(f"{what}, which has no values")
            if ref.node <= before or ref.count > SEGMENT:
                raise CorruptFileError(f"{what}: of {ref.count} values, behind node {before}")
            before = ref.node
            type_ = self.plan.streams[node.values]
            shared = out.setdefault(node.values, Shared())
            head = Cursor(self.section(ref.head, what), "head of a shared dictionary")
            raw = self.section(ref.body, what) if ref.body.size else b""
            body = Body(raw, self.tally)
            try:
                shared.dictionary = decode(Request(head, body, type_, ref.count, depth=1))
                shared.type = type_
                if (size := byte_size(shared.dictionary)) > MAX_SHARED_BYTES:
                    raise CorruptFileError(f"values of {size} bytes, more than {MAX_SHARED_BYTES}")
                head.finish()
                body.finish()
            except CorruptFileError as error:
                raise CorruptFileError(f"{what}: {error}") from error
        return out

    def _phrases(self) -> dict[int, list[bytes]]:
        out: dict[int, list[bytes]] = {}
        for ref in self.footer.phrases:
            what = f"phrases of node {ref.node}"
            nodes = self.plan.nodes
            stream = nodes[ref.node].values if ref.node < len(nodes) else None
            if stream is None or self.plan.streams[stream] != BYTES:
                raise CorruptFileError(f"{what}, which is not text")
            if out and stream <= max(out):
                raise CorruptFileError(f"{what} do not follow those of the node before")
            try:
                out[stream] = read_phrases(self.section(ref.section, what))
            except CorruptFileError as error:
                raise CorruptFileError(f"{what}: {error}") from error
        return out

    def group(self, index: int) -> Group:
        return read_group(self.section(self.footer.groups[index][0], f"group {index}"))

    def _segment(
        self,
        stripe: Stripe,
        index: int,
        type_: ValueType,
        count: int,
        bodies: dict[tuple[int, int], Body],
        shared: Shared,
    ) -> Values:
        """The values of a segment. Segments may share one of the `bodies` of the stripe."""
        offset, size = stripe.offsets[index], stripe.sizes[index]
        if size and offset % 64:
            raise CorruptFileError(f"segment body at {offset}, not a multiple of 64")
        if (offset, size) not in bodies:
            bodies[offset, size] = Body(self.bytes_at(offset, size, "segment"), self.tally)
        head = Cursor(stripe.heads[index], "segment head")
        try:
            body = bodies[offset, size]
            values = decode(Request(head, body, type_, count, shared=shared))
            head.finish()
        except CorruptFileError as error:
            raise CorruptFileError(f"segment {index} at {offset}: {error}") from error
        self.tally["segments"] += 1
        return values

    def stripe(self, plan: Plan, stripe: Stripe) -> StripeData:
        """Decodes all streams of a stripe."""
        counts = stripe.values
        segments = sum((n + SEGMENT - 1) // SEGMENT for n in counts)
        lengths = (len(stripe.offsets), len(stripe.sizes), len(stripe.heads))
        if len(counts) != len(plan.streams) or set(lengths) != {segments}:
            raise CorruptFileError(
                f"stripe of {len(counts)} streams ({len(plan.streams)} expected) and "
                f"{lengths} segments ({segments} expected)"
            )
        streams: list[Values | None] = []
        bodies: dict[tuple[int, int], Body] = {}
        index = 0
        shared = self.shared if plan is self.plan else {}
        for stream, (type_, count) in enumerate(zip(plan.streams, counts, strict=True)):
            parts = []
            own = shared.get(stream, Shared())
            for at in range(0, count, SEGMENT):
                rows = min(SEGMENT, count - at)
                parts.append(self._segment(stripe, index, type_, rows, bodies, own))
                index += 1
            streams.append(concat(parts) if parts else None)
        for (offset, _), body in bodies.items():
            try:
                body.finish()
            except CorruptFileError as error:
                raise CorruptFileError(f"segment at {offset}: {error}") from error
        return StripeData(plan, stripe.rows, streams)

    def dictionary(self, node: Node) -> StripeData:
        """The streams of a dictionary column's values."""
        if node.id in self._dictionaries:
            return self._dictionaries[node.id]
        refs = [d for d in self.footer.dictionaries if d.node == node.id]
        if len(refs) != 1 or node.schema.dictionary is None:
            raise CorruptFileError(f"node {node.id}: {len(refs)} dictionaries")
        plan = make_plan(node.schema.dictionary)
        stripe = Stripe(0, [0] * len(plan.streams), [], [], [])
        if refs[0].rows:
            group = read_group(self.section(refs[0].section, f"dictionary {node.id}"))
            if len(group.stripes) != 1 or group.stripes[0].rows != refs[0].rows:
                raise CorruptFileError(f"dictionary {node.id}: not one stripe of values")
            stripe = group.stripes[0]
        self._dictionaries[node.id] = self.stripe(plan, stripe)
        return self._dictionaries[node.id]

    def dictionary_array(self, node: Node) -> pa.Array:
        data = self.dictionary(node)
        maker = Assembler(data, self.dictionary_array)
        return maker.assemble(data.plan.nodes[0], 0, data.rows)

    def chunks_of(self, data: StripeData, node: Node, type_: pa.DataType) -> list[pa.Array]:
        """All rows of a top-level column, as arrays that do not exceed Arrow's limits."""
        maker = Assembler(data, self.dictionary_array)
        out, at, step = [], 0, data.rows
        while at < data.rows:
            try:
                piece = maker.assemble(node, at, min(at + step, data.rows))
            except OverflowError:
                if step <= 1:
                    raise
                step = (step + 1) // 2
                continue
            out.append(as_type(piece, type_))
            at += len(piece)
        return out

    def table(self) -> pa.Table:
        columns: list[list[pa.Array]] = [[] for _ in self.schema]
        for index in range(len(self.footer.groups)):
            for stripe in self.group(index).stripes:
                data = self.stripe(self.plan, stripe)
                for i, node in enumerate(self.plan.nodes[0].children):
                    columns[i] += self.chunks_of(data, node, self.schema.field(i).type)
        if not columns:  # a table without columns still has rows
            empty = pa.StructArray.from_buffers(pa.struct([]), self.footer.num_rows, [None])
            batch = pa.RecordBatch.from_struct_array(empty)
            return pa.Table.from_batches([batch]).replace_schema_metadata(self.schema.metadata)
        arrays = [
            pa.chunked_array(chunks, type=field.type)
            for chunks, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def read_table(source: Source) -> pa.Table:
    """All rows of a file (a path, or its bytes), with schema and metadata.

    Raises:
        CorruptFileError: the bytes break a rule of docs/format.
        UnsupportedVersionError: a newer version, or a required feature bit that is not known.
    """
    return Container(source).table()
