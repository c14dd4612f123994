"""A day in minutes: a writer, a follower, a compactor and an expirer, each in its own process.

What they hold of the system must not grow, and the space of expired files must be freed while
readers are open.
"""

from __future__ import annotations

import datetime as dt
import os
import queue
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from processes import CHILDREN

import nimblepy as nb

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux")

KEYS = 500
# Rows of a commit, and samples of one process.
STEP, SAMPLES = 5, 40


class Held(NamedTuple):
    """What a process holds: descriptors, mapped data files, removed files, and memory in KiB."""

    descriptors: int
    mappings: int
    removed: int
    memory: int


def held(lake: str) -> Held:
    """Of the files, those below `lake`: other tests of this process may hold files of their own."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # of the list itself
            continue
    maps = Path("/proc/self/maps").read_text().splitlines()
    files = [line for line in maps if lake in line and ".nimble" in line]
    removed = sum(lake in line and ".nimble (deleted)" in line for line in (*links, *files))
    status = Path("/proc/self/status").read_text()
    (memory,) = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return Held(len(links), len(files), removed, int(memory))


def write(table: nb.Table, number: int) -> None:
    rng = random.Random(number)
    keys = rng.sample(range(KEYS), STEP)
    table.upsert([{"id": key, "v": number} for key in keys])


def follow(table: nb.Table, number: int) -> None:
    time.sleep(0.02)
    table.refresh()
    row = table.get(number % KEYS)
    assert row is not None
    assert row["id"] == number % KEYS
    if number % 10 == 0:
        assert table.lookup(range(0, KEYS, 50)).num_rows == KEYS // 50
    if number % 50 == 0:
        assert table.count_rows() == KEYS


def compact(table: nb.Table, number: int) -> None:
    time.sleep(0.3)
    table.refresh().compact()


def expire(table: nb.Table, number: int) -> None:
    time.sleep(0.5)
    table.refresh().expire(keep=20)


def run(lake: str, name: str, steps: int, stop: Any, samples: Any) -> None:
    """Repeats the step of one process until all steps are done, or the writer is."""
    step: Callable[[nb.Table, int], None] = globals()[name]
    table = nb.connect(lake).table("a.b")
    seen: list[tuple[float, Held]] = []
    done = 0
    next_sample = time.monotonic()
    try:
        while done < steps and not (name != "write" and stop.is_set()):
            step(table, done)
            done += 1
            if time.monotonic() >= next_sample:
                seen.append((time.monotonic(), held(lake)))
                next_sample += max(0.02, (time.monotonic() - seen[0][0]) / SAMPLES)
        table.refresh()
        table.count_rows()
        samples.put((name, done, seen, held(lake).removed, ""))
    except BaseException as error:
        samples.put((name, done, seen, 0, repr(error)))
        raise
    finally:
        if name == "write":
            stop.set()


# What a process may hold more of at the end than after its first tenth. Of memory: some objects of
# 4096 manifests (2 MB, see snapshot_commit.py), and what allocators keep of freed memory.
ALLOWED = {"descriptors": 8, "mappings": 40, "memory": 6_000}


def check_level(name: str, seen: list[tuple[float, Held]]) -> None:
    """After the first tenth of the time, the medians of the first and last third are the same.

    Compactions and scans come and go, hence medians.
    """
    begin, end = seen[0][0], seen[-1][0]
    later = [what for when, what in seen if when >= begin + (end - begin) / 10]
    third = len(later) // 3
    for field, allowed in ALLOWED.items():
        first, last = (
            sorted(getattr(what, field) for what in part)
            for part in (later[:third], later[-third:])
        )
        assert first, f"{name} has only {len(seen)} samples"
        growth = last[len(last) // 2] - first[len(first) // 2]
        assert growth <= allowed, f"{name}: {field} grew by {growth}: {seen}"


def soak(tmp_path: Path, commits: int) -> dict[str, int]:
    directory = tmp_path / "lake"
    table = nb.connect(directory).create_table(
        "a.b",
        pa.table({"id": range(KEYS), "v": [0] * KEYS}),
        primary_key="id",
        properties={"nimblepy.expire-on-commit": "false"},
    )
    stop, samples = CHILDREN.Event(), CHILDREN.Queue()
    names = ("write", "follow", "compact", "expire")
    children = [
        CHILDREN.Process(target=run, args=(str(directory), name, steps, stop, samples))
        for name, steps in zip(names, (commits, 10**9, 10**9, 10**9), strict=True)
    ]
    for child in children:
        child.start()
    done: dict[str, int] = {}
    errors = {}
    while len(done) < len(names):
        try:
            name, steps, seen, removed, error = samples.get(timeout=5)
        except queue.Empty:
            assert any(child.is_alive() for child in children), done
            continue
        done[name] = steps
        if os.environ.get("NIMBLEPY_SOAK"):
            for when, what in seen[:: max(1, len(seen) // 12)]:
                print(name, round(when - seen[0][0]), what)
            print(name, round(seen[-1][0] - seen[0][0]), seen[-1][1], steps)
        if error:
            errors[name] = error
            stop.set()
            continue
        check_level(name, seen)
        assert removed == 0, f"{name} holds {removed} removed files"
    for child in children:
        child.join()
    assert not errors
    reader = table.catalog.table("a.b")
    assert reader.count_rows() == KEYS
    table.refresh().compact(where_needed=False)
    table.expire(keep=1)
    table.remove_orphans(older_than=dt.timedelta(0))
    data = [path for path in (directory / "a").rglob("*.nimble") if "data" in path.name]
    assert len(data) == table.files().num_rows
    assert reader.refresh().count_rows() == KEYS
    assert held(str(directory)).removed == 0
    return done


def test_a_day_in_seconds(tmp_path: Path) -> None:
    done = soak(tmp_path, 250)
    assert done["write"] == 250
    assert done["follow"] > 5


@pytest.mark.slow
def test_a_day_in_minutes(tmp_path: Path) -> None:
    """About 20,000 commits and refreshes; NIMBLEPY_SOAK changes the number of commits."""
    commits = int(os.environ.get("NIMBLEPY_SOAK", "12000"))
    done = soak(tmp_path, commits)
    print(done)
    assert done["write"] == commits
    assert done["follow"] > commits // 10  # how many fit beside the commits depends on the machine


# Reads a table of as many files with few descriptors.
READ = """
import resource, sys
import nimblepy as nb
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
count = int(sys.argv[2])
table = nb.connect(sys.argv[1]).table("a.b")
for key in range(0, 4 * count, max(1, count // 20)):
    assert table.get(key) == {"id": key, "part": key // 4}, key
assert table.lookup(range(0, 4 * count, 7)).num_rows == len(range(0, 4 * count, 7))
assert sum(batch.num_rows for batch in table.scan(["id"], filter="id % 2 = 0")) == 2 * count
assert table.files().num_rows == count
"""


def read_many(tmp_path: Path, count: int) -> None:
    rows = pa.table({"id": range(4 * count), "part": [i // 4 for i in range(4 * count)]})
    lake = nb.connect(tmp_path / "lake")
    lake.create_table("a.b", rows, primary_key="id", partition_by="part")
    command = [sys.executable, "-c", READ, str(tmp_path / "lake"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_table_of_more_files_than_descriptors(tmp_path: Path) -> None:
    read_many(tmp_path, 400)


@pytest.mark.slow
def test_a_table_of_5000_files(tmp_path: Path) -> None:
    read_many(tmp_path, 5000)
