"""What upserts by key cost, in processor time, and what reading costs after them.

python -m bench.tables.upserts DIRECTORY                        20M rows of 8 columns in 20 files
python -m bench.tables.upserts DIRECTORY --peers nimble,lance,ducklake,delta,pyiceberg
python -m bench.tables.upserts DIRECTORY --rows 2000000 --counts 1000,10000 --key uuid

Every file has keys from all over the table, so that each may have every key that is asked for.
Half of the keys of a batch are new. A table is built where there is none in the directory yet;
the batches change it and are taken back, or a copy of it. Times are of the process with all its
threads. The peers come from PyPI: pylance, duckdb with duckdb-extension-ducklake of its release,
deltalake, pyiceberg.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
import sys
import tempfile
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
    "sort": ("nimblepy.table.changing.upsert", "KeyedRows"),
    "locate": ("nimblepy.table.changing.key_positions", "KeyPositions.find"),
    "write rows": ("nimblepy.table.changing.upsert", "write_rows"),
    "write deletes": ("nimblepy.table.changing.row_commit", "write_deletion"),
    "commit": ("nimblepy.table.changing.row_commit", "run"),
}
# The columns of the key, by what it is called.
KEYS = {"int64": ["key"], "uuid": ["key"], "user_ts": ["user", "ts"]}

Numbers = np.ndarray[Any, Any]


def mixed(numbers: Numbers, salt: int) -> Numbers:
    """Numbers that look random, one for each (the end of splitmix64)."""
    z = numbers.astype(np.uint64) + np.uint64(salt)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def texts(letters: Numbers) -> pa.StringArray:
    """Texts of one length from a row of letters each."""
    count, width = letters.shape
    offsets = pa.py_buffer((np.arange(count + 1) * width).astype(np.int32))
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters.tobytes()))


def hexadecimal(digits: Numbers) -> Numbers:
    return np.where(digits < 10, digits + 48, digits + 87).astype(np.uint8)


def uuids(numbers: Numbers) -> pa.StringArray:
    """A UUID as text for each number, as random as one of version 4."""
    halves = [mixed(numbers, salt).astype(">u8").view(np.uint8).reshape(-1, 8) for salt in (1, 2)]
    octets = np.concatenate(halves, axis=1)
    digits = hexadecimal(np.stack((octets >> 4, octets & 15), axis=2).reshape(-1, 32))
    letters = np.full((len(numbers), 36), ord("-"), dtype=np.uint8)
    letters[:, [i for i in range(36) if i not in (8, 13, 18, 23)]] = digits
    return texts(letters)


def columns(numbers: Numbers, seed: int, key: str) -> pa.Table:
    """Eight columns of rows with the keys of these numbers, in the order of the key."""
    made, count = np.random.default_rng(seed), len(numbers)
    by_user = key == "user_ts"
    user = mixed(numbers, 3) % 1_000_000 if by_user else made.integers(0, 1_000_000, count)
    late = 0 if by_user else made.integers(0, 1000, count)
    region = pa.DictionaryArray.from_arrays(
        pa.array(made.integers(0, 10, count).astype(np.int32)), REGIONS
    )
    name = texts(hexadecimal(made.integers(0, 16, (count, 7)).astype(np.uint8)))
    table = pa.table(
        {
            "key": uuids(numbers) if key == "uuid" else pa.array(numbers, pa.int64()),
            "ts": pa.array(1_700_000_000_000 + numbers * 7 + late, pa.int64()),
            "user": pa.array(user.astype(np.int32)),
            "region": region.cast(pa.string()),
            "amount": pa.array(np.round(made.gamma(2, 50, count), 2)),
            "qty": pa.array(made.integers(1, 100, count).astype(np.int32)),
            "name": name,
            "flag": pa.array(made.integers(0, 2, count).astype(bool)),
        }
    )
    return table.sort_by([(column, "ascending") for column in KEYS[key]])


def parts(rows: int, key: str) -> Iterator[pa.Table]:
    """The table's rows: even numbers, dealt to files at random, each in the order of the key."""
    numbers = np.random.default_rng(1).permutation(rows).astype(np.int64) * 2
    for i, mine in enumerate(np.split(numbers, FILES)):
        yield columns(mine, i, key)


