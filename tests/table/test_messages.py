"""What is wrong is said in the words of the caller, with what to do about it."""

from __future__ import annotations

import asyncio
import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

ROWS = pa.table({"reg": ["eu", "us"], "id": [1, 2], "v": [1, 2]})


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", ROWS, primary_key=["reg", "id"])


def _message(call: Callable[[], Any], kind: type[Exception] = nb.InvalidArgumentError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("keys", [[("eu",)], ["eu"], [{"reg": "eu"}], pa.table({"reg": ["eu"]})])
def test_rows_are_deleted_by_whole_keys(table: nb.Table, keys: Any) -> None:
    said = _message(lambda: table.delete(keys=keys))
    assert "id" in said
    assert "on=" not in said
    with table.transaction() as tx:
        assert "on=" not in _message(lambda: tx.delete(keys=keys))
    assert table.num_rows == 2


def test_a_key_as_a_dict_of_other_columns(table: nb.Table) -> None:
    for call in (lambda: table.get({"id": 1}), lambda: table.lookup([{"id": 1}])):
        assert "expected the columns reg, id, or the first of them" in _message(call)
    assert table.get({"reg": "eu"}) == {"reg": "eu", "id": 1, "v": 1}
    assert table.get({"id": 1, "reg": "eu"}) == {"reg": "eu", "id": 1, "v": 1}


def test_one_column_is_updated(table: nb.Table) -> None:
    table.upsert([{"reg": "eu", "id": 1, "v": 5}], update="v")
    assert table.get(("eu", 1)) == {"reg": "eu", "id": 1, "v": 5}
    assert _message(lambda: table.upsert(ROWS, update=5)).startswith("update: expected a list")  # type: ignore[arg-type]
    assert _message(lambda: table.upsert(ROWS, update="w")).startswith("update: a.b has no")
    with table.transaction() as tx:
        tx.upsert([{"reg": "eu", "id": 1, "v": 6}], update="v")
    assert table.get(("eu", 1), ["v"]) == {"v": 6}


@pytest.mark.parametrize("row", [{"id": 1, "v": 7}, {"v": "abc", "id": [1]}, {"v": b"abc"}])
def test_a_row_as_a_dict_goes_in_a_list(lake: nb.Catalog, row: Any) -> None:
    """Text was taken apart: three rows of a letter each."""
    table = lake.create_table("a.b", pa.schema({"id": pa.int64(), "v": pa.string()}))
    said = _message(lambda: table.append(row))
    assert "expected columns as lists, a row as a dict goes in a list: [{...}]" in said


def test_names_that_are_there(table: nb.Table) -> None:
    with table.alter() as a:
        for call in (
            lambda: a.rename_column("reg", "v"),
            lambda: a.add_column("v", pa.int64()),
        ):
            assert _message(call) == "a column 'v' already exists; choose another name"
        a.rename_column("v", "v")
    assert table.schema.names == ROWS.schema.names
    assert "unknown column 'x'; there are 'reg', 'id', 'v'" in _message(
        lambda: table.to_table(["x"])
    )


def test_main_is_not_dropped(table: nb.Table) -> None:
    assert "'main' cannot be dropped" in _message(lambda: table.drop_reference("main"))
    assert "no tag or branch 'x'" in _message(lambda: table.drop_reference("x"))


def test_keywords_of_write(tmp_path: Path) -> None:
    for name, hint in (("compact", "it takes progress, cluster_by"), ("cluster", "'cluster_by'")):
        said = _message(lambda n=name: nb.write(ROWS, tmp_path / "x", **{n: True}), TypeError)  # type: ignore[misc]
        assert said.startswith(f"write() has no argument '{name}'")
        assert hint in said
    assert not (tmp_path / "x").exists()


# ------------------------------------------------------------------ changes of what has gone


def test_changes_since_a_tag_whose_followers_expired(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS)
    table.tag("seen")
    seen = table.snapshot
    for _ in range(3):
        table.append(ROWS)
    other = table.snapshot
    table.expire(keep=1)
    for since in ("seen", seen):
        said = _message(lambda since=since: table.changes(since))  # type: ignore[misc]
        assert f"snapshots between {since} and {other} have expired" in said
        assert "history.expire.min-snapshots-to-keep" in said
        assert "history.expire.max-snapshot-age-ms" in said
        assert "ancestor" not in said


def test_changes_since_a_snapshot_of_another_line(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS)
    first = table.snapshot
    table.append(ROWS)
    left = table.snapshot
    assert first is not None
    table.rollback(first)
    table.append(ROWS)
    said = _message(lambda: table.changes(left))
    assert "not an ancestor" in said
    assert "expired" not in said


# ------------------------------------------------------------------ partitions


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bucket(4, id)", "bucket(8, id)"),
        ("truncate(1, reg)", "truncate(2, reg)"),
        ("truncate(10, id)", "bucket(10, id)"),
    ],
)
def test_a_transform_with_another_width(lake: nb.Catalog, first: str, second: str) -> None:
    table = lake.create_table("a.b", ROWS, partition_by=first)
    for wanted in (second, first, second):
        with table.alter() as a:
            a.partition_by(wanted)
        assert table.partition_by == [wanted]
        table.append(ROWS)
    assert table.num_rows == 8
    assert len(table.iceberg.specs()) == 2
    assert table.to_table(filter="id = 1").num_rows == 4
    with table.alter() as a:
        a.partition_by(first, second) if "bucket" in second else a.partition_by(second)
    table.append(ROWS)
    assert table.to_table(filter="reg = 'eu'").num_rows == 5


