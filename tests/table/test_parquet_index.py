"""Indexes of Parquet tables: the same answers as without, with few reads, after any damage."""

from __future__ import annotations

import datetime as dt
import math
import os
import pickle
import random
import shutil
import time
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.s3_server import BUCKET, KEYS, Server
from equality_deletes import commit, delete_file
from processes import CHILDREN

import nimblepy as nb
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.foreign.child import IndexedParquet
from nimblepy.join.joinable import SourceHandle
from nimblepy.table.base import moved
from nimblepy.table.handle import files_of
from nimblepy.table.reading.plan import clear_caches
from nimblepy.table.testing import commit_hooks

NOW = dt.timedelta(0)
INDEXES = [nb.SortedIndex(["id"]), nb.HashIndex(["email"])]


def rows(begin: int, end: int) -> pa.Table:
    keys = range(begin, end)
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "email": pa.array([f"u{i % 50}@x" for i in keys], pa.string()),
            "v": pa.array([i * 0.5 for i in keys], pa.float64()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    table = lake.create_table("a.b", rows(0, 200), primary_key="id", data_format="parquet")
    table.append(rows(200, 300))
    table.delete("id % 10 = 0")
    table.add_index(INDEXES)
    return table


def emails(table: nb.Table, email: str = "u7@x", on: str = "email") -> list[int]:
    return sorted(table.lookup([email], on=on)["id"].to_pylist())


def folder_of(table: nb.Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def index_files(table: nb.Table, suffix: str = "nbx") -> list[Path]:
    return sorted((folder_of(table) / "metadata").glob(f"keys-*.{suffix}"))


def data_files(table: nb.Table) -> list[Path]:
    return sorted(Path(path.removeprefix("file://")) for path in table.files()["path"].to_pylist())


SEVENS = [7, 57, 107, 157, 207, 257]


def test_an_index_covers_the_files_of_the_snapshot(table: nb.Table) -> None:
    assert [(info.kind, info.num_keys) for info in table.indexes] == [
        ("sorted", 300),
        ("hash", 300),
    ]
    assert emails(table) == SEVENS
    health = table.health()
    assert dict(health.index_files) == {"sorted (id)": 2, "hash (email)": 2}
    assert dict(health.index_coverage) == {"sorted (id)": 1.0, "hash (email)": 1.0}
    assert table.get(7) == {"id": 7, "email": "u7@x", "v": 3.5}
    assert table.get(10) is None  # deleted
    assert table.contains([7, 10, 299, 300]).to_pylist() == [True, False, True, False]
    assert table.count(["u7@x", "u0@x", "none"], on="email").to_pylist() == [6, 0, 0]


def test_new_files_are_searched_without_the_index(table: nb.Table) -> None:
    table.append(rows(300, 400))
    assert emails(table) == [*SEVENS, 307, 357]
    shown = str(table.explain(keys=["u7@x"], on="email"))
    assert "files covered=2" in shown
    assert "files searched without the index=1" in shown
    assert dict(table.health().index_files) == {"sorted (id)": 2, "hash (email)": 2}
    assert "add_index" in [item.action for item in table.health().advice]
    assert "add_index" in table.optimize()
    health = table.health()
    assert set(health.index_coverage.values()) == {1.0}
    assert "add_index" not in [item.action for item in health.advice]
    assert emails(table) == [*SEVENS, 307, 357]


def test_add_index_covers_new_files_or_changes_nothing(table: nb.Table) -> None:
    # A job that calls it each night failed after a night without new files.
    state = table.snapshot, table.properties, table.iceberg.metadata_location
    for index in (INDEXES[0], INDEXES):
        assert table.add_index(index).snapshot == table.snapshot
    assert (table.snapshot, table.properties, table.iceberg.metadata_location) == state
    table.append(rows(300, 400))
    table.add_index(INDEXES[0])
    assert set(table.health().index_coverage.values()) == {1.0}


def test_compaction_drops_coverage_of_replaced_files(table: nb.Table) -> None:
    table.compact()
    assert set(table.health().index_coverage.values()) == {0.0}
    assert emails(table) == SEVENS
    table.optimize()
    table.add_index(nb.SortedIndex(["v"]))
    assert set(table.health().index_coverage.values()) == {1.0}
    assert emails(table) == SEVENS


def test_drop_index(table: nb.Table) -> None:
    table.drop_index(["email"])
    assert [info.kind for info in table.indexes] == ["sorted"]
    with pytest.raises(nb.IndexUnavailableError):
        emails(table)
    with pytest.raises(nb.IndexUnavailableError, match=r"it has sorted \(id\)"):
        table.drop_index(["email"])
    table.drop_index(nb.SortedIndex(["id"]))
    assert table.indexes == []
    assert table.get(7) == {"id": 7, "email": "u7@x", "v": 3.5}
    table.remove_orphans(older_than=NOW)
    assert index_files(table) + index_files(table, "json") == []


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (nb.SortedIndex([nb.SortKey("id", descending=True)]), "ascending"),
        (nb.HashIndex([("s", "a")]), "part of a struct"),
        (nb.VectorIndex("vec"), "vector"),
    ],
)
def test_an_index_that_cannot_be_is_refused(lake: nb.Catalog, index: Any, message: str) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "s": pa.struct({"a": pa.int64()}),
            "vec": pa.list_(pa.float32(), 2),
        }
    )
    table = lake.create_table("a.c", schema, data_format="parquet")
    with pytest.raises(nb.InvalidArgumentError, match=message):
        table.add_index(index)


