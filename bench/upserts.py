"""What upserts by key cost, in processor time, and what reading costs after them.

python -m bench.upserts DIRECTORY                        20M rows of 8 columns in 20 files
python -m bench.upserts DIRECTORY --peers nimble,lance,ducklake
python -m bench.upserts DIRECTORY --rows 2000000 --keys 1000,10000

Every file has keys from all over the table, so that each may have every key that is asked for.
Half of the keys of a batch are new. The table is built where there is none in the directory yet;
the batches change a copy of it. Times are of the process with all its threads.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

FILES = 20
REGIONS = pa.array([f"region-{i:02d}" for i in range(10)])
# (module, function) of each stage of an upsert.
STAGES = {
    "sort": ("nimblepy.table.upsert", "KeyedRows"),
    "locate": ("nimblepy.table.key_positions", "KeyPositions.find"),
    "write rows": ("nimblepy.table.upsert", "write_rows"),
    "write deletes": ("nimblepy.table.row_changes", "write_deletes"),
    "commit": ("nimblepy.table.table", "run"),
}


def columns(keys: np.ndarray[Any, Any], seed: int) -> pa.Table:
    """Eight columns of rows with these keys."""
    made, count = np.random.default_rng(seed), len(keys)
    region = pa.DictionaryArray.from_arrays(
        pa.array(made.integers(0, 10, count).astype(np.int32)), REGIONS
    )
    digits = made.integers(0, 16, (count, 7)).astype(np.uint8)
    digits = np.where(digits < 10, digits + 48, digits + 87).astype(np.uint8)
    offsets = pa.py_buffer((np.arange(count + 1) * 7).astype(np.int32))
    name = pa.StringArray.from_buffers(count, offsets, pa.py_buffer(digits.tobytes()))
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "ts": pa.array(1_700_000_000_000 + keys * 7 + made.integers(0, 1000, count)),
            "user": pa.array(made.integers(0, 1_000_000, count).astype(np.int32)),
            "region": region.cast(pa.string()),
            "amount": pa.array(np.round(made.gamma(2, 50, count), 2)),
            "qty": pa.array(made.integers(1, 100, count).astype(np.int32)),
            "name": name,
            "flag": pa.array(made.integers(0, 2, count).astype(bool)),
        }
    )


def parts(rows: int) -> Iterator[pa.Table]:
    """The table's rows: even keys, dealt to files at random, ascending in each."""
    keys = np.random.default_rng(1).permutation(rows).astype(np.int64) * 2
    for i, mine in enumerate(np.split(keys, FILES)):
        yield columns(np.sort(mine), i)


def batch(seed: int, rows: int, count: int) -> pa.Table:
    """Keys at random, half of them old ones, which are even."""
    made = np.random.default_rng(10_000 + seed)
    keys = made.choice(rows, count, replace=False).astype(np.int64) * 2
    keys[made.permutation(count)[: count - count // 2]] += 1
    return columns(keys, 77 + seed)


class Nimble:
    """A table of nimble files."""

    def __init__(self, directory: Path, rows: int) -> None:
        import nimblepy as nb

        place = directory / f"nimble-{rows}"
        self.lake = nb.connect(place)
        if not place.exists() or "a.b" not in (
            self.lake.tables() if self.lake.namespaces() else []
        ):
            table = self.lake.create_table(
                "a.b", columns(np.empty(0, np.int64), 0).schema, primary_key="key"
            )
            for part in parts(rows):
                table.append(part, presorted=True)
        self.table = self.lake.table("a.b")
        self._start = self.table.snapshot

    def upsert(self, rows: pa.Table) -> int:
        return self.table.upsert(rows).bytes_written

    def delete(self, keys: pa.Array) -> int:
        return self.table.delete(keys=keys).bytes_written

    def scan(self) -> int:
        return sum(b.num_rows for b in self.table.scan(["user", "amount"]).to_batches())

    def lookup(self, keys: pa.Array) -> int:
        return self.table.lookup(keys).num_rows

    def close(self) -> None:
        """Leaves the table as it was found."""
        if self._start is not None and self.table.snapshot != self._start:
            self.table.rollback(self._start)
            self.table.expire(keep=1)


class Lance:
    """A dataset of Lance with a BTree on the key."""

    def __init__(self, directory: Path, rows: int) -> None:
        import lance

        built, self.place = directory / f"lance-{rows}", directory / "lance-changed"
        if not built.exists():
            for part in parts(rows):
                lance.write_dataset(part, built, mode="append" if built.exists() else "create")
            lance.dataset(built).create_scalar_index("key", "BTREE")
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(built, self.place)
        self.data = lance.dataset(self.place)

    def upsert(self, rows: pa.Table) -> int:
        merge = self.data.merge_insert("key").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(rows)
        return 0

    def delete(self, keys: pa.Array) -> int:
        self.data.delete(f"key IN ({', '.join(map(str, keys.to_pylist()))})")
        return 0

    def scan(self) -> int:
        found = self.data.scanner(columns=["user", "amount"]).to_batches()
        return sum(b.num_rows for b in found)

    def lookup(self, keys: pa.Array) -> int:
        wanted = ", ".join(map(str, keys.to_pylist()))
        return int(self.data.scanner(filter=f"key IN ({wanted})").to_table().num_rows)

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


class DuckLake:
    """A table of DuckLake; its extension comes from the package duckdb_extension_ducklake."""

    def __init__(self, directory: Path, rows: int) -> None:
        import duckdb
        import duckdb_extension_ducklake as extension

        self.place = directory / "ducklake-changed"
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        found = Path(str(extension.__file__)).parent.rglob("ducklake.duckdb_extension")
        self.run = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self.run.load_extension(str(next(found)))
        self.run.execute(
            f"ATTACH 'ducklake:{self.place}/meta.db' AS lake (DATA_PATH '{self.place}/data/')"
        )
        self.run.register("part", columns(np.empty(0, np.int64), 0))
        self.run.execute("CREATE TABLE lake.t AS SELECT * FROM part")
        for part in parts(rows):
            self.run.register("part", part)
            self.run.execute("INSERT INTO lake.t SELECT * FROM part")

    def upsert(self, rows: pa.Table) -> int:
        names = rows.column_names
        self.run.register("changes", rows)
        self.run.execute(
            "MERGE INTO lake.t AS t USING changes AS s ON t.key = s.key "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{n} = s.{n}' for n in names)} "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{n}' for n in names)})"
        )
        return 0

    def delete(self, keys: pa.Array) -> int:
        self.run.register("gone", pa.table({"key": keys}))
        self.run.execute("DELETE FROM lake.t WHERE key IN (SELECT key FROM gone)")
        return 0

    def scan(self) -> int:
        found = self.run.execute("SELECT user, amount FROM lake.t").to_arrow_reader()
        return sum(b.num_rows for b in found)

    def lookup(self, keys: pa.Array) -> int:
        self.run.register("asked", pa.table({"key": keys}))
        found = self.run.execute("SELECT t.* FROM lake.t t SEMI JOIN asked USING (key)")
        return int(found.to_arrow_table().num_rows)

    def close(self) -> None:
        self.run.close()
        shutil.rmtree(self.place, ignore_errors=True)


