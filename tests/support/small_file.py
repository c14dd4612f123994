"""A file of a few KB that has one of everything, and every way of reading it, for the
corruption tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from exact import assert_same_table

import nimblepy as nb

# Of the places to damage under sanitizers, where a read takes five times as long: one of so many.
# What instrumentation sees is the same at places side by side, and without it all are visited.
EVERY = 3 if os.environ.get("NIMBLEPY_SANITIZED") else 1

N = 24
TABLE = pa.table(
    {
        "k": pa.array([i // 2 for i in range(N)], pa.int64()),
        "s": pa.array([None if i % 5 == 4 else f"text {i % 6}" for i in range(N)]),
        "f": pa.array([None if i == 3 else i * 0.25 for i in range(N)]),
        "l": pa.array([[i] * (i % 3) for i in range(N)], pa.list_(pa.int16())),
    }
).replace_schema_metadata({"a": "b"})


def content(directory: Path) -> bytes:
    """Two groups, clustered with duplicates, zone maps, Bloom filters of keys and of a column,
    and user metadata.
    """
    options = nb.WriteOptions(
        stripe_rows=12,
        group_rows=12,
        key_chunk_rows=4,
        zone_rows=6,
        cluster_bloom_bits_per_key=8.0,
        bloom_columns=["s"],
    )
    path = directory / "small.nimble"
    nb.write(TABLE, path, cluster_by="k", presorted=True, options=options, metadata={"who": "test"})
    return path.read_bytes()


def _same(want: pa.Table) -> Callable[[pa.Table], None]:
    return lambda got: assert_same_table(got, want)


def _equal(want: Any) -> Callable[[Any], None]:
    def check(got: Any) -> None:
        assert got == want, f"{got!r} instead of {want!r}"

    return check


def _nothing(got: object) -> None:
    del got


_FILTER = (pc.field("f") >= 4) & (pc.field("k") < 10)
Ways = dict[str, tuple[Callable[[Any], Any], Callable[[Any], None]]]
# name -> (how to read, what must come out if no error is raised)
READS: Ways = {
    "to_table": (lambda f: f.to_table(), _same(TABLE)),
    "get": (lambda f: f.get(4, ["s", "f", "l"]), _equal({n: TABLE[n][8].as_py() for n in "sfl"})),
    "lookup": (
        lambda f: f.lookup([11, 0, 99]),
        _same(pa.concat_tables([TABLE.slice(22), TABLE.slice(0, 2)])),
    ),
    "contains": (lambda f: f.contains([0, 5, 12]).to_pylist(), _equal([True, True, False])),
    "count": (lambda f: f.count([3, -1]).to_pylist(), _equal([2, 0])),
    "range": (lambda f: f.range(2, 9), _same(TABLE.slice(4, 14))),
    "prefix": (lambda f: f.prefix(6, reverse=True)["f"].to_pylist(), _equal([3.25, 3.0])),
    "take": (
        lambda f: f.take([23, 5])["s"].to_pylist(),
        _equal([TABLE["s"][i].as_py() for i in (23, 5)]),
    ),
    "filter": (
        lambda f: f.to_table(["f"], filter=_FILTER),
        _same(TABLE.select(["f"]).slice(16, 4)),
    ),
    "filter by a column's Bloom filter": (
        lambda f: f.to_table(filter=pc.field("s") == "text 5"),
        _same(TABLE.filter(pc.equal(TABLE["s"], "text 5"))),
    ),
    "row_ranges": (
        lambda f: f.row_ranges([7]).to_pylist(),
        _equal([{"probe_row": 0, "begin": 14, "end": 16}]),
    ),
    "layout": (lambda f: str(f.layout()), _nothing),
    "metadata": (
        lambda f: {str(k): str(v) for k, v in f.metadata.items()},
        lambda got: None if len(got) == 1 else _equal(1)(len(got)),
    ),
}


def outcome(data: bytes, *, reads: list[str] | None = None, ways: Ways = READS) -> bool:
    """Opens and reads in the named ways (all); True if some read noticed the damage. Fails on any
    other error or any wrong row.
    """
    try:
        file = nb.open(data)
    except (nb.NimbleError, OSError):
        return True
    noticed = False
    for name in reads or ways:
        read, check = ways[name]
        try:
            got = read(file)
        except (nb.NimbleError, OSError):
            noticed = True
            continue
        check(got)
    try:
        file.verify()
    except (nb.NimbleError, OSError):
        noticed = True
    return noticed


def hex_dump(data: bytes, at: int) -> str:
    """The 64 bytes around an offset, for failure messages."""
    begin = max(0, at - 32) // 16 * 16
    lines = [
        f"{i:6}: {data[i : i + 16].hex(' ')}" for i in range(begin, min(begin + 64, len(data)), 16)
    ]
    return "\n".join(lines)