def batch(seed: int, rows: int, count: int, key: str) -> pa.Table:
    """Rows in any order, half of them with keys that are there, which are even."""
    made = np.random.default_rng(10_000 + seed)
    numbers = made.choice(rows, count, replace=False).astype(np.int64) * 2
    numbers[made.permutation(count)[: count - count // 2]] += 1
    table = columns(numbers, 77 + seed, key)
    return table.take(pa.array(made.permutation(count)))


class Nimble:
    """A table of nimble files."""

    def __init__(self, directory: Path, rows: int, key: str) -> None:
        import nimblepy as nb

        place = directory / f"nimble-{rows}-{key}"
        self._names = KEYS[key]
        self.lake = nb.connect(place)
        if "a.b" not in (self.lake.tables() if self.lake.namespaces() else []):
            table = self.lake.create_table(
                "a.b", columns(np.empty(0, np.int64), 0, key).schema, primary_key=self._names
            )
            for part in parts(rows, key):
                table.append(part, presorted=True)
            table.tag("built")
        self.table = self.lake.table("a.b")
        self._start = self.table.tags["built"]
        if self.table.snapshot != self._start:  # a run before this one was stopped
            self.table.rollback(self._start)
        self.before = self.table.at(snapshot=self._start)

    def upsert(self, rows: pa.Table) -> int:
        return self.table.upsert(rows).bytes_written

    def delete(self, keys: pa.Table) -> int:
        return self.table.delete(keys=keys).bytes_written

    def scan(self) -> int:
        return _scan(self.table)

    def lookup(self, keys: pa.Table) -> int:
        return self.table.lookup(keys, on=self._names).num_rows

    def alone(self, rows: pa.Table) -> int:
        """Bytes of a file of these rows."""
        import nimblepy as nb

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.nimble"
            nb.write(rows, path, cluster_by=self._names, unique=True)
            return path.stat().st_size

    def compare(self, keys: pa.Table) -> None:
        """Reads the table as it was and as it is, in turns."""
        wanted = [tuple(row.values()) for row in keys.slice(0, 1000).to_pylist()]
        one = [row if len(row) > 1 else row[0] for row in wanted]

        def gets(table: Any) -> int:
            return sum(table.get(item) is not None for item in one)

        steps: dict[str, Callable[[Any], int]] = {
            "scan of 2 columns": _scan,
            "get of 1,000": gets,
            "lookup of 10,000": lambda table: table.lookup(keys, on=self._names).num_rows,
        }
        for what, step in steps.items():
            times: tuple[list[float], list[float]] = ([], [])
            for turn in range(8):
                for table, spent in zip((self.before, self.table), times, strict=True):
                    processor, _, _ = timed(functools.partial(step, table))
                    if turn:  # the first one opens files
                        spent.append(processor)
            before, after = (statistics.median(spent) for spent in times)
            print(f"  {what:30}{before:10,.1f} ms before{after:10,.1f} ms after: ", end="")
            print(f"{after / before:.2f}", flush=True)

    def conflicts(self, rows: int, key: str) -> None:
        """What it costs a writer of 10,000 keys that five others were first."""
        from nimblepy.table.changing.key_positions import KeyPositions, key_ids

        mine = batch(2000, rows, 10_000, key).select(self._names)
        mine = mine.sort_by([(name, "ascending") for name in self._names])
        found = []
        for turn in range(4):
            ids = key_ids(self.table._current.schema, self._names)
            positions = KeyPositions(ids, lambda: iter([(0, mine)]))
            positions.find(self.table._current)
            for i in range(5):
                self.table.upsert(batch(3000 + 10 * turn + i, rows, 10_000, key))
            newest = self.table._current
            found.append(timed(functools.partial(positions.find, newest)))
        shown("10,000 keys against 5 new files", found[1:])
        print(flush=True)

    def close(self) -> None:
        """Leaves the table as it was found."""
        if self.table.snapshot != self._start:
            self.table.rollback(self._start)
            self.table.expire(keep=1)


def _scan(table: Any) -> int:
    return sum(b.num_rows for b in table.scan(["user", "amount"]).to_batches())


class Lance:
    """A dataset of Lance with a BTree on the key, where that is one column."""

    def __init__(self, directory: Path, rows: int, key: str) -> None:
        import lance

        self._names = KEYS[key]
        built, self.place = directory / f"lance-{rows}-{key}", directory / "lance-changed"
        if not built.exists():
            for part in parts(rows, key):
                lance.write_dataset(part, built, mode="append" if built.exists() else "create")
            if len(self._names) == 1:
                lance.dataset(built).create_scalar_index(self._names[0], "BTREE")
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(built, self.place)
        self.data = lance.dataset(self.place)

    def upsert(self, rows: pa.Table) -> int:
        merge = self.data.merge_insert(self._names).when_matched_update_all()
        merge.when_not_matched_insert_all().execute(rows)
        return 0

    def delete(self, keys: pa.Table) -> int:
        self.data.delete(_any_of(keys))
        return 0

    def scan(self) -> int:
        found = self.data.scanner(columns=["user", "amount"]).to_batches()
        return sum(b.num_rows for b in found)

    def lookup(self, keys: pa.Table) -> int:
        return int(self.data.scanner(filter=_any_of(keys)).to_table().num_rows)

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def _any_of(keys: pa.Table) -> str:
    """An expression for the rows with these keys."""
    if keys.num_columns == 1:
        return f"{keys.column_names[0]} IN ({', '.join(map(repr, keys.column(0).to_pylist()))})"
    rows = (
        " AND ".join(f"{name} = {value!r}" for name, value in row.items())
        for row in keys.to_pylist()
    )
    return " OR ".join(f"({row})" for row in rows)


class DuckLake:
    """A table of DuckLake."""

    def __init__(self, directory: Path, rows: int, key: str) -> None:
        import duckdb
        import duckdb_extension_ducklake as extension

        self._names = KEYS[key]
        self.place = directory / "ducklake-changed"
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        found = Path(extension.__path__[0]).rglob("ducklake.duckdb_extension")
        self.run = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self.run.execute("SET autoinstall_known_extensions = false")
        self.run.load_extension(str(next(found)))
        self.run.execute(
            f"ATTACH 'ducklake:{self.place}/meta.db' AS lake (DATA_PATH '{self.place}/data/')"
        )
        self.run.register("part", columns(np.empty(0, np.int64), 0, key))
        self.run.execute("CREATE TABLE lake.t AS SELECT * FROM part")
        for part in parts(rows, key):
            self.run.register("part", part)
            self.run.execute("INSERT INTO lake.t SELECT * FROM part")

    def upsert(self, rows: pa.Table) -> int:
        names = rows.column_names
        self.run.register("changes", rows)
        on = " AND ".join(f"t.{name} = s.{name}" for name in self._names)
        self.run.execute(
            f"MERGE INTO lake.t AS t USING changes AS s ON {on} "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{n} = s.{n}' for n in names)} "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{n}' for n in names)})"
        )
        return 0

    def delete(self, keys: pa.Table) -> int:
        self.run.register("gone", keys)
        names = ", ".join(self._names)
        self.run.execute(f"DELETE FROM lake.t WHERE ({names}) IN (SELECT ({names}) FROM gone)")
        return 0

    def scan(self) -> int:
        found = self.run.execute("SELECT user, amount FROM lake.t").to_arrow_reader()
        return sum(b.num_rows for b in found)

    def lookup(self, keys: pa.Table) -> int:
        self.run.register("asked", keys)
        names = ", ".join(self._names)
        found = self.run.execute(f"SELECT t.* FROM lake.t t SEMI JOIN asked USING ({names})")
        return int(found.to_arrow_table().num_rows)

    def close(self) -> None:
        self.run.close()
        shutil.rmtree(self.place, ignore_errors=True)


