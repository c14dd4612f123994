"""Latency of single rows while the server is busy: beside batches, and while snapshots change."""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nimblepy as nb
from bench.serve.data import users
from bench.serve.peers import Peer, command

# Rows of each commit, and seconds between two commits.
UPSERTED = 10_000
EVERY = 1.0


def latencies(peer: Peer, requests: list[bytes], seconds: float) -> list[float]:
    """Wall times of requests that follow each other, in microseconds, ascending."""
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for request in requests:
            start = time.perf_counter_ns()
            peer.reply(request)  # its size may change from snapshot to snapshot
            found.append((time.perf_counter_ns() - start) / 1e3)
    return sorted(found)


def quantile(ascending: list[float], q: float) -> float:
    return round(ascending[min(len(ascending) - 1, int(q * len(ascending)))], 3)


def _ask_always(path: str, request: bytes, size: int) -> None:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    while True:
        client.sendall(request)
        left = size
        while left > 0:
            left -= len(client.recv(min(left, 1 << 20)))


def _upsert_always(lake: str, name: str, rows: int) -> None:
    table = nb.connect(lake).table(name)
    data = users(UPSERTED)
    number = 0
    while True:
        start = time.perf_counter()
        first = number * UPSERTED % max(1, rows - UPSERTED)
        ids = [first + i for i in range(UPSERTED)]
        table.upsert(data.set_column(0, "id", [ids]))
        number += 1
        time.sleep(max(0.0, EVERY - (time.perf_counter() - start)))


@contextmanager
def _process(target: Any, *arguments: Any) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    try:
        time.sleep(2.0)  # imports
        yield
    finally:
        process.kill()
        process.join()


def beside_batches(
    asked: list[tuple[Peer, bytes]], one: list[bytes], rounds: int, seconds: float = 1.5
) -> dict[str, dict[str, float]]:
    """Latency of single rows alone, and beside a client that asks for a batch all the time.

    `asked` has the batch of each peer. The last peer is the one that p99 is compared with.
    """
    found: dict[str, list[tuple[float, float, float]]] = {peer.name: [] for peer, _ in asked}
    sizes = [len(peer.reply(batch)) for peer, batch in asked]
    for _ in range(rounds):
        for (peer, batch), size in zip(asked, sizes, strict=True):
            alone = quantile(latencies(peer, one, seconds), 0.5)
            with _process(_ask_always, peer.path, batch, size):
                beside = latencies(peer, one, seconds)
            found[peer.name].append((alone, quantile(beside, 0.5), quantile(beside, 0.99)))
    baseline = found[asked[-1][0].name]
    return {
        name: {
            "p50 alone us": statistics.median(alone for alone, _, _ in rows),
            "p50 beside us": statistics.median(p50 for _, p50, _ in rows),
            "p99 beside us": statistics.median(p99 for _, _, p99 in rows),
            "p50 ratio": round(statistics.median(p50 / alone for alone, p50, _ in rows), 2),
            "p99 ratio": round(
                statistics.median(
                    ours[2] / theirs[2] for ours, theirs in zip(rows, baseline, strict=True)
                ),
                3,
            ),
        }
        for name, rows in found.items()
    }


def while_swapping(
    peer: Peer, lake: str, served: str, other: str, rows: int, rounds: int, seconds: float = 6.0
) -> dict[str, Any]:
    """The p99.9 of single rows while another process upserts rows each second.

    The writer changes the served table and a table that is not served in turns, so that both
    figures have the same load of the machine.
    """
    one = [command("HGETALL", f"{served.rpartition('.')[2]}:{k}") for k in range(0, rows, 997)]
    found: dict[str, list[float]] = {"without us": [], "with us": []}
    for _ in range(rounds):
        for what, table in (("without us", other), ("with us", served)):
            with _process(_upsert_always, lake, table, rows):
                found[what].append(quantile(latencies(peer, one, seconds), 0.999))
    pairs = list(zip(*found.values(), strict=True))
    return {
        **{k: statistics.median(v) for k, v in found.items()},
        "ratio": round(statistics.median(b / a for a, b in pairs), 2),
    }