TIMES = pa.table({"id": [1], "ts": [dt.datetime(2024, 5, 1, 7)], "ts_day": ["x"], "id_bucket": [0]})


def test_partition_fields_beside_columns_of_their_names(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", TIMES, partition_by=["day(ts)", "bucket(4, id)"])
    assert table.partition_by == ["day(ts)", "bucket(4, id)"]
    other = lake.create_table("a.c", TIMES)
    with other.alter() as a:
        a.partition_by("day(ts)", "bucket(4, id)")
    for some in (table, other):
        some.append(TIMES)
        names = [field.name for field in some.iceberg.spec().fields]
        assert names == ["ts_day_2", "id_bucket_4"]
        assert some.to_table(filter="ts > TIMESTAMP '2024-01-01'").num_rows == 2


def test_a_column_of_the_name_of_a_partition_field(lake: nb.Catalog) -> None:
    rows = TIMES.select(["id", "ts"])
    table = lake.create_table("a.b", rows, partition_by=["day(ts)"])
    expected = "the name 'ts_day' is used by the partition field day(ts)"
    for _ in range(2):
        with table.alter() as a:
            assert expected in _message(lambda: a.add_column("ts_day", pa.date32()))
            assert expected in _message(lambda: a.rename_column("id", "ts_day"))
            a.partition_by()
    assert table.schema.names == ["id", "ts"]


def test_a_column_of_an_old_partition_spec(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, partition_by="reg")
    with table.alter() as a:
        assert "part of a partition spec, which" in _message(lambda: a.drop_column("reg"))
        a.partition_by()
    with table.alter() as a:
        assert "old partition spec of the table" in _message(lambda: a.drop_column("reg"))


# ------------------------------------------------------------------ closed


def test_a_closed_table(lake: nb.Catalog) -> None:
    """Some methods went on, and others spoke of a dataset."""
    table = lake.create_table("a.b", ROWS, primary_key=["reg", "id"])
    table.get(("eu", 1))
    history = table.snapshots()
    table.close()
    table.close()
    calls: list[Callable[[], Any]] = [
        lambda: table.get(("eu", 1)),
        lambda: table.get(("eu", 5), default=3),
        lambda: table.lookup([("eu", 1)]),
        lambda: table.to_table(),
        lambda: table.num_rows,
        lambda: table.schema,
        lambda: list(table.changes(None)),
        lambda: table.refresh(),
        lambda: table.at(snapshot=table.snapshot),
        lambda: table.append(ROWS),
        lambda: table.upsert(ROWS),
        lambda: table.delete("id = 1"),
        lambda: table.alter(),
        lambda: table.transaction(),
        lambda: table.compact(),
        lambda: table.health(),
        lambda: table.tag("x"),
        lambda: table.sample(0.5),
        lambda: table.census(),
    ]
    for call in calls:
        assert _message(call) == "this table is closed: a.b"
    assert table.snapshots().equals(history)
    assert (table.name, table.tags, table.properties != {}) == ("a.b", {}, True)
    assert "closed" in repr(table)
    assert pickle.loads(pickle.dumps(table)).num_rows == 2
    assert lake.table("a.b").num_rows == 2


def test_aio_leaves_the_table_open_that_it_was_given(table: nb.Table) -> None:
    async def ask() -> Any:
        async with nb.aio(table) as rows:
            return await rows.get(("eu", 1), ["v"])

    assert asyncio.run(ask()) == {"v": 1}
    assert table.get(("eu", 1), ["v"]) == {"v": 1}