def test_a_table_without_files_gets_an_index(lake: nb.Catalog) -> None:
    table = lake.create_table("a.c", rows(0, 0).schema, data_format="parquet")
    table.add_index(nb.HashIndex(["email"]))
    assert emails(table) == []
    table.append(rows(0, 100))
    assert emails(table) == [7, 57]
    table.optimize()
    assert emails(table) == [7, 57]
    assert set(table.health().index_coverage.values()) == {1.0}


# ---------------------------------------------------------------------- reads


def small_pages(folder: Path, begin: int, end: int) -> Path:
    path = folder / f"part-{begin}.parquet"
    wide = rows(begin, end).append_column("note", pa.array([f"{i}" * 9 for i in range(begin, end)]))
    options = {"data_page_size": 4096, "write_page_index": True, "use_dictionary": False}
    pq.write_table(wide, path, **options)
    return path


def test_a_lookup_opens_no_footer_and_reads_few_bytes(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [small_pages(tmp_path, begin, begin + 20_000) for begin in (0, 20_000, 40_000)]
    table = lake.create_table("a.c", pq.read_schema(paths[0]), data_format="parquet")
    table.add_files(paths)
    for index in (nb.SortedIndex(["id"]), nb.HashIndex(["id"])):
        table.add_index(index)
        # Other handles have not opened anything.
        other = nb.connect(tmp_path / "lake").table("a.c")

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise AssertionError("a Parquet file was opened as a whole")

        with monkeypatch.context() as patch:
            patch.setattr(ParquetRows, "__init__", refuse)
            patch.setattr(pq, "ParquetFile", refuse)
            patch.setattr(IndexedParquet, "check_footer", refuse)
            other.reset_io_stats()
            assert other.lookup([31_234], on="id")["note"].to_pylist() == ["31234" * 9]
            stats = other.io_stats
            # A page of each of four columns, twice a key page, and two parts of the index.
            assert stats.bytes_read < 120_000
            assert stats.bytes_read * 8 < sum(path.stat().st_size for path in paths)
            other.reset_io_stats()
            assert other.lookup([99_999, -1], on="id").num_rows == 0
            assert other.io_stats.bytes_read < 40_000  # the index alone
        table.drop_index(index)


def test_upserts_and_deletes_find_old_rows_by_the_index(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = ParquetRows.read

    def counting(self: ParquetRows, *args: Any) -> pa.Table:
        read.append(type(self).__name__)
        return original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(ParquetRows, "read", counting)
        done = table.upsert(pa.table({"id": [7, 1000], "email": ["new", "one"], "v": [1.0, 2.0]}))
        assert (done.rows_updated, done.rows_inserted) == (1, 1)
        assert read == []  # no file is read as a whole
    assert table.delete(keys=[8, 1000]).rows_deleted == 2
    assert table.get(7) == {"id": 7, "email": "new", "v": 1.0}
    assert table.get(8) is None
    assert emails(table) == SEVENS[1:]


# ---------------------------------------------------------------------- histories

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None]),
    "int32": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None]),
    "text": (pa.string(), ["", "a", "a\0", "ä", "b" * 40, None]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, None]),
    "binary": (pa.binary(), [b"", b"\0", b"\xff", b"ab", None]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "decimal": (
        pa.decimal128(9, 2),
        [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99"), None],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID(int=7), None]),
    "bool": (pa.bool_(), [True, False, None]),
    "time": (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2262, 1, 1), None]),
}


