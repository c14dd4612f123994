"""What is written comes back exactly: every Arrow type, nesting, null, chunk layout, option and
source.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import strategies
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]

LAYOUTS = [
    {},
    {"stripe_rows": 3},
    {"stripe_rows": 7, "group_rows": 14, "zone_rows": 2},
    {"stripe_rows": 100, "group_rows": 100, "compression": "fast"},
    {"stripe_rows": 40, "compression": "compact", "statistics": False},
]


@pytest.mark.parametrize("compression", ["fast", "balanced", "compact"])
@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_round_trip_every_type_is_exact(store: Store, type_: pa.DataType, compression: str) -> None:
    for n, null_rate, stripe_rows in ((150, 0.2, 40), (37, 0.0, 100_000), (20, 1.0, 7)):
        table = strategies.table_of(type_, n, seed=n, null_rate=null_rate)
        options = nb.WriteOptions(compression=compression, stripe_rows=stripe_rows)
        assert_same_table(store(table, options=options).to_table(), table)


@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_round_trip_several_blocks_of_every_type_is_exact(store: Store, type_: pa.DataType) -> None:
    # 2,500 rows are three 1024-row blocks, the last one partial: ends of blocks, not of stripes
    table = strategies.table_of(type_, 2_500, seed=2, null_rate=0.1)
    file = store(table)
    assert_same_table(file.to_table(), table)
    assert_same_table(
        file.take([2_499, 0, 1_023, 1_024, 2_048]),
        pa.concat_tables([table.slice(i, 1) for i in (2_499, 0, 1_023, 1_024, 2_048)]),
    )


@given(table=strategies.tables(), layout=st.sampled_from(LAYOUTS))
def test_round_trip_any_table_and_layout_is_exact(
    store: Store, table: pa.Table, layout: dict[str, Any]
) -> None:
    file = store(table, options=nb.WriteOptions(**layout))
    assert file.num_rows == table.num_rows
    assert file.schema.equals(table.schema, check_metadata=True)
    assert_same_table(file.to_table(), table)


@given(table=strategies.tables(max_rows=40), data=st.data())
def test_writer_batches_in_any_pieces_equal_one_write(
    path: str, table: pa.Table, data: st.DataObject
) -> None:
    with nb.Writer(path, table.schema, options=nb.WriteOptions(stripe_rows=9)) as writer:
        row = 0
        while row < table.num_rows:
            size = data.draw(st.integers(0, 15))
            piece = table.slice(row, size)
            row += size
            if data.draw(st.booleans()):
                writer.write(piece)
            else:
                for batch in piece.to_batches():
                    writer.write(batch)
        writer.write(table.slice(0, 0))
    assert_same_table(nb.open(path).to_table(), table)


@pytest.mark.parametrize(
    ("type_", "bits"),
    [(pa.float16(), 16), (pa.float32(), 32), (pa.float64(), 64)],
    ids=["float16", "float32", "float64"],
)
def test_round_trip_nan_payloads_and_negative_zero_keep_their_bits(
    store: Store, type_: pa.DataType, bits: int
) -> None:
    raw = np.array(strategies.FLOAT_BITS[bits] * 50, f"u{bits // 8}")
    table = pa.table({"x": pa.array(raw).view(type_)})
    got = store(table).to_table().column("x")
    assert got.combine_chunks().view(pa.array(raw).type).to_pylist() == raw.tolist()


def test_round_trip_float_that_looks_decimal_keeps_its_bits(store: Store) -> None:
    # decimal-aware float encodings must notice the values they cannot represent
    values = [0.1 * i for i in range(3_000)] + [1e300, 5e-324, 0.1 + 0.2, -0.0, 1 / 3]
    table = pa.table({"x": pa.array(values), "y": pa.array(values, pa.float32())})
    assert_same_table(store(table).to_table(), table)


def test_round_trip_text_with_nul_and_non_bmp_is_exact(store: Store) -> None:
    values = [*strategies.TEXT, None] * 200
    table = pa.table({t: pa.array(values, t) for t in ("string", "large_string", "string_view")})
    assert_same_table(store(table).to_table(), table)


def test_round_trip_many_distinct_long_strings_is_exact(store: Store) -> None:
    rng = np.random.default_rng(0)
    noise = rng.bytes(100_000 * 12).hex()
    values = [
        f"https://example.org/some/long/path/{noise[24 * i : 24 * i + 24]}/{i}"
        for i in range(100_000)
    ]
    table = pa.table({"url": pa.array(values)})
    assert_same_table(store(table).to_table(), table)


def test_round_trip_wide_table_is_exact(store: Store) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({f"column {i}": rng.integers(0, 9, 20) for i in range(2_000)})
    file = store(table)
    assert_same_table(file.to_table(), table)
    assert_same_table(
        file.to_table(["column 1999", "column 0"]), table.select(["column 1999", "column 0"])
    )


def test_round_trip_deep_nesting_is_exact(store: Store) -> None:
    type_: pa.DataType = pa.int32()
    for depth in range(24):
        type_ = pa.list_(type_) if depth % 2 else pa.struct([pa.field("child", type_)])
    table = strategies.table_of(type_, 30, seed=4, null_rate=0.1)
    assert_same_table(store(table).to_table(), table)


@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_round_trip_empty_and_one_row_table_keeps_schema(store: Store, type_: pa.DataType) -> None:
    for table in (strategies.table_of(type_, 0), strategies.table_of(type_, 1)):
        file = store(table)
        assert file.num_rows == table.num_rows
        assert_same_table(file.to_table(), table)


def test_round_trip_zero_columns_keeps_number_of_rows(store: Store) -> None:
    for table in (pa.table({}), pa.table({"a": [1, 2, 3]}).select([])):
        file = store(table)
        assert file.num_rows == table.num_rows
        assert_same_table(file.to_table(), table)


def test_round_trip_batch_without_columns_keeps_number_of_rows(store: Store) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    assert batch.num_columns == 0
    assert store(batch).to_table().num_rows == 5


def test_round_trip_odd_column_names_are_kept(store: Store) -> None:
    names = ["", "a.b", " ", "ünï", 'quote"', "x" * 3_000]
    table = pa.table([pa.array([i, None]) for i in range(len(names))], names=names)
    assert_same_table(store(table).to_table(), table)


def test_round_trip_metadata_is_kept_at_every_level(store: Store) -> None:
    child = pa.field("c", pa.int32(), metadata={"PARQUET:field_id": "7", "unit": "m"})
    field = pa.field("s", pa.struct([child]), nullable=False, metadata={b"\xff": b"\0\1"})
    schema = pa.schema([field], metadata={"pandas": "{}", b"raw\0": b"\xfe\xff", "empty": ""})
    table = pa.table([pa.array([{"c": 1}, {"c": None}], field.type)], schema=schema)
    file = store(table, metadata={"mine": "value"})
    assert_same_table(file.to_table(), table)
    assert file.schema.field("s").type.field("c").metadata == child.metadata


def test_round_trip_dictionary_keeps_unused_repeated_and_null_entries(store: Store) -> None:
    dictionary = pa.array(["unused", "b", "b", None, "a"])
    indices = pa.array([4, 1, None, 2, 3, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, dictionary, ordered=True)
    table = pa.table({"d": column})
    assert_same_table(store(table).to_table(), table)


def test_round_trip_dictionary_that_changes_between_chunks_keeps_values(store: Store) -> None:
    # pyarrow cannot call such columns equal unless every chunk has its old dictionary, so: type
    # and values
    chunks = [
        pa.array(list(text), pa.utf8()).dictionary_encode() for text in ("abca", "cdbb", "", "zya")
    ]
    table = pa.table({"d": pa.chunked_array(chunks)})
    for options in (nb.WriteOptions(), nb.WriteOptions(stripe_rows=3)):
        got = store(table, options=options).to_table()
        assert got.schema == table.schema
        assert got.column("d").to_pylist() == list("abcacdbbzya")


def test_round_trip_dictionary_too_large_for_its_codes_is_exact_or_refused(store: Store) -> None:
    # 3 x 100 distinct values under int8 codes: no single dictionary could number them
    type_ = pa.dictionary(pa.int8(), pa.utf8())
    chunks = [
        pa.array([f"{c}-{i}" for i in range(100)]).dictionary_encode().cast(type_) for c in "abc"
    ]
    table = pa.table({"the_column": pa.chunked_array(chunks)})
    try:
        got = store(table).to_table()
    except nb.InvalidArgumentError as error:
        assert "the_column" in str(error)  # noqa: PT017
        return
    assert got.schema == table.schema
    assert got.column("the_column").to_pylist() == table.column("the_column").to_pylist()


def test_round_trip_run_ends_long_runs_and_slices_are_exact(store: Store) -> None:
    ends = pa.array([30_000, 30_001, 60_000, 65_000], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x", None, "y", "x"]))
    table = pa.table({"r": pa.chunked_array([runs.slice(29_999, 10), runs.slice(1, 64_000)])})
    for options in (nb.WriteOptions(), nb.WriteOptions(stripe_rows=1_000)):
        assert_same_table(store(table, options=options).to_table(), table)


# ---- sources ----


class _Stream:
    """Any library's exporter: nothing but the Arrow C stream protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class _Array:
    """An exporter of one batch: nothing but the Arrow C array protocol."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


def _sample() -> pa.Table:
    rng = np.random.default_rng(7)
    types = {"i": pa.int64(), "s": pa.utf8(), "f": pa.float64(), "l": pa.list_(pa.int16())}
    columns = {
        n: strategies.cut(strategies.make_array(t, 90, rng), [30, 30, 61]) for n, t in types.items()
    }
    return pa.table(columns)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: _Stream(t),
        lambda t: pa.RecordBatchReader.from_stream(t),
        lambda t: iter(t.to_batches()),
        lambda t: t.to_batches(),
        lambda t: (batch for batch in t.to_batches(max_chunksize=13)),
    ],
    ids=["table", "stream", "reader", "iterator", "list", "generator"],
)
def test_write_every_kind_of_source_gives_the_same_table(
    store: Store, make: Callable[..., Any]
) -> None:
    table = _sample()
    assert_same_table(store(make(table)).to_table(), table)


def test_write_single_batch_sources_give_the_same_table(store: Store) -> None:
    batch = _sample().combine_chunks().to_batches()[0].slice(3, 50)
    want = pa.Table.from_batches([batch])
    for source in (batch, _Array(batch)):
        assert_same_table(store(source).to_table(), want)


def test_write_polars_and_duckdb_give_what_they_export(store: Store) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.DataFrame({"a": [1, None, 3], "s": ["x", "", None], "l": [[1], [], None]})
    assert_same_table(store(frame).to_table(), pa.table(frame))
    query = "select range as a, 'row ' || range as s from range(5000)"
    assert_same_table(store(duckdb.sql(query)).to_table(), duckdb.sql(query).to_arrow_table())


def test_write_pandas_frame_gives_its_columns(store: Store) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": [1, 2, 3], "s": ["x", "y", None], "f": [0.5, float("nan"), -0.0]}
    )
    got = store(frame).to_table()
    want = pa.Table.from_pandas(frame, preserve_index=False)
    assert got.column_names == ["a", "s", "f"]
    assert got.column("a").to_pylist() == [1, 2, 3]
    assert got.column("s").to_pylist() == want.column("s").to_pylist()


@pytest.mark.parametrize(
    "open_it",
    [
        lambda p: nb.open(p),
        lambda p: nb.open(p, mmap=False),
        lambda p: nb.open(Path(p)),
        lambda p: nb.open(Path(p).as_uri()),
        lambda p: nb.open(Path(p).read_bytes()),
        lambda p: nb.open(memoryview(Path(p).read_bytes())),
        lambda p: nb.open(pa.py_buffer(Path(p).read_bytes())),
        lambda p: nb.open(io.BytesIO(Path(p).read_bytes())),
        lambda p: nb.open(p, cache_bytes=0, mmap=False),
        lambda p: nb.open(p, filesystem=pa.fs.LocalFileSystem()),
    ],
    ids=[
        "str",
        "pread",
        "path",
        "uri",
        "bytes",
        "memoryview",
        "buffer",
        "bytesio",
        "uncached",
        "arrow-fs",
    ],
)
def test_open_every_kind_of_source_reads_the_same_table(
    path: str, open_it: Callable[[str], Any]
) -> None:
    import pyarrow.fs  # noqa: F401  (pa.fs is loaded on first import)

    table = strategies.table_of(pa.list_(pa.utf8()), 5_000)
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=700))
    with open_it(path) as file:
        assert_same_table(file.to_table(), table)
        assert_same_table(
            file.take([4_999, 0]), pa.concat_tables([table.slice(4_999), table.slice(0, 1)])
        )


def test_open_file_object_stays_the_callers_to_close(path: str) -> None:
    table = strategies.table_of(pa.utf8(), 500)
    nb.write(table, path)
    with open(path, "rb") as source:
        with nb.open(source) as file:
            assert_same_table(file.to_table(), table)
        assert not source.closed


def test_read_table_outlives_file_handle_and_path(path: str) -> None:
    # zero-copy buffers must keep the mapping alive
    table = strategies.table_of(pa.float64(), 20_000)
    nb.write(table, path)
    with nb.open(path) as file:
        got = file.to_table()
    Path(path).unlink()
    del file
    assert_same_table(got, table)


@pytest.mark.slow
def test_round_trip_more_than_2_gib_of_strings_is_exact(path: str) -> None:
    chunk = pa.array([f"{i:01000d}" for i in range(100_000)])  # 100 MB
    table = pa.table({"s": pa.chunked_array([chunk] * 23)})
    nb.write(table, path)
    file = nb.open(path)
    assert file.num_rows == table.num_rows
    assert file.take([2_299_999]).column("s").to_pylist() == [f"{99_999:01000d}"]
    row = 0
    for batch in _batches(file):
        assert batch.column(0).equals(table.column("s").slice(row, len(batch)).combine_chunks())
        row += len(batch)
    assert row == table.num_rows
    assert file.to_table().column("s").equals(table.column("s"))


@pytest.mark.slow
def test_round_trip_more_than_2_gib_in_one_large_string_array_is_exact(path: str) -> None:
    values = pa.chunked_array(
        [pa.array(["y" * 10_000_000] * 10, pa.large_utf8())] * 22
    ).combine_chunks()
    table = pa.table({"s": values})
    nb.write(table, path)
    assert nb.open(path).to_table().equals(table)


def _batches(file: Any) -> Iterator[pa.RecordBatch]:
    return iter(file.scan(batch_rows=10_000).to_batches())
