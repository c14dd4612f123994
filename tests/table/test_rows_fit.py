"""Rows fit: lossless conversions, cast=True, new columns, UUIDs, vectors and time zones."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.table.testing import commit_hooks

BERLIN = ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2024, 6, 1, 12)
U = uuid.UUID(int=2**100 + 7)

# (type of the column, value that is given, value that is read)
TAKEN: list[tuple[pa.DataType, Any, Any]] = [
    (pa.float64(), 1, 1.0),
    (pa.float32(), 0.1, float(np.float32(0.1))),
    (pa.float32(), 3, 3.0),
    (pa.int32(), 2**31 - 1, 2**31 - 1),
    (pa.int64(), 7.0, 7),
    (pa.int64(), Decimal("7.00"), 7),
    (pa.decimal128(10, 2), Decimal("5.2"), Decimal("5.20")),
    (pa.decimal128(10, 2), 5, Decimal("5.00")),
    (pa.decimal128(10, 2), 19.99, Decimal("19.99")),
    (pa.float64(), Decimal("0.3"), 0.3),
    (pa.list_(pa.float32()), [0.5, 1], [0.5, 1.0]),
    (pa.list_(pa.float32(), 2), [0.1, 1], [float(np.float32(0.1)), 1.0]),
    (pa.list_(pa.float32(), 2), np.array([1, 2], np.float64), [1.0, 2.0]),
    (pa.uuid(), U, U),
    (pa.uuid(), str(U), U),
    (pa.uuid(), U.hex, U),
    (pa.uuid(), U.bytes, U),
    (pa.string(), U, str(U)),
    (pa.date32(), "2024-06-01", dt.date(2024, 6, 1)),
    (pa.date32(), dt.datetime(2024, 6, 1), dt.date(2024, 6, 1)),
    (pa.timestamp("us"), dt.date(2024, 6, 1), dt.datetime(2024, 6, 1)),
    (pa.timestamp("us"), "2024-06-01T12:00:00", NOON),
    (pa.timestamp("us", "Europe/Berlin"), NOON, NOON.replace(tzinfo=BERLIN)),
    (pa.timestamp("us", "Europe/Berlin"), "2024-06-01 12:00", NOON.replace(tzinfo=BERLIN)),
    (
        pa.timestamp("us", "Europe/Berlin"),
        dt.datetime(2024, 6, 1, 10, tzinfo=dt.UTC),
        NOON.replace(tzinfo=BERLIN),
    ),
    (pa.struct({"a": pa.float32(), "b": pa.int64()}), {"b": 1.0}, {"a": None, "b": 1}),
    (
        pa.struct({"t": pa.timestamp("us", "Europe/Berlin")}),
        {"t": NOON},
        {"t": NOON.replace(tzinfo=BERLIN)},
    ),
    (pa.map_(pa.string(), pa.float64()), {"a": 1}, [("a", 1.0)]),
]

# (type of the column, value that is refused, with cast=True: the value read, or None: refused)
LOSSY: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int64(), 1.5, 1),
    (pa.int64(), Decimal("-1.5"), -1),
    (pa.int32(), 2**31, None),
    (pa.int32(), 1e30, None),
    (pa.float64(), 2**53 + 1, float(2**53)),
    (pa.float64(), 2**63 - 1, float(2**63)),
    (pa.float32(), 2**24 + 1, float(2**24)),
    (pa.float32(), 1e300, None),
    (pa.decimal128(4, 1), Decimal("1.25"), Decimal("1.2")),
    (pa.decimal128(4, 1), 1.26, Decimal("1.3")),
    (pa.decimal128(4, 1), 12345, None),
    (pa.date32(), NOON, dt.date(2024, 6, 1)),
    (pa.timestamp("us"), NOON.replace(tzinfo=BERLIN), NOON),
    (pa.timestamp("us", "Europe/Berlin"), dt.datetime(2024, 3, 31, 2, 30), "moved"),
    (pa.uuid(), "nonsense", None),
    (pa.list_(pa.int64(), 2), [1, 2, 3], None),
    (pa.int64(), "x", None),
]


def made(lake: nb.Catalog, kind: pa.DataType, name: str = "a.b", **options: Any) -> nb.Table:
    return lake.create_table(name, pa.schema({"k": pa.int64(), "v": kind}), **options)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize(("kind", "given", "read"), TAKEN, ids=str)
def test_lossless_values_are_stored(
    lake: nb.Catalog, kind: pa.DataType, given: Any, read: Any, data_format: Any
) -> None:
    table = made(lake, kind, primary_key="k", data_format=data_format)
    table.append([{"k": 1, "v": given}, {"k": 2, "v": None}])
    table.upsert({"k": [3.0], "v": [given]})
    table.merge([{"k": 4, "v": given}]).when_not_matched().execute()
    found = {row["k"]: row["v"] for row in table.to_table().to_pylist()}
    assert found == {1: read, 2: None, 3: read, 4: read}
    assert table.schema.field("v").type == kind
    table.overwrite([{"k": 5, "v": given}])
    assert table.get(5) == {"k": 5, "v": read}


@pytest.mark.parametrize(("kind", "given", "read"), LOSSY, ids=str)
def test_lossy_values_are_refused_and_cast_where_asked(
    lake: nb.Catalog, kind: pa.DataType, given: Any, read: Any
) -> None:
    table = made(lake, kind)
    rows = [{"k": 1, "v": None}, {"k": 2, "v": given}]
    with pytest.raises(nb.InvalidArgumentError, match="'v'") as caught:
        table.append(rows)
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        assert "row 1" in str(caught.value)
        assert str(given).split("e")[0] in str(caught.value).replace(".0", "")
    if read is None:
        with pytest.raises(nb.InvalidArgumentError, match="'v'"):
            table.append(rows, cast=True)
        assert table.refresh().snapshot is None
        return
    table.append(rows, cast=True)
    if read == "moved":  # to the end of the hour that clocks skip
        read = dt.datetime(2024, 3, 31, 3, tzinfo=BERLIN)
    assert table.to_table()["v"].to_pylist() == [None, read]


def test_floats_of_arrow_must_be_exact(lake: nb.Catalog) -> None:
    table = made(lake, pa.float32())
    with pytest.raises(nb.InvalidArgumentError, match=r"row 1: 0.1 .* cast=True to round"):
        table.append(pa.table({"k": [1, 2], "v": [0.5, 0.1]}))
    table.append(pa.table({"k": [1], "v": [0.5]}))
    table.append(pa.table({"k": [2], "v": [0.1]}), cast=True)
    assert sorted(table.to_table()["v"].to_pylist()) == [float(np.float32(0.1)), 0.5]


def test_csv_text_is_read_as_the_columns_say(lake: nb.Catalog, tmp_path: Path) -> None:
    schema = {"k": pa.int64(), "zip": pa.string(), "price": pa.float64(), "w": pa.float32()}
    more = {"d": pa.decimal128(10, 2), "t": pa.timestamp("us", "Europe/Berlin"), "u": pa.uuid()}
    table = lake.create_table("a.b", pa.schema({**schema, **more}))
    text = f"k,zip,price,w,d,t,u\n1,00123,5,0.1,5.2,2024-06-01 12:00:00,{U}\n"
    (tmp_path / "t.csv").write_text(text)
    table.append(tmp_path / "t.csv")
    row = {"k": 1, "zip": "00123", "price": 5.0, "w": float(np.float32(0.1)), "u": U}
    row |= {"d": Decimal("5.20"), "t": NOON.replace(tzinfo=BERLIN)}
    assert table.to_table().to_pylist() == [row]
    (tmp_path / "t.jsonl").write_text('{"k": 2, "w": 0.1}\n')
    table.append(tmp_path / "t.jsonl")
    assert table.to_table(filter="k = 2")["w"].to_pylist() == [float(np.float32(0.1))]


def test_new_columns(lake: nb.Catalog) -> None:
    table = made(lake, pa.int64(), primary_key="k")
    rows = [{"k": 1, "v": 2, "x": "a"}]
    with pytest.raises(nb.InvalidArgumentError, match=r"unknown column 'x'.*new_columns='add'"):
        table.append(rows)
    assert table.append(rows, new_columns="drop").rows_inserted == 1
    assert table.schema.names == ["k", "v"]
    before = table.snapshots().num_rows
    table.upsert([{"k": 1, "x": "b", "u": U}, {"k": 2}], new_columns="add")
    assert table.snapshots().num_rows == before + 1
    assert table.get(1) == {"k": 1, "v": None, "x": "b", "u": U}
    merge = table.merge([{"k": 2, "m": 1.5}], new_columns="add")
    merge.when_matched(update=True).execute()
    assert table.get(2) == {"k": 2, "v": None, "x": None, "u": None, "m": 1.5}
    table.overwrite([{"k": 9, "vec": [1.0]}], new_columns="add")
    assert lake.table("a.b").to_table().to_pylist() == [
        {"k": 9, "v": None, "x": None, "u": None, "m": None, "vec": [1.0]}
    ]
    wrong: Any = "yes"
    with pytest.raises(nb.InvalidArgumentError, match="expected 'error', 'add' or 'drop'"):
        table.append(rows, new_columns=wrong)
    with table.transaction() as tx:
        tx.upsert([{"k": 9, "v": 1.0, "other": 1}], new_columns="drop")
        with pytest.raises(nb.InvalidArgumentError, match="cannot add columns"):
            tx.upsert([{"k": 9}], new_columns=wrong and "add")  # type: ignore[arg-type]
    assert table.refresh().get(9, columns=["v"]) == {"v": 1}


def test_new_columns_must_have_free_names(lake: nb.Catalog, tmp_path: Path) -> None:
    """``alter()`` checked the names, but rows with new columns gave them to dropped data."""
    table = lake.create_table("a.b", pa.schema([("k", pa.int64()), ("x", pa.int64())]))
    pq.write_table(pa.table({"k": [1], "x": [77]}), tmp_path / "f.parquet")
    table.add_files(str(tmp_path / "f.parquet"))
    with table.alter() as a:
        a.drop_column("x")
    for name, error in [
        ("x", "stands for a column that was dropped in files without field ids"),
        ("", "a column needs a name"),
        ("_nimblepy_weight", "reserved for OTree files"),
    ]:
        new = pa.table({"k": [2], name: [5]})
        for change in (table.append, table.overwrite):
            with pytest.raises(nb.InvalidArgumentError, match=error):
                change(new, new_columns="add")
        merge = table.merge(new, on="k", new_columns="add").when_not_matched(insert=True)
        with pytest.raises(nb.InvalidArgumentError, match=error):
            merge.execute()
    assert lake.table("a.b").to_table().to_pylist() == [{"k": 1}]
    days = lake.create_table("a.c", pa.schema([("t", pa.date32())]), partition_by="day(t)")
    with pytest.raises(nb.InvalidArgumentError, match=r"partition field day\(t\)"):
        days.append(pa.table({"t": [dt.date(2024, 1, 1)], "t_day": [1]}), new_columns="add")


def test_fields_that_a_struct_lacks(lake: nb.Catalog) -> None:
    table = made(lake, pa.struct({"a": pa.int64()}))
    for rows in ([{"v": {"a": 1, "b": 2}}], pa.table({"v": [{"a": 1, "b": 2}]})):
        with pytest.raises(nb.InvalidArgumentError, match=r"'v'\.b is not a field"):
            table.append(rows)
        table.append(rows, new_columns="drop")
    assert table.to_table()["v"].to_pylist() == [{"a": 1}, {"a": 1}]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_two_writers_add_columns(lake: nb.Catalog, data_format: Any) -> None:
    table = made(lake, pa.int64(), primary_key="k", data_format=data_format)
    other = lake.table("a.b")
    raced: list[dict[str, Any]] = []

    def before_swap() -> None:
        if raced:
            other.refresh().append([raced.pop()], new_columns="add")

    raced.append({"k": 1, "x": 1})
    with commit_hooks(before_swap=before_swap):
        assert table.append([{"k": 2, "x": 2}], new_columns="add").retries == 1
    folder = Path(table.location.removeprefix("file://")) / "data"
    files = sorted(folder.iterdir())
    raced.append({"k": 3, "y": 1})
    with commit_hooks(before_swap=before_swap), pytest.raises(nb.ConflictError) as caught:
        table.append([{"k": 4, "z": 2}], new_columns="add")
    assert caught.value.kind == "schema"
    assert len(list(folder.iterdir())) == len(files) + 1  # that of the other writer
    table.refresh().append([{"k": 4, "z": 2}], new_columns="add")
    found = sorted(table.to_table(["k", "x", "y", "z"]).to_pylist(), key=lambda row: row["k"])
    assert [tuple(row.values()) for row in found] == [
        (1, 1, None, None),
        (2, 2, None, None),
        (3, None, 1, None),
        (4, None, None, 2),
    ]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_uuids_vectors_and_zones_are_types(lake: nb.Catalog, data_format: Any) -> None:
    schema = pa.schema(
        {
            "id": pa.uuid(),
            "vec": pa.list_(pa.float32(), 3),
            "ts": pa.timestamp("us", "Europe/Berlin"),
        }
    )
    ids = [uuid.UUID(int=(i * 37 % 40) << 90) for i in range(40)]
    rows = [
        {"id": u, "vec": [i, 0.5, 1] if i % 3 else None, "ts": NOON + dt.timedelta(hours=i)}
        for i, u in enumerate(ids)
    ]
    options: dict[str, Any] = {"primary_key": "id", "data_format": data_format}
    table = lake.create_table("a.b", schema, partition_by="bucket(3, id)", **options)
    for at in range(0, 40, 10):
        table.append(rows[at : at + 10])
    table.delete(keys=[ids[7]])
    table.compact(where_needed=False)
    left = [row for row in rows if row["id"] != ids[7]]
    for opened in (table, lake.table("a.b")):
        assert opened.schema.types == schema.types
        assert opened.get(ids[5])["vec"] == [5.0, 0.5, 1.0]
        assert opened.get(str(ids[4])) == {
            "id": ids[4],
            "vec": [4.0, 0.5, 1.0],
            "ts": (NOON + dt.timedelta(hours=4)).replace(tzinfo=BERLIN),
        }
        assert opened.lookup([str(u) for u in ids]).num_rows == 39
        found = opened.to_table()
        assert sorted(found["id"].to_pylist()) == sorted(row["id"] for row in left)
        assert found["vec"].combine_chunks().type == pa.list_(pa.float32(), 3)
        for condition in (
            "ts >= '2024-06-02 01:00:00'",
            "ts >= '2024-06-01T23:00:00Z'",
            "ts >= TIMESTAMP '2024-06-02 01:00:00'",
        ):
            assert opened.count_rows(condition) == 27, condition
        assert opened.count_rows(f"id = '{ids[9]}'") == 1
        assert opened.count_rows("id IN $x", params={"x": ids[:9]}) == 8
        naive = {"x": dt.datetime(2024, 6, 2, 1)}
        assert opened.count_rows("ts >= $x", params=naive) == 27
    read = lake.iceberg.load_table("a.b")
    assert [str(item.field_type) for item in read.schema().fields] == [
        "uuid",
        "list<float>",
        "timestamptz",
    ]
    if data_format == "parquet":
        assert read.scan().to_arrow().num_rows == 39
    with (
        pytest.raises(nb.InvalidArgumentError, match="nimblepy itself sets it"),
        table.alter() as a,
    ):
        a.set_properties({"nimblepy.column-types": "{}"})


def test_a_naive_key_is_in_the_zone_of_its_column(lake: nb.Catalog, tmp_path: Path) -> None:
    schema = pa.schema({"ts": pa.timestamp("us", "Europe/Berlin"), "v": pa.int64()})
    rows = [{"ts": NOON + dt.timedelta(hours=i), "v": i} for i in range(5)]
    table = lake.create_table("a.b", schema, primary_key="ts")
    table.append(rows)
    nb.write(table.to_table(), tmp_path / "f.nimble", cluster_by="ts")
    with nb.open(tmp_path / "f.nimble") as file:
        for source in (table, file):
            at = NOON + dt.timedelta(hours=2)
            for key in (at, at.replace(tzinfo=BERLIN), "2024-06-01 14:00:00", np.datetime64(at)):
                assert source.get(key)["v"] == 2, key
            assert source.lookup(pa.array([at, NOON]))["v"].to_pylist() == [2, 0]
            assert source.range(at, None).num_rows == 3
            assert source.count_rows("ts > $x", params={"x": at}) == 2
    naive = lake.create_table("a.n", pa.schema({"ts": pa.timestamp("us")}), primary_key="ts")
    naive.append([{"ts": NOON}])
    with pytest.raises(nb.InvalidArgumentError, match=r"the column (has none|does not)"):
        naive.get(NOON.replace(tzinfo=BERLIN))
    with pytest.raises(nb.InvalidArgumentError, match=r"the column (has none|does not)"):
        naive.append([{"ts": NOON.replace(tzinfo=BERLIN)}])
