"""Encoded keys from values, by docs/format/keys.md; bytes that compare like the tuples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from nimblepy.errors import CorruptFileError
from second_reader.bits import Array
from second_reader.columns import StripeData
from second_reader.metadata import KeyColumn
from second_reader.schema import Node, Plan
from second_reader.values import Strings, Values

_INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}
_QUIET_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}


@dataclass(frozen=True)
class Leaf:
    """Values of a column, with the nulls of the structs above it. `valid` is None without nulls."""

    node: Node  # of the values: for dictionaries that of the dictionary
    valid: Array | None
    values: Values
    count: int

    def is_nan(self) -> Array:
        bits = float_bits(self)
        sign = np.array(1 << (8 * self.node.width - 1), bits.dtype)
        return cast(Array, (bits & ~sign) > _INFINITY[self.node.width])


def float_bits(leaf: Leaf) -> Array:
    return np.ascontiguousarray(cast(Array, leaf.values)).view(f"<u{leaf.node.width}")


def both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


def leaf_at(data: StripeData, path: list[int], dictionary_of: Callable[[Node], StripeData]) -> Leaf:
    """A column below structs, by child numbers from the root."""
    node, valid = data.plan.nodes[0], None
    for step in path:
        if node.layout != "struct" or step >= len(node.children):
            raise CorruptFileError(f"key column path {path} leads nowhere")
        node = node.children[step]
        valid = both(valid, data.valid(node))
    leaf = direct_leaf(data, node)
    if node.layout != "dictionary":
        return Leaf(node, valid, leaf.values, data.rows)
    source = dictionary_of(node)
    codes = cast(Array, leaf.values).astype(np.int64)
    inner = direct_leaf(source, source.plan.nodes[0])
    if source.rows == 0:  # all rows are null, so any values will do
        codes = np.zeros(data.rows, np.int64)
        blank = blank_values(source.plan, inner.node, 1)
        inner = Leaf(inner.node, None, blank, 1)
    values = inner.values.take(codes) if isinstance(inner.values, Strings) else inner.values[codes]
    if inner.valid is not None:
        valid = both(valid, inner.valid[codes])
    return Leaf(inner.node, valid, values, data.rows)


def direct_leaf(data: StripeData, node: Node) -> Leaf:
    """The values of a node, without the nulls of the structs above it."""
    count = data.lengths[node.id]
    values = None if node.values is None else data.streams[node.values]
    if values is None:  # no rows, or values without bytes
        values = blank_values(data.plan, node, count)
    return Leaf(node, data.valid(node), values, count)


def blank_values(plan: Plan, node: Node, count: int) -> Values:
    """Placeholder values of the node's type."""
    if node.values is None:
        return np.zeros((count, 0), np.uint8)
    type_ = plan.streams[node.values]
    if type_.kind == "bytes":
        return Strings.repeat(b"", count)
    if type_.kind == "bool":
        return np.zeros(count, bool)
    shape = (count, type_.width) if type_.kind == "fixed" else (count,)
    return np.zeros(shape, np.uint8 if type_.kind == "fixed" else type_.dtype)


def _big_endian(bits: Array, width: int) -> Array:
    """Unsigned numbers as rows of bytes, most significant first."""
    return np.ascontiguousarray(bits.astype(f">u{width}")).view(np.uint8).reshape(-1, width)


def _ordered_floats(leaf: Leaf) -> Array:
    width = leaf.node.width
    bits = float_bits(leaf)
    sign = np.array(1 << (8 * width - 1), bits.dtype)
    bits = np.where(leaf.is_nan(), np.array(_QUIET_NAN[width], bits.dtype), bits)
    bits = np.where(bits == sign, np.array(0, bits.dtype), bits)  # -0.0
    return np.where(bits & sign != 0, ~bits, bits | sign)


def _value_bytes(leaf: Leaf) -> Array:
    """The order-preserving bytes of fixed-width values, one row a value."""
    kind, width = leaf.node.key_kind, leaf.node.width
    values = cast(Array, leaf.values)
    if kind == "bool":
        return (values.astype(np.uint8) + np.uint8(1)).reshape(-1, 1)
    if kind == "float":
        return _big_endian(_ordered_floats(leaf), width)
    if kind == "wide":
        out = values[:, ::-1].copy()
        out[:, 0] ^= 0x80
        return out
    if kind == "fixed":
        return values
    bits = np.ascontiguousarray(values).view(f"<u{width}")
    if kind == "signed":
        bits = bits ^ np.array(1 << (8 * width - 1), bits.dtype)
    return _big_endian(bits, width)


def escape(value: bytes) -> bytes:
    """Escapes the bytes 00 and 01 with a preceding 01, so that 00 can end a value."""
    return value.replace(b"\1", b"\1\1").replace(b"\0", b"\1\0")


_INVERTED = bytes(255 - i for i in range(256))


def encode_column(leaf: Leaf, descending: bool, nulls_first: bool) -> list[bytes]:
    """The bytes that one column adds to the key of every row."""
    if not leaf.node.key_kind:
        raise CorruptFileError(f"key column {leaf.node.schema.name!r} has no order")
    null, marker = (b"\0", b"\1") if nulls_first else (b"\1", b"\0")
    valid = None if leaf.valid is None else leaf.valid.tolist()
    if leaf.node.key_kind == "bytes":
        out = [escape(v) + b"\0" for v in cast(Strings, leaf.values).to_list()]
        if descending:
            out = [v.translate(_INVERTED) for v in out]
    else:
        matrix = _value_bytes(leaf)
        width = matrix.shape[1]
        null += bytes(width)
        raw = (matrix ^ np.uint8(255) if descending else matrix).tobytes()
        out = [raw[i * width : (i + 1) * width] for i in range(leaf.count)]
    if valid is None:
        return [marker + v for v in out]
    return [marker + v if ok else null for v, ok in zip(out, valid, strict=True)]


def stripe_keys(
    data: StripeData, columns: list[KeyColumn], dictionary_of: Callable[[Node], StripeData]
) -> list[bytes]:
    """The key of every row of a stripe."""
    parts = [
        encode_column(leaf_at(data, c.path, dictionary_of), c.descending, c.nulls_first)
        for c in columns
    ]
    return parts[0] if len(parts) == 1 else [b"".join(row) for row in zip(*parts, strict=True)]


def successor(key: bytes) -> bytes | None:
    """The least byte string greater than all strings that start with `key`; None if impossible."""
    stripped = key.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
