"""Messages that say what to do."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

ROWS = pa.table({"a": [1]})


@pytest.mark.parametrize("form", ["path", "bytes", "file"])
def test_a_parquet_file_is_called_one(tmp_path: Path, form: str) -> None:
    # "not a nimblepy file, or cut short: its 487569 bytes do not end with the magic"
    pq.write_table(pa.table({"a": range(100)}), tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    source = {"path": tmp_path / "t.parquet", "bytes": data, "file": io.BytesIO(data)}[form]
    with pytest.raises(nb.CorruptFileError, match=r"this is a Parquet file; nb\.convert"):
        nb.open(source)  # type: ignore[arg-type]
    pyarrow.feather.write_feather(ROWS, str(tmp_path / "t.arrow"))
    with pytest.raises(nb.CorruptFileError, match="this is an Arrow file"):
        nb.open(tmp_path / "t.arrow")
    (tmp_path / "t").write_bytes(b"something else" * 100)
    with pytest.raises(nb.CorruptFileError, match="do not end with the magic"):
        nb.open(tmp_path / "t")


@pytest.mark.parametrize(
    "text", ["at > now()", "at > current_timestamp", "at > CURRENT_DATE", "at > today()"]
)
def test_the_clock_is_a_parameter(tmp_path: Path, text: str) -> None:
    rows = pa.table({"at": [dt.datetime(2024, 1, 1)]})
    nb.write(rows, tmp_path / "t.nimble")
    with (
        nb.open(tmp_path / "t.nimble") as file,
        pytest.raises(nb.InvalidArgumentError, match=r"give the time as a parameter: \$now with"),
    ):
        file.to_table(filter=text)


def test_keys_that_occur_twice(tmp_path: Path) -> None:
    # Times were ticks, and rows were numbers without saying of what.
    at = dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC)
    for kind, shown in (
        (pa.timestamp("ms", "UTC"), "2013-01-01T10:00:00.000Z"),
        (pa.timestamp("us"), "2013-01-01T10:00:00.000000"),
    ):
        stamp = at if kind.tz else at.replace(tzinfo=None)
        rows = pa.table(
            {"b": ["A, 7 ms'", "A, 7 ms'", "Z"], "at": pa.array([stamp] * 3, kind), "n": [1, 1, 1]}
        )
        with pytest.raises(nb.DuplicateKeyError) as caught:
            nb.write(rows, tmp_path / "t.nimble", cluster_by=["b", "at", "n"], unique=True)
        assert str(caught.value) == (
            rf"the key ('A, 7 ms\'', {shown}, 1) occurs twice, but the cluster key is unique (rows "
            "0 and 1 in the order of the key)"
        )
    with pytest.raises(nb.DuplicateKeyError, match=r"the key 2013-01-01T10:00:00\.000000 occurs"):
        nb.write(rows, tmp_path / "t.nimble", cluster_by="at", unique=True)
    with pytest.raises(nb.DuplicateKeyError, match=r"the key 1 occurs twice"):
        nb.write(rows, tmp_path / "t.nimble", cluster_by="n", unique=True)


def test_rows_that_are_not_in_order(tmp_path: Path) -> None:
    stamps = [dt.datetime(2013, 1, 2), dt.datetime(2013, 1, 1)]
    with pytest.raises(nb.KeyOrderError) as caught:
        nb.write(pa.table({"at": stamps}), tmp_path / "t.nimble", cluster_by="at", presorted=True)
    assert str(caught.value) == (
        "row 1 (key 2013-01-01T00:00:00.000000) and row 0 (key 2013-01-02T00:00:00.000000) are "
        "not in the order of the key"
    )


def test_upserts_without_a_primary_key(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path).create_table("a.t", ROWS)
    with pytest.raises(
        nb.InvalidArgumentError, match=r"merge\(data, on=\.\.\.\) does not need one"
    ):
        table.upsert(ROWS)


def test_metadata_that_is_no_metadata(tmp_path: Path) -> None:
    # The error had several lines of pydantic and a link to its pages.
    pytest.importorskip("pyiceberg")
    (tmp_path / "x.metadata.json").write_text('{"format-version": 2}')
    with pytest.raises(nb.CorruptFileError, match="not a metadata file") as caught:
        nb.connect(tmp_path / "lake").register("a.t", tmp_path / "x.metadata.json")
    said = str(caught.value)
    assert "\n" not in said
    assert "pydantic" not in said
    assert "TableMetadataWrapper" not in said
