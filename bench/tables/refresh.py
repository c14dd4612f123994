"""`python -m bench.tables.refresh`: `get` beside threads that refresh, and `nb.aio` likewise.

Readers call `get` on one handle while a process commits to the table. Each way is measured without
refreshes and with them: threads call `refresh(if_older_than=)` before each `get`, and of `nb.aio`
one task refreshes. Readers wait for random times, as requests of different users do. The bar is a
p99 of `get` of at most twice that without refreshes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import random
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


def keys_of(reader: int) -> list[int]:
    keys: list[int] = np.random.default_rng(reader).integers(0, ROWS, 1000).tolist()
    return keys


def read(table: nb.Table, readers: int, seconds: float, age: float | None) -> list[float]:
    """Seconds of each `get` of the threads. Each waits for requests between two calls."""
    times: list[list[float]] = [[] for _ in range(readers)]
    end = time.monotonic() + seconds

    def run(own: list[float], keys: list[int]) -> None:
        for key in itertools.cycle(keys):
            if age is not None:
                table.refresh(if_older_than=age)
            begin = time.perf_counter()
            table.get(key)
            own.append(time.perf_counter() - begin)
            if time.monotonic() > end:
                break
            time.sleep(random.uniform(0, 0.02))

    threads = [threading.Thread(target=run, args=(own, keys_of(i))) for i, own in enumerate(times)]
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
    all_keys = [keys_of(i) for i in range(readers)]
    await asyncio.gather(*(rows.get(keys[0]) for keys in all_keys))  # starts the threads
    end = time.monotonic() + seconds

    async def run(keys: list[int]) -> None:
        for key in itertools.cycle(keys):
            begin = time.perf_counter()
            await rows.get(key)
            times.append(time.perf_counter() - begin)
            if time.monotonic() > end:
                break
            await asyncio.sleep(random.uniform(0, 0.1))

    async def follow() -> None:
        while age is not None:
            await rows.refresh()
            await asyncio.sleep(age)

    following = asyncio.create_task(follow())
    await asyncio.gather(*map(run, all_keys))
    following.cancel()
    await rows.close()
    return times


def percentiles(times: list[float]) -> tuple[float, float]:
    return float(np.percentile(times, 50)) * 1e6, float(np.percentile(times, 99)) * 1e6


def measure(
    lake: str, asynchronous: bool, readers: int, seconds: float, age: float | None
) -> tuple[list[float], bool]:
    """Returns the seconds of each `get`, and whether the handle moved."""
    table = nb.connect(lake).table("bench.users")
    table.get(1)
    before = table.snapshot
    if asynchronous:
        times = asyncio.run(read_async(table, readers, seconds, age))
    else:
        times = read(table, readers, seconds, age)
    return times, table.snapshot != before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--age", type=float, default=1.0, help="seconds")
    parser.add_argument("--pause", type=float, default=0.1, help="between two commits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        rows = pa.table({"id": range(ROWS), "v": range(ROWS)})
        nb.connect(lake).create_table("bench.users", rows, primary_key="id")
        print(f"{given.readers} readers, refresh(if_older_than={given.age}), ", end="")
        print(f"{given.rounds} rounds of {given.seconds} s")
        spawn = multiprocessing.get_context("spawn")
        writer = spawn.Process(target=write, args=(lake, 86_400, given.pause), daemon=True)
        writer.start()
        time.sleep(1)
        for name, asynchronous in (("threads", False), ("nb.aio", True)):
            ages = {"plain": None, "refreshing": given.age}
            times: dict[str, list[float]] = {how: [] for how in ages}
            ratios, moves = [], 0
            for _ in range(given.rounds):
                ends = {}
                for how, age in ages.items():
                    some, moved = measure(lake, asynchronous, given.readers, given.seconds, age)
                    times[how] += some
                    ends[how] = percentiles(some)[1]
                    moves += moved
                ratios.append(ends["refreshing"] / ends["plain"])
            assert moves == given.rounds
            for how in ages:
                middle, end = percentiles(times[how])
                print(f"{name:8} {how:11} {len(times[how]):9,} gets  ", end="")
                print(f"p50 {middle:9.1f} us  p99 {end:9.1f} us")
            print(f"{name:8} p99 of the rounds, ratios: median {np.median(ratios):.2f}, ", end="")
            print(f"{min(ratios):.2f} to {max(ratios):.2f}, bar {BAR}")
        writer.terminate()
        writer.join()


if __name__ == "__main__":
    main()
