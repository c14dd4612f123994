"""What an open file keeps is counted, and bounded by ``cache_bytes`` beside what stays resident."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.cost

ROWS = 20_000
CACHE = 64 << 10
# Roots of indexes and one dictionary, which stay once they are read.
RESIDENT = 64 << 10


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bounds") / "t.nimble"
    table = pa.table(
        {
            "k": pa.array(range(ROWS), pa.int64()),
            "s": [f"text {i * 7919 % ROWS}" for i in range(ROWS)],
            "d": pa.array([f"of {i % 20}" for i in range(ROWS)]).dictionary_encode(),
        }
    )
    options = nb.WriteOptions(stripe_rows=40, group_rows=40, key_chunk_rows=20, zone_rows=20)
    indexes = [nb.SortedIndex("s"), nb.HashIndex("s")]
    nb.write(table, path, cluster_by="k", presorted=True, indexes=indexes, options=options)
    return path


ASK: dict[str, Callable[[Any], object]] = {
    "verify": lambda f: f.verify(),
    "layout": lambda f: f.layout(),
    "sorted index": lambda f: f.range(on="s", columns=["k"]),
    "zone maps": lambda f: f.to_table(["k"], filter="s > 'text 9' AND k > 100 AND d = 'of 3'"),
    "lookups": lambda f: [f.get(k) for k in range(0, ROWS, 50)],
    "batch": lambda f: f.lookup(list(range(0, ROWS, 10))),
}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_file_keeps_no_more_than_it_may(
    written: Path, ask: Callable[[Any], object], mmap: bool
) -> None:
    # one guard over all of verify() kept every group; groups of sorted indexes were kept for ever
    with nb.open(written, mmap=mmap, cache_bytes=CACHE) as file:
        ask(file)
        assert 0 < file._file.handle.core.memory_bytes <= CACHE + RESIDENT


def test_file_with_room_keeps_all(written: Path) -> None:
    keys = list(range(0, ROWS, 10))
    with nb.open(written, mmap=False) as file:
        file.lookup(keys)
        assert file._file.handle.core.memory_bytes > 4 * (CACHE + RESIDENT)
        file.reset_io_stats()
        file.lookup(keys)
        assert file.io_stats.reads == 0
