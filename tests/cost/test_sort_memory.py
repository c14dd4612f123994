"""Sorting stays within its budget and a constant, however many rows there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: what a process once held, its high-water mark keeps.
PROGRAM = """
import sys
import numpy as np, pyarrow as pa
import nimblepy as nb

def high_water():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

path, rows, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(1)
batch = 1 << 15

def some():
    keys = random.integers(0, 1 << 60, batch)
    texts = pa.array([f"{k:020d}" for k in keys])
    return pa.table({"k": keys, "t": texts, "x": random.random(batch)})

piece = some()
options = nb.WriteOptions(sort_memory_bytes=budget, threads=1)
before = high_water()
with nb.Writer(path, piece.schema, cluster_by="k", options=options) as writer:
    for _ in range(rows // batch):
        writer.write(piece.set_column(0, "k", pa.array(random.integers(0, 1 << 60, batch))))
print(high_water() - before)
"""


@pytest.mark.slow
@pytest.mark.no_sanitizer
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sorting_grows_by_its_budget_and_a_constant(path: str) -> None:
    budget = 32 << 20
    command = [sys.executable, "-c", PROGRAM, path, str(1_500_000), str(budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Besides: a stripe and its encoded form, a group's keys, buffers of files.
    assert int(done.stdout) < budget + (64 << 20)
