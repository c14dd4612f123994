"""Vector indexes against the vectors of the file: docs/format/vector_index.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nimblepy.errors import CorruptFileError
from second_reader.bits import checksum
from second_reader.columns import StripeData
from second_reader.flat import root
from second_reader.keys import both, direct_leaf
from second_reader.metadata import SecondaryIndex, Section
from second_reader.reader import Container

Floats = npt.NDArray[np.float64]
SEED = 0x6E696D626C65
COSINE, DOT = 2, 3
BLOCK = 32


def stripe_vectors(data: StripeData, path: list[int]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The vectors of a stripe, and which of them are not null."""
    column = data.plan.nodes[0].children[path[0]]
    items = column.children[0]
    leaf = direct_leaf(data, items)
    kind = {"e": "<f2", "f": "<f4", "g": "<f8", "c": "<i1", "C": "<u1"}[items.schema.format]
    values = np.ascontiguousarray(np.asarray(leaf.values)).view(kind).astype(np.float64)
    x = values.reshape(data.rows, -1)
    there = np.ones(data.rows, dtype=np.bool_)
    for valid in (
        data.valid(column),
        None if leaf.valid is None else leaf.valid.reshape(x.shape).all(axis=1),
    ):
        there = there if valid is None else np.asarray(both(there, valid.astype(np.bool_)))
    return x, there