PEERS: dict[str, Callable[[Path, int], Any]] = {
    "nimble": Nimble,
    "lance": Lance,
    "ducklake": DuckLake,
}


@contextmanager
def stages(spent: dict[str, float]) -> Iterator[None]:
    """Counts processor time of each stage of an upsert."""
    import importlib

    patched = []
    for stage, (module, name) in STAGES.items():
        owner: Any = importlib.import_module(module)
        *path, last = name.split(".")
        for step in path:
            owner = getattr(owner, step)
        plain = getattr(owner, last)
        patched.append((owner, last, plain))
        setattr(owner, last, _counted(plain, stage, spent))
    try:
        yield
    finally:
        for owner, last, plain in patched:
            setattr(owner, last, plain)


def _counted(plain: Any, stage: str, spent: dict[str, float]) -> Any:
    @functools.wraps(plain)
    def counted(*arguments: Any, **keywords: Any) -> Any:
        begin = time.process_time()
        try:
            return plain(*arguments, **keywords)
        finally:
            spent[stage] = spent.get(stage, 0.0) + time.process_time() - begin

    return counted


def timed(step: Callable[[], Any]) -> tuple[float, float, Any]:
    """(processor, wall) milliseconds of a step, and what it gives."""
    wall, processor = time.perf_counter(), time.process_time()
    found = step()
    return (time.process_time() - processor) * 1e3, (time.perf_counter() - wall) * 1e3, found


def reading(peer: Any, keys: pa.Array, note: str) -> None:
    for what, step in (("scan of 2 columns", peer.scan), ("lookup", lambda: peer.lookup(keys))):
        step()
        found = [timed(step) for _ in range(3)]
        processor, wall = (statistics.median(f[i] for f in found) for i in (0, 1))
        print(f"  {what + note:40}{processor:10,.0f} ms{wall:10,.0f} ms wall{found[0][2]:12,} rows")
        sys.stdout.flush()


def measure(name: str, directory: Path, rows: int, counts: list[int], times: int) -> None:
    peer = PEERS[name](directory, rows)
    print(f"{name}: {rows:,} rows in {FILES} files", flush=True)
    asked = batch(999, rows, counts[-1] if counts[-1] <= 10_000 else 10_000)["key"].combine_chunks()
    try:
        reading(peer, asked, " before")
        for count in counts:
            spent: dict[str, float] = {}
            found = []
            with stages(spent):
                for i in range(times if count < 1_000_000 else 1):
                    data = batch(i, rows, count)
                    found.append(timed(functools.partial(peer.upsert, data)))
            processor, wall = (statistics.median(f[i] for f in found) for i in (0, 1))
            print(f"  upsert of {count:<30,}{processor:10,.1f} ms{wall:10,.0f} ms wall", end="")
            print(f"{found[-1][2]:12,} bytes  " if found[-1][2] else "  ", end="")
            shown = ((s, t / len(found) * 1e3) for s, t in spent.items())
            print(", ".join(f"{stage} {ms:,.1f}" for stage, ms in shown), flush=True)
        reading(peer, asked, " after the upserts")
        gone = batch(5000, rows, 10_000)["key"].combine_chunks()
        processor, wall, _ = timed(lambda: peer.delete(gone))
        print(f"  {'delete of 10,000 keys':40}{processor:10,.1f} ms{wall:10,.0f} ms wall")
    finally:
        peer.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.upserts", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--keys", default="1000,10000")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--peers", default="nimble")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    counts = [int(text) for text in arguments.keys.split(",")]
    for name in arguments.peers.split(","):
        measure(name, arguments.directory, arguments.rows, counts, arguments.times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
