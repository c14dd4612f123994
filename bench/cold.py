"""What a lookup reads from a file that is not mapped and of which nothing is in memory yet."""

from __future__ import annotations

import statistics
from typing import Any

from bench.datasets import Dataset
from bench.keys import Keys
from bench.peers.nimble import Nimble
from bench.peers.peer import NoGoodAnswer

COUNTERS = ("reads", "bytes_read", "index_reads", "data_reads", "rounds")


def cold_reads(peer: Nimble, keys: Keys, dataset: Dataset, count: int) -> dict[str, Any]:
    """Reads of nimblepy by `io_stats`; every question goes to a file just opened."""
    if not dataset.clustered:
        raise NoGoodAnswer
    one = [dataset.summed]
    bloomed = peer.path.with_name("bloom.nimble")
    if not bloomed.exists():
        narrow = list(dict.fromkeys([*dataset.key, *dataset.few]))
        peer.write(dataset.table().select(narrow), bloomed, bloom_bits=10.0)
    cases: dict[str, Any] = {
        "get, all columns": (peer.path, lambda f, i: f.get(keys.present[i])),
        "get, 1 column": (peer.path, lambda f, i: f.get(keys.present[i], columns=one)),
        "lookup of one key, all columns": (peer.path, lambda f, i: f.lookup([keys.present[i]])),
        "get, absent key": (peer.path, lambda f, i: f.get(keys.absent[i])),
        "get, absent key, Bloom filter": (bloomed, lambda f, i: f.get(keys.absent[i])),
        "range of 1,000 rows, 3 columns": (
            peer.path,
            lambda f, i: f.range(*keys.ranges[i], columns=list(dataset.few)),
        ),
    }
    found = {}
    for name, (path, ask) in cases.items():
        opened, asked = [], []
        for i in range(count):
            with peer.nb.open(path, mmap=False) as file:
                after_open = file.io_stats
                ask(file, i)
                opened.append(after_open)
                asked.append(file.io_stats - after_open)
        found[name] = {"open": _spread(opened), "lookup": _spread(asked)}
    bloomed.unlink()
    return found


def _spread(stats: list[Any]) -> dict[str, list[float]]:
    """Median and maximum of every counter."""
    values = {c: [getattr(s, c) for s in stats] for c in COUNTERS}
    return {c: [statistics.median(v), max(v)] for c, v in values.items()}
