"""`python -m bench.indexes.sizes`: what secondary indexes must reach, measured.

python -m bench.indexes.sizes --prepare      make the files: some minutes, 3 GB of disk
python -m bench.indexes.sizes                measure; writes results/indexes.json and indexes.md
python -m bench.indexes.sizes --rows 100000  the same on little data: a look, no result

Times are medians of questions asked before (warm), one thread, of a mapped file. Reads are counted
by a file that is not mapped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench import markdown
from bench.bars import Bar
from bench.indexes import data as index_data
from bench.indexes.memory import peak_bytes

KEYS = 10_000  # of a batch
SETS = 7  # of keys that are asked, and turns
MEMORY_BUDGET = 64 << 20
TOLD = float("inf")  # the limit of what is told and has no bar
KIND_NAMES = {"k": "int64", "u": "UUID text"}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.indexes.sizes",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--prepare", action="store_true", help="only make the files")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    arguments = parser.parse_args()
    place = index_data.prepare(arguments.rows)
    if arguments.prepare:
        return
    found = measure(place, arguments.rows)
    write(found, arguments.out)
    print(markdown_of(found))


def measure(place: Path, rows: int) -> list[Bar]:
    """All bars; the order is that of the issue."""
    path = place / "keys.nimble"
    found: list[Bar] = []
    with nb.open(path) as file:
        asked = Asked(file)
        for name in ("k", "u"):
            found += list(_warm(asked, name))
        found += list(_sorted(asked))
        found += list(_sizes(file, index_data.known(place)))
    for name in ("k", "u"):
        found += list(_cold(path, name, asked))
    found += list(_misses(path, asked))
    found += list(_build(min(rows, 2_000_000), 5 * rows))
    return found


class Asked:
    """A file and keys of it: ``SETS`` batches of ``KEYS`` random ones a column, all present."""

    def __init__(self, file: nb.File) -> None:
        self.file = file
        random = np.random.default_rng(3)
        count = min(KEYS, file.num_rows)
        self.keys: dict[str, list[pa.Array]] = {"k": [], "u": []}
        for _ in range(SETS):
            rows = random.integers(0, file.num_rows, count)
            table = file.take(rows, ["k", "u"])
            for name, sets in self.keys.items():
                sets.append(table.column(name).combine_chunks())


def timed(questions: Sequence[Callable[[], object]], at_once: int = 1) -> float:
    """Median seconds of a question, asked ``at_once`` between two looks at the clock.

    Everything is asked once before.
    """
    for question in questions:
        question()
    times = []
    for begin in range(0, len(questions), at_once):
        group = questions[begin : begin + at_once]
        start = time.perf_counter()
        for question in group:
            question()
        times.append((time.perf_counter() - start) / len(group))
    return statistics.median(times)


def _get_seconds(file: nb.File, keys: Sequence[Any], on: Any, at_once: int = 50) -> float:
    """Median seconds of ``get``, without the cost of calling a function more."""
    get, columns = file.get, index_data.COLUMNS
    times = []
    for turn in range(3):
        for begin in range(0, len(keys), at_once):
            group = keys[begin : begin + at_once]
            start = time.perf_counter()
            for key in group:
                get(key, columns, on=on)
            if turn:
                times.append((time.perf_counter() - start) / len(group))
    return statistics.median(times)


def _kind(file: nb.File, kind: str, name: str) -> nb.File:
    """``file`` with this one index on the column ``name``, so that it is the one that is asked."""
    found = nb.open(file._file.handle.core.name)
    found._file.handle.indexes = tuple(
        i for i in found._file.handle.indexes if i.kind == kind and i.names == (name,)
    )
    return found


def _warm(asked: Asked, name: str) -> Iterator[Bar]:
    file = _kind(asked.file, "hash", name)
    keys = asked.keys[name][0].to_pylist()
    what = f"{KIND_NAMES[name]}, hash index"
    yield Bar(f"warm `get`, {what}", 5, _get_seconds(file, keys, name) * 1e6, "us")

    def lookup(batch: pa.Array) -> Callable[[], object]:
        return lambda: file.lookup(batch, on=name, columns=index_data.COLUMNS)

    seconds = timed([lookup(batch) for batch in asked.keys[name]])
    yield Bar(
        f"`lookup` of {len(keys):,} keys, 3 columns, a key, {what}",
        1.5,
        seconds / len(keys) * 1e6,
        "us",
    )


def _sorted(asked: Asked) -> Iterator[Bar]:
    file = _kind(asked.file, "sorted", "k")
    keys = asked.keys["k"][0].to_pylist()
    yield Bar("warm `get`, int64, sorted index", 8, _get_seconds(file, keys, "k") * 1e6, "us")
    wanted = 1_000
    width = int((1 << 64) * wanted / max(file.num_rows, wanted))
    starts = [key for key in keys if key < (1 << 63) - 1 - width][:200]

    def range_of(key: int) -> Callable[[], object]:
        return lambda: file.range(key, key + width, on="k", columns=index_data.COLUMNS)

    rows = statistics.mean(file.range(k, k + width, on="k", columns=["k"]).num_rows for k in starts)
    seconds = timed([range_of(key) for key in starts])
    yield Bar(f"`range` of {rows:,.0f} rows, 3 columns, sorted index", 0.3, seconds * 1e3, "ms")


def _sizes(file: nb.File, known: dict[str, Any]) -> Iterator[Bar]:
    row_width = max(1, ((file.num_rows - 1).bit_length() + 7) // 8)
    for info in file.indexes:
        (key,) = info.columns
        size = info.size_bytes / file.num_rows
        what = f"bytes a key, {info.kind} index on {KIND_NAMES[key.column]}"
        if info.kind == "hash":
            yield Bar(what, 8 if key.column == "k" else 10, size, "B")
        else:
            limit = known["front_coded"][key.column] + row_width
            yield Bar(f"{what}: front-coded key and row", limit, size, "B")


def _cold(path: Path, name: str, asked: Asked) -> Iterator[Bar]:
    index, rounds = [], []
    for key in asked.keys[name][1][:20].to_pylist():
        with nb.open(path, mmap=False) as file:
            file = _only(file, "hash", name)
            file.reset_io_stats()
            assert file.lookup([key], on=name, columns=index_data.COLUMNS).num_rows >= 1
            stats = file.io_stats
            index.append(stats.index_reads)
            rounds.append(stats.rounds - stats.index_reads - stats.metadata_reads)
    what = f"of a cold lookup, {KIND_NAMES[name]}, hash index"
    yield Bar(f"index reads {what}", 2, max(index), "reads")
    yield Bar(f"rounds of data reads {what}", 1, max(rounds), "rounds")


def _only(file: nb.File, kind: str, name: str) -> nb.File:
    file._file.handle.indexes = tuple(
        i for i in file._file.handle.indexes if i.kind == kind and i.names == (name,)
    )
    return file


def _misses(path: Path, asked: Asked) -> Iterator[Bar]:
    random = np.random.default_rng(9)
    absent = random.integers(-(1 << 63), (1 << 63) - 1, 1000)
    with nb.open(path, mmap=False) as file:
        file = _only(file, "hash", "k")
        present = pa.concat_arrays(asked.keys["k"])
        file.count(present, on="k")  # so many that the filter is loaded
        reads = []
        for key in absent.tolist():
            file.reset_io_stats()
            file.get(key, ["v"], on="k")
            reads.append(file.io_stats.reads)
        share = sum(n == 0 for n in reads) / len(reads)
    yield Bar("reads of a miss with its Bloom filter loaded", 0, statistics.median(reads), "reads")
    yield Bar("misses without any read", 98, share * 100, "%", at_least=True)


def _build(rows: int, memory_rows: int) -> Iterator[Bar]:
    table = pa.Table.from_batches(index_data.batches(rows), schema=index_data.SCHEMA)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "build.nimble"
        for index in (nb.HashIndex("k"), nb.HashIndex("u"), nb.SortedIndex("k")):
            shares = []
            for _ in range(3):
                start = time.perf_counter()
                summary = nb.write(table, path, indexes=[index])
                shares.append(summary.index_seconds / (time.perf_counter() - start))
            name = type(index).__name__
            column = nb.open(path).indexes[0].columns[0].column
            what = f"{name} on {KIND_NAMES[column]}"
            text = f"share of write time, {what}, {rows:,} rows"
            yield Bar(text, TOLD, statistics.median(shares) * 100, "%")
        path.unlink()
        more = peak_bytes(path, memory_rows, MEMORY_BUDGET) - peak_bytes(path, memory_rows, 0)
    text = f"memory of building a hash index over {memory_rows:,} keys, budget and 16 MiB"
    yield Bar(text, (MEMORY_BUDGET >> 20) + 16, more / (1 << 20), "MiB")


# ------------------------------------------------------------------ results


def write(found: Sequence[Bar], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    result = {
        "config": {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": f"{os.cpu_count()} processors, {platform.machine()}",
            "python": platform.python_version(),
            "load_average": os.getloadavg()[0],
        },
        "bars": [
            {"text": b.text, "value": b.value, "unit": b.unit}
            | ({} if b.limit == TOLD else {"limit": b.limit, "met": b.met})
            for b in found
        ],
    }
    (out / "indexes.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "indexes.md").write_text(markdown_of(found) + "\n")


def markdown_of(found: Sequence[Bar]) -> str:
    rows = [[b.text, _number(b.limit, b), _number(b.value, b), _verdict(b)] for b in found]
    return markdown.table(["what", "bar", "measured", "met"], rows)


def _number(value: float, bar: Bar) -> str:
    return "" if value == TOLD else f"{value:.3g} {bar.unit}"


def _verdict(bar: Bar) -> str:
    if bar.limit == TOLD:
        return ""
    return "yes" if bar.met else f"no, {bar.ratio:.2f}x"


if __name__ == "__main__":
    main()
