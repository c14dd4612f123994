"""Writes the Parquet files of the benchmark."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def make_files(folder: Path, files: int, rows: int, page_bytes: int | None) -> None:
    rng = np.random.default_rng(38)
    ids = rng.permutation(files * rows)
    options: dict[str, Any] = {}
    if page_bytes is not None:
        options = {"data_page_size": page_bytes, "write_page_index": True}
    for i in range(files):
        part = ids[i * rows : (i + 1) * rows]
        table = pa.table(
            {
                "id": part,
                "key": [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(rows)],
                "time": pa.array(1_700_000_000_000_000 + part * 997, pa.timestamp("us")),
                "status": pa.array(rng.integers(0, 5, rows)).cast(pa.string()),
                "amount": rng.random(rows),
                "quantity": rng.integers(0, 1000, rows).astype(np.int32),
                "flag": rng.random(rows) < 0.3,
                "country": rng.choice(["DE", "FR", "US", "GB", "IT"], rows),
                "note": [f"note {x % 9973} of order {x}" for x in part],
            }
        )
        pq.write_table(table, folder / f"part-{i:04}.parquet", compression="zstd", **options)
