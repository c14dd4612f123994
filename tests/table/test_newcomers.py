"""What new users tried first: tables without rows, dropped tables, tags and zones."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import sys
import types
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.schema.values import is_null


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")


def test_a_branch_of_a_table_without_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema([("id", pa.int64())]), primary_key="id")
    table.branch("audit").tag("start")
    assert table.snapshot == table.tags["start"] == table.branches["audit"]
    audit = table.at(branch="audit")
    audit.append([{"id": 1}])
    assert lake.table("a.b").count_rows() == 0
    assert lake.table("a.b").to_table().num_rows == 0
    table.fast_forward("main", to="audit")
    assert table.get(1) == {"id": 1}
    assert table.rollback("start").count_rows() == 0


def test_a_first_snapshot_is_not_made_twice(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema([("id", pa.int64())]), primary_key="id")
    lake.table("a.b").append([{"id": 1}])
    table.tag("first")  # the handle does not know of the row yet
    assert table.at(tag="first").count_rows() == 1
    assert table.snapshots().num_rows == 1


def test_a_rollback_to_a_tag(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    table.tag("v1").branch("side")
    table.append([{"id": 2}])
    table.rollback("v1")
    assert table.count_rows() == 1
    for name in ("side", "nothing"):
        with pytest.raises(nb.InvalidArgumentError, match=f"no tag '{name}'"):
            table.rollback(name)


def test_a_handle_of_a_dropped_table_says_so(lake: nb.Catalog) -> None:
    lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    old = lake.table("a.b")
    lake.drop_table("a.b", purge=True)
    for read in (lambda: old.get(1), old.to_table, lambda: old.lookup([1])):
        with pytest.raises(nb.StaleFileError, match=r"a\.b: the table was dropped"):
            read()


def test_a_scan_names_its_table(lake: nb.Catalog) -> None:
    scan = lake.create_table("a.b", pa.table({"id": [1]})).scan()
    assert "<nimblepy.Table 'a.b': snapshot" in repr(scan)
    assert "FileSet" not in scan._repr_html_()


@pytest.mark.parametrize("offset", ["+05:00", "-03:00", "+00:00", "+14:00"])
def test_filters_in_a_zone_of_fixed_offset(lake: nb.Catalog, offset: str) -> None:
    minutes = range(0, 48 * 60, 30)
    times = pa.array([60_000_000 * m for m in minutes], pa.timestamp("us", offset))
    table = lake.create_table("a.b", pa.table({"id": list(minutes), "ts": times}))
    sign = -1 if offset[0] == "-" else 1
    shift = sign * (int(offset[1:3]) * 60 + int(offset[4:6]))
    found = table.to_table(filter="hour(ts) = 6 AND minute(ts) = 30")["id"].to_pylist()
    assert found == [m for m in minutes if (m + shift) % 1440 == 6 * 60 + 30]


def test_an_offset_that_duckdb_does_not_know(lake: nb.Catalog) -> None:
    times = pa.array([0, 3_600_000_000], pa.timestamp("us", "+05:30"))
    table = lake.create_table("a.b", pa.table({"id": [1, 2], "ts": times}))
    with pytest.raises(nb.InvalidArgumentError, match=r"'\+05:30', in which DuckDB cannot"):
        table.to_table(filter="hour(ts) = 6")
    assert table.to_table(filter="ts > '1970-01-01 05:30:00'")["id"].to_pylist() == [2]


def test_a_file_is_refreshed_if_older(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(pa.table({"id": [1]}), path)
    with nb.open(path) as file:
        nb.write(pa.table({"id": [1, 2]}), path)
        assert file.refresh(if_older_than=600) is False
        assert file.num_rows == 1
        assert file.refresh(if_older_than=0) is True
        assert file.num_rows == 2
        assert file.refresh(if_older_than=0) is False
        assert file.refresh() is file
        with pytest.raises(nb.InvalidArgumentError, match="if_older_than"):
            file.refresh(if_older_than=-1)


def test_diff_takes_branches(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    table.tag("v1").branch("audit").at(branch="audit").append([{"id": 77}])
    place = f"{Path(table.location.removeprefix('file://')).parent.parent}#a.b"
    done = CliRunner().invoke(app, ["table", "diff", place, "v1", "audit", "--csv"])
    assert done.exit_code == 0, done.output
    assert "77" in done.output


def test_a_default_of_a_uuid_column(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    name = uuid.UUID(int=7)
    with table.alter() as a:
        a.add_column("u", pa.uuid(), default=name)
    table.append([{"id": 2, "u": name}])
    assert [table.get(1), table.get(2)] == [{"id": 1, "u": name}, {"id": 2, "u": name}]
    assert table.lookup([1, 2]).to_pylist() == [table.get(1), table.get(2)]


def test_a_day_without_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    for change in (table.append, table.upsert):
        done = change([])
        assert (done.rows_inserted, done.rows_updated, done.files_added) == (0, 0, 0)
    assert table.get(1) == {"id": 1}
    with pytest.raises(nb.InvalidArgumentError, match="has no columns"):
        lake.create_table("a.c", [])


DAY = dt.date(2026, 1, 1)
NOON = dt.datetime(2026, 1, 1, 12)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([DAY, None, NOON], "a date .* and a time without a zone"),
        ([NOON, DAY], "a time without a zone .* and a date"),
        (
            [None, NOON, NOON.replace(tzinfo=dt.UTC)],
            "a time without a zone .* and a time with a zone",
        ),
    ],
)
def test_a_new_column_of_mixed_times(lake: nb.Catalog, values: list[Any], why: str) -> None:
    data = [{"id": i, "at": value} for i, value in enumerate(values)]
    with pytest.raises(nb.InvalidArgumentError, match=f"column 'at' has {why}"):
        lake.create_table("a.b", data)
    frame = pd.DataFrame({"at": pd.Series(values, dtype=object)})
    with pytest.raises(nb.InvalidArgumentError, match="column 'at' has"):
        lake.create_table("a.b", frame)
    typed = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = lake.create_table("a.b", typed, primary_key="id")
    table.append(data)
    assert table.count_rows() == len(values)


def test_the_snapshot_of_a_transaction_expires(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": range(9), "v": range(9)}), primary_key="id")
    with table.transaction() as changes:
        other = lake.table("a.b")
        other.upsert([{"id": 1, "v": 5}])
        other.compact(where_needed=False)
        other.expire(keep=1, older_than=dt.timedelta(0))
        with pytest.raises(nb.StaleFileError, match="has expired"):
            changes.get(5)


def test_an_index_is_not_dropped_on_a_branch(lake: nb.Catalog) -> None:
    rows = pa.table({"id": [1], "v": [5]})
    table = lake.create_table("a.b", rows, primary_key="id", indexes=[nb.HashIndex("v")])
    table.branch("audit")
    with pytest.raises(nb.InvalidArgumentError, match="drop the index on 'main'"):
        table.at(branch="audit").drop_index("v")
    table.append([{"id": 2, "v": 5}])
    assert table.lookup([5], on="v").num_rows == 2


@pytest.mark.parametrize("command", ["append", "upsert"])
def test_decimals_of_csv_are_rounded_on_request(tmp_path: Path, command: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])
    table = nb.connect(tmp_path / "lake").create_table("a.b", schema, primary_key="id")
    (tmp_path / "new.csv").write_text("id,price\n1,1.999\n")
    arguments = ["table", command, f"{tmp_path / 'lake'}#a.b", str(tmp_path / "new.csv")]
    assert CliRunner().invoke(app, arguments).exit_code == 2
    done = CliRunner().invoke(app, [*arguments, "--cast"])
    assert done.exit_code == 0, done.output
    assert table.refresh().get(1) == {"id": 1, "price": decimal.Decimal("2.00")}


def test_rows_are_deleted_by_a_command(tmp_path: Path) -> None:
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.table({"id": range(9)}))
    table.branch("audit")
    command = ["table", "delete", f"{tmp_path / 'lake'}#a.b", "--filter", "id < 4"]
    done = CliRunner().invoke(app, [*command, "--branch", "audit"])
    assert done.exit_code == 0, done.output
    assert "4 deleted" in done.output
    assert table.refresh().count_rows() == 9
    assert CliRunner().invoke(app, command).exit_code == 0
    assert table.refresh().to_table()["id"].to_pylist() == [4, 5, 6, 7, 8]
    assert CliRunner().invoke(app, command[:3]).exit_code == 2


def test_verify_names_all_damaged_files(tmp_path: Path) -> None:
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema([("id", pa.int64())]))
    for number in range(4):
        table.append(pa.table({"id": range(number * 1000, number * 1000 + 1000)}))
    paths = [Path(p.removeprefix("file://")) for p in table.files()["path"].to_pylist()]
    for path in paths[:2]:
        octets = bytearray(path.read_bytes())
        octets[len(octets) // 3] ^= 1
        path.write_bytes(octets)
    paths[2].unlink()
    done = CliRunner().invoke(app, ["verify", f"{tmp_path / 'lake'}#a.b"])
    assert done.exit_code == 1
    assert [path.name in done.stderr for path in paths] == [True, True, True, False]


def test_pandas_is_being_imported_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", types.ModuleType("pandas"))
    assert is_null(None)
    assert not is_null(1)


def test_floats_and_decimals_in_one_column(lake: nb.Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("d", pa.decimal128(12, 2))])
    table = lake.create_table("a.b", schema, primary_key="id")
    table.append([{"id": 0, "d": 19.99}, {"id": 1, "d": decimal.Decimal("1.25")}, {"id": 2}])
    assert [row["d"] for row in table.to_table().to_pylist()] == [
        decimal.Decimal("19.99"),
        decimal.Decimal("1.25"),
        None,
    ]
    with pytest.raises(nb.InvalidArgumentError, match=r"19\.999 is not a value of decimal"):
        table.append([{"id": 3, "d": 19.999}, {"id": 4, "d": decimal.Decimal("1.25")}])
    with pytest.raises(nb.InvalidArgumentError, match="a missing value is None"):
        table.append([{"id": float("nan")}])


@pytest.mark.parametrize("primary_key", ["id", ["id", "k"]])
def test_uuid_keys_in_transactions(lake: nb.Catalog, primary_key: Any) -> None:
    ids = [uuid.UUID(int=i) for i in range(1, 5)]
    rows = [{"id": id_, "k": k, "n": 0} for k, id_ in enumerate(ids)]
    schema = pa.schema([("id", pa.uuid()), ("k", pa.int64()), ("n", pa.int64())])
    table = lake.create_table("a.u", schema, primary_key=primary_key)
    table.append(rows[:3])
    key = [id_ if primary_key == "id" else (id_, k) for k, id_ in enumerate(ids)]
    with table.transaction() as t:
        t.delete(keys=[key[0]])
        t.upsert([rows[1] | {"n": 1}, rows[3]])
        t.delete("k = 2")
    left = table.to_table().sort_by("k").to_pylist()
    assert left == [rows[1] | {"n": 1}, rows[3]]


def test_files_for_uuid_keys(lake: nb.Catalog) -> None:
    ids = [uuid.UUID(int=i) for i in (1, 2, 9)]
    schema = pa.schema([("id", pa.uuid())])
    table = lake.create_table("a.u", schema, primary_key="id")
    table.append([{"id": ids[0]}, {"id": ids[1]}])
    for keys in (ids, [str(id_) for id_ in ids], pa.array([i.bytes for i in ids], pa.uuid())):
        assert table.files_for_keys(keys)["keys"].to_pylist() == [2]
        assert table.files_for_keys([keys[2]]).num_rows == 0


@pytest.mark.parametrize("primary_key", ["id", ["g", "id"]])
def test_deletes_without_keys_change_nothing(lake: nb.Catalog, primary_key: Any) -> None:
    table = lake.create_table("a.b", pa.table({"g": [1], "id": [2]}), primary_key=primary_key)
    assert table.delete(keys=[]).rows_deleted == 0
    with table.transaction() as t:
        t.delete(keys=[])
    assert table.num_rows == 1
    assert table.snapshots().num_rows == 1


def test_a_handle_pins_its_own_snapshot_after_others_expired_it(lake: nb.Catalog) -> None:
    # Was InvalidArgumentError, although the handle itself still answered.
    writer = lake.create_table("a.b", pa.table({"id": [1, 2], "v": [0, 0]}), primary_key="id")
    older = lake.table("a.b").snapshot
    writer.append([{"id": 3, "v": 0}])
    reader = lake.table("a.b")
    assert reader.get(1) == {"id": 1, "v": 0}
    writer.overwrite([{"id": 1, "v": 1}])
    writer.expire(keep=1)
    with reader.at(snapshot=reader.snapshot) as pinned:
        assert pinned.get(1) == {"id": 1, "v": 0}
        assert reader.refresh().get(1) == {"id": 1, "v": 1}
        assert pinned.get(1) == {"id": 1, "v": 0}  # its file was removed and is still open
        with pytest.raises(nb.InvalidArgumentError, match="read-only"):
            pinned.append([{"id": 9, "v": 9}])
    assert reader.get(1) == {"id": 1, "v": 1}
    for snapshot in (older, 1):
        with pytest.raises(nb.InvalidArgumentError, match=rf"snapshot {snapshot} not found"):
            reader.at(snapshot=snapshot)


def test_a_handle_pins_its_own_snapshot_without_a_read(lake: nb.Catalog) -> None:
    lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    reader = lake.table("a.b")
    reader.get(1)
    lake.drop_table("a.b")
    assert reader.at(snapshot=reader.snapshot).get(1) == {"id": 1}


def test_changes_and_refreshes_of_a_dropped_table_raise_the_same_error(lake: nb.Catalog) -> None:
    # refresh() raised InvalidArgumentError.
    lake.create_table("a.b", pa.table({"id": [1]}), primary_key="id")
    old = lake.table("a.b")
    lake.drop_table("a.b")
    for call in (
        old.refresh,
        lambda: old.refresh(if_older_than=0),
        lambda: old.append([{"id": 2}]),
        lambda: old.at(tag="x"),
        old.optimize,
    ):
        with pytest.raises(nb.ConflictError, match=r"a\.b: the table was dropped") as caught:
            call()
        assert caught.value.kind == "table"
    assert old.get(1) == {"id": 1}


def test_messages_say_what_to_do(lake: nb.Catalog, tmp_path: Path) -> None:
    vectors = pa.list_(pa.float32(), 2)
    rows = pa.table({"id": [1], "kind": ["a"], "v": pa.array([[1.0, 2.0]], vectors)})
    parquet = lake.create_table("a.p", rows, primary_key="id", data_format="parquet")
    with pytest.raises(nb.InvalidArgumentError, match=r'file is Parquet, convert\("nimble"\)'):
        parquet.nearest([1, 0], k=1)
    with pytest.raises(nb.IndexUnavailableError, match=r"\(kind\) in a Parquet file.*add_index"):
        parquet.lookup(["a"], on="kind")
    lists = lake.create_table("a.l", pa.table({"v": pa.array([[1.0, 2.0]])}))
    with pytest.raises(nb.InvalidArgumentError, match=r"lists of 'v' have any length.*list_\("):
        lists.nearest([1, 0], k=1)
    long = pa.array([[1, 2]], pa.list_(pa.int64(), 2))
    with pytest.raises(nb.InvalidArgumentError, match=r"vectors of 'v' are of int64, expected"):
        lake.create_table("a.s", pa.table({"v": long})).nearest([1, 0], k=1)
    with pytest.raises(nb.InvalidArgumentError, match=r"such as timedelta\(hours=2\), got '2h'"):
        parquet.at(time="2h")  # type: ignore[arg-type]
    (tmp_path / "a.csv").write_text("id;kind\n1;a\n")
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.csv: .*'id;kind'; the delimiter of csv"):
        parquet.append(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["out.parquet", "x.CSV", "x.jsonl"])
def test_convert_writes_no_other_formats(tmp_path: Path, name: str) -> None:
    nb.connect(tmp_path / "lake").create_table("a.b", pa.table({"id": [1]}))
    target = tmp_path / name
    done = CliRunner().invoke(app, ["convert", f"{tmp_path}/lake#a.b", str(target)])
    assert done.exit_code == 2
    assert "convert writes nimble files" in done.output
    assert not target.exists()


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_a_default_inside_a_null_struct_is_null(lake: nb.Catalog, data_format: Any) -> None:
    # The field alone had the default where its struct is null, until a compaction.
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    table = lake.create_table("a.b", schema, primary_key="id", data_format=data_format)
    table.append([{"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}])
    with table.alter() as a:
        a.add_column(("s", "x"), pa.int64(), default=5)
        a.add_column(("s", "in"), pa.struct([("y", pa.int64())]))
    with table.alter() as a:
        a.add_column(("s", "in", "z"), pa.int64(), default=6)
    for _ in range(2):
        assert table.to_table([("s", "x")]).to_pylist() == [{"s.x": 5}, {"s.x": None}]
        assert table.to_table([("s", "in", "z")])["s.in.z"].to_pylist() == [None, None]
        assert table.count_rows("s.x = 5") == table.count_rows("s.x IS NULL") == 1
        assert table.lookup([2], columns=[("s", "x"), "s"]).to_pylist() == [
            {"s.x": None, "s": None}
        ]
        assert table.get(1, [("s", "x")]) == {"s.x": 5}
        assert table.get(2, [("s", "x")]) == {"s.x": None}
        table.compact(where_needed=False)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("index", [nb.HashIndex("f"), nb.SortedIndex("f")])
def test_an_indexed_column_that_is_widened(lake: nb.Catalog, data_format: Any, index: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32())])
    table = lake.create_table("a.b", schema, primary_key="id", data_format=data_format)
    table.append([{"id": i, "f": i / 4} for i in range(10)])
    table.add_index(index)
    with table.alter() as a:
        a.widen("f", pa.float64())
    table.append([{"id": 10, "f": 0.5}, {"id": 11, "f": 0.1}])
    assert sorted(table.lookup([0.5], on="f")["id"].to_pylist()) == [2, 10]
    assert table.lookup([0.1], on="f")["id"].to_pylist() == [11]


def test_an_index_of_parquet_files_stays_in_nimble_files(lake: nb.Catalog) -> None:
    rows = pa.table({"id": [1, 2, 3], "g": [0, 1, 0]})
    table = lake.create_table("a.b", rows, primary_key="id", data_format="parquet")
    table.add_index(nb.HashIndex("g"))
    with pytest.raises(nb.IndexUnavailableError, match="no such index"):
        table.drop_index(nb.VectorIndex("g"))
    table.convert("nimble")
    assert table.lookup([0], on="g").num_rows == 2
    assert [info.kind for info in table.indexes] == ["cluster", "hash"]


def test_keys_in_a_dict_without_names(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"id": [1, 2]}), primary_key="id")
    with pytest.raises(nb.InvalidArgumentError, match="expected names of columns"):
        table.lookup({1: [1, 2]})


def test_a_nearest_search_is_a_read_of_a_transaction(lake: nb.Catalog) -> None:
    vectors = pa.list_(pa.float32(), 2)
    rows = pa.table({"id": [1, 9], "v": pa.array([[0, 0], [5, 5]], vectors)})
    table = lake.create_table("a.b", rows, primary_key="id", cluster_by="id")
    searches: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"lower": 0, "upper": 5}, True),
        ({"lower": 6}, False),
    ]
    for number, (within, conflicts) in enumerate(searches):
        expected = pytest.raises(nb.ConflictError) if conflicts else contextlib.nullcontext()
        with expected, table.transaction() as tx:
            tx.nearest([1, 1], k=1, **within)
            lake.table("a.b").upsert([{"id": 2 + number, "v": [1, 1]}])
            tx.upsert([{"id": 8, "v": [0, 0]}])


def test_many_columns_are_added_at_once(lake: nb.Catalog) -> None:
    # Took five minutes: each column was checked against all others, in a copy of the metadata.
    wide = pa.table({"id": [1], **{f"c{i}": [i] for i in range(500)}})
    table = lake.create_table("a.b", wide, primary_key="id")
    table.upsert(pa.table({"id": [1], **{f"d{i}": [i] for i in range(50)}}), new_columns="add")
    assert table.get(1, ["c7", "d49"]) == {"c7": None, "d49": 49}


@pytest.mark.parametrize("indexes", [None, 5, "id"])
def test_indexes_that_are_none_are_refused(lake: nb.Catalog, indexes: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"expected nb\.HashIndex.*got "):
        lake.create_table("a.b", pa.table({"id": [1]}), indexes=indexes)


def test_a_file_that_is_no_metadata_is_not_shown(lake: nb.Catalog, tmp_path: Path) -> None:
    # The message had all bytes of the file.
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 100)
    with pytest.raises(nb.CorruptFileError, match=r"a\.parquet: not a metadata file") as error:
        lake.register("a.b", tmp_path / "a.parquet")
    assert len(str(error.value)) < 500
