"""The writer refuses what it should, leaves nothing behind when it fails, and sorts like the
oracle.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import key_cases
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
TABLE = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})


def left_behind(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


# ---- order and uniqueness ----


@pytest.mark.parametrize("batch_rows", [1_000, 7, 777, 778])
def test_write_presorted_but_unsorted_names_the_row(
    tmp_path: Path, path: str, batch_rows: int
) -> None:
    keys = list(range(1_000))
    keys[777] = (
        5  # the first row that is smaller than the one before, inside a batch and first of a batch
    )
    batches = pa.table({"my_key": keys}).to_batches(max_chunksize=batch_rows)
    options = nb.WriteOptions(stripe_rows=100)
    with pytest.raises(nb.KeyOrderError, match=r"\b777\b") as caught:
        nb.write(iter(batches), path, cluster_by="my_key", presorted=True, options=options)
    assert "my_key" in str(caught.value) or "5" in str(caught.value)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("batch_rows", [1_000, 7, 777, 778])
def test_write_duplicate_of_a_unique_key_names_key_and_both_rows(
    tmp_path: Path, path: str, batch_rows: int
) -> None:
    keys = [f"key-{i:04}" for i in range(1_000)]
    keys[777] = keys[776]
    batches = pa.table({"k": keys}).to_batches(max_chunksize=batch_rows)
    with pytest.raises(nb.DuplicateKeyError, match="key-0776") as caught:
        nb.write(iter(batches), path, cluster_by="k", presorted=True, unique=True)
    assert "776" in str(caught.value).replace("key-0776", "")
    assert "777" in str(caught.value)
    assert left_behind(tmp_path) == []


def test_write_duplicate_far_apart_in_unsorted_input_is_found(tmp_path: Path, path: str) -> None:
    keys = np.random.default_rng(0).permutation(5_000)
    keys[4_321] = keys[17]
    with pytest.raises(nb.DuplicateKeyError, match=rf"\b{keys[17]}\b"):
        nb.write(pa.table({"k": keys}), path, cluster_by="k", unique=True)
    assert left_behind(tmp_path) == []


def test_write_unique_composite_allows_repeated_columns(store: Store) -> None:
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, 1]})
    file = store(table, cluster_by=["a", "b"], unique=True)
    assert file.unique is True
    assert store(table, cluster_by=["a", "b"]).unique is False


def test_write_unique_treats_zeros_and_nans_as_one_key(path: str) -> None:
    for pair in ([0.0, -0.0], [float("nan"), -float("nan")]):
        with pytest.raises(nb.DuplicateKeyError):
            nb.write(pa.table({"k": pair}), path, cluster_by="k", unique=True)


@given(case=key_cases.composite_cases(max_columns=2, max_rows=40), data=st.data())
def test_write_presorted_accepts_exactly_sorted_input(
    path: str, case: Any, data: st.DataObject
) -> None:
    table, columns, orders, _ = case
    cluster_by = key_cases.sort_keys(columns, orders)
    stored = key_cases.in_file_order(table, columns, orders)
    options = nb.WriteOptions(stripe_rows=data.draw(st.sampled_from([1, 6, 100])))
    nb.write(stored, path, cluster_by=cluster_by, presorted=True, options=options)
    assert_same_table(nb.open(path).to_table(), stored)
    again = key_cases.in_file_order(table.slice(0, table.num_rows), columns, orders)
    if not table.select(columns).equals(again.select(columns)) and not _has_float(table, columns):
        with pytest.raises(nb.KeyOrderError):
            nb.write(table, path, cluster_by=cluster_by, presorted=True, options=options)


def _has_float(table: pa.Table, columns: list[str]) -> bool:
    return any(
        pa.types.is_floating(table.schema.field(name).type) for name in columns
    )  # NaN != NaN above


@pytest.mark.parametrize("batch_rows", [1 << 20, 3_000])
def test_write_external_sort_is_stable_and_exact(path: str, batch_rows: int) -> None:
    rng = np.random.default_rng(5)
    n = 60_000
    table = pa.table(
        {
            "k": pa.array(rng.integers(0, 2_000, n), pa.int32()),
            "row": pa.array(range(n), pa.int64()),
            "text": [f"{i} ".ljust(60, "x") for i in range(n)],
            "list": strategies.make_array(pa.list_(pa.utf8()), n, rng),
        }
    )
    options = nb.WriteOptions(sort_memory_bytes=1 << 20, stripe_rows=5_000)
    nb.write(
        iter(table.to_batches(max_chunksize=batch_rows)), path, cluster_by="k", options=options
    )
    rows = np.argsort(table.column("k").to_numpy(), kind="stable")
    assert_same_table(nb.open(path).to_table(), table.take(pa.array(rows)))
    assert left_behind(Path(path).parent) == [Path(path).name]  # no spill files remain


@given(case=key_cases.composite_cases(max_rows=60))
def test_write_unsorted_input_is_stored_in_key_order(path: str, case: Any) -> None:
    table, columns, orders, _ = case
    nb.write(table, path, cluster_by=key_cases.sort_keys(columns, orders))
    file = nb.open(path)
    assert file.cluster_by == key_cases.sort_keys(columns, orders)
    assert_same_table(file.to_table(), key_cases.in_file_order(table, columns, orders))


@pytest.mark.parametrize(
    "type_", [t for t in strategies.ALL_TYPES if not pa.types.is_null(t)], ids=str
)
def test_write_sorting_moves_every_column_type_exactly(store: Store, type_: pa.DataType) -> None:
    rng = np.random.default_rng(6)
    n = 300
    keys = rng.integers(0, 40, n)
    column = strategies.make_array(type_, n, rng)
    file = store(
        pa.table({"k": keys, "v": column}), cluster_by="k", options=nb.WriteOptions(stripe_rows=70)
    )
    want = pa.concat_tables(
        [pa.table({"v": column}).slice(int(i), 1) for i in np.argsort(keys, kind="stable")]
    )
    assert_same_table(file.to_table(["v"]), want)


# ---- refusals ----


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"cluster_by": "nope"}, "nope"),
        ({"cluster_by": ["k", "nope"]}, "nope"),
        ({"cluster_by": ["k", "k"]}, "k"),
        ({"cluster_by": "tags"}, "tags"),
        ({"cluster_by": "place"}, "place"),
        ({"cluster_by": "place.nope"}, "place.nope"),
        ({"unique": True}, "unique"),
        ({"presorted": True}, "presorted"),
        ({"options": nb.WriteOptions(statistics=["nope"])}, "nope"),
        ({"metadata": {"a": 1}}, "a"),
    ],
    ids=str,
)
def test_write_bad_argument_is_refused_and_leaves_no_file(
    tmp_path: Path, path: str, keywords: dict[str, Any], named: str
) -> None:
    table = pa.table({"k": [1], "tags": [["x"]], "place": [{"lat": 1.0}]})
    with pytest.raises(nb.InvalidArgumentError, match=named):
        nb.write(table, path, **keywords)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    "data", [5, b"octets", None, [1, 2], {"a": 1}, [pa.array([1])], object()], ids=str
)
def test_write_data_that_is_no_table_is_refused(tmp_path: Path, path: str, data: Any) -> None:
    with pytest.raises((nb.InvalidArgumentError, TypeError)):
        nb.write(data, path)
    assert left_behind(tmp_path) == []


def test_write_batch_of_another_schema_is_refused(tmp_path: Path, path: str) -> None:
    other = pa.table({"k": [1], "v": [1.5]})
    with pytest.raises(nb.InvalidArgumentError, match="v"):  # noqa: PT012, SIM117
        with nb.Writer(path, TABLE.schema) as writer:
            writer.write(TABLE)
            writer.write(other)
    assert left_behind(tmp_path) == []


def test_write_null_in_required_column_is_refused(tmp_path: Path, path: str) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("must", pa.utf8(), nullable=False)])
    table = pa.table([pa.array([1, 2]), pa.array(["x", None])], schema=schema)
    with pytest.raises(nb.InvalidArgumentError, match="must"):
        nb.write(table, path)
    assert left_behind(tmp_path) == []


INVALID_ARROW = """
import sys
import numpy as np, pyarrow as pa, nimblepy as nb

