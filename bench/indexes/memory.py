"""Peak memory of building a hash index, each build in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import numpy as np, pyarrow as pa, nimblepy as nb

path, rows, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = nb.WriteOptions(
    compression="fast", index_memory_bytes=max(budget, 1 << 20), statistics=False, threads=1
)
indexes = [nb.HashIndex("k")] if budget else []
schema = pa.schema([("k", pa.int64())])
with nb.Writer(path, schema, indexes=indexes, options=options) as writer:
    for begin in range(0, rows, 1 << 17):
        keys = np.arange(begin, min(rows, begin + (1 << 17)), dtype=np.uint64)
        keys *= np.uint64(0x9E3779B97F4A7C15)
        writer.write(pa.record_batch([pa.array(keys.view(np.int64))], schema=schema))
# not ru_maxrss, which begins with what the process that started this one had
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def peak_bytes(path: Path, rows: int, budget: int) -> int:
    """Most memory of a process that writes so many keys; ``budget`` 0 builds no index."""
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(rows), str(budget)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(out.stdout) * 1024
