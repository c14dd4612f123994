"""Appending rows, and reading them with every method."""

from __future__ import annotations

import datetime as dt
import errno
import io
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from catalog_kinds import needs_sqlite

import nimblepy as nb
from nimblepy.table.reading import plan

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "ts": pa.array(
            [dt.datetime(1969, 12, 1) + dt.timedelta(hours=5 * i) for i in range(1000)],
            pa.timestamp("us"),
        ),
        "region": [None if i % 11 == 0 else f"r{i % 4}" for i in range(1000)],
        "x": [float("nan") if i % 13 == 0 else i / 7 for i in range(1000)],
    }
)


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "partition_by",
    [[], ["month(ts)"], ["region"], ["bucket(4, id)", "year(ts)"], ["truncate(100, id)"]],
    ids=str,
)
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_every_reading_method(
    lake: nb.Catalog, tmp_path: Path, partition_by: list[str], data_format: Any
) -> None:
    table = lake.create_table(
        "a.b", ROWS.schema, cluster_by="id", partition_by=partition_by, data_format=data_format
    )
    shuffled = ROWS.take(pa.array(np.random.default_rng(1).permutation(1000)))
    for part in (shuffled.slice(0, 400), shuffled.slice(400)):
        done = table.append(part)
        assert done.rows_inserted == part.num_rows
        assert done.snapshot == table.snapshot
    nb.write(ROWS, tmp_path / "f.nimble", cluster_by="id")
    file = nb.open(tmp_path / "f.nimble")
    assert table.num_rows == 1000
    assert rows(table.to_table()) == rows(ROWS)
    assert repr(table.get(17)) == repr(file.get(17))
    assert table.get(5000) is None
    asked = [5, 900, 5, 2000, 1]
    assert repr(table.lookup(asked, probe_row="p").to_pylist()) == repr(
        file.lookup(asked, probe_row="p").to_pylist()
    )
    assert table.contains(asked).equals(file.contains(asked))
    assert table.count(asked).equals(file.count(asked))
    for arguments in ({"lower": 10, "upper": 600}, {"upper": 77, "reverse": True, "limit": 20}):
        assert rows(table.range(**arguments)) == rows(file.range(**arguments))
        assert table.range(**arguments).column("id").equals(file.range(**arguments).column("id"))
    assert table.prefix(44).num_rows == 1
    for text in (
        "region = 'r1'",
        "region IS NULL AND id > 500",
        "ts < TIMESTAMP '1970-01-01'",
        "x > 100",
        "id IN (1, 2, 3000) OR region = 'r2'",
        "region LIKE 'r%' AND NOT (id < 990)",
    ):
        assert rows(table.to_table(filter=text)) == rows(file.to_table(filter=text)), text
        assert table.count_rows(text) == file.count_rows(text)
    joined = table.index_join(pa.table({"id": [4, 4, -1]}), on="id", how="left")
    assert joined.num_rows == 3
    taken = table.take([0, 999], ["id"])
    assert taken.num_rows == 2
    assert "lookup" in str(table.explain(keys=[5]))
    assert "scan" in str(table.explain(filter="id = 5"))


def test_figures_of_a_commit(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, cluster_by="id")
    done = table.append(ROWS)
    assert (done.rows_inserted, done.rows_deleted, done.files_added) == (1000, 0, 1)
    assert done.bytes_written > 0
    assert done.retries == 0
    last = table.snapshots().to_pylist()[-1]
    assert last["operation"] == "append"
    assert (last["rows_inserted"], last["files_added"]) == (1000, 1)
    assert last["bytes_written"] == done.bytes_written
    nothing = table.append(ROWS.slice(0, 0))
    assert nothing.snapshot == done.snapshot
    assert table.snapshots().num_rows == 2


def test_handles_stay_until_they_are_refreshed(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, cluster_by="id")
    other = lake.table("a.b")
    table.append(ROWS)
    assert (table.num_rows, other.num_rows) == (2000, 1000)
    assert other.get(3) is not None
    assert other.refresh() is other
    assert other.num_rows == 2000
    assert other.count([3]).to_pylist() == [2]


def test_files_are_ordered_and_limited(lake: nb.Catalog) -> None:
    big = pa.table({"k": np.random.default_rng(0).permutation(300_000)})
    table = lake.create_table(
        "a.b", big.schema, cluster_by="k", properties={"write.target-file-size-bytes": "150000"}
    )
    done = table.append(pa.RecordBatchReader.from_batches(big.schema, big.to_batches(10_000)))
    assert done.files_added >= 1
    for path in Path(table.location.removeprefix("file://")).glob("data/*.nimble"):
        with nb.open(path) as file:
            keys = file.to_table().column("k").to_numpy()
            assert (np.diff(keys) > 0).all()


