"""What a lookup costs in instructions and cache misses, by callgrind's simulation.

python -m bench.indexes.lookup_cost           orders at scale factor 10, as `bench` built them
python -m bench.indexes.lookup_cost --sf 1

The same questions are asked in two processes, in one of them more often; the difference is the
cost of warm questions, Python's own part included, and the same on a busy machine and an idle one.
Simulated are the caches of the processor at hand (first level, last level; nothing between).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from typing import Any

from bench import datasets
from bench.keys import Keys
from bench.peers.peer import peer_class
from bench.process import ROOT
from bench.workloads import BY_NAME

QUESTIONS = ("get_hot", "get", "get_absent", "lookup_10k")
COUNTED = ("instructions", "L1 misses", "last-level misses")
POINTS, BATCHES = 2_000, 2


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.indexes.lookup_cost", description=__doc__
    )
    parser.add_argument("--sf", type=float, default=10)
    parser.add_argument("--peer", default="nimblepy")
    parser.add_argument("--only", default=",".join(QUESTIONS))
    parser.add_argument("--asked", type=int, help=argparse.SUPPRESS)  # in the process under test
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if arguments.asked is not None:
        ask(arguments.peer, arguments.sf, names[0], arguments.asked)
        return 0
    print(f"{'a question (a key of a batch)':30}" + "".join(f"{name:>20}" for name in COUNTED))
    for name in names:
        times = times_of(name)
        once, more = (counted(arguments, name, times * n) for n in (1, 2))
        keys = times * BY_NAME[name].keys
        cells = (f"{(b - a) / keys:20,.1f}" for a, b in zip(once, more, strict=True))
        print(f"{name:30}" + "".join(cells), flush=True)
    return 0


def ask(peer_name: str, scale_factor: float, workload: str, times: int) -> None:
    dataset = datasets.known("orders", scale_factor)
    peer = peer_class(peer_name)(dataset, 1)
    keys = Keys(dataset)
    peer.open()
    for i in range(times):
        # always the same few: the first time they are verified, then they are warm
        BY_NAME[workload].ask(peer, keys, dataset, i % times_of(workload))


def times_of(workload: str) -> int:
    return BATCHES if BY_NAME[workload].keys > 1 else POINTS


def counted(arguments: Any, workload: str, times: int) -> list[int]:
    """Instructions and data misses of a whole process."""
    with tempfile.TemporaryDirectory() as scratch:
        tool = ["valgrind", "--tool=callgrind", "--cache-sim=yes"]
        tool += [
            f"--callgrind-out-file={scratch}/out",
            sys.executable,
            "-m",
            "bench.indexes.lookup_cost",
        ]
        options = ["--sf", f"{arguments.sf:g}", "--peer", arguments.peer]
        command = [*tool, *options, "--only", workload, "--asked", str(times)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2_000:])
    return totals(done.stderr)


def totals(text: str) -> list[int]:
    """From callgrind's events: instructions, first-level and last-level data misses."""
    events = re.search(r"Events\s*: (.+)", text)
    values = re.search(r"Collected\s*: (.+)", text)
    if events is None or values is None:
        raise ValueError(f"callgrind says no counts:\n{text[-2_000:]}")
    named = dict(zip(events[1].split(), map(int, values[1].split()), strict=True))
    return [named["Ir"], named["D1mr"] + named["D1mw"], named["DLmr"] + named["DLmw"]]


if __name__ == "__main__":
    sys.exit(main())
