"""`python -m bench.asof`: as-of joins beside polars and DuckDB, answers compared first.

python -m bench.asof                       10,000 probes into 2M events
python -m bench.asof --events 20000000     into 20M events: needs 4 GB of memory
python -m bench.asof --single              `asof` beside `get`
python -m bench.asof --memory              10M probes as a stream into 20M events
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import nimblepy as nb
from bench.asof.data import COLUMNS, EVENTS_PER_USER, make_probe, write_events
from bench.asof.systems import by_duckdb, by_nimblepy, by_polars


def compare(path: Path, events: int, probes: int, rounds: int) -> None:
    stored = nb.open(path).to_table()
    probe = make_probe(probes, events // EVENTS_PER_USER)
    sides = {
        "nimblepy": by_nimblepy(path, probe),
        "polars": by_polars(stored, probe),
        "duckdb": by_duckdb(stored, probe),
    }
    answers = {name: run() for name, run in sides.items()}
    wanted = answers["nimblepy"].to_pydict()
    for name, answer in answers.items():
        assert answer.to_pydict() == wanted, f"{name} has another answer"
    spent: dict[str, list[float]] = {name: [] for name in sides}
    used: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begun, processor = time.perf_counter(), time.process_time()
            run()
            spent[name].append(time.perf_counter() - begun)
            used[name].append(time.process_time() - processor)
    own = statistics.median(spent["nimblepy"])
    print(f"{probes:,} probes into {events:,} events, {len(COLUMNS)} columns, {rounds} rounds")
    for name, seconds in spent.items():
        median = statistics.median(seconds)
        print(
            f"  {name:10} median {median * 1e3:8.1f} ms, best {min(seconds) * 1e3:8.1f} ms, "
            f"processor {min(used[name]) * 1e3:8.1f} ms, nimblepy is {own / median:.3f} of it"
        )


def single(path: Path, rounds: int) -> None:
    with nb.open(path) as file:
        rows = file.sample(2000 / file.num_rows, columns=["user", "ts"], seed=1).to_pylist()
        keys = [(row["user"], row["ts"]) for row in rows]
        later = [(user, at + timedelta(microseconds=1)) for user, at in keys]
        spent: dict[str, list[float]] = {"get": [], "asof": []}
        for _ in range(rounds):
            begun = time.perf_counter()
            for key in keys:
                file.get(key, COLUMNS)
            middle = time.perf_counter()
            for key in later:
                file.asof(key, COLUMNS)
            spent["get"].append(middle - begun)
            spent["asof"].append(time.perf_counter() - middle)
    best = {name: min(seconds) / len(keys) for name, seconds in spent.items()}
    print(f"get {best['get'] * 1e6:.2f} us, asof {best['asof'] * 1e6:.2f} us, ", end="")
    print(f"{best['asof'] / best['get']:.2f} times")


def resident_bytes() -> int:
    """Memory of this process, without the pages of mapped files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) << 10


def memory(path: Path, events: int, probes: int) -> None:
    users, step = events // EVENTS_PER_USER, 100_000
    schema = make_probe(1, users).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(0, probes, step):
            yield from make_probe(min(step, probes - at), users, at).to_batches()

    with nb.open(path) as file:
        file.asof_join(make_probe(10, users), on="ts", by="user", columns=COLUMNS)
        start = peak = resident_bytes()
        begun, count = time.perf_counter(), 0
        reader: Any = file.asof_join(
            pa.RecordBatchReader.from_batches(schema, batches()),
            on="ts",
            by="user",
            columns=COLUMNS,
        )
        for batch in reader:
            count += batch.num_rows
            peak = max(peak, resident_bytes())
        seconds = time.perf_counter() - begun
    assert count == probes
    print(f"{probes:,} probes as a stream into {events:,} events: {seconds:.1f} s, ", end="")
    print(f"{(peak - start) / 1e6:.0f} MB above the start")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.asof",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    add("--events", type=int, help="rows of the source (2M; 20M with --memory)")
    add("--probes", type=int, help="rows of the probe (10,000; 10M with --memory)")
    add("--rounds", type=int, default=9)
    add("--single", action="store_true", help="asof beside get")
    add("--memory", action="store_true", help="memory of a stream of probes")
    add("--dir", type=Path, help="keeps the file of events there")
    options = parser.parse_args()
    events = options.events or (20_000_000 if options.memory else 2_000_000)
    probes = options.probes or (10_000_000 if options.memory else 10_000)
    with tempfile.TemporaryDirectory() as temporary:
        path = (options.dir or Path(temporary)) / f"events-{events}.nimble"
        write_events(path, events)
        if options.single:
            single(path, options.rounds)
        elif options.memory:
            memory(path, events, probes)
        else:
            compare(path, events, probes, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
