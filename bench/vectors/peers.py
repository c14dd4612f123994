"""faiss and Lance: indexes over a set, and searches at the cheapest setting that is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.vectors.sets import K, Matrix, Set, as_table, normalized, truth

WANTED = 0.95
SETTING_QUERIES = 100  # settings of peers are chosen with these
Search = Callable[[Matrix], Any]  # returns the numbers of the nearest rows


class Setting(NamedTuple):
    """A search with the lists to probe, or the like, that it is set to."""

    search: Search
    recall: float
    value: int


class Peer(NamedTuple):
    """An index of a peer.

    Attributes:
        build: seconds of processor time.
        size: bytes without the vectors.
        searches: by what is searched ("all", "1 %", ..., "tenant"). Each reaches the recall, or
            has the greatest setting.
    """

    name: str
    build: float
    size: int
    searches: dict[str, Setting]


def recall_of(search: Search, queries: Matrix, wanted: list[set[int]]) -> float:
    found = sum(len({*map(int, search(q))} & w) for q, w in zip(queries, wanted, strict=False))
    return found / sum(map(len, wanted[: len(queries)]))


def cheapest(
    settings: list[int],
    make: Callable[[int], Search],
    queries: Matrix,
    wanted: list[set[int]],
) -> Setting:
    """The search with the first setting, of ascending cost, whose recall is enough."""
    queries = queries[:SETTING_QUERIES]
    for value in settings:
        search = make(value)
        found = Setting(search, recall_of(search, queries, wanted), value)
        if found.recall >= WANTED:
            break
    return found


def faiss_peers(data: Set, folder: Path) -> list[Peer]:
    import faiss

    faiss.omp_set_num_threads(1)
    x, queries = data.rows.copy(), data.queries.copy()
    if data.metric == "cosine":
        x, queries = normalized(x).astype("f4"), normalized(queries).astype("f4")
    wanted = truth(data)
    lists, width = int(2 * len(x) ** 0.5), x.shape[1]
    probes = [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    out = []
    for text, settings in (
        (f"IVF{lists},PQ{width // 4}x4fs,RFlat", probes),
        (f"RR,IVF{lists},RaBitQ,RFlat", probes),
        (f"IVF{lists},SQ8", probes),
        ("HNSW16,SQ8", [16, 32, 64, 128, 256, 512]),
    ):
        begun = time.process_time()
        index = faiss.index_factory(width, text)
        index.train(x)
        index.add(x)
        built = time.process_time() - begun
        path = folder / f"{data.name}.{text.split(',')[0]}.faiss"
        faiss.write_index(index, str(path))
        size = path.stat().st_size - (x.nbytes if "RFlat" in text else 0)
        if not text.startswith("IVF") or "SQ8" not in text:  # cold queries read this one
            path.unlink()

        def make(setting: int, index: Any = index, text: str = text) -> Search:
            def search(q: Matrix) -> Any:
                inner = index
                if "RFlat" in text:
                    index.k_factor = 10
                    inner = faiss.downcast_index(index.base_index)
                if text.startswith("RR"):
                    inner = faiss.downcast_index(inner.index)
                if text.startswith("HNSW"):
                    inner.hnsw.efSearch = setting
                else:
                    inner.nprobe = setting
                return index.search(q[None], K)[1][0]

            return search

        found = cheapest(settings, make, queries, wanted)
        out.append(Peer(f"faiss {text}", built, size, {"all": found}))
    return out


def lance_peer(data: Set, folder: Path) -> Peer:
    import lance

    path = folder / f"{data.name}.lance"
    stored = lance.write_dataset(as_table(data), path)
    lists = int(2 * len(data.rows) ** 0.5)
    begun = time.process_time()
    stored = stored.create_index(
        "v", "IVF_RQ", metric=data.metric, num_partitions=lists, num_bits=1
    )
    built = time.process_time() - begun
    size = sum(p.stat().st_size for p in (path / "_indices").rglob("*") if p.is_file())
    stored.create_scalar_index("bucket", "BTREE")
    stored.create_scalar_index("tenant", "BTREE")

    def maker(filter: str | None) -> Callable[[int], Search]:
        def make(setting: int) -> Search:
            def search(q: Matrix) -> Any:
                nearest = {"column": "v", "q": q, "k": K, "nprobes": setting, "refine_factor": 5}
                return stored.to_table(
                    columns=["id"],
                    nearest=nearest,
                    filter=filter,
                    prefilter=filter is not None,
                    disable_scoring_autoprojection=True,
                )["id"].to_numpy()

            return search

        return make

    probes = [4, 8, 16, 32, 64, 128, 256, 512]
    searches = {"all": cheapest(probes, maker(None), data.queries, truth(data))}
    for percent in (1, 10, 50):
        near = truth(data, data.bucket < percent)
        filter = f"bucket < {percent}"
        searches[f"{percent} %"] = cheapest(probes, maker(filter), data.queries, near)
    near = truth(data, data.tenant == 3)
    searches["tenant"] = cheapest(probes, maker("tenant = 3"), data.queries, near)
    return Peer("Lance IVF_RQ", built, size, searches)
