"""DuckDB over nimble rows answers as over a table of its own, and reads only what it needs."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

duckdb = pytest.importorskip("duckdb")

NAN = float("nan")
# Column, its type, its values and literals that it is compared with.
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "i": (pa.int64(), [-1, 0, 1, 2, 2**53 + 1, None], ["0", "1", "1.5", "9007199254740993"]),
    "b": (pa.int8(), [-128, 0, 127, None], ["0", "127", "300"]),
    "u": (pa.uint64(), [0, 1, 2**64 - 1, None], ["1", "2"]),
    "f": (pa.float64(), [-1.5, -0.0, 0.0, 0.1, NAN, None], ["0", "0.1", "'nan'::DOUBLE"]),
    "g": (pa.float32(), [-1.5, 0.0, 0.1, NAN, None], ["0.1", "0.1::FLOAT", "'nan'::FLOAT"]),
    "s": (pa.string(), ["", "a", "ab", "b", "é", None], ["'a'", "'ab'", "''", "'z'"]),
    "c": (
        pa.dictionary(pa.int8(), pa.string()),
        ["", "a", "ab", "b", None],
        ["'a'", "'zz'"],
    ),
    "d": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None], ["DATE '2024-02-29'"]),
    "t": (
        pa.timestamp("us"),
        [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1), None],
        ["TIMESTAMP '2024-02-29'", "DATE '2024-02-29'"],
    ),
    "m": (pa.decimal128(9, 2), [Decimal("0.10"), Decimal(-3), None], ["0.1", "-3", "0.105"]),
    "o": (pa.bool_(), [True, False, None], ["TRUE", "FALSE"]),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(0, 40))
    columns = {"row": pa.array(range(rows), pa.int64())}
    for name in names:
        kind, values, _ = COLUMNS[name]
        drawn = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        columns[name] = pa.array(drawn, kind)
    return pa.table(columns)


@st.composite
def conditions(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    if depth and draw(st.integers(0, 2)):
        left, right = (draw(conditions(names, depth - 1)) for _ in range(2))
        word = draw(st.sampled_from(["AND", "AND", "OR"]))
        return f"({left} {word} {right})"
    name = draw(st.sampled_from(names))
    literals = st.sampled_from(COLUMNS[name][2])
    match draw(st.integers(0, 6)):
        case 0:
            return f"{name} IN ({draw(literals)}, {draw(literals)})"
        case 1:
            return f"{name} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
        case 2:
            return f"{name} BETWEEN {draw(literals)} AND {draw(literals)}"
        case 3:
            return f"NOT ({name} = {draw(literals)})"
        case 4 if name in ("s", "c"):
            pattern = draw(st.sampled_from(["a%", "%b", "%"]))
            return f"{name} LIKE '{pattern}'"
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return f"{name} {op} {draw(literals)}"


def answer(connection: Any, query: str) -> Any:
    try:
        return connection.sql(query).fetchall()
    except duckdb.Error as error:
        return type(error)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_queries_equal_those_of_duckdbs_own_table(tmp_path: Path, data: st.DataObject) -> None:
    table = data.draw(tables())
    names = table.column_names[1:]
    key = data.draw(st.sampled_from([None, *names]))
    nb.write(
        table,
        tmp_path / "f.nimble",
        cluster_by=key,
        options=nb.WriteOptions(stripe_rows=8, group_rows=16, zone_rows=4),
    )
    with nb.open(tmp_path / "f.nimble") as file, duckdb.connect() as connection:
        nb.duckdb(connection, t=file)
        stored = file.to_table()
        connection.sql("CREATE TABLE own AS SELECT * FROM stored")
        for _ in range(5):
            where = data.draw(conditions(names))
            columns = data.draw(st.sampled_from(["row", "*", "count(*)", f"row, {names[0]}"]))
            order = "" if "count" in columns else " ORDER BY row"
            want = answer(connection, f"SELECT {columns} FROM own WHERE {where}{order}")
            got = answer(connection, f"SELECT {columns} FROM t WHERE {where}{order}")
            assert repr(got) == repr(want), where
        assert stored.num_rows == table.num_rows


def test_one_key_reads_a_few_blocks(tmp_path: Path) -> None:
    rows = 200_000
    table = pa.table(
        {"k": range(rows), "v": [pow(i, 3, 100_003) for i in range(rows)], "s": ["x" * 50] * rows}
    )
    nb.write(table, tmp_path / "f.nimble", cluster_by="k")
    with nb.open(tmp_path / "f.nimble", mmap=False, cache_bytes=0) as file:
        connection = nb.duckdb(duckdb.connect(), t=file)
        assert connection.sql("SELECT v FROM t WHERE k = 7").fetchall() == [(343,)]
        one = file.io_stats
        assert 0 < one.bytes_read < 100_000
        assert connection.sql("SELECT sum(v) FROM t").fetchall() != []
        column = (file.io_stats - one).bytes_read
        assert one.bytes_read * 4 < column < file.size_bytes
        by_name = nb.arrow_dataset(file)  # noqa: F841  # DuckDB looks it up
        assert duckdb.sql("SELECT count(*) FROM by_name WHERE k < 10").fetchall() == [(10,)]


def test_many_files_are_one_view(tmp_path: Path) -> None:
    for day in range(3):
        rows = pa.table({"k": range(day * 10, day * 10 + 10), "day": [day] * 10})
        nb.write(rows, tmp_path / f"{day}.nimble", cluster_by="k")
    connection = nb.duckdb(duckdb.connect(), t=tmp_path)
    query = "SELECT day FROM t JOIN (SELECT unnest([3, 25]) AS k) USING (k) ORDER BY day"
    assert connection.sql(query).fetchall() == [(0,), (2,)]


def test_it_is_a_dataset_of_pyarrow(tmp_path: Path) -> None:
    table = pa.table({"k": range(10), "v": range(10)})
    nb.write(table, tmp_path / "f.nimble", cluster_by="k")
    dataset = nb.arrow_dataset(str(tmp_path / "f.nimble"))
    assert isinstance(dataset, pyarrow.dataset.Dataset)
    assert dataset.schema == table.schema
    few = pc.field("k") > 7
    assert dataset.to_table(["v"], filter=few).to_pydict() == {"v": [8, 9]}
    assert dataset.to_table({"w": pc.field("v") + 1}, filter=few).to_pydict() == {"w": [9, 10]}
    assert sum(batch.num_rows for batch in dataset.to_batches()) == 10
    assert dataset.head(3).num_rows == 3
    assert dataset.count_rows() == 10
    assert dataset.count_rows(filter=few) == 2
    assert dataset.take([9, 0], columns=["k"]).to_pydict() == {"k": [9, 0]}
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == 10
    for name in ("get_fragments", "filter", "join", "sort_by", "replace_schema"):
        with pytest.raises(NotImplementedError):
            getattr(dataset, name)()
    with pytest.raises(NotImplementedError):
        _ = dataset.partition_expression
    with pytest.raises(nb.InvalidArgumentError, match="arrow_dataset"):
        nb.duckdb("f.nimble")