def rotated(x: Floats) -> Floats:
    """Rotates vectors of a multiple of 64 numbers."""
    x, width = x.copy(), x.shape[1]
    power = 1 << (width.bit_length() - 1)
    for turn in range(4):
        x *= [-1.0 if _random(turn * width + i) >> 63 else 1.0 for i in range(width)]
        begin = width - power if turn % 2 else 0
        part, half = x[:, begin : begin + power], 1
        while half < power:
            pairs = part.reshape(len(x), -1, 2, half)
            a, b = pairs[:, :, 0].copy(), pairs[:, :, 1].copy()
            pairs[:, :, 0], pairs[:, :, 1] = a + b, a - b
            part, half = pairs.reshape(len(x), power), 2 * half
        x[:, begin : begin + power] = part / np.sqrt(power)
        if power == width:
            if turn == 1:
                break
        else:
            a, b = x[:, : width // 2].copy(), x[:, width // 2 :].copy()
            x = np.concatenate([a + b, a - b], axis=1) / np.sqrt(2)
    return x


def _random(i: int) -> int:
    z = (SEED + (i + 1) * 0x9E3779B97F4A7C15) & (1 << 64) - 1
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return z ^ z >> 31


def check_vectors(
    file: Container, index: SecondaryIndex, x: Floats, there: npt.NDArray[np.bool_]
) -> None:
    """Checks every list, code and centroid."""
    t = root(file.section(index.root, "vector index: root"), b"NPYV", "VectorIndexRoot")
    metric, rotation = t.number("metric", "<B"), t.number("rotation", "<B")
    width, d, padded = (
        t.number("row_width", "<B"),
        t.number("dimensions", "<I"),
        t.number("padded", "<I"),
    )
    finite = there & np.isfinite(np.where(there[:, None], x, 0)).all(axis=1)
    if metric == COSINE:
        finite &= x.any(axis=1)
    stated = (t.number("num_rows"), t.number("left_out"), d, padded, t.number("bits", "<B"), width)
    wanted = (finite.sum(), (~finite).sum(), x.shape[1], -(-d // 64) * 64, 1, 4)
    if stated != wanted or not 1 <= metric <= 3 or rotation not in (1, 2):
        raise CorruptFileError(f"the root has {stated}, the rows {wanted}")
    count, size = t.number("num_lists", "<I"), index.root.size
    if count:
        size += _check_lists(file, t, x, finite)
    if (index.num_keys, index.size_bytes, index.has_bloom) != (finite.sum(), size, False):
        raise CorruptFileError(f"the footer says {index}; {finite.sum()} rows, {size} bytes")


def _check_lists(file: Container, t: Any, x: Floats, finite: npt.NDArray[np.bool_]) -> int:
    metric, d, padded = t.number("metric", "<B"), x.shape[1], t.number("padded", "<I")
    count, begin, size = (
        t.number("num_lists", "<I"),
        t.number("lists_offset"),
        t.number("lists_bytes"),
    )
    section = Section(*t.struct("directory", "<3Q"))
    raw = file.section(section, "vector index: directory")
    has_center = t.number("rotation", "<B") == 2
    if len(raw) != 20 * count + count * padded + (4 * d if has_center else 0):
        raise CorruptFileError(f"a directory of {len(raw)} bytes for {count} lists")
    sums = np.frombuffer(raw, "<u8", count)
    rows = np.frombuffer(raw, "<u4", count, 8 * count)
    scales = np.frombuffer(raw, "<f4", count, 12 * count).astype(np.float64)
    norms = np.frombuffer(raw, "<f4", count, 16 * count)
    codes = np.frombuffer(raw, "<i1", count * padded, 20 * count).reshape(count, padded)
    y = x.astype(np.float32).astype(np.float64)
    if metric == COSINE:
        y = np.where(finite[:, None], y, 1)
        y /= np.linalg.norm(y, axis=1)[:, None]
    if has_center:
        y = y - np.frombuffer(raw, "<f4", d, 20 * count + count * padded)
    y = rotated(np.pad(np.where(finite[:, None], y, 0), ((0, 0), (0, padded - d))))
    seen = np.zeros(len(x), dtype=np.bool_)
    at = begin
    for number in range(count):
        n = int(rows[number])
        slots = -(-n // BLOCK) * BLOCK
        length = 4 * padded + 12 * slots + slots * padded // 8
        data = file.bytes_at(at, length, f"vector index: list {number}")
        file.tally["checksums"] += 1
        file.tally["vector lists"] += 1
        if checksum(data) != sums[number]:
            raise CorruptFileError(f"list {number} at {at}: checksum does not match")
        _check_list(data, metric, y, finite, seen, n, slots)
        centroid = np.frombuffer(data, "<f4", padded).astype(np.float64)
        if not np.allclose(codes[number] * scales[number], centroid, atol=scales[number] * 0.51):
            raise CorruptFileError(f"list {number}: the code of its centroid is wrong")
        if not np.isclose(norms[number], centroid @ centroid, rtol=1e-4, atol=1e-30):
            raise CorruptFileError(f"list {number}: the length of its centroid is wrong")
        at += length
    if at != begin + size or (seen != finite).any():
        raise CorruptFileError(f"lists of {at - begin} bytes and {seen.sum()} rows")
    for name in ("curve10", "curve100"):
        curve = np.array(t.structs(name, "<2f"))
        if not len(curve) or (np.diff(curve, axis=0) < 0).any() or curve.max() > 1:
            raise CorruptFileError(f"{name} does not ascend to 1: {curve.tolist()}")
    return len(raw) + size


def _check_list(
    data: bytes,
    metric: int,
    y: Floats,
    finite: npt.NDArray[np.bool_],
    seen: npt.NDArray[np.bool_],
    n: int,
    slots: int,
) -> None:
    padded = y.shape[1]
    centroid = np.frombuffer(data, "<f4", padded).astype(np.float64)
    row = np.frombuffer(data, "<u4", slots, 4 * padded)
    scale = np.frombuffer(data, "<f4", slots, 4 * padded + 4 * slots)
    offset = np.frombuffer(data, "<f4", slots, 4 * padded + 8 * slots)
    raw = np.frombuffer(data, "<u1", slots * padded // 8, 4 * padded + 12 * slots)
    # Block, group, row of the block: one byte has 8 bits of a row.
    parts = raw.reshape(-1, padded // 8, BLOCK).transpose(0, 2, 1).reshape(slots, -1)
    bits = np.unpackbits(parts, axis=1, bitorder="little")
    if row[n:].any() or scale[n:].any() or not np.isposinf(offset[n:]).all() or bits[n:].any():
        raise CorruptFileError("the slots after the last row are not empty")
    own = row[:n].astype(np.int64)
    if (np.diff(own) <= 0).any() or not finite[own].all() or seen[own].any():
        raise CorruptFileError("rows do not ascend, are in two lists, or are left out")
    seen[own] = True
    r = y[own] - centroid
    # Rounding may change the sign of numbers near 0.
    length = np.linalg.norm(y[own], axis=1) + np.linalg.norm(centroid)
    clear = np.abs(r) > 1e-5 * length[:, None]
    if ((bits[:n] == 1) != (r >= 0))[clear].any():
        raise CorruptFileError("a code is not that of its row")
    v = bits[:n] - 0.5
    product = (v * r).sum(axis=1)
    square = (r * r).sum(axis=1)
    expected = np.divide(square, product, out=np.zeros(n), where=product > 0)
    if not np.allclose(scale[:n], expected, rtol=1e-2, atol=1e-4 * length.max(initial=0)):
        raise CorruptFileError("a scale is not that of its row")
    added = np.zeros(n) if metric == DOT else square + 2 * expected * (v @ centroid)
    most = 1e-3 * float((length**2).max(initial=0)) * np.sqrt(padded)
    if not np.allclose(offset[:n], added, rtol=1e-2, atol=most):
        raise CorruptFileError("an offset is not that of its row")