def same(value: Any, other: Any) -> bool:
    """Equality of keys: NaN equals itself, and a null equals nothing."""
    if value is None or other is None:
        return False
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value):
        return math.isnan(other)
    return bool(value == other)


def check(table: nb.Table, model: dict[int, Any], kind: str, column: str, indexed: bool) -> None:
    """Compares all ways to find rows with the model."""
    values = KINDS[kind][1]
    probes = [*values, values[0]]
    ids = [*range(0, 60, 7), *list(model)[:20], -5]
    by_id = table.lookup(ids, on="id")
    expected = [(i, model[i]) for i in ids if i in model]
    assert repr([(r["id"], r[column]) for r in by_id.to_pylist()]) == repr(expected)
    assert table.contains(ids, on="id").to_pylist() == [i in model for i in ids]
    if not indexed:
        return
    keys = pa.array(probes, KINDS[kind][0])
    want = [[i for i, v in sorted(model.items()) if same(v, key)] for key in probes]
    assert table.count(keys, on=column).to_pylist() == [len(found) for found in want]
    found = table.lookup(keys, on=column, columns=["id"])["id"].to_pylist()
    assert Counter(found) == Counter(i for part in want for i in part)
    for key, part in zip(probes, want, strict=True):
        if key is not None:
            row = table.get(key, on=column)
            assert (row is None) == (not part)
            assert row is None or row["id"] in part


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_answer_as_without_an_index(lake: nb.Catalog, seed: int) -> None:
    rng = random.Random(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    made = nb.HashIndex if rng.random() < 0.5 else nb.SortedIndex
    type_, values = KINDS[kind]
    column = "x"

    def some(ids: list[int]) -> tuple[pa.Table, dict[int, Any]]:
        new = {i: rng.choice(values) for i in ids}
        columns = {
            "id": pa.array(list(new), pa.int64()),
            column: pa.array(list(new.values()), type_),
        }
        for name in table.schema.names if "table" in names else ():
            columns.setdefault(name, pa.nulls(len(new), table.schema.field(name).type))
        return pa.table(columns), new

    names: set[str] = set()
    first, model = some(rng.sample(range(100), 30))
    clustered = {"cluster_by": "id"} if seed % 2 else {}
    table = lake.create_table("a.h", first, primary_key="id", data_format="parquet", **clustered)
    names.add("table")
    table.add_index([made([column]), rng.choice([nb.SortedIndex, nb.HashIndex])(["id"])])
    for step in range(14):
        what = rng.choice(
            ["append", "upsert", "delete", "filter", "compact", "rename", "column", "index", "at"]
        )
        if what == "append":
            data, new = some([i for i in rng.sample(range(200), 20) if i not in model])
            table.append(data)
            model |= new
        elif what == "upsert":
            data, new = some(rng.sample(range(200), 25))
            table.upsert(data)
            model |= new
        elif what == "delete":
            ids = rng.sample(range(200), 15)
            table.delete(keys=ids)
            model = {i: v for i, v in model.items() if i not in ids}
        elif what == "filter":
            table.delete(f"id % 17 = {step}")
            model = {i: v for i, v in model.items() if i % 17 != step}
        elif what == "compact":
            table.compact()
        elif what == "rename":
            with table.alter() as a:
                a.rename_column(column, f"x{step}")
            column = f"x{step}"
        elif what == "column":
            with table.alter() as a:
                a.add_column(f"c{step}", pa.int64())
        elif what == "index":
            table.optimize()
            assert set(table.health().index_coverage.values()) == {1.0}
        else:
            table = lake.table("a.h")
        check(table, model, kind, column, True)
    content = {r["id"]: r[column] for r in table.to_table().to_pylist()}
    assert repr(sorted(content.items())) == repr(sorted(model.items()))


@pytest.mark.parametrize("index", [nb.SortedIndex(["a", "b"]), nb.HashIndex(["a", "b"])])
def test_keys_of_two_columns(lake: nb.Catalog, index: Any) -> None:
    pairs = [(a, b) for a in range(30) for b in ("x", "y", "")]
    random.Random(3).shuffle(pairs)
    columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs], "v": range(len(pairs))}
    table = lake.create_table(
        "a.c", pa.table(columns), primary_key=["b", "a"], cluster_by="v", data_format="parquet"
    )
    table.add_index(index)
    for names, keys in ((["b", "a"], [("x", 3), ("", 29), ("z", 3)]), (["a", "b"], [(3, "x")])):
        found = table.lookup(keys, on=names)
        assert list(zip(*(found[name].to_pylist() for name in names), strict=True)) == keys[:2]
    assert table.upsert(pa.table({"a": [3, 99], "b": ["x", "x"], "v": [-1, -2]})).rows_updated == 1
    assert table.get(("x", 3))["v"] == -1  # type: ignore[index]
    assert table.delete(keys=[("x", 3), ("y", 4), ("q", 4)]).rows_deleted == 2
    if isinstance(index, nb.SortedIndex):
        assert table.count([3, 4, 99], on="a").to_pylist() == [2, 2, 1]
    else:
        with pytest.raises(nb.IndexUnavailableError):
            table.count([3], on="a")


