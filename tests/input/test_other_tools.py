"""What polars, DuckDB and pyarrow hand over or keep in files comes back as pyarrow reads it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
import strategies
from comes_back import assert_same

import nimblepy as nb

pytestmark = pytest.mark.model

Check = Callable[[pa.Table], None]
MOMENT = dt.datetime(2020, 3, 8, 2, 30)


class Stream:
    """Nothing but the Arrow C stream of another library's object."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_stream__ = source.__arrow_c_stream__


# ---- polars ----


def polars_frame() -> Any:
    pl = pytest.importorskip("polars")
    values: dict[str, tuple[list[Any], Any]] = {
        "null": ([None, None, None], pl.Null),
        "bool": ([True, None, False], pl.Boolean),
        "f32": ([1.5, None, float("-inf")], pl.Float32),
        "f64": ([1.5, None, -0.0], pl.Float64),
        "categorical": (["a", None, "b"], pl.Categorical),
        "enum": (["a", None, "b"], pl.Enum(["b", "a", "unused"])),
        "decimal": ([Decimal("1.25"), None, Decimal(-3)], pl.Decimal(38, 4)),
        "string": (["x" * 20, None, ""], pl.String),
        "binary": ([b"\xff" * 20, None, b""], pl.Binary),
        "date": ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pl.Date),
        "time": ([dt.time(1, 2, 3, 4), None, dt.time(0)], pl.Time),
        "list": ([[1], None, []], pl.List(pl.Int16)),
        "lists": ([[["a"], []], None, [None, ["b"]]], pl.List(pl.List(pl.String))),
        "list of categorical": ([["a"], None, ["a", "b"]], pl.List(pl.Categorical)),
        "array": ([[1, 2], None, [3, None]], pl.Array(pl.Int16, 2)),
        "array 2d": ([[[1, 2]], None, [[3, 4]]], pl.Array(pl.Int16, (1, 2))),
        "struct": (
            [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
            pl.Struct({"a": pl.Int8, "b": pl.List(pl.String)}),
        ),
    }
    for bits in (8, 16, 32, 64):
        values[f"i{bits}"] = ([-(2 ** (bits - 1)), None, 1], getattr(pl, f"Int{bits}"))
        values[f"u{bits}"] = ([2**bits - 1, None, 1], getattr(pl, f"UInt{bits}"))
    for unit in ("ms", "us", "ns"):
        values[f"duration {unit}"] = (
            [dt.timedelta(days=-1), None, dt.timedelta(0)],
            pl.Duration(unit),
        )
        for zone in (None, "UTC", "Asia/Kolkata"):
            values[f"{unit} {zone}"] = ([MOMENT, None, dt.datetime(1969, 1, 1)], pl.Datetime(unit))
    frame = pl.DataFrame(
        {name: pl.Series(v, dtype=t, strict=False) for name, (v, t) in values.items()}
    )
    zoned = [
        pl.col(name).dt.replace_time_zone(name.split()[1])
        for name in frame.columns
        if name.endswith(("UTC", "Kolkata"))
    ]
    frame = frame.with_columns(zoned)
    return pl.concat(
        [frame.sample(fraction=1.0, seed=i, shuffle=True) for i in range(80)], rechunk=False
    )


def test_polars_frame_comes_back_and_is_the_same_frame_again(
    comes_back: Check, store: Callable[..., Any]
) -> None:
    frame = polars_frame()
    comes_back(pa.table(Stream(frame)))
    comes_back(pa.table(Stream(frame.slice(17, 101))))
    pl = pytest.importorskip("polars")
    again = pl.DataFrame(store(frame).to_table())
    assert again.schema == frame.schema
    assert again.equals(frame)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_polars_files_come_back(comes_back: Check, tmp_path: Path, compression: Any) -> None:
    frame = polars_frame()
    frame.write_ipc(tmp_path / "f.arrow", compression=compression)
    comes_back(pa.ipc.open_file(tmp_path / "f.arrow").read_all())
    frame.write_parquet(tmp_path / "f.parquet", compression=compression, row_group_size=100)
    comes_back(pa.parquet.read_table(tmp_path / "f.parquet"))
    _converts(tmp_path / "f.arrow", pa.ipc.open_file(tmp_path / "f.arrow").read_all())
    _converts(tmp_path / "f.parquet", pa.parquet.read_table(tmp_path / "f.parquet"))


