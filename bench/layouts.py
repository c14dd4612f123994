"""Layouts of tables: rows that boxes read, samples, appends that drift, and what writing costs.

python -m bench.layouts [ROWS] [CUBE_ROWS] [FOLDER]

Rows read are those of the files that planning leaves, by the bounds in manifests, which any engine
sees as well. Times are processor time of one process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.table.base.model import Cube, FileCubes
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.space import interleaved
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Estimate, grow
from nimblepy.table.reading.sample import Window

NAMES = ["price", "rating", "delay"]
BOXES = 100
SHARE = 0.01


def skewed(rows: int, columns: int, rng: Any, drift: float = 0.0) -> pa.Table:
    made = [
        rng.lognormal(3 + drift, 1, rows),
        rng.beta(5, 2, rows) * 5,
        rng.exponential(2, rows) ** 2,
    ]
    return pa.table(dict(zip(NAMES[:columns], made[:columns], strict=True)))


def boxes(data: pa.Table, rng: Any) -> Iterator[dict[str, tuple[float, float]]]:
    """Boxes around rows, whose sides have the same share of all ranks."""
    side = SHARE ** (1 / data.num_columns)
    ordered = {name: np.sort(data[name].to_numpy()) for name in data.column_names}
    for row in rng.integers(0, data.num_rows, BOXES).tolist():
        box = {}
        for name, values in ordered.items():
            at = np.searchsorted(values, data[name][row].as_py()) / len(values)
            low = min(max(0.0, at - side / 2), 1 - side)
            box[name] = (
                values[int(low * (len(values) - 1))],
                values[int((low + side) * (len(values) - 1))],
            )
        yield box


def read(table: nb.Table, asked: list[dict[str, tuple[float, float]]]) -> float:
    """Part of the rows that lie in files which a box leaves, on average."""
    found = 0
    for box in asked:
        text = " AND ".join(
            f"{n} BETWEEN {float(a)!r} AND {float(b)!r}" for n, (a, b) in box.items()
        )
        members = table._current.plan.members(parse_filter(text, table.schema).conjuncts)
        found += int(members.files.rows.sum())
    return found / len(asked) / table.num_rows


def show(name: str, table: nb.Table, asked: list[dict[str, tuple[float, float]]]) -> float:
    whole = read(table, asked)
    ones = [read(table, [{n: box[n]} for box in asked]) for n in asked[0]]
    rows = table._current.members.files.rows
    print(
        f"{name:34} box {whole:7.2%}  one column {' '.join(f'{one:6.1%}' for one in ones)}  files "
        f"{len(rows):5}  rows {rows.min():,} {int(np.median(rows)):,} {rows.max():,}",
        flush=True,
    )
    return whole


def at_once(lake: nb.Catalog, rows: int, cube: int, columns: int) -> None:
    rng = np.random.default_rng(1)
    data = skewed(rows, columns, rng)
    asked = list(boxes(data, rng))
    names = data.column_names
    made: dict[str, nb.Table] = {}
    layouts = {
        "none": None,
        "sorted": nb.Sorted(names[0]),
        "zorder": nb.ZOrder(names),
        "otree": nb.OTree(names, cube_rows=cube),
    }
    per_row = 0.0
    for name, layout in layouts.items():
        # Files with about as many rows as a cube has.
        size = str(max(1, int(per_row * cube))) if per_row and name != "otree" else str(1 << 30)
        table = lake.create_table(
            f"once.{name}{columns}",
            data.schema,
            layout=layout,
            properties={"write.target-file-size-bytes": size},
        )
        begin = time.process_time()
        table.append(data)
        seconds = time.process_time() - begin
        made[name] = table
        show(f"{columns} columns, {name}, {seconds:.1f} s", table, asked)
        per_row = per_row or table.size_bytes / rows
    if columns == 2:
        samples(made["otree"], data)


def samples(table: nb.Table, data: pa.Table) -> None:
    for share in (0.01, 0.1):
        for seed in (None, 1):
            found = table.sample(share, seed=seed, columns=["price"])
            print(f"sample {share} seed {seed}: {found.num_rows / data.num_rows:.4%} of the rows")
    files = table._current
    footers = [FileCubes.from_json(child.metadata["nimblepy.otree"]) for child in files.children()]
    bound = LEAST_WEIGHT + WEIGHTS // 100
    asked = [footer.cubes[0].rows for footer in footers if footer.cubes[0].least < bound]
    share = sum(asked) / data.num_rows
    print(f"1 % sample: {len(asked)} of {len(footers)} files, with {share:.3%} of the rows")
    times: dict[str, list[float]] = {"scan": [], "estimate": []}
    for _ in range(5):
        begin = time.process_time()
        whole = pa.compute.mean(table.to_table(["price"])["price"]).as_py()
        times["scan"].append(time.process_time() - begin)
        begin = time.process_time()
        found = table.estimate("avg(price)", 0.01)
        times["estimate"].append(time.process_time() - begin)
    scan, quick = (float(np.median(times[name])) for name in times)
    print(f"avg(price): {whole:.4f} in {scan:.3f} s; {found} in {quick:.4f} s: {quick / scan:.3f}")


def bias(lake: nb.Catalog, rows: int) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.lognormal(3, 1, rows), rng.random(rows)
    x[: rows // 3], y[: rows // 3] = 20.0, 0.5
    table = lake.create_table(
        "once.bias", pa.table({"x": x, "y": y}), layout=nb.OTree(["x", "y"], cube_rows=rows // 40)
    )
    sums = np.array([table.sample(0.01, seed=i)["x"].to_numpy().sum() for i in range(200)])
    deviation = np.sqrt((x**2).sum() * 0.01 * 0.99 / 200)
    z = (sums.mean() - x.sum() * 0.01) / deviation
    sizes = table._current.members.files.rows
    print(f"200 draws of 1 %, a third of {rows:,} keys equal: z of the mean {z:+.2f}; largest file")
    print(f"  {sizes.max():,} rows, cubes of {rows // 40:,}")


def drifting(lake: nb.Catalog, rows: int, cube: int, columns: int) -> None:
    rng = np.random.default_rng(2)
    parts = [skewed(rows // 10, columns, rng, 0.1 * i) for i in range(10)]
    data = pa.concat_tables(parts).combine_chunks()
    asked = list(boxes(data, rng))
    names = data.column_names
    once = lake.create_table(f"drift.once{columns}", data, layout=nb.OTree(names, cube_rows=cube))
    ideal = show(f"{columns} columns, drifting, at once", once, asked)
    size = str(int(once.size_bytes / rows * cube))
    by_sort = lake.create_table(
        f"drift.sorted{columns}",
        data.schema,
        layout=nb.Sorted(names),
        properties={"write.target-file-size-bytes": size},
    )
    table = lake.create_table(
        f"drift.otree{columns}", data.schema, layout=nb.OTree(names, cube_rows=cube)
    )
    for part in parts:
        by_sort.append(part)
        table.append(part)
    base = show(f"{columns} columns, 10 sorted batches", by_sort, asked)
    show(f"{columns} columns, 10 OTree appends", table, asked)
    for budget in (0.3, 1.0):
        before = table.size_bytes
        done = table.optimize_layout(budget_bytes=int(budget * before))
        now = show(
            f"  optimize, {done.bytes_written / before:.0%} of the bytes written", table, asked
        )
        print(f"  of at once {now / ideal:.2f}, of sorted batches {now / base:.2f}")


def billion() -> None:
    """The tree of a billion rows, from a sample of its places."""
    rows, cube, taken = 1_000_000_000, 500_000, 8_000_000
    rng = np.random.default_rng(5)
    places = interleaved([rng.random(taken) ** 3, rng.random(taken)])
    weights = rng.integers(LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS, taken, dtype=np.int32)
    estimate = Estimate()
    estimate.add(places, weights)
    estimate.rows = rows
    begin = time.process_time()
    tree = grow(estimate, 2, cube, cube)
    grown = time.process_time() - begin
    cubes = np.bincount(tree.assign(places, weights), minlength=tree.cubes) * (rows // taken)
    files = []
    for number in range(tree.cubes):
        bits, prefix = tree.prefix(number)
        made = Cube(bits, prefix, LEAST_WEIGHT, (1 << 31) - 1, int(cubes[number]))
        files.append((f"s3://bucket/table/data/data-{number:032x}.nimble", FileCubes("", (made,))))
    octets = Blocks.of_files(files).to_bytes()
    begin = time.process_time()
    found = Blocks.from_bytes(octets)
    Window.of(0.01, None).meets(*found.weights)
    planned = time.process_time() - begin
    print(
        f"a billion rows: {tree.cubes:,} cubes, {len(octets) / 1e6:.2f} MB, grown in "
        f"{grown:.2f} s, read and planned in {planned * 1000:.0f} ms"
    )


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    cube = int(float(sys.argv[2])) if len(sys.argv) > 2 else rows // 100
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        lake = nb.connect(folder)
        billion()
        bias(lake, rows // 20)
        for columns in (2, 3):
            at_once(lake, rows, cube, columns)
            drifting(lake, rows, cube, columns)


if __name__ == "__main__":
    main()