def test_a_widened_key_column_is_found(lake: nb.Catalog) -> None:
    narrow = pa.table({"id": pa.array(range(100), pa.int32()), "f": pa.array([0.5] * 100, "f4")})
    table = lake.create_table("a.c", narrow, data_format="parquet")
    table.add_index([nb.SortedIndex(["id"]), nb.HashIndex(["f"])])
    with table.alter() as a:
        a.widen("id", pa.int64())
        a.widen("f", pa.float64())
    table.append(pa.table({"id": [5, 2**40], "f": [0.5, 0.1]}))
    assert table.count([5, 2**40, 2**33], on="id").to_pylist() == [2, 1, 0]
    assert table.count([0.5, 0.1], on="f").to_pylist() == [101, 1]
    table.optimize()
    assert table.count([5, 2**40, 2**33], on="id").to_pylist() == [2, 1, 0]
    assert table.count([0.5, 0.1], on="f").to_pylist() == [101, 1]


def test_an_index_on_an_added_column(table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("w", pa.int64(), default=3)
    table.append(rows(300, 310).append_column("w", pa.array([4] * 10, pa.int64())))
    table.add_index(nb.HashIndex(["w"]))
    assert table.count([3, 4, 5], on="w").to_pylist() == [270, 10, 0]
    # Files without the column need no entries.
    assert table.health().index_files["hash (w)"] == 3
    assert "add_index" not in [item.action for item in table.health().advice]


def test_past_snapshots_use_the_index_of_their_files(table: nb.Table) -> None:
    before = table.snapshot
    table.delete("id = 57")
    past = table.at(snapshot=before)
    assert emails(past) == SEVENS
    assert emails(table) == [i for i in SEVENS if i != 57]


def test_equality_deletes_apply_to_covered_files(table: nb.Table, tmp_path: Path) -> None:
    with table.alter() as a:
        a.rename_column("email", "mail")
        a.rename_column("v", "email")
    keys = pa.table({"mail": ["u7@x", "none"]})
    commit(table, [delete_file(table, keys, tmp_path)])
    assert table.lookup([7, 8, 57], on="id")["id"].to_pylist() == [8]
    assert emails(table, on="mail") == []
    assert emails(table, "u8@x", on="mail") == [8, 58, 108, 158, 208, 258]
    commit(table, [delete_file(table, pa.table({"id": [8]}), tmp_path)], rename_to(table, 7))
    assert emails(table, "u8@x", on="mail") == [58, 108, 158, 208, 258]
    assert emails(table, on="mail") == [7]
    table.optimize()
    assert emails(table, on="mail") == [7]
    assert table.count_rows() == 270 - 6 - 1 + 1


def rename_to(table: nb.Table, key: int) -> pa.Table:
    """One row, with the present names of the columns."""
    return rows(key, key + 1).rename_columns(table.schema.names)


def test_branches_share_the_indexes(table: nb.Table, lake: nb.Catalog) -> None:
    table.branch("b")
    branch = table.at(branch="b")
    branch.append(rows(400, 420))
    table.compact()
    branch.add_index(nb.HashIndex(["v"]))
    table.refresh()
    for handle, more in ((branch, [407]), (table, [])):
        assert emails(handle) == [*SEVENS, *more]
        assert set(handle.health().index_coverage.values()) == {1.0}
        assert handle.count([203.5], on="v").to_pylist() == [len(more)]


# ---------------------------------------------------------------------- damage


def test_a_missing_index_file_makes_lookups_scan(table: nb.Table, tmp_path: Path) -> None:
    for path in index_files(table):
        path.unlink()
    clear_caches()
    other = nb.connect(tmp_path / "lake").table("a.b")
    assert emails(other) == SEVENS
    assert set(other.health().index_coverage.values()) == {0.0}
    other.optimize()
    assert set(other.health().index_coverage.values()) == {1.0}
    assert emails(other) == SEVENS


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b'{"format": 99, "indexes": []}'])
def test_a_damaged_list_of_indexes_makes_lookups_scan(
    table: nb.Table, tmp_path: Path, content: bytes | None
) -> None:
    (path,) = index_files(table, "json")
    path.unlink() if content is None else path.write_bytes(content)
    other = nb.connect(tmp_path / "lake").table("a.b")
    assert other.lookup([7, 8])["id"].to_pylist() == [7, 8]
    assert other.upsert(pa.table({"id": [7], "email": ["z"], "v": [1.0]})).rows_updated == 1
    other.add_index(INDEXES)
    assert emails(other) == SEVENS[1:]


