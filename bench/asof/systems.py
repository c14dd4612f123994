"""The as-of join of each system: a function that runs it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench.asof.data import COLUMNS


def by_polars(events: pa.Table, probe: pa.Table) -> Callable[[], pa.Table]:
    import polars as pl

    right = pl.from_arrow(events).sort("ts")
    assert isinstance(right, pl.DataFrame)

    def run() -> pa.Table:
        left = pl.from_arrow(probe).with_row_index("n").sort("ts")
        joined = left.join_asof(right, on="ts", by="user", check_sortedness=False)
        return joined.sort("n").select(COLUMNS).to_arrow()

    return run


def by_duckdb(events: pa.Table, probe: pa.Table) -> Callable[[], pa.Table]:
    import duckdb

    session = duckdb.connect()
    session.execute("SET threads = 2")
    session.execute("SET asof_loop_join_threshold = 0")  # a loop takes 30 s here
    session.register("arrived", events)
    session.execute("CREATE TABLE events AS FROM arrived ORDER BY user, ts")
    numbered = probe.append_column("n", pa.array(np.arange(probe.num_rows)))
    session.register("probe", numbered)
    query = f"""SELECT {", ".join(COLUMNS)} FROM probe p ASOF LEFT JOIN events e
        ON p.user = e.user AND p.ts >= e.ts ORDER BY n"""
    return lambda: session.execute(query).to_arrow_table()


def by_nimblepy(path: Path, probe: pa.Table) -> Callable[[], pa.Table]:
    file = nb.open(path)
    return lambda: file.asof_join(probe, on="ts", by="user", columns=COLUMNS).select(COLUMNS)
