"""Every line of docs/reference/filters.md, here and in DuckDB."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import nimblepy as nb

sys.path.insert(0, str(Path(__file__).parent))  # doc_examples, under every import mode

from doc_examples import DOCS, fences

PAGE = DOCS / "reference" / "filters.md"
LINES = [line for block in fences("sql") if block.page == PAGE and block.info == "sql filter"
         for line in block.lines]  # fmt: skip
(TABLE,) = (block for block in fences("sql") if block.page == PAGE and block.info == "sql table")


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'; CREATE TABLE t AS " + "\n".join(TABLE.lines))
    return found


@pytest.fixture(scope="module")
def file(
    connection: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> nb.File:
    table = connection.execute("SELECT * FROM t").to_arrow_table()
    # DuckDB hands bytes of UUIDs over as text or as its own type; ours is Arrow's.
    uids = [row["uid"] for row in table.select(["uid"]).to_pylist()]
    octets = [None if uid is None else bytes.fromhex(str(uid).replace("-", "")) for uid in uids]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(octets, pa.binary(16)))
    table = table.set_column(table.schema.get_field_index("uid"), "uid", column)
    path = tmp_path_factory.mktemp("filters") / "t.nimble"
    nb.write(table, path, cluster_by=["n", "s"], indexes=[nb.SortedIndex(["ts"])])
    return nb.open(path)


def test_there_are_examples() -> None:
    assert len(LINES) > 150


@pytest.mark.parametrize("line", LINES)
def test_line(line: str, file: nb.File, connection: duckdb.DuckDBPyConnection) -> None:
    text, _, note = line.partition(" -- ")
    rows = re.match(r"(?:none|[\d ]+)", note)
    assert rows, f"{line}: no rows are stated"
    expected = [int(row) for row in rows[0].replace("none", "").split()]
    found = sorted(file.scan(["id"], filter=text).to_table().column("id").to_pylist())
    assert found == expected
    if "not DuckDB's" not in note:
        theirs = connection.execute(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
        assert found == [row for (row,) in theirs]


def test_the_docs_lead_to_the_page() -> None:
    assert "(filters.md)" in (DOCS / "reference" / "index.md").read_text("utf-8")
