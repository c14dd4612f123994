"""What is measured: a workload has a name, one line of meaning, and one question to ask a peer.

A question is asked many times with different keys; `answer` asks a fixed few of them and gives
one digest, which must be the same for all peers before anything is timed.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bench.answers import feed_array
from bench.datasets import Dataset
from bench.keys import LARGE_BATCH, SMALL_BATCH, Keys
from bench.peers.peer import NoGoodAnswer, Peer

Question = Callable[[Peer, Keys, Dataset, int], Any]
DIGEST_ROWS = 1 << 16


@dataclass(frozen=True)
class Workload:
    name: str
    meaning: str
    ask: Question
    unit: str = "us"  # of one question: us or ms; ns_key divides by `keys`
    keys: int = 1
    answers: int = 10  # questions whose answers are compared
    # Questions asked before timing, as far as MAX_WARMING lasts: enough to have touched the pages
    # of the files, but other ones than are timed: these still miss the processor's caches.
    warm: int = 20_000
    needs_prefix: bool = False

    @property
    def patience(self) -> float:
        """How much longer than a quick question it may take, where slow peers are left out."""
        return {"us": 1, "ns_key": 8, "ms": 30}[self.unit]


def _hot(peer: Peer, keys: Keys, _: Dataset, __: int) -> Any:
    return peer.get(keys.present[0])


def _present(peer: Peer, keys: Keys, _: Dataset, i: int) -> Any:
    return peer.get(keys.present[i % len(keys.present)])


def _absent(peer: Peer, keys: Keys, _: Dataset, i: int) -> Any:
    return peer.get(keys.absent[i % len(keys.absent)])


def _small(peer: Peer, keys: Keys, dataset: Dataset, i: int) -> Any:
    return peer.lookup(keys.small[i % len(keys.small)], list(dataset.few))


def _large(peer: Peer, keys: Keys, dataset: Dataset, i: int) -> Any:
    return peer.lookup(keys.large[i % len(keys.large)], list(dataset.few))


def _range(peer: Peer, keys: Keys, dataset: Dataset, i: int) -> Any:
    return peer.range(*keys.ranges[i % len(keys.ranges)], list(dataset.few))


def _prefix(peer: Peer, keys: Keys, dataset: Dataset, i: int) -> Any:
    return peer.prefix(keys.prefixes[i % len(keys.prefixes)], list(dataset.few))


class Scanned:
    """All rows: what was read of them, and how to get them as Arrow for the check."""

    def __init__(self, columns: list[str] | None, again: Callable[[], pa.Table]) -> None:
        self.what = repr(columns)
        self.again = again


def _consumed(peer: Peer, columns: list[str] | None) -> Scanned:
    """Batches are looked at and dropped."""
    for _ in peer.batches(columns):
        pass
    return Scanned(columns, lambda: peer.as_table(peer.to_table(columns)))


def _scan(peer: Peer, _: Keys, __: Dataset, ___: int) -> Any:
    return _consumed(peer, None)


def _scan_table(peer: Peer, _: Keys, __: Dataset, ___: int) -> Any:
    table = peer.to_table(None)
    return Scanned(None, lambda: peer.as_table(table))


def _scan_two(peer: Peer, _: Keys, dataset: Dataset, __: int) -> Any:
    return _consumed(peer, list(dataset.two))


def _sum(peer: Peer, _: Keys, dataset: Dataset, __: int) -> Any:
    if dataset.filtered is None:
        raise NoGoodAnswer
    return peer.filtered_sum(dataset.summed, *dataset.filtered)


def _open(peer: Peer, _: Keys, __: Dataset, ___: int) -> Any:
    peer.close()
    peer.open()
    return "opened"


WORKLOADS = (
    Workload("open", "open the file again, metadata in the page cache", _open, warm=3, answers=1),
    Workload("get_hot", "one row as a dict, all columns, the same key again", _hot, answers=1),
    Workload("get", "one row as a dict, all columns, random present keys", _present),
    Workload("get_absent", "a key that no row has, inside the range of keys", _absent),
    Workload(
        "lookup_10k",
        "10,000 random keys at once, 3 columns (time of one key)",
        _small,
        "ns_key",
        SMALL_BATCH,
        answers=1,
        warm=2,
    ),
    Workload(
        "lookup_100k",
        "100,000 random keys at once, 3 columns (time of one key)",
        _large,
        "ns_key",
        LARGE_BATCH,
        answers=1,
        warm=1,
    ),
    Workload("range_1000", "1,000 neighbouring rows by key, 3 columns", _range, answers=5),
    Workload(
        "prefix",
        "all rows with one value of the first key column, 3 or 4 columns",
        _prefix,
        answers=5,
        warm=10,
        needs_prefix=True,
    ),
    Workload("scan", "all rows, all columns, batch by batch", _scan, "ms", answers=1, warm=1),
    Workload(
        "scan_table", "all rows, all columns, as one table", _scan_table, "ms", answers=1, warm=1
    ),
    Workload(
        "scan_two", "all rows, two columns, batch by batch", _scan_two, "ms", answers=1, warm=1
    ),
    Workload(
        "filtered_sum",
        "sum of a column over the 1 % of rows that pass",
        _sum,
        "ms",
        answers=1,
        warm=1,
    ),
)
BY_NAME = {w.name: w for w in WORKLOADS}


def answer(
    workload: Workload, peer: Peer, keys: Keys, dataset: Dataset, seen: dict[str, str]
) -> str:
    """A digest of the answers to the first questions; `seen` keeps those of whole scans."""
    digest = hashlib.blake2b(digest_size=16)
    for i in range(workload.answers):
        found = workload.ask(peer, keys, dataset, i)
        if isinstance(found, Scanned):
            if found.what not in seen:
                seen[found.what] = _digest_of(found.again(), peer, workload)
            digest.update(seen[found.what].encode())
        else:
            _feed(digest, found, peer, workload)
    return digest.hexdigest()


def _digest_of(found: Any, peer: Peer, workload: Workload) -> str:
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, found, peer, workload)
    return digest.hexdigest()


def _feed(digest: Any, found: Any, peer: Peer, workload: Workload) -> None:
    if found is None or isinstance(found, (str, dict)):
        digest.update(repr(_plain(found)).encode())
        return
    if not isinstance(found, (pa.Table, tuple)) and not hasattr(found, "to_arrow"):
        digest.update(str(found).encode())
        return
    table = peer.as_table(found)
    names = table.column_names
    table = pa.table({n: _canonical(table[n], peer.schema.field(n).type) for n in names})
    if workload.unit not in ("ms",):
        # engines answer in any order
        table = table.sort_by([(n, "ascending") for n in names if n in peer.key])
    digest.update(f"{table.num_rows} {names}".encode())
    for begin in range(0, table.num_rows, DIGEST_ROWS):
        for column in table.slice(begin, DIGEST_ROWS).columns:
            feed_array(digest, pa.concat_arrays(column.chunks))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _plain(item)) for name, item in sorted(value.items())]
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    return value


def _canonical(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)