def test_damaged_index_files_never_give_wrong_rows(table: nb.Table, tmp_path: Path) -> None:
    rng = random.Random(5)
    originals = {path: path.read_bytes() for path in index_files(table)}
    errors = 0
    for _ in range(40):
        for path, octets in originals.items():
            damaged = bytearray(octets)
            if rng.random() < 0.3:
                damaged = damaged[: rng.randrange(len(damaged))]
            else:
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            path.unlink()
            path.write_bytes(damaged)
        other = nb.connect(tmp_path / "lake").table("a.b")
        try:
            assert emails(other) == SEVENS
            assert other.contains([7, 10, 299, 300]).to_pylist() == [True, False, True, False]
        except nb.NimbleError:
            errors += 1
    assert errors < 80


def test_a_changed_data_file_is_not_answered_from_the_index(
    table: nb.Table, tmp_path: Path
) -> None:
    assert emails(table) == SEVENS  # the old files are open
    path = data_files(table)[0]
    content = pq.read_table(path)
    ids = set(content["id"].to_pylist())
    schema = pq.read_schema(path)
    changed = pa.array(["new@x"] * len(content), schema.field("email").type)
    pq.write_table(content.set_column(1, schema.field("email"), changed), path)
    other = nb.connect(tmp_path / "lake").table("a.b")
    assert emails(other) == [i for i in SEVENS if i not in ids]
    assert emails(other, "new@x") == sorted(i for i in ids if i % 10)
    with pytest.raises(nb.StaleFileError, match="changed while the table was open"):
        emails(table)


def test_a_missing_data_file_is_an_error(table: nb.Table, tmp_path: Path) -> None:
    table.lookup([7, 207])
    for path in data_files(table):
        path.unlink()
    for handle in (table, nb.connect(tmp_path / "lake").table("a.b")):
        with pytest.raises((OSError, nb.NimbleError)):
            handle.lookup([7])