def test_presorted_rows_are_verified(lake: nb.Catalog) -> None:
    for name, data_format in (("a.n", "nimble"), ("a.p", "parquet")):
        table = lake.create_table(name, ROWS.schema, cluster_by="id", data_format=data_format)
        table.append(ROWS, presorted=True)
        with pytest.raises(nb.KeyOrderError):
            table.append(ROWS.take(pa.array([2, 1])), presorted=True)
        assert table.num_rows == 1000
        assert lake.table(name).snapshots().num_rows == 1
        folder = Path(table.location.removeprefix("file://")) / "data"
        assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({"id": [1], "y": [1]}), "unknown column 'y'; the table has id"),
        (pa.table({"id": ["a"]}), "column 'id' is string; the table has int64"),
        (pa.table({"x": [1.0]}), "'id' is missing"),
        (
            pa.table({"id": pa.array([None], pa.int64())}),
            "has 1 nulls, which the table does not allow",
        ),
        (pa.table({"id": [1], "x": ["z"]}), "column 'x' is string"),
    ],
)
def test_rows_that_do_not_fit(lake: nb.Catalog, data: pa.Table, message: str) -> None:
    table = lake.create_table("a.b", ROWS.schema, primary_key="id")
    with pytest.raises(nb.InvalidArgumentError, match=message):
        table.append(data)
    assert table.refresh().snapshot is None
    assert list(Path(table.location.removeprefix("file://")).rglob("data/*")) == []


def test_forms_of_the_same_values_are_taken(lake: nb.Catalog) -> None:
    schema = pa.schema(
        {
            "i": pa.int32(),
            "l": pa.int64(),
            "s": pa.string(),
            "t": pa.timestamp("us", "UTC"),
            "n": pa.struct([("a", pa.int64()), ("b", pa.string())]),
            "k": pa.list_(pa.int64()),
            "m": pa.map_(pa.string(), pa.int64()),
        }
    )
    table = lake.create_table("a.b", schema)
    table.append(
        pa.table(
            {
                "l": pa.array([1, None], pa.uint8()),
                "i": pa.array([5, 6], pa.int64()),
                "s": pa.array(["x", "y"]).dictionary_encode(),
                "t": pa.array([0, 1], pa.timestamp("ms", "Europe/Berlin")),
                "n": pa.array([{"b": "q"}, None], pa.struct([("b", pa.large_string())])),
                "k": pa.array([[1], None], pa.large_list(pa.int32())),
                "m": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
            }
        )
    )
    found = table.to_table()
    assert found.schema.equals(table.schema)
    assert found.drop_columns(["t"]).to_pylist() == [
        {"i": 5, "l": 1, "s": "x", "n": {"a": None, "b": "q"}, "k": [1], "m": [("a", 1)]},
        {"i": 6, "l": None, "s": "y", "n": None, "k": None, "m": []},
    ]
    with pytest.raises(nb.InvalidArgumentError, match="int32"):
        table.append(pa.table({"i": [2**40]}))
    fixed = lake.create_table("a.f", pa.schema({"u": pa.uuid(), "l": pa.list_(pa.binary(2))}))
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        fixed.append(pa.table({"u": pa.array([b"0123456789abcdef", None], kind)}))
        for bad in (b"", b"0123456789abcde", b"0123456789abcdef0"):
            with pytest.raises(nb.InvalidArgumentError, match=r"'u', row 1: .* is not a UUID"):
                fixed.append(pa.table({"u": pa.array([b"0123456789abcdef", bad], kind)}))
        lists = pa.array([[b"ab", None], None], pa.list_(pa.binary()))
        fixed.append(pa.table({"l": lists}))
    with pytest.raises(nb.InvalidArgumentError, match=r"'l', row 0: b'abc' does not fit"):
        fixed.append(pa.table({"l": pa.array([[b"abc"]], pa.list_(pa.binary()))}))
    with pytest.raises(
        nb.InvalidArgumentError, match="'u', row 0: '0123456789abcdef' is not a UUID"
    ):
        fixed.append(pa.table({"u": ["0123456789abcdef"]}))
    assert fixed.to_table()["u"].to_pylist().count(uuid.UUID(bytes=b"0123456789abcdef")) == 3
    assert fixed.to_table()["l"].to_pylist().count([b"ab", None]) == 3
    assert fixed.num_rows == 12
    with pytest.raises(nb.InvalidArgumentError, match=r"unknown|expected|struct"):
        table.append(pa.table({"n": pa.array([1])}))


