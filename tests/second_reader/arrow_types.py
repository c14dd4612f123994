"""Arrow types of schema nodes: the footer keeps Arrow's own C structures, so Arrow reads them.

The struct ArrowSchema is part of Arrow's C data interface, which is stable; only the two import
methods of pyarrow are used.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pyarrow as pa

from second_reader.metadata import SchemaNode


class _ArrowSchema(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowSchema))
_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", ctypes.POINTER(_ArrowSchema)),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]


def _mark_released(schema: Any) -> None:
    # The memory is Python's; released means only that `release` is null.
    schema.contents.release = _Release()


_release = _Release(_mark_released)


def _pack(metadata: list[tuple[bytes, bytes]]) -> bytes:
    out = struct.pack("=i", len(metadata))
    for key, value in metadata:
        out += struct.pack("=i", len(key)) + key + struct.pack("=i", len(value)) + value
    return out


def _export(node: SchemaNode, keep_metadata: bool, alive: list[Any]) -> _ArrowSchema:
    out = _ArrowSchema()
    alive.append(out)
    out.format = node.format.encode("utf-8", "surrogateescape")
    out.name = node.name.encode("utf-8", "surrogateescape")
    if keep_metadata and node.metadata:
        packed = ctypes.create_string_buffer(_pack(node.metadata))
        alive.append(packed)
        out.metadata = ctypes.addressof(packed)
    out.flags = node.flags
    out.n_children = len(node.children)
    if node.children:
        below = [ctypes.pointer(_export(c, keep_metadata, alive)) for c in node.children]
        out.children = (ctypes.POINTER(_ArrowSchema) * len(below))(*below)
        alive.append(out.children)
    if node.dictionary is not None:
        out.dictionary = ctypes.pointer(_export(node.dictionary, keep_metadata, alive))
    out.release = _release
    return out


def storage_type(node: SchemaNode) -> pa.DataType:
    """The type without extensions, which live in metadata."""
    alive: list[Any] = []
    return pa.DataType._import_from_c(ctypes.addressof(_export(node, False, alive)))


def arrow_schema(node: SchemaNode) -> pa.Schema:
    """The schema that a root struct stands for, with metadata and extension types."""
    alive: list[Any] = []
    return pa.Schema._import_from_c(ctypes.addressof(_export(node, True, alive)))


def as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array with its buffers read as `type_`, which has the same storage."""
    return pa.Array._import_from_c_capsule(type_.__arrow_c_schema__(), array.__arrow_c_array__()[1])
