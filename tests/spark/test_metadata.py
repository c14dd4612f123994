"""Questions about all metadata as Spark jobs: what one machine answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from bench.tables import files as table_files

import nimblepy.spark as ns


@pytest.mark.parametrize("indexed", [False, True])
def test_files_for_keys(spark: Any, tmp_path: Path, indexed: bool) -> None:
    table = table_files.make_table(
        str(tmp_path), 2_000, per_day=20, per_manifest=40, aligned=not indexed
    )
    if indexed:
        table.rewrite_manifests()
        table.append([table_files_row()])
    step = table_files.USERS // 20
    keys = [5, 3 * step + 7, 3 * step + 8, 19 * step]
    expected = table.files_for_keys(keys)
    assert expected.num_rows == 300 + indexed
    found = ns.files_for_keys(spark, table, pa.array(keys))
    assert found.equals(expected)


def table_files_row() -> dict[str, Any]:
    """A row of the table that the bench makes."""
    values: dict[str, Any] = {"region": "eu", "action": "view", "session": "0", "page": "/"}
    return {"event_ts": None, "user_id": 5, "price": 1.0, "count": 1, **values}
