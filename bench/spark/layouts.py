"""What Spark takes to write a table with a layout, beside sorting it by its first column.

python -m bench.spark.layouts [ROWS] [TURNS] [FOLDER]

The ways take turns; a turn's cost is the processor time of the whole process tree (driver, JVM,
Python workers) and the wall time. Files have about as many rows either way.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet

import nimblepy as nb
import nimblepy.spark as ns
from bench.layouts import NAMES, skewed
from bench.spark.session import Processors, start


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    spark = start()
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        data = skewed(rows, len(NAMES), np.random.default_rng(1))
        source = Path(folder, "source.parquet")
        pyarrow.parquet.write_table(data, source, row_group_size=rows // 8)
        lake = nb.connect(Path(folder, "lake"))
        whole = lake.create_table("t.whole", data)
        size = {"write.target-file-size-bytes": str(max(1, whole.size_bytes // 100))}
        layouts = {
            "sorted": (nb.Sorted(NAMES[0]), size),
            "otree": (nb.OTree(NAMES, cube_rows=rows // 100), {}),
        }
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in layouts}
        for turn in range(turns + 1):
            for name, (layout, properties) in layouts.items():
                table = lake.create_table(
                    f"t.{name}{turn}", data.schema, layout=layout, properties=properties
                )
                frame = spark.read.parquet(str(source))
                used, begin = Processors(), time.perf_counter()
                ns.write(frame, table, mode="append")
                cost = used.seconds(), time.perf_counter() - begin
                assert table.num_rows == rows
                if turn:  # the first one warms up
                    costs[name].append(cost)
                    print(f"{name:7} {cost[0]:6.1f} s of processors, {cost[1]:6.1f} s", flush=True)
                else:
                    print(f"{name:7} {table._current.num_files} files", flush=True)
                lake.drop_table(f"t.{name}{turn}", purge=True)
        medians = {name: np.median(found, axis=0) for name, found in costs.items()}
        ratio = medians["otree"] / medians["sorted"]
        print(f"{rows:,} rows: otree of sorted {ratio[0]:.2f} (processors), {ratio[1]:.2f} (wall)")
    spark.stop()


if __name__ == "__main__":
    main()
