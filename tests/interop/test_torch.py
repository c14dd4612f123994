"""Datasets of PyTorch give every row, once, in several processes, as tensors."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from nimblepy.interop.torch import BlockDataset, RowDataset, collate  # noqa: E402

ROWS = 1000
VECTORS = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)


@pytest.fixture(params=["file", "dataset"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    columns = {"id": np.arange(ROWS), "v": VECTORS, "s": [f"s{i}" for i in range(ROWS)]}
    if request.param == "file":
        nb.write(columns, tmp_path / "t.nimble", cluster_by="id")
        return tmp_path / "t.nimble"
    for i in range(0, ROWS, 300):
        part = {name: values[i : i + 300] for name, values in columns.items()}
        nb.write(part, tmp_path / f"{i}.nimble", cluster_by="id")
    return tmp_path


def check(batch: dict[str, Any]) -> list[int]:
    ids = batch["id"].tolist()
    assert batch["v"].dtype == torch.float32
    assert np.array_equal(batch["v"].numpy(), VECTORS[ids])
    assert batch["s"] == [f"s{i}" for i in ids]
    return ids


def test_rows_by_number(source: Path) -> None:
    dataset = RowDataset(source)
    assert len(dataset) == ROWS
    assert dataset[7]["v"].tolist() == VECTORS[7].tolist()
    with pytest.raises(IndexError):
        dataset[ROWS]
    seen = [row for batch in DataLoader(dataset, 64, shuffle=True) for row in check(batch)]
    assert sorted(seen) == list(range(ROWS))
    assert seen != sorted(seen)


@pytest.mark.parametrize("batch_rows", [None, 50])
def test_blocks_give_every_row_once(source: Path, batch_rows: Any) -> None:
    dataset = BlockDataset(source, batch_rows=batch_rows, block_rows=64, mixed_blocks=3)
    loader = DataLoader(dataset, batch_size=50 if batch_rows is None else None)
    orders = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        orders.append([row for batch in loader for row in check(batch)])
        assert sorted(orders[-1]) == list(range(ROWS))
    assert orders[0] == orders[2] != orders[1]
    assert orders[0] != sorted(orders[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "blocks"])
def test_several_processes_share_the_rows(source: Path, kind: str) -> None:
    more: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "spawn"}
    if kind == "rows":
        loader = DataLoader(RowDataset(source), 64, shuffle=True, **more)
    else:
        loader = DataLoader(BlockDataset(source, batch_rows=50, block_rows=64), None, **more)
    assert sorted(row for batch in loader for row in check(batch)) == list(range(ROWS))


def test_ranks_share_the_blocks_and_order_may_be_kept(source: Path) -> None:
    parts = [
        [int(x["id"]) for x in BlockDataset(source, ["id"], block_rows=64, rank=r, world_size=3)]
        for r in range(3)
    ]
    assert sorted(row for part in parts for row in part) == list(range(ROWS))
    plain = BlockDataset(
        source, ["id"], shuffle=False, block_rows=64, transform=lambda example: int(example["id"])
    )
    assert list(plain) == list(range(ROWS))
    with pytest.raises(nb.InvalidArgumentError, match="rank"):
        BlockDataset(source, rank=3, world_size=3)


def test_nulls_and_empty_files(tmp_path: Path) -> None:
    nb.write(pa.table({"x": pa.array([1, None, 3])}), tmp_path / "t.nimble")
    values = [float(row["x"]) for row in BlockDataset(tmp_path / "t.nimble", shuffle=False)]
    assert values[0] == 1
    assert np.isnan(values[1])
    nb.write(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "e.nimble")
    assert list(BlockDataset(tmp_path / "e.nimble")) == []


UTC = dt.UTC
TYPES: dict[str, pa.Array] = {
    "int": pa.array([1, 2, None, 4], pa.int32()),
    "bool": pa.array([True, False, None, True]),
    "date": pa.array([dt.date(1970, 1, 3), dt.date(2024, 1, 1), None, dt.date(1970, 1, 1)]),
    "ts": pa.array([dt.datetime(1970, 1, 1, 0, 0, 1), None, None, None], pa.timestamp("us")),
    "zoned": pa.array(
        [dt.datetime(1970, 1, 1, tzinfo=UTC)] * 3 + [None], pa.timestamp("ms", "UTC")
    ),
    "time": pa.array([dt.time(0, 0, 1), None, None, None], pa.time64("us")),
    "duration": pa.array([dt.timedelta(seconds=1), None, None, None], pa.duration("s")),
    "decimal": pa.array([Decimal("1.5"), None, None, Decimal("2")]),
    "float": pa.array([0.5, None, 1.0, 2.0], pa.float32()),
    "vector": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
    "floats": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.float32(), 2)),
    "categories": pa.array([3, 4, None, 3], pa.int64()).dictionary_encode(),
    "null": pa.nulls(4),
}
DTYPES = {"float": torch.float32, "floats": torch.float32}


# The dtype of nullable integers changed from one batch to the next; times, dates and nullable
# booleans failed in torch's collate.
@pytest.mark.parametrize("name", TYPES)
def test_a_column_has_one_dtype(tmp_path: Path, name: str) -> None:
    column = TYPES[name]
    nb.write(pa.table({"x": column}), tmp_path / "t.nimble")
    for batch_size in (1, 2, 4):
        loader = DataLoader(RowDataset(tmp_path / "t.nimble"), batch_size)
        blocks = BlockDataset(
            tmp_path / "t.nimble", batch_rows=batch_size, block_rows=1, mixed_blocks=1
        )
        for batches in (list(loader), list(blocks)):
            assert {batch["x"].dtype for batch in batches} == {DTYPES.get(name, torch.float64)}
        found = torch.cat([batch["x"] for batch in loader])
        missing = found.isnan().reshape(4, -1).all(dim=1)
        assert missing.tolist() == column.is_null().to_pylist()


@pytest.mark.parametrize("name", [n for n in TYPES if n not in ("float", "floats", "null")])
def test_columns_without_nulls_keep_their_type(tmp_path: Path, name: str) -> None:
    column = TYPES[name].drop_null()
    nb.write(pa.table({"x": column}), tmp_path / "t.nimble")
    (batch,) = DataLoader(RowDataset(tmp_path / "t.nimble"), 4)
    expected = {"int": torch.int32, "bool": torch.bool, "decimal": torch.float64,
                "vector": torch.int16}  # fmt: skip
    assert batch["x"].dtype == expected.get(name, torch.int64)
    if name in ("ts", "time"):
        assert batch["x"].tolist() == [1_000_000]
    if name == "date":
        assert batch["x"].tolist()[0] == 2


def test_text_and_lists(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a", None], "b": [b"a", b"b"], "l": [[1, 2], [3]], "t": [["a"], []]})
    nb.write(rows, tmp_path / "t.nimble")
    (batch,) = BlockDataset(tmp_path / "t.nimble", batch_rows=2, shuffle=False)
    assert batch["s"] == ["a", None]
    assert batch["b"] == [b"a", b"b"]
    assert [values.tolist() for values in batch["l"]] == [[1, 2], [3]]
    assert batch["t"] == [["a"], []]


def test_columns_are_checked_at_once(tmp_path: Path) -> None:
    # A wrong name was found when a worker read.
    nb.write(pa.table({"abc": [1], "s": [{"x": 1}]}), tmp_path / "t.nimble")
    for make in (RowDataset, BlockDataset):
        for wrong in (["abd"], "abc", ["abc", "abc"], ["s.y"]):
            with pytest.raises(nb.InvalidArgumentError):
                make(tmp_path / "t.nimble", wrong)
        assert [int(example["s.x"]) for example in DataLoader(make(tmp_path / "t.nimble", ["s.x"]))]


def test_a_table_is_a_source(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    rows = pa.table({"x": [1, None, 3], "day": [dt.date(2024, 1, 1)] * 3})
    table = nb.connect(tmp_path).create_table("a.t", rows)
    batches = list(DataLoader(RowDataset(table), 1))
    assert {batch["x"].dtype for batch in batches} == {torch.float64}


def test_rows_that_pass_a_filter(source: Path) -> None:
    rows = RowDataset(source, filter="id >= $from AND s LIKE '%7'", params={"from": 500})
    wanted = [i for i in range(500, ROWS) if i % 10 == 7]
    assert len(rows) == len(wanted)
    assert rows[3]["id"] == wanted[3]
    assert rows[-1]["id"] == wanted[-1]
    with pytest.raises(IndexError):
        rows[len(wanted)]
    loader = DataLoader(rows, 16, shuffle=True)
    assert sorted(row for batch in loader for row in check(batch)) == wanted
    for batch_rows in (None, 7):
        blocks = BlockDataset(
            source, filter="id % 10 = 7", block_rows=8, mixed_blocks=2, batch_rows=batch_rows
        )
        seen = list(blocks)
        assert len(seen) == len(blocks)
        ids = [int(i) for item in seen for i in torch.atleast_1d(item["id"])]
        assert sorted(ids) == [i for i in range(ROWS) if i % 10 == 7]
    assert len(RowDataset(source, filter="id < 0")) == 0
    with pytest.raises(nb.InvalidArgumentError, match="nope"):
        RowDataset(source, filter="nope = 1")


def test_lists_of_different_lengths_are_collated(tmp_path: Path) -> None:
    data = pa.table({"id": [0, 1, 2], "tags": [[1], None, [2, 3]], "s": ["a", None, "c"]})
    nb.write(data, tmp_path / "t.nimble")
    (batch,) = DataLoader(RowDataset(tmp_path / "t.nimble"), 3, collate_fn=collate)
    assert batch["id"].tolist() == [0, 1, 2]
    assert [None if tags is None else tags.tolist() for tags in batch["tags"]] == [
        [1],
        None,
        [2, 3],
    ]
    assert batch["s"] == ["a", None, "c"]
