"""Rows that pass a filter, of every layout: few of a block, most of it, and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from exact import assert_same_table

import nimblepy as nb

pytestmark = pytest.mark.model

ROWS = 150_000  # two segments


def _table() -> pa.Table:
    rng = np.random.default_rng(11)
    order = rng.permutation(ROWS)
    nulls = rng.random(ROWS) < 0.2
    texts = np.array([f"text {n % 977}" for n in order])
    return pa.table(
        {
            "order": order,
            "cents": pa.array(order % 5000).cast(pa.decimal128(19, 0)).view(pa.decimal128(19, 2)),
            "nullable": pa.array(order, mask=nulls),
            "float": order / 8,
            "tiny": pa.array(order % 100, pa.int8()),
            "bool": order % 3 == 0,
            "nullable_bool": pa.array(order % 2 == 0, mask=nulls),
            "text": pa.array(texts),
            "nullable_text": pa.array(texts, mask=nulls),
            "few": pa.array(np.array(["a", "bb", ""])[order % 3]),
            "dictionary": pa.array(texts).dictionary_encode(),
            "constant": pa.array(np.full(ROWS, 7, dtype=np.int32)),
            "fixed": pa.FixedSizeListArray.from_arrays(np.repeat(order, 2).astype(np.int16), 2),
            "struct": pa.StructArray.from_arrays(
                [pa.array(order), pa.array(texts)], names=["n", "t"], mask=pa.array(nulls)
            ),
        }
    )


@pytest.fixture(scope="module", params=[131_072, 50_000], ids=["long stripes", "short stripes"])
def stored(request: Any, tmp_path_factory: Any) -> tuple[Path, pa.Table]:
    table = _table()
    path = tmp_path_factory.mktemp("filtered") / "f.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=request.param))
    return path, table


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("most", [0, 3, 900, 9_000, 75_000, 149_000, ROWS])
def test_rows_of_every_layout(stored: Any, mmap: bool, most: int) -> None:
    path, table = stored
    mask = pa.array(table["order"].to_numpy() < most)
    expected = table.filter(mask)
    with nb.open(path, mmap=mmap) as file:
        for columns in (table.column_names, ["cents"], ["few", "bool"], ["struct", "fixed"]):
            for batch_rows, threads in [(65_536, 1), (999, 2)]:
                scan = file.scan(
                    columns, filter=f'"order" < {most}', batch_rows=batch_rows, threads=threads
                )
                batches = list(scan.to_batches())
                assert all(0 < batch.num_rows <= batch_rows for batch in batches)
                found = pa.Table.from_batches(batches, schema=scan.schema)
                assert_same_table(found, expected.select(columns))
        assert file.count_rows(filter=f'"order" < {most}') == expected.num_rows
