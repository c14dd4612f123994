"""One peer in a process of its own; the coordinator (run.py) talks to it line by line in JSON.

{"do": NAME, ...} -> {...}, where NAME is a method of Worker.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import statistics
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.peer import NoGoodAnswer

# questions of one timing: quick ones are repeated until the budget is used up
MAX_QUESTIONS = 20_000
MAX_WARMING = 2.0  # seconds

own_calls = own_bytes = 0  # of io_counts


class Nothing:
    """A peer that knows no key: what is left are the clock and Python's way to a peer."""

    def get(self, key: Any) -> None:
        pass


class Worker:
    def __init__(self, arguments: argparse.Namespace) -> None:
        from bench import datasets, keys, workloads
        from bench.peers import peer as peers

        self.workloads = workloads
        self.dataset = datasets.known(arguments.dataset, arguments.sf, arguments.rows)
        self.peer = peers.peer_class(arguments.peer)(self.dataset, arguments.threads)
        self.keys = keys.Keys(self.dataset)
        self.asked = 0
        self.seen: dict[str, str] = {}  # digests of whole tables, which cost more than a scan

    def build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Builds the files where they are missing, or again where that is asked for."""
        stamp = self.peer.path.with_suffix(f"{self.peer.path.suffix}.stamp")
        # a file that another peer has built and mapped already must not be replaced under it
        again = request["rebuild"] and not self.peer.borrows_file
        if again or not (self.peer.path.exists() and stamp.exists()):
            self.peer.remove()
            start = time.perf_counter()
            self.peer.build(self.dataset.table())
            stamp.write_text(str(time.perf_counter() - start), "utf-8")
        seconds = float(stamp.read_text("utf-8"))
        borrowed = self.peer.borrows_file
        return {"seconds": seconds, "bytes": self.peer.size_bytes(), "borrowed": borrowed}

    def open(self, _: dict[str, Any]) -> dict[str, Any]:
        """Opens, with the files in the page cache: a machine short of memory may have lost them."""
        for path in [p for p in (self.peer.path, *self.peer.path.rglob("*")) if p.is_file()]:
            with path.open("rb") as file:
                # blocks, not length: the end of LMDB's file is a hole as long as its map
                left = path.stat().st_blocks * 512
                while left > 0 and (read := len(file.read(min(left, 1 << 24)))):
                    left -= read
        self.peer.open()
        return {}

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """The digest of the answers; questions asked here warm the peer as well."""
        workload = self.workloads.BY_NAME[request["workload"]]
        start = time.perf_counter()
        try:
            workload.ask(self.peer, self.keys, self.dataset, 0)
            took, patience = time.perf_counter() - start, request.get("patience")
            if patience and took > patience * workload.patience:
                return {"slow": took}
            digest = ""
            if request.get("digest", True):
                asked = (workload, self.peer, self.keys, self.dataset, self.seen)
                digest = self.workloads.answer(*asked)
        except (NoGoodAnswer, pa.ArrowNotImplementedError):
            return {"answer": None}
        end = time.perf_counter() + MAX_WARMING
        for i in range(workload.warm):
            workload.ask(self.peer, self.keys, self.dataset, -1 - i)
            if time.perf_counter() > end:
                break
        # what is alive now need not be walked by the collector while questions are timed
        gc.collect()
        gc.freeze()
        give_back()
        return {"answer": digest}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Nanoseconds of each question, processor seconds of one, and what asking itself takes."""
        workload = self.workloads.BY_NAME[request["workload"]]
        processor = time.process_time()
        times = self._times(workload, self.peer, MAX_QUESTIONS, request["budget"])
        processor = (time.process_time() - processor) / len(times)
        asking = 0.0
        if workload.name.startswith("get"):
            asking = statistics.median(self._times(workload, Nothing(), 2_000, 0.1))
        return {"times": times, "cpu": processor, "asking": asking}

    def _times(self, workload: Any, peer: Any, most: int, budget: float) -> list[int]:
        clock = time.perf_counter_ns
        times: list[int] = []
        ask, keys, dataset = workload.ask, self.keys, self.dataset
        end = clock() + int(budget * 1e9)
        while len(times) < most:
            i = self.asked = self.asked + 1
            start = clock()
            ask(peer, keys, dataset, i)
            stop = clock()
            times.append(stop - start)
            if stop > end:
                break
        return times

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Seconds and processor seconds of writing the table once, to a file that is removed."""
        table = self.dataset.table()
        path, kept = self.peer.path.with_name(f"written-{self.peer.path.name}"), self.peer.path
        self.peer.path = path
        how = {
            "indexed": lambda: self.peer.write(table, path),
            "plain": lambda: self.peer.write(table, path, indexed=False),
            "compact": lambda: self.peer.write(table, path, compression="compact"),
            "peer": lambda: self.peer.build(table),
            "peer_compact": lambda: self.peer.write_compact(table),
        }[request["how"]]
        start, processor = time.perf_counter(), time.process_time()
        summary = how()
        took = time.perf_counter() - start, time.process_time() - processor
        size = self.peer.size_bytes()
        self.peer.remove()
        self.peer.path = kept
        index = summary.index_bytes if summary is not None else 0
        return {"seconds": took[0], "cpu": took[1], "bytes": size, "index_bytes": index}

    def touch(self, _: dict[str, Any]) -> dict[str, Any]:
        """Brings the source table into memory, so that the first write does not pay for it."""
        return {"bytes": sum(memoryview(b)[::4096].tobytes().count(b"\0") for b in self._buffers())}

    def _buffers(self) -> list[Any]:
        chunks = (c for column in self.dataset.table().columns for c in column.chunks)
        return [b for c in chunks for b in c.buffers() if b is not None]

    def cold(self, request: dict[str, Any]) -> dict[str, Any]:
        from bench.cold import cold_reads

        return cold_reads(self.peer, self.keys, self.dataset, request["count"])

    def reads(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read calls and bytes of a first `get` after an open, by the kernel's own count.

        What is mapped makes none.
        """
        if not Path("/proc/self/io").exists():
            raise NoGoodAnswer
        opened, asked = [], []
        for i in range(request["count"]):
            self.peer.close()
            before = io_counts()
            self.peer.open()
            middle = io_counts()
            self.peer.get(self.keys.present[i])
            after = io_counts()
            opened.append([b - a for a, b in zip(before, middle, strict=True)])
            asked.append([b - a for a, b in zip(middle, after, strict=True)])
        median = statistics.median
        return {
            "open_calls": median(calls for calls, _ in opened),
            "open_bytes": median(size for _, size in opened),
            "calls": median(calls for calls, _ in asked),
            "bytes": median(size for _, size in asked),
        }

    def threads(self, request: dict[str, Any]) -> dict[str, Any]:
        """Questions that several threads get through with one open file."""
        ask = self.workloads.BY_NAME[request["workload"]].ask
        barrier = threading.Barrier(request["threads"] + 1)
        counts = [0] * request["threads"]
        end = 0.0

        def work(which: int) -> None:
            i = which * 1_009
            barrier.wait()
            while time.perf_counter() < end:
                ask(self.peer, self.keys, self.dataset, i)
                i += 1
                counts[which] += 1
            barrier.wait()

        team = [threading.Thread(target=work, args=(i,)) for i in range(request["threads"])]
        for thread in team:
            thread.start()
        end = time.perf_counter() + request["seconds"]
        start = time.perf_counter()
        barrier.wait()
        barrier.wait()
        seconds = time.perf_counter() - start
        for thread in team:
            thread.join()
        return {"questions": sum(counts), "seconds": seconds}

    def fresh(self, _: dict[str, Any]) -> dict[str, Any]:
        """What the first lookup costs a process that has just been started; imports excluded."""
        key = self.keys.present[0]
        before = peak_memory_since_now()
        start = time.perf_counter()
        self.peer.open()
        opened = time.perf_counter()
        self.peer.get(key)
        done = time.perf_counter()
        grown = {} if before is None else {"rss_kib": status("VmHWM") - before}
        return {"open": opened - start, "first": done - opened, **grown}


