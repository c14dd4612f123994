"""What a table does with many files: those that it keeps open, and what it asks of each."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.files import ahead, open_files, source
from nimblepy.files.mapped import MappedRows
from nimblepy.table.reading import members


def test_a_closed_table_reads_no_more(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": range(10)}), cluster_by="k")
    table.append(pa.table({"k": range(10, 20)}))
    assert table.lookup([3, 13]).num_rows == 2
    with table:
        assert table.get(3) == {"k": 3}
    for ask in (lambda: table.lookup([3, 13]), lambda: table.get(13), table.to_table):
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            ask()


def test_more_files_than_are_kept_open(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "MOST_OPEN_FILES", 3)
    monkeypatch.setattr(members, "_FEW_FILES", 1)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    for i in range(8):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    table = lake.table("a.b")
    for _ in range(2):
        assert table.lookup(range(80)).num_rows == 80
        assert [table.get(k) for k in range(0, 80, 7)] == [{"k": k} for k in range(0, 80, 7)]
        assert table.to_table().num_rows == 80
    assert len(table._current.reading.open_files) == 3
    few = table._current.part([0])
    assert few.child(0) is few.child(0)
    assert len(table._current._children) == 0


def test_manifests_are_not_counted_for_each_file(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    for i in range(8):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    table.lookup(range(80))
    asked = []

    class Counted(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            asked.append(1)
            return super().__iter__()

    table._current.plan._manifests = Counted(table._current.plan.manifests)
    assert table.lookup(range(80)).num_rows == 80
    assert not asked


@pytest.mark.parametrize("threads", [1, 2])
def test_small_files_are_scanned_by_one_call(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(source, "_PREPARED", 4)
    monkeypatch.setattr(source, "_WORTH_VALUES", 1)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), primary_key="k")
    for i in range(6):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    table.delete(keys=[3, 10, 19, *range(40, 50)])
    asked: list[int] = []
    scan = source._core.scan

    def counted(parts: list[Any], *rest: Any) -> Any:
        asked.append(len(parts))
        return scan(parts, *rest)

    monkeypatch.setattr(source._core, "scan", counted)
    left = [k for k in range(60) if k not in {3, 10, 19, *range(40, 50)}]
    found = list(table.scan(threads=threads).to_batches())
    assert [k for batch in found for k in batch["k"].to_pylist()] == left
    assert asked == [4, 1]  # one of six files has no rows left
    assert len(found) == 5
    assert table.scan(threads=threads, batch_rows=25).to_table()["k"].to_pylist() == left
    assert asked == [4, 1] * 2  # the core cuts batches itself
    assert table.scan([], threads=threads).to_table().num_rows == len(left)
    assert table.scan(limit=35, offset=5).to_table()["k"].to_pylist() == left[5:40]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_scans_of_many_files_give_rows_in_order(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: str, threads: int
) -> None:
    """Files of all sizes, with deleted rows, in batches that end anywhere."""
    rng = np.random.default_rng(5)
    schema = pa.schema(
        {
            "k": pa.int64(),
            "flag": pa.bool_(),
            "text": pa.string(),
            "vector": pa.list_(pa.int32(), 3),
        }
    )
    table = lake.create_table("a.b", schema, primary_key="k", data_format=data_format)
    end = 0
    for size in [1, 700, 20_000, 3, 140_000, 1, 64, 5_000, 2, 3_000]:
        keys = np.arange(end, end + size)
        end += size
        texts = [None if k % 7 == 0 else f"text {k % 50}" for k in keys.tolist()]
        vectors = pa.FixedSizeListArray.from_arrays(np.repeat(keys, 3).astype(np.int32), 3)
        rows = pa.table({"k": keys, "flag": keys % 3 == 0, "text": texts, "vector": vectors})
        table.append(rows.cast(schema) if data_format == "nimble" else rows)
    gone = rng.choice(end, end // 90, replace=False)
    table.delete(keys=[*gone.tolist(), 0])
    left = np.setdiff1d(np.arange(end), [*gone, 0])
    monkeypatch.setattr(source, "_PREPARED", 4)
    monkeypatch.setattr(source, "_SCANNED_TOGETHER", 5)
    monkeypatch.setattr(source, "_WORTH_VALUES", 1)
    for columns in (None, ["k", "flag"], ["text", "k"], ["k", "vector"]):
        for batch_rows in (999, 65_536):
            batches = list(table.scan(columns, threads=threads, batch_rows=batch_rows).to_batches())
            assert all(0 < batch.num_rows <= batch_rows for batch in batches)
            found = pa.Table.from_batches(batches)
            assert found["k"].to_numpy().tolist() == left.tolist()
            if "flag" in found.column_names:
                assert np.array_equal(found["flag"].to_numpy(), left % 3 == 0)
            if "text" in found.column_names:
                expected = [None if k % 7 == 0 else f"text {k % 50}" for k in left.tolist()]
                assert found["text"].to_pylist() == expected
            if "vector" in found.column_names:
                vectors = found["vector"].combine_chunks()
                assert np.array_equal(vectors.flatten().to_numpy(), np.repeat(left, 3))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_comes_before_a_damaged_file(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(source, "_WORTH_VALUES", 1)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    for i in range(4):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    path = Path(table._current.members[2].file.path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    batches = table.scan(threads=threads).to_batches()
    assert [next(batches)["k"][0].as_py() for _ in range(2)] == [0, 10]
    with pytest.raises(nb.NimbleError):
        next(batches)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_threads_change_no_answer(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any
) -> None:
    monkeypatch.setattr(source, "_WORTH_VALUES", 1)
    monkeypatch.setattr(source, "_SMALL_ROWS", 60)
    monkeypatch.setattr(ahead, "_TASK_VALUES", 200)
    table = lake.create_table(
        "a.b", pa.schema({"k": pa.int64(), "s": pa.string()}), data_format=data_format
    )
    for i in range(12):
        count = 100 if i % 5 == 2 else 40
        keys = range(i * 1000, i * 1000 + count)
        table.append(pa.table({"k": keys, "s": [f"s{k % 7}" for k in keys]}))
    table.delete("k % 11 = 3")
    for filter in (None, "k % 3 = 1", "s = 's2'", "k < 0"):
        expected = table.scan(filter=filter, threads=1).to_table()
        for threads in (None, 2, 3):
            assert table.scan(filter=filter, threads=threads).to_table().equals(expected)
            assert table.scan(filter=filter, threads=threads).count() == expected.num_rows
    reader = table.scan(threads=2).to_reader()
    reader.read_next_batch()
    reader.close()


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_get_asks_files_that_all_columns_of_a_key_leave(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any
) -> None:
    """Files overlap in the first column of the key, and some in both."""
    schema = pa.schema({"k": pa.int64(), "day": pa.date32(), "v": pa.int64()})
    table = lake.create_table("a.b", schema, cluster_by=["k", "day"], data_format=data_format)
    days = [datetime.date(2024, 1, 1 + i) for i in range(12)]
    for i, day in enumerate(days):
        ends = [day, days[-1]] if i >= 6 else [day]  # of these one key cannot tell
        rows = [(k, d, 100 * i + k) for k in range(20) for d in ends]
        table.append(pa.table(dict(zip(schema.names, zip(*rows, strict=True), strict=True))))
    table.append(pa.table({"k": [None, 3], "day": [days[0], None], "v": [-1, -2]}))
    table.delete("v = 307")
    table = lake.table("a.b")
    opened: set[str] = set()
    child = members.Reading.child
    monkeypatch.setattr(
        members.Reading,
        "child",
        lambda self, file, **how: opened.add(file.path) or child(self, file, **how),
    )
    for _ in range(2):
        for i, day in enumerate(days[:6]):
            opened.clear()
            expected = None if i == 3 else {"k": 7, "day": day, "v": 100 * i + 7}
            assert table.get((7, day)) == expected
            assert table.get((7, day.isoformat())) == expected
            assert len(opened) <= 2  # that of the day, and the one with nulls
            assert table.get((7, day), columns=["v"], default=0) == (
                {"v": 100 * i + 7} if expected else 0
            )
            assert table.get((21, day)) is None
        last = table.lookup([(7, days[-1])]).to_pylist()
        assert len(last) == 7
        assert table.get((7, days[-1])) == last[0]
        assert table.get((3, None)) is None
        assert table.get((3, None), null_equals=True) == {"k": 3, "day": None, "v": -2}
        assert table.get((None, days[0]), null_equals=True)["v"] == -1
    with pytest.raises(nb.InvalidArgumentError):
        table.get(("x", days[0]))
    with pytest.raises(nb.InvalidArgumentError):
        table.get(7)
    if data_format == "nimble":  # the core finds them without Python's help
        monkeypatch.setattr(source.FilesSource, "find_and_read", None)
    assert [table.get((k, days[k % 3]))["v"] for k in range(20)] == [
        100 * (k % 3) + k for k in range(20)
    ]


def test_get_of_more_files_than_are_kept_open(tmp_path: Path) -> None:
    """Files that overlap, the last of which reaches over all: a few are opened for a key."""
    for i in range(400):
        rows = pa.table({"k": [i, i + 1], "s": ["a", f"{i:03}"], "v": [i, -i]})
        nb.write(rows, tmp_path / f"{i:03}.nimble", cluster_by=["k", "s"])
    wide = pa.table({"k": [-1, 1000], "s": ["x", "y"], "v": [7, 8]})
    nb.write(wide, tmp_path / "wide.nimble", cluster_by=["k", "s"])
    files = nb.open_dataset(tmp_path)
    for i in [*range(0, 400, 3), 1, 399]:
        assert files.get((i, "a"), columns=["v"]) == {"v": i}
        assert files.get((i + 1, f"{i:03}"))["v"] == -i
        assert files.get((i, "b")) is None
    assert [files.get(key, ["v"]) for key in [(-1, "x"), (1000, "y"), (1000, "z")]] == [
        {"v": 7},
        {"v": 8},
        None,
    ]


def test_get_after_the_schema_changed(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core reads files of every schema that the table had; only other keys are Python's."""
    schema = pa.schema(
        {
            "k": pa.int64(),
            "day": pa.int64(),
            "v": pa.int32(),
            "f": pa.float32(),
            "price": pa.decimal128(6, 2),
            "old": pa.string(),
            "tags": pa.list_(pa.string()),
        }
    )
    table = lake.create_table("a.b", schema, primary_key=["k", "day"])
    want: dict[tuple[int, int], dict[str, Any]] = {}
    for i in range(10):
        if i == 4:
            with table.alter() as change:
                change.widen("v", pa.int64())
                change.widen("f", pa.float64())
                change.widen("price", pa.decimal128(12, 2))
                change.rename_column("old", "text")
        if i == 6:
            with table.alter() as change:
                change.add_column("w", pa.int64(), after="day")
                change.add_column("kind", pa.string(), default="none")
                change.drop_column("tags")
        keys = [(k, i + 10 * (k % 7)) for k in range(i % 3, 60, 3)]
        rows = [
            {
                "k": k,
                "day": day,
                "w": None if i < 6 else 5 * k,
                "v": i + k,
                "f": k / 10,
                "price": Decimal(k) + Decimal("0.25"),
                "text": None if k % 9 == 1 else f"text {k}",
                "kind": "none" if i < 6 else f"kind {i}",
            }
            for k, day in keys
        ]
        written = [{"old": row["text"], "tags": [], **row} for row in rows]
        table.append(pa.Table.from_pylist(written, table.schema))
        for key, row in zip(keys, rows, strict=True):
            want[key] = row | ({"f": float(np.float32(row["f"]))} if i < 4 else {})
    gone = [(k, day) for k, day in want if (k + day) % 5 == 0]
    table.delete(keys=pa.table({"k": [k for k, _ in gone], "day": [day for _, day in gone]}))
    want = {key: row for key, row in want.items() if key not in gone}
    asked = []
    real = MappedRows.find

    def counted(self: MappedRows, *arguments: Any, **keywords: Any) -> Any:
        asked.append(self)
        return real(self, *arguments, **keywords)

    monkeypatch.setattr(MappedRows, "find", counted)
    for k in range(-1, 61):
        for day in range(72):
            found = table.get((k, day))
            assert found == want.get((k, day))
            assert found is None or list(found) == table.schema.names
            some = table.get((k, day), columns=["kind", "text", "w"])
            row = want.get((k, day))
            assert some == (row and {name: row[name] for name in ("kind", "text", "w")})
            assert table.get((k, day), columns=["w"]) == (row and {"w": row["w"]})
    assert not asked
    with table.alter() as change:
        change.add_column("z", pa.int8(), default=3)
        change.rename_column("day", "date")
    for (k, day), row in want.items():
        row["date"] = row.pop("day")
        assert table.get((k, day)) == row | {"z": 3}
    assert not asked


