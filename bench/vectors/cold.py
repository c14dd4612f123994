"""One cold query in a process of its own: prints the milliseconds of opening and searching.

python cold.py CORE nimble|lance|faiss PATH QUERIES SETTING

SETTING is the number of lists that lance and faiss probe.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path


def forget(path: Path) -> None:
    """Drops a file, or the files of a folder, from the page cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def main() -> None:
    core, kind, name, queries, setting = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("nimblepy._core", core)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nimblepy._core"] = module
    spec.loader.exec_module(module)
    import numpy as np

    query = np.load(queries)[0]
    path = Path(name)
    if kind == "nimble":
        import pyarrow as pa

        import nimblepy as nb

        # Modules are imported at their first use.
        small = pa.table({"id": [1], "v": pa.array([[1.0]], pa.list_(pa.float32(), 1))})
        nb.write(small, path.with_name("small.nimble"))
        with nb.open(path.with_name("small.nimble")) as f:
            f.nearest([1.0], 1, columns=["id"])
        forget(path)
        begun = time.perf_counter()
        with nb.open(path) as f:
            f.nearest(query, 10, columns=["id"])
    elif kind == "lance":
        import lance

        forget(path)
        begun = time.perf_counter()
        nearest = {"column": "v", "q": query, "k": 10, "nprobes": int(setting)}
        nearest["refine_factor"] = 5
        lance.dataset(path).to_table(columns=["id"], nearest=nearest)
    else:
        import faiss

        forget(path)
        begun = time.perf_counter()
        index = faiss.read_index(str(path))
        index.nprobe = int(setting)
        index.search(query[None], 10)
    print(1000 * (time.perf_counter() - begun))


if __name__ == "__main__":
    main()
