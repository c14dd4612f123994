"""More than 2^32 rows, and sections that lie beyond 4 GiB: no row number or offset is cut short.

Rows come of columns that are constant but for a few rows, and take no room; distance of noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_same_table

import nimblepy as nb

BEYOND = 2**32
BATCH = 1 << 24


def _write_constant(path: Path, schema: pa.Schema, rows: int, last: pa.RecordBatch) -> None:
    """`rows` rows of zeroes or nulls, then `last`."""
    columns = [
        pa.nulls(BATCH) if pa.types.is_null(f.type) else pa.array(np.zeros(BATCH, np.int8))
        for f in schema
    ]
    constant = pa.record_batch(columns, schema=schema)
    options = nb.WriteOptions(stripe_rows=1 << 20, group_rows=1 << 25, compression="fast")
    with nb.Writer(path, schema, options=options) as writer:
        for begin in range(0, rows, BATCH):
            writer.write(constant.slice(0, min(BATCH, rows - begin)))
        writer.write(last)


def test_rows_beyond_2_32_are_counted_and_taken(tmp_path: Path) -> None:
    path = tmp_path / "nulls.nimble"
    schema = pa.schema({"n": pa.null()})
    _write_constant(path, schema, BEYOND, pa.record_batch([pa.nulls(7)], schema=schema))
    assert path.stat().st_size < 1 << 20
    with nb.open(path) as file:
        assert file.num_rows == BEYOND + 7
        assert file.take([BEYOND + 6, 0, BEYOND]).num_rows == 3
        assert file.scan(row_range=(BEYOND - 2, BEYOND + 7)).to_table().num_rows == 9
        assert file.scan().count() == BEYOND + 7
        with pytest.raises(nb.InvalidArgumentError, match=str(BEYOND + 7)):
            file.take([BEYOND + 7])


@pytest.mark.slow
def test_values_beyond_2_32_rows_are_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.nimble"
    schema = pa.schema({"c": pa.int8(), "n": pa.null()})
    last = pa.record_batch([pa.array(np.arange(100, dtype=np.int8)), pa.nulls(100)], schema=schema)
    _write_constant(path, schema, BEYOND + 1_000, last)
    first = BEYOND + 1_000  # of the rows that are not constant
    with nb.open(path) as file:
        assert file.num_rows == first + 100
        rows = [first + 99, 5, first - 1, first + 1, BEYOND - 1, BEYOND]
        assert file.take(rows).column("c").to_pylist() == [99, 0, 0, 1, 0, 0]
        near = file.scan(row_range=(first - 2, first + 3)).to_table()
        assert near.column("c").to_pylist() == [0, 0, 0, 1, 2]
        for condition in (pc.field("c") > 97, "c > 97"):
            assert file.to_table(filter=condition).column("c").to_pylist() == [98, 99]
            assert file.scan(filter=condition).count() == 2
        assert file.scan(filter="c = 0").count() == first + 1
        assert file.scan(["c"], limit=3).to_table().num_rows == 3
        assert file.scan(["c"]).count() == first + 100


# ---- billions of nulls in lists ----


def _lists_of_nulls(k: int, length: int) -> pa.RecordBatch:
    """One row with ``length`` nulls, which take no memory."""
    nulls = pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), pa.nulls(length))
    row = pa.StructArray.from_arrays([nulls, pa.array([k])], ["nulls", "id"])
    return pa.record_batch([pa.array([k]), row], ["k", "row"])


def test_lists_beyond_2_32_nulls_are_read_verified_and_indexed(tmp_path: Path) -> None:
    # the writer put them into one stripe, which readers refused as damaged
    path = tmp_path / "lists.nimble"
    with nb.Writer(path, _lists_of_nulls(0, 1).schema) as writer:
        for k in range(3):
            writer.write(_lists_of_nulls(k, 1_500_000_000))
    with nb.open(path) as file:
        file.verify()
        batches = list(file.scan())
        assert [batch.column("k").to_pylist() for batch in batches] == [[0], [1], [2]]
        assert pc.list_value_length(batches[2].column("row").field(0)).to_pylist() == [
            1_500_000_000
        ]
    nb.add_index(path, nb.SortedIndex("row.id"))
    with nb.open(path) as file:
        assert file.lookup([1], on="row.id", columns=["k"]).column("k").to_pylist() == [1]


def _write_one_stripe(path: Path, rows: int) -> None:
    options = nb.WriteOptions(stripe_bytes=1 << 30)
    with nb.Writer(path, _lists_of_nulls(0, 1).schema, options=options) as writer:
        for k in range(rows):
            writer.write(_lists_of_nulls(k, 1 << 29))


def test_stripe_that_exceeds_an_array_is_verified_and_indexed(tmp_path: Path) -> None:
    # verify() and add_index() read a fixed number of rows as one array, whatever their size
    path = tmp_path / "lists.nimble"
    _write_one_stripe(path, 4)
    with nb.open(path) as file:
        file.verify()
    nb.add_index(path, nb.SortedIndex("row.id"))
    with nb.open(path) as file:
        assert file.lookup([3], on="row.id", columns=["k"]).column("k").to_pylist() == [3]


def test_stripe_that_readers_would_refuse_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "lists.nimble"
    with pytest.raises(nb.InvalidArgumentError, match=r"'row': 2684354560 values in one stripe"):
        _write_one_stripe(path, 5)
    assert not path.exists()


# ---- far apart ----


@pytest.mark.slow
def test_sections_beyond_4_gib_are_read_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "far.nimble"
    block = np.random.default_rng(0).integers(0, 256, 16 << 20, dtype=np.uint8)
    schema = pa.schema(
        {"k": pa.int64(), "a": pa.int64(), "b": pa.utf8(), "noise": pa.binary(1 << 18)}
    )
    rows, each = 18_432, 64  # 4.5 GiB of what does not compress

    def batch(begin: int) -> pa.RecordBatch:
        k = np.arange(begin, begin + each)
        block[:: 1 << 18] = begin % 251
        noise = pa.Array.from_buffers(schema.field("noise").type, each, [None, pa.py_buffer(block)])
        return pa.record_batch([k, -k, pa.array([f"row {i}" for i in k]), noise], schema=schema)

    indexes = [nb.HashIndex("b"), nb.SortedIndex("a")]
    options = nb.WriteOptions(compression="fast", cluster_bloom_bits_per_key=10.0)
    with nb.Writer(
        path, schema, cluster_by="k", presorted=True, indexes=indexes, options=options
    ) as writer:
        for begin in range(0, rows, each):
            writer.write(batch(begin))
    assert path.stat().st_size > 2**32 + (1 << 28)
    last = pa.Table.from_batches([batch(rows - each)])
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            file.verify()
            assert_same_table(file.lookup(list(range(rows - each, rows))), last)
            assert_same_table(file.take([rows - 1, rows - each]), last.take([each - 1, 0]))
            assert file.get(f"row {rows - 3}", ["k"], on="b") == {"k": rows - 3}
            assert file.get(-(rows - 3), ["k"], on="a") == {"k": rows - 3}
            found = file.range(-rows, 4 - rows, on="a", columns=["k"])
            assert found.column("k").to_pylist() == [rows - 1, rows - 2, rows - 3]
            assert file.contains([rows, rows - 1]).to_pylist() == [False, True]
            assert file.scan(["k"], filter=f"a = {1 - rows}").to_table().num_rows == 1
