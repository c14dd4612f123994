"""Run with faults.c preloaded: writes over a file again and again, a fault at each call in turn.

Children are forked, so that each begins alike and only it dies. Prints one JSON object.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

DIE_BEFORE, DIE_AFTER, FAIL, SHORT = 1, 2, 3, 4
ROWS = 300_000  # some MB: several calls of write
OPTIONS = nb.WriteOptions(threads=1, stripe_rows=65536)


def table(seed: int) -> pa.Table:
    values = np.random.default_rng(seed).integers(0, 1 << 40, ROWS)
    return pa.table({"k": np.arange(ROWS), "v": values, "s": [f"text {v % 1000}" for v in values]})


class Driver:
    def __init__(self, faults: str, folder: Path) -> None:
        self.faults = ctypes.CDLL(faults)
        self.faults.faults_seen.restype = ctypes.c_long
        self.faults.faults_arm.argtypes = [
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_int,
            ctypes.c_char_p,
        ]
        self.path = folder / "table.nimble"
        self.old, self.new = table(1), table(2)
        self.write(self.old)
        self.old_bytes = self.path.read_bytes()

    def write(self, rows: pa.Table) -> None:
        nb.write(
            rows,
            self.path,
            cluster_by="k",
            presorted=True,
            indexes=[nb.HashIndex(["v"])],
            options=OPTIONS,
        )

    def child(self, work: Callable[[], int]) -> int:
        """The status of a child that did this: minus the signal that ended it, or its exit code."""
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                code = work()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def count(self) -> int:
        read_end, write_end = os.pipe()

        def work() -> int:
            self.faults.faults_arm(DIE_BEFORE, 0, 0, b"")  # counts only
            self.write(self.old)
            os.write(write_end, str(self.faults.faults_seen()).encode())
            return 0

        assert self.child(work) == 0
        return int(os.read(read_end, 100))

    def state(self) -> str:
        """Which of the two files is there, looked at in full; anything else is torn."""
        if self.path.read_bytes() == self.old_bytes:
            return "old"
        with nb.open(self.path, verify="full") as file:
            return "new" if file.to_table().equals(self.new) else "torn"

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path.parent))

    def kill(self, mode: int, n: int) -> dict[str, Any]:
        def work() -> int:
            self.faults.faults_arm(mode, n, 0, b"")
            self.write(self.new)
            return 0

        status = self.child(work)
        found = {"mode": mode, "n": n, "status": status, "state": self.state()}
        found["strange"] = [
            name for name in self.names() if not name.endswith((".nimble", ".nimble-tmp"))
        ]
        assert self.child(lambda: self.write(self.old) or 0) == 0
        found["left"] = [name for name in self.names() if name != self.path.name]
        return found

    def fail(self, call: str, number: int, mode: int, n: int) -> dict[str, Any]:
        read_end, write_end = os.pipe()

        def work() -> int:
            self.faults.faults_arm(mode, n, number, call.encode())
            told = "nothing"
            try:
                self.write(self.new)
            except OSError as error:
                told = f"{errno.errorcode.get(error.errno or 0)}: {error}"
            self.faults.faults_arm(0, 0, 0, b"")
            os.write(write_end, told.encode())
            return 0

        status = self.child(work)
        os.close(write_end)
        told = os.read(read_end, 10_000).decode()
        os.close(read_end)
        found = {
            "call": call,
            "n": n,
            "mode": mode,
            "status": status,
            "told": told,
            "state": self.state(),
            "left": [name for name in self.names() if name != self.path.name],
        }
        self.child(lambda: self.write(self.old) or 0)
        return found


def main() -> None:
    faults, folder, most = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    driver = Driver(faults, folder)
    calls = driver.count()
    step = max(1, -(-2 * calls // most)) if most else 1
    kills = [
        driver.kill(mode, n)
        for n in range(1, calls + 1)
        for mode in (DIE_BEFORE, DIE_AFTER)
        if (2 * n + mode) % step == 0 or n > calls - 8
    ]
    faults_of = [
        ("write", errno.ENOSPC, FAIL, 1),
        ("write", errno.EIO, FAIL, 1),
        ("write", 0, SHORT, 1),
        ("fsync", errno.EIO, FAIL, 1),  # of the file
        ("fsync", errno.EIO, FAIL, 2),  # of the directory, after the rename
        ("rename", errno.EACCES, FAIL, 1),
        ("open", errno.EROFS, FAIL, 1),
    ]
    failures = [driver.fail(*fault) for fault in faults_of]
    print(json.dumps({"calls": calls, "kills": kills, "failures": failures}))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
