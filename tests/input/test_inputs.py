"""Everything tabular is input: files of other formats, frames, readers, rows; and types meet."""

from __future__ import annotations

import datetime as dt
import json
import os
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy.schema.conform import converted, keeps_values
from nimblepy.schema.reshape import UnfitError

pytestmark = pytest.mark.sanitizer

TABLE = pa.table({"k": range(6), "s": [f"r{i}" for i in range(6)]})


def pieces() -> Iterator[pa.Table]:
    for begin in (0, 2, 4):
        yield TABLE.slice(begin, 2)


def parquet_directory(path: Path) -> Path:
    for i, piece in enumerate(pieces()):
        folder = path / "in" / f"part {i}"
        folder.mkdir(parents=True)
        pq.write_table(piece, folder / "data.parquet")
    (path / "in" / "_SUCCESS").touch()
    (path / "in" / ".hidden.crc").touch()
    return path / "in"


def mixed_files(path: Path) -> list[Path]:
    pq.write_table(TABLE.slice(0, 2), path / "a.parquet")
    pyarrow.csv.write_csv(TABLE.slice(2, 2), path / "b.csv")
    rows = TABLE.slice(4, 1).to_pylist()
    (path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    nb.write(TABLE.slice(5, 1), path / "d.nimble")
    return [path / name for name in ("a.parquet", "b.csv", "c.jsonl", "d.nimble")]


def nimble_directory(path: Path) -> Path:
    (path / "set").mkdir()
    for i, piece in enumerate(pieces()):
        nb.write(piece, path / "set" / f"{i}.nimble", cluster_by="k")
    return path / "set"


def opened(path: Path) -> nb.File:
    nb.write(TABLE, path / "f.nimble", cluster_by="k")
    return nb.open(path / "f.nimble")


def polars(path: Path) -> Any:
    return pytest.importorskip("polars").from_arrow(TABLE)


def duckdb(path: Path) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    return connection.from_arrow(TABLE).order("k")


INPUTS: dict[str, Callable[[Path], Any]] = {
    "parquet directory": parquet_directory,
    "text of a directory": lambda path: str(parquet_directory(path)),
    "glob": lambda path: f"{parquet_directory(path)}/**/*.parquet",
    "glob of directories": lambda path: str(parquet_directory(path)) + "/part [0-9]/*",
    "uri": lambda path: parquet_directory(path).as_uri(),
    "uri glob": lambda path: "file://" + str(parquet_directory(path)) + "/*/data.parquet",
    "list": lambda path: sorted(parquet_directory(path).glob("*/*")),
    "list of formats": mixed_files,
    "nimble directory": nimble_directory,
    "file": opened,
    "scan": lambda path: opened(path).scan(),
    "dataset": lambda path: nb.open_dataset(nimble_directory(path)),
    "pyarrow dataset": lambda path: pyarrow.dataset.dataset(parquet_directory(path)),
    "pyarrow scanner": lambda path: pyarrow.dataset.dataset(parquet_directory(path)).scanner(),
    "reader": lambda path: TABLE.to_reader(),
    "polars": polars,
    "polars lazy": lambda path: polars(path).lazy(),
    "duckdb": duckdb,
    "pandas": lambda path: TABLE.to_pandas(),
    "dict": lambda path: {"k": np.arange(6), "s": TABLE.column("s").to_pylist()},
    "tables": lambda path: list(pieces()),
    "batches": lambda path: (batch for piece in pieces() for batch in piece.to_batches()),
    "frames": lambda path: (piece.to_pandas() for piece in pieces()),
    "rows": lambda path: iter(TABLE.to_pylist()),
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_is_taken_everywhere(tmp_path: Path, name: str) -> None:
    def data(label: str) -> Any:
        (tmp_path / label).mkdir()
        return INPUTS[name](tmp_path / label)

    want = TABLE.to_pylist()
    nb.write(data("a"), tmp_path / "written.nimble", cluster_by="k")
    nb.convert(data("b"), tmp_path / "converted.nimble", cluster_by="k")
    with nb.Writer(tmp_path / "writer.nimble", TABLE.schema, cluster_by="k") as writer:
        writer.write(data("c"))
    for kind in ("written", "converted", "writer"):
        with nb.open(tmp_path / f"{kind}.nimble") as file:
            assert file.to_table().to_pylist() == want, kind
    joined = nb.index_join(data("d"), tmp_path / "written.nimble", on="k", columns=["s"])
    if isinstance(joined, pa.RecordBatchReader):
        joined = joined.read_all()
    assert joined.column("s_right").to_pylist() == TABLE.column("s").to_pylist()


def test_an_empty_lazy_frame_has_its_columns(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    lazy = pl.LazyFrame({"k": [1, 2]}).filter(pl.col("k") > 5)
    assert nb.write(lazy, tmp_path / "f.nimble").num_rows == 0
    assert nb.open(tmp_path / "f.nimble").schema.names == ["k"]


def test_columns_of_paths_and_files_that_lack_some(tmp_path: Path) -> None:
    """Daily drops as they come: hive names, a column that came later, wider types, another text."""
    days = {
        "day=2024-01-01/hour=7": pa.table({"k": pa.array([1], pa.int32()), "s": ["a"]}),
        "day=2024-01-02/hour=23": pa.table(
            {"k": pa.array([2], pa.int64()), "s": pa.array(["b"], pa.large_string()), "x": [1.5]}
        ),
        "day=__HIVE_DEFAULT_PARTITION__/hour=0": pa.table(
            {
                "x": pa.nulls(1),
                "k": pa.array([3], pa.uint8()),
                "s": pa.array(["c"]).dictionary_encode(),
            }
        ),
    }
    for folder, table in days.items():
        (tmp_path / "in" / folder).mkdir(parents=True)
        pq.write_table(table, tmp_path / "in" / folder / "p.parquet")
    nb.convert(tmp_path / "in", tmp_path / "f.nimble", cluster_by="k")
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.schema.field("k").type == pa.int64()
        assert file.to_table(["k", "s", "x", "day", "hour"]).to_pylist() == [
            {"k": 1, "s": "a", "x": None, "day": "2024-01-01", "hour": 7},
            {"k": 2, "s": "b", "x": 1.5, "day": "2024-01-02", "hour": 23},
            {"k": 3, "s": "c", "x": None, "day": None, "hour": 0},
        ]
    nb.convert(tmp_path / "in", tmp_path / "g.nimble", columns=["hour", "k"], cluster_by="hour")
    with nb.open(tmp_path / "g.nimble") as file:
        assert file.to_table().to_pydict() == {"hour": [0, 7, 23], "k": [3, 1, 2]}


def test_types_that_do_not_meet_are_refused_by_file_and_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(nb.InvalidArgumentError, match=r"'k' is string in .*b\.parquet and int64"):
        nb.convert(tmp_path, tmp_path / "o.nimble")
    pq.write_table(pa.table({"k": [2**60 + 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": [0.5]}), tmp_path / "b.parquet")
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.parquet: column 'k'.*11529215046"):
        nb.convert(tmp_path, tmp_path / "o.nimble")
    assert not (tmp_path / "o.nimble").exists()


@pytest.mark.parametrize(
    "data", [5, b"x", object(), [], [1, 2], [[1], [2]], {"a": [1], "b": [1, 2]}, {"a": 5}], ids=str
)
def test_what_is_no_table_is_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="data"):
        nb.write(data, tmp_path / "f.nimble")


@pytest.mark.parametrize("path", ["none.parquet", "none/*.parquet", "s/../*.csv"])
def test_where_nothing_is_is_said(tmp_path: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        nb.convert(tmp_path / path, tmp_path / "o.nimble")


def test_a_directory_with_something_unknown_is_refused_by_name(tmp_path: Path) -> None:
    folder = parquet_directory(tmp_path)
    (folder / "README.txt").write_text("hello there")
    with pytest.raises(nb.InvalidArgumentError, match=r"README\.txt"):
        nb.convert(folder, tmp_path / "o.nimble")


def test_pipes_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe, out = tmp_path / "pipe", tmp_path / "o.nimble"
    os.mkfifo(pipe)
    for ask in (lambda: nb.open(pipe), lambda: nb.convert(pipe, out), lambda: nb.write(pipe, out)):
        with pytest.raises(nb.InvalidArgumentError, match="pipe"):
            ask()


def test_vectors_of_numpy_are_fixed_size_lists(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    nb.write({"id": [1, 2, 3, 4], "v": vectors}, tmp_path / "f.nimble", cluster_by="id")
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.schema.field("v").type == pa.list_(pa.float32(), 3)
        assert file.get(2)["v"] == [3.0, 4.0, 5.0]


# ---- types of a writer's schema ----

VIEWS = pa.DictionaryArray.from_arrays(
    pa.array([0, None], pa.uint32()), pa.array(["a"], pa.string_view())
)
ZONED = pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us", "UTC"))
LOSSLESS: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([1, None], pa.int32()), pa.int64()),
    (pa.array([1, None], pa.uint8()), pa.int16()),
    (pa.array([1, None], pa.int32()), pa.float64()),
    (pa.array([1.5, None], pa.float32()), pa.float64()),
    (pa.array([1, None], pa.int32()), pa.decimal128(12, 2)),
    (pa.array([Decimal("1.25"), None], pa.decimal128(4, 2)), pa.decimal128(15, 2)),
    (pa.array([Decimal("1.25"), None], pa.decimal128(4, 2)), pa.decimal256(40, 5)),
    (pa.array(["a", None], pa.large_string()), pa.string()),
    (pa.array(["a", None], pa.string_view()), pa.string()),
    (pa.array(["a", None], pa.string()), pa.string_view()),
    (pa.array(["a", None]).dictionary_encode(), pa.string()),
    (pa.array(["a", None]), pa.dictionary(pa.int16(), pa.large_string())),
    (pa.array(["a", None]).dictionary_encode(), pa.dictionary(pa.int8(), pa.string_view())),
    (VIEWS, pa.string()),
    (pa.array([b"a", None], pa.binary_view()), pa.binary()),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    (pa.nulls(2), pa.list_(pa.struct([("a", pa.date32())]))),
    (pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("s")), pa.timestamp("ns")),
    (ZONED, pa.timestamp("us", "Asia/Tokyo")),
    (pa.array([dt.timedelta(1), None], pa.duration("s")), pa.duration("us")),
    (pa.array([dt.time(1), None], pa.time32("s")), pa.time64("us")),
    (pa.array([dt.date(2024, 1, 1), None]), pa.date64()),
    (pa.array([[1], None], pa.list_(pa.int32())), pa.large_list(pa.int64())),
    (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.list_(pa.int64())),
    (pa.array([{"a": 1}, None]), pa.struct([("a", pa.decimal128(20, 0))])),
    (pa.array([{"a": "x"}, None]), pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
    (pa.array([b"a" * 16, None], pa.binary(16)), pa.uuid()),
]


@pytest.mark.parametrize(("values", "wanted"), LOSSLESS, ids=lambda v: str(getattr(v, "type", v)))
def test_types_that_hold_all_values_are_taken(
    tmp_path: Path, values: pa.Array, wanted: pa.DataType
) -> None:
    with nb.Writer(tmp_path / "f.nimble", pa.schema([("c", wanted)])) as writer:
        writer.write(pa.table({"c": values}))
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.schema.field("c").type == wanted
        got = file.to_table().column("c").combine_chunks()
        storage = got.storage if isinstance(got, pa.ExtensionArray) else got
        assert storage.to_pylist() == values.to_pylist()


LOSSY = [
    (pa.array([1], pa.int64()), pa.array([2**40], pa.int64()), pa.int32()),
    (pa.array([1.0]), pa.array([1.5]), pa.int64()),
    (pa.array([1]), pa.array([2**53 + 1]), pa.float64()),
    (pa.array([Decimal("1.50")]), pa.array([Decimal("1.55")]), pa.decimal128(4, 1)),
    (pa.array([10**9], pa.timestamp("ns")), pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
    (pa.array(["1"]), pa.array(["x"]), pa.int64()),
    (pa.array([0.25]), pa.array([0.125]), pa.decimal128(4, 2)),
    (pa.array([0.25]), pa.array([0.1]), pa.float32()),
    (pa.array([b"ab"]), pa.array([b"abc"]), pa.binary(2)),
    (pa.array([b"ab"]), pa.array([b"\xff"]), pa.string()),
]


@pytest.mark.parametrize(("fits", "not_fits", "wanted"), LOSSY, ids=str)
def test_other_types_are_cast_where_asked_and_checked(
    tmp_path: Path, fits: pa.Array, not_fits: pa.Array, wanted: pa.DataType
) -> None:
    schema = pa.schema([("c", wanted)])
    found = str(fits.type).replace("(", r"\(").replace(")", r"\)").replace("[", r"\[")
    for cast, values in ((False, fits), (True, not_fits)):
        writer = nb.Writer(tmp_path / "f.nimble", schema)
        with pytest.raises(nb.InvalidArgumentError, match=f"column 'c' is {found}") as caught:
            writer.write(pa.table({"c": values}), cast=cast)
        assert ("cast=True" in str(caught.value)) == (not cast)
        writer.abort()
    with nb.Writer(tmp_path / "f.nimble", schema, cast=True) as writer:
        writer.write(pa.table({"c": fits}))
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.to_table().column("c").combine_chunks().equals(fits.cast(wanted))


def test_ticks_that_overflow_are_refused(tmp_path: Path) -> None:
    far = pa.table({"c": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))})
    writer = nb.Writer(tmp_path / "f.nimble", pa.schema([("c", pa.timestamp("ns"))]))
    with pytest.raises(nb.InvalidArgumentError, match="column 'c'"):
        writer.write(far)
    writer.abort()


SCALARS = [
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(20, 0), pa.decimal256(40, 3)),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(1), pa.bool_()),
    *(pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.date32(), pa.date64(), pa.duration("ms")),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.string_view())),
]
NUMBERS = [
    0,
    1,
    -1,
    127,
    255,
    2**31,
    2**53 + 1,
    2**63 - 1,
    0.1,
    1.5,
    Decimal("0.01"),
    "1",
    "",
    b"1",
]


@settings(max_examples=300, deadline=None)
@given(found=st.sampled_from(SCALARS), wanted=st.sampled_from(SCALARS), data=st.data())
def test_what_keeps_all_values_keeps_each(
    found: pa.DataType, wanted: pa.DataType, data: st.DataObject
) -> None:
    values = []
    for item in data.draw(st.lists(st.sampled_from([*NUMBERS, None]), max_size=5)):
        try:
            plain = found.value_type if pa.types.is_dictionary(found) else found
            values.append(pa.array([item]).cast(plain).cast(found)[0].as_py())
        except (pa.ArrowException, OverflowError):
            continue
    plain = found.value_type if pa.types.is_dictionary(found) else found
    array = pa.array(values, plain)
    if pa.types.is_dictionary(found):
        array = converted(array, found)
    try:
        there = converted(array, wanted)
    except (UnfitError, pa.ArrowException):
        assert not keeps_values(found, wanted)
        return
    there.validate(full=True)
    assert there.type == wanted
    if keeps_values(found, wanted):
        assert converted(there, found).to_pylist() == array.to_pylist()


def test_rows_as_dicts_keep_every_name(tmp_path: Path) -> None:
    """pyarrow takes the names of the first row for all, and drops the others unasked."""
    rows = [{"a": 1}, {"a": None, "b": "x"}, {}]
    nb.write(rows, tmp_path / "x.nimble")
    with nb.open(tmp_path / "x.nimble") as file:
        assert file.to_table().to_pylist() == [{"a": r.get("a"), "b": r.get("b")} for r in rows]
    late = ({"a": i} if i < 131_072 else {"a": i, "b": 1} for i in range(131_073))
    with pytest.raises(nb.InvalidArgumentError, match="a row has 'b'"):
        nb.write(late, tmp_path / "late.nimble")
    with pytest.raises(nb.InvalidArgumentError, match=r"row \d+ is .*expected a dict"):
        nb.write([{"a": 1}, 5], tmp_path / "wrong.nimble")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bad.parquet", b"PAR1xxxxPAR1"),
        ("empty.csv", b""),
        ("bad.json", b'{"a": 1}\n{"a": '),
        ("ragged.csv", b"a,b\n1,2\n3\n"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(nb.InvalidArgumentError, match=f"{name}: it cannot be read as"):
        nb.write(tmp_path / name, tmp_path / "x.nimble")
    assert not (tmp_path / "x.nimble").exists()


@pytest.mark.parametrize(
    ("index", "columns"),
    [
        (lambda f: f[f["k"] % 3 == 0], ["k", "s"]),  # places with gaps
        (lambda f: f[2:5], ["k", "s"]),
        (lambda f: f.sort_values("s", ascending=False), ["k", "s"]),
        (lambda f: f.set_index("k"), ["s", "k"]),  # 0 to n - 1, which pandas may keep as a range
        (lambda f: f[f["k"] != 3].set_index("k"), ["s", "k"]),
        (lambda f: f.rename_axis("place"), ["k", "s", "place"]),
        (lambda f: f.set_index(["k", "s"], append=False).assign(v=1), ["v", "k", "s"]),
    ],
)
def test_the_index_of_a_frame_is_columns_where_it_has_names(
    tmp_path: Path, index: Any, columns: list[str]
) -> None:
    frame = index(pd.DataFrame({"k": range(8), "s": list("hgfedcba")}))
    nb.write(frame, tmp_path / "a.nimble")
    found = nb.open(tmp_path / "a.nimble").to_table()
    assert found.column_names == columns
    flat = frame.reset_index(drop=frame.index.names == [None])
    assert found.to_pylist() == flat[columns].to_dict("records")


# Raw errors of pyarrow, which are no NimbleError; the same values as rows were refused well.
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"a": [1, "x"]}), "Conversion failed for column a"),
        (pd.DataFrame({"a": [b"x", "y", 1.5]}), "Conversion failed for column a"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
        (pd.DataFrame({"a": [1, [2]]}), "Conversion failed for column a"),
        ([{"a": 1}, {"a": "x"}], "column 'a'"),
        ({"a": [1, "x"]}, "cannot be converted to a table"),
        (iter([pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1, "x"]})]), "column a"),
        (np.array([(1, 2.0)], dtype=[("a", "i8"), ("b", "f8")]), "structured numpy array"),
    ],
    ids=range(8),
)
def test_data_that_cannot_be_converted(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        nb.write(data, tmp_path / "t.nimble")
    assert not (tmp_path / "t.nimble").exists()


def test_objects_of_polars(tmp_path: Path) -> None:
    # polars exports the addresses of Python objects, which were written.
    ids = [uuid.UUID(int=i) for i in range(3)]
    nb.write(pl.DataFrame({"id": ids, "v": [1, 2, 3]}), tmp_path / "t.nimble", cluster_by="id")
    with nb.open(tmp_path / "t.nimble") as file:
        assert file.to_table()["id"].to_pylist() == ids
        assert file.get(ids[1])["v"] == 2
