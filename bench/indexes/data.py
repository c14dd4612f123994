"""What `python -m bench.indexes.sizes` asks: random keys in no order, by every kind of index.

`keys.nimble` has three value columns beside two key columns, each with a hash and a sorted index.
What can be known of it beforehand, because it takes long, is in `known.json` beside it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import nimblepy as nb
from bench import data
from bench.datasets import short

BATCH = 1 << 20
COLUMNS = ["v", "x", "s"]  # what lookups read
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("u", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
    ]
)
INDEXES = (nb.HashIndex("k"), nb.HashIndex("u"), nb.SortedIndex("k"), nb.SortedIndex("u"))


def folder(rows: int) -> Path:
    path = data.cache_dir() / "bench" / f"indexes-{short(rows)}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def batches(rows: int, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """The rows: 64-bit keys and version-4 UUIDs as text, both at random."""
    random = np.random.default_rng(seed)
    words = pa.array([f"state {i:03}" for i in range(200)])
    for begin in range(0, rows, BATCH):
        n = min(BATCH, rows - begin)
        raw = random.bytes(16 * n)
        texts = [str(uuid.UUID(bytes=raw[i : i + 16], version=4)) for i in range(0, len(raw), 16)]
        keys = random.integers(-(1 << 63), (1 << 63) - 1, n, endpoint=True)
        yield pa.record_batch(
            [
                pa.array(keys),
                pa.array(texts),
                pa.array(random.integers(0, 1 << 40, n)),
                pa.array(np.round(random.random(n) * 1e5, 2)),
                words.take(pa.array(random.integers(0, len(words), n))),
            ],
            schema=SCHEMA,
        )


def prepare(rows: int) -> Path:
    """Writes what is missing; gives the folder."""
    place = folder(rows)
    path, known = place / "keys.nimble", place / "known.json"
    if not path.exists():
        with data.announced(f"{short(rows)} rows with {len(INDEXES)} indexes"):
            source = pa.RecordBatchReader.from_batches(SCHEMA, batches(rows))
            nb.write(source, path, indexes=INDEXES)
        known.unlink(missing_ok=True)
    if not known.exists():
        with data.announced("front-coded sizes of the keys"), nb.open(path) as file:
            sizes = {name: front_coded(file.to_table([name]).column(0)) for name in ("k", "u")}
            known.write_text(json.dumps({"front_coded": sizes}))
    return place


def front_coded(column: pa.ChunkedArray) -> float:
    """Bytes a key of sorted keys that share prefixes, as docs/format/key_chunks.md has them.

    A key is a marker, its bytes and, for text, a terminator; an entry a byte for both lengths and
    what the key does not share with the one before; every 16th one is whole, with two bytes of
    offset.
    """
    ordered = column.combine_chunks().take(pc.sort_indices(column))
    n = len(ordered)
    if pa.types.is_integer(ordered.type):
        numbers = ordered.to_numpy().astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)
        keys = numbers.astype(">u8").view(np.uint8).reshape(n, 8)
        extra = 1
    else:
        width = pc.max(pc.binary_length(ordered)).as_py()
        keys = np.frombuffer(ordered.buffers()[2], dtype=np.uint8)[: n * width].reshape(n, width)
        extra = 2
    width = keys.shape[1]
    same = np.zeros(n, dtype=np.int64)
    going = np.ones(n - 1, dtype=bool)
    for i in range(width):
        going &= keys[1:, i] == keys[:-1, i]
        if not going.any():
            break
        same[1:][going] += 1
    shared = same + 1  # and the marker
    shared[::16] = 0
    return float(np.mean(1 + width + extra - shared) + 2 / 16)


def known(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "known.json").read_text())
    return found