# ---------------------------------------------------------------------- upkeep


def test_index_files_are_reachable(table: nb.Table) -> None:
    before = index_files(table) + index_files(table, "json")
    assert len(before) == 3
    table.upsert(pa.table({"id": [7], "email": ["z"], "v": [1.0]}))
    table.expire(keep=1)
    table.remove_orphans(older_than=NOW)
    assert index_files(table) + index_files(table, "json") == before
    census = table.census().to_pylist()
    kinds = [(row["kind"], row["reachable"]) for row in census if "keys-" in row["path"]]
    assert kinds == [("key index", True)] * 3
    table.optimize()
    census = table.census().to_pylist()
    assert Counter(r["reachable"] for r in census if r["kind"] == "key index") == {
        True: 3,
        False: 3,
    }
    table.remove_orphans(older_than=NOW)
    assert len(index_files(table) + index_files(table, "json")) == 3
    assert emails(table) == SEVENS[1:]


def test_two_calls_at_once_both_add_their_index(table: nb.Table, tmp_path: Path) -> None:
    other = nb.connect(tmp_path / "lake").table("a.b")
    table.append(rows(300, 310))
    ran: list[int] = []

    def before_swap() -> None:
        if not ran:
            ran.append(1)
            other.add_index(nb.HashIndex(["v"]))

    with commit_hooks(before_swap=before_swap):
        table.add_index(nb.SortedIndex(["email", "id"]))
    table.refresh()
    assert {str(info.columns) for info in table.indexes} == {
        str(tuple(nb.SortKey(name) for name in names))
        for names in (["id"], ["email"], ["v"], ["email", "id"])
    }
    assert set(table.health().index_coverage.values()) == {1.0}
    table.remove_orphans(older_than=NOW)
    assert len(index_files(table)) == 4


def _killed(path: Path, where: str) -> None:
    from nimblepy.table.upkeep import index_parquet

    table = nb.connect(path).table("a.b")
    if where == "file":
        write, count = index_parquet.write_index, 0

        def dying(*args: Any, **keywords: Any) -> None:
            nonlocal count
            count += 1
            write(*args, **keywords)
            if count == 2:
                os._exit(9)

        index_parquet.write_index = dying
        table.add_index([nb.HashIndex(["v"]), nb.SortedIndex(["v"])])
    else:
        with commit_hooks(**{where: lambda: os._exit(9)}):
            table.add_index([nb.HashIndex(["v"])])


@pytest.mark.parametrize("where", ["file", "before_swap", "after_swap"])
def test_a_killed_add_index_leaves_the_table_readable(
    table: nb.Table, tmp_path: Path, where: str
) -> None:
    child = CHILDREN.Process(target=_killed, args=(tmp_path / "lake", where))
    child.start()
    child.join(60)
    assert child.exitcode == 9
    other = nb.connect(tmp_path / "lake").table("a.b")
    assert emails(other) == SEVENS
    assert len(other.indexes) == 2 + (where == "after_swap")
    other.remove_orphans(older_than=NOW)
    assert len(index_files(other)) == len(other.indexes)
    if where != "after_swap":
        other.add_index(nb.HashIndex(["v"]))
    assert other.count([3.5], on="v").to_pylist() == [1]


def test_a_moved_lake_keeps_its_indexes(table: nb.Table, tmp_path: Path) -> None:
    os.rename(tmp_path / "lake", tmp_path / "other")
    clear_caches()
    try:
        lake = nb.connect(tmp_path / "other")
        assert emails(lake.table("a.b")) == SEVENS
        assert set(lake.table("a.b").health().index_coverage.values()) == {1.0}
        lake.relocate("a.b")
        moved.forget()
        clear_caches()
        again = nb.connect(tmp_path / "other").table("a.b")
        assert set(again.health().index_coverage.values()) == {1.0}
        assert emails(again) == SEVENS
        again.remove_orphans(older_than=NOW)
        assert emails(again) == SEVENS
    finally:
        moved.forget()


