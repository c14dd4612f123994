"""scan: projections, row ranges, limits, batches and streams. Filters are in test_filter.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import strategies
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
N = 1_000
TABLE = pa.table(
    {
        "i": pa.array(range(N), pa.int32()),
        "s": [None if i % 5 == 0 else f"s{i % 70}" for i in range(N)],
        "p": [
            None if i % 9 == 0 else {"lat": i / 10, "at": {"city": f"c{i % 4}", "zip": i}}
            for i in range(N)
        ],
    }
)
LAYOUT = {"stripe_rows": 70, "group_rows": 210, "zone_rows": 20}


@pytest.fixture
def file(store: Store) -> Any:
    return store(TABLE, options=nb.WriteOptions(**LAYOUT))


@pytest.mark.parametrize(
    "columns", [None, ["i"], ["p", "i"], ["s", "i", "p"], ["i", "i"], []], ids=str
)
def test_scan_columns_come_in_the_order_asked(file: Any, columns: list[str] | None) -> None:
    if columns is not None and len(set(columns)) != len(columns):
        with pytest.raises(nb.InvalidArgumentError, match="'i'"):
            file.scan(columns)
        return
    want = TABLE if columns is None else TABLE.select(columns)
    assert_same_table(file.scan(columns).to_table(), want)
    assert_same_table(file.to_table(columns), want)
    assert_same_table(pa.table(file.scan(columns)), want)


@pytest.mark.parametrize(
    "row_range", [(0, N), (0, 0), (69, 71), (140, 500), (999, 1_000), (1_000, 1_000)]
)
def test_scan_row_range_equals_a_slice(file: Any, row_range: tuple[int, int]) -> None:
    begin, end = row_range
    want = TABLE.slice(begin, end - begin)
    assert_same_table(file.scan(row_range=row_range).to_table(), want)
    assert file.scan(row_range=row_range).count() == end - begin
    assert_same_table(file.scan(row_range=row_range, limit=7).to_table(), want.slice(0, 7))


@given(
    begin=st.integers(0, N),
    size=st.integers(0, N),
    limit=st.none() | st.integers(0, N),
    batch_rows=st.integers(1, 300),
    threads=st.sampled_from([None, 1, 3]),
)
def test_scan_row_range_limit_and_batches_compose(
    store: Store, begin: int, size: int, limit: int | None, batch_rows: int, threads: int | None
) -> None:
    file = store(TABLE, options=nb.WriteOptions(**LAYOUT))
    end = min(begin + size, N)
    rows = end - begin if limit is None else min(end - begin, limit)
    scan = file.scan(row_range=(begin, end), limit=limit, batch_rows=batch_rows, threads=threads)
    batches = list(scan.to_batches())
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    assert_same_table(pa.Table.from_batches(batches, TABLE.schema), TABLE.slice(begin, rows))
    assert scan.count() == rows


@pytest.mark.parametrize("limit", [0, 1, 70, 71, N, N + 1, 2**62])
def test_scan_limit_gives_the_first_rows(file: Any, limit: int) -> None:
    assert_same_table(file.scan(limit=limit).to_table(), TABLE.slice(0, limit))


def test_scan_may_be_read_again_and_in_every_form(file: Any) -> None:
    scan = file.scan(["i", "s"], batch_rows=128)
    want = TABLE.select(["i", "s"])
    for _ in range(2):
        assert_same_table(scan.to_table(), want)
        reader = scan.to_reader()
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.schema.equals(want.schema, check_metadata=True)
        assert_same_table(reader.read_all(), want)
        assert_same_table(pa.RecordBatchReader.from_stream(scan).read_all(), want)
        assert all(isinstance(batch, pa.RecordBatch) for batch in scan.to_batches())
        assert scan.count() == N


def test_scan_reader_abandoned_midway_leaves_the_file_usable(file: Any) -> None:
    for _ in range(20):
        reader = file.scan(batch_rows=10, threads=2).to_reader()
        assert reader.read_next_batch().num_rows == 10
        del reader
    assert_same_table(file.to_table(), TABLE)


def test_scan_is_read_by_polars_and_duckdb(file: Any) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    want = polars.DataFrame(TABLE.select(["i", "s"]))
    assert polars.DataFrame(file.scan(["i", "s"])).equals(want)
    series = polars.from_arrow(file.scan(["i", "s"]))  # polars makes structs of any C stream
    assert series.struct.unnest().equals(want)
    scan = file.scan()
    assert scan is not None  # duckdb finds it by name
    assert duckdb.sql("select count(*), sum(i), count(s) from scan").fetchall() == [
        (N, sum(range(N)), N - N // 5)
    ]


def test_scan_pandas_equals_pyarrow(file: Any) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(file.to_pandas(), TABLE.to_pandas())


@pytest.mark.parametrize("path_", ["p.lat", "p.at.city", "p.at"])
def test_scan_dotted_column_reads_the_struct_field(file: Any, path_: str) -> None:
    leaf = TABLE.column("p").to_pylist()
    for step in path_.split(".")[1:]:
        leaf = [None if value is None else value[step] for value in leaf]
    got = file.scan(["i", path_]).to_table()
    assert got.num_columns == 2
    assert got.column(0).to_pylist() == list(range(N))
    assert got.column(1).to_pylist() == leaf
    assert got.column_names == ["i", path_]


def test_scan_dot_in_a_column_name_is_that_column(store: Store) -> None:
    table = pa.table({"a.b": [1], "a": [{"b": 2}]})
    assert store(table).to_table(["a.b"]).column(0).to_pylist() == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"columns": ["nope"]},
        {"columns": ["p.nope"]},
        {"columns": ["i.nope"]},
        {"row_range": (5, 4)},
        {"row_range": (0, N + 1)},
        {"row_range": (-1, 5)},
        {"limit": -1},
        {"batch_rows": 0},
        {"threads": 0},
        {"columns": "i", "filter": 7},
    ],
    ids=str,
)
def test_scan_bad_argument_is_refused(file: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        file.scan(**arguments).to_table()


def test_scan_empty_file_gives_schema_and_no_batches(store: Store) -> None:
    empty = TABLE.slice(0, 0)
    scan = store(empty).scan()
    assert_same_table(scan.to_table(), empty)
    assert list(scan.to_batches()) == []
    assert scan.to_reader().schema.equals(empty.schema)
    assert scan.count() == 0


@given(table=strategies.tables(max_rows=80), data=st.data())
def test_scan_any_table_projection_and_batch_size_is_exact(
    store: Store, table: pa.Table, data: st.DataObject
) -> None:
    file = store(
        table, options=nb.WriteOptions(stripe_rows=data.draw(st.sampled_from([3, 50, 1_000])))
    )
    names = data.draw(st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    batches = file.scan(names, batch_rows=data.draw(st.integers(1, 100))).to_batches()
    want = table.select(names)
    assert_same_table(pa.Table.from_batches(list(batches), want.schema), want)


def test_scan_explain_prints_what_is_read(file: Any) -> None:
    text = str(file.scan(["i"], filter="i > 990").explain())
    assert "i" in text
    assert len(text.splitlines()) >= 1
