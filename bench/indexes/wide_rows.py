"""`python -m bench.indexes.wide_rows`: rows of many columns by key, beside LMDB with decoding.

Events with embeddings of 256 levels, 5, 22 and 200 columns: microseconds of processor time of a
`get` of random keys and of the same key again, and nanoseconds a key of `lookup` of 10,000 keys
with four columns and with all; the least of some turns, in which the systems take turns.
--count gives instructions of nimblepy instead, by callgrind: the same on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import data, datasets
from bench.keys import FOLDER, Keys
from bench.keys import write as write_keys
from bench.peers.peer import Peer, peer_class
from bench.process import ROOT

POINTS, BATCHES = 2_000, 2
LEVELS = 256
LIST = 16


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.indexes.wide_rows", description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=200_000)
    add("--columns", default="5,22,200")
    add("--only", default=",".join(QUESTIONS))
    add("--turns", type=int, default=6)
    add("--count", action="store_true", help="instructions, by callgrind")
    add("--counted", action="store_true", help=argparse.SUPPRESS)  # in the process that is
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    for columns in map(int, arguments.columns.split(",")):
        dataset = prepared(arguments.rows, columns)
        if arguments.counted:
            ask = QUESTIONS[names[0]](opened("nimblepy", dataset), dataset)
            ask()  # warms
            for switch in ("on", "off"):
                control = ["callgrind_control", "-i", switch, str(os.getpid())]
                subprocess.run(control, check=True, stdout=subprocess.DEVNULL)
                if switch == "on":
                    ask()
            continue
        for name in names:
            if arguments.count:
                count = counted(arguments.rows, columns, name) / per(name)
                print(f"{columns:4} columns {name:14} {count:12,.0f} instructions", flush=True)
            else:
                print(timed(dataset, columns, name, arguments.turns), flush=True)
    return 0


def table(rows: int, columns: int) -> pa.Table:
    """Events with a list of quantized floats: their first columns, or theirs again and again."""
    random = np.random.default_rng(columns)
    events = data.events(rows).drop_columns(["feature"])
    names = events.column_names
    made = {n: events[n] for n in names[: columns - 1]}
    for i in range(len(made), columns - 1):
        source = events[names[2 + i % (len(names) - 2)]]
        made[f"{names[2 + i % (len(names) - 2)]}_{i}"] = source.take(random.permutation(rows))
    levels = np.clip(np.round(random.normal(0, 1, rows * LIST) * 40), -LEVELS // 2, LEVELS // 2 - 1)
    ends = pa.array(np.arange(0, (rows + 1) * LIST, LIST, dtype=np.int32))
    floats = pa.array((levels / np.float32(LEVELS // 2)).astype(np.float32))
    made["feature"] = pa.ListArray.from_arrays(ends, floats)
    return pa.table(made)


def prepared(rows: int, columns: int) -> datasets.Dataset:
    folder = data.cache_dir() / "bench" / f"wide-{columns}-{datasets.short(rows)}"
    dataset = replace(datasets.known("events", rows=rows), folder=folder)
    source = folder / "source.arrow"
    if not source.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with data.made_whole(source) as scratch:
            made = table(rows, columns)
            with pa.ipc.new_file(str(scratch / "it"), made.schema) as out:
                out.write_table(made)
            (scratch / "it").rename(source)
        with data.made_whole(folder / FOLDER) as scratch:
            write_keys(dataset, scratch / "it")
            (scratch / "it").rename(folder / FOLDER)
    return dataset


def opened(name: str, dataset: datasets.Dataset) -> Peer:
    peer = peer_class(name)(dataset, 1)
    if not peer.path.exists():
        peer.build(dataset.table())
    peer.open()
    return peer


# ---- questions: what a turn asks ----

Ask = Callable[[], Any]


def random_get(peer: Peer, dataset: datasets.Dataset) -> Ask:
    return of_points(peer, Keys(dataset).present[:POINTS])


def hot_get(peer: Peer, dataset: datasets.Dataset) -> Ask:
    return of_points(peer, Keys(dataset).present[:1] * POINTS)


def of_points(peer: Peer, keys: list[Any]) -> Ask:
    def ask() -> None:
        for key in keys:
            peer.get(key)

    return ask


def few(peer: Peer, dataset: datasets.Dataset) -> Ask:
    return of_batches(peer, dataset, list(dataset.few))


def all_columns(peer: Peer, dataset: datasets.Dataset) -> Ask:
    return of_batches(peer, dataset, dataset.table().column_names)


def of_batches(peer: Peer, dataset: datasets.Dataset, columns: list[str]) -> Ask:
    batches = Keys(dataset).small[:BATCHES]
    there = set(dataset.table().column_names)
    wanted = [c for c in columns if c in there]

    def ask() -> None:
        for keys in batches:
            peer.lookup(keys, wanted)

    return ask


QUESTIONS = {"get": random_get, "get_hot": hot_get, "lookup_4": few, "lookup_all": all_columns}


def per(name: str) -> int:
    """Rows of a turn."""
    return BATCHES * 10_000 if name.startswith("lookup") else POINTS


def timed(dataset: datasets.Dataset, columns: int, name: str, turns: int) -> str:
    peers = {peer: opened(peer, dataset) for peer in ("nimblepy", "lmdb")}
    asks = {peer: QUESTIONS[name](of, dataset) for peer, of in peers.items()}
    least = dict.fromkeys(peers, float("inf"))
    for turn in range(turns + 1):
        for peer, ask in asks.items():
            begin = time.process_time()
            ask()
            if turn:
                least[peer] = min(least[peer], (time.process_time() - begin) / per(name) * 1e6)
    for peer in peers.values():
        peer.close()
    ours, theirs = least["nimblepy"], least["lmdb"]
    return (
        f"{columns:4} columns {name:14} nimblepy {ours:8.2f} us, LMDB {theirs:8.2f}: "
        f"{ours / theirs:.2f}"
    )


def counted(rows: int, columns: int, name: str) -> int:
    """Instructions of a turn."""
    with tempfile.TemporaryDirectory() as scratch:
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        tool.append(f"--callgrind-out-file={Path(scratch) / 'out'}")
        options = ["--rows", str(rows), "--columns", str(columns), "--only", name, "--counted"]
        done = subprocess.run(
            [*tool, sys.executable, *"-m", "bench.indexes.wide_rows", *options],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            check=False,
        )
    found = re.search(r"Collected\s*: (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise RuntimeError(done.stderr[-2_000:])
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
