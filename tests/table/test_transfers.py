"""Money moves between accounts in transactions of several processes, some of which are killed.

An account is a row, and so is a transfer that was made: with the balances in one commit. Beside
them another process compacts the table.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb

SPAWN = multiprocessing.get_context("spawn")
START = 1000
_MOST_DELETE_FILES = 16
# Of 8 processes each should win every eighth time.
_STARVED = 80
FIRST_TRANSFER = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64()), ("worker", pa.int32())])


def _transfer(table: nb.Table, number: int, worker: int, accounts: int) -> tuple[int, int]:
    """Makes one transfer, unless it has been made; says how often another commit was first.

    (transactions that were begun again, swaps that were lost by the last one)
    """
    chosen = random.Random(number)
    one, other = chosen.sample(range(accounts), 2)
    amount = chosen.randrange(1, 100)
    again = 0
    while True:
        conflict: nb.ConflictError
        try:
            with table.transaction() as tx:
                if tx.get(number) is not None:
                    return again, 0
                balance = {row["id"]: row["amount"] for row in tx.lookup([one, other]).to_pylist()}
                moved = [balance[one] - amount, balance[other] + amount, amount]
                ids = [one, other, number]
                tx.upsert(pa.table([ids, moved, [worker] * 3], schema=SCHEMA))
            assert tx.commit is not None
            return again, tx.commit.retries
        except nb.ConflictError as error:
            conflict = error
        assert conflict.kind == "keys", (conflict.kind, str(conflict))
        assert set(conflict.keys) <= {one, other, number}
        again += 1


def _work(directory: str, worker: int, numbers: list[int], accounts: int) -> None:
    table = nb.connect(directory).table("bank.accounts")
    with open(f"{directory}-lost-{worker}", "a") as lost:
        for number in numbers:
            again, retries = _transfer(table, number, worker, accounts)
            print(number, again, retries, file=lost, flush=True)


def _compact(directory: str) -> None:
    """Compacts where there is something to compact, until it is stopped."""
    table = nb.connect(directory).table("bank.accounts")
    while os.getppid() != 1:
        if table.refresh().health().delete_files > _MOST_DELETE_FILES:
            table.compact()
        time.sleep(0.5)


def _balances(table: nb.Table) -> tuple[dict[int, int], dict[int, int]]:
    """(accounts, transfers)"""
    found = table.to_table(["id", "amount"])
    rows = list(zip(found["id"].to_pylist(), found["amount"].to_pylist(), strict=True))
    assert len(dict(rows)) == len(rows), "a key twice"
    accounts = {key: value for key, value in rows if key < FIRST_TRANSFER}
    return accounts, {key: value for key, value in rows if key >= FIRST_TRANSFER}


def _expected(transfers: list[int], accounts: int) -> dict[int, int]:
    found = dict.fromkeys(range(accounts), START)
    for number in transfers:
        chosen = random.Random(number)
        one, other = chosen.sample(range(accounts), 2)
        amount = chosen.randrange(1, 100)
        found[one] -= amount
        found[other] += amount
    return found


@pytest.mark.parametrize(
    ("workers", "accounts", "transfers", "kills", "step"),
    [
        (2, 20, 8, 1, 2),
        pytest.param(3, 40, 24, 2, 1, marks=pytest.mark.slow),
        pytest.param(8, 1000, 2000, 12, 20, marks=pytest.mark.slow),
    ],
)
def test_transfers(
    tmp_path: Path, workers: int, accounts: int, transfers: int, kills: int, step: int
) -> None:
    directory = str(tmp_path / "lake")
    begin = pa.table(
        [range(accounts), [START] * accounts, pa.nulls(accounts, pa.int32())], schema=SCHEMA
    )
    table = nb.connect(directory).create_table("bank.accounts", begin, primary_key="id")
    numbers = [FIRST_TRANSFER + i for i in range(transfers)]
    shares = [numbers[worker::workers] for worker in range(workers)]

    def start(worker: int) -> multiprocessing.process.BaseProcess:
        process = SPAWN.Process(target=_work, args=(directory, worker, shares[worker], accounts))
        process.start()
        return process

    compacting = SPAWN.Process(target=_compact, args=(directory,))
    if workers > 2:  # a process more is too slow for every run
        compacting.start()
    running = {worker: start(worker) for worker in range(workers)}
    chosen = random.Random(7)
    started = time.monotonic()
    try:
        while running:
            time.sleep(0.05)
            for worker, process in list(running.items()):
                if process.is_alive():
                    continue
                assert process.exitcode == 0, f"worker {worker}: exit {process.exitcode}"
                del running[worker]
            if kills and running and len(table.refresh().snapshots()) > 1:
                worker = chosen.choice(sorted(running))
                pid = running[worker].pid
                assert pid is not None
                time.sleep(chosen.uniform(0, 0.5))
                os.kill(pid, signal.SIGKILL)
                running[worker].join()
                running[worker] = start(worker)
                kills -= 1
        assert compacting.is_alive() or workers == 2
    finally:
        for process in running.values():
            process.kill()
        if compacting.pid is not None:
            compacting.kill()
            compacting.join()
    accounts_now, made = _balances(table.refresh())
    assert sorted(made) == numbers, "each transfer once"
    assert accounts_now == _expected(numbers, accounts)
    history = table.snapshots().to_pylist()
    assert [row["parent_id"] for row in history] == [
        None,
        *(row["snapshot_id"] for row in history[:-1]),
    ]
    compactions = sum(row["operation"] == "replace" for row in history)
    assert len(history) == 1 + transfers + compactions, "one commit for each"
    before: set[int] = set()
    for row in history[::step]:
        balances, done = _balances(table.at(snapshot=row["snapshot_id"]))
        assert sum(balances.values()) == START * accounts
        assert balances == _expected(sorted(done), accounts)
        assert before <= set(done)
        before = set(done)
    seconds = time.monotonic() - started
    print(f"{transfers} transfers and {compactions} compactions in {seconds:.1f} s")
    for worker in range(workers):
        lines = Path(f"{directory}-lost-{worker}").read_text().splitlines()
        again, retries = zip(*((int(n) for n in line.split()[1:3]) for line in lines), strict=True)
        print(f"worker {worker}: lost {sum(again)} transactions, {sum(retries)} swaps; ", end="")
        print(f"at most {max(again)} and {max(retries)} of one transfer")
        assert max(again) < _STARVED
        assert max(retries) < _STARVED
