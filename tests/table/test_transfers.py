"""Money moves between accounts in transactions of several processes, some of which are killed.

An account is a row, and so is a transfer that was made: with the balances in one commit. Beside
them another process compacts the table.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from processes import CHILDREN

import nimblepy as nb

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


class _History:
    """Every snapshot is checked while it is there: commits expire the oldest of very many.

    Attributes:
        expected: the balances after the newest snapshot that was looked at.
        made: the transfers until then.
        operations: of all snapshots.
    """

    def __init__(self, table: nb.Table, accounts: int) -> None:
        self.expected = dict.fromkeys(range(accounts), START)
        self.made: set[int] = set()
        self.operations: list[str] = []
        self._table = table
        self._newest: int | None = None

    def look(self) -> None:
        history = self._table.refresh().snapshots().to_pylist()
        ids = [row["snapshot_id"] for row in history]
        new = history if self._newest is None else history[ids.index(self._newest) + 1 :]
        for row in new:
            assert row["parent_id"] == self._newest, "it is linear"
            self._newest = row["snapshot_id"]
            self.operations.append(row["operation"])
            balances, made = _balances(self._table.at(snapshot=self._newest))
            come = made.keys() - self.made
            assert self.made <= made.keys()
            assert len(come) == (row["operation"] == "overwrite"), "a commit for each"
            self.made |= come
            for number in come:
                self._transfer(number)
            assert balances == self.expected
            assert sum(balances.values()) == START * len(balances)

    def _transfer(self, number: int) -> None:
        chosen = random.Random(number)
        one, other = chosen.sample(range(len(self.expected)), 2)
        amount = chosen.randrange(1, 100)
        self.expected[one] -= amount
        self.expected[other] += amount


@pytest.mark.parametrize(
    ("workers", "accounts", "transfers", "kills"),
    [
        (2, 20, 8, 1),
        pytest.param(3, 40, 24, 2, marks=pytest.mark.slow),
        pytest.param(8, 1000, 2000, 12, marks=pytest.mark.slow),
    ],
)
def test_transfers(tmp_path: Path, workers: int, accounts: int, transfers: int, kills: int) -> None:
    directory = str(tmp_path / "lake")
    begin = pa.table(
        [range(accounts), [START] * accounts, pa.nulls(accounts, pa.int32())], schema=SCHEMA
    )
    table = nb.connect(directory).create_table("bank.accounts", begin, primary_key="id")
    numbers = [FIRST_TRANSFER + i for i in range(transfers)]
    shares = [numbers[worker::workers] for worker in range(workers)]

    def start(worker: int) -> multiprocessing.process.BaseProcess:
        process = CHILDREN.Process(target=_work, args=(directory, worker, shares[worker], accounts))
        process.start()
        return process

    compacting = CHILDREN.Process(target=_compact, args=(directory,))
    if workers > 2:  # a process more is too slow for every run
        compacting.start()
    running = {worker: start(worker) for worker in range(workers)}
    history = _History(table, accounts)
    chosen = random.Random(7)
    started = time.monotonic()
    try:
        while running:
            time.sleep(0.05)
            history.look()
            for worker, process in list(running.items()):
                if process.is_alive():
                    continue
                assert process.exitcode == 0, f"worker {worker}: exit {process.exitcode}"
                del running[worker]
            if kills and running and history.made:
                worker = chosen.choice(sorted(running))
                time.sleep(chosen.uniform(0, 0.5 if workers > 2 else 0.1))
                running[worker].kill()  # does nothing if it has ended
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
    history.look()
    assert sorted(history.made) == numbers, "each transfer once"
    compactions = history.operations.count("replace")
    assert len(history.operations) == 1 + transfers + compactions
    seconds = time.monotonic() - started
    print(f"{transfers} transfers and {compactions} compactions in {seconds:.1f} s")
    for worker in range(workers):
        lines = Path(f"{directory}-lost-{worker}").read_text().splitlines()
        again, retries = zip(*((int(n) for n in line.split()[1:3]) for line in lines), strict=True)
        print(f"worker {worker}: lost {sum(again)} transactions, {sum(retries)} swaps; ", end="")
        print(f"at most {max(again)} and {max(retries)} of one transfer")
        assert max(again) < _STARVED
        assert max(retries) < _STARVED