def peak_memory_since_now() -> int | None:
    """Lets the kernel forget the peak so far; KiB in use now, None where it cannot (no Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", "utf-8")
    except OSError:
        return None
    return status("VmRSS")


def give_back() -> None:
    """Free memory to the kernel: the whole tables of a check would crowd out the files of peers."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def io_counts() -> tuple[int, int]:
    """Read calls and bytes of this process so far, less those of reading the counts."""
    global own_calls, own_bytes
    text = Path("/proc/self/io").read_text("utf-8")
    values = dict(line.split(": ") for line in text.splitlines())
    found = int(values["syscr"]) - own_calls, int(values["rchar"]) - own_bytes
    own_calls += 2  # the text and its end
    own_bytes += len(text)
    return found


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--sf", type=float, default=1)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--build", type=Path)
    arguments = parser.parse_args()
    # what a peer prints must not get between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if arguments.build:
        from tools.with_build import use_build

        use_build(arguments.build)
    worker: Worker | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            worker = worker or Worker(arguments)
            reply = getattr(worker, request["do"])(request)
        except (NoGoodAnswer, pa.ArrowNotImplementedError):
            reply = {"unsupported": True}
        except Exception:
            reply = {"error": traceback.format_exc()}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
    os._exit(0)  # nothing is left to be written; engines take long to fold up


if __name__ == "__main__":
    main()
