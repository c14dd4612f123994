"""`python -m bench.vectors`: nearest rows beside faiss and Lance, and the table of the bars.

python -m bench.vectors                     all sets; needs faiss-cpu, pylance,
                                            opencv-python-headless, scikit-image and wordllama
python -m bench.vectors --sets random128    some sets
python -m bench.vectors --peers none        nimblepy alone
python -m bench.vectors --seeds 5,6,7       other choices of rows and queries too
python -m bench.vectors --large 1000000x768 the build and a query of a large file, alone; needs
                                            7 GB of disk in TMPDIR

Times are processor time, so that other processes disturb them less. Searches of all systems take
turns in one process; the figure is the least of three turns over the queries. Recall is the share
of the 10 nearest rows of held-out queries, by distances in float64.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "LANCE_CPU_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import nimblepy as nb  # noqa: E402
from bench.vectors.peers import Peer, Search, faiss_peers, lance_peer, recall_of  # noqa: E402
from bench.vectors.sets import SETS, K, Matrix, Set, as_table, make_set, truth  # noqa: E402

TURNS = 3
COLD_TURNS = 5
Figures = dict[str, float]
# Name of the bar, figure, limit, and whether the figure must be at least the limit.
BARS = [
    ("1 default query, to the best faiss IVF", "us / faiss IVF", 0.9, False),
    ("1 the same, to the best of four faiss", "us / faiss", 1.2, False),
    ("2 default query, to Lance IVF_RQ", "us / Lance", 0.06, False),
    ("3 recall of held-out queries", "recall", 0.95, True),
    ("4 build, to faiss IVF,PQ4fs", "build / faiss", 0.6, False),
    ("4 build, to Lance IVF_RQ", "build / Lance", 0.35, False),
    ("5 bytes, to the vectors", "bytes / vectors", 0.07, False),
    ("5 bytes, to Lance IVF_RQ", "bytes / Lance", 0.35, False),
    *[
        bar
        for part in ("1 %", "10 %", "50 %")
        for bar in (
            (f"6 filter of {part}: recall", f"recall {part}", 0.95, True),
            (f"6 filter of {part}, to Lance", f"{part} / Lance", 0.1, False),
        )
    ],
    ("7 one tenant by prefix: recall", "recall tenant", 1.0, True),
    ("7 one tenant by prefix, to Lance", "tenant / Lance", 0.04, False),
    ("8 cold first query, to Lance", "cold / Lance", 0.35, False),
    ("8 cold first query, to faiss read_index", "cold / faiss", 0.7, False),
    ("9 rounds after open and directory", "rounds", 3, False),
    ("10 recall of 10 files", "recall 10 files", 0.95, True),
    ("10 recall of 100 files", "recall 100 files", 0.95, True),
    ("10 10 files, to one", "10 files / one", 2.2, False),
    ("10 100 files, to one", "100 files / one", 7, False),
]


def say(data: Set, what: str, text: str) -> None:
    print(f"{data.name:12} {what:30} {text}", flush=True)


def in_turns(searches: dict[str, Search], queries: dict[str, Matrix]) -> dict[str, float]:
    """Microseconds of processor time per query, by name."""
    least = dict.fromkeys(searches, float("inf"))
    for _ in range(TURNS):
        for name, search in searches.items():
            begun = time.process_time()
            for q in queries[name]:
                search(q)
            spent = time.process_time() - begun
            least[name] = min(least[name], 1e6 * spent / len(queries[name]))
    return least


def write_nimble(data: Set, folder: Path) -> tuple[Path, float, int]:
    """Returns the file, and the processor seconds and the bytes of its vector index."""
    table, path = as_table(data), folder / f"{data.name}.nimble"
    options = nb.WriteOptions(threads=1)
    keys: list[str] = ["tenant", "id"]
    times = []
    for indexes in ([], [nb.VectorIndex("v", metric=data.metric)]):  # type: ignore[arg-type]
        begun = time.process_time()
        nb.write(table, path, cluster_by=keys, indexes=indexes, options=options)
        times.append(time.process_time() - begun)
    with nb.open(path) as f:
        size = next(i.size_bytes for i in f.indexes if i.kind == "vector")
    return path, times[1] - times[0], size


def nimble_searches(f: Any) -> dict[str, Search]:
    def search(q: Matrix, **arguments: Any) -> Any:
        return f.nearest(q, K, columns=["id"], **arguments)["id"].to_numpy()

    return {
        "all": search,
        "1 %": lambda q: search(q, filter="bucket < 1"),
        "10 %": lambda q: search(q, filter="bucket < 10"),
        "50 %": lambda q: search(q, filter="bucket < 50"),
        "tenant": lambda q: search(q, prefix=3),
    }


def wanted_of(data: Set, what: str) -> list[set[int]]:
    if what == "all":
        return truth(data)
    if what == "tenant":
        return truth(data, data.tenant == 3)
    return truth(data, data.bucket < int(what.split()[0]))


def split(data: Set, folder: Path, files: int) -> Any:
    """The same rows in several files."""
    place, table = folder / f"{data.name}-{files}", as_table(data)
    place.mkdir()
    step = -(-len(data.rows) // files)
    index = nb.VectorIndex("v", metric=data.metric)  # type: ignore[arg-type]
    for i in range(files):
        part = table.slice(i * step, step)
        nb.write(part, place / f"{i:03}.nimble", cluster_by=["tenant", "id"], indexes=[index])
    return nb.open_dataset(place)


def rounds(path: Path, data: Set) -> float:
    """The most rounds of reads of a search without a mapping."""
    with nb.open(path, mmap=False) as f:
        f.nearest(data.queries[0], K, columns=["id"])
        most = 0
        for q in data.queries[1:21]:
            f.reset_io_stats()
            f.nearest(q, K, columns=["id"])
            most = max(most, f.io_stats.rounds)
    return most


def cold(data: Set, folder: Path, paths: dict[str, tuple[Path, int]]) -> dict[str, float]:
    """Median milliseconds of the first query of processes whose files are not in memory.

    Args:
        paths: each system's file, and the setting of its search.
    """
    queries = folder / "queries.npy"
    np.save(queries, data.queries)
    found: dict[str, list[float]] = {kind: [] for kind in paths}
    for _ in range(COLD_TURNS):
        for kind, (path, setting) in paths.items():
            script = Path(__file__).with_name("cold.py")
            core = sys.modules["nimblepy._core"].__file__
            done = subprocess.run(
                [sys.executable, script, str(core), kind, path, queries, str(setting)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                capture_output=True,
                text=True,
                check=True,
            )
            found[kind].append(float(done.stdout))
    return {kind: statistics.median(values) for kind, values in found.items()}


def measure(data: Set, folder: Path, peers: str) -> Figures:
    path, build, size = write_nimble(data, folder)
    figures: Figures = {"rounds": rounds(path, data)}
    if data.rows.shape[1] >= 128:
        figures["bytes / vectors"] = size / data.rows.nbytes
    others: list[Peer] = faiss_peers(data, folder) if "faiss" in peers else []
    lance = lance_peer(data, folder) if "lance" in peers else None
    with nb.open(path) as f, split(data, folder, 10) as ten, split(data, folder, 100) as hundred:
        searches = nimble_searches(f)
        searches["10 files"] = nimble_searches(ten)["all"]
        searches["100 files"] = nimble_searches(hundred)["all"]
        unit = data.queries
        if data.metric == "cosine":
            unit = unit / np.linalg.norm(unit, axis=1)[:, None]
        timed = dict.fromkeys(searches, data.queries[:100])
        for name, search in searches.items():
            wanted = wanted_of(data, "all" if "files" in name else name)
            recall = recall_of(search, data.queries, wanted)
            figures["recall" if name == "all" else f"recall {name}"] = recall
        everything = dict(searches)
        for peer in others:
            everything[peer.name] = peer.searches["all"].search
            timed[peer.name] = unit[:100]
        for name, setting in lance.searches.items() if lance else ():
            everything[f"Lance {name}"] = setting.search
            timed[f"Lance {name}"] = data.queries[:20]
        us = in_turns(everything, timed)
    for name in searches:
        recall = figures["recall" if name == "all" else f"recall {name}"]
        say(data, f"nimblepy {name}", f"{us[name]:9,.0f} us  recall {recall:.3f}")
    say(data, "nimblepy build", f"{build:.2f} s  {size / len(data.rows):.0f} bytes a row")
    for peer in others:
        recall = peer.searches["all"].recall
        say(data, peer.name, f"{us[peer.name]:9,.0f} us  recall {recall:.3f}")
        each = peer.size / len(data.rows)
        say(data, "  build", f"{peer.build:.2f} s  {each:.0f} bytes a row")
    figures["10 files / one"] = us["10 files"] / us["all"]
    figures["100 files / one"] = us["100 files"] / us["all"]
    good = [p for p in others if p.searches["all"].recall >= 0.95]
    ivf = [us[p.name] for p in good if "IVF" in p.name]
    if ivf:
        figures["us / faiss IVF"] = us["all"] / min(ivf)
    if good:
        figures["us / faiss"] = us["all"] / min(us[p.name] for p in good)
    if others:
        figures["build / faiss"] = build / others[0].build
    if lance:
        for name, setting in lance.searches.items():
            what = f"Lance {name}"
            say(data, what, f"{us[what]:9,.0f} us  recall {setting.recall:.3f}")
            key = "us / Lance" if name == "all" else f"{name} / Lance"
            figures[key] = us[name] / us[what]
        each = lance.size / len(data.rows)
        say(data, "  build", f"{lance.build:.2f} s  {each:.0f} bytes a row")
        figures["build / Lance"] = build / lance.build
        figures["bytes / Lance"] = size / lance.size
    paths = {"nimble": (path, 0)}  # the default
    for peer in others:
        if "SQ8" in peer.name and "IVF" in peer.name:
            file = folder / f"{data.name}.IVF{int(2 * len(data.rows) ** 0.5)}.faiss"
            paths["faiss"] = file, peer.searches["all"].value
    if lance:
        paths["lance"] = folder / f"{data.name}.lance", lance.searches["all"].value
    if len(paths) > 1:
        ms = cold(data, folder, paths)
        say(data, "cold first query", "  ".join(f"{k} {v:.1f} ms" for k, v in ms.items()))
        if others:
            figures["cold / faiss"] = ms["nimble"] / ms["faiss"]
        if lance:
            figures["cold / Lance"] = ms["nimble"] / ms["lance"]
    return figures


def print_bars(figures: dict[str, Figures]) -> None:
    """Prints a Markdown table: a row per bar, a column per set. A figure in ** misses its bar."""
    print("\n| bar | limit | " + " | ".join(figures) + " |")
    print("|---" * (2 + len(figures)) + "|")
    for name, key, limit, is_least in BARS:
        cells = []
        for each in figures.values():
            value = each.get(key)
            text = "" if value is None else f"{value:.3g}"
            if value is not None and (value < limit if is_least else value > limit):
                text = f"**{text}**"
            cells.append(text)
        sign = ">=" if is_least else "<="
        print(f"| {name} | {sign} {limit:g} | " + " | ".join(cells) + " |")


def large(rows: int, width: int, threads: int) -> None:
    """Builds one large file of generated rows in batches, and asks it for neighbours."""
    step = max(1, (1 << 22) // width)
    fixed = np.random.default_rng(3)
    broad = fixed.normal(size=(1000, width)).astype("f4")

    def make(count: int, seed: int) -> Matrix:
        random = np.random.default_rng(seed)
        x = random.normal(size=(count, width)).astype("f4")
        return x + broad[random.integers(0, 1000, count)]

    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), width))])

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(0, rows, step):
            x = make(min(step, rows - at), at + 10)
            column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), width)
            yield pa.record_batch([np.arange(at, at + len(x)), column], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nimble"
        wall, begun = time.perf_counter(), time.process_time()
        options = nb.WriteOptions(threads=threads)
        nb.write(reader, path, cluster_by="id", indexes=[nb.VectorIndex("v")], options=options)
        wall, spent = time.perf_counter() - wall, time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        queries = make(200, 1)
        with nb.open(path) as f:
            us = in_turns({"all": lambda q: f.nearest(q, K, columns=["id"])}, {"all": queries})[
                "all"
            ]
            hits = f.nearest(queries[:20], K, columns=["id"])["id"].to_numpy().reshape(20, K)
            exact = f.nearest(queries[:20], K, columns=["id"], exact=True)["id"].to_numpy()
        exact = exact.reshape(20, K)
        share = sum(len({*a} & {*b}) for a, b in zip(hits.tolist(), exact.tolist(), strict=True))
    print(
        f"{rows:,} x {width}: written with {threads} threads in {wall:.0f} s, {spent:.0f} s of "
        f"processor, peak memory {peak:.2f} GiB; a default query {us / 1000:.2f} ms of one "
        f"thread; recall of 20 queries {share / (20 * K):.3f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.vectors",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument(
        "--queries", type=int, default=500, help="for recall; 100 of them are timed"
    )
    parser.add_argument(
        "--seeds", default="5", help="of the choice of rows and queries; 5,6,7 runs all sets thrice"
    )
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets; all by default")
    parser.add_argument("--peers", default="faiss,lance", help="faiss, lance, both, or none")
    parser.add_argument("--large", help="ROWSxWIDTH: build such a file, and nothing else")
    parser.add_argument("--threads", type=int, default=2, help="for --large")
    options = parser.parse_args()
    if options.large:
        rows, width = map(int, options.large.split("x"))
        large(rows, width, options.threads)
        return 0
    figures = {}
    seeds = options.seeds.split(",")
    for name in options.sets.split(","):
        for seed in seeds:
            data = make_set(name, options.rows, options.queries, int(seed))
            text = f"{len(data.rows):,} rows of {data.rows.shape[1]}, {data.metric}, seed {seed}"
            say(data, "set", text)
            column = name if len(seeds) == 1 else f"{name} {seed}"
            with tempfile.TemporaryDirectory() as folder:
                figures[column] = measure(data, Path(folder), options.peers)
    print_bars(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
