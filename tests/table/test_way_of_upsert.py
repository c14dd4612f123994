"""The way of an upsert to the core: few functions, and no module twice."""

from __future__ import annotations

import pyarrow as pa
from call_paths import path_to_core

import nimblepy as nb


def test_the_way_of_an_upsert_to_the_core_is_short(lake: nb.Catalog) -> None:
    rows = pa.table({"k": range(1000), "v": range(1000)})
    table = lake.create_table("a.b", rows, primary_key="k")
    table.upsert(rows.slice(0, 100))
    path = path_to_core(lambda: table.upsert(rows.slice(100, 100)))
    assert path.reached_core
    assert len(path.functions) <= 20, path.functions
    assert path.reentered == []
