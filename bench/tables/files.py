"""A table of very many files: real metadata, and data files only where they are asked for.

``python -m bench.tables.files DIRECTORY --files 1022000`` makes one of 730 days of 1,400 files in a
minute or two, and measures plans, lookups and commits of it, in processor time and reads.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import resource
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.iceberg.avro import encoded_bytes, encoded_long
from nimblepy.table.reading import plan
from nimblepy.table.table import Table

SCHEMA = pa.schema(
    [
        ("event_ts", pa.timestamp("us")),
        ("user_id", pa.int64()),
        ("region", pa.string()),
        ("action", pa.string()),
        ("price", pa.float64()),
        ("session", pa.string()),
        ("page", pa.string()),
        ("count", pa.int32()),
    ]
)
FIRST_DAY = 20_000
USERS = 100_000_000
ROWS = 1_000
_DAY = 86_400_000_000
_long, _int, _double = struct.Struct("<q").pack, struct.Struct("<i").pack, struct.Struct("<d").pack


def make_table(
    directory: str,
    files: int,
    *,
    per_day: int = 1400,
    per_manifest: int = 1400,
    aligned: bool = True,
) -> Table:
    """An append of ``files`` files in manifests of ``per_manifest`` entries.

    Args:
        aligned: a manifest has files of as few days as may be; else of all.
    """
    lake = nb.connect(directory)
    table = lake.create_table(
        "bench.events", SCHEMA, cluster_by=["user_id", "event_ts"], partition_by=["day(event_ts)"]
    )
    metadata = table._metadata
    commit = ice.ManifestsCommit("append")
    days = max(1, -(-files // per_day))
    count = -(-files // per_manifest)
    numbers = range(files)
    head = encoded_long(1) + b"\x02" + encoded_long(commit.snapshot) + b"\x00\x00"
    for i in range(count):
        mine = numbers[i * per_manifest : (i + 1) * per_manifest] if aligned else numbers[i::count]
        places = [divmod(number, per_day) for number in mine]
        entries = [head + encoded_file(table.location, day, k, per_day) for day, k in places]
        commit.write(
            metadata,
            metadata.spec_id,
            entries,
            partitions=sorted({(FIRST_DAY + day,) for day, _ in places}),
            rows=ROWS * len(entries),
            sequence=None,
        )
    commit.summary = {
        "added-data-files": str(files),
        "total-data-files": str(files),
        "total-records": str(files * ROWS),
    }
    commit.attempt(metadata)
    assert days * per_day >= files
    return lake.table("bench.events")


def path_of(location: str, day: int, k: int) -> str:
    return f"{location}/data/event_ts_day={FIRST_DAY + day}/{k:05d}-7a1b2c3d-{day:05d}.nimble"


def users_of(k: int, per_day: int) -> tuple[int, int]:
    """First and last user of a file."""
    step = USERS // per_day
    return k * step, (k + 1) * step - 1


def _counts(value: int) -> bytes:
    items = b"".join(encoded_long(i) + encoded_long(value) for i in range(1, 9))
    return b"\x02" + encoded_long(8) + items + b"\x00"


def _bounds(values: list[bytes]) -> bytes:
    parts = [_bounds_head(len(values))]
    for i, value in enumerate(values, 1):
        parts += (_bound_head(i, len(value)), value)
    return b"".join([*parts, b"\x00"])


@cache
def _bounds_head(count: int) -> bytes:
    return b"\x02" + encoded_long(count)


@cache
def _bound_head(number: int, size: int) -> bytes:
    return encoded_long(number) + encoded_long(size)


_STATISTICS = (
    _counts(4_003)  # bytes of columns
    + _counts(ROWS)
    + _counts(0)
    + b"\x02" + encoded_long(1) + encoded_long(5) + encoded_long(0) + b"\x00"
)  # fmt: skip
_FORMAT = encoded_bytes(b"NIMBLEPY")


def encoded_file(location: str, day: int, k: int, per_day: int) -> bytes:
    """The description of a file, in Avro, without the head of its entry."""
    first, last = users_of(k, per_day)
    begin = (FIRST_DAY + day) * _DAY
    session = b"%016x" % random.getrandbits(64)
    lower = [
        _long(begin + random.randrange(10**9)), _long(first), b"ap-south", b"add_to_cart",
        _double(0.01), session, b"/account/deletea", _int(1),
    ]  # fmt: skip
    upper = [
        _long(begin + _DAY - 1 - random.randrange(10**9)), _long(last), b"us-west", b"view",
        _double(999.99), b"ffff" + session[4:], b"/zz/aaaaaaaaaaab", _int(99),
    ]  # fmt: skip
    return b"".join(
        [
            b"\x00",  # data
            encoded_bytes(path_of(location, day, k).encode()),
            _FORMAT,
            b"\x02",
            encoded_long(FIRST_DAY + day),
            encoded_long(ROWS),
            encoded_long((128 << 20) + k),
            _STATISTICS,
            _bounds(lower),
            _bounds(upper),
            b"\x00\x00\x00\x02\x02",  # key metadata, splits, equality; sort order 1
        ]
    )


def write_file(table: Table, day: int, k: int, per_day: int) -> tuple[int, datetime.datetime]:
    """Makes one of the data files real; returns a key that is in it."""
    first, last = users_of(k, per_day)
    users = sorted(random.sample(range(first, last + 1), ROWS))
    begin = (FIRST_DAY + day) * _DAY
    stamps = [begin + 10**9 + i for i in range(ROWS)]
    rows = pa.table(
        {
            "event_ts": pa.array(stamps, pa.int64()).cast(pa.timestamp("us")),
            "user_id": users,
            "region": ["eu"] * ROWS,
            "action": ["view"] * ROWS,
            "price": [1.0] * ROWS,
            "session": ["0"] * ROWS,
            "page": ["/"] * ROWS,
            "count": pa.array([1] * ROWS, pa.int32()),
        }
    )
    rows = rows.cast(table.schema)
    path = path_of(table.location, day, k).removeprefix("file://")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    nb.write(rows, path, cluster_by=["user_id", "event_ts"])
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=stamps[ROWS // 2])
    return users[ROWS // 2], at


def _measured(name: str, action: Callable[[], Any], times: int = 5) -> dict[str, Any]:
    costs, found = [], None
    for _ in range(times):
        begin = time.process_time()
        found = action()
        costs.append(time.process_time() - begin)
    costs.sort()
    shown = {"what": name, "cpu_ms": round(costs[len(costs) // 2] * 1e3, 2), "found": found}
    print(json.dumps(shown), flush=True)
    return shown


def measure(table: Table, files: int, per_day: int) -> Iterator[dict[str, Any]]:
    """Plans, lookups and a commit, each in the median of some runs."""
    days = -(-files // per_day)
    user = USERS // 2 + 1
    first = FIRST_DAY + days // 2
    week = (
        f"event_ts >= TIMESTAMP '1970-01-01' + INTERVAL {first} DAY "
        f"AND event_ts < TIMESTAMP '1970-01-01' + INTERVAL {first + 7} DAY AND user_id = {user}"
    )

    def cold(filter: str | None) -> Callable[[], Any]:
        def run() -> Any:
            plan.clear_caches()
            one = table.catalog.table("bench.events")
            rows = one._current.for_filter(filter)
            return {"files": rows.num_files, "reads": one._metadata.reads}

        return run

    yield _measured("week and user, cold", cold(week))
    yield _measured("user alone, cold", cold(f"user_id = {user}"))
    day, k = days // 2, per_day // 2
    key = write_file(table, day, k, per_day)
    yield _measured("lookup, first", lambda: table.get(key) is not None, 1)
    yield _measured("lookup, warm", lambda: sum(table.get(key) is not None for _ in range(100)))
    row = table.get(key)
    yield _measured("commit of one file", lambda: bool(table.append([row])), 3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"what": "peak memory", "MB": memory}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--per-day", type=int, default=1400)
    parser.add_argument("--misaligned", action="store_true")
    parser.add_argument("--keep", action="store_true", help="measure a table made before")
    options = parser.parse_args()
    if not options.keep:
        shutil.rmtree(options.directory, ignore_errors=True)
        begin = time.process_time()
        make_table(
            options.directory, options.files, per_day=options.per_day,
            aligned=not options.misaligned,
        )  # fmt: skip
        print(json.dumps({"what": "made", "cpu_s": round(time.process_time() - begin, 1)}))
    table = nb.connect(options.directory).table("bench.events")
    begin = time.process_time()
    print(table.rewrite_manifests(), f"{time.process_time() - begin:.1f} s of processor time")
    for _ in measure(table, options.files, options.per_day):
        pass


if __name__ == "__main__":
    main()