def test_polars_type_that_arrow_lacks_is_refused_by_name(path: str) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"fine": [1], "too wide": pl.Series([2**100], dtype=pl.Int128)})
    with pytest.raises(nb.InvalidArgumentError, match=r"'too wide'.*Int128"):
        nb.write(frame, path)
    assert not Path(path).exists()


def _converts(source: Path, want: pa.Table) -> None:
    out = source.with_suffix(".nimble")
    nb.convert(source, out)
    with nb.open(out) as file:
        assert_same(file.to_table(), want)


# ---- DuckDB ----

DUCKDB = {
    "uhugeint": "7::UHUGEINT",
    "hugeint": "-7::HUGEINT",
    "bignum": "12345678901234567890123456789012345678901234567890::BIGNUM",
    "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID",
    "bit": "'0101'::BIT",
    "enum": "'b'::ENUM('a', 'b')",
    "interval": "INTERVAL '1 year 2 days 3 seconds'",
    "time": "TIME '01:02:03.123456'",
    "time of a zone": "'01:02:03+05:30'::TIMETZ",
    "timestamp": "TIMESTAMP '2020-01-01 00:00:00'",
    "timestamp s": "'2020-01-01'::TIMESTAMP_S",
    "timestamp ms": "'2020-01-01'::TIMESTAMP_MS",
    "timestamp ns": "'2020-01-01'::TIMESTAMP_NS",
    "timestamp of a zone": "'2020-01-01 00:00:00+00'::TIMESTAMPTZ",
    "for ever": "'infinity'::TIMESTAMP",
    "last day": "'infinity'::DATE",
    "decimal 4": "1.25::DECIMAL(4, 2)",
    "decimal 9": "1.25::DECIMAL(9, 2)",
    "decimal 18": "1.25::DECIMAL(18, 2)",
    "decimal 38": "-1.25::DECIMAL(38, 2)",
    "list": "[i, NULL, 2]",
    "array": "[1, i, 3]::INTEGER[3]",
    "struct": "{'a': i, 'b': [{'c': 'x'}]}",
    "map": "MAP{'k': [1, i]}",
    "union": "CASE WHEN i % 2 = 0 THEN union_value(num := i) ELSE i END",
    "blob": "'ab'::BLOB",
    "text": "'text ' || i",
    "json": "'{\"a\":1}'::JSON",
    "bool": "i % 2 = 0",
    "float": "i::FLOAT",
    "list of enum": "['a'::ENUM('a', 'b')]",
}
SETTINGS = {
    "default": [],
    "large": ["SET arrow_large_buffer_size = true"],
    "views": ["SET produce_arrow_string_view = true", "SET arrow_output_list_view = true"],
    "lossless": ["SET arrow_lossless_conversion = true"],
    "1.5": ["SET arrow_output_version = '1.5'"],
}


