"""index_join at its edges: names, types, streams, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy.rows.gather import gather

pytestmark = pytest.mark.sanitizer

Store = Callable[..., Any]


@pytest.fixture
def file(store: Store) -> Any:
    table = pa.table({"k": [1, 2, 2, 3], "v": ["a", "b", "c", None], "p": [10, 20, 21, 30]})
    return store(table, cluster_by="k")


def test_join_names_that_clash_get_the_suffix(file: nb.File) -> None:
    probe = pa.table({"k": [2, 9], "p": [0, 1]})
    joined = nb.index_join(probe, file, on="k", how="left")
    assert joined.to_pydict() == {
        "k": [2, 2, 9],
        "p": [0, 0, 1],
        "v": ["b", "c", None],
        "p_right": [20, 21, None],
    }
    assert nb.index_join(probe, file, on="k", suffix="_dim").schema.names[-1] == "p_dim"
    with pytest.raises(nb.InvalidArgumentError, match="twice"):
        nb.index_join(probe.append_column("p_right", [[1, 1]]), file, on="k")


def test_join_with_other_names_returns_the_key_once_unless_asked(file: nb.File) -> None:
    probe = pa.table({"id": [3]})
    assert nb.index_join(probe, file, on={"id": "k"}).schema.names == ["id", "v", "p"]
    asked = nb.index_join(probe, file, on={"id": "k"}, columns=["k", "v"])
    assert asked.to_pydict() == {"id": [3], "k": [3], "v": [None]}


def test_join_condition_may_read_columns_that_are_not_returned(file: nb.File) -> None:
    probe = pa.table({"k": [1, 2, 3], "p": [10, 21, 31]})
    joined = nb.index_join(probe, file, on="k", columns=["v"], condition="p_right = p", how="left")
    assert joined.to_pydict() == {"k": [1, 2, 3], "p": [10, 21, 31], "v": ["a", "c", None]}
    keys = nb.index_join(probe, file, on="k", columns=[], condition="k_right > 1 AND v IS NULL")
    assert keys.to_pydict() == {"k": [3], "p": [31]}


def test_join_of_a_reader_streams(file: nb.File) -> None:
    pulled: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(50):
            pulled.append(i)
            yield pa.record_batch({"k": pa.array([i % 4])})

    probe = pa.RecordBatchReader.from_batches(pa.schema({"k": pa.int64()}), batches())
    joined = nb.index_join(probe, file, on="k", columns=["v"])
    assert isinstance(joined, pa.RecordBatchReader)
    assert pulled == []
    assert joined.read_next_batch().to_pydict() == {"k": [1], "v": ["a"]}
    assert len(pulled) <= 4  # one batch ahead, not all
    assert joined.read_all().num_rows == 13 + 2 * 12 + 12 - 1


def test_join_of_many_matches_comes_in_bounded_batches(store: Store) -> None:
    file = store(pa.table({"k": np.zeros(300_000, np.int64)}), cluster_by="k")
    probe = pa.RecordBatchReader.from_batches(
        pa.schema({"k": pa.int64()}), [pa.record_batch({"k": pa.array([0, 0])})]
    )
    sizes = [batch.num_rows for batch in nb.index_join(probe, file, on="k")]
    assert sum(sizes) == 600_000
    assert max(sizes) <= 65_536


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_join_of_no_rows_has_the_schema(file: nb.File, how: str) -> None:
    probe = pa.table({"k": pa.array([], pa.int64())})
    names = ["k"] if how in ("semi", "anti") else ["k", "v", "p"]
    assert nb.index_join(probe, file, on="k", how=how).schema.names == names


def test_join_nullability_follows_the_join(store: Store) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64(), False)])
    file = store(pa.table([[1], [2]], schema=schema), cluster_by="k")
    probe = pa.table([[1, 5], [2, 5]], schema=pa.schema([schema.field(0), ("w", pa.int64())]))
    inner = nb.index_join(probe, file, on="k")
    left = nb.index_join(probe, file, on="k", how="left")
    assert [field.nullable for field in inner.schema] == [False, True, False]
    assert [field.nullable for field in left.schema] == [False, True, True]
    left.validate(full=True)


@pytest.mark.parametrize("index", [nb.HashIndex("e"), nb.SortedIndex("e")], ids=["hash", "sorted"])
def test_join_on_a_secondary_index(store: Store, index: Any) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "e": ["b", "a", None, "b"]})
    file = store(table, cluster_by="k", indexes=[index])
    probe = pa.table({"e": ["b", "z", None, "a"], "p": [0, 1, 2, 3]})
    joined = nb.index_join(probe, file, on="e", how="left")
    assert joined.column("k").to_pylist() == [1, 4, None, None, 2]
    assert nb.index_join(probe, file, on="e", how="anti").column("p").to_pylist() == [1, 2]
    assert nb.index_join(probe, file, on="e", null_equals=True).num_rows == 4


@pytest.mark.parametrize(
    ("values", "build", "matched"),
    [
        (pa.array([1, 300, -1], pa.int32()), pa.array([1, 44], pa.uint8()), [True, False, False]),
        (
            pa.array([2**63, 1], pa.uint64()),
            pa.array([-(2**63), 1], pa.int64()),
            [False, True],
        ),
        (pa.array([-1, 1], pa.int64()), pa.array([1, 2**64 - 1], pa.uint64()), [False, True]),
        (pa.array([-1], pa.int8()), pa.array([255], pa.uint64()), [False]),
        (pa.array([1.5, 0.1], pa.float64()), pa.array([0.1, 1.5], pa.float32()), [True, False]),
        (pa.array([-0.0, float("nan")]), pa.array([0.0, float("nan")]), [True, True]),
        (pa.array([7], pa.int32()), pa.array([7.0]), [True]),
        (pa.array(["a"], pa.string_view()), pa.array(["a"], pa.large_string()), [True]),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b"]), [False, True]),
        (
            pa.array([1_500_001, 2_000_000], pa.timestamp("us")),
            pa.array([1, 2], pa.timestamp("s")),
            [False, True],
        ),
        (pa.nulls(2), pa.array([1, None]), [False, False]),
    ],
)
def test_join_compares_values_across_types(
    store: Store, values: pa.Array, build: pa.Array, matched: list[bool]
) -> None:
    file = store(pa.table({"k": build}), cluster_by="k")
    probe = pa.table({"k": values, "p": range(len(values))})
    got = nb.index_join(probe, file, on="k", how="semi").column("p").to_pylist()
    assert got == [i for i, hit in enumerate(matched) if hit]


def test_join_value_that_the_key_cannot_hold_is_no_null(store: Store) -> None:
    file = store(pa.table({"k": pa.array([None, 1], pa.int8())}), cluster_by="k")
    probe = pa.table({"k": pa.array([300, None], pa.int64())})
    joined = nb.index_join(probe, file, on="k", how="semi", null_equals=True)
    assert joined.to_pydict() == {"k": [None]}


@pytest.mark.parametrize(
    ("probe", "keywords", "error", "message"),
    [
        ({"k": ["1"]}, {"on": "k"}, nb.InvalidArgumentError, "cannot be compared"),
        ({"k": [1.0]}, {"on": "k"}, nb.InvalidArgumentError, "cannot be compared"),
        ({"q": [1]}, {"on": "k"}, nb.InvalidArgumentError, "probe: no column 'k'"),
        ({"k": [1]}, {"on": {"k": "q"}}, nb.InvalidArgumentError, "unknown column 'q'"),
        ({"k": [1]}, {"on": {"k": "p"}}, nb.IndexUnavailableError, "no index on .p."),
        ({"k": [1]}, {"on": "k", "how": "right"}, nb.InvalidArgumentError, "swap the sides"),
        ({"k": [1]}, {"on": []}, nb.InvalidArgumentError, "no column given"),
        ({"k": [1]}, {"on": 5}, nb.InvalidArgumentError, "expected a column"),
        ({"k": [1]}, {"on": "k", "columns": "v"}, nb.InvalidArgumentError, "list of names"),
        ({"k": [1]}, {"on": "k", "columns": ["w"]}, nb.InvalidArgumentError, "unknown column"),
        ({"k": [1]}, {"on": "k", "condition": "w > 1"}, nb.InvalidArgumentError, "unknown column"),
        ({"k": [1]}, {"on": "k", "between": {"p": "k"}}, nb.InvalidArgumentError, "between"),
        ({"k": [1]}, {"on": [], "between": {"p": ("k", "k")}}, nb.IndexUnavailableError, "first"),
    ],
)
def test_join_refuses_what_cannot_be_meant(
    file: nb.File, probe: dict[str, Any], keywords: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        nb.index_join(pa.table(probe), file, **keywords)


def test_join_takes_polars_and_pandas(file: nb.File) -> None:
    frame = pl.DataFrame({"k": [2, 9], "name": ["x", "y"]})
    joined = nb.index_join(frame, file, on="k", columns=["v"])
    assert joined.column("name").to_pylist() == ["x", "x"]
    assert nb.index_join(frame.to_pandas(), file, on="k", how="anti").column("k").to_pylist() == [9]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "c"], pa.string_view()),
        pa.array([b"a", None, b"c"], pa.binary_view()),
        pa.array([["a"], None, ["c", None]], pa.list_(pa.string_view())),
        pa.array([{"x": "a"}, None, {"x": None}], pa.struct({"x": pa.string_view()})),
        pc.run_end_encode(pa.array([1, 1, None])),
        pa.array([1, None, 3]).dictionary_encode(),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type),
)
def test_gather_knows_every_type(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["c"])
    values = column.to_pylist()
    got = gather(batch, pa.array([2, None, 0, 0, 1]))
    got.validate(full=True)
    assert got.column("c").type == column.type
    assert got.column("c").to_pylist() == [values[2], None, values[0], values[0], values[1]]
    assert gather(batch, pa.array([], pa.int64())).num_rows == 0


def test_join_leaves_the_file_usable_when_the_stream_is_dropped(file: nb.File) -> None:
    schema = pa.schema({"k": pa.int64()})
    batches = (pa.record_batch({"k": pa.array([1])}) for _ in range(10))
    joined = nb.index_join(pa.RecordBatchReader.from_batches(schema, batches), file, on="k")
    joined.read_next_batch()
    del joined
    assert file.get(1) == {"k": 1, "v": "a", "p": 10}


def test_join_passes_errors_of_the_file_on(tmp_path: Path) -> None:
    path = tmp_path / "t.nimble"
    values = np.random.default_rng(0).random(10_000)
    nb.write(pa.table({"k": range(10_000), "v": values}), path, cluster_by="k")
    data = bytearray(path.read_bytes())
    data[100:20_000] = bytes(19_900)
    with pytest.raises(nb.CorruptFileError):
        nb.index_join(pa.table({"k": range(10_000)}), nb.open(bytes(data)), on="k")
