"""Datasets of PyTorch give every row, once, in several processes, as tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from nimblepy.interop.torch import BlockDataset, RowDataset  # noqa: E402

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
