"""What an upsert by key costs in a table of format version 3, compared with version 2.

python -m bench.tables.versions DIRECTORY                 2M rows of 8 columns in 20 files, nimble
python -m bench.tables.versions DIRECTORY --data-format parquet --rows 500000

Both tables get the same rows, and each batch is upserted into one table and then into the other.
Half of the keys of a batch are new. Times are processor time of the process with all its threads.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path

import numpy as np

import nimblepy as nb
from bench.tables.upserts import batch, columns, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=11)
    parser.add_argument("--data-format", choices=["nimble", "parquet"], default="nimble")
    asked = parser.parse_args()
    place = asked.directory / "versions"
    shutil.rmtree(place, ignore_errors=True)
    lake = nb.connect(place)
    schema = columns(np.empty(0, np.int64), 0, "int64").schema
    tables = {
        version: lake.create_table(
            f"a.v{version}",
            schema,
            primary_key="key",
            data_format=asked.data_format,
            format_version=version,
        )
        for version in (2, 3)
    }
    for part in parts(asked.rows, "int64"):
        for table in tables.values():
            table.append(part, presorted=True)
    spent: dict[int, list[float]] = {version: [] for version in tables}
    scans: dict[int, list[float]] = {version: [] for version in tables}
    ratios = []
    for turn in range(asked.times):
        rows = batch(turn, asked.rows, asked.count, "int64")
        for version in (2, 3) if turn % 2 else (3, 2):
            begin = time.process_time()
            tables[version].upsert(rows)
            spent[version].append(1000 * (time.process_time() - begin))
            begin = time.process_time()
            sum(b.num_rows for b in tables[version].scan(["user", "amount"]).to_batches())
            scans[version].append(1000 * (time.process_time() - begin))
        ratios.append(spent[3][-1] / spent[2][-1])
    assert tables[2].num_rows == tables[3].num_rows
    for what, times in (("upsert", spent), ("scan of 2 columns", scans)):
        old, new = (statistics.median(times[version]) for version in (2, 3))
        print(f"{what} of {asked.count:,}: {old:.1f} ms in v2, {new:.1f} ms in v3: {new / old:.2f}")
    print(f"median of the ratios of the upserts: {statistics.median(ratios):.2f}")
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