def _duckdb(setting: str, names: list[str]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for command in SETTINGS[setting]:
        connection.execute(command)
    if duckdb.__version__ < "2":  # has no CASE of arrays
        names = [n for n in names if n != "array"]
    columns = [f'CASE WHEN i % 3 = 1 THEN NULL ELSE {DUCKDB[n]} END AS "{n}"' for n in names]
    return connection, f"SELECT {', '.join(columns)} FROM range(2500) t(i)"


@pytest.mark.parametrize("setting", SETTINGS)
def test_duckdb_relation_comes_back(comes_back: Check, setting: str) -> None:
    connection, query = _duckdb(setting, list(DUCKDB))
    comes_back(connection.sql(query).to_arrow_table())


def test_duckdb_relation_is_written_as_it_streams(store: Callable[..., Any]) -> None:
    connection, query = _duckdb("default", list(DUCKDB))
    want = connection.sql(query).to_arrow_table()
    assert_same(store(connection.sql(query)).to_table(), want)


def test_duckdb_parquet_comes_back(comes_back: Check, tmp_path: Path) -> None:
    # pyarrow itself cannot read the arrays of DuckDB's Parquet files
    connection, query = _duckdb("default", [name for name in DUCKDB if name != "array"])
    connection.execute(f"COPY ({query}) TO '{tmp_path}/d.parquet' (ROW_GROUP_SIZE 700)")
    table = pa.parquet.read_table(tmp_path / "d.parquet")
    comes_back(table)
    _converts(tmp_path / "d.parquet", table)


# ---- pyarrow ----


def _all_types() -> dict[str, pa.Table]:
    return {str(t): strategies.table_of(t, 150, seed=3) for t in strategies.ALL_TYPES}


@pytest.mark.parametrize("kind", ["file", "stream", "lz4", "zstd", "deltas"])
def test_arrow_ipc_of_every_type_comes_back(comes_back: Check, tmp_path: Path, kind: str) -> None:
    tables = _all_types()
    options = pa.ipc.IpcWriteOptions(
        compression=kind if kind in ("lz4", "zstd") else None,
        emit_dictionary_deltas=kind == "deltas",
    )
    open_writer = pa.ipc.new_stream if kind in ("stream", "deltas") else pa.ipc.new_file
    columns = {}
    for name, table in tables.items():
        source = tmp_path / "t.arrow"
        if "dictionary" in name and open_writer is pa.ipc.new_file:
            table = table.combine_chunks()  # an IPC file has one dictionary a column
        with open_writer(source, table.schema, options=options) as writer:
            writer.write_table(table)
        _converts(source, table)
        columns[name] = table.column("v")
    comes_back(pa.table(columns))


def test_arrow_ipc_dictionaries_that_grow_and_change_come_back(
    comes_back: Check, tmp_path: Path
) -> None:
    pieces = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["z", "a"]]
    batches = [
        pa.record_batch(
            {
                "d": pa.DictionaryArray.from_arrays(
                    pa.array([len(p) - 1, None, 0], pa.int8()), pa.array(p)
                ),
                "l": pa.ListArray.from_arrays(
                    pa.array([0, 2, 2, 3], pa.int32()),
                    pa.DictionaryArray.from_arrays(
                        pa.array([0, len(p) - 1, None], pa.int8()), pa.array(p)
                    ),
                ),
            }
        )
        for p in pieces
    ]
    source = tmp_path / "t.arrows"
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(source, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
        assert writer.stats.num_dictionary_deltas > 0
    want = pa.Table.from_batches(batches)
    with pa.OSFile(str(source)) as file:
        comes_back(pa.ipc.open_stream(file).read_all())
    _converts(source, want)


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_parquet_of_every_type_comes_back(comes_back: Check, tmp_path: Path, version: Any) -> None:
    columns = {}
    for name, table in _all_types().items():
        source = tmp_path / "t.parquet"
        if "[0]" in name:  # pyarrow 26 aborts
            continue
        try:
            pa.parquet.write_table(table, source, version=version, row_group_size=60)
        except (pa.ArrowException, OSError):
            continue
        try:
            read = pa.parquet.read_table(source)
        except pa.ArrowException:
            continue
        _converts(source, pa.concat_tables([read]))
        columns[name] = read.column("v")
    assert len(columns) > 40
    comes_back(pa.table(columns))


def test_parquet_read_as_dictionaries_comes_back(comes_back: Check, tmp_path: Path) -> None:
    text = pa.array([None if i % 7 == 0 else f"word {i % 31}" for i in range(4_000)])
    source = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": text, "b": text}), source, row_group_size=500)
    read = pa.parquet.read_table(source, read_dictionary=["a"])
    assert pa.types.is_dictionary(read.schema.field("a").type)
    comes_back(read)
