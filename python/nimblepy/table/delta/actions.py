"""Describes data files as actions of a Delta log: paths, statistics, deletion vectors."""

from __future__ import annotations

import datetime
import json
import math
import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.rows.rowset import RowNumbers
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.plain import plain_type
from nimblepy.schema.zones import has_zone
from nimblepy.table.base.deletion_vector import deletion_vector
from nimblepy.table.base.file_names import name_in_files
from nimblepy.table.base.model import DataFile, Metrics
from nimblepy.table.base.moved import as_root, below

# The key of an `add` action's tag with a digest of the file's delete files.
DELETES_TAG = "nimblepy.deletes"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ALPHABET = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    dtype=np.uint8,
)


def path_in_log(path: str, location: str) -> str:
    """Returns a file's path as a log stores it: relative to the table if possible, and escaped."""
    rest = below(path, as_root(location))
    if rest is not None:
        return quote(rest, safe="/=")
    # DuckDB does not read URIs of local files.
    return quote(as_root(path).removeprefix("file://"), safe="/=:")


def deletes_digest(deletes: Iterable[DataFile]) -> str:
    """Returns a text that changes with the delete files of a data file; empty without any."""
    names = sorted(file.identity for file in deletes)
    return blake2b("\n".join(names).encode(), digest_size=16).hexdigest() if names else ""


def inline_vector(rows: RowNumbers) -> dict[str, Any]:
    """Returns the descriptor of deleted rows, with their bitmap in it."""
    content = deletion_vector(rows)[4:-4]  # without its length and checksum
    return {
        "storageType": "i",
        "pathOrInlineDv": _base85(content),
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }


def _base85(octets: bytes) -> str:
    """Encodes bytes, padded with zeros to a multiple of four, in Base85 of ZeroMQ (Z85)."""
    words = np.frombuffer(octets + bytes(-len(octets) % 4), dtype=">u4").astype(np.uint64)
    digits = np.empty((len(words), 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        digits[:, place] = words % 85
        words //= 85
    return _ALPHABET[digits].tobytes().decode()


def statistics(
    file: DataFile, schema: pa.Schema, names: Mapping[int, str], *, has_deletes: bool
) -> str:
    """Returns the statistics of a file's columns as a log stores them.

    Bounds that readers could misread are left out: of decimals, and of floats that may have NaN.
    """
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field in schema:
        number = field_id_of(field)
        if number is None or pt.is_nested(field.type):
            continue
        name = name_in_files(field, names)
        if number in file.metrics.nulls:
            nulls[name] = file.metrics.nulls[number]
        bounds = _bounds(plain_type(field.type), number, file.metrics)
        if bounds is not None:
            lower[name], upper[name] = bounds
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": lower,
            "maxValues": upper,
            "nullCount": nulls,
            "tightBounds": not has_deletes,
        }
    )


def _bounds(kind: pa.DataType, number: int, metrics: Metrics) -> tuple[Any, Any] | None:
    """Returns the least and greatest value of a column, as JSON types."""
    if number not in metrics.lower or number not in metrics.upper:
        return None
    if pt.is_floating(kind) and metrics.nans.get(number, 1):
        return None
    bounds = [_value(kind, side[number]) for side in (metrics.lower, metrics.upper)]
    if None in bounds:
        return None
    least, greatest = bounds
    if pt.is_floating(kind):  # 0.0 equals -0.0, but readers compare their bits
        least, greatest = (-0.0 if least == 0 else least), (0.0 if greatest == 0 else greatest)
    return least, greatest


def _value(kind: pa.DataType, octets: bytes) -> Any:
    if pt.is_string(kind) or pt.is_large_string(kind):
        return octets.decode("utf-8", "strict") if _is_text(octets) else None
    if len(octets) not in (4, 8):
        return None
    if pt.is_floating(kind):
        (number,) = struct.unpack("<f" if len(octets) == 4 else "<d", octets)
        return number if math.isfinite(number) else None
    whole = int.from_bytes(octets, "little", signed=True)
    if pt.is_integer(kind):
        return whole
    try:
        if pt.is_date32(kind):
            return (_EPOCH + datetime.timedelta(days=whole)).date().isoformat()
        if pt.is_timestamp(kind) and kind.unit == "us":
            text = (_EPOCH + datetime.timedelta(microseconds=whole)).strftime(
                "%Y-%m-%dT%H:%M:%S.%f"
            )
            return f"{text:0>26}" + ("Z" if has_zone(kind) else "")
    except OverflowError:  # outside of Python's years
        return None
    return None


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
