"""`python -m bench.vectors`: nearest rows beside faiss and Lance, in one process, in turns.

python -m bench.vectors                    two generated sets; needs faiss-cpu and pylance
python -m bench.vectors --rows 20000       a smaller run
python -m bench.vectors --peers none       nimblepy alone

Times are processor time, so that other processes disturb them less: of 100 queries, the least of
three turns. Recall is the share of the 10 nearest rows, by distances in float64, of held-out
queries.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "LANCE_CPU_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import nimblepy as nb  # noqa: E402
from bench.vectors.sets import K, Matrix, Set, as_table, make_sets, truth  # noqa: E402

TURNS = 3
WANTED = 0.95
Search = Callable[[Matrix], Any]


def measure(search: Search, queries: Matrix, wanted: list[set[int]]) -> tuple[float, float]:
    """(microseconds of processor time per query, recall)."""
    hits = [set(map(int, search(q))) for q in queries]
    recall = sum(len(a & b) for a, b in zip(hits, wanted, strict=True)) / (K * len(wanted))
    least = float("inf")
    for _ in range(TURNS):
        begun = time.process_time()
        for q in queries:
            search(q)
        least = min(least, time.process_time() - begun)
    return 1e6 * least / len(queries), recall


def cheapest(
    settings: list[Any], make: Callable[[Any], Search], data: Set, wanted: list[set[int]]
) -> tuple[float, float, Any]:
    """The first setting, of ascending cost, whose recall is enough."""
    result: tuple[float, float, Any] = (0.0, 0.0, None)
    for setting in settings:
        search = make(setting)
        hits = [set(map(int, search(q))) for q in data.queries]
        recall = sum(len(a & b) for a, b in zip(hits, wanted, strict=True)) / (K * len(wanted))
        if recall >= WANTED or setting == settings[-1]:
            return (*measure(search, data.queries, wanted), setting)
    return result


def say(name: str, what: str, text: str) -> None:
    print(f"{name:12} {what:28} {text}", flush=True)


def shown(result: tuple[Any, ...]) -> str:
    return f"{result[0]:9,.0f} us  recall {result[1]:.3f}" + (
        f"  at {result[2]}" if len(result) > 2 else ""
    )


def run_nimble(data: Set, folder: Path) -> None:
    table = as_table(data)
    path = folder / f"{data.name}.nimble"
    options = nb.WriteOptions(threads=1)
    keys: list[str] = ["tenant", "id"]
    begun = time.process_time()
    nb.write(table, folder / "plain.nimble", cluster_by=keys, options=options)
    middle = time.process_time()
    index = nb.VectorIndex("v", metric=data.metric)  # type: ignore[arg-type]
    nb.write(table, path, cluster_by=keys, indexes=[index], options=options)
    end = time.process_time()
    with nb.open(path) as f:
        size = next(i.size_bytes for i in f.indexes if i.kind == "vector")
        say(data.name, "nimblepy build", f"{(end - middle) - (middle - begun):.2f} s of processor")
        say(data.name, "nimblepy bytes", f"{100 * size / data.rows.nbytes:.1f} % of the vectors")

        def search(q: Matrix, **arguments: Any) -> Any:
            return f.nearest(q, K, columns=["id"], **arguments)["id"].to_numpy()

        wanted = truth(data)
        say(data.name, "nimblepy default", shown(measure(search, data.queries, wanted)))
        for percent in (1, 10, 50):
            near = truth(data, data.bucket < percent)
            done = measure(
                lambda q, p=percent: search(q, filter=f"bucket < {p}"), data.queries, near
            )
            say(data.name, f"nimblepy filter {percent} %", shown(done))
        near = truth(data, data.tenant == 3)
        done = measure(lambda q: search(q, prefix=3), data.queries, near)
        say(data.name, "nimblepy tenant", shown(done))
    with nb.open(path, mmap=False) as f:
        f.nearest(data.queries[0], K, columns=["id"])
        f.reset_io_stats()
        f.nearest(data.queries[1], K, columns=["id"])
        say(data.name, "nimblepy rounds", f"{f.io_stats.rounds} of {f.io_stats.bytes_read:,} bytes")
    lake = nb.connect(folder / data.name)
    stored = lake.create_table("a.b", table.schema, primary_key="id", indexes=[index])
    stored.append(table)
    stored.delete("bucket < 10")
    left = truth(data, data.bucket >= 10)
    done = measure(
        lambda q: stored.nearest(q, K, columns=["id"])["id"].to_numpy(), data.queries, left
    )
    say(data.name, "nimblepy 10 % deleted", shown(done))
    for files in (10, 100):
        split = folder / f"{data.name}-{files}"
        split.mkdir()
        step = -(-len(data.rows) // files)
        for i in range(files):
            part = table.slice(i * step, step)
            nb.write(part, split / f"{i:03}.nimble", cluster_by=keys, indexes=[index])
        with nb.open_dataset(split) as d:
            done = measure(
                lambda q, d=d: d.nearest(q, K, columns=["id"])["id"].to_numpy(),
                data.queries,
                wanted,
            )
            say(data.name, f"nimblepy {files} files", shown(done))


def run_faiss(data: Set) -> None:
    import faiss

    faiss.omp_set_num_threads(1)
    x = data.rows.copy()
    queries = data.queries.copy()
    if data.metric == "cosine":
        faiss.normalize_L2(x)
        faiss.normalize_L2(queries)
    wanted = truth(data)
    unit = Set(data.name, data.metric, data.rows, queries, data.bucket, data.tenant)
    lists, width = int(2 * len(x) ** 0.5), x.shape[1]
    probes = [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    for text, settings in (
        (f"IVF{lists},PQ{width // 4}x4fs,RFlat", probes),
        (f"RR,IVF{lists},RaBitQ,RFlat", probes),
        (f"IVF{lists},SQ8", probes),
        ("HNSW16,SQ8", [16, 32, 64, 128, 256]),
    ):
        begun = time.process_time()
        try:
            index = faiss.index_factory(width, text)
        except RuntimeError as error:
            say(data.name, f"faiss {text}", f"not built: {error}")
            continue
        index.train(x)
        index.add(x)
        built = time.process_time() - begun
        size = len(faiss.serialize_index(index))
        if "RFlat" in text:
            size -= x.nbytes  # the vectors themselves

        def make(setting: int, index: Any = index, text: str = text) -> Search:
            if "RFlat" in text:
                index.k_factor = 10
            inner = faiss.downcast_index(index.base_index) if "RFlat" in text else index
            if text.startswith("RR"):
                inner = faiss.downcast_index(inner.index)
            if text.startswith("HNSW"):
                inner.hnsw.efSearch = setting
            else:
                inner.nprobe = setting
            return lambda q: index.search(q[None], K)[1][0]

        say(data.name, f"faiss {text}", shown(cheapest(settings, make, unit, wanted)))
        say(data.name, "  build, bytes", f"{built:.2f} s, {100 * size / x.nbytes:.1f} %")


def run_lance(data: Set, folder: Path) -> None:
    import lance

    table = as_table(data)
    stored = lance.write_dataset(table, folder / f"{data.name}.lance")
    lists = int(2 * len(data.rows) ** 0.5)
    begun = time.process_time()
    stored = stored.create_index(
        "v", "IVF_RQ", metric=data.metric, num_partitions=lists, num_bits=1
    )
    built = time.process_time() - begun
    stored.create_scalar_index("bucket", "BTREE")
    stored.create_scalar_index("tenant", "BTREE")
    size = sum(
        p.stat().st_size
        for p in (folder / f"{data.name}.lance" / "_indices").rglob("*")
        if p.is_file()
    )
    say(data.name, "lance build, bytes", f"{built:.2f} s, {100 * size / data.rows.nbytes:.1f} %")

    def make(setting: int, filter: str | None = None) -> Search:
        def search(q: Matrix) -> Any:
            nearest = {"column": "v", "q": q, "k": K, "nprobes": setting, "refine_factor": 5}
            return stored.to_table(
                columns=["id"], nearest=nearest, filter=filter, prefilter=filter is not None
            )["id"].to_numpy()

        return search

    probes = [4, 8, 16, 32, 64, 128, 256]
    say(data.name, "lance IVF_RQ", shown(cheapest(probes, make, data, truth(data))))
    for percent in (1, 10, 50):
        near = truth(data, data.bucket < percent)
        done = cheapest(probes, lambda s, p=percent: make(s, f"bucket < {p}"), data, near)
        say(data.name, f"lance filter {percent} %", shown(done))
    near = truth(data, data.tenant == 3)
    done = cheapest(probes, lambda s: make(s, "tenant = 3"), data, near)
    say(data.name, "lance tenant", shown(done))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.vectors",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sets", help="names of sets; all by default")
    parser.add_argument("--peers", default="faiss,lance", help="faiss, lance, both, or none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for data in make_sets(options.rows):
            if options.sets and data.name not in options.sets.split(","):
                continue
            run_nimble(data, Path(folder))
            if "faiss" in options.peers:
                run_faiss(data)
            if "lance" in options.peers:
                run_lance(data, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
