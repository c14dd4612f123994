"""Equality deletes of other engines, against a list of rows with sequence numbers."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import java_iceberg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from equality_deletes import commit, delete_file, same_as

import nimblepy as nb
from nimblepy.errors import CorruptFileError, NimbleError, UnsupportedVersionError
from nimblepy.table.reading.equality import _without_duplicates
from nimblepy.table.reading.plan import clear_caches

Rows = list[dict[str, Any]]

KINDS = {
    "k": pa.int64(),
    "p": pa.string(),
    "g": pa.string(),
    "f": pa.float64(),
    "d": pa.decimal128(9, 2),
    "t": pa.date32(),
    "b": pa.binary(),
    "z": pa.bool_(),
}
VALUES: dict[str, list[Any]] = {
    "p": ["x", "y"],
    "g": [None, "", "a", "b", "a\x00"],
    "f": [None, 0.0, -0.0, math.nan, 1.5, math.inf, -math.inf],
    "d": [None, Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99")],
    "t": [None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    "b": [None, b"", b"\x00", b"\xff"],
    "z": [None, True, False],
}


def row(rng: random.Random, key: int) -> dict[str, Any]:
    return {"k": key} | {name: rng.choice(VALUES[name]) for name in VALUES}


def arrow(rows: Rows, names: list[str] | None = None) -> pa.Table:
    schema = pa.schema([(name, KINDS[name]) for name in names or KINDS])
    return pa.Table.from_pylist(rows, schema)


def shown(rows: Rows) -> list[str]:
    return sorted(repr(sorted((k, same_as(v)) for k, v in item.items())) for item in rows)


class History:
    """A table, and what its rows must be."""

    def __init__(self, lake: nb.Catalog, folder: Path, seed: int, **options: Any) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.lake = lake
        self.table = lake.create_table(
            "n.t",
            pa.schema([pa.field(n, kind, n != "k") for n, kind in KINDS.items()]),
            primary_key="k",
            **options,
        )
        self.parts = bool(options.get("partition_by"))
        self.rows: dict[int, dict[str, Any]] = {}
        self.past: list[tuple[int, dict[int, dict[str, Any]]]] = []

    def some(self, count: int) -> Rows:
        keys = self.rng.sample(range(60), count)
        return [row(self.rng, key) for key in keys]

    def put(self, rows: Rows) -> None:
        self.rows.update({item["k"]: item for item in rows})

    def upsert(self) -> None:
        rows = self.some(self.rng.randrange(1, 12))
        self.table.upsert(arrow(rows))
        self.put(rows)

    def delete(self) -> None:
        keys = self.rng.sample(range(60), 3)
        self.table.delete(keys=keys)
        for key in keys:
            self.rows.pop(key, None)

    def equality_delete(self) -> None:
        """Deletes older rows by any columns, and adds rows that it does not delete."""
        rng = self.rng
        names = ["k"] if rng.random() < 0.4 else rng.sample(list(KINDS), rng.randrange(1, 3))
        count = rng.choice([0, 1, 3])
        live = list(self.rows.values())
        keys = [
            rng.choice(live) if live and rng.random() < 0.7 else row(rng, rng.randrange(60))
            for _ in range(count)
        ]
        # In partitioned tables, the file is of one partition, and a key of another is not in it.
        at = (rng.choice(VALUES["p"]),) if self.parts else ()
        file = delete_file(
            self.table, arrow([{n: key[n] for n in names} for key in keys], names), self.folder,
            partition=at,
        )  # fmt: skip
        deleted = {tuple(same_as(key[n]) for n in names) for key in keys}
        self.rows = {
            number: item
            for number, item in self.rows.items()
            if tuple(same_as(item[n]) for n in names) not in deleted
            or (self.parts and item["p"] != at[0])
        }
        absent = [key for key in range(60) if key not in self.rows]
        new = [row(rng, key) for key in rng.sample(absent, rng.choice([0, 0, 2]))]
        commit(self.table, [file], arrow(new) if new else None)
        self.put(new)

    def step(self) -> None:
        weights = {
            self.upsert: 5,
            self.equality_delete: 6,
            self.delete: 2,
            lambda: self.table.compact(): 1,
            lambda: self.table.compact(where_needed=False): 1,
            self.table.convert_deletes: 1,
        }
        self.rng.choices(list(weights), list(weights.values()))[0]()

    def check(self) -> None:
        if self.rng.random() < 0.5:
            clear_caches()
            self.table = self.lake.table("n.t")
        table, expected = self.table, shown(list(self.rows.values()))
        assert shown(table.to_table().to_pylist()) == expected
        assert table.num_rows == table.count_rows() == len(self.rows)
        keys = list(range(60))
        assert shown(table.lookup(keys).to_pylist()) == expected
        assert table.contains(keys).to_pylist() == [key in self.rows for key in keys]
        assert table.count(keys).to_pylist() == [int(key in self.rows) for key in keys]
        key = self.rng.randrange(60)
        one = table.get(key)
        assert shown([one] if one else []) == shown([self.rows[key]] if key in self.rows else [])
        assert shown(table.range(10, 30, on="k").to_pylist()) == shown(
            [item for number, item in self.rows.items() if 10 <= number < 30]
        )
        shipped = pickle.loads(pickle.dumps(table._current))
        assert shown(shipped.read(shipped.all_rows(), None).to_pylist()) == expected
        g = self.rng.choice(["a", "b", ""])
        passing = [item for item in self.rows.values() if item["g"] == g and item["k"] > 7]
        found = table.scan(filter="g = ? AND k > 7", params=[g])
        assert shown(found.to_table().to_pylist()) == shown(passing)
        self.check_past()

    def check_past(self) -> None:
        """Earlier snapshots are as they were, and the changes since then lead to this one."""
        if self.table.snapshot is None:
            return
        kept = set(self.table.snapshots()["snapshot_id"].to_pylist())
        self.past = [item for item in self.past if item[0] in kept]
        if self.past:
            snapshot, rows = self.rng.choice(self.past)
            past = self.table.at(snapshot=snapshot).to_table().to_pylist()
            assert shown(past) == shown(list(rows.values()))
            now = dict(rows)
            for batch in self.table.changes(snapshot):
                for item in batch.to_pylist():
                    change, _ = item.pop("_change"), item.pop("_snapshot")
                    if change in ("delete", "update_before"):
                        assert shown([now.pop(item["k"])]) == shown([item])
                    else:
                        assert item["k"] not in now
                        now[item["k"]] = item
            assert shown(list(now.values())) == shown(list(self.rows.values()))
        if not self.past or self.past[-1][0] != self.table.snapshot:
            self.past.append((self.table.snapshot, dict(self.rows)))


LAYOUTS: dict[str, dict[str, Any]] = {
    "nimble": {"cluster_by": "k"},
    "parquet": {"cluster_by": "k", "data_format": "parquet"},
    "partitioned": {"cluster_by": "k", "partition_by": ["p"]},
    "hash index": {"cluster_by": "k", "indexes": [nb.HashIndex(["g"])]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(2))
def test_random_histories(lake: nb.Catalog, tmp_path: Path, layout: str, seed: int) -> None:
    history = History(lake, tmp_path, seed, **LAYOUTS[layout])
    history.upsert()
    for _ in range(8):
        history.step()
        history.check()


def keys_of(table: nb.Table) -> list[int]:
    return sorted(table.to_table(["k"])["k"].to_pylist())


FORMATS = pytest.mark.parametrize("data_format", ["nimble", "parquet"])


@FORMATS
def test_columns_that_changed_since(lake: nb.Catalog, tmp_path: Path, data_format: str) -> None:
    """Columns are compared by field id, also if they were renamed, dropped, widened or added."""
    data = pa.table({"k": pa.array(range(6), pa.int32()), "g": list("aabbcc"), "h": [1] * 6})
    table = lake.create_table("n.t", data, data_format=data_format)
    with table.alter() as a:
        a.add_column("new", pa.int32())
    old = table._metadata.schema_id
    table.append(
        pa.table({"k": [10, 11], "g": ["a", "c"], "h": [2, 2], "new": [None, 5]}), cast=True
    )
    commit(table, [delete_file(table, pa.table({"g": ["a"]}), tmp_path)])
    with table.alter() as a:
        a.rename_column("g", "other")
        a.widen("k", pa.int64())
    assert keys_of(table) == [2, 3, 4, 5, 11]
    with table.alter() as a:
        a.drop_column("other")
        a.add_column("g", pa.string())
    clear_caches()
    table = lake.table("n.t")
    assert keys_of(table) == [2, 3, 4, 5, 11]
    # A writer that does not know the change.
    late = pa.table({"k": pa.array([3], pa.int32()), "g": ["b"]})
    commit(table, [delete_file(table, late, tmp_path, schema_id=old)])
    assert keys_of(table) == [2, 4, 5, 11]
    # Files without the column have null in it.
    commit(table, [delete_file(table, pa.table({"new": pa.array([None], pa.int32())}), tmp_path)])
    assert keys_of(table) == [11]
    table.convert_deletes()
    clear_caches()
    assert keys_of(lake.table("n.t")) == [11]


@FORMATS
def test_members_of_structs(lake: nb.Catalog, tmp_path: Path, data_format: str) -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.string())])
    values = [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None, {"x": 2, "y": "c"}]
    data = pa.table({"k": range(4), "s": pa.array(values, inner)})
    table = lake.create_table("n.t", data, data_format=data_format)
    number = int(table._metadata.schema().field("s").type.field("x").metadata[b"PARQUET:field_id"])
    whole = pa.table({"s": pa.array([{"x": 2, "y": "other"}, {"x": None, "y": None}], inner)})
    commit(table, [delete_file(table, whole, tmp_path, ids=[number])])
    assert keys_of(table) == [0]


def test_files_without_field_ids(lake: nb.Catalog, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2, 3], "g": ["a", None, "b"]}), tmp_path / "plain.parquet")
    schema = pa.schema([("k", pa.int64()), ("g", pa.string())])
    table = lake.create_table("n.t", schema, data_format="parquet")
    table.add_files(str(tmp_path / "plain.parquet"))
    keys = pa.table({"g": pa.array(["b", None], pa.string())})
    commit(table, [delete_file(table, keys, tmp_path)])
    with table.alter() as a:
        a.rename_column("g", "h")
    assert keys_of(table) == [1]


def test_newer_files_keep_their_rows(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("n.t", pa.table({"k": [1, 2]}), cluster_by="k")
    file = delete_file(table, pa.table({"k": [1, 2]}), tmp_path)
    commit(table, [file], pa.table({"k": [2, 3]}))
    table.append(pa.table({"k": [1]}))
    assert keys_of(table) == [1, 2, 3]
    summary = table._metadata.snapshots[1].summary
    assert summary["added-equality-deletes"] == summary["total-equality-deletes"] == "2"
    done = table.convert_deletes()
    assert (done.files_added, keys_of(table)) == (1, [1, 2, 3])
    assert table._metadata.head().summary["total-equality-deletes"] == "0"
    assert not any(m.equality_deletes for m in table._current.members)
    assert table.convert_deletes().files_added == 0
    assert table.at(snapshot=table._metadata.snapshots[1].id).count([1, 2]).to_pylist() == [0, 1]


def test_partitions_and_specs(lake: nb.Catalog, tmp_path: Path) -> None:
    """Deletes of a partition stay in it; those of an unpartitioned spec apply to all."""
    data = pa.table({"p": ["x", "x", "y", "y"], "k": [1, 2, 1, 2]})
    table = lake.create_table("n.t", data)
    with table.alter() as a:
        a.partition_by(["p"])
    table.append(pa.table({"p": ["x", "y"], "k": [3, 3]}))
    one, three = pa.table({"k": [1, 3]}), pa.table({"k": [3]})
    commit(table, [delete_file(table, one, tmp_path, partition=("x",))])
    assert table.to_table().sort_by([("k", "ascending"), ("p", "ascending")]).to_pylist() == [
        {"p": "x", "k": 1}, {"p": "y", "k": 1}, {"p": "x", "k": 2}, {"p": "y", "k": 2},
        {"p": "y", "k": 3},
    ]  # fmt: skip
    commit(table, [delete_file(table, three, tmp_path, spec_id=0)])
    assert keys_of(table) == [1, 1, 2, 2]
    table.compact()
    clear_caches()
    assert keys_of(lake.table("n.t")) == [1, 1, 2, 2]


def test_compaction_keeps_deletes_of_others(
    lake: nb.Catalog, tmp_path: Path, between: Callable[[Callable[[], Any]], None]
) -> None:
    table = lake.create_table("n.t", pa.table({"k": range(10)}), primary_key="k")
    other = lake.table("n.t")
    file = delete_file(table, pa.table({"k": [3, 4, 99]}), tmp_path)
    between(lambda: commit(other, [file]))
    table.compact(where_needed=False)
    assert keys_of(table) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert table.snapshots()["operation"].to_pylist()[-1] == "replace"


def test_keys_are_looked_up_in_an_index(lake: nb.Catalog, tmp_path: Path) -> None:
    data = pa.table({"k": range(200_000), "v": [i % 7 for i in range(200_000)]})
    table = lake.create_table("n.t", data, cluster_by="k")
    commit(table, [delete_file(table, pa.table({"k": [5, 150_000]}), tmp_path)])
    table.reset_io_stats()
    assert table.num_rows == 199_998
    assert table.io_stats.bytes_read < 200_000
    assert [item.action for item in table.health().advice] == ["convert_deletes"]
    assert table.optimize()["convert_deletes"].files_added == 1
    assert not table.health().advice
    assert table.num_rows == 199_998


DAMAGE: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no columns": ({"equality_ids": ()}, CorruptFileError, "which columns"),
    "an unknown field": ({"equality_ids": (99,)}, CorruptFileError, "no schema"),
    "a column it does not have": ({"equality_ids": (1, 2)}, CorruptFileError, "field id 2"),
    "another number of rows": ({"rows": 7}, CorruptFileError, "7"),
    "Avro": ({"format": "AVRO"}, UnsupportedVersionError, "AVRO"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage(lake: nb.Catalog, tmp_path: Path, what: str) -> None:
    change, kind, message = DAMAGE[what]
    table = lake.create_table("n.t", pa.table({"k": [1, 2], "v": [1, 2]}), cluster_by="k")
    file = delete_file(table, pa.table({"k": [1]}), tmp_path)
    commit(table, [replace(file, **change)])
    steps: list[Callable[[], Any]] = [
        table.to_table, lambda: table.get(1), table.compact, table.convert_deletes, table.verify
    ]  # fmt: skip
    for step in steps:
        with pytest.raises(kind, match=message):
            step()


def test_bytes_of_others_are_errors(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("n.t", pa.table({"k": [1, 2]}), cluster_by="k")
    file = delete_file(table, pa.table({"k": [1]}), tmp_path)
    commit(table, [file])
    octets = Path(file.path).read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        at = rng.randrange(len(octets))
        bad = octets[:at] if rng.random() < 0.3 else octets[:at] + b"\xff" + octets[at + 1 :]
        Path(file.path).write_bytes(bad)
        clear_caches()
        with contextlib.suppress(NimbleError, OSError):
            assert len(lake.table("n.t").to_table()) in (1, 2)


def by_java(jvm: Any, metadata_file: str, names: list[str]) -> list[str]:
    rows = java_iceberg.rows_of(jvm, metadata_file, names)
    return sorted(repr([plain(value) for value in row]) for row in rows)


def ours(table: nb.Table) -> list[str]:
    return sorted(repr([plain(v) for v in row.values()]) for row in table.to_table().to_pylist())


def plain(value: Any) -> Any:
    is_exact = value is None or isinstance(value, (str, int, float))
    return same_as(value) if is_exact else str(value)


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_as_java_reads_its_own_deletes(lake: nb.Catalog, tmp_path: Path) -> None:
    """Random histories of Java, read by us, changed by us, and read by Java again."""
    rng = random.Random(0)
    (tmp_path / "jvm").mkdir()
    with java_iceberg.java(tmp_path / "jvm") as jvm:
        types, spec = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.PartitionSpec
        field = types.NestedField
        columns = [
            field.required(1, "k", types.IntegerType.get()),
            field.optional(2, "g", types.StringType.get()),
            field.optional(3, "f", types.DoubleType.get()),
            field.optional(4, "d", types.DecimalType.of(9, 2)),
            field.optional(5, "t", types.DateType.get()),
        ]
        listed = jvm.java.util.ArrayList()
        for column in columns:
            listed.append(column)
        schema = jvm.org.apache.iceberg.Schema(listed)
        date, decimal = jvm.java.time.LocalDate, jvm.java.math.BigDecimal
        values = {
            "g": [None, "", "a", "b"],
            "f": [None, 0.0, -0.0, math.nan, 1.5],
            "d": [None, decimal("0.00"), decimal("-1.25")],
            "t": [None, date.of(1969, 12, 31), date.of(2024, 2, 29)],
        }

        def new(key: int) -> dict[str, Any]:
            chosen = {name: rng.choice(some) for name, some in values.items()}
            return {"k": key, **chosen}

        names_of = ["k", *values]
        for number in range(12):
            folder = tmp_path / f"java{number}"
            java = java_iceberg.JavaTable(jvm, folder, schema, spec.unpartitioned())
            for _ in range(5):
                rows = [new(rng.randrange(20)) for _ in range(rng.randrange(1, 9))]
                names = rng.sample(["k", *values], rng.randrange(1, 3))
                keys = [new(rng.randrange(20)) for _ in range(rng.randrange(1, 3))]
                keys = [{name: key[name] for name in names} for key in keys]
                # By its bounds, without NaN, Java may skip a file that has NaN and another key.
                together = [keys] if "f" not in names else [[key] for key in keys]
                deletes = [java.equality_delete_file(names, some) for some in together]
                java.commit([java.data_file(rows)], deletes)
            table = lake.register(f"n.t{number}", java.metadata_file)
            assert ours(table) == by_java(jvm, java.metadata_file, names_of)
            [table.convert_deletes, table.compact, partial(table.delete, "k < 5")][number % 3]()
            assert ours(table) == by_java(jvm, table.metadata_location, names_of)


def test_keys_that_occur_often_are_searched_once() -> None:
    """Otherwise each of them would find all rows of its key again."""
    values = pa.array([0.0, -0.0, float("nan"), None, 1.5] * 400)
    keys = pa.table({"a": values, "b": pa.array(["x", "y"] * 1000)})
    once = _without_duplicates(keys).to_pylist()
    assert len(once) == 10
    assert sorted(map(repr, once)) == sorted({repr(row) for row in keys.to_pylist()})