offsets = np.array([0, 2**30, 5], np.int32)  # the first text ends far outside the data
buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"hello")]
table = pa.table({"bad_one": pa.Array.from_buffers(pa.utf8(), 2, buffers)})
try:
    nb.write(table, sys.argv[1])
except nb.InvalidArgumentError as error:
    print(error)
"""


def test_write_invalid_arrow_data_is_refused(tmp_path: Path, path: str) -> None:
    # a producer's broken offsets crashed the process: in a process of its own, to report that
    command = [sys.executable, "-c", INVALID_ARROW, path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert "bad_one" in ran.stdout
    assert left_behind(tmp_path) == []


# ---- atomicity ----


def test_writer_exception_in_with_block_leaves_no_file(tmp_path: Path, path: str) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117
        with nb.Writer(path, TABLE.schema) as writer:
            for _ in range(50):
                writer.write(TABLE)
            raise ZeroDivisionError
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    "sort", [{}, {"cluster_by": "k"}, {"cluster_by": "k", "presorted": True}], ids=str
)
def test_write_source_that_fails_midway_keeps_the_old_file(
    tmp_path: Path, path: str, sort: dict[str, Any]
) -> None:
    nb.write(TABLE, path)
    before = Path(path).read_bytes()

    def source() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        nb.write(source(), path, **sort)
    assert Path(path).read_bytes() == before
    assert left_behind(tmp_path) == [Path(path).name]


def test_write_replaces_atomically_while_old_readers_go_on(path: str) -> None:
    old = pa.table({"k": range(20_000), "s": [f"old {i}" for i in range(20_000)]})
    nb.write(old, path, cluster_by="k")
    mapped, plain = nb.open(path), nb.open(path, mmap=False)
    nb.write(TABLE, path, cluster_by="k")
    for reader in (mapped, plain):
        assert reader.get(19_999) == {"k": 19_999, "s": "old 19999"}
        assert_same_table(reader.to_table(), old)
    assert_same_table(nb.open(path).to_table(), TABLE)


def test_write_into_missing_or_unwritable_place_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        nb.write(TABLE, tmp_path / "no" / "such" / "folder.nimble")
    with pytest.raises(OSError, match=tmp_path.name):
        nb.write(TABLE, tmp_path)  # a directory
    assert left_behind(tmp_path) == []


def test_writer_after_its_block_refuses_more_rows(path: str) -> None:
    with nb.Writer(path, TABLE.schema) as writer:
        writer.write(TABLE)
    with pytest.raises((nb.NimbleError, ValueError)):
        writer.write(TABLE)
    assert_same_table(nb.open(path).to_table(), TABLE)


def test_writer_without_rows_makes_an_empty_file(path: str) -> None:
    with nb.Writer(path, TABLE.schema, cluster_by="k"):
        pass
    assert_same_table(nb.open(path).to_table(), TABLE.slice(0, 0))


# ---- results ----


def test_write_summary_describes_the_file(path: str) -> None:
    table = pa.table(
        {"k": range(1_000), "constant": [7] * 1_000, "s": [f"text {i}" for i in range(1_000)]}
    )
    options = nb.WriteOptions(stripe_rows=100)
    summary = nb.write(table, path, cluster_by="k", options=options)
    assert summary.num_rows == 1_000
    assert summary.size_bytes == os.path.getsize(path)
    assert summary.stripes == 10
    assert 0 < summary.index_bytes < summary.size_bytes
    assert [column.name for column in summary.columns] == ["k", "constant", "s"]
    sizes = {column.name: column.size_bytes for column in summary.columns}
    assert sizes["constant"] < sizes["s"]
    assert sum(sizes.values()) + summary.index_bytes <= summary.size_bytes
    assert all(isinstance(column.encoding, str) and column.encoding for column in summary.columns)
    assert nb.write(table, path).index_bytes == 0
    assert nb.write(table.slice(0, 0), path).stripes == 0


@pytest.mark.parametrize(
    "sort", [{}, {"cluster_by": "k"}, {"cluster_by": "k", "presorted": True}], ids=str
)
def test_write_progress_is_reported_up_to_all_rows(path: str, sort: dict[str, Any]) -> None:
    table = pa.table({"k": range(50_000), "v": np.random.default_rng(0).random(50_000)})
    seen: list[tuple[int, int | None]] = []
    options = nb.WriteOptions(stripe_rows=5_000)
    batches = table.to_batches(max_chunksize=1_000)
    for data in (table, iter(batches)):
        seen.clear()
        nb.write(
            data,
            path,
            progress=lambda done, total: seen.append((done, total)),
            options=options,
            **sort,
        )
        done = [d for d, _ in seen]
        assert done == sorted(done)
        assert done[-1] == 50_000
        assert {total for _, total in seen} <= {None, 50_000}


def test_write_progress_callback_that_raises_stops_the_write(tmp_path: Path, path: str) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nb.write(pa.table({"k": range(10_000)}), path, progress=stop)
    assert left_behind(tmp_path) == []


def test_write_metadata_is_read_back(store: Store) -> None:
    given_ = {"text": "ünï", "bytes": b"\0\xff", "": "", "long": "x" * 100_000}
    file = store(TABLE, metadata=given_)
    read = {_bytes(key): _bytes(value) for key, value in file.metadata.items()}
    assert read == {_bytes(key): _bytes(value) for key, value in given_.items()}
    assert file.schema.metadata is None
    assert not store(TABLE).metadata


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def test_write_same_input_gives_same_bytes(path: str) -> None:
    # whatever the number of threads and the batches in which the rows came
    rng = np.random.default_rng(4)
    n = 1_500
    arrays = {str(i): strategies.make_array(t, n, rng) for i, t in enumerate(strategies.ALL_TYPES)}
    table = pa.table({"k": rng.integers(0, 999, n), **arrays})
    contents = set()
    for threads, rows in ((1, n), (1, n), (3, n), (2, 101)):
        options = nb.WriteOptions(stripe_rows=700, threads=threads)
        batches = table.to_batches(max_chunksize=rows)
        source = pa.RecordBatchReader.from_batches(table.schema, batches)
        metadata = {"a": "b", "c": "d"}
        nb.write(source, path, cluster_by="k", options=options, metadata=metadata)
        contents.add(Path(path).read_bytes())
    assert len(contents) == 1


def test_write_filesystem_and_fsspec_paths_hold_the_same_file(tmp_path: Path, path: str) -> None:
    from pyarrow import fs

    nb.write(TABLE, path, cluster_by="k")
    want = Path(path).read_bytes()
    nb.write(TABLE, str(tmp_path / "a.nimble"), cluster_by="k", filesystem=fs.LocalFileSystem())
    nb.write(TABLE, (tmp_path / "b.nimble").as_uri(), cluster_by="k")
    assert (tmp_path / "a.nimble").read_bytes() == want
    assert (tmp_path / "b.nimble").read_bytes() == want
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    nb.write(TABLE, "/c.nimble", cluster_by="k", filesystem=memory)
    assert memory.cat("/c.nimble") == want
    assert_same_table(nb.open("/c.nimble", filesystem=memory).to_table(), TABLE)
