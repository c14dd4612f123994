"""`python -m bench.serve`: CPU of `nimble serve` and of Redis with the module, beside Redis.

All have the same rows. They are processes of their own on Unix sockets, and take turns in rounds.
The CPU of a server is that of all its threads in /proc. Answers are compared before anything is
timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench.serve.data import FEATURES, USER_COLUMNS, features, users
from bench.serve.flight import to_flight
from bench.serve.latency import beside_batches, quantile, while_swapping
from bench.serve.peers import Peer, command, module_peer, nimble_peer, redis_peer, redis_version
from bench.serve.ranges import compare, events

# Commits whose time to the first answer is measured, and the rows of the table that changes.
COMMITS = 40
SWAPPED = 50_000


def timed(peer: Peer, requests: list[bytes], repeat: int) -> float:
    """CPU of the server in microseconds, for each request."""
    sizes = [len(peer.reply(r)) for r in requests]
    before = peer.cpu()
    for _ in range(repeat):
        for request, size in zip(requests, sizes, strict=True):
            peer.ask(request, size)
    return (peer.cpu() - before) / 1e3 / (repeat * len(requests))


def run(rows: int, wide_rows: int, rounds: int, directory: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    lake = nb.connect(f"{directory}/lake")
    tables = {"users": users(rows), "features": features(wide_rows)}
    for name, data in tables.items():
        table = lake.create_table(f"bench.{name}", data.schema, cluster_by=["id"])
        table.append(data)
    sequence = events(max(rows, 200_000))
    clicks = lake.create_table("bench.events", sequence.schema, cluster_by=["user", "n"])
    clicks.append(sequence)
    for name in ("swapped", "other"):
        lake.create_table(f"bench.{name}", users(SWAPPED), primary_key="id")
    # So many that neither server has all of their rows in the processor's caches.
    keys = [int(k) for k in rng.integers(0, rows, 20_000)]
    many = [int(k) for k in rng.integers(0, rows, 100)]
    wide = [int(k) for k in rng.integers(0, wide_rows, 500)]
    names = [f"feature_{i:02}" for i in range(FEATURES)]

    one = [command("HGETALL", f"users:{k}") for k in keys]
    three = [command("HMGET", f"users:{k}", *USER_COLUMNS) for k in keys]
    all_of = {
        "users": b"".join(command("HGETALL", f"users:{k}") for k in many),
        "features": b"".join(command("HGETALL", f"features:{k}") for k in wide),
    }
    each = b"".join(command("HMGET", f"features:{k}", *names) for k in wide)
    arrow_users = command("NB.MGET", "users", "AS", "ARROW", "KEYS", len(many), *many)
    arrow = command(
        "NB.MGET", "features", "AS", "ARROW", "COLS", FEATURES, *names, "KEYS", len(wide), *wide
    )
    texts = command("NB.MGET", "features", "COLS", FEATURES, *names, "KEYS", len(wide), *wide)

    def pipelined(requests: list[bytes]) -> list[bytes]:
        return [b"".join(requests[i : i + 16]) for i in range(0, len(requests) - 15, 16)]

    # (name, request of nimble, request of Redis, repeats, requests in one packet)
    cases: list[tuple[str, list[bytes], list[bytes], int, int]] = [
        ("HGETALL of 9 columns, depth 1", one[:4000], one[:4000], 1, 1),
        ("HGETALL of 9 columns, depth 16", pipelined(one), pipelined(one), 1, 16),
        ("HMGET of 3 columns, depth 16", pipelined(three), pipelined(three), 1, 16),
        ("100 x 9: NB.MGET as Arrow to HGETALL", [arrow_users], [all_of["users"]], 100, 1),
        ("500 x 94: NB.MGET as Arrow to HMGET", [arrow], [each], 20, 1),
        ("500 x 94: NB.MGET as Arrow to HGETALL", [arrow], [all_of["features"]], 20, 1),
        ("500 x 94: NB.MGET of texts to HMGET", [texts], [each], 20, 1),
    ]
    with (
        nimble_peer(directory, [*tables, "events", "swapped"]) as (nimble, to_first_answer),
        module_peer(directory, [*tables, "events", "swapped"]) as (module, module_to_first_answer),
        redis_peer(directory, tables) as redis,
    ):
        peers = [nimble, module, redis]
        for request in (one[0], three[0]):
            answers = {peer.name: peer.reply(request) for peer in peers}
            if len(set(answers.values())) > 1:
                raise SystemExit(f"bench.serve: answers differ:\n{answers!r}")
        found = []
        for name, ours_asked, theirs_asked, repeat, depth in cases:
            times = [
                [
                    timed(peer, theirs_asked if peer is redis else ours_asked, repeat)
                    for peer in peers
                ]
                for _ in range(rounds)
            ]
            case: dict[str, Any] = {"what": name}
            for i, peer in enumerate(peers):
                cpu = statistics.median(of[i] for of in times) / depth
                case[f"{peer.name} us"] = round(cpu, 2)
            for i, peer in enumerate(peers[:-1]):
                ratio = statistics.median(of[i] / of[-1] for of in times)
                case[f"{peer.name} ratio"] = round(ratio, 3)
            found.append(case)
        private = {peer.name: peer.private_bytes() for peer in peers}
        with nb.connect(f"nimble+unix://{directory}/nimble.sock") as served:
            ranges = compare(nimble, served.table("events"), sequence.num_rows, rounds)
        one_row = command("NB.MGET", "users", "AS", "ARROW", "KEYS", 1, keys[0])
        flights = to_flight(
            nimble,
            f"{directory}/lake",
            [
                ("one row", one_row, ["users", keys[:1], None], 500),
                ("100 x 9", arrow_users, ["users", many, None], 200),
                ("500 x 94", arrow, ["features", wide, names], 60),
            ],
            rounds,
        )
        beside = beside_batches(
            [(nimble, arrow), (module, arrow), (redis, each)], one[:200], rounds
        )
        swapping = {
            peer.name: while_swapping(
                peer, f"{directory}/lake", "bench.swapped", "bench.other", SWAPPED, rounds
            )
            for peer in (nimble, module)
        }
        visible = fresh(lake.table("bench.users"), nimble, tables["users"])
        module_visible = fresh(lake.table("bench.users"), module, tables["users"], COMMITS)
        for peer in (nimble, module):
            peer.process.kill()
            peer.process.wait()
    with nimble_peer(directory, [*tables, "events", "swapped"]) as (_, after_kill):
        pass
    with module_peer(directory, [*tables, "events", "swapped"]) as (_, module_after_kill):
        pass
    return {
        "server": redis_version(),
        "cpu": found,
        "ranges, raw to Arrow": ranges,
        "private MB": {k: round(v / 1e6, 1) for k, v in private.items()},
        "seconds to the first answer": {
            "nimble": round(to_first_answer, 3),
            "module": round(module_to_first_answer, 3),
        },
        "the same after kill -9": {
            "nimble": round(after_kill, 3),
            "module": round(module_after_kill, 3),
        },
        "to Flight": flights,
        "latency of HGETALL beside 500 x 94": beside,
        "p99.9 of HGETALL with a swap each second": swapping,
        "seconds from commit to answer": {
            name: {"p50": quantile(seconds, 0.5), "p99": quantile(seconds, 0.99)}
            for name, seconds in (("nimble", visible), ("module", module_visible))
        },
        "embedded get us": round(embedded(lake.table("bench.users"), keys[:200]), 2),
    }


def fresh(table: nb.Table, peer: Peer, data: pa.Table, first: int = 0) -> list[float]:
    """Seconds from the end of a commit until the server answers from it, ascending."""
    seconds = []
    for i in range(COMMITS):
        key = data.num_rows + first + i
        row = data.slice(0, 1).set_column(0, "id", pa.array([key]))
        table.append(row)
        start = time.perf_counter()
        while not peer.exists(f"users:{key}"):
            time.sleep(0.002)
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)


def embedded(table: nb.Table, keys: list[int]) -> float:
    """CPU of `get` in this process, in microseconds."""
    get: Callable[[int], Any] = table.get
    for key in keys:
        get(key)
    start = time.process_time_ns()
    for _ in range(50):
        for key in keys:
            get(key)
    return (time.process_time_ns() - start) / 1e3 / (50 * len(keys))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serve", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--wide-rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(run(given.rows, given.wide_rows, given.rounds, directory), indent=1))


if __name__ == "__main__":
    main()