def test_get_of_keys_that_were_widened(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose keys have other bytes are asked by Python, and the core does not try again."""
    schema = pa.schema({"k": pa.int32(), "v": pa.int64()})
    table = lake.create_table("a.b", schema, primary_key="k")
    for i in range(3):
        table.append({"k": range(i, 30, 6), "v": range(i, 30, 6)})
    with table.alter() as change:
        change.widen("k", pa.int64())
    for i in range(3, 6):
        table.append({"k": range(i, 30, 6), "v": range(i, 30, 6)})
    table.append({"k": [1 << 40], "v": [7]})
    tried = []
    real = MappedRows._row_reader

    def counted(self: MappedRows, *arguments: Any) -> Any:
        tried.append(self)
        return real(self, *arguments)

    monkeypatch.setattr(MappedRows, "_row_reader", counted)
    for _ in range(2):
        for k in range(-1, 31):
            assert table.get(k) == ({"k": k, "v": k} if 0 <= k < 30 else None)
        assert table.get(1 << 40) == {"k": 1 << 40, "v": 7}
        assert len(tried) == len(set(map(id, tried))) == 3


def test_a_join_between_bounds_of_files_that_overlap(lake: nb.Catalog) -> None:
    schema = pa.schema({"k": pa.int64(), "day": pa.int64(), "v": pa.int64()})
    table = lake.create_table("a.b", schema, cluster_by=["k", "day"])
    for i in range(6):
        table.append(pa.table({"k": [0, 1, 9], "day": [i, 10 * i, i], "v": [i, 100 + i, 7]}))
    asked = pa.table({"k": [1, 1], "low": [5, 60], "high": [30, 70]})
    found = nb.index_join(asked, table, on="k", between={"day": ("low", "high")})
    assert sorted(found["v"].to_pylist()) == [101, 102, 103]