class Delta:
    """A table of delta-rs, which writes files anew that have one of the keys."""

    def __init__(self, directory: Path, rows: int, key: str) -> None:
        from deltalake import write_deltalake

        self._names = KEYS[key]
        self.place = directory / "delta-changed"
        shutil.rmtree(self.place, ignore_errors=True)
        for i, part in enumerate(parts(rows, key)):
            write_deltalake(self.place, part, mode="append" if i else "error")

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.place)

    def upsert(self, rows: pa.Table) -> int:
        on = " AND ".join(f"t.{name} = s.{name}" for name in self._names)
        merge = self._table().merge(rows, on, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return 0

    def delete(self, keys: pa.Table) -> int:
        on = " AND ".join(f"t.{name} = s.{name}" for name in self._names)
        merge = self._table().merge(keys, on, source_alias="s", target_alias="t")
        merge.when_matched_delete().execute()
        return 0

    def scan(self) -> int:
        from deltalake import QueryBuilder

        found = QueryBuilder().register("t", self._table()).execute("SELECT user, amount FROM t")
        return sum(pa.record_batch(b).num_rows for b in found)

    def lookup(self, keys: pa.Table) -> int:
        from deltalake import QueryBuilder

        text = f"SELECT * FROM t WHERE {_any_of(keys)}"
        found = QueryBuilder().register("t", self._table()).execute(text)
        return sum(pa.record_batch(b).num_rows for b in found)

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


class PyIceberg:
    """A table of pyiceberg, which writes files anew that have one of the keys."""

    def __init__(self, directory: Path, rows: int, key: str) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self._names = KEYS[key]
        self.place = directory / "pyiceberg-changed"
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        catalog = SqlCatalog(
            "bench", uri=f"sqlite:///{self.place}/catalog.db", warehouse=f"file://{self.place}"
        )
        catalog.create_namespace("a")
        self.table = catalog.create_table("a.b", columns(np.empty(0, np.int64), 0, key).schema)
        for part in parts(rows, key):
            self.table.append(part)

    def upsert(self, rows: pa.Table) -> int:
        self.table.upsert(rows, join_cols=self._names)
        return 0

    def _filter(self, keys: pa.Table) -> Any:
        from pyiceberg.table.upsert_util import create_match_filter

        return create_match_filter(keys, self._names)

    def delete(self, keys: pa.Table) -> int:
        self.table.delete(self._filter(keys))
        return 0

    def scan(self) -> int:
        found = self.table.scan(selected_fields=("user", "amount")).to_arrow_batch_reader()
        return sum(b.num_rows for b in found)

    def lookup(self, keys: pa.Table) -> int:
        return int(self.table.scan(row_filter=self._filter(keys)).to_arrow().num_rows)

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


PEERS: dict[str, Callable[[Path, int, str], Any]] = {
    "nimble": Nimble,
    "lance": Lance,
    "ducklake": DuckLake,
    "delta": Delta,
    "pyiceberg": PyIceberg,
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


def shown(what: str, found: list[tuple[float, float, Any]]) -> None:
    """A line of medians, without its end."""
    processor, wall = (statistics.median(one[i] for one in found) for i in (0, 1))
    print(f"  {what:40}{processor:10,.1f} ms{wall:10,.0f} ms wall", end="")


def reading(peer: Any, keys: pa.Table, note: str, times: int) -> None:
    for what, step in (("scan of 2 columns", peer.scan), ("lookup", lambda: peer.lookup(keys))):
        if times > 1:
            step()
        found = [timed(step) for _ in range(times)]
        shown(what + note, found)
        print(f"{found[0][2]:12,} rows", flush=True)


def measure(name: str, asked: argparse.Namespace) -> None:
    rows, key = asked.rows, asked.key
    peer = PEERS[name](asked.directory, rows, key)
    print(f"{name}: {rows:,} rows in {FILES} files, key {key}", flush=True)
    keys = batch(999, rows, 10_000, key).select(KEYS[key])
    again = min(3, asked.times)
    try:
        if not asked.changes_only:
            reading(peer, keys, " before", again)
        for count in asked.counts:
            spent: dict[str, float] = {}
            found = []
            with stages(spent) if name == "nimble" else _nothing():
                for i in range(asked.times if count < 1_000_000 else 1):
                    data = batch(i, rows, count, key)
                    found.append(timed(functools.partial(peer.upsert, data)))
            shown(f"upsert of {count:,}", found)
            if found[-1][2]:
                print(f"{found[-1][2]:12,} bytes, {found[-1][2] / peer.alone(data):.2f} of", end="")
                print(" the rows alone: ", end="")
            parts_of = ((stage, ms / len(found) * 1e3) for stage, ms in spent.items())
            print(", ".join(f"{stage} {ms:,.1f}" for stage, ms in parts_of), flush=True)
            if name == "nimble" and count == 10_000:
                peer.compare(keys)
                peer.conflicts(rows, key)
        if not asked.changes_only:
            reading(peer, keys, " after the upserts", again)
        found = []
        for i in range(again):
            gone = batch(5000 + i, rows, 10_000, key).select(KEYS[key])
            found.append(timed(functools.partial(peer.delete, gone)))
        shown("delete of 10,000 keys", found)
        print(flush=True)
    finally:
        peer.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tables.upserts", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument(
        "--counts",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[10_000, 1000],
    )
    parser.add_argument("--key", choices=KEYS, default="int64")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--peers", default="nimble")
    parser.add_argument("--changes-only", action="store_true", help="reading is not measured")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    for name in asked.peers.split(","):
        measure(name, asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