def test_a_copied_lake_scans_until_it_is_indexed(table: nb.Table, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    clear_caches()
    try:
        copy = nb.connect(tmp_path / "copy").table("a.b")
        assert emails(copy) == SEVENS
    finally:
        moved.forget()


def test_conversion_forgets_the_index_files(table: nb.Table) -> None:
    table.convert("nimble")
    assert "nimblepy.parquet-indexes" not in {k: v for k, v in table.properties.items() if v}
    assert table.lookup([7])["email"].to_pylist() == ["u7@x"]
    table.add_index(nb.HashIndex(["email"]))
    assert emails(table) == SEVENS


def test_pyiceberg_reads_and_writes_a_table_with_indexes(table: nb.Table) -> None:
    iceberg = table.iceberg
    assert sorted(iceberg.scan().to_arrow()["id"].to_pylist()) == sorted(
        table.to_table()["id"].to_pylist()
    )
    table.append(rows(300, 310))
    table.iceberg.append(rows(310, 320).cast(table.iceberg.schema().as_arrow()))
    table.refresh()
    assert len(table.indexes) == 2
    assert table.contains([7, 305, 315, 325]).to_pylist() == [True, True, True, False]
    table.optimize()
    assert emails(table) == [*SEVENS, 307]


def test_a_registered_table_gets_an_index(table: nb.Table, tmp_path: Path) -> None:
    table.drop_index(["email"])
    table.drop_index(["id"])
    other = nb.connect(tmp_path / "mine")
    same_table = other.register("c.d", table.metadata_location)
    same_table.add_index(nb.HashIndex(["email"]))
    assert emails(same_table) == SEVENS
    assert table.refresh().indexes == []


def test_the_index_works_in_other_processes(tmp_path: Path) -> None:
    """Spark's tasks read a snapshot that was pickled, and choose the index as the driver does."""
    table = nb.connect(tmp_path).create_table(
        "a.b", pa.schema([("k", pa.int64()), ("s", pa.string())]), data_format="parquet"
    )
    for part in range(3):
        keys = range(part * 1000, part * 1000 + 1000)
        table.append(pa.table({"k": keys, "s": [f"s{key % 1500}" for key in keys]}))
    table.add_index(nb.HashIndex("s"))
    table.append(pa.table({"k": [9000], "s": ["s3"]}))  # a file that the index does not cover
    table.delete("k = 3")
    shipped = pickle.loads(pickle.dumps(SourceHandle(files_of(table))))
    wanted = table.lookup(["s3", "s4"], on="s").sort_by("k")
    assert wanted.num_rows == 4
    assert shipped.lookup(["s3", "s4"], on="s").sort_by("k").equals(wanted)
    assert shipped.count(["s3"], on="s").to_pylist() == [2]


def test_a_branch_is_converted(tmp_path: Path) -> None:
    table = nb.connect(tmp_path).create_table(
        "a.b", pa.table({"k": [1, 2], "s": ["x", "y"]}), data_format="parquet"
    )
    table.add_index(nb.HashIndex("s"))
    table.branch("b")
    table.at(branch="b").convert("nimble")
    table.refresh()
    assert table.count(["x"], on="s").to_pylist() == [1]
    assert table.at(branch="b").count(["x"], on="s").to_pylist() == [1]


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"format": 1, "indexes": [{"kind": "hash", "columns": [1e999]}]}']
)
def test_a_list_that_python_cannot_read(tmp_path: Path, content: bytes) -> None:
    table = nb.connect(tmp_path).create_table(
        "a.b", pa.table({"k": [1], "s": ["x"]}), primary_key="k", data_format="parquet"
    )
    table.add_index(nb.HashIndex("s"))
    (path,) = Path(table.location.removeprefix("file://"), "metadata").glob("keys-*.json")
    path.write_bytes(content)
    table = nb.connect(tmp_path).table("a.b")
    assert table.get(1) == {"k": 1, "s": "x"}
    assert table.health().index_coverage == {}