def test_a_primary_key_is_kept(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key=["id"], partition_by=["region"])
    before = table.snapshot
    with pytest.raises(nb.DuplicateKeyError, match="id=7 is in the table"):
        table.append(ROWS.slice(7, 1))
    new = pa.table({"id": [5000, 5000], "region": ["a", "b"]})
    with pytest.raises(nb.DuplicateKeyError, match="id=5000"):
        table.append(new)
    assert table.refresh().snapshot == before
    assert table.append(new.slice(0, 1)).rows_inserted == 1
    assert table.get(5000) == {"id": 5000, "ts": None, "region": "a", "x": None}


def test_few_files_are_written_and_read(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS.schema, cluster_by="id", partition_by=["year(ts)"])
    folder = Path(table.location.removeprefix("file://"))

    def files() -> set[Path]:
        return {path for path in folder.rglob("*") if path.is_file()}

    before = files()
    table.append(ROWS.slice(900))
    assert len(files() - before) <= 6
    for year in range(3):
        later = [dt.datetime(1990 + year, 1, 1)] * 5
        table.append(pa.table({"id": range(5), "ts": pa.array(later, pa.timestamp("us"))}))
    opened: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(str(folder)):
            opened.append(str(arguments[0]).removeprefix(f"{folder}/"))

    plan.clear_caches()
    sys.addaudithook(hook)
    fresh = nb.connect(tmp_path / "lake").table("a.b")
    assert fresh.count_rows("ts >= TIMESTAMP '1992-01-01'") == 5
    kinds = [name.rpartition("/")[2].partition("-")[0] for name in opened]
    assert sum(name.endswith(".metadata.json") for name in opened) == 1
    assert kinds.count("snap") == 1
    assert sum("-m" in name and name.endswith(".avro") for name in opened) == 1, opened
    opened.clear()
    again = nb.connect(tmp_path / "lake").table("a.b")
    assert again.count_rows("ts >= TIMESTAMP '1992-01-01'") == 5
    metadata = [name for name in opened if name.endswith((".json", ".avro"))]
    assert [name.rpartition(".")[2] for name in metadata] == ["json"]
    opened.clear()
    assert fresh.refresh().num_rows == ROWS.num_rows - 900 + 15
    assert not [name for name in opened if name.endswith(".json")]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@needs_sqlite
def test_names_of_files_are_on_the_disk_before_the_swap(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any
) -> None:
    from nimblepy.table import iceberg as ice

    sync, synced = os.fsync, []

    def recorded(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), data_format=data_format)
    location = table.location.removeprefix("file://")
    warehouse = os.path.dirname(os.path.dirname(location))
    assert {warehouse, os.path.dirname(location), location, f"{location}/metadata"} <= set(synced)
    ended: list[int] = []
    write = ice.catalogs.SqliteCatalog._write_file

    def written(*arguments: Any, **keywords: Any) -> None:
        write(*arguments, **keywords)
        ended.append(len(synced))

    monkeypatch.setattr(ice.catalogs.SqliteCatalog, "_write_file", written)
    synced.clear()
    table.append(pa.table({"k": [1]}))
    (end,) = ended
    before = synced[:end]
    named = [i for i, path in enumerate(before) if os.path.isfile(path)]
    for i in named:
        assert os.path.dirname(before[i]) in before[i + 1 :]
    assert location in before
    assert any(before[i].endswith(".metadata.json") for i in named)
    assert any(before[i].endswith(".parquet") for i in named) == (data_format == "parquet")


@pytest.mark.parametrize("what", [".metadata.json", "snap-", "-m0.avro"])
def test_metadata_that_cannot_be_written_leaves_no_half_file(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    from nimblepy.table.iceberg import local_io

    table = lake.create_table("a.b", pa.table({"k": [1]}))
    table.append(pa.table({"k": [2]}))
    folder = Path(table.location.removeprefix("file://"))
    before = sorted(folder.rglob("*"))

    def full(self: Any, octets: bytes) -> int:
        if what in os.path.basename(self.raw.name):
            io.BufferedWriter.write(self, octets[: len(octets) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return io.BufferedWriter.write(self, octets)

    monkeypatch.setattr(local_io._Synced, "write", full)
    with pytest.raises(OSError, match="No space left"):
        table.append(pa.table({"k": [3]}))
    assert sorted(folder.rglob("*")) == before
    assert table.refresh().num_rows == 2
