"""Errors of appends and upserts of files: they name the file, the column, the row and the value."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)


@pytest.fixture
def table(tmp_path: Path) -> nb.Table:
    (tmp_path / "good.csv").write_text("id,name\n1,a\n2,b\n")
    return nb.connect(tmp_path / "lake").create_table("a.b", SCHEMA, primary_key="id")


@pytest.mark.parametrize("change", ["append", "upsert"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"id,nmae\n3,a\n", "x.csv: unknown column 'nmae'; the table has id"),
        ("x.jsonl", b'{"id":3,"nmae":1}\n', "x.jsonl: unknown column 'nmae'; the table has id"),
        ("x.csv", b"id,name\n3,x\n,a\n", "x.csv: column 'id', row 1: it is null"),
        ("x.jsonl", b'{"id":3}\n{"id":null}\n', "x.jsonl: column 'id', row 1: it is null"),
        ("x.csv", b'id,tags\n3,\n4,"[""a""]"\n', "x.csv: column 'tags', row 1: .* JSON lines"),
        ("x.csv", b"id,tags\n3,7\n", "x.csv: column 'tags', row 0: 7 cannot be read"),
    ],
)
def test_errors_of_rows_name_their_file(
    table: nb.Table, tmp_path: Path, change: str, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for paths in ([tmp_path / "good.csv", path], [path], path):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            getattr(table, change)(paths)
    assert table.num_rows == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv.gz", b"id\n1\n"),
        ("x.jsonl.gz", b"id\n1\n"),
        ("x.csv.gz", gzip.compress(b"id,name\n" + b"1,a\n" * 100_000)[:100]),
        ("x.csv.bz2", b"id\n1\n"),
        ("x.csv.zst", b"id\n1\n"),
    ],
)
def test_files_that_cannot_be_decompressed_are_named(
    table: nb.Table, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for paths in ([tmp_path / "good.csv", tmp_path / name], tmp_path / name):
        with pytest.raises(OSError, match=rf"{name}: .*; the file may be cut short"):
            table.append(paths)
    assert table.num_rows == 0


def test_columns_without_values_fit_lists(table: nb.Table, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,tags\n3,\n4,\n")
    table.append([tmp_path / "good.csv", tmp_path / "x.csv"])
    assert table.num_rows == 4
    assert table.to_table(["tags"])["tags"].null_count == 4


def test_new_columns_of_files_do_not_keep_the_name_of_the_file(
    table: nb.Table, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [3], "more": ["x"]}), tmp_path / "x.parquet")
    paths = [tmp_path / "good.csv", tmp_path / "x.parquet"]
    table.append(paths, new_columns="drop")
    assert table.schema.names == SCHEMA.names
    table.upsert(paths, new_columns="add")
    assert b"nimblepy.file" not in (table.schema.field("more").metadata or {})
    table.delete("id < 100")
    merge = table.merge(tmp_path / "x.parquet", on=["id"])
    merge.when_not_matched(insert=["id"]).execute()
    assert table.to_table().to_pylist() == [{"id": 3, "name": None, "tags": None, "more": None}]


def test_rows_of_python_with_nulls_name_the_row(table: nb.Table) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"column 'id' has 1 nulls.* row 1$"):
        table.append(pa.table({"id": [1, None, 3]}))
