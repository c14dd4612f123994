"""What one column takes: bytes, and the time of scans, of random rows, and of writing it.

Systems take turns, and a column is timed only where all of them have given its rows back.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answers import feed_array
from bench.peers.peer import NoGoodAnswer, Peer
from bench.zoo.registry import Column
from bench.zoo.systems import OURS, build, system_over

MEASURES = ("bytes", "scan", "take", "get", "write")
TAKEN = 10_000  # rows of a take
GOTTEN = 500  # rows of a turn of single ones


class WrongAnswerError(RuntimeError):
    """A system does not give the rows back."""


@dataclass(frozen=True)
class Plan:
    systems: tuple[str, ...]
    measures: tuple[str, ...]
    rows: int
    rounds: int
    threads: int
    rebuild: bool

    @property
    def clock(self) -> Callable[[], float]:
        """Processor time where that says it all: less moved by what else the machine does."""
        return time.process_time if self.threads == 1 else time.perf_counter


Found = dict[str, dict[str, float]]  # measure -> system -> bytes or seconds


def measure(column: Column, plan: Plan) -> Found:
    """Systems that cannot hold the column's type, or cannot answer, are left out."""
    source = column.table(plan.rows)
    digest = digest_of(source, source.schema)
    found: Found = {name: {} for name in plan.measures}
    with ExitStack() as stack:
        systems = []
        for name in plan.systems:
            system = system_over(name, column, plan.rows, plan.threads)
            if not opened(system, again=plan.rebuild or name in OURS):
                continue
            stack.callback(system.close)
            systems.append(system)
            if name in OURS or set(plan.measures) > {"bytes"}:
                check(system, source, digest)
            if "bytes" in found:
                found["bytes"][name] = system.size_bytes()
        for question in plan.measures:
            if question != "bytes":
                found[question] = in_turns(systems, QUESTIONS[question], plan)
    return found


def opened(system: Peer, *, again: bool) -> bool:
    try:
        build(system, again=again)
        system.open()
        for _ in system.batches(None):
            break
    except Exception as error:
        if system.name in OURS:
            raise
        print(f"  {system.name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
        return False
    return True


def check(system: Peer, source: pa.Table, digest: str) -> None:
    if digest_of(system.to_table(None), source.schema) != digest:
        raise WrongAnswerError(f"{system.name}: a scan does not give the column back")
    rows = random_rows(source.num_rows, 0)
    try:
        taken = system.take(rows, None)
    except NoGoodAnswer:
        return
    if digest_of(taken, source.schema) != digest_of(source.take(rows), source.schema):
        raise WrongAnswerError(f"{system.name}: take gives other rows")


def digest_of(table: pa.Table, schema: pa.Schema) -> str:
    digest = hashlib.blake2b(digest_size=16)
    column, wanted = table.column(0), schema.field(0).type
    if pa.types.is_dictionary(wanted):
        wanted = wanted.value_type  # a system may give the values themselves
    if column.type != wanted:
        column = column.cast(wanted)
    whole = pa.chunked_array(column.chunks, column.type).combine_chunks()
    for begin in range(0, len(whole), 1 << 17):
        feed_array(digest, whole.slice(begin, 1 << 17))
    return digest.hexdigest()


def random_rows(rows: int, turn: int) -> np.ndarray[Any, Any]:
    """Sorted and distinct: what every system can answer."""
    random = np.random.default_rng(turn)
    return np.sort(random.choice(rows, min(TAKEN, rows), replace=False)).astype(np.uint64)


# ---- questions: a turn's preparation gives what is timed, and how often that asks ----

Turn = tuple[Callable[[], Any], int]


def scan(system: Peer, _: int) -> Turn:
    def ask() -> None:
        for _ in system.batches(None):
            pass

    return ask, 1


def take(system: Peer, turn: int) -> Turn:
    rows = random_rows(system.dataset.table().num_rows, turn)
    return lambda: system.take(rows, None), 1


def get(system: Peer, turn: int) -> Turn:
    rows = random_rows(system.dataset.table().num_rows, turn).tolist()
    few = np.random.default_rng(turn).permutation(rows)[:GOTTEN].tolist()
    system.get(few[0])  # opens what it needs

    def ask() -> None:
        for row in few:
            system.get(row)

    return ask, len(few)


def write(system: Peer, _: int) -> Turn:
    table, kept = system.dataset.table(), system.path

    def ask() -> None:
        system.path = kept.with_name(f"{os.getpid()}-written-{kept.name}")
        try:
            system.build(table)
            system.remove()
        finally:
            system.path = kept

    return ask, 1


QUESTIONS = {"scan": scan, "take": take, "get": get, "write": write}


def in_turns(
    systems: list[Peer], question: Callable[[Peer, int], Turn], plan: Plan
) -> dict[str, float]:
    """Median seconds of one question, each system."""
    times: dict[str, list[float]] = {}
    for turn in range(plan.rounds + 1):
        for system in systems:
            try:
                ask, count = question(system, turn)
                seconds = timed(ask, plan.clock) / count
            except NoGoodAnswer:
                continue
            if turn:  # the first one warms
                times.setdefault(system.name, []).append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def timed(ask: Callable[[], Any], clock: Callable[[], float], budget: float = 0.02) -> float:
    """Seconds of one call, of as many as take some milliseconds: clocks tick slowly."""
    calls, start = 0, clock()
    end = time.perf_counter() + budget
    while calls == 0 or time.perf_counter() < end:
        ask()
        calls += 1
    return (clock() - start) / calls