@pytest.mark.store
def test_objects_of_a_store_are_written_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    root = f"s3://{BUCKET}/{tmp_path.name}"
    rows = pa.table({"k": range(50), "s": [f"s{i % 5}" for i in range(50)]})
    table = nb.connect(root).create_table("a.b", rows, data_format="parquet", primary_key="k")
    table.add_index(nb.HashIndex("s"))
    obstore = pytest.importorskip("obstore")
    store, (path,) = server.obstore(), table.files()["path"].to_pylist()
    key = path.removeprefix(f"s3://{BUCKET}/")
    octets = bytes(obstore.get(store, key).bytes())
    time.sleep(1.1)  # times of objects have seconds
    obstore.put(store, key, octets)
    again = nb.connect(root).table("a.b")
    assert again.get(7) == {"k": 7, "s": "s2"}
    assert again.count(["s2"], on="s").to_pylist() == [10]
    assert again.health().index_coverage == {"hash (s)": 0.0}


def test_a_purged_table_leaves_no_index_files(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    table = lake.create_table(
        "a.b", pa.table({"k": [1], "s": ["x"]}), primary_key="k", data_format="parquet"
    )
    table.add_index(nb.HashIndex("s"))
    table.append(pa.table({"k": [2], "s": ["y"]}))
    table.optimize()
    table.add_index(nb.SortedIndex("s"))
    folder = Path(table.location.removeprefix("file://"))
    assert len(list(folder.rglob("keys-*"))) > 2
    lake.drop_table("a.b", purge=True)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_handle_that_read_nothing_finds_the_newest_indexes(
    table: nb.Table, tmp_path: Path
) -> None:
    """The list of indexes that its metadata names was replaced and removed."""
    old = nb.connect(tmp_path / "lake").table("a.b")
    table.append(rows(300, 310))
    table.optimize()
    table.remove_orphans(older_than=NOW)
    clear_caches()
    assert emails(old) == SEVENS
    assert old.num_rows == 270
    table.drop_index(["email"])
    table.remove_orphans(older_than=NOW)


def test_indexes_that_a_table_is_created_with(lake: nb.Catalog) -> None:
    full = lake.create_table("a.c", rows(0, 100), data_format="parquet", indexes=INDEXES)
    assert set(full.health().index_coverage.values()) == {1.0}
    assert full.get(7, on="id") == {"id": 7, "email": "u7@x", "v": 3.5}
    empty = lake.create_table(
        "a.d", rows(0, 0).schema, data_format="parquet", indexes=nb.HashIndex(["v"])
    )
    empty.append(rows(0, 100))
    assert empty.count([3.5], on="v").to_pylist() == [1]
    empty.optimize()
    assert set(empty.health().index_coverage.values()) == {1.0}
    vectors = pa.table({"e": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))})
    with pytest.raises(nb.InvalidArgumentError, match="hash and sorted"):
        lake.create_table("a.e", vectors, data_format="parquet", indexes=[nb.VectorIndex("e")])
    assert "a.e" not in lake.tables()


def test_a_conversion_keeps_indexes(lake: nb.Catalog) -> None:
    table = lake.create_table("a.c", rows(0, 100), primary_key="id", indexes=INDEXES[1:])
    for data_format in ("parquet", "nimble", "parquet"):
        table.convert(data_format)  # type: ignore[arg-type]
        assert "email" in [key.column for info in table.indexes for key in info.columns]
        assert emails(table) == [7, 57]
    assert set(table.health().index_coverage.values()) == {1.0}


def test_a_dropped_index_does_not_return_with_a_conversion(lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.d", rows(0, 100), primary_key="id", indexes=INDEXES[1:], data_format="parquet"
    )
    table.drop_index(["email"])
    table.convert("nimble")
    assert [info.kind for info in lake.table("a.d").indexes] == ["cluster"]


def test_an_index_on_a_dropped_column_goes_with_the_next_upkeep(table: nb.Table) -> None:
    before = len(index_files(table))
    with table.alter() as a:
        a.drop_column("email")
    table.optimize()
    assert [info.columns[0].column for info in table.indexes if info.kind != "cluster"] == ["id"]
    table.remove_orphans(older_than=NOW)
    assert len(index_files(table)) == before - 1
    assert table.lookup([7, 8])["id"].to_pylist() == [7, 8]
