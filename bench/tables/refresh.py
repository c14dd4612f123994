"""`python -m bench.tables.refresh`: `get` beside threads that refresh, and `nb.aio` likewise.

Readers call `get` on one handle while a process commits to the table. Each way is measured without
refreshes and with them: threads call `refresh(if_older_than=)` before each `get`, and of `nb.aio`
one task refreshes. The bar is a p99 of `get` of at most twice that without refreshes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

ROWS = 100_000
BAR = 2.0


def write(lake: str, seconds: float, pause: float) -> None:
    """Commits upserts of some rows until the time is over."""
    table = nb.connect(lake).table("bench.users")
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        table.upsert([{"id": number % ROWS, "v": -number}])
        if number % 50 == 0:
            table.compact()
        time.sleep(pause)


def read(table: nb.Table, readers: int, seconds: float, age: float | None) -> list[float]:
    """Seconds of each `get` of the threads. Each waits for requests between two calls."""
    times: list[list[float]] = [[] for _ in range(readers)]

    def run(own: list[float], seed: int) -> None:
        keys = np.random.default_rng(seed).integers(0, ROWS, 100_000).tolist()
        end = time.monotonic() + seconds
        for key in keys:
            if age is not None:
                table.refresh(if_older_than=age)
            begin = time.perf_counter()
            table.get(key)
            own.append(time.perf_counter() - begin)
            if time.monotonic() > end:
                break
            time.sleep(0.01)

    threads = [threading.Thread(target=run, args=(own, i)) for i, own in enumerate(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [second for own in times for second in own]


async def read_async(
    table: nb.Table, readers: int, seconds: float, age: float | None
) -> list[float]:
    """As :func:`read`, with tasks. One more task refreshes."""
    times: list[float] = []
    rows: Any = nb.aio(table)

    async def run(seed: int) -> None:
        keys = np.random.default_rng(seed).integers(0, ROWS, 100_000).tolist()
        end = time.monotonic() + seconds
        for key in keys:
            begin = time.perf_counter()
            await rows.get(key)
            times.append(time.perf_counter() - begin)
            if time.monotonic() > end:
                break
            await asyncio.sleep(0.05)

    async def follow() -> None:
        while age is not None:
            await rows.refresh()
            await asyncio.sleep(age)

    following = asyncio.create_task(follow())
    await asyncio.gather(*(run(i) for i in range(readers)))
    following.cancel()
    await rows.close()
    return times


def percentiles(times: list[float]) -> tuple[float, float]:
    return float(np.percentile(times, 50)) * 1e6, float(np.percentile(times, 99)) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--age", type=float, default=1.0, help="seconds")
    parser.add_argument("--pause", type=float, default=0.1, help="between two commits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        rows = pa.table({"id": range(ROWS), "v": range(ROWS)})
        nb.connect(lake).create_table("bench.users", rows, primary_key="id")
        print(f"{given.readers} readers, refresh(if_older_than={given.age})")
        spawn = multiprocessing.get_context("spawn")
        for name, asynchronous in (("threads", False), ("nb.aio", True)):
            p99 = {}
            for how, age in (("plain", None), ("refreshing", given.age)):
                table = nb.connect(lake).table("bench.users")
                table.get(1)
                writer = spawn.Process(target=write, args=(lake, given.seconds + 2, given.pause))
                writer.start()
                time.sleep(1)
                before = table.snapshot
                if asynchronous:
                    reading = read_async(table, given.readers, given.seconds, age)
                    times = asyncio.run(reading)
                else:
                    times = read(table, given.readers, given.seconds, age)
                writer.join()
                middle, p99[how] = percentiles(times)
                moved = table.snapshot != before
                print(
                    f"{name:8} {how:11} {len(times):8,} gets  p50 {middle:9.1f} us  "
                    f"p99 {p99[how]:9.1f} us  moved: {moved}"
                )
            ratio = p99["refreshing"] / p99["plain"]
            print(f"{name:8} ratio of p99: {ratio:.2f}, bar {BAR}")


if __name__ == "__main__":
    main()
